package breaker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
)

// prober is an ask that no client waits for.
func prober() Ask { return Ask{Model: "m", Stream: true, Prober: true} }

func TestReservedProbesAreForProbers(t *testing.T) {
	for _, reason := range []string{ForFailureRate, ForSlow} {
		t.Run(reason, func(t *testing.T) {
			bubble(t, only(func(s *Settings) { s.Probes = 2 }), func(r *rig) {
				skip := decision.BreakerOpen
				if reason == ForSlow {
					skip = decision.Slow
				}
				r.set.Reserve("a", true)
				r.trip(reason)
				r.refused(prober(), skip) // it waits like everybody
				r.pass(15 * time.Second)
				clients := func() {
					r.Helper()
					r.refused(ask(), skip)
					r.refused(Ask{Model: "m", Stream: true}, skip)
					if !soft(reason) {
						r.refused(lone(), skip)
						return
					}
					// What is open only to others lets a last resort pass, and
					// takes no probe for it.
					before := r.bucket(decision.Stream)
					p := r.get(lone())
					if s := r.bucket(decision.Stream); s.State != before.State || s.ProbesOut != before.ProbesOut {
						r.Fatalf("a client took a probe: %+v", s)
					}
					p.Release()
				}
				clients()
				r.pass(time.Minute)
				clients()
				first := r.get(prober())
				r.wantState(HalfOpen)
				clients()
				second := r.get(prober())
				r.refused(prober(), skip)
				first.Done(ended(decision.OK))
				clients()
				r.refused(prober(), skip) // one of two ended well, the other is out
				second.Done(ended(decision.OK))
				r.wantState(Ramping)
				// Nobody is bound by a ramp without traffic.
				r.pass(3 * time.Second)
				r.wantState(Closed)
			})
		})
	}
}

func TestProberReopens(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.set.Reserve("a", true)
		r.due()
		end(r.get(prober()), asked(decision.Overloaded, 40*time.Second))
		s := r.wantState(Open)
		if in := time.Until(s.NextProbeAt); in != 40*time.Second || r.last().Reason != ProbeFailed {
			r.Errorf("%v, %+v", in, r.last())
		}
		r.pass(40 * time.Second)
		end(r.get(prober()), ended(decision.InvalidRequest)) // says nothing
		if s := r.wantState(HalfOpen); s.ProbesOut != 0 {
			r.Errorf("the permit did not come back: %+v", s)
		}
		p := r.get(prober())
		r.pass(21 * time.Second) // slow.over
		if s := r.wantState(Open); s.Reason != ForSlow {
			r.Errorf("%+v", s)
		}
		end(p, ended(decision.OK)) // too late to change anything
		r.wantState(Open)
	})
}

// The permit of a prober that forgot it comes back at its deadline.
func TestProberPermitComesBack(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.set.Reserve("a", true)
		r.due()
		a := prober()
		a.Deadline = time.Now().Add(30 * time.Second)
		r.get(a)
		r.refused(prober(), decision.BreakerOpen)
		r.pass(31 * time.Second)
		end(r.get(prober()), ended(decision.OK))
		r.wantState(Ramping)
	})
}

// Where nothing is reserved, a prober goes first: no client is at risk.
func TestProberWithoutReservation(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.due()
		p := r.get(prober())
		r.refused(ask(), decision.BreakerOpen)
		r.set.Reserve("a", true)
		r.set.Reserve("a", false)
		end(p, ended(decision.OK))
		r.wantState(Ramping)
		end(r.get(ask()), ended(decision.OK))
	})
}

// digest is what clients' attempts have taught the upstream.
func digest(u *upstream, now time.Duration) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var l []string
	known := func(d *daily) uint32 {
		if d.sum == nil {
			return 0
		}
		return d.sum.n
	}
	for _, b := range u.buckets {
		b.win.advance(now)
		b.completed.advance(now)
		l = append(l, fmt.Sprintln(b.name, b.state.name(), b.win.sum, b.run, b.completed.sum, b.admission, b.lastFailure, b.retryAt,
			b.pace.answered, known(&b.pace.days[unary]), known(&b.pace.days[stream]), b.ramp.good, b.ramp.bad, b.ramp.limit,
			b.given.n, b.inFlight(), b.blocked, b.shadowBlocked, b.elsewhere, len(b.models)))
		for name, m := range b.models {
			l = append(l, fmt.Sprintln(b.name, name, m.recent.n, m.recent.failed, len(m.output.ring), len(m.whole.ring)))
		}
	}
	for caps, g := range u.groups {
		g.starts.advance(now)
		l = append(l, fmt.Sprintln(caps, g.starts.sum))
	}
	slices.Sort(l)
	return strings.Join(l, "") + fmt.Sprintln(u.lost)
}

