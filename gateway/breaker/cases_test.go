package breaker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"failback/gateway/decision"
)

// answer is what a stub upstream does with an attempt.
type answer struct {
	after time.Duration
	class decision.Class
}

// stub is an upstream under test: what it does, and what it saw.
type stub struct {
	name   string
	g      *Group
	does   func() answer
	mu     sync.Mutex
	count  int
	inside int
	most   int // at once
}

func (s *stub) enter() answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	s.inside++
	s.most = max(s.most, s.inside)
	return s.does()
}

func (s *stub) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
}

func always(after time.Duration, class decision.Class) func() answer {
	return func() answer { return answer{after, class} }
}

// chain is stubs in fallback order and a client of them that asks each once: as
// much of a router as the cases need.
type chain struct {
	*rig
	stubs []*stub
}

func (r *rig) chain(s Settings, does ...func() answer) *chain {
	c := &chain{rig: r}
	for i, d := range does {
		name := string(rune('a' + i))
		r.set.Configure(name, "eu", everything, s)
		c.stubs = append(c.stubs, &stub{name: name, g: r.set.Group(name, decision.Needed(false, true, false)), does: d})
	}
	return c
}

// request is one client's request: who answered ("" if nobody), the reason of
// the last refusal, and how long it took.
func (c *chain) request() (by string, why decision.Reason, took time.Duration) {
	start := time.Now()
	for _, last := range []bool{false, true} {
		for i, s := range c.stubs {
			elsewhere := slices.ContainsFunc(c.stubs[i+1:], func(o *stub) bool {
				return o.g.Check(Ask{Model: "m", Stream: true}) == ""
			})
			moved := make(chan struct{})
			p := new(Permit)
			a := Ask{Model: "m", Stream: true, Elsewhere: elsewhere, LastResort: last, OnOpen: func() { close(moved) }}
			if why = s.g.Acquire(p, a); why != "" {
				continue
			}
			last = true // nobody is asked twice
			do := s.enter()
			select {
			case <-time.After(do.after):
			case <-moved:
				do.class = decision.LocalRefusal
			}
			s.leave()
			if do.class == decision.OK {
				p.Output()
				p.Done(ended(decision.OK))
				return s.name, "", time.Since(start)
			}
			end(p, ended(do.class))
			why = decision.ReasonOf(do.class)
			if do.class.Blame() == decision.OfBucket && i+1 < len(c.stubs) {
				s.g.TripByWeight("m", float64(100-20*i), c.stubs[i+1].g.Effective("m", float64(80-20*i)))
			}
		}
		if last {
			break
		}
	}
	return "", why, time.Since(start)
}

// crowd makes n requests at once, each in a goroutine of its own.
func (c *chain) crowd(n int, each func(by string, why decision.Reason, took time.Duration)) *sync.WaitGroup {
	wg := new(sync.WaitGroup)
	for range n {
		wg.Go(func() {
			by, why, took := c.request()
			if each != nil {
				each(by, why, took)
			}
		})
	}
	return wg
}

// Permits come back however their attempt ends; afterwards one probe closes.
func TestBRK02StuckHalfOpen(t *testing.T) {
	s := defaults()
	s.Probes = 3
	bubble(t, s, func(r *rig) {
		r.due()
		for range 3 {
			func() {
				p := r.get(ask())
				defer p.Release()
				defer func() { _ = recover() }()
				panic("in the handler")
			}()
			r.get(ask()).Done(ended(decision.LocalRefusal))
			r.get(ask()).Done(ended(decision.ClientGone))
		}
		s := r.wantState(HalfOpen)
		if s.ProbesOut != 0 {
			r.Fatalf("%d out", s.ProbesOut)
		}
		r.do(3, decision.OK)
		r.wantState(Ramping)
		r.pass(2 * time.Second)
		r.wantState(Closed)
	})
}

