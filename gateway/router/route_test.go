package router

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/gateway/policy"
	"failback/internal/bubble"
)

func TestThePrimaryAnswers(t *testing.T) {
	inWorld(t, three(), func(w *world) {
		for _, stream := range []bool{false, true} {
			r := w.send(request{stream: stream})
			if r.Status != decision.Completed || r.Route != decision.RoutePrimary || r.Reason != decision.PrimaryCompleted || r.Selected != "a" || r.Fallback {
				t.Errorf("stream %t: %+v", stream, r.Decision)
			}
			if r.classes() != "a:ok" {
				t.Errorf("attempts %s", r.classes())
			}
		}
		if n := w.stubs["b"].seen.Load() + w.stubs["c"].seen.Load(); n != 0 {
			t.Errorf("others saw %d requests", n)
		}
	})
}

func TestAnOverloadedPrimaryIsLeftAtOnce(t *testing.T) {
	inWorld(t, three(), func(w *world) {
		w.stubs["a"].do(fails(503))
		r := w.send(request{stream: true})
		if r.Status != decision.DegradedCompleted || r.Selected != "b" || r.Reason != "overloaded" || !r.Fallback || r.Failed != "a" {
			t.Errorf("%+v", r.Decision)
		}
		if r.classes() != "a:overloaded b:ok" || r.took > 10*time.Millisecond {
			t.Errorf("%s in %s", r.classes(), r.took)
		}
	})
}

func TestOneServerErrorIsRepeatedOnTheSameUpstream(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(script(fails(500), ok("a")))
		r := w.send(request{})
		if r.classes() != "a:server_error a:ok" || r.Status != decision.Completed {
			t.Errorf("%s %s", r.classes(), r.Status)
		}
		// The next failure within 10 s is not the first: it moves.
		w.stubs["a"].do(fails(500))
		if r := w.send(request{}); r.classes() != "a:server_error b:ok" {
			t.Errorf("second failure: %s", r.classes())
		}
	})
}

func TestATransientRateLimitMovesItsRequestOnly(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(script(fails(429, "Retry-After", "1"), ok("a")))
		if r := w.send(request{}); r.classes() != "a:rate_limited b:ok" || r.Reason != "rate_limited" {
			t.Errorf("%s %s", r.classes(), r.Reason)
		}
		if got := w.events.opened("a"); got != nil {
			t.Errorf("one 429 opened the breaker: %v", got)
		}
	})
}

func TestPatienceForASubstitute(t *testing.T) {
	inWorld(t, []candidate{{name: "a", weight: 100}, {name: "c", weight: 10, substitute: true}}, func(w *world) {
		w.stubs["a"].do(script(fails(429, "Retry-After", "2"), ok("a")))
		r := w.send(request{})
		if r.classes() != "a:rate_limited a:ok" || r.took < 2*time.Second {
			t.Errorf("%s in %s", r.classes(), r.took)
		}
		w.stubs["a"].do(fails(429, "Retry-After", "3"))
		if r := w.send(request{}); r.classes() != "a:rate_limited c:ok" || !r.Substitute {
			t.Errorf("beyond patience: %s", r.classes())
		}
	})
}

// Every wait is as long as the last answer asked for, not the first.
func TestRTY01LaterRetryAfterCounts(t *testing.T) {
	inWorld(t, []candidate{{name: "a", weight: 100}}, func(w *world) {
		w.stubs["a"].do(script(
			fails(429, "Retry-After", "1"), fails(429, "Retry-After", "3"), fails(429, "Retry-After", "5"), ok("a")))
		r := w.send(request{})
		if r.Status != decision.Completed {
			t.Errorf("%s: %s %s", r.classes(), r.Status, r.Reason)
			return
		}
		times := w.stubs["a"].times
		for i, least := range []time.Duration{time.Second, 3 * time.Second, 5 * time.Second} {
			if gap := times[i+1].Sub(times[i]); gap < least {
				t.Errorf("gap %d is %s, asked for %s", i, gap, least)
			}
		}
	})
}

func TestAttemptsAreCapped(t *testing.T) {
	inWorld(t, []candidate{{name: "a", weight: 100}}, func(w *world) {
		w.stubs["a"].do(fails(429))
		r := w.send(request{})
		if len(r.Attempts) != 4 || w.stubs["a"].seen.Load() != 4 {
			t.Errorf("%d attempts, the stub saw %d", len(r.Attempts), w.stubs["a"].seen.Load())
		}
		if r.Status != decision.Unavailable || r.end.Ending.HTTPStatus != 429 || r.Reason != "rate_limited" {
			t.Errorf("%s %d %s", r.Status, r.end.Ending.HTTPStatus, r.Reason)
		}
	})
}

