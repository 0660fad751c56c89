package router

import (
	"testing"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/decision"
)

// Whoever would be asked as a last resort is somewhere to go: a request is not
// kept by an upstream that refuses it while another would take it.
func TestALastResortIsSomewhereToGo(t *testing.T) {
	text := decision.SetOf(decision.Text)
	for name, shut := range map[string]func(*world){
		"open for weight": func(w *world) { w.router.Breakers.Group("b", text).Trip(decision.Weight, "test") },
		"slowed down after a 429": func(w *world) {
			var p breaker.Permit
			if why := w.router.Breakers.Group("b", text).Acquire(&p, breaker.Ask{Model: "model-b"}); why != "" {
				t.Fatal(why)
			}
			p.Done(decision.Outcome{Class: decision.RateLimited, Status: 429})
		},
	} {
		for _, status := range []int{429, 503} {
			inWorld(t, two(), func(w *world) {
				shut(w)
				w.stubs["a"].do(fails(status))
				w.stubs["b"].do(ok("answer of b"))
				r := w.send(request{})
				if r.Status != decision.DegradedCompleted || len(r.Attempts) != 2 || r.took > 100*time.Millisecond {
					t.Errorf("%s, %d: %s, %s in %s", name, status, r.Status, r.classes(), r.took)
				}
			})
		}
	}
}
