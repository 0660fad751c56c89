package breaker

import (
	"fmt"
	"math"
	"strings"
	"time"

	"failback/gateway/decision"
)

const (
	// longRetryAfter opens a bucket at the first 429 that asks for it.
	longRetryAfter = 5 * time.Second
	// openingsAge is how long an opening lengthens the cooldown of later ones.
	openingsAge = 10 * time.Minute
	// loneFailure is how long a bucket must have been without failures for the
	// next one to be its first.
	loneFailure = 10 * time.Second
	// reducedConsecutive takes the place of Settings.Consecutive while the
	// upstream's share is below 100.
	reducedConsecutive = 2
	// maxDwell is when a half-open or ramping bucket takes back a permit whose
	// attempt named no deadline.
	maxDwell = 10 * time.Minute
)

// bucket is one breaker. Everything in it is guarded by its upstream's lock,
// which all its methods require.
type bucket struct {
	u    *upstream
	name decision.Bucket

	state  state // one of the four that follow
	closed closed
	open   open
	half   halfOpen
	ramp   ramping

	// era changes when the bucket opens or an operator closes it: the ends of
	// attempts that it admitted before teach it nothing.
	era    uint32
	since  time.Duration // of the state
	reason string        // of the last opening, while not closed
	detail string
	why    string // of whyShut, empty until it is asked for
	forced override

	given    slots             // permits out of the half-open or ramping bucket
	queued   int               // attempts that wait for room here
	cooldown time.Duration     // of the last opening by a rule
	openings [16]time.Duration // when it opened last, a ring
	opened   int               // how often it opened
	// retryAt is the latest time until which the upstream asked to be left
	// alone, asked when that was; a success of an attempt begun later ends it.
	retryAt, asked time.Duration
	unsaid         time.Duration // last 429 of this era without Retry-After; 0: none
	elsewhere      time.Duration // last attempt that might have gone elsewhere
	prober         time.Duration // last time a prober asked

	win         window
	run         run
	lastFailure time.Duration
	completed   rate // attempts that ended as the bucket's success, failure or 429
	admission   admission
	pace        pace
	models      map[string]*model
	lastModel   *model

	blocked, shadowBlocked uint64
}

// run is the failed requests in a row.
type run struct {
	n       int
	rate    float64 // completed per second in the 10 s before it began
	classes classCounts
}

func newBucket(u *upstream, name decision.Bucket, now time.Duration) *bucket {
	b := &bucket{u: u, name: name, since: now, models: map[string]*model{}}
	b.closed.b, b.open.b, b.half.b, b.ramp.b = b, b, b, b
	b.state = &b.closed
	b.win.resize(u.settings.Window)
	return b
}

// opening is why a bucket opens.
type opening struct {
	reason string
	event  string // of the event, if it is another
	detail string
	by     string // empty: auto
}

// settle does what became due since the last look, so that nobody's decision
// waits for a tick.
func (b *bucket) settle(now time.Duration) {
	if b.forced.to != "" {
		if now < b.forced.until {
			return
		}
		b.endOverride(now)
	}
	switch b.state {
	case &b.half:
		if b.half.ok >= b.u.settings.Probes { // fewer are configured now
			b.toRamping(now)
			return
		}
		for s := b.given.expired(now); s != nil; s = b.given.expired(now) {
			b.given.remove(s)
		}
	case &b.ramp:
		for s := b.given.expired(now); s != nil; s = b.given.expired(now) {
			b.given.remove(s)
		}
		b.ramp.advance(now)
	}
}

// soft reports whether the bucket is shut only for requests which another
// candidate may serve.
func (b *bucket) soft() bool { return b.forced.to == "" && soft(b.reason) }

// skip is the reason for which an open or half-open bucket is passed by.
func (b *bucket) skip() decision.Reason {
	switch b.reason {
	case ForWeight, ForRetryBudget, ForSlow, ForRateLimited:
		return decision.Reason(b.reason)
	}
	return decision.BreakerOpen
}

// rules reports whether the rules of a closed bucket hold now.
func (b *bucket) rules() bool { return b.state == &b.closed || b.state == &b.ramp }

