package breaker

import (
	"testing"
	"time"

	"failback/gateway/decision"
)

func TestClosedOpensOnFailureRate(t *testing.T) {
	type step struct {
		n     int
		class decision.Class
	}
	for _, tc := range []struct {
		name  string
		rate  float64
		steps []step
		open  bool
	}{
		{"too few samples", 0.5, []step{{9, decision.ServerError}}, false},
		{"all of the least", 0.5, []step{{10, decision.ServerError}}, true},
		{"exactly the rate", 0.5, []step{{5, decision.OK}, {5, decision.Connect}}, true},
		{"below the rate", 0.5, []step{{6, decision.OK}, {5, decision.Connect}}, false},
		{"a rate that is no binary fraction", 0.3, []step{{7, decision.OK}, {3, decision.Reset}}, true},
		{"below it", 0.3, []step{{8, decision.OK}, {3, decision.Reset}}, false},
		{"successes after failures do not open", 0.5, []step{{9, decision.Connect}, {1, decision.OK}, {1, decision.OK}}, false},
		{"neutral ends are no samples", 0.5, []step{{9, decision.ServerError}, {50, decision.InvalidRequest}}, false},
		{"neutral ends do not dilute", 0.5, []step{{50, decision.ClientGone}, {10, decision.ServerError}}, true},
		{"the rule is off", 0, []step{{100, decision.ServerError}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, only(func(s *Settings) { s.FailureRate = tc.rate }), func(r *rig) {
				for _, s := range tc.steps {
					r.do(s.n, s.class)
				}
				want := Closed
				if tc.open {
					want = Open
				}
				s := r.wantState(want)
				if tc.open && s.Reason != ForFailureRate {
					r.Errorf("reason %q", s.Reason)
				}
			})
		})
	}
}

func TestClosedFailureDetailNamesTheClasses(t *testing.T) {
	bubble(t, only(func(s *Settings) { s.FailureRate, s.MinSamples = 0.6, 20 }), func(r *rig) {
		r.do(8, decision.OK)
		r.do(1, decision.FirstOutputTimeout)
		r.do(11, decision.ServerError)
		if got, want := r.last().Detail, "12/20 failed (server_error x11, first_output_timeout x1)"; got != want {
			r.Errorf("detail %q, want %q", got, want)
		}
	})
}

func TestClosedWindowForgets(t *testing.T) {
	bubble(t, only(func(s *Settings) { s.FailureRate = 0.5 }), func(r *rig) {
		r.do(9, decision.ServerError)
		r.pass(29 * time.Second) // a thirtieth of the window may be gone already, no more
		if s := r.bucket(decision.Stream); s.Samples != 9 || s.Failures != 9 {
			r.Fatalf("after 29 s: %d/%d", s.Failures, s.Samples)
		}
		r.pass(time.Second)
		r.do(9, decision.ServerError)
		s := r.wantState(Closed)
		if s.Samples != 9 {
			r.Fatalf("after 30 s: %d samples, want 9", s.Samples)
		}
	})
}

func TestClosedOpensOnFailedRequestsInARow(t *testing.T) {
	for _, tc := range []struct {
		name      string
		perSecond int // successes a second before
		reduced   bool
		want      int // failed requests until it opens
	}{
		{"quiet", 0, false, 5},
		{"three a second", 3, false, 5},
		{"five a second", 5, false, 5},
		{"twenty a second", 20, false, 20},
		{"reduced and quiet", 0, true, 2},
		{"reduced, twenty a second", 20, true, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, only(func(s *Settings) { s.Consecutive = 5 }), func(r *rig) {
				r.set.SetReduced("a", tc.reduced)
				if tc.perSecond > 0 {
					r.steady(tc.perSecond, 12*time.Second, decision.OK)
				}
				for n := 1; ; n++ {
					end(r.get(ask()), ended(decision.Connect))
					if r.bucket(decision.Stream).State == Open {
						if n != tc.want {
							r.Fatalf("opened after %d failed requests, want %d", n, tc.want)
						}
						break
					}
					if n > tc.want {
						r.Fatalf("still closed after %d", n)
					}
				}
				contains(r.T, r.last().Detail, "failed in a row (connect x")
				if r.last().Reason != ForConsecutive {
					r.Errorf("reason %q", r.last().Reason)
				}
			})
		})
	}
}

// The threshold is that of the time before the run: failures that trickle in
// do not raise it, and it does not sink while they do.
func TestClosedRunIsMeasuredByTheTimeBeforeIt(t *testing.T) {
	bubble(t, only(func(s *Settings) { s.Consecutive = 5 }), func(r *rig) {
		r.steady(10, 12*time.Second, decision.OK)
		for n := 1; n <= 10; n++ {
			r.wantState(Closed)
			end(r.get(ask()), ended(decision.Connect))
			r.pass(2 * time.Second)
		}
		r.wantState(Open)
	})
}