func TestPolicyFailsClosed(t *testing.T) {
	never := policyTask("never")
	same := policyTask("same_model")
	inWorld(t, three(), func(w *world) {
		w.stubs["a"].do(fails(503))
		r := w.send(request{task: never})
		if r.Status != decision.Unavailable || r.Fallback || r.Route != decision.RouteNone {
			t.Errorf("never: %s %+v", r.classes(), r.Decision)
		}
		if len(r.Attempts) != 4 {
			t.Errorf("with nowhere else to go it is asked again after a back-off: %s", r.classes())
		}
		if r.Reason != "overloaded" || r.end.Ending.Code != "fallback_not_allowed" {
			t.Errorf("reason %s, code %s", r.Reason, r.end.Ending.Code)
		}
		if r.Candidates[1].Skipped != decision.NotAllowed || r.Candidates[2].Skipped != decision.NotAllowed {
			t.Errorf("candidates %+v", r.Candidates)
		}
		w.stubs["b"].do(fails(503))
		r = w.send(request{task: same})
		if r.classes() != "a:overloaded b:overloaded b:overloaded b:overloaded" || r.Status != decision.Unavailable {
			t.Errorf("same_model: %s", r.classes())
		}
		if n := w.stubs["c"].seen.Load(); n != 0 {
			t.Errorf("the substitute saw %d requests", n)
		}
	})
}

func TestSideEffectsAreNotRiskedTwice(t *testing.T) {
	task := policyTask("any")
	task.SideEffects = true
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(reset)
		if r := w.send(request{task: task}); r.classes() != "a:reset" || r.Status != decision.Unavailable {
			t.Errorf("after a reset: %s", r.classes())
		}
		w.stubs["a"].do(fails(500))
		if r := w.send(request{task: task}); r.classes() != "a:server_error" {
			t.Errorf("after a 500: %s", r.classes())
		}
		if r := w.send(request{task: task, operation: true}); r.classes() != "a:server_error b:ok" {
			t.Errorf("with an operation id: %s", r.classes())
		}
		w.stubs["a"].do(fails(503))
		if r := w.send(request{task: task}); r.classes() != "a:overloaded b:ok" {
			t.Errorf("after a 503 it was certainly not processed: %s", r.classes())
		}
	})
}

func TestASilentStreamIsLeftAtTheWatchdog(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(hang)
		r := w.send(request{stream: true})
		if r.classes() != "a:first_output_timeout b:ok" || r.took != 12*time.Second {
			t.Errorf("%s in %s", r.classes(), r.took)
		}
		if w.stubs["a"].gone.Load() != 1 {
			t.Error("the silent upstream's connection is still open")
		}
	})
}

// The failover limit is for who has somewhere to go.
func TestSTR11TheLastCandidateGetsTheWholeDeadline(t *testing.T) {
	inWorld(t, []candidate{{name: "a", weight: 100}}, func(w *world) {
		w.stubs["a"].do(okAfter(40*time.Second, "late"))
		if r := w.send(request{stream: true}); r.Status != decision.Completed || r.took < 40*time.Second {
			t.Errorf("%s after %s", r.Status, r.took)
		}
		w.stubs["a"].do(hang)
		r := w.send(request{stream: true})
		if r.classes() != "a:attempt_timeout" || r.took != time.Minute || r.end.Ending.HTTPStatus != 504 {
			t.Errorf("%s in %s, %d", r.classes(), r.took, r.end.Ending.HTTPStatus)
		}
	})
}

func TestAUnaryAnswerMayTakeNinetySeconds(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(okAfter(90*time.Second, "slow but whole"))
		if r := w.send(request{}); r.classes() != "a:ok" {
			t.Errorf("%s", r.classes())
		}
	})
}

// A caller's own short deadline says nothing of the upstream.
func TestCLS02ACallersDeadlineIsNeutral(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(okAfter(500*time.Millisecond, "fine"))
		for range 10 {
			r := w.send(request{deadline: 100 * time.Millisecond})
			if r.Status == decision.Completed {
				t.Errorf("%+v", r.Decision)
				return
			}
		}
		if got := w.events.opened("a"); got != nil {
			t.Errorf("one caller's deadline opened the breaker for all: %v", got)
		}
		for _, b := range w.router.Breakers.Snapshot() {
			if b.Failures != 0 {
				t.Errorf("%s counts %d failures", b.Bucket, b.Failures)
			}
		}
		if r := w.send(request{}); r.Selected != "a" || r.Status != decision.Completed {
			t.Errorf("the next caller got %s from %s", r.Status, r.Selected)
		}
	})
}