// While a probe hangs nobody else is let through.
func TestBRK03HalfOpenAdmitsTheCrowd(t *testing.T) {
	for _, probes := range []int{1, 2} {
		s := defaults()
		s.Probes = probes
		bubble(t, s, func(r *rig) {
			c := r.chain(s, always(10*time.Second, decision.FirstOutputTimeout), always(time.Second, decision.OK))
			c.stubs[0].g.Trip(ForConsecutive, "")
			r.pass(15 * time.Second)
			var all []*sync.WaitGroup
			for range 60 { // a minute of a hundred a second
				all = append(all, c.crowd(100, func(by string, _ decision.Reason, took time.Duration) {
					if by != "b" {
						r.Errorf("answered by %q", by)
					}
					if took > time.Second && took < 11*time.Second {
						r.Errorf("took %v", took)
					}
				}))
				r.pass(time.Second)
			}
			for _, wg := range all {
				wg.Wait()
			}
			if a := c.stubs[0]; a.most != probes {
				r.Errorf("%d probes at once, want %d", a.most, probes)
			}
			// A probe takes 10 s and a cooldown 15 s.
			if a := c.stubs[0]; a.count > 3*probes {
				r.Errorf("%d probes in a minute", a.count)
			}
		})
	}
}

func TestBRK05VerdictOfProbes(t *testing.T) {
	for _, c := range []decision.Class{decision.InvalidRequest, decision.ModelGone, decision.ContextLength, decision.ContentFilter} {
		bubble(t, defaults(), func(r *rig) {
			r.due()
			for range 5 { // each call probes again
				end(r.get(ask()), ended(c))
				r.wantState(HalfOpen)
			}
			r.do(1, decision.OK)
			r.wantState(Ramping)
		})
	}
}

func TestBRK06FailureDuringProbation(t *testing.T) {
	s := defaults()
	s.Probes = 4
	bubble(t, s, func(r *rig) {
		r.due()
		var out []*Permit
		for range 4 {
			out = append(out, r.get(ask()))
		}
		end(out[0], ended(decision.ServerError))
		r.wantState(Open)
		for _, p := range out[1:] {
			end(p, ended(decision.OK))
		}
		if s := r.wantState(Open); s.NextProbeAt.Before(time.Now().Add(15 * time.Second)) {
			r.Errorf("not armed again: %v", s.NextProbeAt)
		}
	})
	bubble(t, defaults(), func(r *rig) { // one of one, far from min_samples
		r.due()
		r.do(1, decision.Connect)
		r.wantState(Open)
		r.pass(15 * time.Second)
		r.do(1, decision.OK)
		r.wantTrace("closed>open:failure_rate", "open>half_open:cooldown_over", "half_open>open:probe_failed",
			"open>half_open:cooldown_over", "half_open>ramping:probes_ok")
	})
}

// Every class that counts opens at the same threshold, with and without another
// candidate.
func TestBRK09NeverTrips(t *testing.T) {
	for _, class := range failureClasses {
		for targets := 1; targets <= 2; targets++ {
			t.Run(fmt.Sprintf("%s/%d", class, targets), func(t *testing.T) {
				bubble(t, defaults(), func(r *rig) {
					does := []func() answer{always(10*time.Millisecond, class), always(10*time.Millisecond, decision.OK)}
					c := r.chain(defaults(), does[:targets]...)
					refused := 0
					for range 25 {
						by, why, _ := c.request()
						if targets == 2 && by != "b" {
							r.Errorf("answered by %q", by)
						}
						if why == decision.BreakerOpen {
							refused++
						}
					}
					if n := c.stubs[0].count; n != 5 {
						r.Errorf("%d attempts, want 5", n)
					}
					if targets == 1 && refused != 20 {
						r.Errorf("%d failed fast, want 20", refused)
					}
				})
			})
		}
	}
}

// Those that wait when the bucket opens do not each wait for their own end.
func TestBRK10Overshoot(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		first := 0
		c := r.chain(defaults(), func() answer {
			first++
			if first <= 5 {
				return answer{5 * time.Second, decision.ServerError}
			}
			return answer{time.Minute, decision.ServerError}
		}, always(time.Second, decision.OK))
		c.crowd(200, func(by string, _ decision.Reason, took time.Duration) {
			if by != "b" || took != 6*time.Second {
				r.Errorf("answered by %q after %v", by, took)
			}
		}).Wait()
		if n := c.stubs[0].inside; n != 0 {
			r.Errorf("%d still wait", n)
		}
	})
}

