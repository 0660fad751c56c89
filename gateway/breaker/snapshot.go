package breaker

import (
	"slices"
	"strings"
	"time"

	"failback/gateway/decision"
)

// Snapshot is one bucket at one moment.
type Snapshot struct {
	Bucket decision.Bucket
	Region string
	State  string    // closed, open, half_open or ramping
	Reason string    // of the last opening while not closed
	Detail string    // of the last opening while not closed
	Since  time.Time // of the state
	// NextProbeAt is when an open bucket lets a probe through; ProbeDue says
	// that it would now and waits for traffic.
	NextProbeAt time.Time
	ProbeDue    bool
	// Reserved says that probes are for probers only. Unprobed says that clients
	// may not find out how it is and no prober asked lately either: then a state
	// that is not closed is old news, and the bucket's own is unknown.
	Reserved, Unprobed bool
	// ProberAt is when a prober asked last, admitted or not; zero: never.
	ProberAt  time.Time
	Probes    int // allowed at once in half-open, and successes needed
	ProbesOut int
	ProbesOK  int
	RampLimit int // admitted in flight while ramping
	InFlight  int
	Samples   int // in the window: ended well or failed
	Failures  int
	Run       int // failed requests in a row
	// Forced is open or closed while an operator's override lasts.
	Forced      string
	ForcedBy    string
	ForcedUntil time.Time
	Mode        string  // enforce or shadow
	Enforced    int     // percent of the requests that refusals bind now
	AdmittedRPS float64 // admitted after 429s, 0 when not bound
	Weights     []ModelWeight
	// Blocked counts refusals by this bucket; ShadowBlocked those that did not bind.
	Blocked, ShadowBlocked uint64
}

// proberAge is how long a prober counts as one after it asked last, at least:
// one that is held for its cost, or has no such target, does not come back.
const proberAge = 5 * time.Minute

// ModelWeight is what a bucket makes of the weight of one model.
type ModelWeight struct {
	Model    string
	Ratio    float64 // effective weight ÷ configured weight
	Attempts int     // it was measured over; below 20 the ratio is 1
	Failed   int
}

// Snapshot returns all buckets, upstreams in the order of their first
// Configure, capabilities most specific first.
func (s *Set) Snapshot() []Snapshot {
	var l []Snapshot
	for _, u := range s.all() {
		l = u.snapshot(l)
	}
	return l
}

func (u *upstream) snapshot(l []Snapshot) []Snapshot {
	u.mu.Lock()
	now, wall := u.set.now(), time.Now()
	defer u.unlock(now)
	at := func(t time.Duration) time.Time { return wall.Add(t - now) }
	for _, b := range u.buckets {
		if b == nil {
			continue
		}
		b.settle(now)
		l = append(l, b.snapshot(now, at))
	}
	return l
}

func (b *bucket) snapshot(now time.Duration, at func(time.Duration) time.Time) Snapshot {
	b.win.advance(now)
	c := &b.win.sum
	s := Snapshot{
		Bucket:        b.name,
		Region:        b.u.region,
		State:         b.state.name(),
		Reason:        b.reason,
		Detail:        b.detail,
		Since:         at(b.since),
		Probes:        b.u.settings.Probes,
		InFlight:      b.inFlight(),
		Samples:       int(c.ok + c.failed),
		Failures:      int(c.failed),
		Run:           b.run.n,
		Mode:          "enforce",
		Enforced:      b.u.settings.EnforcePercent,
		Blocked:       b.blocked,
		ShadowBlocked: b.shadowBlocked,
	}
	s.Reserved = b.u.reserved
	if b.prober != 0 {
		s.ProberAt = at(b.prober)
	}
	s.Unprobed = b.u.reserved && (b.prober == 0 || now-b.prober > max(proberAge, 3*b.u.settings.Cooldown))
	switch b.state {
	case &b.open:
		s.NextProbeAt, s.ProbeDue = at(b.open.until), b.open.due(now)
	case &b.half:
		s.ProbesOut, s.ProbesOK = b.given.n, b.half.ok
		s.ProbeDue = b.half.available() > 0
	case &b.ramp:
		s.RampLimit = b.ramp.limit
	}
	if b.forced.to != "" {
		s.Forced, s.ForcedBy, s.ForcedUntil = b.forced.to, b.forced.by, at(b.forced.until)
	}
	if b.u.settings.Shadow {
		s.Mode, s.Enforced = "shadow", 0
	}
	if s.Forced != "" {
		s.Enforced = 100
	}
	if b.admission.update(now); b.admission.on {
		s.AdmittedRPS = b.admission.rate
	}
	for _, m := range b.models {
		ratio := m.recent.ratio(now)
		s.Weights = append(s.Weights, ModelWeight{Model: m.name, Ratio: ratio, Attempts: m.recent.n, Failed: m.recent.failed})
	}
	slices.SortFunc(s.Weights, func(a, b ModelWeight) int { return strings.Compare(a.Model, b.Model) })
	return s
}
