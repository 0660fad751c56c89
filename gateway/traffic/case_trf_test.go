package traffic

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"failback/gateway/decision"
)

// TRF-01: an abort after "promote fully" takes effect within one decision.
func TestCaseTRF01AbortWins(t *testing.T) {
	table, told := open(t, "", "a")
	must(t, table, Command{Upstream: "a", Share: 25})
	s := get(t, table, "a")
	must(t, table, Command{Upstream: "a", Share: Full, Revision: &s.Revision, Override: true, Why: "promote fully"})
	told.take()
	aborted, err := table.Degrade(Degradation{Upstream: "a", By: "ben", Why: "it is not well"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if table.Admits("a", fmt.Sprintf("c-%d", i), fmt.Sprintf("r-%d", i)) {
			t.Fatal("a request is admitted after the abort")
		}
	}
	if aborted.Condition() != Degraded || aborted.Machine || aborted.Reason != "it is not well" {
		t.Errorf("%+v", aborted)
	}
	e := told.take()
	if len(e) != 2 || e[0].From != "100" || e[0].To != "0" || e[0].By != "ben" || e[1].From != "recovering" || e[1].To != "degraded" || e[1].Reason != "operator" {
		t.Errorf("told %+v", e)
	}
	// Nothing of the promotion is left to come back.
	if _, err := table.Set(Command{Upstream: "a", Share: Full, Revision: &s.Revision, Override: true, Why: "promote fully", By: "ana"}); kindOf(err) != "stale" {
		t.Errorf("the promotion again: %v", err)
	}
}

// TRF-04: neither all nor "what it was" is given to a side that is not ready.
func TestCaseTRF04NotReadyGetsNoMore(t *testing.T) {
	table, _ := open(t, "", "a")
	s := must(t, table, Command{Upstream: "a", Share: 5})
	for _, share := range []int{25, 75, Full} {
		_, err := table.Set(Command{Upstream: "a", Share: share, Revision: &s.Revision, By: "ana", BlockedBy: "breaker text is half_open"})
		var blocked *BlockedError
		if !errors.As(err, &blocked) || blocked.By == "" || blocked.Current.Share != 5 {
			t.Errorf("to %d%%: %v", share, err)
		}
	}
	if diff := cmp.Diff(s, get(t, table, "a")); diff != "" {
		t.Error(diff)
	}
}

// TRF-05: a lowering in the middle of a failback begins no second one: same
// members, same steps, and the way back goes through each of them.
func TestCaseTRF05OneFailbackAtATime(t *testing.T) {
	table, _ := open(t, "", "a", "b")
	must(t, table, Command{Upstream: "a", Share: 75})
	first := get(t, table, "a")
	table.Configure([]Step{{Share: 60}, {Share: Full}})
	must(t, table, Command{Upstream: "b", Share: 60})
	s := must(t, table, Command{Upstream: "a", Share: 5, By: "ben"})
	if s.FailbackID != first.FailbackID || s.Next() != 25 || s.Condition() != Recovering {
		t.Errorf("%+v", s)
	}
	if _, err := table.Set(Command{Upstream: "a", Share: 60, Revision: &s.Revision, By: "ana"}); kindOf(err) != "blocked" {
		t.Errorf("a step of another failback: %v", err)
	}
	// Down one may go to any share that is configured, whatever it began with.
	up(t, table, "a", 25)
	s = up(t, table, "a", 75)
	if s = must(t, table, Command{Upstream: "a", Share: 60}); s.Share != 60 || s.Next() != 75 {
		t.Errorf("%+v", s)
	}
}

// TRF-06: a step pressed twice, or by two, is taken once.
func TestCaseTRF06SecondPress(t *testing.T) {
	table, told := open(t, "", "a")
	s := must(t, table, Command{Upstream: "a", Share: 5})
	for _, collapse := range []bool{false, true} {
		seen := s.Revision
		share := s.Next()
		if collapse {
			share = Full
		}
		told.take()
		for _, by := range []string{"ana", "ana", "ben"} {
			got, err := table.Set(Command{Upstream: "a", Share: share, Revision: &seen, By: by, Collapse: collapse})
			if err != nil || got.Share != share || got.Revision != seen+1 || got.By != "ana" {
				t.Errorf("%s to %d%%: %+v, %v", by, share, got, err)
			}
		}
		if e := told.take(); len(e) != 1 {
			t.Errorf("told %+v", e)
		}
		s = get(t, table, "a")
	}
	if s.Condition() != Recovering {
		t.Errorf("%v at once", s.Condition())
	}
}

// TRF-09: an override passes one gate of one revision, with name and reason.
func TestCaseTRF09Override(t *testing.T) {
	table, told := open(t, "", "a")
	s := must(t, table, Command{Upstream: "a", Share: 0})
	seen := s.Revision
	told.take()
	c := Command{Upstream: "a", Share: 5, Revision: &seen, BlockedBy: "no data", Override: true, By: "ana"}
	if _, err := table.Set(c); kindOf(err) != "invalid" {
		t.Errorf("without a reason: %v", err)
	}
	c.Why = "vendor confirmed"
	c.By = decision.Auto
	if _, err := table.Set(c); kindOf(err) != "invalid" {
		t.Errorf("by nobody: %v", err)
	}
	c.By = "ana"
	s = must(t, table, c)
	e := told.take()
	if len(e) != 2 || e[0].Reason != "override" || e[1].Reason != "override" || e[1].To != "recovering" {
		t.Errorf("told %+v", e)
	}
	for _, e := range e {
		if e.By != "ana" || e.Why != "vendor confirmed" || e.Revision != s.Revision {
			t.Errorf("told %+v", e)
		}
	}
	c.Share = 25
	if _, err := table.Set(c); kindOf(err) != "stale" {
		t.Errorf("the next gate with the same revision: %v", err)
	}
	c.Revision, c.Override = &s.Revision, false
	if _, err := table.Set(c); kindOf(err) != "blocked" {
		t.Errorf("the next gate: %v", err)
	}
}