// A short deadline is shared out: the second candidate gets its part.
func TestAFairPartOfAShortDeadline(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(hang)
		r := w.send(request{stream: true, deadline: 4 * time.Second})
		if r.Status != decision.DegradedCompleted || r.took != 2*time.Second {
			t.Errorf("%s %s in %s", r.classes(), r.Status, r.took)
		}
	})
}

func TestSTR16AClientThatLeavesEndsEverything(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		for _, stage := range []struct {
			name string
			a    http.HandlerFunc
			q    request
			at   time.Duration
		}{
			{"waiting for a unary answer", hang, request{}, time.Second},
			{"waiting for output", hang, request{stream: true}, time.Second},
			{"in the back-off", fails(429, "Retry-After", "20"), request{task: policyTask("never")}, 5 * time.Second},
		} {
			seen := w.stubs["a"].seen.Load()
			w.stubs["a"].do(stage.a)
			ctx, leave := context.WithCancel(w.t.Context())
			time.AfterFunc(stage.at, leave)
			stage.q.ctx = ctx
			r := w.send(stage.q)
			if r.Status != decision.Cancelled || r.took != stage.at {
				t.Errorf("%s: %s after %s (%s)", stage.name, r.Status, r.took, r.classes())
			}
			if n := w.stubs["a"].seen.Load() - seen; n != 1 {
				t.Errorf("%s: the stub saw %d requests", stage.name, n)
			}
			synctest.Wait()
			if n := w.stubs["a"].open.Load(); n != 0 {
				t.Errorf("%s: %d requests are still open upstream", stage.name, n)
			}
			w.router.Breakers.Force(decision.Bucket{Upstream: "a", Capability: decision.Text}, "auto", 0, "test")
			bubble.Sleep(time.Minute)
		}
		if n := w.stubs["b"].seen.Load(); n != 0 {
			t.Errorf("b was asked %d times for clients that left", n)
		}
	})
}

func TestABreakAfterOutputIsNeverSpliced(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(func(rw http.ResponseWriter, _ *http.Request) {
			head(rw)
			chunk(rw, "half an ")
			panic(http.ErrAbortHandler)
		})
		r := w.send(request{stream: true})
		if r.Status != decision.Incomplete || r.classes() != "a:interrupted" || r.end.Ending.Code != "stream_interrupted" {
			t.Errorf("%s %s %+v", r.Status, r.classes(), r.end.Ending)
		}
		if got := r.out.body.String(); !strings.Contains(got, "half an ") || strings.Contains(got, "answer of b") {
			t.Errorf("the client got %q", got)
		}
	})
}

func TestAHeldAnswerFailsOverMidway(t *testing.T) {
	held := policyTask("any")
	held.Hold = true
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(func(rw http.ResponseWriter, _ *http.Request) {
			head(rw)
			chunk(rw, "half an ")
			panic(http.ErrAbortHandler)
		})
		r := w.send(request{stream: true, task: held})
		if r.Status != decision.DegradedCompleted || r.classes() != "a:interrupted b:ok" {
			t.Errorf("%s %s", r.Status, r.classes())
		}
		if got := r.out.body.String(); strings.Contains(got, "half an ") || !strings.Contains(got, "[DONE]") {
			t.Errorf("the client got %q", got)
		}
	})
}

