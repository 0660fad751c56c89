package router

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/policy"
)

// An opening for retry_budget sends elsewhere whom somebody else may serve,
// and binds nobody else, as the other openings of its kind.
func TestAnOpeningForTheRetryBudgetMovesRequests(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.router.Breakers.Group("a", decision.SetOf(decision.Text)).Trip(decision.RetryBudget, "test")
		if r := w.send(request{}); r.Selected != "b" || r.Reason != decision.RetryBudget {
			t.Errorf("%s %s", r.Selected, r.Reason)
		}
		if r := w.send(request{task: policyTask(policy.Never)}); r.Selected != "a" || r.Status != decision.Completed {
			t.Errorf("never: %s %s", r.Selected, r.Status)
		}
	})
}

// What a task's own deadline cuts is nobody's fault, but no wish of the caller
// either: it is an end without an answer like any other.
func TestATasksDeadlineIsNotTheCallers(t *testing.T) {
	task := policy.Task{Name: "t", Fallback: policy.Any, Deadline: 5 * time.Second}
	inWorld(t, []candidate{{name: "a", weight: 100}}, func(w *world) {
		w.stubs["a"].do(hang)
		for range 8 {
			r := w.send(request{task: task})
			if r.Status != decision.Unavailable || r.Reason != decision.ReasonOf(decision.AttemptTimeout) || r.end.Ending.HTTPStatus != 504 {
				t.Errorf("task: %s %s %d", r.Status, r.Reason, r.end.Ending.HTTPStatus)
			}
		}
		if opened := w.events.opened("a"); len(opened) != 0 {
			t.Errorf("opened %v", opened)
		}
		r := w.send(request{task: task, deadline: 4 * time.Second})
		if r.Status != decision.Cancelled || r.Reason != decision.ReasonOf(decision.CallerDeadline) {
			t.Errorf("caller: %s %s", r.Status, r.Reason)
		}
	})
}

// A limit that is there to try another candidate is none for a request that
// no other could be given afterwards.
func TestSideEffectsAreNotCutForNobody(t *testing.T) {
	refund := policy.Task{Name: "refund", Fallback: policy.SameModel, SideEffects: true}
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(okAfter(40*time.Second, "late"))
		if r := w.send(request{stream: true, task: refund}); r.Status != decision.Completed {
			t.Errorf("without an id: %s %s: %s", r.Status, r.Reason, r.classes())
		}
		if r := w.send(request{stream: true, task: refund, operation: true}); r.Selected != "b" {
			t.Errorf("with an id: %s %s: %s", r.Status, r.Reason, r.classes())
		}
	})
}

// A response that a substitute made does not let a task in that takes none.
func TestABoundRequestKeepsItsTasksRules(t *testing.T) {
	inWorld(t, three(), func(w *world) {
		w.router.Bindings.Put("resp_b", "b")
		w.router.Bindings.Put("resp_c", "c")
		for _, tc := range []struct {
			fallback policy.Fallback
			id, want string
		}{
			{policy.Any, "resp_c", "c"},
			{policy.SameModel, "resp_b", "b"},
			{policy.SameModel, "resp_c", ""},
			{policy.Never, "resp_c", ""},
		} {
			r := w.send(request{task: policyTask(tc.fallback), bound: []string{tc.id}})
			if r.Selected != tc.want || tc.want == "" && r.Reason != decision.NotAllowed {
				t.Errorf("%s %s: %q %s", tc.fallback, tc.id, r.Selected, r.Reason)
			}
		}
	})
}

// A request that is larger than every context is its caller's mistake, told
// without asking anybody. An image's bytes are no tokens.
func TestContextLength(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		for _, c := range w.cands {
			c.ContextTokens = 10_000
		}
		text := strings.Repeat("word ", 40_000)
		r := w.send(request{body: `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`})
		if r.Status != decision.Rejected || r.Reason != decision.ReasonOf(decision.ContextLength) || r.end.Ending.HTTPStatus != 400 || len(r.Attempts) != 0 {
			t.Errorf("%s %s %d", r.Status, r.Reason, r.end.Ending.HTTPStatus)
		}
		image := strings.Repeat("QUJD", 50_000)
		r = w.send(request{body: `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + image + `"}}]}]}`})
		if r.Status != decision.Completed {
			t.Errorf("image: %s %s", r.Status, r.Reason)
		}
	})
}

// What is rejected does not fill the retry budget.
func TestRejectedRequestsDoNotFillTheRetryBudget(t *testing.T) {
	inWorld(t, []candidate{{name: "a", weight: 100}}, func(w *world) {
		w.stubs["a"].do(errorCode(400, "invalid_value"))
		for range 50 {
			w.send(request{})
		}
		if _, size := w.router.Budget.Available(); size != 10 {
			t.Errorf("after 50 rejected requests the budget is %v", size)
		}
		w.stubs["a"].do(ok("a"))
		for range 50 {
			w.send(request{})
		}
		if _, size := w.router.Budget.Available(); size != 20 {
			t.Errorf("after 50 more that were answered it is %v", size)
		}
	})
}

