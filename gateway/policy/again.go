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
}

// SameAgain says whether the candidate that ended with o may be asked again
// before any other. Expensive failures (timeouts, silence) never are; cheap
// and fast ones once; overload and rate limits only where waiting is better
// than leaving.
func SameAgain(t Terms, o decision.Outcome, s Situation) Again {
	if o.Relayed || o.Class == decision.OK {
		return Again{}
	}
	if t.Task.SideEffects && !t.OperationID && !Unprocessed(o) {
		return Again{}
	}
	if o.Class == decision.Refused {
		return Again{OK: !s.Resent, Free: true, Resend: true}
	}
	if o.ShouldRetry == decision.No {
		return Again{}
	}
	fits := !o.HasRetryAfter || o.RetryAfter <= s.MaxWait
	switch o.Class {
	case decision.Connect, decision.Reset:
		return Again{OK: s.FirstFailure && !s.Retried}
	case decision.ServerError:
		// Who asks for a long wait is left for whoever is there.
		if s.FirstFailure && !s.Retried && fits && (s.Next == NoNext || o.RetryAfter <= s.Patience) {
			return Again{OK: true, Backoff: true, NotBefore: o.RetryAfter}
		}
	case decision.Overloaded:
		if s.Next == NoNext && fits {
			return Again{OK: true, Backoff: true, NotBefore: o.RetryAfter}
		}
	case decision.RateLimited:
		switch {
		case s.Next == NoNext && fits,
			s.Next == NextSubstitute && o.HasRetryAfter && o.RetryAfter <= min(s.Patience, s.MaxWait):
			return Again{OK: true, Backoff: true, NotBefore: o.RetryAfter}
		}
	}
	if o.ShouldRetry == decision.Yes && obeysShouldRetry(o.Class) && !s.Retried && fits {
		return Again{OK: true, Backoff: true, NotBefore: o.RetryAfter}
	}
	return Again{}
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
