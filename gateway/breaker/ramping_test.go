package breaker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
)

// fill takes permits until one is refused, and returns them.
func (r *rig) fill() []*Permit {
	r.Helper()
	var l []*Permit
	for {
		p := new(Permit)
		switch why := r.g.Acquire(p, ask()); why {
		case "":
			l = append(l, p)
		case decision.Capacity:
			return l
		default:
			r.Fatalf("refused: %s", why)
		}
		if len(l) > 5000 {
			r.Fatal("nothing binds")
		}
	}
}

func TestRampDoublesEachSecond(t *testing.T) {
	bubble(t, only(func(s *Settings) { s.FailureRate = 0.5 }), func(r *rig) {
		r.ramp()
		for want := 1; want <= 256; want *= 2 {
			out := r.fill()
			if len(out) != want {
				r.Fatalf("%d admitted, want %d", len(out), want)
			}
			if s := r.wantState(Ramping); s.RampLimit != want {
				r.Fatalf("limit %d, want %d", s.RampLimit, want)
			}
			r.pass(500 * time.Millisecond)
			for _, p := range out {
				end(p, ended(decision.OK))
			}
			if n := len(r.fill()); n != want {
				r.Fatalf("within a second %d are admitted, want %d", n, want)
			}
			// These hang; what the ramp gave it takes back when it must.
			r.releaseAll()
			r.pass(500 * time.Millisecond)
		}
	})
}

// releaseAll gives back everything that is out.
func (r *rig) releaseAll() {
	b := r.g.buckets[0]
	for {
		b.u.mu.Lock()
		s := b.given.first
		b.u.mu.Unlock()
		if s == nil {
			return
		}
		s.p.Release()
	}
}

func TestRampHoldsWhileTooManyFail(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ok     int
		failed int
		double bool
	}{
		{"none fails", 4, 0, true},
		{"a fifth fails", 4, 1, true},
		{"exactly half the rate", 3, 1, false},
		{"half fails", 1, 1, false},
		{"all fail", 0, 2, false},
		{"nothing was heard", 0, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, only(func(s *Settings) { s.FailureRate = 0.5 }), func(r *rig) {
				r.ramp()
				r.do(tc.ok, decision.OK)
				r.do(tc.failed, decision.ServerError)
				r.get(ask())
				r.fill() // it binds
				r.pass(time.Second)
				want := 1
				if tc.double {
					want = 2
				}
				if s := r.wantState(Ramping); s.RampLimit != want {
					r.Errorf("limit %d, want %d", s.RampLimit, want)
				}
			})
		})
	}
}

// An upstream that hangs again does not get more and more.
func TestRampDoesNotGrowOnSilence(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.ramp()
		for range 20 {
			r.fill()
			r.pass(time.Second)
		}
		if s := r.wantState(Ramping); s.RampLimit != 1 || s.InFlight != 1 {
			r.Errorf("limit %d, %d in flight", s.RampLimit, s.InFlight)
		}
	})
}

// Streams show by their output that the upstream is up to it; their end may be
// minutes away.
func TestRampGrowsOnOutput(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.ramp()
		in := 0
		for want := 1; want <= 64; want *= 2 {
			for _, p := range r.fill() {
				p.Output()
				in++
			}
			if in != want {
				r.Fatalf("%d in flight, want %d", in, want)
			}
			r.pass(time.Second)
		}
	})
}

func TestRampEndsWhenItDoesNotBind(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.ramp()
		r.pass(1750 * time.Millisecond)
		r.wantState(Ramping)
		r.fill() // one too many
		r.releaseAll()
		r.pass(1750 * time.Millisecond)
		r.wantState(Ramping)
		r.pass(250 * time.Millisecond)
		s := r.wantState(Closed)
		if s.Reason != "" || s.Detail != "" {
			r.Errorf("closed with reason %q %q", s.Reason, s.Detail)
		}
		if got := r.last(); got.Reason != RampOver {
			r.Errorf("%+v", got)
		}
	})
}

