package router

import (
	"testing"

	"failback/gateway/decision"
)

// An upstream that fails in two capabilities takes the retry budget with both:
// each costs one client before it is left, and nobody who took little is.
func TestAnEmptyBudgetOpensWhatTookIt(t *testing.T) {
	inWorld(t, []candidate{{name: "a", weight: 100}, {name: "b", weight: 10}}, func(w *world) {
		w.router.Budget = NewRetryBudget(0, 12)
		bucket := func(upstream string, c decision.Capability) decision.Bucket {
			return decision.Bucket{Upstream: upstream, Capability: c}
		}
		for range 6 {
			w.router.Budget.Draw(bucket("a", decision.Stream), true)
		}
		for range 4 {
			w.router.Budget.Draw(bucket("a", decision.Text), true)
		}
		w.router.Budget.Draw(bucket("b", decision.Text), true)
		w.router.Budget.Draw(bucket("a", decision.Tools), false)
		w.stubs["a"].do(fails(503))
		for i, want := range []string{"a:overloaded", "a:overloaded", "b:ok", "b:ok"} {
			if r := w.send(request{}); r.classes() != want {
				t.Errorf("request %d: %s, want %s", i, r.classes(), want)
			}
			opened := w.events.opened("a")
			if want := min(i+1, 2); len(opened) != want {
				t.Errorf("request %d: opened %v", i, opened)
			}
		}
		if r := w.send(request{stream: true}); r.classes() != "b:ok" {
			t.Errorf("a stream: %s", r.classes())
		}
		if got := w.router.Budget.Refused(); got != 2 {
			t.Errorf("%d draws were refused", got)
		}
		// b took little, and may be what is left.
		w.stubs["b"].do(fails(503))
		if r := w.send(request{}); r.classes() != "b:overloaded" || len(w.events.opened("b")) != 0 {
			t.Errorf("%s, opened %v", r.classes(), w.events.opened("b"))
		}
	})
}
