package breaker

import (
	"testing"
	"time"

	"failback/gateway/decision"
)

func TestOpenRefusesWithItsReason(t *testing.T) {
	for _, tc := range []struct {
		reason string
		skip   decision.Reason
		last   decision.Reason // what a last resort is told
	}{
		{ForFailureRate, decision.BreakerOpen, decision.BreakerOpen},
		{ForConsecutive, decision.BreakerOpen, decision.BreakerOpen},
		{ForRateLimited, decision.ReasonOf(decision.RateLimited), decision.ReasonOf(decision.RateLimited)},
		{ForWeight, decision.Weight, ""},
		{ForSlow, decision.Slow, ""},
		{ForRetryBudget, decision.RetryBudget, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			bubble(t, defaults(), func(r *rig) {
				r.trip(tc.reason)
				r.refused(ask(), tc.skip)
				r.refused(Ask{Model: "m", Stream: true}, tc.skip)
				if tc.last != "" {
					r.refused(lone(), tc.last)
				} else {
					r.get(lone()).Done(ended(decision.OK))
				}
				if s := r.wantState(Open); s.Reason != tc.reason || s.Detail != "test" || s.Blocked < 2 {
					r.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestOpenLastsCooldownAndRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		name string
		ends []decision.Outcome // the first three open it
		late []decision.Outcome // of attempts that began before it opened
		want time.Duration
	}{
		{"cooldown", []decision.Outcome{ended(decision.Connect), ended(decision.Connect), ended(decision.Connect)}, nil, 15 * time.Second},
		{"shorter hint", []decision.Outcome{ended(decision.Connect), ended(decision.Connect), asked(decision.Overloaded, 3*time.Second)}, nil, 15 * time.Second},
		{"longer hint", []decision.Outcome{ended(decision.Connect), ended(decision.Connect), asked(decision.Overloaded, 40*time.Second)}, nil, 40 * time.Second},
		{"the latest of several", []decision.Outcome{asked(decision.Overloaded, 50*time.Second), asked(decision.Overloaded, 20*time.Second), ended(decision.Connect)}, nil, 50 * time.Second},
		{"a late answer lengthens", []decision.Outcome{ended(decision.Connect), ended(decision.Connect), ended(decision.Connect)}, []decision.Outcome{asked(decision.Overloaded, 60*time.Second)}, 60 * time.Second},
		{"a late answer does not shorten", []decision.Outcome{ended(decision.Connect), ended(decision.Connect), asked(decision.Overloaded, 90*time.Second)}, []decision.Outcome{asked(decision.RateLimited, time.Second), ended(decision.OK)}, 90 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, only(func(s *Settings) { s.Consecutive = 3 }), func(r *rig) {
				var late []*Permit
				for range tc.late {
					late = append(late, r.get(ask()))
				}
				for _, o := range tc.ends {
					end(r.get(ask()), o)
				}
				opened := time.Now()
				s := r.wantState(Open)
				for i, p := range late {
					end(p, tc.late[i])
				}
				s = r.wantState(Open)
				if got := s.NextProbeAt.Sub(opened); got != tc.want {
					r.Fatalf("open for %v, want %v", got, tc.want)
				}
				if in, ok := r.g.RetryIn(); !ok || in != tc.want {
					r.Errorf("RetryIn %v %v", in, ok)
				}
				r.pass(tc.want - time.Millisecond)
				r.refused(ask(), decision.BreakerOpen)
				if r.bucket(decision.Stream).ProbeDue {
					r.Error("due too early")
				}
				r.pass(time.Millisecond)
				if s := r.wantState(Open); !s.ProbeDue {
					r.Error("not due")
				}
				r.get(ask())
				r.wantState(HalfOpen)
			})
		})
	}
}

// A hint that a later success refuted is no hint any more.
func TestRetryAfterEndsWithASuccessBegunLater(t *testing.T) {
	bubble(t, only(func(s *Settings) { s.Consecutive = 2 }), func(r *rig) {
		early := r.get(ask())
		r.pass(time.Second)
		end(r.get(ask()), asked(decision.Overloaded, time.Hour))
		r.pass(time.Second)
		end(early, ended(decision.OK)) // knew nothing of it
		r.do(2, decision.Connect)
		if in, _ := r.g.RetryIn(); in < 59*time.Minute {
			r.Fatalf("open for %v: a success begun earlier says nothing", in)
		}
	})
	bubble(t, only(func(s *Settings) { s.Consecutive = 2 }), func(r *rig) {
		end(r.get(ask()), asked(decision.Overloaded, time.Hour))
		r.pass(time.Second)
		r.do(1, decision.OK)
		r.do(2, decision.Connect)
		if in, _ := r.g.RetryIn(); in != 15*time.Second {
			r.Fatalf("open for %v, want the cooldown", in)
		}
	})
}

func TestCooldownDoublesWithEachOpening(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		closeAgain := func() {
			r.pass(time.Until(r.bucket(decision.Stream).NextProbeAt))
			r.do(1, decision.OK)
			r.pass(3 * time.Second)
			r.wantState(Closed)
		}
		for i, want := range []time.Duration{15, 30, 60, 120, 120} {
			r.trip(ForFailureRate)
			if in, _ := r.g.RetryIn(); in != want*time.Second {
				r.Fatalf("opening %d lasts %v, want %v s", i+1, in, int(want))
			}
			closeAgain()
		}
		// The first openings age out, one by one.
		r.pass(10 * time.Minute)
		r.trip(ForFailureRate)
		if in, _ := r.g.RetryIn(); in != 15*time.Second {
			r.Fatalf("10 min later it lasts %v", in)
		}
		closeAgain()
		r.pass(9 * time.Minute)
		r.trip(ForFailureRate)
		if in, _ := r.g.RetryIn(); in != 30*time.Second {
			r.Fatalf("within 10 min of one other it lasts %v", in)
		}
	})
}

