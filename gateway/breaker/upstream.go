package breaker

import (
	"math/rand/v2"
	"sync"
	"time"

	"failback/gateway/decision"
)

// maxBuckets is how many buckets an upstream, and so a group, can have.
const maxBuckets = 4

// upstream holds the buckets of one upstream. They share one lock: a group is
// asked, and gives back, in one critical section, so nothing is ever half taken
// and there is no order of locks to get wrong.
type upstream struct {
	set  *Set
	name string

	mu sync.Mutex
	// mu guards everything that follows, and the buckets.
	region   string
	settings Settings
	reduced  bool
	reserved bool // probes are for probers
	removed  bool
	buckets  [maxBuckets]*bucket // by place in decision.Capabilities; nil: not one of its own
	groups   map[decision.CapabilitySet]*Group
	waiters  []*waiter
	lost     lostConnections
	full     *bucket // the last that refused for capacity
	// moves are callbacks of attempts whose bucket opened, posted says that
	// there are events: both are for unlock to deal with.
	moves  []func()
	posted bool
}

// unlock lets those in that wait for capacity, gives up the lock, and then
// calls whom the critical section left to be called.
func (u *upstream) unlock(now time.Duration) {
	if len(u.waiters) > 0 {
		u.pump(now)
	}
	if u.moves == nil && !u.posted {
		u.mu.Unlock()
		return
	}
	moves, posted := u.moves, u.posted
	u.moves, u.posted = nil, false
	u.mu.Unlock()
	for _, move := range moves {
		move()
	}
	if posted {
		u.set.events.drain()
	}
}

func (u *upstream) post(e decision.Event) {
	u.set.events.post(e)
	u.posted = true
}

// moveOn has those called that wait for output in a group of which b is one,
// and which b opens now. An opening that does not bind them leaves them alone.
func (u *upstream) moveOn(b *bucket) {
	for _, o := range u.buckets {
		if o == nil {
			continue
		}
		for _, l := range o.pace.lists() {
			for p := l.first; p != nil; p = p.next {
				if p.onOpen == nil || !p.g.has(b) {
					continue
				}
				if b.forced.to == "" && (!p.binding || soft(b.reason) && !p.elsewhere) {
					continue
				}
				u.moves = append(u.moves, p.onOpen)
				p.onOpen = nil
			}
		}
	}
}

// binds draws whether refusals bind a request.
func (u *upstream) binds(lot int) bool {
	percent := u.settings.EnforcePercent
	switch {
	case u.settings.Shadow || percent <= 0:
		return false
	case percent >= 100:
		return true
	case lot <= 0:
		lot = 1 + rand.IntN(100)
	}
	return lot <= percent
}

// check says why try would refuse.
func (u *upstream) check(now time.Duration, g *Group, a *Ask) decision.Reason {
	f := flagsOf(a, false)
	binding := a.Prober || u.binds(a.Lot)
	for _, b := range g.buckets {
		if b.state != &b.closed || b.forced.to != "" {
			b.settle(now)
		}
		if v := b.state.admit(now, f); v.reason != "" && (binding || b.forced.to != "") {
			return v.reason
		}
	}
	return ""
}

// try gives p what all buckets of g admit, or nothing and the reason.
func (u *upstream) try(now time.Duration, g *Group, p *Permit, a *Ask, queued bool) decision.Reason {
	if p.stage == stageOut {
		p.end = ending{}
		p.finish(now)
	}
	f := flagsOf(a, queued)
	binding := a.Prober || u.binds(a.Lot)
	if a.Prober {
		for _, b := range g.buckets {
			b.prober = now
		}
	}
	var past [maxBuckets]bool
	for i, b := range g.buckets {
		if b.state != &b.closed || b.forced.to != "" {
			b.settle(now)
		}
		v := b.state.admit(now, f)
		switch v.over {
		case rampLimit:
			b.ramp.bound = now
		case rateLimit:
			b.admission.bound = now
		}
		if f.elsewhere {
			b.elsewhere = now
		}
		past[i] = v.past
		if v.reason == "" {
			continue
		}
		if binding || b.forced.to != "" {
			if !queued && !a.Prober && !a.Counted {
				b.blocked++
			}
			u.full = b
			return v.reason
		}
		b.shadowBlocked++
		past[i] = true
	}

	p.g, p.stage = g, stageOut
	p.stream, p.binding, p.elsewhere = a.Stream, binding, a.Elsewhere
	p.prober, p.slow, p.progressed, p.leaves = a.Prober, false, false, false
	p.start, p.deadline, p.onOpen = now, a.Deadline, a.OnOpen
	p.buckets = uint8(len(g.buckets))
	for i, b := range g.buckets {
		s := &p.slots[i]
		s.b, s.p, s.era = b, p, b.era
		s.gave, s.probe = false, false
		if !past[i] {
			b.state.take(now, s)
		}
	}
	first := g.buckets[0]
	if p.prober {
		p.model = nil
		first.pace.probers.push(p)
		return ""
	}
	p.model = first.model(a.Model)
	first.pace.fresh[p.kind()].push(p)
	g.inFlight++
	g.starts.add(now)
	return ""
}

// tick does what time alone brings about.
func (u *upstream) tick() {
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	for _, b := range u.buckets {
		if b == nil {
			continue
		}
		if b.forced.to != "" {
			b.settle(now)
		}
		b.state.tick(now)
	}
}

// bucket returns the bucket of c, nil if there is none.
func (u *upstream) bucket(c decision.Capability) *bucket {
	for i, o := range decision.Capabilities {
		if o == c {
			return u.buckets[i]
		}
	}
	return nil
}

// resolve finds the buckets of g anew.
func (u *upstream) resolve(g *Group) {
	g.buckets = nil
	var l []*bucket
	for _, c := range g.caps.List() {
		b := u.bucket(c)
		if b == nil {
			return
		}
		l = append(l, b)
	}
	g.buckets = l
}
