package router

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/gateway/policy"
	"failback/gateway/traffic"
	"failback/gateway/wire"
	"failback/internal/bubble"
)

// A provider that hangs with two hundred requests on it: each waits no longer
// than until the bucket opens, then all of them move at once.
func TestBRK10RequestsInFlightMoveWhenTheirBucketOpens(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(hang)
		results := make([]result, 200)
		var running sync.WaitGroup
		for i := range results {
			running.Go(func() { results[i] = w.send(request{stream: true}) })
			bubble.Sleep(10 * time.Millisecond)
		}
		running.Wait()
		moved := 0
		for _, r := range results {
			if r.Status != decision.DegradedCompleted || r.Selected != "b" {
				t.Errorf("%s %s: %s", r.Status, r.Reason, r.classes())
				break
			}
			if r.Attempts[0].Outcome.Class == decision.LocalRefusal {
				moved++
			}
		}
		if moved < 190 {
			t.Errorf("%d of 200 moved, the others waited for their own watchdog", moved)
		}
		if len(w.events.opened("a")) == 0 {
			t.Error("the bucket never opened")
		}
	})
}

// A retry storm is bounded by the shared budget, whatever each request could do.
func TestTheRetryBudgetIsShared(t *testing.T) {
	inWorld(t, []candidate{{name: "a", weight: 100}}, func(w *world) {
		w.stubs["a"].do(fails(429))
		results := w.many(50, request{})
		attempts := 0
		for _, r := range results {
			attempts += len(r.Attempts)
		}
		// burst 10 + 20 % of 50 first attempts, in 10 s; the back-offs take longer.
		if seen := w.stubs["a"].seen.Load(); int64(attempts) != seen {
			t.Errorf("%d attempts recorded, %d seen", attempts, seen)
		}
		if attempts > 50+10+10+5 {
			t.Errorf("%d attempts for 50 requests", attempts)
		}
	})
}

func TestAnOutageIsLeftWithinSeconds(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		for range 100 {
			w.send(request{})
			bubble.Sleep(20 * time.Millisecond)
		}
		w.stubs["a"].do(fails(503))
		before := w.stubs["a"].seen.Load()
		for i := range 500 {
			if r := w.send(request{}); r.Status != decision.DegradedCompleted {
				t.Errorf("request %d: %s %s %s", i, r.Status, r.Reason, r.classes())
				return
			}
			bubble.Sleep(20 * time.Millisecond)
		}
		if n := w.stubs["a"].seen.Load() - before; n > 120 {
			t.Errorf("the dead primary was asked %d times of 500", n)
		}
	})
}

// 40 % of the primary's requests fail: it is left for the better candidate,
// clients see nothing, and it does not flap.
func TestAPartlyFailingPrimaryIsLeftByWeight(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		n := 0
		w.stubs["a"].do(func(rw http.ResponseWriter, r *http.Request) {
			if n++; n%5 < 2 {
				fails(500)(rw, r)
				return
			}
			ok("a")(rw, r)
		})
		failed := 0
		for range 60 * 60 {
			if r := w.send(request{}); r.Status != decision.Completed && r.Status != decision.DegradedCompleted {
				failed++
			}
			bubble.Sleep(time.Second / 60)
		}
		if failed > 3 {
			t.Errorf("%d of 3600 clients saw a failure", failed)
		}
		opened := w.events.opened("a")
		if len(opened) == 0 || opened[0] != "weight" {
			t.Errorf("opened %v", opened)
		}
		if len(opened) > 8 {
			t.Errorf("it opened %d times in a minute: %v", len(opened), opened)
		}
	})
}

// A partly failing only candidate is better than none.
func TestASoftOpeningPassesWhereNobodyElseMay(t *testing.T) {
	never := policyTask(policy.Never)
	inWorld(t, two(), func(w *world) {
		w.router.Breakers.Group("a", decision.SetOf(decision.Text)).Trip(decision.Weight, "test")
		if r := w.send(request{}); r.Selected != "b" || r.Reason != decision.Weight {
			t.Errorf("%s %s", r.Selected, r.Reason)
		}
		if r := w.send(request{task: never}); r.Selected != "a" || r.Status != decision.Completed {
			t.Errorf("never: %s %s", r.Selected, r.Status)
		}
	})
}

