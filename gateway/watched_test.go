package gateway

import (
	"net/url"
	"testing"
	"time"

	"failback/gateway/notify"
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

// The share table shows a step before what follows it knows: until then the step
// has no evidence, least of all that of the one before.
func TestAStepIsNotJudgedByTheOneBefore(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	five := traffic.State{Upstream: "a", FailbackID: "2026113004", Share: 5, Since: at, Revision: 1}
	next := five
	next.Share, next.Since, next.Revision = 25, at.Add(time.Minute), 2
	w := new(watched)
	w.follow(five)
	w.evidence.Serve(time.Minute)
	if window, _, ok := w.window(five); !ok || window.Served != time.Minute {
		t.Errorf("the step in force has evidence: %v, of %s", ok, window.Served)
	}
	if window, _, ok := w.window(next); ok {
		t.Errorf("the step to 25%% is judged by %s at %d%%", window.Served, window.Share)
	}
	w.follow(next)
	if window, earlier, ok := w.window(next); !ok || window.Served != 0 || len(earlier) != 1 {
		t.Errorf("the step to 25%% has evidence: %v, %s, after %d others", ok, window.Served, len(earlier))
	}
}

// Requests that began before a step tell of the step before.
func TestARequestCountsForTheStepItBeganIn(t *testing.T) {
	w := new(watched)
	before := time.Now()
	w.follow(traffic.State{Upstream: "a", Share: 100, Revision: 1})
	if !w.counts(before) {
		t.Error("without a failback requests are not counted")
	}
	// The wall clock may have been set back since the step was taken.
	w.follow(traffic.State{Upstream: "a", FailbackID: "2026113004", Share: 5, Since: before.Add(time.Hour), Revision: 2})
	if w.counts(before) {
		t.Error("a request of before the step counts")
	}
	if !w.counts(time.Now()) {
		t.Error("a request of the step does not count")
	}
	w.follow(traffic.State{Upstream: "a", FailbackID: "2026113004", Share: 5, Since: before.Add(time.Hour), Revision: 3})
	if !w.counts(time.Now()) {
		t.Error("a plan began the step anew")
	}
}

// A person is asked once for each step that waits for them.
func TestAPersonIsAskedForEachStep(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	n := notify.New(notify.Options{URL: &url.URL{Scheme: "https", Host: "hook.test"}})
	w := new(watched)
	asked := func(what string, want int) {
		t.Helper()
		w.ask(n, "a", what, at)
		if got := n.Status().Pending; got != want {
			t.Errorf("%d messages, want %d", got, want)
		}
	}
	five := traffic.State{Upstream: "a", FailbackID: "2026113004", Share: 5, Since: at, Revision: 1}
	w.follow(five)
	asked("", 0)
	asked("an operator", 1)
	asked("an operator still", 1)
	// The notifier holds the second one of a minute back, and counts it.
	five.Since, five.Revision = at.Add(time.Hour), 3
	w.follow(five)
	asked("an operator", 2)
}
