package breaker

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"failback/gateway/decision"
)

// reference is a slow and plain model of one bucket: it remembers everything
// and looks through it each time. It knows no slowness, no weights and no rate
// after 429s, and lives on whole seconds, where the bucket's windows are exact.
type reference struct {
	s     Settings
	now   time.Duration
	state string
	since time.Duration

	ends      []refEnd // of this era, while it counts
	completed []time.Duration
	run       int
	runNeeds  int
	openings  []time.Duration
	cooldown  time.Duration
	limited   bool // the opening at hand is for a rate limit, which has an end of its own
	until     time.Duration
	skip      decision.Reason
	hintUntil time.Duration
	hintAt    time.Duration
	elsewhere time.Duration
	era       int
	probesOK  int
	due       time.Duration
	limit     int
	stepAt    time.Duration
	bound     time.Duration
	good, bad int
	out       []*refAttempt
	reserved  bool
}

type refEnd struct {
	at     time.Duration
	failed bool
}

type refAttempt struct {
	start, deadline time.Duration
	era             int
	held            bool // in the state that admitted it
	probe           bool
	prober          bool // no client's
	progressed      bool
}

func (m *reference) held() int {
	n := 0
	for _, a := range m.out {
		if a.held {
			n++
		}
	}
	return n
}

func (m *reference) enter(state string) {
	for _, a := range m.out {
		a.held = false
	}
	m.state, m.since = state, m.now
}

func (m *reference) open(skip decision.Reason) {
	m.skip = skip
	if m.state == Closed || m.state == Ramping {
		n := 0
		for _, at := range m.openings {
			if m.now-at <= 10*time.Minute {
				n++
			}
		}
		m.openings = append(m.openings, m.now)
		m.cooldown = min(time.Duration(float64(m.s.Cooldown)*math.Pow(2, float64(n))), m.s.CooldownMax)
	}
	m.until = max(m.now+m.cooldown, m.hintUntil)
	if m.limited && m.hintUntil > m.now {
		m.until = m.hintUntil
	}
	m.limited = false
	m.era++
	m.ends, m.run = nil, 0
	m.enter(Open)
}

// pass lets a second go by.
func (m *reference) pass() {
	m.now += time.Second
	for _, a := range m.out {
		if m.now >= a.deadline {
			a.held = false
		}
	}
	if m.state != Ramping {
		return
	}
	if m.now-m.bound >= 2*time.Second {
		m.enter(Closed)
		return
	}
	if m.now-m.stepAt >= time.Second {
		if m.good > 0 && float64(m.bad)/float64(m.good+m.bad) < m.s.FailureRate/2 {
			m.limit *= 2
		}
		m.stepAt, m.good, m.bad = m.now, 0, 0
	}
}

func (m *reference) acquire(elsewhere, prober bool, deadline time.Duration) (*refAttempt, decision.Reason) {
	a := &refAttempt{start: m.now, deadline: deadline, prober: prober}
	seen := m.elsewhere
	if elsewhere && !prober {
		m.elsewhere = m.now
	}
	prefer := func(due time.Duration) bool {
		switch {
		case prober:
			return true
		case m.reserved:
			return false
		}
		return elsewhere || m.now-max(due, seen) >= time.Second
	}
	if prober && (m.state == Closed || m.state == Ramping) {
		a.era = m.era
		m.out = append(m.out, a)
		return a, ""
	}
	switch m.state {
	case Open:
		if m.now < m.until || !prefer(m.until) {
			return nil, m.skip
		}
		m.enter(HalfOpen)
		m.probesOK, m.due = 0, m.until
		a.held, a.probe = true, true
	case HalfOpen:
		if m.probesOK+m.held() >= m.s.Probes || !prefer(m.due) {
			return nil, m.skip
		}
		a.held, a.probe = true, true
	case Ramping:
		if m.held() >= m.limit {
			m.bound = m.now
			return nil, decision.Capacity
		}
		a.held, a.progressed = true, true // its output comes at once
		m.good++
	}
	a.era = m.era
	m.out = append(m.out, a)
	return a, ""
}