// A client that left in the middle of a drained answer did not get it; one
// that left after the end did.
func TestWhoLeavesAfterTheEndWasServed(t *testing.T) {
	inWorld(t, []candidate{{name: "a", weight: 100}}, func(w *world) {
		w.plan.Drains = 10
		for _, leaves := range []bool{false, true} {
			ctx, cancel := context.WithCancel(w.t.Context())
			out := &recorded{}
			out.onWrite = cancel
			if leaves {
				w.stubs["a"].do(func(rw http.ResponseWriter, r *http.Request) {
					head(rw)
					chunk(rw, "one")
					pause(r.Context(), time.Second)
					finish(rw)
				})
			}
			r := w.send(request{stream: leaves, ctx: ctx, out: out})
			want := decision.Completed
			if leaves {
				want = decision.Cancelled
			}
			if r.Status != want {
				t.Errorf("leaves midway %t: %s %s", leaves, r.Status, r.Reason)
			}
			cancel()
		}
	})
}

// Where an attempt that would have drawn nothing is not made after all, the
// one that is made instead draws.
func TestAFreeAttemptIsNotHandedOn(t *testing.T) {
	inWorld(t, []candidate{{name: "a", weight: 100, keys: []string{"k1", "k2"}}, {name: "b", weight: 80}}, func(w *world) {
		w.plan.SwitchOnCredential = true
		w.router.Budget.Configure(0, 10)
		w.stubs["a"].do(func(rw http.ResponseWriter, r *http.Request) {
			w.share("a", 0) // while its first key is refused
			fails(401)(rw, r)
		})
		r := w.send(request{})
		if got := r.classes(); got != "a:credential b:ok" {
			t.Errorf("%s %s: %s", r.Status, r.Reason, got)
		}
		if left, _ := w.router.Budget.Available(); left != 9 {
			t.Errorf("%v are left of 10", left)
		}
	})
}

// With an empty budget a request ends with the class of its last attempt,
// whoever was passed by meanwhile.
func TestAnEmptyBudgetEndsWithTheLastClass(t *testing.T) {
	inWorld(t, three(), func(w *world) {
		w.router.Budget.Configure(0, 0)
		w.stubs["a"].do(fails(503))
		_ = w.router.Breakers.Force(decision.Bucket{Upstream: "b", Capability: decision.Text}, "open", time.Hour, "test")
		if r := w.send(request{}); r.Reason != decision.ReasonOf(decision.Overloaded) || r.Status != decision.Unavailable {
			t.Errorf("%s %s: %s", r.Status, r.Reason, r.classes())
		}
	})
}

// A fallback whose own context is too small says nothing of the next one's.
func TestASmallFallbackIsPassedBy(t *testing.T) {
	inWorld(t, three(), func(w *world) {
		w.cands[1].ContextTokens = 10
		w.stubs["a"].do(fails(503))
		if r := w.send(request{}); r.Selected != "c" {
			t.Errorf("%s %s: %s", r.Status, r.Reason, r.classes())
		}
	})
}

// What runs on for a client that left ends with the gateway.
func TestADrainedAttemptEndsWithTheRouter(t *testing.T) {
	inWorld(t, []candidate{{name: "a", weight: 100}}, func(w *world) {
		life, end := context.WithCancel(w.t.Context())
		defer end()
		w.plan.Drains, w.router.Life = 10, life
		w.stubs["a"].do(hang)
		ctx, leave := context.WithCancel(w.t.Context())
		time.AfterFunc(time.Second, leave)
		time.AfterFunc(5*time.Second, end)
		if r := w.send(request{ctx: ctx}); r.Status != decision.Cancelled || r.took != 5*time.Second {
			t.Errorf("%s %s after %s", r.Status, r.Reason, r.took)
		}
	})
}

// An answer too large to be held is released as a stream, and falls silent as one.
func TestALargeAnswerMayNotFallSilent(t *testing.T) {
	inWorld(t, []candidate{{name: "a", weight: 100}}, func(w *world) {
		w.plan.MaxHeldBytes = 10_000
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
		defer cancel()
		w.stubs["a"].do(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write([]byte(`{"id":"c1","object":"` + strings.Repeat("x", 100_000)))
			rw.(http.Flusher).Flush()
			hang(rw, r)
		})
		r := w.send(request{ctx: ctx})
		if r.Status != decision.Incomplete || r.classes() != "a:idle_timeout" || r.took > time.Minute {
			t.Errorf("%s %s after %s: %s", r.Status, r.Reason, r.took, r.classes())
		}
	})
}
