package probe

import "time"

// moment is one reading of the clocks: a steady one, which nobody can set, for
// all distances, and the wall's for the day that costs are counted by.
type moment struct {
	now  time.Duration
	wall time.Time
}

// day counts UTC days.
func (m moment) day() int64 { return m.wall.Unix() / (24 * 60 * 60) }

// midnight is when the next UTC day begins.
func (m moment) midnight() time.Duration {
	next := time.Unix((m.day()+1)*24*60*60, 0)
	return m.now + max(next.Sub(m.wall.Round(0)), 0)
}

// standing is what the schedule knows of a target.
type standing struct {
	since time.Duration // when it became one
	begun time.Duration // when the last probe was tried; valid if tried
	tried bool
	// draw, from 0 to 1, is where in its jitter the next probe lies.
	draw float64
	// again is when one that was held is tried again at the latest; 0: no
	// sooner than usual.
	again time.Duration
	pace  time.Duration // of its upstream; 0: its own
	spent float64       // by the candidate today, probes under way included
	cost  float64       // of its last probe
}

// every is the target's time between probes.
func every(t *Target, pace time.Duration) time.Duration {
	e := t.Every
	if e <= 0 {
		e = DefaultEvery
	}
	if pace > 0 {
		e = min(e, pace)
	}
	return e
}

// due is when the target's next probe begins, and why it is held until then if
// it is. The first one lies between half an interval and one and a half, so
// that those which became targets together are spread over a whole one; later
// ones follow the begin of the last in 90 to 110 % of it.
func due(m moment, s standing, t *Target) (at time.Duration, held string) {
	e := float64(every(t, s.pace))
	if s.tried {
		at = s.begun + time.Duration(e*(0.9+0.2*s.draw))
		if s.again > 0 {
			at = min(at, s.again)
		}
	} else {
		at = s.since + time.Duration(e*(0.5+s.draw))
	}
	if t.Cost != nil && s.spent+expected(s, t) > t.MaxCostPerDay+1e-9 {
		return max(at, m.midnight()), HeldCost
	}
	return at, ""
}

// expected is what the next probe will cost, about.
func expected(s standing, t *Target) float64 {
	if t.Cost == nil {
		return 0
	}
	return max(t.Expect, s.cost)
}

// ledger is what a candidate's probes cost on one day.
type ledger struct {
	day     int64
	usd     float64
	pending float64 // expected of those under way
}

// turn makes l that of day. A wall clock that is set back over midnight opens
// no second budget; one that had gone astray by days does not hold the probes
// for as many.
func (l *ledger) turn(day int64) {
	switch {
	case day > l.day:
		l.day, l.usd = day, 0
	case day < l.day-1:
		l.day = day
	}
}