// What the settings say about probes is what happens.
func TestBRK11ProbesMeanWhatTheySay(t *testing.T) {
	for _, tc := range []struct {
		probes int
		ends   []decision.Class
		want   string
	}{
		{1, []decision.Class{decision.OK}, Ramping},
		{1, []decision.Class{decision.Connect}, Open},
		{10, slices.Repeat([]decision.Class{decision.OK}, 9), HalfOpen},
		{10, slices.Repeat([]decision.Class{decision.OK}, 10), Ramping},
		{10, []decision.Class{decision.OK, decision.Connect}, Open}, // none is tolerated
		{10, []decision.Class{decision.ClientGone, decision.OK}, HalfOpen},
	} {
		s := defaults()
		s.Probes = tc.probes
		bubble(t, s, func(r *rig) {
			r.due()
			for range tc.probes {
				r.get(ask()) // so many at once
			}
			r.refused(ask(), decision.BreakerOpen)
			r.releaseAll()
			for _, c := range tc.ends {
				end(r.get(ask()), ended(c))
			}
			r.wantState(tc.want)
		})
	}
}

// With everybody open, everybody refuses, and says why and until when.
func TestBRK13EverythingOpen(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		c := r.chain(defaults(), always(0, decision.ServerError), always(0, decision.ServerError))
		for _, s := range c.stubs {
			s.g.Trip(ForConsecutive, "")
		}
		for range 100 {
			if by, why, took := c.request(); by != "" || why != decision.BreakerOpen || took != 0 {
				r.Fatalf("%q %q %v", by, why, took)
			}
		}
		if n := c.stubs[0].count + c.stubs[1].count; n != 0 {
			r.Errorf("%d attempts", n)
		}
		for _, s := range c.stubs {
			if in, ok := s.g.RetryIn(); !ok || in != 15*time.Second {
				r.Errorf("%s: %v %v", s.name, in, ok)
			}
		}
		if s := r.bucket(decision.Stream); s.Blocked == 0 {
			r.Error("nothing shows")
		}
		// A request that comes back is one request.
		before, again := r.bucket(decision.Stream).Blocked, ask()
		r.refused(again, decision.BreakerOpen)
		again.Counted = true
		r.refused(again, decision.BreakerOpen)
		if n := r.bucket(decision.Stream).Blocked - before; n != 1 {
			r.Errorf("%d are counted", n)
		}
	})
	// Partly failing ones, though, are better than none.
	bubble(t, defaults(), func(r *rig) {
		c := r.chain(defaults(), always(0, decision.OK), always(0, decision.OK))
		for _, s := range c.stubs {
			s.g.Trip(decision.Weight, "")
		}
		if by, why, _ := c.request(); by != "a" {
			r.Errorf("%q %q", by, why)
		}
	})
}

// Each round of an upstream that never succeeds costs the same: the threshold
// the first time, one probe later.
func TestBRK14CounterOnReadmission(t *testing.T) {
	s := defaults()
	s.Consecutive, s.Cooldown, s.CooldownMax = 3, 5*time.Second, 5*time.Second
	bubble(t, s, func(r *rig) {
		c := r.chain(s, always(10*time.Millisecond, decision.ServerError), always(10*time.Millisecond, decision.OK))
		var rounds []int
		before := 0
		for range 90 { // three a second for 30 s
			c.request()
			r.pass(time.Second/3 - 10*time.Millisecond)
			if r.bucket(decision.Stream).State == Open && c.stubs[0].count > before {
				rounds = append(rounds, c.stubs[0].count-before)
				before = c.stubs[0].count
			}
		}
		if rounds[0] != 3 || len(rounds) < 4 {
			r.Fatalf("%v", rounds)
		}
		for _, n := range rounds[1:] {
			if n != 1 {
				r.Errorf("%v", rounds)
			}
		}
	})
	// And where it did succeed in between, the threshold again.
	s.Consecutive = 4
	bubble(t, s, func(r *rig) {
		for range 3 {
			n := 0
			for r.bucket(decision.Stream).State != Open {
				r.do(1, decision.ServerError)
				n++
			}
			if n != 4 {
				r.Fatalf("%d", n)
			}
			r.pass(5 * time.Second)
			r.do(1, decision.OK)
			r.pass(3 * time.Second)
			r.wantState(Closed)
		}
	})
}

