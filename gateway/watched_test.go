package gateway

import (
	"testing"
	"time"

	"failback/gateway/traffic"
)

// What a crash leaves of a step counts for that step alone, not for the same
// share taken again after a retreat.
func TestKeptEvidenceIsOfOneStep(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	five := traffic.State{Upstream: "a", FailbackID: "2026113004", Share: 5, Since: at, Revision: 1}
	w := new(watched)
	w.follow(five)
	w.evidence.Serve(time.Minute)
	kept, ok := w.kept()
	if !ok {
		t.Fatal("a step has no evidence")
	}

	served := func(s traffic.State) time.Duration {
		w := new(watched)
		w.follow(s)
		w.restore(kept)
		window, _, _ := w.evidence.Step()
		return window.Served
	}
	local := five
	local.Since = at.Local()
	for _, s := range []traffic.State{five, local} {
		if got := served(s); got != time.Minute {
			t.Errorf("the step goes on with %s served", got)
		}
	}
	again := five
	again.Since, again.Revision = at.Add(time.Minute), 3
	if got := served(again); got != 0 {
		t.Errorf("the same share taken again begins with %s served", got)
	}
}

// A share that is lowered to a step it came from begins that step anew.
func TestTheSameShareAgainIsAnotherWindow(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	w := new(watched)
	for i, share := range []int{5, 25, 5} {
		w.follow(traffic.State{Upstream: "a", FailbackID: "2026113004", Share: share, Since: at.Add(time.Duration(i)), Revision: uint64(i)})
		if window, _, _ := w.evidence.Step(); window.Served != 0 || window.Share != share {
			t.Errorf("step %d to %d%% begins with %+v", i, share, window)
		}
		w.evidence.Serve(time.Minute)
	}
}