// A look at a full ramp is no demand.
func TestRampIsNotBoundByCheck(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.ramp()
		r.get(ask())
		for range 8 {
			if why := r.g.Check(ask()); why != decision.Capacity {
				break
			}
			r.pass(250 * time.Millisecond)
		}
		r.wantState(Closed)
	})
}

// Attempts from before the opening do not fill the ramp.
func TestRampCountsItsOwn(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		for range 50 {
			r.get(ask()).Output() // long streams
		}
		r.ramp()
		if n := len(r.fill()); n != 1 {
			r.Errorf("%d admitted", n)
		}
	})
}

func TestRampTakesPermitsBack(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.ramp()
		a := ask()
		a.Deadline = time.Now().Add(30 * time.Second)
		lost := r.get(a)
		for range 30 {
			r.refused(ask(), decision.Capacity)
			r.pass(time.Second)
		}
		r.get(ask())
		lost.Release() // late, and it must not count twice
		r.refused(ask(), decision.Capacity)
	})
}

func TestRampFollowsTheRulesOfAClosedBucket(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    decision.Outcome
		n    int
		want string
	}{
		{"failed requests in a row", ended(decision.Connect), 5, ForConsecutive},
		{"long Retry-After", asked(decision.RateLimited, 10*time.Second), 1, ForRateLimited},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, defaults(), func(r *rig) {
				r.ramp()
				for range tc.n {
					r.wantState(Ramping)
					end(r.get(ask()), tc.o)
				}
				if s := r.wantState(Open); s.Reason != tc.want {
					r.Errorf("reason %s", s.Reason)
				}
			})
		})
	}
}

// What was counted while ramping counts on when it closed: it is one run.
func TestRampCountsGoOnInClosed(t *testing.T) {
	bubble(t, only(func(s *Settings) { s.Consecutive = 5 }), func(r *rig) {
		r.ramp()
		r.do(3, decision.Connect)
		r.pass(2 * time.Second)
		if s := r.wantState(Closed); s.Run != 3 || s.Failures != 3 {
			r.Fatalf("run %d, failures %d", s.Run, s.Failures)
		}
		r.do(2, decision.Connect)
		r.wantState(Open)
	})
}

// After a soft opening there were last resorts all the time: the ramp does not
// shut them out.
func TestRampAfterSoftOpeningLetsLastResortsPass(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.trip(ForWeight)
		r.pass(15 * time.Second)
		r.do(1, decision.OK)
		r.wantState(Ramping)
		r.fill()
		for range 20 {
			r.get(lone())
		}
		r.refused(ask(), decision.Capacity)
	})
	bubble(t, only(nil), func(r *rig) {
		r.ramp() // after a hard one
		r.get(ask())
		r.refused(lone(), decision.Capacity)
	})
}