// A dead upstream is asked once per cooldown: a failed probe does not double it.
func TestFailedProbesKeepTheCooldown(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.trip(ForConsecutive)
		for range 10 {
			r.pass(15 * time.Second)
			r.do(1, decision.Connect)
			if in, _ := r.g.RetryIn(); in != 15*time.Second {
				r.Fatalf("%v", in)
			}
		}
	})
}

func TestOpeningOutOfTheRampDoublesToo(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		r.ramp()
		r.trip(ForFailureRate)
		if in, _ := r.g.RetryIn(); in != 30*time.Second {
			r.Fatalf("%v", in)
		}
	})
}

// Ends of attempts from before an opening teach nothing afterwards.
func TestOpenForgetsWhatIsUnderWay(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		var old []*Permit
		for range 40 {
			old = append(old, r.get(ask()))
		}
		r.ramp()
		for _, p := range old {
			if rep := end(p, ended(decision.ServerError)); rep.Open {
				r.Fatal("ramping is not open")
			}
		}
		if s := r.wantState(Ramping); s.Failures != 0 || s.Run != 0 {
			r.Errorf("%d failures, run %d", s.Failures, s.Run)
		}
	})
}

func TestReportSaysOpen(t *testing.T) {
	bubble(t, only(func(s *Settings) { s.Consecutive = 2 }), func(r *rig) {
		waiting, cancelled := r.get(ask()), r.get(ask())
		if end(r.get(ask()), ended(decision.Connect)).Open {
			r.Error("closed")
		}
		if !end(r.get(ask()), ended(decision.Connect)).Open {
			r.Error("this one opened it")
		}
		if !waiting.Done(ended(decision.Reset)).Open {
			r.Error("one that ends on an open bucket")
		}
		if !cancelled.Done(ended(decision.LocalRefusal)).Open {
			r.Error("one that was moved on")
		}
		r.pass(15 * time.Second)
		if !r.get(ask()).Done(ended(decision.Connect)).Open {
			r.Error("the probe that reopened it")
		}
		r.pass(15 * time.Second)
		if r.get(ask()).Done(ended(decision.OK)).Open {
			r.Error("the probe that closed it")
		}
	})
}

// One that nobody else could serve passes a soft opening as if it were closed;
// so it may also try again there as if it were closed.
func TestReportOfALastResort(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		r.trip(ForWeight)
		rep := r.get(lone()).Done(ended(decision.ServerError))
		if rep.Open || !rep.FirstFailure {
			r.Errorf("%+v", rep)
		}
	})
}

