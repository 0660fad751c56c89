package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
)

var nextNames = map[Next]string{NoNext: "none", NextSame: "same", NextSubstitute: "substitute"}

// TestSameAgainTable is every answer that a class has, by what comes next and
// whether it is the bucket's first failure, without and with a Retry-After.
func TestSameAgainTable(t *testing.T) {
	var b strings.Builder
	fmt.Fprintln(&b, "# class | next | first failure | no Retry-After, 1s, 10s, 60s (patience 2s, max wait 30s)")
	for _, class := range decision.Classes {
		for _, next := range []Next{NoNext, NextSame, NextSubstitute} {
			for _, first := range []bool{true, false} {
				fmt.Fprintf(&b, "%-21s %-11s first=%-5t", class, nextNames[next], first)
				for _, after := range []time.Duration{-1, time.Second, 10 * time.Second, time.Minute} {
					o := decision.Outcome{Class: class, Status: 500, RetryAfter: max(after, 0), HasRetryAfter: after >= 0}
					a := SameAgain(Terms{}, o, Situation{
						FirstFailure: first, Next: next, Patience: 2 * time.Second, MaxWait: 30 * time.Second,
					})
					fmt.Fprintf(&b, " | %s", again(a))
					if a.OK && a.NotBefore < o.RetryAfter && o.HasRetryAfter && a.Backoff {
						t.Errorf("%s: earlier than asked for", class)
					}
				}
				fmt.Fprintln(&b)
			}
		}
	}
	golden(t, "same_again.txt", b.String())
}

func again(a Again) string {
	if !a.OK {
		return "no"
	}
	s := "yes"
	if a.Backoff {
		s += " backoff"
	}
	if a.Free {
		s += " free"
	}
	if a.NotBefore > 0 {
		s += " after " + a.NotBefore.String()
	}
	return s
}

func TestSameAgainNever(t *testing.T) {
	s := Situation{FirstFailure: true, MaxWait: time.Minute, Patience: time.Minute}
	for _, class := range decision.Classes {
		if SameAgain(Terms{}, decision.Outcome{Class: class, Relayed: true}, s).OK {
			t.Errorf("%s: again after output was relayed", class)
		}
		o := decision.Outcome{Class: class, Status: 200}
		sideEffects := Terms{Task: Task{SideEffects: true}}
		if SameAgain(sideEffects, o, s).OK && !Unprocessed(o) {
			t.Errorf("%s: side effects risked twice on one upstream", class)
		}
	}
	for _, class := range []decision.Class{decision.FirstOutputTimeout, decision.AttemptTimeout, decision.IdleTimeout, decision.Interrupted, decision.BadResponse} {
		if SameAgain(Terms{}, decision.Outcome{Class: class, ShouldRetry: decision.Yes}, s).OK {
			t.Errorf("%s: an expensive failure is not repeated where it happened", class)
		}
	}
}

// The upstream's x-should-retry decides about itself: RTY-10.
func TestRTY10ShouldRetryIsObeyed(t *testing.T) {
	s := Situation{FirstFailure: true, MaxWait: time.Minute}
	no := decision.Outcome{Class: decision.ServerError, Status: 503, ShouldRetry: decision.No}
	if SameAgain(Terms{}, no, s).OK {
		t.Error("x-should-retry: false was ignored")
	}
	yes := decision.Outcome{Class: decision.InvalidRequest, Status: 409, ShouldRetry: decision.Yes}
	if !SameAgain(Terms{}, yes, s).OK {
		t.Error("x-should-retry: true was ignored")
	}
	s.Retried = true
	if SameAgain(Terms{}, yes, s).OK {
		t.Error("x-should-retry: true was obeyed twice")
	}
}

// Patience is for what fits into the time that is left.
func TestPatienceEndsWithTheDeadline(t *testing.T) {
	o := decision.Outcome{Class: decision.RateLimited, Status: 429, HasRetryAfter: true, RetryAfter: 2 * time.Second}
	for left, want := range map[time.Duration]bool{time.Second: false, 2 * time.Second: true} {
		if a := SameAgain(Terms{}, o, Situation{Next: NextSubstitute, Patience: 3 * time.Second, MaxWait: left}); a.OK != want {
			t.Errorf("%s left: %+v", left, a)
		}
	}
}

func TestARefusedStreamIsResentOnceAndFree(t *testing.T) {
	o := decision.Outcome{Class: decision.Refused}
	a := SameAgain(Terms{Task: Task{SideEffects: true}}, o, Situation{})
	if !a.OK || !a.Free || !a.Resend {
		t.Errorf("first time: %+v", a)
	}
	if SameAgain(Terms{}, o, Situation{Resent: true}).OK {
		t.Error("resent twice")
	}
}

func TestUnprocessed(t *testing.T) {
	for _, c := range []struct {
		o    decision.Outcome
		want bool
	}{
		{decision.Outcome{Class: decision.Connect}, true},
		{decision.Outcome{Class: decision.Refused}, true},
		{decision.Outcome{Class: decision.Overloaded, Status: 529}, true},
		{decision.Outcome{Class: decision.Overloaded, Status: 200}, false}, // inside a stream: it had begun
		{decision.Outcome{Class: decision.RateLimited, Status: 429}, true},
		{decision.Outcome{Class: decision.ServerError, Status: 500}, false},
		{decision.Outcome{Class: decision.ServerError, Status: 502}, false},
		{decision.Outcome{Class: decision.Reset}, false},
		{decision.Outcome{Class: decision.AttemptTimeout}, false},
		{decision.Outcome{Class: decision.Overloaded, Status: 500}, false}, // overloaded_error in the body
		{decision.Outcome{Class: decision.Overloaded, Status: 502}, false},
		{decision.Outcome{Class: decision.RateLimited, Status: 504}, false},
		{decision.Outcome{Class: decision.LocalRefusal}, false}, // given up while it waited
		{decision.Outcome{Class: decision.LocalRefusal, Unprocessed: true}, true},
	} {
		if got := Unprocessed(c.o); got != c.want {
			t.Errorf("%s %d: %t", c.o.Class, c.o.Status, got)
		}
	}
}
