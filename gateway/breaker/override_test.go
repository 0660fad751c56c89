package breaker

import (
	"errors"
	"testing"
	"time"

	"failback/gateway/decision"
)

var streamBucket = decision.Bucket{Upstream: "a", Capability: decision.Stream}

func (r *rig) force(action string, d time.Duration) {
	r.Helper()
	if err := r.set.Force(streamBucket, action, d, "ana"); err != nil {
		r.Fatal(err)
	}
}

func TestForceOpen(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		moved := 0
		a := lone()
		a.OnOpen = func() { moved++ }
		r.get(a)
		r.force(ActionOpen, 10*time.Minute)
		if moved != 1 {
			r.Errorf("%d moved on", moved)
		}
		s := r.wantState(Open)
		if s.Forced != Open || s.ForcedBy != "ana" || !s.ForcedUntil.Equal(time.Now().Add(10*time.Minute)) {
			r.Errorf("%+v", s)
		}
		if e := r.last(); e.By != "ana" || e.Reason != Forced || e.From != Closed || e.To != Open {
			r.Errorf("%+v", e)
		}
		r.pass(10*time.Minute - time.Second)
		r.refused(ask(), decision.BreakerOpen)
		r.refused(lone(), decision.BreakerOpen) // an operator's word binds last resorts too
		if r.bucket(decision.Stream).ProbeDue {
			r.Error("due while forced")
		}
		r.pass(time.Second)
		s = r.wantState(Open)
		if s.Forced != "" || !s.ProbeDue {
			r.Errorf("%+v", s)
		}
		if e := r.last(); e.Reason != OverrideOver {
			r.Errorf("%+v", e)
		}
		r.do(1, decision.OK) // back by probe and ramp
		r.wantState(Ramping)
	})
}

func TestForceOpenEndsASoftOpening(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.trip(ForWeight)
		r.force(ActionOpen, time.Minute)
		r.refused(lone(), decision.BreakerOpen)
		r.force(ActionAuto, 0)
		r.get(ask())
		r.wantState(HalfOpen)
	})
}

func TestForceClosed(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.trip(ForFailureRate)
		r.force(ActionClose, 0)
		s := r.wantState(Closed)
		if s.Forced != Closed || !s.ForcedUntil.Equal(time.Now().Add(time.Hour)) {
			r.Errorf("%+v", s)
		}
		r.do(50, decision.ServerError)
		r.g.Trip(decision.RetryBudget, "")
		if r.g.TripByWeight("m", 100, 50) {
			r.Error("opened by weight")
		}
		end(r.get(lone()), asked(decision.RateLimited, time.Hour))
		r.wantState(Closed)
		r.pass(time.Hour)
		if s := r.wantState(Closed); s.Forced != "" {
			r.Errorf("%+v", s)
		}
		r.do(1, decision.ServerError) // the run went on meanwhile
		r.wantState(Open)
	})
}

// An operator who closes a bucket does not wait for a Retry-After either, and
// the next opening does not remember it.
func TestForceClosedForgetsRetryAfter(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		old := r.get(ask())
		end(r.get(ask()), asked(decision.RateLimited, time.Hour))
		r.force(ActionClose, time.Minute)
		end(old, ended(decision.Connect)) // of before
		if s := r.bucket(decision.Stream); s.Run != 0 {
			r.Errorf("run %d", s.Run)
		}
		r.force(ActionAuto, 0)
		r.trip(ForFailureRate)
		if in, _ := r.g.RetryIn(); in != 30*time.Second {
			r.Errorf("%v", in)
		}
	})
}

func TestForceAuto(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.force(ActionAuto, 0) // nothing to end
		r.wantState(Closed)
		r.wantTrace()
		r.force(ActionOpen, time.Hour)
		r.force(ActionAuto, 0)
		if s := r.wantState(Open); s.Forced != "" || !s.ProbeDue {
			r.Errorf("%+v", s)
		}
		r.do(1, decision.OK)
		r.wantState(Ramping)
		r.force(ActionClose, time.Hour)
		r.force(ActionAuto, 0)
		r.wantState(Closed)
		r.pass(2 * time.Hour)
		r.wantTrace("closed>open:forced", "open>half_open:cooldown_over", "half_open>ramping:probes_ok", "ramping>closed:forced")
	})
}

// A bucket that no rule ever opened has a cooldown too.
func TestForceThenAFailedProbe(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.force(ActionOpen, time.Hour)
		r.force(ActionAuto, 0)
		r.do(1, decision.Connect)
		if in, _ := r.g.RetryIn(); in != 15*time.Second {
			r.Errorf("%v", in)
		}
	})
}

func TestForceAutoKeepsRetryAfter(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		end(r.get(ask()), asked(decision.RateLimited, time.Hour))
		r.force(ActionOpen, time.Minute)
		r.force(ActionAuto, 0)
		if in, _ := r.g.RetryIn(); in != time.Hour {
			r.Errorf("%v", in)
		}
	})
}

func TestForceErrors(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		for _, tc := range []struct {
			bucket decision.Bucket
			action string
			want   error
		}{
			{decision.Bucket{Upstream: "b", Capability: decision.Stream}, ActionOpen, ErrNoBucket},
			{decision.Bucket{Upstream: "a", Capability: "vision"}, ActionOpen, ErrNoBucket},
			{streamBucket, "shut", ErrAction},
		} {
			if err := r.set.Force(tc.bucket, tc.action, 0, "ana"); !errors.Is(err, tc.want) {
				r.Errorf("%v %s: %v", tc.bucket, tc.action, err)
			}
		}
		r.wantTrace()
	})
}
