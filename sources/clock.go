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

// half estimates the way back as half of the way there and back.
func (c Clock) half() time.Duration { return Elapsed(c.Sent, c.Received) / 2 }

// Elapsed is the time from a to b, both ours: by the clock on the wall or by
// the monotonic one, whichever says more. The monotonic one stands still while
// a laptop sleeps, the other may be set back; either way an age that is too
// great only makes a number less bright.
func Elapsed(a, b time.Time) time.Duration {
	return max(b.Sub(a), b.Round(0).Sub(a.Round(0)), 0)
}