func TestClosedRunCountsTheLastAttemptOfARequest(t *testing.T) {
	bubble(t, only(func(s *Settings) { s.Consecutive = 3 }), func(r *rig) {
		for range 10 { // tried again each time: nobody left
			r.get(ask()).Done(ended(decision.ServerError))
		}
		if s := r.wantState(Closed); s.Run != 0 {
			r.Fatalf("run %d", s.Run)
		}
		p := r.get(ask())
		p.Done(ended(decision.ServerError))
		for range 5 { // said more than once
			p.Left()
		}
		if s := r.wantState(Closed); s.Run != 1 {
			r.Fatalf("run %d, want 1", s.Run)
		}
		end(r.get(ask()), ended(decision.ServerError))
		p = r.get(ask())
		if p.Done(ended(decision.ServerError)).Open {
			r.Error("open before the request left")
		}
		if !p.Left() {
			r.Error("Left does not tell that it opened the bucket")
		}
		r.wantState(Open)
	})
}

func TestClosedRunEndsWithASuccess(t *testing.T) {
	bubble(t, only(func(s *Settings) { s.Consecutive = 3 }), func(r *rig) {
		for range 10 {
			r.do(2, decision.Connect)
			r.do(1, decision.OK)
		}
		r.wantState(Closed)
		// Neither a neutral end nor a 429 ends it or counts in it.
		r.do(2, decision.Connect)
		r.do(3, decision.ClientGone)
		r.do(1, decision.InvalidRequest)
		end(r.get(ask()), ended(decision.RateLimited))
		r.pass(time.Second) // it halved the rate
		if s := r.wantState(Closed); s.Run != 2 {
			r.Fatalf("run %d, want 2", s.Run)
		}
		r.do(1, decision.Connect)
		r.wantState(Open)
	})
}

// What each class does to a closed bucket.
func TestClosedClasses(t *testing.T) {
	for _, c := range decision.Classes {
		t.Run(string(c), func(t *testing.T) {
			bubble(t, only(func(s *Settings) { s.FailureRate = 0.5 }), func(r *rig) {
				p := r.get(ask())
				r.pass(time.Second)
				rep := end(p, ended(c))
				s := r.bucket(decision.Stream)
				fails := c.Blame() == decision.OfBucket
				switch {
				case c == decision.OK:
					if s.Samples != 1 || s.Failures != 0 {
						r.Errorf("%d/%d", s.Failures, s.Samples)
					}
				case fails:
					if s.Samples != 1 || s.Failures != 1 || s.Run != 1 {
						r.Errorf("%d/%d, run %d", s.Failures, s.Samples, s.Run)
					}
				default:
					if s.Samples != 0 || s.Failures != 0 || s.Run != 0 {
						r.Errorf("neutral class counted: %d/%d, run %d", s.Failures, s.Samples, s.Run)
					}
				}
				if rep.FirstFailure != fails {
					r.Errorf("FirstFailure %v", rep.FirstFailure)
				}
				if limits := s.AdmittedRPS > 0; limits != (c == decision.RateLimited) {
					r.Errorf("admitted rate %v", s.AdmittedRPS)
				}
				if s.InFlight != 0 {
					r.Errorf("%d in flight", s.InFlight)
				}
			})
		})
	}
}

func TestModelsOwnErrorsAreNeutral(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		for _, c := range []decision.Class{decision.RateLimited, decision.Overloaded, decision.ModelGone} {
			for range 30 {
				o := asked(c, time.Minute)
				o.NamesModel = true
				end(r.get(ask()), o)
			}
		}
		if s := r.wantState(Closed); s.Samples != 0 || s.AdmittedRPS != 0 {
			r.Errorf("counted: %+v", s)
		}
	})
}

func TestFirstFailureOfTenSeconds(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		fail := func() bool { return end(r.get(ask()), ended(decision.Reset)).FirstFailure }
		if !fail() {
			r.Error("the first of all is none")
		}
		r.pass(9900 * time.Millisecond)
		if fail() {
			r.Error("9.9 s after one")
		}
		r.pass(9900 * time.Millisecond)
		if fail() {
			r.Error("9.9 s after the second")
		}
		r.pass(10 * time.Second)
		if !fail() {
			r.Error("10 s without one")
		}
		if end(r.get(ask()), ended(decision.OK)).FirstFailure {
			r.Error("a success is no failure")
		}
	})
}

func TestDoneCountsOnce(t *testing.T) {
	bubble(t, only(func(s *Settings) { s.FailureRate = 0.5 }), func(r *rig) {
		p := r.get(ask())
		p.Done(ended(decision.ServerError))
		for range 20 {
			if rep := p.Done(ended(decision.ServerError)); rep != (Report{}) {
				r.Fatalf("a later call reports %+v", rep)
			}
			p.Output()
			p.Release()
		}
		if s := r.wantState(Closed); s.Samples != 1 || s.InFlight != 0 {
			r.Errorf("%d samples, %d in flight", s.Samples, s.InFlight)
		}
		var zero Permit
		zero.Output()
		zero.Release()
		zero.Left()
		if rep := zero.Done(ended(decision.OK)); rep != (Report{}) {
			r.Errorf("a permit never given reports %+v", rep)
		}
	})
}
