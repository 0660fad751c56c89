package policy

import (
	"time"

	"failback/gateway/decision"
)

// Next says who could take a request if the candidate at hand is left.
type Next uint8

const (
	NoNext         Next = iota // nobody
	NextSame                   // a candidate of the same model
	NextSubstitute             // only a substitute comes next
)

// Situation is what SameAgain must know besides the outcome.
type Situation struct {
	// FirstFailure: the outcome was its bucket's first failure in 10 s.
	FirstFailure bool
	// Retried: this candidate was already asked again for this request because
	// of a failure that allows it once.
	Retried bool
	// Resent: this request already used its one resend after a refused stream.
	Resent bool
	Next   Next
	// Patience is how long a request waits for this candidate when only a
	// substitute comes next; MaxWait is what is left of the time a request may
	// spend waiting.
	Patience, MaxWait time.Duration
}

// Again is whether and how the same candidate is asked again.
type Again struct {
	OK bool
	// Backoff: wait a jittered back-off first.
	Backoff bool
	// NotBefore is the least wait, as asked for by the upstream.
	NotBefore time.Duration
	// Free: it draws nothing from the retry budget.
	Free bool
	// Resend: it is the one resend after a refused stream.
	Resend bool
	// Why names the rule that said so, or the outcome's class where that is all.
	Why decision.Why
}

// SameAgain says whether the candidate that ended with o may be asked again
// before any other. Expensive failures (timeouts, silence) never are; cheap
// and fast ones once; overload and rate limits only where waiting is better
// than leaving.
func SameAgain(t Terms, o decision.Outcome, s Situation) Again {
	class := decision.Why(o.Class)
	if o.Class == decision.OK {
		return Again{Why: class}
	}
	if o.Relayed {
		return Again{Why: decision.WhyRelayed}
	}
	if t.Task.SideEffects && !t.OperationID && !Unprocessed(o) {
		return Again{Why: decision.WhySideEffects}
	}
	if o.Class == decision.Refused {
		return Again{OK: !s.Resent, Free: true, Resend: true, Why: class}
	}
	if o.ShouldRetry == decision.No {
		return Again{Why: decision.WhyShouldRetry}
	}
	backoff := Again{OK: true, Backoff: true, NotBefore: o.RetryAfter}
	no := Again{Why: class}
	fits := !o.HasRetryAfter || o.RetryAfter <= s.MaxWait
	switch o.Class {
	case decision.Connect, decision.Reset:
		if s.FirstFailure && !s.Retried {
			return Again{OK: true, Why: decision.WhyFirstFailure}
		}
		return Again{Why: decision.WhyRepeated}
	case decision.ServerError:
		switch {
		case !s.FirstFailure || s.Retried:
			no.Why = decision.WhyRepeated
		// Who asks for a long wait is left for whoever is there.
		case fits && (s.Next == NoNext || o.RetryAfter <= s.Patience):
			backoff.Why = decision.WhyFirstFailure
			return backoff
		default:
			no.Why = decision.WhyRetryAfter
		}
	case decision.Overloaded:
		switch {
		case s.Next == NoNext && fits:
			backoff.Why = decision.WhyNowhereElse
			return backoff
		case s.Next == NoNext:
			no.Why = decision.WhyRetryAfter
		}
	case decision.RateLimited:
		switch {
		case s.Next == NoNext && fits:
			backoff.Why = decision.WhyNowhereElse
			return backoff
		case s.Next == NextSubstitute && o.HasRetryAfter && o.RetryAfter <= min(s.Patience, s.MaxWait):
			backoff.Why = decision.WhyPatience
			return backoff
		case s.Next != NextSame && o.HasRetryAfter:
			no.Why = decision.WhyRetryAfter
		}
	}
	if o.ShouldRetry == decision.Yes && obeysShouldRetry(o.Class) && !s.Retried && fits {
		backoff.Why = decision.WhyShouldRetry
		return backoff
	}
	return no
}

// obeysShouldRetry: x-should-retry says yes where the class alone would not.
// Answers that no repetition can change are left out.
func obeysShouldRetry(c decision.Class) bool {
	switch c {
	case decision.ServerError, decision.Overloaded, decision.RateLimited, decision.InvalidRequest:
		return true
	}
	return false
}
