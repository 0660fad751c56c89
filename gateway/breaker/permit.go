package breaker

import (
	"strconv"
	"time"

	"failback/gateway/decision"
)

// Permit is one attempt's leave. Its zero value is ready for Acquire; once it
// was returned it may be used again. It must not be copied after Acquire. Its
// methods may be called from any goroutine.
type Permit struct {
	_ noCopy

	g *Group // nil: never acquired

	// The group's upstream's lock guards everything that follows.

	stage      stage
	stream     bool
	binding    bool // refusals bind this request
	elsewhere  bool
	prober     bool // no client's: it teaches only the half-open bucket that gave it
	slow       bool // passed the limit
	progressed bool // counted as good by a ramp
	leaves     bool // Left was called
	buckets    uint8
	start      time.Duration
	deadline   time.Time
	onOpen     func()
	model      *model
	end        ending
	slots      [maxBuckets]slot

	in         *permits // the list of those that wait; nil: output was seen
	prev, next *Permit
}

// noCopy lets go vet find copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

type stage uint8

const (
	stageNone stage = iota
	stageOut
	stageEnded
)

// Report is what the end of an attempt means for its request.
type Report struct {
	// FirstFailure says that the outcome counts against the bucket and is its
	// first failure in 10 s.
	FirstFailure bool
	// Open says that a bucket of the group is open or half-open now, for a
	// request that this binds.
	Open bool
}

// endKind is what an end teaches a bucket.
type endKind uint8

const (
	endNeutral endKind = iota // nothing: the caller's mistake, a cancel, our own refusal, a key's fault
	endOK
	endFailed
	endLimited // a 429
)

// ending is what a bucket must know of an Outcome.
type ending struct {
	kind          endKind
	hasRetryAfter bool
	status        int
	class         decision.Class
	retryAfter    time.Duration
	rate          float64 // of a failure: what the bucket completed per second in the 10 s before
}

func endingOf(o *decision.Outcome) ending {
	e := ending{class: o.Class, status: o.Status, retryAfter: o.RetryAfter, hasRetryAfter: o.HasRetryAfter}
	switch {
	case o.Class == decision.OK:
		e.kind = endOK
	case o.NamesModel: // about the model, not about the upstream
	case o.Class.Blame() == decision.OfBucket:
		e.kind = endFailed
	case o.Class.Blame() == decision.OfAdmission:
		e.kind = endLimited
	}
	return e
}

// timeout reports whether we gave up, which is no answer of the upstream.
func (e *ending) timeout() bool {
	return e.class == decision.FirstOutputTimeout || e.class == decision.AttemptTimeout || e.class == decision.IdleTimeout
}

// cause is e in a word: the status of an error, else the class.
func (e *ending) cause() string {
	if e.status >= 400 {
		return strconv.Itoa(e.status)
	}
	return string(e.class)
}

func (p *Permit) kind() kind {
	if p.stream {
		return stream
	}
	return unary
}

// takenBackAt is when a half-open or ramping bucket stops counting on p.
func (p *Permit) takenBackAt(now time.Duration) time.Duration {
	if p.deadline.IsZero() {
		return now + maxDwell
	}
	return p.deadline.Sub(p.g.u.set.base)
}

// Output says that the first output of a stream, or the whole of a unary
// answer, was seen: the attempt no longer waits. Calls after the first, and
// after Done, do nothing.
func (p *Permit) Output() {
	if p.g == nil {
		return
	}
	u := p.g.u
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	if p.stage != stageOut || p.in == nil {
		return
	}
	p.in.remove(p)
	b := p.slots[0].b
	if p.prober {
		p.probed(now)
		return
	}
	waited := now - p.start
	b.pace.answer(now)
	if p.stream {
		p.model.output.add(waited)
		b.pace.days[stream].add(now, waited)
	}
	if p.slots[0].era == b.era {
		b.paced(now, p, waited)
	}
	for i := range p.slots[:p.buckets] {
		s := &p.slots[i]
		if s.b.state == &s.b.ramp && s.learns(i) {
			s.b.ramp.good++
			p.progressed = true
		}
	}
}

// learns reports whether the bucket of s, the i-th of its permit, gets the
// outcome: it is the most specific, or gave the permit as a half-open or
// ramping bucket and still is one.
func (s *slot) learns(i int) bool {
	b := s.b
	return s.era == b.era && (i == 0 || s.gave && (b.state == &b.half || b.state == &b.ramp))
}

// Done returns the permit with the attempt's end. Only the first call counts.
func (p *Permit) Done(o decision.Outcome) Report {
	if p.g == nil {
		return Report{}
	}
	u := p.g.u
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	if p.stage != stageOut {
		return Report{}
	}
	p.end = endingOf(&o)
	if p.end.kind != endFailed || o.ConnID == 0 {
		return p.finish(now)
	}
	if first, known := u.lost.find(o.ConnID); known {
		p.end.kind = endNeutral
		r := p.finish(now)
		r.FirstFailure = first.FirstFailure
		return r
	}
	r := p.finish(now)
	if !p.prober { // or the first client that the connection took along would not be booked
		u.lost.add(o.ConnID, r)
	}
	return r
}

// Release returns the permit with nothing learned. It may be called any number
// of times, also after Done.
func (p *Permit) Release() {
	if p.g == nil {
		return
	}
	u := p.g.u
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	if p.stage == stageOut {
		p.end = ending{}
		p.finish(now)
	}
}