func TestWaitForTheRamp(t *testing.T) {
	bubble(t, only(func(s *Settings) { s.Patience = 3 * time.Second }), func(r *rig) {
		r.ramp()
		first := r.get(ask())
		type served struct {
			n    int
			at   time.Duration
			why  decision.Reason
			held *Permit
		}
		got := make(chan served, 8)
		start := time.Now()
		wait := func(n int, ctx context.Context, d time.Duration) {
			go func() {
				p := new(Permit)
				why := r.g.Wait(ctx, p, lone(), d)
				got <- served{n, time.Since(start), why, p}
			}()
			synctest.Wait()
		}
		gone, leave := context.WithCancel(r.Context())
		wait(1, r.Context(), time.Minute) // no longer than patience
		wait(2, gone, 2*time.Second)
		wait(3, r.Context(), 2*time.Second)
		wait(4, r.Context(), 500*time.Millisecond)

		// Whoever comes now does not overtake.
		r.pass(100 * time.Millisecond)
		end(first, ended(decision.OK))
		one := <-got
		if one.n != 1 || one.why != "" {
			r.Fatalf("%+v", one)
		}
		r.refused(ask(), decision.Capacity)

		r.pass(100 * time.Millisecond)
		leave()
		if two := <-got; two.n != 2 || two.why != decision.Capacity || two.at > 300*time.Millisecond {
			r.Fatalf("%+v", two)
		}
		if four := <-got; four.n != 4 || four.why != decision.Capacity || four.at != 500*time.Millisecond {
			r.Fatalf("%+v", four)
		}
		// The doubling lets in the third, though nobody returned a permit.
		three := <-got
		if three.n != 3 || three.why != "" || three.at > 1250*time.Millisecond {
			r.Fatalf("%+v", three)
		}
		if s := r.bucket(decision.Stream); s.InFlight != 2 {
			r.Errorf("%d in flight", s.InFlight)
		}

		// When the bucket opens, the wait is over.
		r.fill()
		wait(5, r.Context(), 2*time.Second)
		before := time.Since(start)
		r.g.Trip(decision.Reason(ForFailureRate), "")
		if five := <-got; five.why != decision.BreakerOpen || five.at != before {
			r.Fatalf("%+v", five)
		}
		// And patience is the most.
		r.pass(time.Minute)
		r.do(1, decision.OK)
		r.fill()
		start = time.Now()
		wait(6, r.Context(), time.Minute)
		if six := <-got; six.why != decision.Capacity || six.at != 3*time.Second {
			r.Fatalf("%+v", six)
		}
	})
}

func TestWaitWithoutTimeIsAcquire(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.ramp()
		r.get(ask())
		start := time.Now()
		for _, d := range []time.Duration{0, -time.Second} {
			if why := r.g.Wait(r.Context(), new(Permit), lone(), d); why != decision.Capacity {
				r.Errorf("%q", why)
			}
		}
		done, cancel := context.WithCancel(r.Context())
		cancel()
		if why := r.g.Wait(done, new(Permit), lone(), time.Second); why != decision.Capacity {
			r.Errorf("%q", why)
		}
		if time.Since(start) != 0 {
			r.Error("waited")
		}
		r.pass(2 * time.Second)
		if why := r.g.Wait(r.Context(), new(Permit), lone(), time.Second); why != "" {
			r.Errorf("closed, but %q", why)
		}
	})
}

// Room that comes with time goes to those who wait, also before the next tick.
func TestNobodyOvertakes(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.pass(100 * time.Millisecond) // off the tick
		r.ramp()
		r.get(ask()).Output()
		got := make(chan decision.Reason, 1)
		go func() { got <- r.g.Wait(r.Context(), new(Permit), ask(), 2*time.Second) }()
		r.pass(1050 * time.Millisecond)
		r.refused(ask(), decision.Capacity)
		synctest.Wait()
		select {
		case why := <-got:
			if why != "" {
				r.Errorf("%q", why)
			}
		default:
			r.Error("still waits")
		}
	})
}

// One that waits for two buckets in turn keeps its place in the second.
func TestNobodyOvertakesInTheNextBucket(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		text := r.group(decision.Text)
		r.pass(100 * time.Millisecond)
		r.trip(ForFailureRate)
		text.Trip(ForFailureRate, "")
		r.pass(15 * time.Second)
		r.do(1, decision.OK) // both ramp
		both := r.get(ask())
		go func() {
			if why := r.g.Wait(r.Context(), new(Permit), ask(), 3*time.Second); why != "" {
				r.Errorf("%q", why)
			}
		}()
		r.pass(100 * time.Millisecond)
		// The one permit of text goes to another at the moment it returns.
		u := r.g.u
		u.mu.Lock()
		both.end = ending{}
		both.finish(u.set.now())
		p := new(Permit)
		if why := u.try(u.set.now(), text, p, &Ask{Model: "m"}, true); why != "" {
			r.Errorf("%q", why)
		}
		u.unlock(u.set.now())
		p.Output()
		r.pass(950 * time.Millisecond)
		if why := text.Check(ask()); why != decision.Capacity {
			r.Errorf("%q: overtakes", why)
		}
		r.pass(time.Second)
	})
}
