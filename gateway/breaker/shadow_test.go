package breaker

import (
	"testing"
	"time"

	"failback/gateway/decision"
)

func TestShadowRecordsAndRefusesNothing(t *testing.T) {
	s := defaults()
	s.Shadow = true
	bubble(t, s, func(r *rig) {
		moved := false
		a := ask()
		a.OnOpen = func() { moved = true }
		r.get(a)
		r.do(5, decision.ServerError)
		snap := r.wantState(Open)
		if snap.Mode != "shadow" || moved {
			r.Errorf("mode %s, moved %v", snap.Mode, moved)
		}
		contains(r.T, r.last().Detail, "shadow", "5 failed in a row")
		if rep := end(r.get(ask()), ended(decision.ServerError)); rep.Open {
			r.Error("open, but that binds nobody")
		}
		for range 20 {
			if why := r.g.Check(ask()); why != "" {
				r.Fatalf("Check: %s", why)
			}
			r.get(ask()).Done(ended(decision.OK))
		}
		if snap := r.wantState(Open); snap.Blocked != 0 || snap.ShadowBlocked != 21 {
			r.Errorf("blocked %d, would have been %d", snap.Blocked, snap.ShadowBlocked)
		}
		// It goes through its states as it would.
		r.pass(15 * time.Second)
		probe := r.get(ask())
		r.wantState(HalfOpen)
		other := r.get(ask()) // would not have been sent
		end(other, ended(decision.ServerError))
		r.wantState(HalfOpen)
		end(probe, ended(decision.OK))
		r.wantState(Ramping)
		for range 10 {
			r.get(ask()) // beyond the ramp
		}
		if r.g.TripByWeight("m", 100, 200) {
			r.Error("says that it opened")
		}
	})
}

func TestShadowDoesNotStopAnOperator(t *testing.T) {
	s := defaults()
	s.Shadow = true
	bubble(t, s, func(r *rig) {
		moved := false
		a := ask()
		a.OnOpen = func() { moved = true }
		p := r.get(a)
		r.force(ActionOpen, time.Minute)
		r.refused(ask(), decision.BreakerOpen)
		if !moved || !p.Done(ended(decision.LocalRefusal)).Open {
			r.Error("not bound")
		}
		if e := r.last(); e.Detail != "for 1m0s by ana" {
			r.Errorf("%q", e.Detail)
		}
	})
}

func TestEnforcePercent(t *testing.T) {
	for _, percent := range []int{0, 1, 30, 100} {
		s := defaults()
		s.EnforcePercent = percent
		bubble(t, s, func(r *rig) {
			r.trip(ForFailureRate)
			if s := r.set.Snapshot(); s[0].Enforced != percent {
				r.Errorf("the snapshot says %d of %d", s[0].Enforced, percent)
			}
			refused := 0
			for lot := 1; lot <= 100; lot++ {
				a := ask()
				a.Lot = lot
				check := r.g.Check(a)
				why := r.g.Acquire(new(Permit), a)
				if why != check {
					r.Fatalf("lot %d: Check %q, Acquire %q", lot, check, why)
				}
				if why != "" {
					refused++
				}
			}
			if refused != percent {
				r.Errorf("%d refused of 100, want %d", refused, percent)
			}
		})
	}
	s := defaults()
	s.EnforcePercent = 30
	bubble(t, s, func(r *rig) { // drawn by the bucket
		r.trip(ForFailureRate)
		refused := 0
		for range 3000 {
			if r.g.Acquire(new(Permit), ask()) != "" {
				refused++
			}
		}
		if refused < 750 || refused > 1050 {
			r.Errorf("%d of 3000", refused)
		}
	})
}
