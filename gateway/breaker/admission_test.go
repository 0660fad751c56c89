package breaker

import (
	"math"
	"testing"
	"time"

	"failback/gateway/decision"
)

// rush offers perSecond requests a second for d, each answered well at once,
// and returns how many were admitted.
func (r *rig) rush(perSecond int, d time.Duration) int {
	r.Helper()
	n := 0
	gap := time.Second / time.Duration(perSecond)
	for t := time.Duration(0); t < d; t += gap {
		p := new(Permit)
		switch why := r.g.Acquire(p, ask()); why {
		case "":
			n++
			p.Done(ended(decision.OK))
		case decision.Capacity:
		default:
			r.Fatalf("refused: %s", why)
		}
		r.pass(gap)
	}
	return n
}

func (r *rig) limited() {
	r.Helper()
	// One more than the rate admits, as those that nobody else can serve.
	end(r.get(lone()), ended(decision.RateLimited))
}

func near(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if math.Abs(got-want) > by {
		t.Errorf("%s: %.2f, want %.2f", what, got, want)
	}
}

func (r *rig) admitted() float64 { return r.bucket(decision.Stream).AdmittedRPS }

func TestA429HalvesTheRate(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.rush(100, 12*time.Second)
		r.limited()
		near(r.T, "after one 429", r.admitted(), 50, 1)
		r.pass(500 * time.Millisecond)
		for range 20 {
			r.limited() // once a second is enough
		}
		near(r.T, "within the second", r.admitted(), 55, 1)
		r.pass(500 * time.Millisecond)
		r.limited()
		near(r.T, "a second later", r.admitted(), 30, 1)
		for range 8 {
			r.rush(100, time.Second)
			r.limited()
		}
		// It never comes to a stand: (x+10)/2 = x at 10.
		near(r.T, "in the long run", r.admitted(), 10, 1)
	})
}

func TestA429LeavesAtLeastOneASecond(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.limited()
		near(r.T, "of nothing", r.admitted(), 1, 0)
		r.pass(time.Second)
		r.limited()
		near(r.T, "and again", r.admitted(), 1, 0.11)
	})
}

func TestTheRateGrowsUntilItDoesNotBind(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.rush(100, 12*time.Second)
		r.limited()
		admitted := 0
		for second, want := range []int{55, 65, 75, 85, 95, 100} {
			n := r.rush(100, time.Second)
			near(r.T, "admitted in second "+string(rune('1'+second)), float64(n), float64(want), 3)
			admitted += n
		}
		if r.admitted() == 0 {
			r.Error("lifted while it bound a moment ago")
		}
		r.rush(100, 2*time.Second)
		if got := r.admitted(); got != 0 {
			r.Errorf("%v is still the limit", got)
		}
		if n := r.rush(400, time.Second); n != 400 {
			r.Errorf("%d of 400", n)
		}
	})
}

// The rate is that of the time there was traffic, not thinned by what came
// before the first request.
func TestTheRateOfAYoungBucket(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.rush(100, 3*time.Second)
		r.limited()
		near(r.T, "after 3 s", r.admitted(), 50, 1)
	})
}

func TestExcessIsCapacityButLastResortsAreSent(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.limited()
		r.refused(ask(), decision.Capacity)
		r.refused(Ask{Model: "m", Stream: true}, decision.Capacity)
		for range 10 {
			r.get(lone()).Done(ended(decision.OK))
		}
		r.wantState(Closed)
	})
}

// All permits a bucket gave are its rate, also those booked on another one.
func TestTheRateCountsAllPermits(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		tools := r.set.Group("a", decision.Needed(false, true, true))
		for range 100 {
			for range 10 {
				p := new(Permit)
				if why := tools.Acquire(p, ask()); why != "" {
					r.Fatal(why)
				}
				p.Done(ended(decision.OK))
			}
			r.pass(100 * time.Millisecond)
		}
		r.limited() // on the stream bucket
		near(r.T, "of the stream bucket", r.admitted(), 50, 1)
	})
}