func TestBRK15SlowButSuccessful(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		slow := false
		c := r.chain(defaults(), func() answer {
			if slow {
				return answer{25 * time.Second, decision.OK}
			}
			return answer{time.Second, decision.OK}
		}, always(time.Second, decision.OK))
		var mu sync.Mutex
		var late []time.Duration
		var all []*sync.WaitGroup
		send := func(d time.Duration, keep bool) {
			for t := time.Duration(0); t < d; t += 200 * time.Millisecond {
				all = append(all, c.crowd(1, func(by string, _ decision.Reason, took time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					if keep {
						late = append(late, took)
					}
				}))
				r.pass(200 * time.Millisecond)
			}
		}
		send(30*time.Second, false)
		slow = true
		send(25*time.Second, false)
		s := r.bucket(decision.Stream)
		if s.State == Closed || s.Reason != ForSlow {
			r.Errorf("%s %s", s.State, s.Reason)
		}
		if why := c.stubs[0].g.Check(Ask{Model: "m", Stream: true}); why != decision.Slow {
			r.Errorf("passed by for %q", why)
		}
		send(60*time.Second, true)
		for _, wg := range all {
			wg.Wait()
		}
		slices.Sort(late)
		if p50 := late[len(late)/2]; p50 != time.Second {
			r.Errorf("p50 %v", p50)
		}
		if most := late[len(late)-1]; most > 26*time.Second { // a probe
			r.Errorf("the slowest took %v", most)
		}
	})
}

// The time that is left is known for each, so the earliest can be told.
func TestRTY09AllCoolingDown(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		c := r.chain(defaults(), always(0, decision.OK), always(0, decision.OK))
		for i, d := range []time.Duration{60 * time.Second, 20 * time.Second} {
			p := new(Permit)
			if why := c.stubs[i].g.Acquire(p, ask()); why != "" {
				r.Fatal(why)
			}
			end(p, asked(decision.RateLimited, d))
		}
		if _, why, _ := c.request(); why != decision.ReasonOf(decision.RateLimited) {
			r.Errorf("%q", why)
		}
		r.pass(5 * time.Second)
		for i, want := range []time.Duration{55 * time.Second, 15 * time.Second} {
			if in, ok := c.stubs[i].g.RetryIn(); !ok || in != want {
				r.Errorf("%v %v, want %v", in, ok, want)
			}
		}
	})
}

func TestCLS02CallersOwnDeadline(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		for range 100 {
			p := r.get(ask())
			r.pass(50 * time.Millisecond)
			end(p, ended(decision.CallerDeadline))
		}
		s := r.wantState(Closed)
		if s.Failures != 0 || s.Samples != 0 || s.Run != 0 {
			r.Errorf("%+v", s)
		}
		r.get(ask())
	})
}

// A refusal is immediate, takes nothing and says how long it will last.
func TestCLS08OpenIsNoRetryableError(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.trip(ForConsecutive)
		start := time.Now()
		for range 6 {
			if why := r.g.Wait(r.Context(), new(Permit), lone(), 200*time.Millisecond); why != decision.BreakerOpen {
				r.Fatalf("%q", why)
			}
		}
		if time.Since(start) != 0 {
			r.Error("slept")
		}
		if in, ok := r.g.RetryIn(); !ok || in != 15*time.Second {
			r.Errorf("%v %v", in, ok)
		}
	})
}

func TestFOV04MemoryBetweenRequests(t *testing.T) {
	s := defaults()
	s.CooldownMax = s.Cooldown
	bubble(t, s, func(r *rig) {
		c := r.chain(s, always(2*time.Second, decision.FirstOutputTimeout), always(2*time.Second, decision.FirstOutputTimeout),
			always(100*time.Millisecond, decision.OK))
		var took []time.Duration
		for range 20 {
			by, _, d := c.request()
			if by != "c" {
				r.Errorf("answered by %q", by)
			}
			took = append(took, d)
		}
		for i, d := range took {
			want := 100 * time.Millisecond
			if i < 5 { // the threshold
				want += 4 * time.Second
			}
			if d != want {
				r.Errorf("request %d took %v, want %v", i+1, d, want)
			}
		}
		// Later they are probed, one at a time.
		for range 60 {
			wg := c.crowd(10, nil)
			r.pass(time.Second)
			wg.Wait()
		}
		for _, s := range c.stubs[:2] {
			if s.most != 1 || s.count < 7 || s.count > 10 {
				r.Errorf("%s: %d attempts, %d at once", s.name, s.count, s.most)
			}
		}
	})
}