// end is the end of an attempt, and of its request's stay.
func (m *reference) end(a *refAttempt, class decision.Class, retry time.Duration) {
	a.held = false
	for i := range m.out {
		if m.out[i] == a {
			m.out = append(m.out[:i], m.out[i+1:]...)
			break
		}
	}
	failed, limited := class.Blame() == decision.OfBucket, class == decision.RateLimited
	if class != decision.OK && !failed && !limited {
		return
	}
	if a.prober && !a.probe {
		return
	}
	rate := 0.0
	for _, at := range m.completed {
		if m.now-at <= 10*time.Second {
			rate += 0.1
		}
	}
	if !a.prober {
		m.completed = append(m.completed, m.now)
	}
	hint := func() {
		if retry > 0 && m.now+retry > m.hintUntil {
			m.hintUntil, m.hintAt = m.now+retry, m.now
		}
	}
	if a.era == m.era && m.state == HalfOpen && a.probe {
		if class == decision.OK {
			if m.probesOK++; m.probesOK >= m.s.Probes {
				m.enter(Ramping)
				m.ends, m.run = nil, 0
				m.limit, m.stepAt, m.bound, m.good, m.bad = 1, m.now, m.now, 0, 0
			}
			return
		}
		hint()
		if limited && retry >= 5*time.Second {
			m.skip, m.limited = decision.ReasonOf(decision.RateLimited), true
		}
		m.open(m.skip)
		return
	}
	if a.era == m.era && !a.prober && (m.state == Closed || m.state == Ramping) {
		m.count(a, failed, limited, rate, retry, hint)
	}
	if m.state == Open && class != decision.OK && retry > 0 {
		m.until = max(m.until, m.now+retry)
	}
}

func (m *reference) count(a *refAttempt, failed, limited bool, rate float64, retry time.Duration, hint func()) {
	switch {
	case limited:
		hint()
		if retry >= 5*time.Second {
			m.limited = true
			m.open(decision.ReasonOf(decision.RateLimited))
		}
		return
	case !failed:
		if !a.progressed {
			m.good++
		}
		m.run = 0
		if a.start >= m.hintAt {
			m.hintUntil = 0
		}
		m.ends = append(m.ends, refEnd{m.now, false})
		return
	}
	m.bad++
	hint()
	m.ends = append(m.ends, refEnd{m.now, true})
	n, bad := 0, 0
	for _, e := range m.ends {
		if m.now-e.at < m.s.Window {
			n++
			if e.failed {
				bad++
			}
		}
	}
	if n >= m.s.MinSamples && float64(bad)/float64(n) >= m.s.FailureRate {
		m.open(decision.BreakerOpen)
		return
	}
	if m.run == 0 {
		m.runNeeds = max(m.s.Consecutive, int(math.Round(rate)))
	}
	if m.run++; m.run >= m.runNeeds {
		m.open(decision.BreakerOpen)
	}
}

// TestAgainstTheReference runs random sequences through the bucket and the
// reference, and wants the same answers and states after each step.
func TestAgainstTheReference(t *testing.T) {
	visits := map[string]int{}
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		s := Settings{
			FailureRate: []float64{0.3, 0.5, 0.9}[rnd.IntN(3)], MinSamples: 3 + rnd.IntN(10),
			Window: 30 * time.Second, Consecutive: 2 + rnd.IntN(6),
			Cooldown: time.Duration(1+rnd.IntN(20)) * time.Second, CooldownMax: time.Minute,
			Probes: 1 + rnd.IntN(3), EnforcePercent: 100,
		}
		bubble(t, s, func(r *rig) {
			compare(r, rnd, s, visits)
			if r.Failed() {
				r.Fatalf("seed %d", seed)
			}
		})
	}
	for _, state := range []string{Closed, Open, HalfOpen, Ramping} {
		if visits[state] < 1000 {
			t.Errorf("%s was hardly visited: %v", state, visits)
		}
	}
}

