package breaker

import (
	"slices"
	"time"

	"failback/gateway/decision"
)

// Ask is what an attempt asks of its buckets.
type Ask struct {
	Model  string // the upstream's model name
	Stream bool   // waits for its first output; else for its whole answer
	// Elsewhere says that another candidate which admits may serve the request.
	Elsewhere bool
	// LastResort says that nobody else may serve it: openings for weight,
	// retry_budget or slow, their ramp, and the rate after 429s then do not
	// bind it.
	LastResort bool
	// NoProbe refuses the attempt where it would be a probe of a half-open bucket.
	NoProbe bool
	// Prober says that no client waits for the answer. A closed or ramping
	// bucket lets it pass and learns nothing from it; an open one that is due,
	// and a half-open one, give it a probe whose end closes or reopens them. It
	// is refused where it would have to wait, also in shadow mode. Elsewhere,
	// LastResort, NoProbe and Lot then say nothing.
	Prober bool
	// OnOpen is called at most once, without locks held, if a bucket of the
	// group opens while the attempt waits for output; not for an opening for
	// weight, retry_budget or slow if Elsewhere is false. It may still be called
	// while Done, Output or Release is running, or just after. May be nil.
	OnOpen func()
	// Deadline is when the attempt ends at the latest; a half-open or ramping
	// bucket takes back the permit then. Zero: after 10 minutes.
	Deadline time.Time
	// Lot is a number from 1 to 100 drawn once per request, so that all answers
	// to one request agree where only a part of the requests is bound
	// (Settings.EnforcePercent). 0: the bucket draws each time.
	Lot int
	// Counted says that the group has turned the same request away before, and
	// does not count it once more.
	Counted bool
}

// Group is the buckets of one upstream that must all admit a request. Its
// methods may be called from any goroutine; a nil Group, and one whose upstream
// lacks a capability, refuses everything with reason capability.
type Group struct {
	u    *upstream // nil: no such upstream
	caps decision.CapabilitySet

	// The upstream's lock guards everything that follows.

	buckets  []*bucket // most specific first; empty: it lacks one
	inFlight int
	starts   rate
}

func (g *Group) has(b *bucket) bool { return slices.Contains(g.buckets, b) }

// Check says why Acquire would refuse now, empty if it would not. It takes
// nothing and does not count as demand.
func (g *Group) Check(a Ask) decision.Reason {
	if g == nil || g.u == nil {
		return decision.NoCapability
	}
	u := g.u
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	if len(g.buckets) == 0 {
		return decision.NoCapability
	}
	return u.check(now, g, &a)
}

// Acquire asks all buckets for a permit. Empty: admitted, and p must come back
// by Done or Release; else the reason, and p is as it was. A p that is still out
// is released first.
func (g *Group) Acquire(p *Permit, a Ask) decision.Reason {
	if g == nil || g.u == nil {
		return decision.NoCapability
	}
	u := g.u
	p.releaseFor(u)
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	if len(g.buckets) == 0 {
		return decision.NoCapability
	}
	return u.try(now, g, p, &a, false)
}

// RetryIn is how long until the last of the group's open buckets is due for a
// probe; one that is half-open is given a second. False if none is either.
func (g *Group) RetryIn() (time.Duration, bool) {
	if g == nil || g.u == nil {
		return 0, false
	}
	u := g.u
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	var in time.Duration
	found := false
	for _, b := range g.buckets {
		switch b.state {
		case &b.open:
			in, found = max(in, b.open.until-now), true
		case &b.half:
			in, found = max(in, time.Second), true
		}
	}
	return in, found
}

// FirstOutputP99 is the 99th percentile of the time to the first output over the
// model's last 1,000 streams in the group's most specific bucket; false before
// there are 20.
func (g *Group) FirstOutputP99(model string) (time.Duration, bool) {
	return g.p99(model, stream)
}

// WholeP99 is the same for the whole answers of unary attempts.
func (g *Group) WholeP99(model string) (time.Duration, bool) {
	return g.p99(model, unary)
}

func (g *Group) p99(name string, k kind) (time.Duration, bool) {
	if g == nil || g.u == nil {
		return 0, false
	}
	u := g.u
	u.mu.Lock()
	now := u.set.now()
	defer u.mu.Unlock()
	if len(g.buckets) == 0 {
		return 0, false
	}
	m := g.buckets[0].models[name]
	switch {
	case m == nil:
		return 0, false
	case k == stream:
		return m.output.p99(now)
	}
	return m.whole.p99(now)
}

// Effective is the configured weight times the part of the model's recent
// attempts that ended well.
func (g *Group) Effective(model string, configured float64) float64 {
	if g == nil || g.u == nil {
		return configured
	}
	u := g.u
	u.mu.Lock()
	now := u.set.now()
	defer u.mu.Unlock()
	if len(g.buckets) == 0 {
		return configured
	}
	m := g.buckets[0].models[model]
	if m == nil {
		return configured
	}
	return configured * m.recent.ratio(now)
}

// TripByWeight opens the most specific bucket if at least 5 of the model's
// recent attempts failed, fewer than 90 % ended well, and its effective weight
// is below next. It says whether it opened and that binds requests.
func (g *Group) TripByWeight(model string, configured, next float64) bool {
	if g == nil || g.u == nil {
		return false
	}
	u := g.u
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	if len(g.buckets) == 0 {
		return false
	}
	b := g.buckets[0]
	m := b.models[model]
	if m == nil || !b.rules() {
		return false
	}
	detail, bad := m.recent.outweighed(now, configured, next)
	return bad && b.trip(now, ForWeight, detail) && !u.settings.Shadow
}

// Trip opens the most specific bucket; detail is for people. It says whether it
// opened: not if it is open or half-open already, or held closed.
func (g *Group) Trip(reason decision.Reason, detail string) bool {
	if g == nil || g.u == nil {
		return false
	}
	u := g.u
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	return len(g.buckets) > 0 && g.buckets[0].trip(now, string(reason), detail)
}
