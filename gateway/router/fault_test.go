package router

import (
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/health"
	"failback/gateway/policy"
	"failback/internal/bubble"
)

// While everybody fails for a reason that they share, requests end at once, but
// for one probe per cooldown; the first success ends it.
func TestSharedFault(t *testing.T) {
	inWorld(t, three(), func(w *world) {
		for _, s := range w.stubs {
			s.do(reset)
		}
		for range 3 {
			w.send(request{})
		}
		fault := w.router.Faults.Active()
		if !fault.Covers("a") || !fault.Covers("b") || !fault.Covers("c") {
			t.Fatalf("the fault is %+v", fault)
		}
		seen := func() (n int64) {
			for _, s := range w.stubs {
				n += s.seen.Load()
			}
			return n
		}
		before := seen()
		for _, q := range []request{{}, {stream: true}, {task: policyTask(policy.Never)}} {
			r := w.send(q)
			if r.Reason != decision.SharedFault || r.Status != decision.Unavailable || len(r.Attempts) > 0 || r.took > 0 {
				t.Errorf("%s %s after %s: %s", r.Status, r.Reason, r.took, r.classes())
			}
			if !r.end.HasRetryAfter || r.end.RetryAfter > w.settings.Cooldown {
				t.Errorf("Retry-After is %s, %t", r.end.RetryAfter, r.end.HasRetryAfter)
			}
		}
		if n := seen() - before; n > 0 {
			t.Errorf("%d attempts in a shared fault", n)
		}

		for range 4 {
			bubble.Sleep(w.settings.Cooldown)
			before := seen()
			w.many(20, request{})
			if n := seen() - before; n > 1 {
				t.Errorf("%d probes of a shared fault at once", n)
			}
		}

		for _, s := range w.stubs {
			s.do(ok("back"))
		}
		served := false
		for began := time.Now(); !served && time.Since(began) < 10*time.Minute; bubble.Sleep(time.Second) {
			served = w.send(request{}).Status != decision.Unavailable
		}
		if !served || w.router.Faults.Active() != nil {
			t.Errorf("answered: %t, fault %+v", served, w.router.Faults.Active())
		}
		if r := w.send(request{}); r.Reason == decision.SharedFault {
			t.Errorf("after its end: %s %s", r.Status, r.Reason)
		}
	})
}

// A fault that does not cover everybody sends requests to those it does not.
func TestSharedFaultOfSome(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.router.Faults.Configure([]health.Member{
			{Upstream: "a", Host: "a", Domains: []string{"dns/corp"}}, {Upstream: "b", Host: "b"},
		}, w.settings.Cooldown, time.Now())
		w.stubs["a"].do(reset)
		w.send(request{})
		w.router.Faults.Dependency("corp-dns", "dns/corp", true, "no such name", time.Now())
		if f := w.router.Faults.Active(); !f.Covers("a") || f.Covers("b") {
			t.Fatalf("the fault is %+v", f)
		}
		if r := w.send(request{}); r.Selected != "b" || r.Reason != decision.SharedFault || len(r.Attempts) != 1 {
			t.Errorf("%s %s: %s", r.Selected, r.Reason, r.classes())
		}
		if r := w.send(request{task: policyTask(policy.Never)}); r.Status != decision.Unavailable || r.Reason != decision.SharedFault {
			t.Errorf("never: %s %s", r.Status, r.Reason)
		}
	})
}
