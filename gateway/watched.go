package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/decision"
	"failback/gateway/health"
	"failback/gateway/traffic"
	"failback/gateway/traffic/evidence"
)

// watched is what is known of how one upstream does, besides its share. It
// outlives reloads.
type watched struct {
	evidence evidence.Collector
	recent   tally

	// judged is what the last judgement came to; nil before the first.
	judged atomic.Pointer[judged]

	// What follows belongs to whoever judges. waits is the step for which a person
	// was asked, failing since when the step fails and is held all the same.
	machine health.Machine
	waits   step
	failing time.Time

	mu       sync.Mutex // guards everything that follows
	openings health.Openings
	doubts   map[decision.Capability]*doubt // of breakers
	revision uint64                         // of the traffic state that evidence follows
	step     step
	began    time.Time // when step became what it is, by this process's clock
}

// step is what evidence is gathered for. The same share taken again is another one.
type step struct {
	failback string
	epoch    string
	share    int
	taken    int64 // nanoseconds since 1970
}

func stepOf(s traffic.State) step {
	return step{failback: s.FailbackID, epoch: s.Epoch, share: s.Share, taken: s.Since.UnixNano()}
}

// doubt is what is known of a breaker while it is shut. It opens for its weight
// after a few failures, which another candidate's being better makes worth
// leaving and which say little of the upstream: that speaks against it only
// once two probes in a row failed.
type doubt struct {
	weight bool // it opened from closed for its weight, and that was not counted
	failed int  // probes in a row
}

// turned takes a transition of a breaker.
func (w *watched) turned(e *decision.Event) {
	if e.From == breaker.Closed && e.To == breaker.Open {
		w.evidence.Trip()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.doubts[e.Capability]
	if d == nil {
		d = new(doubt)
		if w.doubts == nil {
			w.doubts = make(map[decision.Capability]*doubt)
		}
		w.doubts[e.Capability] = d
	}
	switch {
	case e.To == breaker.Ramping || e.To == breaker.Closed:
		*d = doubt{}
	case e.From == breaker.Closed && e.Reason == breaker.ForWeight:
		d.weight = true
	case e.From == breaker.Closed && e.To == breaker.Open:
		w.openings.Count(e.Capability)
	case e.Reason == breaker.ProbeFailed:
		if d.failed++; d.failed == probedTwice && d.weight {
			d.weight = false
			w.openings.Count(e.Capability)
		}
	}
}

// shutFor reports whether the breaker of c is shut for what its probes met.
func (w *watched) shutFor(c decision.Capability) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.doubts[c]
	return d != nil && d.failed >= probedTwice
}

func (w *watched) countedOpenings() health.Openings {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.openings
}

// follow begins and ends windows of evidence as s demands. States may arrive
// out of order: the highest revision counts.
func (w *watched) follow(s traffic.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Revision < w.revision {
		return
	}
	w.revision = s.Revision
	next := stepOf(s)
	switch {
	case next == w.step:
		return
	case next.failback == "" || next.epoch != w.step.epoch || next.failback != w.step.failback:
		w.evidence.End()
	}
	w.step, w.began = next, time.Now()
	if next.failback != "" {
		w.evidence.Begin(next.share)
	}
}

// window returns the evidence of the step that s is at, and of those before it;
// false if there is none. The share table is ahead of what follows it, by seconds
// where a lowering waits for the store: the window of one step says nothing of
// the next.
func (w *watched) window(s traffic.State) (window evidence.Window, earlier []evidence.Window, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.step != stepOf(s) {
		return evidence.Window{}, nil, false
	}
	return w.evidence.Step()
}

// counts reports whether a request that was accepted at that time is evidence of
// the step in force: what began before tells of the step before. After a retreat
// the last requests of the failed step would else fail the lower one too.
func (w *watched) counts(accepted time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.step.failback == "" || !accepted.Before(w.began)
}

// anew begins the window of the step in force again.
func (w *watched) anew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.step.failback != "" {
		w.evidence.Begin(w.step.share)
	}
}

// tally counts attempts of the last window, in parts of it.
type tally struct {
	mu     sync.Mutex // guards everything that follows
	window time.Duration
	began  time.Time
	last   time.Time // end of the latest attempt
	part   int64     // that at is now
	parts  [tallyParts]struct{ ok, failed int }
}

const tallyParts = 30

// over sets the window. Another one begins empty.
func (t *tally) over(window time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.window != window {
		t.window, t.began, t.last, t.part = window, now, time.Time{}, 0
		t.parts = [tallyParts]struct{ ok, failed int }{}
	}
}

// add counts the end of one attempt. What neither succeeded nor counts against
// a bucket says nothing.
func (t *tally) add(o *decision.Outcome, now time.Time) {
	ok := o.Class == decision.OK
	if !ok && o.Class.Blame() != decision.OfBucket {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.advance(now) {
		return
	}
	t.last = now
	if p := &t.parts[t.part%tallyParts]; ok {
		p.ok++
	} else {
		p.failed++
	}
}

// sum returns the counts of the window, and when the latest was.
func (t *tally) sum(now time.Time) (ok, failed int, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.advance(now) {
		return 0, 0, time.Time{}
	}
	for _, p := range t.parts {
		ok += p.ok
		failed += p.failed
	}
	return ok, failed, t.last
}

// advance empties what has left the window; false before over was called.
// Requires mu.
func (t *tally) advance(now time.Time) bool {
	if t.window <= 0 {
		return false
	}
	part := int64(now.Sub(t.began) / (t.window / tallyParts))
	for i := max(t.part+1, part-tallyParts+1); i <= part; i++ {
		t.parts[i%tallyParts] = struct{ ok, failed int }{}
	}
	t.part = max(t.part, part)
	return true
}