// What passes a soft opening is judged as in a closed bucket: if the upstream
// dies altogether, last resorts fail fast too.
func TestSoftOpeningBecomesHard(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    decision.Outcome
		n    int
		want string
	}{
		{"consecutive", ended(decision.Connect), 5, ForConsecutive},
		{"long Retry-After", asked(decision.RateLimited, time.Minute), 1, ForRateLimited},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, defaults(), func(r *rig) {
				r.trip(ForSlow)
				for range tc.n {
					end(r.get(lone()), tc.o)
				}
				s := r.wantState(Open)
				if s.Reason != tc.want {
					r.Fatalf("reason %s", s.Reason)
				}
				if r.g.Acquire(new(Permit), lone()) == "" {
					r.Error("admitted")
				}
				if got := r.last(); got.From != Open || got.To != Open || got.Reason != tc.want {
					r.Errorf("%+v", got)
				}
			})
		})
	}
	bubble(t, defaults(), func(r *rig) {
		r.trip(ForSlow)
		for range 50 { // partly failing is better than none
			end(r.get(lone()), ended(decision.ServerError))
			end(r.get(lone()), ended(decision.OK))
			end(r.get(lone()), ended(decision.OK))
		}
		if s := r.wantState(Open); s.Reason != ForSlow {
			r.Errorf("reason %s", s.Reason)
		}
		// Nor does a second soft reason change anything.
		r.g.Trip(decision.Weight, "")
		if s := r.wantState(Open); s.Reason != ForSlow {
			r.Errorf("reason %s", s.Reason)
		}
	})
}

func TestOnOpen(t *testing.T) {
	type call struct {
		ask  Ask
		want bool
	}
	for _, tc := range []struct {
		reason string
		asks   map[string]call
	}{
		{ForFailureRate, map[string]call{
			"may go elsewhere": {ask(), true},
			"last resort":      {lone(), true},
		}},
		{ForSlow, map[string]call{
			"may go elsewhere": {ask(), true},
			"last resort":      {lone(), false}, // the opening does not bind it
		}},
	} {
		for name, c := range tc.asks {
			t.Run(tc.reason+"/"+name, func(t *testing.T) {
				bubble(t, only(nil), func(r *rig) {
					calls := 0
					c.ask.OnOpen = func() {
						calls++
						r.set.Snapshot() // would hang if a lock were held
					}
					r.get(c.ask)
					r.g.Trip(decision.Reason(tc.reason), "")
					if (calls == 1) != c.want || calls > 1 {
						r.Fatalf("%d calls", calls)
					}
					// Once is enough, whatever happens later.
					r.pass(15 * time.Second)
					r.do(1, decision.Connect)
					r.g.Trip(decision.Reason(tc.reason), "")
					if calls > 1 {
						r.Fatalf("%d calls", calls)
					}
				})
			})
		}
	}
}

func TestOnOpenOnlyWhileWaiting(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		calls := map[string]int{}
		get := func(name string) *Permit {
			a := ask()
			a.OnOpen = func() { calls[name]++ }
			return r.get(a)
		}
		get("output seen").Output()
		get("done").Done(ended(decision.OK))
		get("released").Release()
		get("waiting")
		none := ask()
		none.OnOpen = nil
		r.get(none)
		r.trip(ForFailureRate)
		if len(calls) != 1 || calls["waiting"] != 1 {
			r.Errorf("%v", calls)
		}
	})
}

// A bucket that opens reaches those who hold it together with others.
func TestOnOpenOfAnyBucketOfTheGroup(t *testing.T) {
	bubble(t, only(nil), func(r *rig) {
		moved := map[string]bool{}
		hold := func(name string, caps decision.CapabilitySet) {
			a := ask()
			a.OnOpen = func() { moved[name] = true }
			if why := r.set.Group("a", caps).Acquire(new(Permit), a); why != "" {
				r.Fatal(why)
			}
		}
		hold("tools", decision.Needed(false, true, true))
		hold("stream", decision.Needed(false, true, false))
		hold("text", decision.Needed(false, false, false))
		hold("embeddings", decision.Needed(true, false, false))
		r.trip(ForFailureRate) // the stream bucket
		if len(moved) != 2 || !moved["tools"] || !moved["stream"] {
			r.Errorf("%v", moved)
		}
	})
}

// Nor does a second opening shorten the first.
func TestSoftOpeningBecomesHardAndNotShorter(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		old := r.get(ask())
		r.trip(ForSlow)
		end(old, asked(decision.Overloaded, 90*time.Second))
		for range 5 {
			end(r.get(lone()), ended(decision.Connect))
		}
		if s := r.wantState(Open); s.Reason != ForConsecutive {
			r.Fatalf("reason %s", s.Reason)
		}
		if in, _ := r.g.RetryIn(); in != 90*time.Second {
			r.Errorf("%v", in)
		}
	})
}
