package breaker

import "time"

// open admits nothing until its time is over; then the first attempt that is
// allowed to probe makes it half-open.
type open struct {
	b     *bucket
	until time.Duration
}

func (*open) name() string { return Open }

// due says whether a probe may be sent.
func (o *open) due(now time.Duration) bool { return o.b.forced.to == "" && now >= o.until }

func (o *open) admit(now time.Duration, f flags) verdict {
	b := o.b
	switch {
	case o.due(now) && b.mayProbe(now, o.until, f):
		return verdict{}
	case f.last && b.soft():
		return verdict{past: true}
	}
	return verdict{reason: b.skip()}
}

func (o *open) take(now time.Duration, s *slot) {
	o.b.toHalfOpen(now)
	o.b.half.take(now, s)
}

func (*open) give(time.Duration, *slot) {}

// record: those that pass as if the bucket were closed are judged so, and may
// close it to last resorts too.
func (o *open) record(now time.Duration, s *slot) {
	if o.b.soft() {
		o.b.book(now, s.p)
	}
}

func (o *open) left(now time.Duration, s *slot) {
	if o.b.soft() {
		o.b.countRun(now, s.p)
	}
}

func (*open) tick(time.Duration) {}

// asked notes that the upstream wants to be left alone for d from now. It never
// shortens what was asked before.
func (o *open) asked(now, d time.Duration) {
	if o.b.forced.to == "" {
		o.until = max(o.until, now+d)
	}
}
