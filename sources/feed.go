package sources

import (
	"time"

	"failback/gateway/operator/api"
)

// Answer is what came of one question.
type Answer[T any] struct {
	Gen   uint64 // the question's, from Feed.Ask
	Clock Clock  // At is zero on an error
	Value *T     // nil on an error
	Err   error
}

// Feed is one question that is asked again and again, with its newest answer.
// Its zero value has asked nothing; Period must be set. It is a plain value: a
// copy is a frozen feed. What Value points to is never changed.
type Feed[T any] struct {
	// Period is how often a new sample is expected.
	Period time.Duration

	asked   uint64 // generation of the newest question
	taken   uint64 // generation of the newest answer
	askedAt time.Time
	out     bool      // the newest question is not answered
	waiting time.Time // since when one is not

	value   *T
	clock   Clock
	err     error
	started time.Time // of the first question
	failed  time.Time // when the first error since the newest good answer came
}

// Ask begins a question at now and returns its generation. It returns false
// while the last one is out, unless that has been out for so long (a laptop
// that slept) that nobody waits for it any more.
func (f *Feed[T]) Ask(now time.Time) (gen uint64, ok bool) {
	if f.out && Elapsed(f.askedAt, now) < 3*f.Period {
		return 0, false
	}
	if f.started.IsZero() {
		f.started = now
	}
	if !f.out {
		f.waiting = now
	}
	f.asked++
	f.out, f.askedAt = true, now
	return f.asked, true
}

// Take takes an answer unless a newer question has been answered already. It
// reports whether it did.
func (f *Feed[T]) Take(a Answer[T]) bool {
	if a.Gen <= f.taken || a.Gen > f.asked {
		return false
	}
	f.taken = a.Gen
	if a.Gen == f.asked {
		f.out = false
	}
	switch {
	case a.Err == nil:
		f.value, f.clock, f.failed = a.Value, a.Clock, time.Time{}
	case f.failed.IsZero():
		f.failed = a.Clock.Received
	}
	f.err = a.Err
	return true
}

// Value is the newest answer that was not an error, nil if there never was one.
func (f *Feed[T]) Value() *T { return f.value }

// Clock relates the source's clock to ours, as of Value.
func (f *Feed[T]) Clock() Clock { return f.clock }

// Err is why the newest question failed, nil if it did not.
func (f *Feed[T]) Err() error { return f.err }

// Failing reports whether the source does not answer: the last answer was an
// error, or it is three periods old, and another has been asked for in time.
func (f *Feed[T]) Failing(now time.Time) bool {
	return f.err != nil || f.value != nil && f.out && min(f.clock.Since(now), Elapsed(f.waiting, now)+f.Period) >= 3*f.Period
}

// FailedSince is when, by our clock, the first error since the newest good answer
// came; zero: the newest answer is good.
func (f *Feed[T]) FailedSince() time.Time { return f.failed }

// LastAnswered is when, by our clock, the newest good answer came; zero: none
// ever did.
func (f *Feed[T]) LastAnswered() time.Time { return f.clock.Received }

// Silence is how long there has been no good answer: since the last one, or
// since the first question.
func (f *Feed[T]) Silence(now time.Time) time.Duration {
	switch {
	case f.value != nil:
		return f.clock.Since(now)
	case !f.started.IsZero():
		return Elapsed(f.started, now)
	}
	return 0
}

// Number judges n, which came with Value.
func (f *Feed[T]) Number(n api.Number, now time.Time) Number {
	return Judge(n, f.clock, now, f.Period, f.Failing(now))
}

// Whole judges the answer itself: what in it is not a number, such as a
// breaker's state, is as old as the answer.
func (f *Feed[T]) Whole(now time.Time) Number {
	return f.Number(api.Number{State: api.StateValue, At: f.clock.At}, now)
}