func TestOpensOn429s(t *testing.T) {
	for _, tc := range []struct {
		name    string
		ok      int
		failed  int
		limited int
		after   time.Duration // Retry-After of the last
		open    bool
	}{
		{"too few", 0, 0, 9, 0, false},
		{"all", 0, 0, 10, 0, true},
		{"half", 10, 0, 10, 0, false},
		{"more than half", 9, 0, 10, 0, true},
		{"failures are attempts too", 0, 10, 10, 0, false},
		{"one that asks for less than 5 s", 0, 0, 1, 4999 * time.Millisecond, false},
		{"one that asks for 5 s", 100, 0, 1, 5 * time.Second, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, only(nil), func(r *rig) {
				r.do(tc.ok, decision.OK)
				r.do(tc.failed, decision.ServerError)
				for i := range tc.limited {
					o := ended(decision.RateLimited)
					if tc.after > 0 && i == tc.limited-1 {
						o = asked(decision.RateLimited, tc.after)
					}
					end(r.get(lone()), o)
				}
				if !tc.open {
					r.wantState(Closed)
					return
				}
				if s := r.wantState(Open); s.Reason != ForRateLimited || s.AdmittedRPS != 0 {
					r.Errorf("%+v", s)
				}
				r.refused(ask(), decision.ReasonOf(decision.RateLimited))
			})
		})
	}
}

func TestRateLimitedUntilTheLatestRetryAfter(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		var out []*Permit
		for range 3 {
			out = append(out, r.get(ask()))
		}
		end(out[0], asked(decision.RateLimited, 30*time.Second))
		r.wantState(Open)
		end(out[1], asked(decision.RateLimited, 90*time.Second))
		end(out[2], asked(decision.RateLimited, 10*time.Second))
		if in, _ := r.g.RetryIn(); in != 90*time.Second {
			r.Errorf("%v", in)
		}
	})
}

// 429s are no failures, whatever else the rules say.
func TestA429IsNoFailure(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.do(20, decision.OK)
		for range 15 {
			end(r.get(lone()), ended(decision.RateLimited))
		}
		s := r.wantState(Closed)
		if s.Failures != 0 || s.Run != 0 || s.Weights[0].Failed != 0 {
			r.Errorf("%+v", s)
		}
	})
}

// A pause is no sign that the limit is gone.
func TestTheRateIsKeptInAPause(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.rush(100, 12*time.Second)
		r.limited()
		r.pass(4 * time.Second)
		near(r.T, "after 4 s without requests", r.admitted(), 90, 1)
		r.pass(time.Second)
		if got := r.admitted(); got != 0 {
			r.Errorf("the former rate is back, and %v is still the limit", got)
		}
	})
}

// An opening for 429s lasts until the latest of what they asked for; one that
// did not say asked for the cooldown.
func TestRateLimitedUntilWhatWasAskedFor(t *testing.T) {
	short, none := asked(decision.RateLimited, 3*time.Second), ended(decision.RateLimited)
	for _, tc := range []struct {
		name string
		ends []decision.Outcome
		want time.Duration
	}{
		{"said", []decision.Outcome{short, short}, 3 * time.Second},
		{"not said", []decision.Outcome{none, none}, 15 * time.Second},
		{"not said last", []decision.Outcome{short, none}, 15 * time.Second},
		{"not said first", []decision.Outcome{none, short}, 15 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, only(func(s *Settings) { s.MinSamples = 2 }), func(r *rig) {
				for _, o := range tc.ends {
					end(r.get(lone()), o)
				}
				if s := r.wantState(Open); s.Reason != ForRateLimited {
					r.Fatalf("reason %s", s.Reason)
				}
				if in, _ := r.g.RetryIn(); in != tc.want {
					r.Errorf("%v, want %v", in, tc.want)
				}
			})
		})
	}
}
