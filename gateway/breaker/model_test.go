package breaker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
)

// TestInvariants throws everything at the buckets of one upstream that may
// happen to them, in random order, and after each step looks for what must
// always hold.
func TestInvariants(t *testing.T) {
	seen := map[Transition]int{}
	for seed := range uint64(120) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		bubble(t, randomSettings(rnd), func(r *rig) {
			w := newWorld(r, rnd)
			for range 400 {
				w.step()
				w.check()
				if r.Failed() {
					r.Fatalf("seed %d: %v", seed, tail(w.log))
				}
			}
			w.leaveEveryState()
			if r.Failed() {
				r.Fatalf("seed %d", seed)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, e := range r.events {
				seen[Transition{e.From, e.To, e.Reason}]++
			}
		})
	}
	for tr := range seen {
		if !slices.Contains(Transitions, tr) {
			t.Errorf("%v is not among Transitions", tr)
		}
	}
	for _, tr := range Transitions {
		if seen[tr] == 0 {
			t.Errorf("%v was never met: the sequences are too tame, or it cannot be", tr)
		}
	}
}

func randomSettings(rnd *rand.Rand) Settings {
	rate, consecutive := 0.5, 3+rnd.IntN(5)
	if rnd.IntN(3) == 0 { // patient, so that other rules come to their turn
		rate, consecutive = 1, 50
	}
	return Settings{
		FailureRate: rate, MinSamples: 2 + rnd.IntN(8), Window: 10 * time.Second, Consecutive: consecutive,
		SlowOver: 3 * time.Second, SlowRate: 0.8,
		Cooldown: time.Duration(1+rnd.IntN(8)) * time.Second, CooldownMax: 20 * time.Second,
		Patience: time.Second, Probes: 1 + rnd.IntN(3), EnforcePercent: 100,
	}
}

// world is what a test knows of the permits it holds.
type world struct {
	*rig
	rnd    *rand.Rand
	groups []*Group
	out    []*Permit
	mood   float64 // part of the ends that are failures
	log    []string

	waits sync.WaitGroup
	mu    sync.Mutex
	got   []*Permit // by those that waited

	cooldown time.Duration
	events   int // seen so far
	opened   map[decision.Capability]time.Time
	ramped   map[decision.Capability]time.Time
	latest   map[decision.Capability]time.Time // Retry-After told to an open bucket, until then
	forced   map[decision.Capability]bool
	limited  map[decision.Capability]bool // open for a rate limit, which ends when the provider said
}

func newWorld(r *rig, rnd *rand.Rand) *world {
	w := &world{
		rig: r, rnd: rnd, mood: 0.2, cooldown: r.g.u.settings.Cooldown,
		opened: map[decision.Capability]time.Time{}, ramped: map[decision.Capability]time.Time{},
		latest: map[decision.Capability]time.Time{}, forced: map[decision.Capability]bool{}, limited: map[decision.Capability]bool{},
	}
	for _, needed := range []decision.CapabilitySet{
		decision.Needed(false, false, false), decision.Needed(false, true, false),
		decision.Needed(false, false, true), decision.Needed(false, true, true), decision.Needed(true, false, false),
	} {
		w.groups = append(w.groups, r.set.Group("a", needed))
	}
	return w
}

func (w *world) say(s string) { w.log = append(w.log, s) }

func (w *world) ask() Ask {
	a := Ask{Model: []string{"m", "n"}[w.rnd.IntN(2)], Stream: w.rnd.IntN(2) == 0}
	switch w.rnd.IntN(6) {
	case 0:
		a.LastResort = true
	case 1:
	default:
		a.Elsewhere = true
	}
	a.Prober = w.rnd.IntN(8) == 0
	if w.rnd.IntN(3) > 0 {
		a.Deadline = time.Now().Add(time.Duration(1+w.rnd.IntN(20)) * time.Second)
	}
	a.OnOpen = func() {
		// A lock held here would hang the bubble.
		w.set.Snapshot()
	}
	return a
}