// trip opens the bucket, unless an operator holds it closed, or it is open
// already and as much as reason would have it.
func (b *bucket) trip(now time.Duration, reason, detail string) bool {
	if b.forced.to != "" {
		return false
	}
	var until time.Duration
	switch {
	case b.rules():
		b.lengthenCooldown(now)
	case b.state == &b.open && b.soft() && !soft(reason):
		until = b.open.until
	default:
		return false
	}
	until = max(until, b.cooledAt(now, reason))
	b.toOpen(now, until, opening{reason: reason, detail: detail})
	return true
}

// lengthenCooldown doubles the cooldown for each opening of the last 10 min.
func (b *bucket) lengthenCooldown(now time.Duration) {
	recent := 0
	for i := range min(b.opened, len(b.openings)) {
		if now-b.openings[i] <= openingsAge {
			recent++
		}
	}
	b.openings[b.opened%len(b.openings)] = now
	b.opened++
	b.cooldown = b.u.settings.Cooldown
	for range recent {
		b.cooldown = min(2*b.cooldown, b.u.settings.CooldownMax)
	}
}

// cooledAt is until when a bucket stays open that opens now for reason. A rate
// limit lasts until the latest of what its 429s asked for; one that did not say
// asked for the cooldown.
func (b *bucket) cooledAt(now time.Duration, reason string) time.Duration {
	cooldown := max(b.cooldown, b.u.settings.Cooldown)
	if reason != ForRateLimited {
		return max(now+cooldown, b.retryAt)
	}
	until := b.retryAt
	if b.unsaid > 0 {
		until = max(until, b.unsaid+cooldown)
	}
	if until <= now {
		until = now + cooldown
	}
	return until
}

func (b *bucket) toOpen(now, until time.Duration, o opening) {
	b.reason, b.detail = o.reason, o.detail
	b.open.until = until
	event := o.event
	if event == "" {
		event = o.reason
	}
	b.u.moveOn(b)
	b.newEra()
	b.enter(now, &b.open, event, o.by)
}

func (b *bucket) toHalfOpen(now time.Duration) {
	b.half.ok = 0
	b.half.due = b.open.until
	b.enter(now, &b.half, CooldownOver, "")
}

func (b *bucket) toRamping(now time.Duration) {
	b.win.reset()
	b.run = run{}
	b.unsaid = 0
	b.forgetWeights()
	b.ramp = ramping{b: b, limit: 1, stepAt: now, bound: now}
	b.enter(now, &b.ramp, ProbesOK, "")
}

// toClosed keeps what was counted while ramping: only weights start anew.
func (b *bucket) toClosed(now time.Duration, event, by string) {
	b.reason, b.detail = "", ""
	b.forgetWeights()
	b.enter(now, &b.closed, event, by)
}

// newEra forgets the attempts that are under way and what was counted, so that
// a bucket is judged by what it does from now on. Weights stay, to be seen while
// it is open.
func (b *bucket) newEra() {
	b.era++
	b.pace.part()
	b.admission.on = false
	b.win.reset()
	b.run = run{}
	b.unsaid = 0
}

func (b *bucket) forgetWeights() {
	for _, m := range b.models {
		m.recent.clear()
	}
}

// enter changes the state and says so.
func (b *bucket) enter(now time.Duration, to state, reason, by string) {
	from := b.state.name()
	b.given.clear()
	b.state, b.since, b.why = to, now, ""
	b.post(from, reason, by)
}

func (b *bucket) post(from, reason, by string) {
	if b.u.removed {
		return
	}
	if by == "" {
		by = decision.Auto
	}
	var detail string
	if b.state == &b.open {
		detail = b.detail // it tells of the opening, and of nothing that came after
	}
	if b.u.settings.Shadow && b.forced.to == "" {
		detail = strings.TrimSuffix("shadow, not enforced: "+detail, ": ")
	}
	b.u.post(decision.Event{
		Kind:       decision.KindBreakerTransition,
		Time:       time.Now(),
		Provider:   b.name.Upstream,
		Region:     b.u.region,
		Capability: b.name.Capability,
		From:       from,
		To:         b.state.name(),
		Reason:     reason,
		Detail:     detail,
		By:         by,
	})
}

