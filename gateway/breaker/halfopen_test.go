package breaker

import (
	"testing"
	"time"

	"failback/gateway/decision"
)

func TestHalfOpenLetsExactlyTheProbesThrough(t *testing.T) {
	for _, probes := range []int{1, 3, 10} {
		bubble(t, only(func(s *Settings) { s.Probes = probes }), func(r *rig) {
			r.due()
			var out []*Permit
			for range probes {
				out = append(out, r.get(ask()))
			}
			for range 100 {
				r.refused(ask(), decision.BreakerOpen)
				r.refused(lone(), decision.BreakerOpen)
			}
			if s := r.wantState(HalfOpen); s.ProbesOut != probes || s.ProbeDue {
				r.Fatalf("%+v", s)
			}
			// All of them must succeed; what succeeded is not sent again.
			for i, p := range out[:probes-1] {
				end(p, ended(decision.OK))
				if s := r.wantState(HalfOpen); s.ProbesOK != i+1 || s.ProbesOut != probes-1-i {
					r.Fatalf("%+v", s)
				}
				r.refused(ask(), decision.BreakerOpen)
			}
			end(out[probes-1], ended(decision.OK))
			r.wantState(Ramping)
		})
	}
}

// What each class makes of a single probe.
func TestHalfOpenVerdicts(t *testing.T) {
	for _, c := range decision.Classes {
		t.Run(string(c), func(t *testing.T) {
			bubble(t, defaults(), func(r *rig) {
				r.due()
				end(r.get(ask()), ended(c))
				switch c.Blame() {
				case decision.OfBucket, decision.OfAdmission:
					s := r.wantState(Open)
					if time.Until(s.NextProbeAt) != 15*time.Second {
						r.Errorf("not armed again: %v", s.NextProbeAt)
					}
					if s.Reason != ForFailureRate || r.last().Reason != ProbeFailed {
						r.Errorf("reason %s, event %s", s.Reason, r.last().Reason)
					}
				default:
					if c == decision.OK {
						r.wantState(Ramping)
						return
					}
					if s := r.wantState(HalfOpen); s.ProbesOut != 0 || !s.ProbeDue {
						r.Errorf("%+v", s)
					}
					end(r.get(ask()), ended(decision.OK)) // the next one probes
					r.wantState(Ramping)
				}
			})
		})
	}
}

// Fewer probes than have ended well already: that is enough.
func TestHalfOpenFewerProbesConfigured(t *testing.T) {
	s := only(func(s *Settings) { s.Probes = 3 })
	bubble(t, s, func(r *rig) {
		r.due()
		r.do(2, decision.OK)
		s.Probes = 2
		r.set.Configure("a", "eu", everything, s)
		r.get(ask())
		r.wantState(Ramping)
	})
}

func TestHalfOpenDetail(t *testing.T) {
	for _, tc := range []struct {
		o    decision.Outcome
		want string
	}{
		{ended(decision.Overloaded), "1/2 probes failed (503)"},
		{ended(decision.Connect), "1/2 probes failed (connect)"},
		{decision.Outcome{Class: decision.ServerError, Status: 200}, "1/2 probes failed (server_error)"}, // an error inside a stream
	} {
		bubble(t, only(func(s *Settings) { s.Probes = 2 }), func(r *rig) {
			r.due()
			end(r.get(ask()), tc.o)
			if got := r.last().Detail; got != tc.want {
				r.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestHalfOpenHonoursRetryAfter(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.due()
		end(r.get(ask()), asked(decision.Overloaded, 45*time.Second))
		if in, _ := r.g.RetryIn(); in != 45*time.Second {
			r.Errorf("%v", in)
		}
		r.pass(45 * time.Second)
		end(r.get(ask()), asked(decision.RateLimited, 70*time.Second))
		s := r.wantState(Open)
		if in, _ := r.g.RetryIn(); in != 70*time.Second || s.Reason != ForRateLimited {
			r.Errorf("%v, %s", in, s.Reason)
		}
	})
}

// A soft opening stays one when its probe fails: what only partly fails is
// still better than nothing.
func TestHalfOpenKeepsTheReason(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.trip(ForWeight)
		r.pass(15 * time.Second)
		end(r.get(ask()), ended(decision.ServerError))
		r.refused(ask(), decision.Weight)
		r.get(lone())
	})
}

func TestHalfOpenPrefersThoseThatMayGoElsewhere(t *testing.T) {
	one := Ask{Model: "m", Stream: true}
	bubble(t, defaults(), func(r *rig) {
		r.due()
		r.refused(one, decision.BreakerOpen)
		r.pass(999 * time.Millisecond)
		r.refused(one, decision.BreakerOpen)
		r.pass(time.Millisecond)
		r.get(one) // nobody else came for a second
		r.wantState(HalfOpen)
	})
	bubble(t, defaults(), func(r *rig) {
		r.due()
		r.refused(one, decision.BreakerOpen)
		r.get(lone()) // it has nobody else and waited for this bucket
		r.wantState(HalfOpen)
	})
	bubble(t, defaults(), func(r *rig) {
		r.trip(ForFailureRate)
		r.pass(14500 * time.Millisecond)
		r.refused(ask(), decision.BreakerOpen) // such requests do come
		r.pass(500 * time.Millisecond)
		r.refused(lone(), decision.BreakerOpen)
		r.pass(500 * time.Millisecond)
		r.get(lone())
	})
	bubble(t, defaults(), func(r *rig) {
		r.due()
		r.pass(900 * time.Millisecond)
		p := r.get(ask())
		r.pass(900 * time.Millisecond)
		r.refused(ask(), decision.BreakerOpen) // such requests do come
		r.pass(900 * time.Millisecond)
		end(p, ended(decision.ClientGone))
		r.refused(one, decision.BreakerOpen)
		r.get(ask())
	})
}

// A last resort takes the probe when it may, else it passes a soft bucket
// without a permit, and its end decides nothing.
func TestHalfOpenSoftLetsLastResortsPass(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.trip(ForWeight)
		r.pass(15 * time.Second)
		probe := r.get(ask())
		for range 5 {
			p := r.get(lone())
			if s := r.wantState(HalfOpen); s.ProbesOut != 1 {
				r.Fatalf("%d probes out", s.ProbesOut)
			}
			end(p, ended(decision.ServerError))
		}
		r.wantState(HalfOpen)
		end(probe, ended(decision.OK))
		r.wantState(Ramping)
	})
	bubble(t, defaults(), func(r *rig) {
		r.trip(ForWeight)
		r.pass(16 * time.Second)
		end(r.get(lone()), ended(decision.OK))
		r.wantState(Ramping) // the only candidate comes back too
	})
}

