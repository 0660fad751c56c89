package breaker

import (
	"time"

	"failback/gateway/decision"
)

// rampMax is where doubling ends: far beyond what an upstream has in flight.
const rampMax = 1 << 20

// ramping admits 1, 2, 4, … attempts in flight: a recovering upstream is cold.
// The rules of a closed bucket hold too.
type ramping struct {
	b      *bucket
	limit  int
	stepAt time.Duration // when the current second began
	good   int           // in it: attempts that gave output or ended well
	bad    int           // in it: failed
	bound  time.Duration // last attempt that was one too many
}

func (*ramping) name() string { return Ramping }

func (r *ramping) admit(now time.Duration, f flags) verdict {
	if f.prober {
		return verdict{past: true}
	}
	b := r.b
	if b.given.n < r.limit && b.turn(f) {
		return b.withinRate(now, f)
	}
	if f.last && b.soft() {
		return verdict{past: true, over: rampLimit}
	}
	return verdict{reason: decision.Capacity, over: rampLimit}
}

func (r *ramping) take(now time.Duration, s *slot) {
	r.b.admission.take()
	s.gave = true
	s.deadline = s.p.takenBackAt(now)
	r.b.given.push(s)
}

func (r *ramping) give(_ time.Duration, s *slot) { r.b.given.remove(s) }

func (r *ramping) record(now time.Duration, s *slot) {
	switch s.p.end.kind {
	case endOK:
		if !s.p.progressed {
			r.good++
		}
	case endFailed:
		r.bad++
	}
	r.b.book(now, s.p)
}

func (r *ramping) left(now time.Duration, s *slot) { r.b.countRun(now, s.p) }

func (r *ramping) tick(now time.Duration) {
	r.b.settle(now)
	if r.b.state == r { // still
		r.b.watch(now)
	}
}

// advance ends the ramp when it bound nobody for a while, else doubles the
// limit at the end of a second in which attempts got on and few failed. A
// second in which nothing was heard says nothing, and changes nothing.
func (r *ramping) advance(now time.Duration) {
	if now-r.bound >= unboundAfter {
		r.b.toClosed(now, RampOver, decision.Auto)
		return
	}
	if now-r.stepAt < time.Second {
		return
	}
	few := r.bad == 0 || float64(r.bad) < r.b.u.settings.FailureRate/2*float64(r.good+r.bad)
	if r.good > 0 && few {
		r.limit = min(r.limit*2, rampMax)
	}
	r.good, r.bad = 0, 0
	// Whole seconds, so that a late look does not stretch the next one.
	r.stepAt += (now - r.stepAt).Truncate(time.Second)
}
