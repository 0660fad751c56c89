package breaker

import (
	"testing"
	"time"

	"failback/gateway/decision"
)

func TestEffectiveWeight(t *testing.T) {
	for _, tc := range []struct {
		name       string
		ok, failed int
		want       float64
	}{
		{"nothing known", 0, 0, 80},
		{"too few", 0, 19, 80},
		{"half", 10, 10, 40},
		{"a tenth failed", 90, 10, 72},
		{"the last hundred", 200, 50, 40},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, only(nil), func(r *rig) {
				r.do(tc.ok, decision.OK)
				r.do(tc.failed, decision.ServerError)
				if got := r.g.Effective("m", 80); got != tc.want {
					r.Errorf("%v, want %v", got, tc.want)
				}
				if got := r.g.Effective("other", 80); got != 80 {
					r.Errorf("another model: %v", got)
				}
			})
		})
	}
}

func TestWeightsForget(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.do(20, decision.ServerError)
		r.pass(30 * time.Second)
		r.do(20, decision.OK)
		if got := r.g.Effective("m", 100); got != 50 {
			r.Fatalf("%v", got)
		}
		r.pass(30*time.Second + time.Millisecond)
		if got := r.g.Effective("m", 100); got != 100 {
			r.Fatalf("failures of 60 s ago: %v", got)
		}
		for range 50 { // neither neutral ends nor 429s are attempts here
			r.get(ask()).Done(ended(decision.ClientGone))
		}
		for range 9 {
			r.get(lone()).Done(ended(decision.RateLimited))
		}
		if w := r.bucket(decision.Stream).Weights; len(w) != 1 || w[0] != (ModelWeight{Model: "m", Ratio: 1, Attempts: 20}) {
			r.Fatalf("%+v", w)
		}
	})
}

func TestTripByWeight(t *testing.T) {
	for _, tc := range []struct {
		name             string
		ok, failed       int
		configured, next float64
		trip             bool
	}{
		{"too few attempts", 0, 19, 100, 80, false},
		{"too few failures", 0, 4, 100, 200, false},
		{"four of twenty failed", 16, 4, 100, 99, false},
		{"five of twenty-five", 20, 5, 100, 81, true},
		{"not below the next", 20, 5, 100, 80, false},
		{"nine tenths are good enough", 90, 10, 100, 95, false},
		{"just less", 89, 11, 100, 95, true},
		{"forty percent failed", 60, 40, 100, 80, true},
		{"the next is much lighter", 60, 40, 100, 10, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, only(nil), func(r *rig) {
				r.do(tc.ok, decision.OK)
				r.do(tc.failed, decision.ServerError)
				if got := r.g.TripByWeight("m", tc.configured, tc.next); got != tc.trip {
					r.Fatalf("%v, want %v", got, tc.trip)
				}
				if !tc.trip {
					r.wantState(Closed)
					return
				}
				r.refused(ask(), decision.Weight)
				contains(r.T, r.last().Detail, "failed, weight", "is below the next candidate's")
				if r.g.TripByWeight("m", tc.configured, tc.next) {
					r.Error("an open bucket opened")
				}
			})
		})
	}
}

// A return is judged by what happened since it, and not by the memory of what
// led to the opening.
func TestWeightsStartAnewWithTheRampAndTheClosing(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.do(60, decision.OK)
		r.do(40, decision.ServerError)
		if !r.g.TripByWeight("m", 100, 80) {
			r.Fatal("not open")
		}
		if w := r.bucket(decision.Stream).Weights; w[0].Attempts != 100 || w[0].Failed != 40 {
			r.Errorf("while open: %+v", w)
		}
		r.pass(15 * time.Second)
		r.do(1, decision.OK)
		r.wantState(Ramping)
		if got := r.g.Effective("m", 100); got != 100 {
			r.Fatalf("ramping: %v", got)
		}
		r.do(10, decision.OK)
		r.do(10, decision.ServerError)
		if got := r.g.Effective("m", 100); got != 50 {
			r.Fatalf("while ramping: %v", got)
		}
		r.pass(2 * time.Second)
		r.wantState(Closed)
		if got := r.g.Effective("m", 100); got != 100 {
			r.Fatalf("closed: %v", got)
		}
	})
}

func TestTripByWeightInTheRamp(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.ramp()
		r.do(12, decision.OK)
		r.do(8, decision.ServerError)
		if !r.g.TripByWeight("m", 100, 80) {
			r.Fatal("not open")
		}
		if in, _ := r.g.RetryIn(); in != 30*time.Second {
			r.Errorf("%v: the cooldown did not double", in)
		}
	})
}