func (w *world) end(p *Permit) {
	class := decision.OK
	switch x := w.rnd.Float64(); {
	case x < w.mood:
		class = failureClasses[w.rnd.IntN(len(failureClasses))]
	case x > 0.95:
		class = decision.Classes[w.rnd.IntN(len(decision.Classes))]
	case x > 0.93:
		class = decision.RateLimited
	}
	o := ended(class)
	if class.Blame() != decision.Nobody && (w.rnd.IntN(10) == 0 || class == decision.RateLimited && w.rnd.IntN(3) == 0) {
		o.RetryAfter, o.HasRetryAfter = time.Duration(w.rnd.IntN(12))*time.Second, true
	}
	w.say("end " + string(class))
	w.checkEvents() // up to here
	open := w.state(p.slots[0].b) == Open
	var before string
	strange := p.prober && !p.probes()
	look := strange && len(w.log)%4 == 0
	if look {
		before = digest(w.g.u, w.set.now())
	}
	p.Done(o)
	if look && len(w.g.u.waiters) == 0 {
		if after := digest(w.g.u, w.set.now()); after != before {
			w.Errorf("a prober's end taught:\n%s\n%s", before, after)
		}
	}
	if open && !strange && o.HasRetryAfter && (class.Blame() == decision.OfBucket || class == decision.RateLimited) {
		c := p.slots[0].b.name.Capability
		if until := time.Now().Add(o.RetryAfter); until.After(w.latest[c]) {
			w.latest[c] = until
		}
	}
	if w.rnd.IntN(4) > 0 {
		p.Left()
	}
}

// probes reports whether a bucket waits for p as a probe.
func (p *Permit) probes() bool {
	p.g.u.mu.Lock()
	defer p.g.u.mu.Unlock()
	for i := range p.slots[:p.buckets] {
		if p.slots[i].probe {
			return true
		}
	}
	return false
}

func (w *world) state(b *bucket) string {
	b.u.mu.Lock()
	defer b.u.mu.Unlock()
	return b.state.name()
}

func (w *world) soft(b *bucket) bool {
	b.u.mu.Lock()
	defer b.u.mu.Unlock()
	return b.soft()
}

func (w *world) step() {
	if w.rnd.IntN(40) == 0 {
		w.mood = []float64{0, 0.2, 0.5, 1}[w.rnd.IntN(4)]
	}
	w.mu.Lock()
	w.out = append(w.out, w.got...)
	w.got = nil
	w.mu.Unlock()
	g := w.groups[w.rnd.IntN(len(w.groups))]
	pick := func() *Permit {
		i := w.rnd.IntN(len(w.out))
		p := w.out[i]
		w.out = slices.Delete(w.out, i, i+1)
		return p
	}
	c := decision.Capabilities[w.rnd.IntN(len(decision.Capabilities))]
	bucket := decision.Bucket{Upstream: "a", Capability: c}
	switch x := w.rnd.IntN(100); {
	case x < 40:
		w.acquire(g)
	case x < 62 && len(w.out) > 0:
		w.end(pick())
	case x < 68 && len(w.out) > 0:
		w.say("output")
		w.out[w.rnd.IntN(len(w.out))].Output()
	case x < 71 && len(w.out) > 0:
		w.say("release")
		p := pick()
		p.Release()
		p.Release()
		p.Done(ended(decision.ServerError))
	case x < 73:
		w.say("wait")
		a, p := w.ask(), new(Permit)
		w.waits.Go(func() {
			ctx, cancel := context.WithTimeout(w.Context(), time.Duration(1+len(w.log)%3)*400*time.Millisecond)
			defer cancel()
			if g.Wait(ctx, p, a, time.Minute) == "" {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.got = append(w.got, p)
			}
		})
		w.pass(0)
	case x < 76:
		w.say("trip")
		g.Trip([]decision.Reason{decision.Slow, decision.RetryBudget, ForFailureRate, ForConsecutive, decision.Reason(ForRateLimited)}[w.rnd.IntN(5)], "random")
	case x < 78:
		w.say("weight")
		for _, o := range w.groups { // one that ramps, if there is one
			if w.state(o.buckets[0]) == Ramping {
				g = o
			}
		}
		for range w.rnd.IntN(60) { // many short ones
			p := new(Permit)
			if g.Acquire(p, w.ask()) == "" {
				w.end(p)
			}
		}
		g.TripByWeight("m", 100, 95)
		g.Effective("n", 10)
		g.FirstOutputP99("m")
		g.WholeP99("n")
	case x < 80:
		action := []string{ActionOpen, ActionClose, ActionAuto, ActionAuto}[w.rnd.IntN(4)]
		w.say("force " + action + " " + string(c))
		w.forced[c] = true
		if err := w.set.Force(bucket, action, time.Duration(1+w.rnd.IntN(10))*time.Second, "ana"); err != nil {
			w.Error(err)
		}
	case x < 81:
		w.set.SetReduced("a", w.rnd.IntN(2) == 0)
	case x < 82:
		on := w.rnd.IntN(2) == 0
		w.say(fmt.Sprint("reserve ", on))
		w.set.Reserve("a", on)
	case x < 83:
		w.say("configure")
		s := randomSettings(w.rnd)
		w.set.Configure("a", "eu", everything, s)
		w.cooldown = min(w.cooldown, s.Cooldown) // of an opening under way
	default:
		w.say("pass")
		w.pass(time.Duration(w.rnd.ExpFloat64() * float64(700*time.Millisecond)))
	}
}

