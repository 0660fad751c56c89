package breaker

import (
	"time"

	"failback/gateway/decision"
)

// closed admits everything, within the rate that 429s left.
type closed struct{ b *bucket }

func (*closed) name() string { return Closed }

func (c *closed) admit(now time.Duration, f flags) verdict {
	if f.prober {
		return verdict{past: true}
	}
	return c.b.withinRate(now, f)
}

func (c *closed) take(_ time.Duration, _ *slot) { c.b.admission.take() }

func (*closed) give(time.Duration, *slot) {}

func (c *closed) record(now time.Duration, s *slot) { c.b.book(now, s.p) }

func (c *closed) left(now time.Duration, s *slot) { c.b.countRun(now, s.p) }

func (c *closed) tick(now time.Duration) { c.b.watch(now) }

// withinRate applies the rate that 429s left; those that wait for it come first.
// A last resort is sent anyway.
func (b *bucket) withinRate(now time.Duration, f flags) verdict {
	switch {
	case !b.admission.on:
		return verdict{}
	case b.admission.admits(now) && b.turn(f):
		return verdict{}
	case f.last:
		return verdict{over: rateLimit}
	}
	return verdict{reason: decision.Capacity, over: rateLimit}
}

// turn reports whether nobody came before who waits.
func (b *bucket) turn(f flags) bool { return f.queued || b.queued == 0 }
