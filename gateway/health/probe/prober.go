package probe

import (
	"cmp"
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"failback/gateway/decision"
)

const (
	// timeout is how long a probe may take.
	timeout = 30 * time.Second
	// grace is how long after that it may take to notice.
	grace = 5 * time.Second
	// lookEvery bounds how long the loop sleeps: the wall clock may be set.
	lookEvery = time.Minute
	// heldLeast is the shortest time between two tries of a target that is held.
	heldLeast = time.Second
)

// How many probes run at a time where Options do not say.
const (
	defaultAtOnce      = 32
	defaultPerUpstream = 4
)

// Options of a Prober.
type Options struct {
	// Attempt makes one probe and says how it ended. Its context ends after 30 s
	// and with Run; it must return then. It is called for several targets at
	// once, and never twice for one.
	Attempt func(context.Context, Target) Result
	// OnResult, which may be nil, gets each result of a probe that was sent,
	// for each target in order, without locks held.
	OnResult func(Result)
	// OnLook, which may be nil, is called each time the schedule was looked at,
	// at least once a minute: by that Run is known to work.
	OnLook func()
	// AtOnce and PerUpstream bound how many probes run at a time; 0: 32 and 4.
	AtOnce, PerUpstream int
}

// Prober probes targets. Its methods may be called from any goroutine.
type Prober struct {
	o    Options
	base time.Time     // what times inside are counted from, by the monotonic clock
	wake chan struct{} // the schedule changed

	mu sync.Mutex
	// mu guards everything that follows.
	targets map[id]*state
	order   []id // as configured
	pace    map[string]time.Duration
	spent   map[candidate]*ledger
	// busy are the targets whose probe has not returned; of those given up it
	// is all that is left. slots counts the others, by upstream.
	busy  map[id]bool
	slots map[string]int
	out   int // sum of slots
}

// state is what is known of one target.
type state struct {
	Target
	standing
	last           Result
	hasLast        bool
	passed, failed int
	held           string // of the last try
}

// New returns a Prober without targets.
func New(o Options) *Prober {
	if o.AtOnce <= 0 {
		o.AtOnce = defaultAtOnce
	}
	if o.PerUpstream <= 0 {
		o.PerUpstream = defaultPerUpstream
	}
	if o.OnResult == nil {
		o.OnResult = func(Result) {}
	}
	return &Prober{
		o: o, base: time.Now(), wake: make(chan struct{}, 1),
		targets: map[id]*state{}, pace: map[string]time.Duration{}, spent: map[candidate]*ledger{},
		busy: map[id]bool{}, slots: map[string]int{},
	}
}

func (p *Prober) moment() moment {
	now := time.Now()
	return moment{now: now.Sub(p.base), wall: now}
}

// Configure makes ts the targets. Those that were before keep their history
// and their turn; what a candidate spent today outlives it. Of several with
// one name the first counts.
func (p *Prober) Configure(ts []Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.moment()
	former := p.targets
	p.targets, p.order = make(map[id]*state, len(ts)), nil
	for _, t := range ts {
		i := t.id()
		if p.targets[i] != nil {
			continue
		}
		s := former[i]
		if s == nil {
			s = &state{standing: standing{since: m.now, draw: rand.Float64()}}
		}
		t.Memo = s.Memo
		s.Target = t
		p.targets[i] = s
		p.order = append(p.order, i)
	}
	for c, l := range p.spent {
		if l.turn(m.day()); l.usd == 0 && l.pending == 0 {
			delete(p.spent, c)
		}
	}
	p.changed()
}

// Pace has the targets of an upstream probed every so often instead of more
// rarely, while it is suspected or degraded; not positive: as configured. It
// is kept by name, whether there are such targets or not.
func (p *Prober) Pace(upstream string, every time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	every = max(every, 0)
	if p.pace[upstream] == every {
		return
	}
	if every == 0 {
		delete(p.pace, upstream)
	} else {
		p.pace[upstream] = every
	}
	p.changed()
}

// changed has the loop look again.
func (p *Prober) changed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run probes until ctx ends, waits for the probes under way, whose results are
// then dropped, and returns nil. It must not be called twice at a time.
func (p *Prober) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-timer.C:
		}
		start, in := p.begin()
		for _, b := range start {
			running.Go(func() { p.probe(ctx, b) })
		}
		if p.o.OnLook != nil {
			p.o.OnLook()
		}
		timer.Reset(in)
	}
}

// begun is a probe under way.
type begun struct {
	Target
	at       time.Time
	reserved float64 // of the candidate's daily cost
}

// begin takes the targets that are due and have a slot, the longest due first,
// and says after what time others will be.
func (p *Prober) begin() (start []begun, in time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.moment()
	in = lookEvery
	type ready struct {
		id id
		at time.Duration
	}
	var l []ready
	for _, i := range p.order {
		if p.busy[i] {
			continue
		}
		s := p.targets[i]
		switch at, held := due(m, p.standing(m, s), &s.Target); {
		case at > m.now:
			in = min(in, at-m.now)
		case held == "":
			l = append(l, ready{i, at})
		}
	}
	slices.SortStableFunc(l, func(a, b ready) int { return cmp.Compare(a.at, b.at) })
	for _, r := range l {
		if p.out >= p.o.AtOnce {
			break // whoever ends wakes the loop
		}
		s := p.targets[r.id]
		now := p.standing(m, s)
		if _, held := due(m, now, &s.Target); held != "" || p.slots[r.id.upstream] >= p.o.PerUpstream {
			continue
		}
		p.busy[r.id] = true
		p.slots[r.id.upstream]++
		p.out++
		b := begun{Target: s.Target, at: m.wall, reserved: expected(now, &s.Target)}
		p.ledger(m, r.id.candidate()).pending += b.reserved
		s.begun, s.tried, s.again, s.draw = m.now, true, 0, rand.Float64()
		start = append(start, b)
	}
	return start, in
}