func (w *world) acquire(g *Group) {
	a, p := w.ask(), new(Permit)
	states := map[*bucket]string{}
	for _, b := range g.buckets {
		states[b] = w.state(b)
	}
	w.g.u.mu.Lock()
	alone := len(w.g.u.waiters) == 0 // else one of them may come between
	w.g.u.mu.Unlock()
	check := g.Check(a)
	why := g.Acquire(p, a)
	w.say("acquire " + g.caps.String() + " " + string(why))
	if why != check && alone {
		w.Errorf("Check %q, Acquire %q", check, why)
	}
	if why == "" {
		w.out = append(w.out, p)
		w.guineaPig(p)
		for b, state := range states {
			if state == Open && w.state(b) == Open && (a.Prober || !(a.LastResort && w.soft(b))) {
				w.Errorf("%s is open and admitted %+v", b.name, a)
			}
		}
		return
	}
	if p.stage != stageNone {
		w.Error("refused, but the permit is out")
	}
}

// guineaPig wants nobody but a prober to probe where that is reserved, and a
// prober to take no part of what is the clients'.
func (w *world) guineaPig(p *Permit) {
	w.g.u.mu.Lock()
	defer w.g.u.mu.Unlock()
	for i := range p.slots[:p.buckets] {
		s := &p.slots[i]
		if s.probe && s.held && !p.prober && w.g.u.reserved {
			w.Errorf("%s: a client probes what is reserved", s.b.name)
		}
		if s.held && p.prober && s.b.state != &s.b.half {
			w.Errorf("%s is %s and counts a prober", s.b.name, s.b.state.name())
		}
	}
}

