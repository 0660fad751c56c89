package breaker

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"failback/gateway/decision"
)

func TestP99AgainstSorting(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var s samples
	var all []time.Duration
	for i := range 3000 {
		d := time.Duration(rnd.ExpFloat64()*1000) * time.Millisecond
		s.add(d)
		all = append(all, d)
		last := all[max(0, len(all)-samplesKept):]
		if i%7 != 0 && len(last) > 200 { // between, it may be a hundredth old
			continue
		}
		s.fresh = len(last)
		got, ok := s.p99(time.Duration(i))
		if ok != (len(last) >= samplesKnown) {
			t.Fatalf("%d samples: known %v", len(last), ok)
		}
		if !ok {
			continue
		}
		sorted := slices.Sorted(slices.Values(last))
		if want := sorted[(99*len(sorted)+99)/100-1]; got != want {
			t.Fatalf("%d samples: %v, want %v", len(last), got, want)
		}
	}
}

func TestP99IsFoundAgainInTime(t *testing.T) {
	var s samples
	for range 1000 {
		s.add(time.Second)
	}
	s.p99(0)
	for range 9 {
		s.add(time.Minute)
	}
	if got, _ := s.p99(0); got != time.Second {
		t.Errorf("%v", got)
	}
	s.add(time.Minute)
	if got, _ := s.p99(0); got != time.Second { // ten of a thousand are the last hundredth
		t.Errorf("%v", got)
	}
	s.add(time.Minute)
	if got, _ := s.p99(100 * time.Millisecond); got != time.Minute {
		t.Errorf("%v: one new sample is not seen after 100 ms", got)
	}
}

func TestDailyQuantiles(t *testing.T) {
	for _, v := range []time.Duration{5 * time.Millisecond, time.Second, 20 * time.Second, 15 * time.Minute} {
		var d daily
		for range 100 {
			d.add(time.Hour, v)
		}
		got, ok := d.quantile(time.Hour, 0.99)
		if diff := (got - v).Abs(); !ok || diff > max(v*4/100, 3*time.Millisecond) {
			t.Errorf("%v: %v %v", v, got, ok)
		}
	}
	var d daily
	for _, v := range []time.Duration{-time.Second, 0, 100 * time.Hour} { // kept in bounds
		for range 10 {
			d.add(time.Hour, v)
		}
	}
	if got, _ := d.quantile(time.Hour, 0); got > 5*time.Millisecond {
		t.Errorf("least %v", got)
	}
	if got, _ := d.quantile(time.Hour, 1); got < 2*time.Hour {
		t.Errorf("most %v", got)
	}
}

func TestDailyForgets(t *testing.T) {
	var d daily
	for h := range 48 {
		for range 10 {
			d.add(time.Duration(h)*time.Hour, time.Duration(h+1)*time.Second)
		}
		if d.sum.n > 240 {
			t.Fatalf("hour %d: %d samples", h, d.sum.n)
		}
	}
	if got, _ := d.quantile(47*time.Hour, 0); got < 24*time.Second {
		t.Errorf("least %v is older than a day", got)
	}
	if _, ok := d.quantile(200*time.Hour, 0.5); ok {
		t.Error("all of it is old")
	}
}

func TestLatencySamples(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		text := r.set.Group("a", decision.Needed(false, false, false))
		known := func() (string, time.Duration) {
			f, fok := r.g.FirstOutputP99("m")
			w, wok := text.WholeP99("m")
			switch {
			case fok && wok:
				return "both", max(f, w)
			case fok:
				return "first output", f
			case wok:
				return "whole", w
			}
			return "none", 0
		}
		want := func(what string, d time.Duration) {
			r.Helper()
			if k, got := known(); k != what || got != d {
				r.Fatalf("%s %v, want %s %v", k, got, what, d)
			}
		}
		stream := func(d time.Duration, c decision.Class) {
			p := r.get(ask())
			r.pass(d)
			if c == decision.OK {
				p.Output()
				r.pass(time.Minute) // the rest of it is no sample
			}
			end(p, ended(c))
		}
		for range 19 {
			stream(time.Second, decision.OK)
		}
		for _, c := range []decision.Class{decision.ServerError, decision.ClientGone, decision.CallerDeadline, decision.RateLimited, decision.LocalRefusal} {
			stream(time.Hour, c)
			r.pass(time.Minute)
		}
		want("none", 0)
		stream(time.Second, decision.OK)
		want("first output", time.Second)
		// A timeout is a sample at its limit, so that slowness is learned.
		stream(12*time.Second, decision.FirstOutputTimeout)
		want("first output", 12*time.Second)
		if _, ok := r.g.FirstOutputP99("other"); ok {
			r.Error("another model has them too")
		}

		for range 20 {
			p := new(Permit)
			if why := text.Acquire(p, Ask{Model: "m"}); why != "" {
				r.Fatal(why)
			}
			r.pass(30 * time.Second)
			end(p, ended(decision.OK))
		}
		want("both", 30*time.Second)
	})
}

// A stream whose output nobody reported counts when it ends well.
func TestOutputNotReported(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		for range 20 {
			p := r.get(ask())
			r.pass(3 * time.Second)
			end(p, ended(decision.OK))
		}
		if d, ok := r.g.FirstOutputP99("m"); !ok || d != 3*time.Second {
			r.Errorf("%v %v", d, ok)
		}
	})
}
