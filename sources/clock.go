package sources

import "time"

// Clock relates a source's clock to ours through one exchange: asked at Sent
// and answered at Received by us, At by the source. The zero value knows
// nothing.
type Clock struct {
	Sent, Received time.Time // ours
	At             time.Time // the source's, when it answered
}

// Now is the source's time at our time now. Without an answer it is now.
func (c Clock) Now(now time.Time) time.Time {
	if c.At.IsZero() {
		return now
	}
	return c.At.Add(c.half() + Elapsed(c.Received, now))
}

// Since is how long ago the exchange was answered.
func (c Clock) Since(now time.Time) time.Duration { return Elapsed(c.Received, now) }

// Skew is how far the source's clock is ahead of ours; half of the exchange's
// duration is its error.
func (c Clock) Skew() time.Duration {
	if c.At.IsZero() {
		return 0
	}
	return c.At.Round(0).Sub(c.Received.Add(-c.half()).Round(0))
}

// maxApart is how far what a server says of its time in two places may be
// apart: a Date has whole seconds.
const maxApart = 5 * time.Second

// cached says that the time in an answer, At, is not that of the Date it came
// with; empty: it is, or there was none. Then a cache, or a proxy with a clock of
// its own, is on the way, and ages may be wrong.
func (c Clock) cached(date time.Time) string {
	apart := date.Sub(c.At)
	switch {
	case date.IsZero() || c.At.IsZero() || apart.Abs() <= maxApart+Elapsed(c.Sent, c.Received):
		return ""
	case apart > 0:
		return "its HTTP Date is " + apart.Round(time.Second).String() + " ahead of its time(): a cache, or a proxy with another clock, is on the way"
	}
	return "its HTTP Date is " + (-apart).Round(time.Second).String() + " behind its time(): a proxy with another clock is on the way"
}

// half estimates the way back as half of the way there and back.
func (c Clock) half() time.Duration { return Elapsed(c.Sent, c.Received) / 2 }

// Elapsed is the time from a to b, both ours: by the clock on the wall or by
// the monotonic one, whichever says more. The monotonic one stands still while
// a laptop sleeps, the other may be set back; either way an age that is too
// great only makes a number less bright.
func Elapsed(a, b time.Time) time.Duration {
	return max(b.Sub(a), b.Round(0).Sub(a.Round(0)), 0)
}