// A held answer that comes gives signs of life: silence ends it as early as any
// stream, and nothing else does while it goes on.
func TestAHeldAnswerIsWatchedAsAStream(t *testing.T) {
	held := policyTask("any")
	held.Hold = true
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(func(rw http.ResponseWriter, r *http.Request) {
			head(rw)
			<-r.Context().Done()
		})
		r := w.send(request{stream: true, task: held})
		if r.classes() != "a:first_output_timeout b:ok" || r.took != 12*time.Second {
			t.Errorf("silent: %s in %s", r.classes(), r.took)
		}
		w.stubs["a"].do(func(rw http.ResponseWriter, r *http.Request) {
			head(rw)
			for range 15 {
				chunk(rw, "word ")
				pause(r.Context(), 16*time.Second)
			}
			finish(rw)
		})
		r = w.send(request{stream: true, task: held})
		if r.classes() != "a:ok" || r.took != 4*time.Minute {
			t.Errorf("long: %s in %s", r.classes(), r.took)
		}
	})
	// What a task's own deadline cuts says nothing of the upstream; a silence
	// that is too long whoever waits does.
	short := held
	short.Deadline = 18 * time.Second
	inWorld(t, two(), func(w *world) {
		hang := func(rw http.ResponseWriter, r *http.Request) {
			head(rw)
			<-r.Context().Done()
		}
		w.stubs["a"].do(hang)
		w.stubs["b"].do(hang)
		r := w.send(request{stream: true, task: short})
		if r.classes() != "a:attempt_timeout b:attempt_timeout" || r.took != short.Deadline {
			t.Errorf("short: %s in %s", r.classes(), r.took)
		}
		for _, b := range w.router.Breakers.Snapshot() {
			if b.Failures > 0 {
				t.Errorf("%s: %d failures", b.Bucket, b.Failures)
			}
		}
		short.Deadline = 40 * time.Second
		if r := w.send(request{stream: true, task: short}); r.classes() != "a:first_output_timeout b:attempt_timeout" {
			t.Errorf("silent: %s in %s", r.classes(), r.took)
		}
		for _, b := range w.router.Breakers.Snapshot() {
			if want := map[string]int{"a:stream": 1, "b:stream": 1}[b.Bucket.String()]; int(b.Failures) != want {
				t.Errorf("%s: %d failures", b.Bucket, b.Failures)
			}
		}
	})
}

func TestAPreambleIsNotOutput(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(func(rw http.ResponseWriter, r *http.Request) {
			head(rw) // a delta with only a role
			<-r.Context().Done()
		})
		r := w.send(request{stream: true})
		if r.classes() != "a:first_output_timeout b:ok" || strings.Count(r.out.body.String(), `"role"`) != 1 {
			t.Errorf("%s: %q", r.classes(), r.out.body.String())
		}
	})
}

func TestCallersMistakesGoBackUnchanged(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(errorCode(400, "bad_thing"))
		r := w.send(request{})
		if r.Status != decision.Rejected || r.classes() != "a:invalid_request" || r.end.Upstream == nil || r.end.Upstream.Status != 400 {
			t.Errorf("%s %s %+v", r.Status, r.classes(), r.end)
			return
		}
		if !strings.Contains(string(r.end.Upstream.Body), "bad_thing") {
			t.Errorf("body %q", r.end.Upstream.Body)
		}
		// From a fallback it says nothing of the caller.
		w.stubs["a"].do(fails(503))
		w.stubs["b"].do(errorCode(400, "bad_thing"))
		r = w.send(request{})
		if r.Status != decision.Unavailable || r.end.Upstream != nil || r.end.Ending.HTTPStatus != 503 || r.Reason != "overloaded" {
			t.Errorf("%s %d %s", r.Status, r.end.Ending.HTTPStatus, r.Reason)
		}
	})
}

func TestRTY07OnlyALargerContextGetsATooLongRequest(t *testing.T) {
	cs := append(three(), candidate{name: "big", weight: 5, substitute: true, larger: true})
	inWorld(t, cs, func(w *world) {
		w.plan.MaxSwitches = 3
		w.stubs["a"].do(errorCode(400, "context_length_exceeded"))
		if r := w.send(request{}); r.classes() != "a:context_length big:ok" {
			t.Errorf("%s", r.classes())
		}
		if r := w.send(request{task: policyTask("same_model")}); r.classes() != "a:context_length" || r.Status != decision.Rejected {
			t.Errorf("%s %s", r.classes(), r.Status)
		}
	})
}

func policyTask(fallback policy.Fallback) policy.Task {
	return policy.Task{Name: "task-" + string(fallback), Fallback: fallback}
}

// The deadline ends with the first output; after it only silence and
// stream.max end a stream.
func TestAStreamMayTakeFiveMinutes(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(func(rw http.ResponseWriter, r *http.Request) {
			head(rw)
			for range 30 {
				chunk(rw, "word ")
				if !pause(r.Context(), 10*time.Second) {
					return
				}
			}
			finish(rw)
		})
		r := w.send(request{stream: true})
		if r.classes() != "a:ok" || r.Status != decision.Completed || r.took != 5*time.Minute {
			t.Errorf("%s %s after %s", r.classes(), r.Status, r.took)
		}
		if n := strings.Count(r.out.body.String(), "word "); n != 30 {
			t.Errorf("the client got %d words", n)
		}
	})
}