// book learns from the end of an attempt, by the rules of a closed bucket.
func (b *bucket) book(now time.Duration, p *Permit) {
	e := &p.end
	switch e.kind {
	case endOK:
		b.win.addOK(now)
		if b.run.n > 0 {
			b.run = run{}
		}
		if p.start >= b.asked {
			b.retryAt = 0
		}
	case endFailed:
		b.win.addFailed(now, e.class)
		b.hint(now, e)
		b.judgeFailures(now)
	case endLimited:
		b.win.addLimited(now)
		b.hint(now, e)
		if !e.hasRetryAfter {
			b.unsaid = now
		}
		b.admission.limited(now, b.startedPerSecond(now))
		b.judgeLimited(now, e)
	}
}

// hint notes a Retry-After. Only a later one replaces it.
func (b *bucket) hint(now time.Duration, e *ending) {
	if e.hasRetryAfter && now+e.retryAfter > b.retryAt {
		b.retryAt, b.asked = now+e.retryAfter, now
	}
}

func (b *bucket) judgeFailures(now time.Duration) {
	s, c := &b.u.settings, &b.win.sum
	if n := c.ok + c.failed; s.FailureRate > 0 && n >= s.minSamples() && reaches(c.failed, n, s.FailureRate) {
		b.trip(now, ForFailureRate, fmt.Sprintf("%d/%d failed (%v)", c.failed, n, &c.classes))
	}
}

func (b *bucket) judgeLimited(now time.Duration, e *ending) {
	c := &b.win.sum
	if e.hasRetryAfter && e.retryAfter >= longRetryAfter {
		b.trip(now, ForRateLimited, "asked to wait "+short(e.retryAfter))
		return
	}
	if n := c.ok + c.failed + c.limited; n >= b.u.settings.minSamples() && 2*c.limited > n {
		b.trip(now, ForRateLimited, fmt.Sprintf("%d/%d rate limited", c.limited, n))
	}
}

// countRun adds a failed request that goes elsewhere, or ends.
func (b *bucket) countRun(now time.Duration, p *Permit) {
	if b.run.n == 0 {
		b.run.rate = p.end.rate
	}
	b.run.n++
	b.run.classes.add(p.end.class)
	consecutive := b.u.settings.Consecutive
	if consecutive <= 0 {
		return
	}
	if b.u.reduced {
		consecutive = min(consecutive, reducedConsecutive)
	}
	if b.run.n >= max(consecutive, int(math.Round(b.run.rate))) {
		b.trip(now, ForConsecutive, fmt.Sprintf("%d failed in a row (%v)", b.run.n, &b.run.classes))
	}
}

// first notes a failure and says whether it is the first in 10 s.
func (b *bucket) first(now time.Duration) bool {
	first := now-b.lastFailure >= loneFailure
	b.lastFailure = now
	return first
}

// startedPerSecond is the rate of attempts begun in the last 10 s, or since the
// first of them.
func (b *bucket) startedPerSecond(now time.Duration) float64 {
	n, first := 0.0, now
	for _, g := range b.u.groups {
		if !g.has(b) {
			continue
		}
		if c := g.starts.count(now); c > 0 {
			n += c
			first = min(first, g.starts.first)
		}
	}
	return n / min(max((now-first).Seconds(), 1), rateSeconds)
}

func (b *bucket) inFlight() int {
	n := 0
	for _, g := range b.u.groups {
		if g.has(b) {
			n += g.inFlight
		}
	}
	return n
}

func (b *bucket) model(name string) *model {
	if m := b.lastModel; m != nil && m.name == name {
		return m
	}
	m := b.models[name]
	if m == nil {
		m = &model{name: name}
		b.models[name] = m
	}
	b.lastModel = m
	return m
}

// reaches reports whether part of n is at least ratio, rounding forgiven.
func reaches(part, n uint32, ratio float64) bool {
	return float64(part) >= ratio*float64(n)-1e-9
}

// short is d as people say it.
func short(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