// check looks for what must always hold.
func (w *world) check() {
	synctest.Wait() // for those whose wait ended
	u := w.g.u
	w.mu.Lock()
	all := slices.Concat(w.out, w.got)
	w.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, b := range u.buckets {
		held, inFlight, waiting := 0, 0, 0
		for _, p := range all {
			for i := range p.slots[:p.buckets] {
				s := &p.slots[i]
				if s.b != b || p.stage != stageOut {
					continue
				}
				if !p.prober {
					inFlight++
				}
				if s.held {
					held++
				}
				if i == 0 && p.in != nil {
					waiting++
				}
			}
		}
		if b.given.n != held {
			w.Errorf("%s %s: %d permits given, %d held", b.name, b.state.name(), b.given.n, held)
		}
		if got := b.inFlight(); got != inFlight {
			w.Errorf("%s: %d in flight, %d are out", b.name, got, inFlight)
		}
		n := 0
		for _, l := range b.pace.lists() {
			n += l.n
			walked := 0
			for p := l.first; p != nil; p = p.next {
				walked++
			}
			if walked != l.n {
				w.Errorf("%s: a list says %d and has %d", b.name, l.n, walked)
			}
		}
		if n != waiting {
			w.Errorf("%s: %d wait, %d are known", b.name, n, waiting)
		}
		switch b.state {
		case &b.half:
			if b.given.n > max(u.settings.Probes, 3) { // Configure may have lowered it
				w.Errorf("%s: %d probes out, %d ended well, %d allowed", b.name, b.given.n, b.half.ok, u.settings.Probes)
			}
		case &b.ramp:
			since := u.set.now() - b.since
			if most := 1 << (int(since/time.Second) + 1); b.ramp.limit > most || b.given.n > b.ramp.limit {
				w.Errorf("%s: %d in flight of %d after %v of ramp", b.name, b.given.n, b.ramp.limit, since)
			}
		default:
			if b.given.n != 0 {
				w.Errorf("%s is %s and has %d permits out", b.name, b.state.name(), b.given.n)
			}
		}
		if b.queued < 0 {
			w.Errorf("%s: %d queued", b.name, b.queued)
		}
		if c := b.win.sum; c.ok > 1<<30 || c.failed > 1<<30 || c.limited > 1<<30 || c.slow > 1<<30 || c.fast > 1<<30 {
			w.Errorf("%s: a count went below 0: %+v", b.name, c)
		}
	}
	w.checkEvents()
}

// checkEvents wants each transition to follow from the one before, an opening to
// last, and no way to closed but the ramp or an operator.
func (w *world) checkEvents() {
	w.rig.mu.Lock()
	defer w.rig.mu.Unlock()
	for _, e := range w.rig.events[w.events:] {
		c := e.Capability
		switch {
		case e.From == Open && e.To == HalfOpen && !w.forced[c]:
			if d := e.Time.Sub(w.opened[c]); d < w.cooldown && !w.limited[c] {
				w.Errorf("%s was open for %v, less than the cooldown %v", c, d, w.cooldown)
			}
			if e.Time.Before(w.latest[c]) {
				w.Errorf("%s is probed %v before the Retry-After is over", c, w.latest[c].Sub(e.Time))
			}
		case e.To == Closed && e.From != Closed && e.Reason != Forced:
			if e.From != Ramping {
				w.Errorf("%s: closed from %s", c, e.From)
			}
			if d := e.Time.Sub(w.ramped[c]); d < 2*time.Second {
				w.Errorf("%s: the ramp took %v", c, d)
			}
		}
		switch e.To {
		case Open:
			if e.From != Open || e.Reason != OverrideOver {
				w.opened[c] = e.Time
				w.forced[c] = e.Reason == Forced
				w.limited[c] = e.Reason == ForRateLimited
				delete(w.latest, c)
			}
		case Ramping:
			w.ramped[c] = e.Time
		}
		if e.Provider != "a" || e.Region != "eu" || e.Kind != decision.KindBreakerTransition || e.By == "" {
			w.Errorf("%+v", e)
		}
	}
	w.events = len(w.rig.events)
}

// leaveEveryState: whatever happened, and whoever keeps a permit for ever, a
// healthy upstream gets all its buckets closed again.
func (w *world) leaveEveryState() {
	w.pass(2 * time.Second)
	w.waits.Wait()
	for _, c := range decision.Capabilities {
		if err := w.set.Force(decision.Bucket{Upstream: "a", Capability: c}, ActionAuto, 0, "ana"); err != nil {
			w.Error(err)
		}
	}
	w.set.Reserve("a", w.rnd.IntN(2) == 0)
	for range 60 {
		w.pass(30 * time.Second)
		for _, g := range w.groups {
			for range 10 {
				p := new(Permit)
				if g.Acquire(p, Ask{Model: "m", Prober: w.rnd.IntN(2) == 0}) == "" {
					p.Done(ended(decision.OK))
				}
			}
		}
	}
	w.pass(5 * time.Second)
	for _, s := range w.set.Snapshot() {
		if s.State != Closed {
			w.Errorf("%s stays %s: %+v", s.Bucket, s.State, s)
		}
	}
}