func TestADeadKeyFailsClosed(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(fails(401))
		for range 2 {
			r := w.send(request{})
			if r.Status != decision.Unavailable || r.Reason != "credential" || r.end.Ending.HTTPStatus == 401 {
				t.Errorf("%s %s %d", r.Status, r.Reason, r.end.Ending.HTTPStatus)
			}
		}
		if a, b := w.stubs["a"].seen.Load(), w.stubs["b"].seen.Load(); a != 1 || b != 0 {
			t.Errorf("a saw %d requests, b %d", a, b)
		}
		w.plan.SwitchOnCredential = true
		if r := w.send(request{}); r.Selected != "b" || r.Reason != "credential" {
			t.Errorf("switch: %s %s", r.Selected, r.Reason)
		}
		if w.events.opened("a") != nil {
			t.Error("a dead key counted against the bucket")
		}
	})
}

// A fallback's dead key is passed by also under errors.credential: fail.
func TestAFallbacksDeadKeyIsPassedBy(t *testing.T) {
	inWorld(t, three(), func(w *world) {
		w.stubs["a"].do(fails(503))
		w.stubs["b"].do(fails(401))
		if r := w.send(request{}); r.Selected != "c" {
			t.Errorf("%s: %s", r.classes(), r.Status)
		}
	})
}

// Keys are rotated at once, each once, without drawing the retry budget.
func TestRTY05KeysRotate(t *testing.T) {
	keys := []string{"k1", "k2", "k3", "k4", "k5"}
	inWorld(t, []candidate{{name: "a", weight: 100, keys: keys}}, func(w *world) {
		w.plan.Attempts, w.plan.SwitchOnCredential = 1, true
		w.stubs["a"].do(func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer k5" {
				ok("a")(rw, r)
				return
			}
			fails(401)(rw, r)
		})
		before, _ := w.router.Budget.Available()
		r := w.send(request{})
		if r.Status != decision.Completed || r.took > 0 {
			t.Errorf("%s after %s: %s", r.Status, r.took, r.classes())
		}
		if after, _ := w.router.Budget.Available(); after < before {
			t.Errorf("the budget went from %g to %g", before, after)
		}
		w.stubs["a"].do(fails(401))
		seen := w.stubs["a"].seen.Load()
		r = w.send(request{})
		if r.end.Ending.HTTPStatus != 502 || r.Reason != "credential" {
			t.Errorf("all dead: %d %s", r.end.Ending.HTTPStatus, r.Reason)
		}
		if n := w.stubs["a"].seen.Load() - seen; n > 5 {
			t.Errorf("%d requests for at most five keys", n)
		}
	})
}

func TestShareIsKeptByConversation(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.share("a", 0)
		if r := w.send(request{}); r.Selected != "b" || r.Reason != decision.UpstreamDegraded || r.Candidates[0].Share != 0 {
			t.Errorf("%s %s", r.Selected, r.Reason)
		}
		inside := map[string]bool{}
		for _, share := range []int{5, 25, 75, 100} {
			w.share("a", share)
			n := 0
			for i := range 1000 {
				name := fmt.Sprintf("conversation-%d", i)
				r := w.send(request{conversation: name})
				if r.Selected == "a" {
					n++
					inside[name] = true
				} else if inside[name] {
					t.Errorf("%s was inside a lower share and left at %d%%", name, share)
					return
				}
			}
			if want := share * 10; n < want-60 || n > want+60 {
				t.Errorf("at %d%% a answered %d of 1000", share, n)
			}
		}
	})
}

func (w *world) share(upstream string, share int) {
	w.t.Helper()
	st, _ := w.router.Traffic.Get(upstream)
	_, err := w.router.Traffic.Set(traffic.Command{Upstream: upstream, Share: share, Revision: &st.Revision, By: "test"})
	if err != nil {
		w.t.Errorf("share %d: %v", share, err)
	}
}