// No permit is out for ever, whoever forgets it.
func TestHalfOpenTakesPermitsBack(t *testing.T) {
	for _, tc := range []struct {
		name     string
		deadline time.Duration // 0: none
		want     time.Duration
	}{
		{"deadline", 20 * time.Second, 20 * time.Second},
		{"no deadline", 0, 10 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := only(nil)
			bubble(t, s, func(r *rig) {
				r.due()
				a := ask()
				if tc.deadline > 0 {
					a.Deadline = time.Now().Add(tc.deadline)
				}
				r.get(a)
				r.pass(tc.want - time.Millisecond)
				r.refused(ask(), decision.BreakerOpen)
				r.pass(time.Millisecond)
				if s := r.wantState(HalfOpen); s.ProbesOut != 0 {
					r.Errorf("%d out", s.ProbesOut)
				}
				r.do(1, decision.OK)
				r.wantState(Ramping)
			})
		})
	}
}

// A probe that was taken back still speaks if it ends after all: or a bucket
// that has only long streams would never come back.
func TestHalfOpenHearsLateProbes(t *testing.T) {
	for _, tc := range []struct {
		class decision.Class
		want  string
	}{{decision.OK, Ramping}, {decision.Interrupted, Open}, {decision.ClientGone, HalfOpen}} {
		bubble(t, only(nil), func(r *rig) {
			r.due()
			a := ask()
			a.Deadline = time.Now().Add(time.Minute)
			p := r.get(a)
			p.Output()
			r.pass(2 * time.Minute)
			end(p, ended(tc.class))
			r.wantState(tc.want)
		})
	}
	bubble(t, only(nil), func(r *rig) { // but not of an earlier half-open
		r.due()
		a := ask()
		a.Deadline = time.Now().Add(time.Second)
		p := r.get(a)
		r.pass(2 * time.Second)
		r.do(1, decision.Connect)
		r.pass(15 * time.Second)
		q := r.get(ask())
		end(p, ended(decision.OK))
		if s := r.wantState(HalfOpen); s.ProbesOut != 1 || s.ProbesOK != 0 {
			r.Errorf("%+v", s)
		}
		end(q, ended(decision.OK))
		r.wantState(Ramping)
	})
}

func TestHalfOpenDoesNotWaitForASlowProbe(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.due()
		moved := false
		a := ask()
		a.OnOpen = func() { moved = true }
		r.get(a)
		r.pass(19 * time.Second)
		r.wantState(HalfOpen)
		r.pass(time.Second)
		if s := r.wantState(Open); s.Reason != ForSlow || !moved {
			r.Errorf("%s, moved %v", s.Reason, moved)
		}
		contains(r.T, r.last().Detail, "1/1 probes failed (slower than 20s)")
	})
}

// The verdict on slowness is that of a closed bucket: with the rule off there
// is none.
func TestHalfOpenSlowRuleOff(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.due()
		p := r.get(ask())
		r.pass(5 * time.Minute)
		p.Output()
		end(p, ended(decision.OK))
		r.wantState(Ramping)
	})
}

// A probe that was slow and ended between two ticks was slow all the same.
func TestHalfOpenSlowProbeBetweenTicks(t *testing.T) {
	for _, output := range []bool{true, false} {
		bubble(t, defaults(), func(r *rig) {
			r.due()
			r.pass(100 * time.Millisecond)
			p := r.get(ask())
			r.pass(20*time.Second + 50*time.Millisecond)
			if output {
				p.Output()
			}
			end(p, ended(decision.OK))
			if s := r.wantState(Open); s.Reason != ForSlow {
				r.Errorf("reason %s", s.Reason)
			}
		})
	}
}

// Once it gave output, a probe takes as long as it takes.
func TestHalfOpenLongProbeIsNotSlow(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.due()
		p := r.get(ask())
		p.Output()
		r.pass(5 * time.Minute)
		r.wantState(HalfOpen)
		end(p, ended(decision.OK))
		r.wantState(Ramping)
	})
}