// releaseFor releases p if it is still out with another upstream than u; u
// itself does that when it gives p anew.
func (p *Permit) releaseFor(u *upstream) {
	if p.g != nil && p.g.u != u {
		p.Release()
	}
}

// finish takes the permit out of everything, and tells the buckets how its
// attempt ended. It requires the upstream's lock.
func (p *Permit) finish(now time.Duration) Report {
	p.stage = stageEnded
	p.onOpen = nil
	if !p.prober {
		p.g.inFlight--
	}
	waiting := p.in != nil
	if waiting {
		p.in.remove(p)
	}
	for i := range p.slots[:p.buckets] {
		if s := &p.slots[i]; s.held {
			s.b.state.give(now, s)
		}
	}
	if p.prober {
		p.finishProbe(now, waiting)
		return Report{Open: p.shut()}
	}

	e, b := &p.end, p.slots[0].b
	if e.kind == endNeutral {
		if waiting && e.status != 0 { // an answer all the same
			b.pace.answer(now)
		}
		return Report{Open: p.shut()}
	}
	p.measure(now, b, waiting)
	var r Report
	if e.kind == endFailed {
		r.FirstFailure = b.first(now)
		e.rate = b.completed.perSecond(now)
	}
	b.completed.add(now)
	if p.slots[0].era == b.era && e.kind != endLimited {
		p.model.recent.add(now, e.kind == endFailed)
	}
	for i := range p.slots[:p.buckets] {
		if s := &p.slots[i]; s.learns(i) {
			s.b.state.record(now, s)
		}
	}
	if b.state == &b.open && e.kind != endOK && e.hasRetryAfter {
		b.open.asked(now, e.retryAfter) // also by those that began before it opened
	}
	r.Open = p.shut()
	return r
}

// probed judges the pace of a prober's answer.
func (p *Permit) probed(now time.Duration) {
	b := p.slots[0].b
	p.slow = p.slow || b.u.settings.slowRule() && now-p.start >= b.slowLimit(now, p.kind())
}

// finishProbe tells the buckets that gave a probe how it ended, and no other
// one. It requires the upstream's lock.
func (p *Permit) finishProbe(now time.Duration, waiting bool) {
	e := &p.end
	if e.kind == endNeutral {
		return
	}
	if e.kind == endOK && waiting {
		p.probed(now)
	}
	for i := range p.slots[:p.buckets] {
		s := &p.slots[i]
		if !s.probe {
			continue
		}
		b := s.b
		if s.era == b.era && b.state == &b.half {
			b.state.record(now, s)
		}
		if b.state == &b.open && e.kind != endOK && e.hasRetryAfter {
			b.open.asked(now, e.retryAfter)
		}
	}
}

// measure takes the samples of an attempt's end. A timeout is a sample at its
// limit, so that a general slowdown raises what is expected.
func (p *Permit) measure(now time.Duration, b *bucket, waiting bool) {
	e := &p.end
	waited := now - p.start
	gaveUp := e.class == decision.FirstOutputTimeout || e.class == decision.AttemptTimeout
	switch {
	case p.stream && waiting && (e.kind == endOK || gaveUp):
		p.model.output.add(waited)
		b.pace.days[stream].add(now, waited)
	case !p.stream && (e.kind == endOK || gaveUp):
		p.model.whole.add(waited)
		b.pace.days[unary].add(now, waited)
	}
	if !waiting {
		return
	}
	if !e.timeout() {
		b.pace.answer(now)
	}
	if e.kind == endOK && p.slots[0].era == b.era {
		b.paced(now, p, waited)
	}
}

// shut reports whether a bucket of the group is open or half-open, as far as
// that binds this request: an opening that lets last resorts pass does not bind
// one that had nowhere else to go.
func (p *Permit) shut() bool {
	for i := range p.slots[:p.buckets] {
		b := p.slots[i].b
		if b.state != &b.open && b.state != &b.half || b.soft() && !p.elsewhere {
			continue
		}
		if p.binding || b.forced.to != "" {
			return true
		}
	}
	return false
}

// Left says, after a Done with a failure, that the request leaves the bucket:
// it was its last attempt there, and counts in the run of failed requests. It
// reports whether a bucket of the group is open now. Only the first call counts.
func (p *Permit) Left() bool {
	if p.g == nil {
		return false
	}
	u := p.g.u
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	if p.stage != stageEnded {
		return false
	}
	if p.end.kind == endFailed && !p.leaves && !p.prober {
		p.leaves = true
		for i := range p.slots[:p.buckets] {
			if s := &p.slots[i]; s.learns(i) {
				s.b.state.left(now, s)
			}
		}
	}
	return p.shut()
}

// permits is a list of permits whose attempts wait, in the order in which they
// began.
type permits struct {
	first, last *Permit
	n           int
}

func (l *permits) push(p *Permit) {
	p.in, p.prev, p.next = l, l.last, nil
	if l.last != nil {
		l.last.next = p
	} else {
		l.first = p
	}
	l.last = p
	l.n++
}

func (l *permits) remove(p *Permit) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		l.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		l.last = p.prev
	}
	p.in, p.prev, p.next = nil, nil, nil
	l.n--
}