// Outside its share an upstream on its way back serves only whom nobody else
// may, and a degraded one too if its probes are good.
func TestOverflow(t *testing.T) {
	never := policyTask(policy.Never)
	inWorld(t, two(), func(w *world) {
		w.share("a", 0)
		if r := w.send(request{task: never}); r.Status != decision.Unavailable || r.Reason != decision.UpstreamDegraded {
			t.Errorf("at 0: %s %s", r.Status, r.Reason)
		}
		spare := w.plan.Models["m"].Lineup(decision.OpenAI).Primary().Upstream.Spare
		spare.Store(true)
		if r := w.send(request{task: never}); r.Selected != "a" || r.Reason != decision.Overflow || !r.Overflow {
			t.Errorf("at 0 with good probes: %s %s", r.Status, r.Reason)
		}
		if r := w.send(request{}); r.Selected != "b" || r.Reason != decision.UpstreamDegraded {
			t.Errorf("at 0 with good probes, b may serve: %s %s", r.Selected, r.Reason)
		}
		spare.Store(false)
		w.share("a", 5)
		over := 0
		for range 50 {
			r := w.send(request{task: never})
			if r.Selected != "a" {
				t.Errorf("%s %s", r.Status, r.Reason)
				return
			}
			if r.Reason == decision.Overflow && r.Overflow {
				over++
			}
		}
		if over < 40 {
			t.Errorf("%d of 50 were overflow", over)
		}
	})
}

// What overflows goes to an upstream whose breaker is closed, never as its probe.
func TestOverflowIsNoProbe(t *testing.T) {
	never := policyTask(policy.Never)
	inWorld(t, two(), func(w *world) {
		w.share("a", 0)
		w.share("a", 5)
		w.router.Breakers.Group("a", decision.SetOf(decision.Text)).Trip(decision.BreakerOpen, "test")
		bubble.Sleep(time.Minute) // a probe is due
		outside := "c0"
		for i := 1; w.router.Traffic.Admits("a", outside, "r"); i++ {
			outside = fmt.Sprintf("c%d", i)
		}
		for range 5 {
			if r := w.send(request{task: never, conversation: outside}); r.Status != decision.Unavailable {
				t.Errorf("%s: %s", r.Status, r.classes())
			}
		}
		if n := w.stubs["a"].seen.Load(); n != 0 {
			t.Errorf("%d requests outside the share were probes", n)
		}
	})
}

func TestABoundRequestIsNeverSwitched(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.router.Bindings.Put("resp_1", "b")
		if r := w.send(request{bound: []string{"resp_1"}}); r.Selected != "b" || r.Status != decision.Completed {
			t.Errorf("%s %s", r.Selected, r.Status)
		}
		w.stubs["b"].do(fails(503))
		if r := w.send(request{bound: []string{"resp_1"}}); strings.Contains(r.classes(), "a:") || r.Status != decision.Unavailable {
			t.Errorf("%s %s", r.classes(), r.Status)
		}
		if r := w.send(request{bound: []string{"unknown"}}); r.Selected != "a" {
			t.Errorf("an unknown id went to %s", r.Selected)
		}
		w.share("a", 5)
		if r := w.send(request{bound: []string{"unknown"}}); r.Selected != "a" {
			t.Errorf("a bound request passes the share: %s", r.Selected)
		}
	})
}

func TestEmbeddingsNeverGoToASubstitute(t *testing.T) {
	inWorld(t, []candidate{{name: "a", weight: 100}, {name: "c", weight: 10, substitute: true}}, func(w *world) {
		w.stubs["a"].do(fails(500))
		r := w.send(request{endpoint: wire.Embeddings, body: `{"model":"m","input":"x"}`})
		if r.Status != decision.Unavailable || w.stubs["c"].seen.Load() != 0 {
			t.Errorf("%s %s", r.Status, r.classes())
		}
	})
}

func TestDataZones(t *testing.T) {
	eu := policyTask(policy.Any)
	eu.Zones = []string{"eu"}
	inWorld(t, []candidate{{name: "a", weight: 100}, {name: "b", weight: 80, zones: []string{"eu"}}}, func(w *world) {
		r := w.send(request{task: eu})
		if r.Selected != "b" || r.Reason != decision.DataZone || w.stubs["a"].seen.Load() != 0 {
			t.Errorf("%s %s", r.Selected, r.Reason)
		}
	})
}

func TestPassthroughIgnoresShareAndBreakersButNotPolicy(t *testing.T) {
	inWorld(t, three(), func(w *world) {
		w.share("a", 0)
		if err := w.router.Breakers.Force(decision.Bucket{Upstream: "b", Capability: decision.Text}, "open", time.Hour, "test"); err != nil {
			t.Error(err)
		}
		w.router.SetPassthrough(&Passthrough{Order: []string{"b", "a"}, Until: time.Now().Add(time.Minute), By: "ana"})
		if r := w.send(request{}); r.Selected != "b" {
			t.Errorf("%s: %s", r.Selected, r.classes())
		}
		if r := w.send(request{task: policyTask(policy.Never)}); r.Selected != "a" {
			t.Errorf("never: %s", r.Selected)
		}
		if r := w.send(request{}); r.Candidates[2].Skipped != decision.Passthrough {
			t.Errorf("%+v", r.Candidates)
		}
		bubble.Sleep(2 * time.Minute)
		if w.router.Passthrough() != nil {
			t.Error("it did not end by itself")
		}
	})
}

