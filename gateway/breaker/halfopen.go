package breaker

import (
	"fmt"
	"time"
)

// preferFor is how long a free probe is kept for a request which another
// candidate may still serve if the probe fails.
const preferFor = time.Second

// mayProbe says whether an attempt may take a free probe of a bucket that has
// been due since then. A last resort would be refused otherwise, and may have
// waited for just this moment: it takes the probe at once unless requests that
// may go elsewhere keep coming. Where probes are reserved only a prober takes
// one: no client is a guinea pig of a degraded upstream.
func (b *bucket) mayProbe(now, due time.Duration, f flags) bool {
	if f.prober {
		return true
	}
	if f.noProbe || b.u.reserved {
		return false
	}
	since := max(due, b.elsewhere)
	if f.last {
		since = b.elsewhere
	}
	return f.elsewhere || now-since >= preferFor
}

// halfOpen lets exactly as many probes through as are configured. One failure
// reopens, however few samples that is; a neutral end gives the permit back.
type halfOpen struct {
	b   *bucket
	ok  int           // probes that ended well
	due time.Duration // since when it is half-open, or might have been
}

func (*halfOpen) name() string { return HalfOpen }

// available is how many probes may still be sent.
func (h *halfOpen) available() int { return h.b.u.settings.Probes - h.ok - h.b.given.n }

func (h *halfOpen) admit(now time.Duration, f flags) verdict {
	switch {
	case h.available() > 0 && h.b.mayProbe(now, h.due, f):
		return verdict{}
	case f.last && h.b.soft():
		return verdict{past: true}
	}
	return verdict{reason: h.b.skip()}
}

func (h *halfOpen) take(now time.Duration, s *slot) {
	s.gave, s.probe = true, true
	s.deadline = s.p.takenBackAt(now)
	h.b.given.push(s)
}

func (h *halfOpen) give(_ time.Duration, s *slot) { h.b.given.remove(s) }

func (h *halfOpen) record(now time.Duration, s *slot) {
	if !s.probe {
		return
	}
	b, e := h.b, &s.p.end
	switch {
	case e.kind == endFailed:
		b.hint(now, e)
		h.reopen(now, b.reason, ProbeFailed, e.cause())
	case e.kind == endLimited && e.hasRetryAfter && e.retryAfter >= longRetryAfter:
		b.hint(now, e)
		h.reopen(now, ForRateLimited, ForRateLimited, e.cause())
	case e.kind == endLimited:
		b.hint(now, e)
		h.reopen(now, b.reason, ProbeFailed, e.cause())
	case s.p.slow:
		h.reopen(now, ForSlow, ForSlow, "slow")
	default:
		if h.ok++; h.ok >= b.u.settings.Probes {
			b.toRamping(now)
		}
	}
}

func (*halfOpen) left(time.Duration, *slot) {}

// reopen ends the probing. reason is the bucket's from now on, event that of the event.
func (h *halfOpen) reopen(now time.Duration, reason, event, cause string) {
	b := h.b
	b.toOpen(now, b.cooledAt(now, event), opening{
		reason: reason,
		event:  event,
		detail: fmt.Sprintf("1/%d probes failed (%s)", b.u.settings.Probes, cause),
	})
}

// tick takes back what attempts must have ended with, and does not wait for the
// end of a probe that is slow already.
func (h *halfOpen) tick(now time.Duration) {
	b := h.b
	b.settle(now)
	if b.state != h { // no more
		return
	}
	if !b.u.settings.slowRule() {
		return
	}
	for s := b.given.first; s != nil; s = s.next {
		p := s.p
		if l := p.slots[0].b.slowLimit(now, p.kind()); p.in != nil && now-p.start >= l {
			h.reopen(now, ForSlow, ForSlow, "slower than "+short(l))
			return
		}
	}
}