func TestProberTeachesAnOpenRoadNothing(t *testing.T) {
	for _, state := range []string{Closed, Ramping} {
		for _, c := range decision.Classes {
			for _, whole := range []bool{false, true} {
				bubble(t, defaults(), func(r *rig) {
					r.do(3, decision.OK)
					if state == Ramping {
						r.ramp()
						r.get(ask()) // the ramp has no room left
					}
					before := digest(r.g.u, r.set.now())
					for range 20 {
						a := prober()
						a.Stream = !whole
						p := r.get(a)
						if !whole {
							p.Output()
						}
						o := asked(c, time.Hour)
						o.ConnID = 7
						end(p, o)
						r.get(a).Release()
					}
					if after := digest(r.g.u, r.set.now()); after != before {
						r.Errorf("%s, %s:\n%s\n%s", state, c, before, after)
					}
				})
			}
		}
	}
}

// A client whose connection broke under a probe too is booked all the same.
func TestProberHidesNoLostConnection(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		o := ended(decision.Reset)
		o.ConnID = 3
		client := r.get(ask())
		end(r.get(prober()), o)
		if rep := end(client, o); !rep.FirstFailure {
			r.Errorf("%+v", rep)
		}
		if s := r.wantState(Closed); s.Failures != 1 {
			r.Errorf("%+v", s)
		}
	})
}

// Probes that hang are no stall of the upstream's, nor slow attempts.
func TestProberHangsAlone(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.steady(10, 5*time.Second, decision.OK)
		for range 20 {
			r.get(prober())
		}
		r.pass(time.Minute)
		r.wantState(Closed)
		r.wantTrace()
	})
}

func TestProberAndOverrides(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		b := decision.Bucket{Upstream: "a", Capability: decision.Stream}
		r.set.Reserve("a", true)
		force := func(action string) {
			r.Helper()
			if err := r.set.Force(b, action, time.Hour, "ana"); err != nil {
				r.Fatal(err)
			}
		}
		force(ActionOpen)
		r.pass(time.Minute)
		r.refused(prober(), decision.BreakerOpen)
		force(ActionClose)
		r.get(prober())
		r.get(lone())
		force(ActionOpen)
		force(ActionAuto)
		r.refused(ask(), decision.BreakerOpen)
		end(r.get(prober()), ended(decision.OK))
		r.wantState(Ramping)
	})
}

// In shadow mode clients pass whatever is reserved, and take no probe.
func TestProberInShadow(t *testing.T) {
	s := only(func(s *Settings) { s.Shadow = true })
	bubble(t, s, func(r *rig) {
		r.set.Reserve("a", true)
		r.trip(ForFailureRate)
		r.refused(prober(), decision.BreakerOpen)
		r.get(ask())
		r.pass(15 * time.Second)
		end(r.get(ask()), ended(decision.ServerError))
		r.wantState(Open)
		end(r.get(prober()), ended(decision.OK))
		r.wantState(Ramping)
	})
}

func TestReservationOutlivesReloadAndRemoval(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.set.Reserve("b", true) // not there yet
		r.set.Configure("b", "eu", everything, defaults())
		r.set.Configure("b", "eu", everything, only(nil))
		reserved := func(upstream string) (all bool) {
			all = true
			n := 0
			for _, s := range r.set.Snapshot() {
				if s.Bucket.Upstream == upstream {
					all = all && s.Reserved
					n++
				}
			}
			return all && n > 0
		}
		if !reserved("b") || reserved("a") {
			r.Error("reserved by name")
		}
		g := r.set.Group("b", decision.Needed(false, true, false))
		g.Trip(ForFailureRate, "test")
		r.pass(20 * time.Second)
		p := new(Permit)
		if why := g.Acquire(p, prober()); why != "" {
			r.Fatal(why)
		}
		r.set.Remove("b")
		p.Done(ended(decision.OK)) // nobody hears of it
		r.set.Configure("b", "eu", everything, defaults())
		if !reserved("b") {
			r.Error("forgotten by a removal")
		}
		r.set.Reserve("b", false)
		if reserved("b") {
			r.Error("still reserved")
		}
	})
}

func TestUnprobedIsUnknown(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		if s := r.bucket(decision.Stream); s.Unprobed || !s.ProberAt.IsZero() {
			r.Errorf("clients know how it is: %+v", s)
		}
		r.set.Reserve("a", true)
		if s := r.bucket(decision.Stream); !s.Unprobed {
			r.Errorf("nobody asked yet: %+v", s)
		}
		r.trip(ForFailureRate)
		r.refused(prober(), decision.BreakerOpen) // it waits, which is somebody
		at := time.Now()
		s := r.bucket(decision.Stream)
		if s.Unprobed || !s.ProberAt.Equal(at) || s.Blocked != 0 {
			r.Errorf("%+v", s)
		}
		if s := r.bucket(decision.Tools); !s.Unprobed {
			r.Errorf("of a bucket that nobody asks: %+v", s)
		}
		r.pass(proberAge + time.Second)
		if s := r.bucket(decision.Stream); !s.Unprobed || !s.ProberAt.Equal(at) {
			r.Errorf("%+v", s)
		}
	})
}