func compare(r *rig, rnd *rand.Rand, s Settings, visits map[string]int) {
	m := &reference{s: s, now: 24 * time.Hour, since: 24 * time.Hour, state: Closed}
	base := time.Now().Add(-m.now)
	type attempt struct {
		p *Permit
		a *refAttempt
	}
	var out []attempt
	bad := 0.1 // part of the ends that are failures; it changes now and then
	var log []string
	for step := range 1500 {
		if rnd.IntN(60) == 0 {
			bad = []float64{0, 0.1, 0.4, 1}[rnd.IntN(4)]
		}
		switch {
		case rnd.IntN(5) == 0:
			log = append(log, "pass")
			r.pass(time.Second)
			m.pass()
		case rnd.IntN(40) == 0:
			m.reserved = !m.reserved
			r.set.Reserve("a", m.reserved)
		case rnd.IntN(2) == 0 || len(out) == 0:
			elsewhere, prober := rnd.IntN(3) > 0, rnd.IntN(4) == 0
			deadline := m.now + time.Duration(1+rnd.IntN(40))*time.Second
			p := new(Permit)
			why := r.g.Acquire(p, Ask{Model: "m", Stream: true, Elsewhere: elsewhere, Prober: prober, Deadline: base.Add(deadline)})
			a, want := m.acquire(elsewhere, prober, deadline)
			log = append(log, fmt.Sprintf("acquire %v %v: %q", elsewhere, prober, why))
			if why != want {
				r.Errorf("step %d, %s: acquire %q, the reference says %q; %v", step, m.state, why, want, tail(log))
				return
			}
			if why == "" {
				p.Output() // nobody waits, or the bucket might stall
				out = append(out, attempt{p, a})
			}
		default:
			i := rnd.IntN(len(out))
			o := out[i]
			out = append(out[:i], out[i+1:]...)
			class := decision.OK
			var retry time.Duration
			switch x := rnd.Float64(); {
			case x < bad:
				class = failureClasses[rnd.IntN(len(failureClasses))]
				if rnd.IntN(8) == 0 {
					retry = time.Duration(1+rnd.IntN(40)) * time.Second
				}
			case x > 0.97:
				class = decision.ClientGone
			case x > 0.965:
				class, retry = decision.RateLimited, time.Duration(5+rnd.IntN(40))*time.Second
			}
			e := ended(class)
			e.RetryAfter, e.HasRetryAfter = retry, retry > 0
			end(o.p, e)
			m.end(o.a, class, retry)
			log = append(log, fmt.Sprintf("end %s %v", class, retry))
		}
		got := r.bucket(decision.Stream)
		visits[m.state]++
		clients := 0
		for _, a := range m.out {
			if !a.prober {
				clients++
			}
		}
		same := got.State == m.state && got.Since.Equal(base.Add(m.since)) && got.InFlight == clients && got.Reserved == m.reserved
		switch m.state {
		case Open:
			same = same && got.NextProbeAt.Equal(base.Add(m.until)) && got.ProbeDue == (m.now >= m.until)
		case HalfOpen:
			same = same && got.ProbesOut == m.held() && got.ProbesOK == m.probesOK
		case Ramping:
			same = same && got.RampLimit == m.limit && got.Run == m.run
		case Closed:
			same = same && got.Run == m.run
		}
		if !same {
			r.Errorf("step %d: %+v\nthe reference: state %s since %v, until %v, held %d, ok %d, limit %d, run %d of %d\n%v",
				step, got, m.state, base.Add(m.since), base.Add(m.until), m.held(), m.probesOK, m.limit, m.run, m.runNeeds, tail(log))
			return
		}
	}
	for _, o := range out {
		o.p.Release()
	}
}

func tail(l []string) []string { return l[max(0, len(l)-25):] }
