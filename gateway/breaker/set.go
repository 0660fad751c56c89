package breaker

import (
	"context"
	"slices"
	"sync"
	"time"

	"failback/gateway/decision"
)

// tickEvery is how often Run looks for what time alone brings about.
const tickEvery = 250 * time.Millisecond

// Set holds the buckets of all upstreams. Its methods may be called from any
// goroutine.
type Set struct {
	events events
	// base is what times inside are counted from, by the monotonic clock. It
	// lies so far back that the zero time is long ago.
	base time.Time

	mu sync.RWMutex
	// mu guards everything that follows.
	upstreams []*upstream // in the order of their first Configure
	reserved  map[string]bool
}

// New returns an empty Set. onEvent gets every transition, for each bucket in
// order, without locks held; nil drops them.
func New(onEvent func(decision.Event)) *Set {
	return &Set{events: events{handle: onEvent}, base: time.Now().Add(-24 * time.Hour), reserved: map[string]bool{}}
}

func (s *Set) now() time.Duration { return time.Since(s.base) }

func (s *Set) find(name string) *upstream {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, u := range s.upstreams {
		if u.name == name {
			return u
		}
	}
	return nil
}

func (s *Set) all() []*upstream {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.upstreams)
}

// Configure creates the buckets of an upstream or gives new settings to those
// that exist; their state is kept. Capabilities that are gone lose their bucket.
func (s *Set) Configure(upstreamName, region string, caps decision.CapabilitySet, settings Settings) {
	settings = settings.normal()
	s.mu.Lock()
	var u *upstream
	for _, o := range s.upstreams {
		if o.name == upstreamName {
			u = o
		}
	}
	if u == nil {
		u = &upstream{set: s, name: upstreamName, reserved: s.reserved[upstreamName], groups: map[decision.CapabilitySet]*Group{}}
		s.upstreams = append(s.upstreams, u)
	}
	u.mu.Lock()
	s.mu.Unlock()
	now := s.now()
	defer u.unlock(now)
	former := u.settings
	u.region, u.settings = region, settings
	for i, c := range decision.Capabilities {
		b := u.buckets[i]
		switch {
		case !caps.Has(c):
			u.buckets[i] = nil
		case b == nil:
			u.buckets[i] = newBucket(u, decision.Bucket{Upstream: upstreamName, Capability: c}, now)
		default:
			if former.Window != settings.Window {
				b.win.resize(settings.Window)
			}
			b.pace.found = 0
		}
	}
	for _, g := range u.groups {
		u.resolve(g)
	}
}

// Remove forgets an upstream. Permits that are out may still be returned, and
// groups that are still held keep their buckets, but nobody hears of them.
func (s *Set) Remove(upstreamName string) {
	s.mu.Lock()
	var gone *upstream
	s.upstreams = slices.DeleteFunc(s.upstreams, func(u *upstream) bool {
		if u.name == upstreamName {
			gone = u
		}
		return u == gone
	})
	s.mu.Unlock()
	if gone == nil {
		return
	}
	gone.mu.Lock()
	defer gone.unlock(s.now())
	gone.removed = true
}

// SetReduced says that the upstream's share is below 100: two failed requests
// in a row then open a bucket.
func (s *Set) SetReduced(upstreamName string, reduced bool) {
	u := s.find(upstreamName)
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.unlock(s.now())
	u.reduced = reduced
}

// Reserve keeps the probes of the upstream's half-open buckets for asks with
// Prober, or lets clients have them again; those that are out stay out. It is
// remembered by name, also of an upstream that is not configured, or not yet.
func (s *Set) Reserve(upstreamName string, on bool) {
	s.mu.Lock()
	if on {
		s.reserved[upstreamName] = true
	} else {
		delete(s.reserved, upstreamName)
	}
	var u *upstream
	for _, o := range s.upstreams {
		if o.name == upstreamName {
			u = o
		}
	}
	if u == nil {
		s.mu.Unlock()
		return
	}
	u.mu.Lock()
	s.mu.Unlock()
	defer u.unlock(s.now())
	u.reserved = on
}

// Run applies the rules that no request triggers (slowness, stalls, due ramps,
// overrides that end) until ctx ends, and returns nil then.
func (s *Set) Run(ctx context.Context) error {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			for _, u := range s.all() {
				u.tick()
			}
		}
	}
}

// Group returns the buckets that must all admit a request which needs caps. The
// same Group is returned each time; it follows later calls of Configure. Of an
// upstream that is not configured it returns a Group that refuses everything.
func (s *Set) Group(upstreamName string, caps decision.CapabilitySet) *Group {
	u := s.find(upstreamName)
	if u == nil {
		return &Group{caps: caps}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	g := u.groups[caps]
	if g == nil {
		g = &Group{u: u, caps: caps}
		u.resolve(g)
		u.groups[caps] = g
	}
	return g
}
