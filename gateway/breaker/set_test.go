package breaker

import (
	"slices"
	"sync"
	"testing"
	"time"

	"failback/gateway/decision"
)

func TestConfigureKeepsTheState(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.do(3, decision.ServerError)
		s := defaults()
		s.Consecutive = 4
		r.set.Configure("a", "eu", everything, s)
		r.do(1, decision.ServerError)
		opened := r.wantState(Open)
		s.Probes, s.Window = 3, time.Minute
		r.set.Configure("a", "eu", everything, s)
		if got := r.wantState(Open); got.Since != opened.Since || got.NextProbeAt != opened.NextProbeAt || got.Probes != 3 {
			r.Errorf("%+v", got)
		}
		if r.set.Group("a", decision.Needed(false, true, false)) != r.g {
			r.Error("another group")
		}
	})
}

func TestConfigureCapabilities(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		p := r.get(ask())
		r.set.Configure("a", "eu", decision.SetOf(decision.Text), defaults())
		r.refused(ask(), decision.NoCapability)
		end(p, ended(decision.OK)) // its bucket is gone, and nothing breaks
		if n := len(r.set.Snapshot()); n != 1 {
			r.Errorf("%d buckets", n)
		}
		r.set.Configure("a", "eu", everything, defaults())
		r.get(ask())
		if n := len(r.set.Snapshot()); n != 4 {
			r.Errorf("%d buckets", n)
		}
	})
}

// A bucket that goes while attempts queue for its ramp lets them go, and leaves
// nothing behind that would block the others.
func TestConfigureWhileAttemptsWait(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		text := r.group(decision.Text)
		text.Trip(ForFailureRate, "")
		r.pass(15 * time.Second)
		end(r.in(text), ended(decision.OK))
		held := r.in(text)
		got := make(chan decision.Reason)
		go func() { got <- r.g.Wait(r.Context(), new(Permit), lone(), time.Second) }()
		r.pass(0)
		r.set.Configure("a", "eu", decision.SetOf(decision.Text), defaults())
		if why := <-got; why != decision.NoCapability {
			r.Errorf("%q", why)
		}
		held.Release()
		r.in(text)
	})
}

func TestRemove(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		p := r.get(ask())
		r.set.Remove("a")
		r.set.Remove("a")
		r.set.SetReduced("a", true)
		if n := len(r.set.Snapshot()); n != 0 {
			r.Errorf("%d buckets", n)
		}
		end(p, ended(decision.OK))
		for range 10 {
			q := new(Permit)
			if r.g.Acquire(q, ask()) == "" {
				end(q, ended(decision.ServerError))
			}
		}
		r.wantTrace() // nobody hears of it
		r.set.Configure("a", "us", everything, defaults())
		if s := r.wantState(Closed); s.Region != "us" {
			r.Errorf("%+v", s)
		}
	})
}

func TestSnapshotOrder(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.set.Configure("z", "us", decision.SetOf(decision.Text, decision.Tools), defaults())
		r.set.Configure("b", "us", decision.SetOf(decision.Embeddings), defaults())
		r.set.Configure("a", "eu", everything, defaults())
		var got []string
		for _, s := range r.set.Snapshot() {
			got = append(got, s.Bucket.String())
		}
		want := []string{"a:tools", "a:stream", "a:text", "a:embeddings", "z:tools", "z:text", "b:embeddings"}
		if !slices.Equal(got, want) {
			r.Errorf("%v", got)
		}
	})
}

func TestEventsInOrderAndReentrant(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		var s *Set
		var got []string
		s = New(func(e decision.Event) {
			got = append(got, e.From+">"+e.To)
			// A handler may look at the set, and change it.
			s.Snapshot()
			if e.To == Open && e.Reason != Forced {
				if err := s.Force(decision.Bucket{Upstream: "x", Capability: decision.Text}, ActionClose, 0, "handler"); err != nil {
					r.Error(err)
				}
				if len(got) > 1 {
					r.Error("the next event came before the handler of this one returned")
				}
			}
		})
		s.Configure("x", "eu", everything, defaults())
		s.Group("x", decision.SetOf(decision.Text)).Trip(decision.Slow, "")
		if !slices.Equal(got, []string{"closed>open", "open>closed"}) {
			r.Errorf("%v", got)
		}
	})
}

func TestSettingsBounds(t *testing.T) {
	got := Settings{Cooldown: -1, CooldownMax: -5}.normal()
	if got.MinSamples != 1 || got.Probes != 1 || got.Window != time.Second || got.Cooldown != 0 || got.CooldownMax != 0 {
		t.Errorf("%+v", got)
	}
	if s := (Settings{Cooldown: time.Minute, CooldownMax: time.Second}).normal(); s.CooldownMax != time.Minute {
		t.Errorf("%v", s.CooldownMax)
	}
}

// Many goroutines at once, for the race detector, and for permits that get lost.
func TestConcurrently(t *testing.T) {
	set := New(func(decision.Event) {})
	for _, name := range []string{"a", "b"} {
		s := defaults()
		s.Cooldown, s.CooldownMax = time.Millisecond, 2*time.Millisecond
		set.Configure(name, "eu", everything, s)
	}
	go func() {
		if err := set.Run(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			var p Permit
			for i := range 3000 {
				name := []string{"a", "b"}[(i+worker)%2]
				g := set.Group(name, []decision.CapabilitySet{
					decision.Needed(false, true, true), decision.Needed(false, true, false), decision.Needed(false, false, false),
				}[i%3])
				a := Ask{Model: "m", Stream: i%2 == 0, Elsewhere: i%5 > 0, LastResort: i%5 == 0, OnOpen: func() { set.Snapshot() }}
				why := g.Acquire(&p, a)
				if why == decision.Capacity && i%7 == 0 {
					why = g.Wait(t.Context(), &p, a, time.Millisecond)
				}
				if why != "" {
					continue
				}
				if i%3 > 0 {
					p.Output()
				}
				class := decision.OK
				if i%100 < 30 {
					class = decision.ServerError
				}
				end(&p, ended(class))
				switch {
				case i%500 == 0:
					g.Trip(decision.Slow, "")
				case i%700 == 0:
					set.Configure(name, "eu", everything, defaults())
				case i%300 == 0:
					if err := set.Force(decision.Bucket{Upstream: name, Capability: decision.Text}, ActionAuto, 0, "ana"); err != nil {
						t.Error(err)
					}
				}
				g.Effective("m", 1)
				g.FirstOutputP99("m")
			}
		})
	}
	wg.Wait()
	for _, s := range set.Snapshot() {
		if s.InFlight != 0 || s.ProbesOut != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// An upstream without some capabilities, and a set nobody listens to.
func TestFewCapabilitiesAndNoListener(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		set := New(nil)
		set.Configure("x", "eu", decision.SetOf(decision.Text), only(func(s *Settings) { s.SlowOver, s.SlowRate, s.MinSamples = time.Second, 1, 1 }))
		go func() {
			if err := set.Run(r.Context()); err != nil {
				r.Error(err)
			}
		}()
		g := set.Group("x", decision.SetOf(decision.Text))
		moved := false
		if why := g.Acquire(new(Permit), Ask{Model: "m", Elsewhere: true, OnOpen: func() { moved = true }}); why != "" {
			r.Fatalf("refused: %s", why)
		}
		r.pass(time.Second)
		if why := g.Check(ask()); why != decision.Slow || !moved {
			r.Errorf("%q, moved %v", why, moved)
		}
	})
}