// A primary that fails 40 % for ten minutes at 60 requests a second is left
// within seconds, probed now and then, and does not flap.
func TestPartialFailure(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		rnd := rand.New(rand.NewPCG(4, 4))
		c := r.chain(defaults(), func() answer {
			if rnd.Float64() < 0.4 {
				return answer{300 * time.Millisecond, decision.ServerError}
			}
			return answer{500 * time.Millisecond, decision.OK}
		}, always(500*time.Millisecond, decision.OK))
		failed, byA := 0, 0
		var mu sync.Mutex
		var all []*sync.WaitGroup
		for range 600 * 60 {
			all = append(all, c.crowd(1, func(by string, _ decision.Reason, _ time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				switch by {
				case "":
					failed++
				case "a":
					byA++
				}
			}))
			r.pass(time.Second / 60)
		}
		for _, wg := range all {
			wg.Wait()
		}
		if failed > 36 {
			r.Errorf("%d of 36000 clients saw a failure", failed)
		}
		openings, closings := 0, 0
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, e := range r.events {
			switch {
			case e.Provider != "a":
				r.Errorf("%+v", e)
			case e.To == Open && e.From != HalfOpen:
				openings++
			case e.To == Closed:
				closings++
			}
		}
		if openings > 10 || closings > 2 {
			r.Errorf("%d openings, %d closings in ten minutes", openings, closings)
		}
		if c.stubs[0].count > 1500 {
			r.Errorf("%d attempts at the primary", c.stubs[0].count)
		}
		r.Logf("primary: %d attempts, %d openings, %d closings, %d answered, %d clients failed", c.stubs[0].count, openings, closings, byA, failed)
	})
}

// When an upstream that hangs with a thousand requests in flight is found out,
// all of them move at once.
func TestOutageWithAThousandInFlight(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		dead := false
		c := r.chain(defaults(), func() answer {
			if dead {
				return answer{time.Hour, decision.OK}
			}
			return answer{2 * time.Second, decision.OK}
		}, always(time.Second, decision.OK))
		var all []*sync.WaitGroup
		send := func(d time.Duration) {
			for t := time.Duration(0); t < d; t += 4 * time.Millisecond {
				all = append(all, c.crowd(2, func(by string, _ decision.Reason, took time.Duration) {
					if took > 6*time.Second {
						r.Errorf("%s after %v", by, took)
					}
				}))
				r.pass(4 * time.Millisecond)
			}
		}
		send(10 * time.Second) // five hundred a second
		dead = true
		send(6 * time.Second)
		if s := r.bucket(decision.Stream); s.State != Open || s.Reason != ForSlow {
			r.Errorf("%s %s %s", s.State, s.Reason, s.Detail)
		}
		for _, wg := range all {
			wg.Wait()
		}
	})
}

// Back from an outage at five hundred a second, the upstream is never given more
// in flight than the ramp allows.
func TestReturnIsNeverAtFullRate(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		c := r.chain(defaults(), always(200*time.Millisecond, decision.OK), always(200*time.Millisecond, decision.OK))
		c.stubs[0].g.Trip(ForConsecutive, "")
		r.pass(15 * time.Second)
		start := time.Now()
		var all []*sync.WaitGroup
		a := c.stubs[0]
		for range 15 * 250 {
			all = append(all, c.crowd(2, nil))
			r.pass(4 * time.Millisecond)
			a.mu.Lock()
			since := time.Since(start) - 200*time.Millisecond // the probe's
			if most := 1 << (int(max(since, 0)/time.Second) + 1); a.most > most {
				r.Fatalf("%d at once after %v", a.most, since)
			}
			a.mu.Unlock()
		}
		for _, wg := range all {
			wg.Wait()
		}
		if s := r.wantState(Closed); a.most < 60 {
			r.Errorf("%d at once, %+v", a.most, s)
		}
	})
}
