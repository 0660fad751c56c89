package breaker

import (
	"time"

	"failback/gateway/decision"
)

// The states of a bucket, as events and snapshots name them.
const (
	Closed   = "closed"
	Open     = "open"
	HalfOpen = "half_open"
	Ramping  = "ramping"
)

// Why a bucket opened. Slow, Weight, RetryBudget and RateLimited are also the
// reason for which requests pass it by; for the others it is breaker_open.
const (
	ForFailureRate = "failure_rate"
	ForConsecutive = "consecutive"
	ForSlow        = string(decision.Slow)
	ForWeight      = string(decision.Weight)
	ForRetryBudget = string(decision.RetryBudget)
	ForRateLimited = string(decision.RateLimited)
	Forced         = "forced" // an operator did it
)

// Reasons of the other transitions.
const (
	ProbeFailed  = "probe_failed"  // half_open to open; the bucket's own reason stays
	CooldownOver = "cooldown_over" // open to half_open
	ProbesOK     = "probes_ok"     // half_open to ramping
	RampOver     = "ramp_over"     // ramping to closed
	OverrideOver = "override_over" // no change of state: the operator's time ran out
)

// Transition is what an event of a bucket may say.
type Transition struct{ From, To, Reason string }

// Transitions lists all that can happen, for those who count them from 0.
var Transitions = transitions()

func transitions() []Transition {
	var l []Transition
	for _, from := range []string{Closed, Ramping} {
		for _, why := range []string{ForFailureRate, ForConsecutive, ForSlow, ForWeight, ForRetryBudget, ForRateLimited, Forced} {
			l = append(l, Transition{from, Open, why})
		}
	}
	// A bucket that is open for a reason which lets last resorts pass closes
	// to them too.
	for _, why := range []string{ForFailureRate, ForConsecutive, ForRateLimited, Forced, OverrideOver} {
		l = append(l, Transition{Open, Open, why})
	}
	for _, why := range []string{ProbeFailed, ForSlow, ForRateLimited, Forced} {
		l = append(l, Transition{HalfOpen, Open, why})
	}
	for _, from := range []string{Open, HalfOpen, Ramping} {
		l = append(l, Transition{from, Closed, Forced})
	}
	return append(l,
		Transition{Open, HalfOpen, CooldownOver},
		Transition{HalfOpen, Ramping, ProbesOK},
		Transition{Ramping, Closed, RampOver},
		Transition{Closed, Closed, OverrideOver})
}

// state is what a bucket does in one of its states. All methods require the
// upstream's lock.
type state interface {
	name() string
	// admit says what may be done with an attempt now. It takes and changes
	// nothing.
	admit(now time.Duration, f flags) verdict
	// take gives to s what admit allowed in the same critical section.
	take(now time.Duration, s *slot)
	// give takes back the permit that s holds.
	give(now time.Duration, s *slot)
	// record learns from the end of an attempt.
	record(now time.Duration, s *slot)
	// left learns that a failed request goes elsewhere.
	left(now time.Duration, s *slot)
	// tick does what time alone brings about.
	tick(now time.Duration)
}

var (
	_ state = (*closed)(nil)
	_ state = (*open)(nil)
	_ state = (*halfOpen)(nil)
	_ state = (*ramping)(nil)
)

// flags is the part of an Ask that states look at.
type flags struct {
	elsewhere bool
	last      bool
	queued    bool // has waited for its turn
	noProbe   bool
	prober    bool
}

func flagsOf(a *Ask, queued bool) flags {
	if a.Prober {
		return flags{queued: queued, prober: true}
	}
	return flags{elsewhere: a.Elsewhere, last: a.LastResort, queued: queued, noProbe: a.NoProbe}
}

// limit is one that an attempt exceeds.
type limit uint8

const (
	noLimit limit = iota
	rampLimit
	rateLimit
)

// verdict is the answer of one bucket. Without a reason the attempt may pass:
// by take, or, if past is set, as if the bucket were closed.
type verdict struct {
	reason decision.Reason
	past   bool
	over   limit // exceeded, whether that refuses the attempt or not
}

// soft reports whether an opening for reason binds only requests which another
// candidate may serve: a partly failing only candidate is better than none.
func soft(reason string) bool {
	return reason == ForWeight || reason == ForRetryBudget || reason == ForSlow
}

// slot is a permit's part in one bucket.
type slot struct {
	b   *bucket
	era uint32 // of the bucket when it admitted
	// gave says that the bucket was half-open or ramping then: it gets the
	// outcome whatever the capability. held says that it waits for the permit.
	gave, held bool
	probe      bool
	deadline   time.Duration // when a held permit is taken back
	p          *Permit
	prev, next *slot // in the bucket's given, while held
}

// slots is a list of held permits, the oldest first.
type slots struct {
	first, last *slot
	n           int
}

func (l *slots) push(s *slot) {
	s.prev, s.next = l.last, nil
	if l.last != nil {
		l.last.next = s
	} else {
		l.first = s
	}
	l.last = s
	l.n++
	s.held = true
}

func (l *slots) remove(s *slot) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		l.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		l.last = s.prev
	}
	s.prev, s.next = nil, nil
	l.n--
	s.held = false
}

func (l *slots) clear() {
	for l.first != nil {
		l.remove(l.first)
	}
}

// expired returns a permit whose attempt must have ended, nil if there is none.
func (l *slots) expired(now time.Duration) *slot {
	for s := l.first; s != nil; s = s.next {
		if now >= s.deadline {
			return s
		}
	}
	return nil
}
