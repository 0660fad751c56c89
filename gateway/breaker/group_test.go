package breaker

import (
	"testing"
	"time"

	"failback/gateway/decision"
)

func (r *rig) group(c ...decision.Capability) *Group { return r.set.Group("a", decision.SetOf(c...)) }

func (r *rig) in(g *Group) *Permit {
	r.Helper()
	p := new(Permit)
	if why := g.Acquire(p, ask()); why != "" {
		r.Fatalf("refused: %s", why)
	}
	return p
}

// An end is booked on the most specific bucket alone.
func TestBookedOnTheMostSpecific(t *testing.T) {
	for _, tc := range []struct {
		caps decision.CapabilitySet
		want decision.Capability
	}{
		{decision.Needed(false, false, false), decision.Text},
		{decision.Needed(false, true, false), decision.Stream},
		{decision.Needed(false, false, true), decision.Tools},
		{decision.Needed(false, true, true), decision.Tools},
		{decision.Needed(true, false, false), decision.Embeddings},
	} {
		bubble(t, defaults(), func(r *rig) {
			for _, c := range []decision.Class{decision.OK, decision.ServerError, decision.ServerError} {
				end(r.in(r.set.Group("a", tc.caps)), ended(c))
			}
			for _, s := range r.set.Snapshot() {
				want := [3]int{}
				if s.Bucket.Capability == tc.want {
					want = [3]int{3, 2, 2}
				}
				if got := [3]int{s.Samples, s.Failures, s.Run}; got != want {
					r.Errorf("%v: %s has %v, want %v", tc.caps, s.Bucket, got, want)
				}
			}
		})
	}
}

func TestAllBucketsMustAdmit(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.group(decision.Text).Trip(ForFailureRate, "")
		r.refused(ask(), decision.BreakerOpen)
		if why := r.group(decision.Tools, decision.Text).Check(ask()); why != decision.BreakerOpen {
			r.Errorf("%q", why)
		}
		r.in(r.group(decision.Embeddings))
	})
	// The first that refuses gives the reason, and nobody keeps anything.
	bubble(t, defaults(), func(r *rig) {
		all := r.group(decision.Tools, decision.Stream, decision.Text)
		r.group(decision.Tools).Trip(ForFailureRate, "")
		r.pass(15 * time.Second) // due
		r.group(decision.Text).Trip(decision.Slow, "")
		for range 10 {
			if why := all.Acquire(new(Permit), ask()); why != decision.Slow {
				r.Fatalf("%q", why)
			}
		}
		for _, s := range r.set.Snapshot() {
			if s.InFlight != 0 || s.ProbesOut != 0 || s.State == HalfOpen {
				r.Errorf("%+v", s)
			}
		}
	})
}

// A half-open or ramping bucket gets the ends of all permits it gave.
func TestProbesTellAllTheirBuckets(t *testing.T) {
	for _, class := range []decision.Class{decision.OK, decision.Connect} {
		bubble(t, defaults(), func(r *rig) {
			r.group(decision.Text).Trip(ForFailureRate, "")
			r.pass(15 * time.Second)
			end(r.get(ask()), ended(class)) // a stream, booked on stream
			want := Open
			if class == decision.OK {
				want = Ramping
			}
			if s := r.bucket(decision.Text); s.State != want {
				r.Errorf("%s: text is %s", class, s.State)
			}
			if s := r.bucket(decision.Stream); s.Samples != 1 {
				r.Errorf("%s: stream has %d samples", class, s.Samples)
			}
			if class != decision.OK {
				return
			}
			for range 5 {
				end(r.get(ask()), ended(decision.Connect))
			}
			if s := r.bucket(decision.Text); s.State != Open || s.Reason != ForConsecutive {
				r.Errorf("text is %s for %s", s.State, s.Reason)
			}
		})
	}
	bubble(t, defaults(), func(r *rig) { // once closed, no more
		r.group(decision.Text).Trip(ForFailureRate, "")
		r.pass(15 * time.Second)
		end(r.get(ask()), ended(decision.OK))
		p := r.get(ask())
		r.pass(3 * time.Second)
		end(p, ended(decision.Connect))
		if s := r.bucket(decision.Text); s.State != Closed || s.Failures != 0 {
			r.Errorf("%+v", s)
		}
	})
}

func TestTwoHalfOpenBuckets(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.group(decision.Text).Trip(ForFailureRate, "")
		r.group(decision.Stream).Trip(ForFailureRate, "")
		r.pass(15 * time.Second)
		p := r.get(ask())
		for _, c := range []decision.Capability{decision.Text, decision.Stream} {
			if s := r.bucket(c); s.State != HalfOpen || s.ProbesOut != 1 {
				r.Fatalf("%+v", s)
			}
		}
		r.refused(ask(), decision.BreakerOpen)
		p.Release()
		for _, c := range []decision.Capability{decision.Text, decision.Stream} {
			if s := r.bucket(c); s.State != HalfOpen || s.ProbesOut != 0 {
				r.Fatalf("%+v", s)
			}
		}
		r.do(1, decision.OK)
		if a, b := r.bucket(decision.Text).State, r.bucket(decision.Stream).State; a != Ramping || b != Ramping {
			r.Errorf("%s, %s", a, b)
		}
	})
}

func TestGroupsThatCannotServe(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.set.Configure("b", "us", decision.SetOf(decision.Text), defaults())
		var none *Group
		for name, g := range map[string]*Group{
			"nil":                none,
			"unknown upstream":   r.set.Group("nobody", decision.SetOf(decision.Text)),
			"lacks a capability": r.set.Group("b", decision.Needed(false, true, false)),
		} {
			if why := g.Check(ask()); why != decision.NoCapability {
				r.Errorf("%s: Check %q", name, why)
			}
			if why := g.Acquire(new(Permit), ask()); why != decision.NoCapability {
				r.Errorf("%s: Acquire %q", name, why)
			}
			if why := g.Wait(r.Context(), new(Permit), ask(), time.Second); why != decision.NoCapability {
				r.Errorf("%s: Wait %q", name, why)
			}
			if w := g.Effective("m", 7); w != 7 {
				r.Errorf("%s: weight %v", name, w)
			}
			if _, ok := g.FirstOutputP99("m"); ok {
				r.Errorf("%s: p99", name)
			}
			if _, ok := g.RetryIn(); ok {
				r.Errorf("%s: RetryIn", name)
			}
			if g.TripByWeight("m", 1, 2) {
				r.Errorf("%s: tripped", name)
			}
			g.Trip(decision.Slow, "")
		}
	})
}

func TestAPermitStillOutIsReleasedFirst(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.set.Configure("b", "us", everything, defaults())
		var p Permit
		for range 10 {
			for _, g := range []*Group{r.g, r.g, r.set.Group("b", decision.Needed(false, true, false))} {
				if why := g.Acquire(&p, ask()); why != "" {
					r.Fatal(why)
				}
			}
		}
		if n := r.bucket(decision.Stream).InFlight; n != 0 {
			r.Errorf("%d in flight on a", n)
		}
		p.Done(ended(decision.OK))
		for _, s := range r.set.Snapshot() {
			if s.InFlight != 0 {
				r.Errorf("%+v", s)
			}
		}
	})
}