func TestAPanicGivesEverythingBack(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		for _, stream := range []bool{false, true} {
			r := w.send(request{stream: stream, out: &recorded{panics: true}})
			if r.Status != decision.Unavailable || r.Reason != "internal" || r.end.Ending.HTTPStatus != 500 {
				t.Errorf("%s %s %d", r.Status, r.Reason, r.end.Ending.HTTPStatus)
			}
		}
		if w.alarms.Load() != 2 {
			t.Errorf("%d alarms", w.alarms.Load())
		}
		synctest.Wait()
	})
}

// All open: fail fast with the time to the next probe.
func TestRTY09RetryAfterOfTheEarliestProbe(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		for _, name := range []string{"a", "b"} {
			w.router.Breakers.Group(name, decision.SetOf(decision.Text)).Trip(decision.BreakerOpen, "test")
		}
		bubble.Sleep(5 * time.Second)
		r := w.send(request{})
		if r.took != 0 || len(r.Attempts) != 0 || r.Reason != decision.BreakerOpen {
			t.Errorf("%s after %s: %s", r.Reason, r.took, r.classes())
		}
		if !r.end.HasRetryAfter || r.end.RetryAfter != 10*time.Second || !r.end.Ending.Retryable {
			t.Errorf("%+v", r.end)
		}
	})
}

// After the outage the way back is a probe and a ramp, never a crowd.
func TestBRK03TheWayBackIsAProbeAndARamp(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(fails(503))
		for range 20 {
			w.send(request{})
		}
		bubble.Sleep(16 * time.Second)
		w.stubs["a"].do(okAfter(500*time.Millisecond, "a"))
		w.stubs["a"].most.Store(0)
		for _, r := range w.many(100, request{}) {
			if r.Status != decision.Completed && r.Status != decision.DegradedCompleted {
				t.Errorf("%s %s", r.Status, r.classes())
			}
		}
		if n := w.stubs["a"].most.Load(); n != 1 {
			t.Errorf("%d requests at once on a half-open bucket", n)
		}
		w.stubs["a"].most.Store(0)
		w.many(100, request{})
		if n := w.stubs["a"].most.Load(); n > 2 {
			t.Errorf("%d at once in the first second of the ramp", n)
		}
	})
}

func TestALargeCrowdOnOneUpstreamLeavesRoom(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.plan.UpstreamInflight = 10
		w.stubs["a"].do(okAfter(time.Second, "a"))
		w.stubs["b"].do(okAfter(time.Second, "b"))
		w.many(18, request{})
		if n := w.stubs["a"].most.Load(); n > 10 {
			t.Errorf("a held %d at once", n)
		}
		if n := w.stubs["b"].seen.Load(); n != 8 {
			t.Errorf("b saw %d", n)
		}
	})
}

// A 404 takes the model out only where it was met: an upstream without an
// endpoint still serves the others.
func TestAMissingEndpointCoolsTheModelThereOnly(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/completions") && !strings.HasSuffix(r.URL.Path, "/chat/completions") {
				http.NotFound(rw, r)
				return
			}
			ok("a")(rw, r)
		})
		w.stubs["b"].do(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprint(rw, `{"id":"c","object":"text_completion","model":"x","choices":[{"index":0,"text":"b","finish_reason":"stop"}]}`)
		})
		old := request{endpoint: wire.Completions, body: `{"model":"m","prompt":"x"}`}
		for range 3 {
			if r := w.send(old); r.Selected != "b" || r.Reason != "model_gone" {
				t.Errorf("%s %s: %s", r.Selected, r.Reason, r.classes())
			}
		}
		if n := w.stubs["a"].seen.Load(); n != 1 {
			t.Errorf("a was asked %d times for what it does not have", n)
		}
		if r := w.send(request{}); r.Selected != "a" {
			t.Errorf("chat went to %s: %s", r.Selected, r.Reason)
		}
	})
}