// standing is s with what others know of it. It requires mu.
func (p *Prober) standing(m moment, s *state) standing {
	now := s.standing
	now.pace = p.pace[s.Upstream]
	if l := p.spent[s.id().candidate()]; l != nil {
		l.turn(m.day())
		now.spent = l.usd + l.pending
	}
	return now
}

// ledger requires mu.
func (p *Prober) ledger(m moment, c candidate) *ledger {
	l := p.spent[c]
	if l == nil {
		l = &ledger{day: m.day()}
		p.spent[c] = l
	}
	l.turn(m.day())
	return l
}

// probe makes the probe that begin took.
func (p *Prober) probe(ctx context.Context, b begun) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	gaveUp := make(chan struct{})
	watch := time.AfterFunc(timeout+grace, func() {
		defer close(gaveUp)
		// It is our own fault that it does not end: others need its slot, and
		// it stays busy, so that it hangs once and not once per interval.
		p.record(ctx, b, Result{Outcome: decision.Outcome{Class: decision.Internal, Detail: "the probe does not end"}})
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free(b.id())
	})
	r := p.attempt(limited, b.Target)
	if watch.Stop() {
		p.record(ctx, b, r)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free(b.id())
	} else {
		<-gaveUp
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ledger(p.moment(), b.id().candidate()).usd += costOf(&b.Target, &r)
	}
	delete(p.busy, b.id())
	p.ledger(p.moment(), b.id().candidate()).pending -= b.reserved
	p.changed()
}

// free gives a slot back. It requires mu.
func (p *Prober) free(i id) {
	p.out--
	if p.slots[i.upstream]--; p.slots[i.upstream] == 0 {
		delete(p.slots, i.upstream)
	}
	p.changed()
}

// attempt calls Attempt. One that panics says nothing of its target, and ends
// nobody else's.
func (p *Prober) attempt(ctx context.Context, t Target) (r Result) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		detail := "the probe panicked"
		if e, ok := v.(runtime.Error); ok { // its text is Go's own
			detail += ": " + e.Error()
		}
		r = Result{Outcome: decision.Outcome{Class: decision.Internal, Detail: detail}}
	}()
	return p.o.Attempt(ctx, t)
}

// record keeps what came of a probe and tells it on, unless Run ends or nobody
// wants to know of that target any more.
func (p *Prober) record(ctx context.Context, b begun, r Result) {
	r.Target, r.At, r.Took = b.Target, b.at, time.Since(b.at)
	r.CostUSD = costOf(&b.Target, &r)
	p.mu.Lock()
	m := p.moment()
	p.ledger(m, b.id().candidate()).usd += r.CostUSD
	s := p.targets[b.id()]
	if s == nil || ctx.Err() != nil {
		p.mu.Unlock()
		return
	}
	s.held, s.Memo = r.Held, r.Memo
	if r.Held != "" {
		if r.RetryIn > 0 {
			s.again = m.now + max(r.RetryIn, heldLeast)
		}
		p.mu.Unlock()
		return
	}
	switch r.Verdict() {
	case Passed:
		s.passed, s.failed = s.passed+1, 0
	case Failed:
		s.passed, s.failed = 0, s.failed+1
	default:
		s.passed, s.failed = 0, 0
	}
	r.Passed, r.Failed = s.passed, s.failed
	s.cost = r.CostUSD
	s.last, s.hasLast = r, true
	p.mu.Unlock()
	p.o.OnResult(r)
}

// costOf is what a probe cost: by the answer's own usage, as expected where an
// answer names none, nothing where there was no answer or prices are not known.
func costOf(t *Target, r *Result) float64 {
	o := &r.Outcome
	switch {
	case t.Cost == nil || r.Held != "":
		return 0
	case o.InputTokens+o.OutputTokens > 0:
		return t.Cost(o.InputTokens, o.OutputTokens)
	case o.Class == decision.OK:
		return t.Expect
	}
	return 0
}

// Snapshot returns all targets as they stand, in the order of Configure.
func (p *Prober) Snapshot() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.moment()
	l := make([]Status, 0, len(p.order))
	for _, i := range p.order {
		s := p.targets[i]
		now := p.standing(m, s)
		at, held := due(m, now, &s.Target)
		if held == "" {
			held = s.held
		}
		st := Status{
			Target: s.Target, Every: every(&s.Target, now.pace),
			Last: s.last, HasLast: s.hasLast,
			Next: m.wall.Add(at - m.now), Running: p.busy[i],
			Passed: s.passed, Failed: s.failed,
			Uncapped: s.Cost == nil, Held: held,
		}
		if ledger := p.spent[i.candidate()]; ledger != nil {
			st.SpentUSD = ledger.usd
		}
		l = append(l, st)
	}
	return l
}
