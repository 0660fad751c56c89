package health

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"failback/gateway/decision"
)

// Spans and numbers of the detector.
const (
	// FaultWindow is the time in which path failures belong together.
	FaultWindow = 60 * time.Second
	// FaultFailures of one upstream within it are evidence.
	FaultFailures = 2
	// FaultUpstreams in different fault domains make a fault.
	FaultUpstreams = 2
	// FaultQuiet is how long none of those that name a failing dependency must
	// have been reached.
	FaultQuiet = 10 * time.Second
)

// Member is an upstream as the detector knows it.
type Member struct {
	Upstream string
	Cloud    string   // its fault domain cloud, empty if not declared
	Host     string   // stands for Cloud where that is empty; never shown
	Domains  []string // the fault domains it names: dns/corp
}

// domain is what two members must not share to be independent.
func (m *Member) domain() string {
	if m.Cloud != "" {
		return "cloud/" + m.Cloud
	}
	return "host/" + m.Host
}

// Detector finds faults that several upstreams share. All its methods may be
// called from any goroutine, Observe and Active on the path of a request.
type Detector struct {
	onEvent func(decision.Event)
	epoch   time.Time

	members atomic.Pointer[map[string]*reach] // replaced with mu held, never changed
	active  atomic.Pointer[Fault]             // stored with mu held
	// reached is when any upstream was reached last.
	reached atomic.Int64
	// probeAt is when the next probe goes through, of the fault in force.
	probeAt  atomic.Int64
	cooldown atomic.Int64

	// mu guards everything that follows.
	mu           sync.Mutex
	path         bool
	dependencies []dependency
	latest       instant // of what was told: ends of attempts come out of order
	untold       []decision.Event
	telling      bool
}

// instant is a time since the detector's epoch, by the monotonic clock. 0 is never.
type instant int64

// reach is what is known of the way to one upstream.
type reach struct {
	Member
	ok atomic.Int64 // instant at which it was reached last

	// fails are its latest path failures, latest first, 0 if there is none.
	// Guarded by Detector.mu.
	fails [FaultFailures]instant
	// conns are lost connections that were counted, a ring.
	conns [4]uint64
	conn  int
}

// dependency is a declared one whose last check failed.
type dependency struct {
	name, domain, detail string
	// covers are the upstreams for which it makes a fault now, since then.
	covers []string
	since  instant
}

// NewDetector returns a detector that knows no upstream yet. onEvent, which may
// be nil, gets beginnings, changes and ends of faults, one call at a time and in
// order.
func NewDetector(onEvent func(decision.Event)) *Detector {
	// The epoch lies before everything, so that no instant is 0.
	d := &Detector{onEvent: onEvent, epoch: time.Now().Add(-time.Second)}
	d.members.Store(&map[string]*reach{})
	return d
}

func (d *Detector) at(now time.Time) instant { return instant(max(now.Sub(d.epoch), 1)) }

// Configure makes members the upstreams there are, and cooldown the time
// between probes of a fault. What is known of those that stay is kept.
func (d *Detector) Configure(members []Member, cooldown time.Duration, now time.Time) {
	d.cooldown.Store(int64(cooldown))
	d.mu.Lock()
	old := *d.members.Load()
	next := make(map[string]*reach, len(members))
	for _, m := range members {
		r := &reach{Member: m}
		if was := old[m.Upstream]; was != nil {
			r.ok.Store(was.ok.Load())
			r.fails, r.conns, r.conn = was.fails, was.conns, was.conn
		}
		next[m.Upstream] = r
	}
	d.members.Store(&next)
	for i := range d.dependencies {
		dep := &d.dependencies[i]
		dep.covers = slices.DeleteFunc(dep.covers, func(u string) bool {
			r := next[u]
			return r == nil || !slices.Contains(r.Domains, dep.domain)
		})
	}
	d.judgeEnd()
	d.publish(now, "configuration changed")
	d.mu.Unlock()
	d.tell()
}

// Observe takes the end of one attempt, of a request or of a probe. An answer,
// be it an error, proves the path; a path failure is a dial, name, handshake or
// connection that failed before a byte of an answer. All else says nothing.
func (d *Detector) Observe(upstream string, o decision.Outcome, now time.Time) {
	switch {
	case o.Class == decision.OK || o.Status != 0:
		d.reach(upstream, now)
	case o.Class.Path():
		d.fail(upstream, o.ConnID, now)
	}
}

// reach notes that upstream answered.
func (d *Detector) reach(upstream string, now time.Time) {
	r := (*d.members.Load())[upstream]
	if r == nil {
		return
	}
	at := d.at(now)
	raise(&r.ok, at)
	raise(&d.reached, at)
	if d.active.Load() == nil {
		return
	}
	d.mu.Lock()
	d.judgeEnd()
	d.publish(now, upstream+" answered")
	d.mu.Unlock()
	d.tell()
}

// judgeEnd ends what an answer or the configuration has ended. Requires mu.
func (d *Detector) judgeEnd() {
	if d.path && domains(d.latched()) < FaultUpstreams {
		d.path = false
	}
	members := *d.members.Load()
	for i := range d.dependencies {
		dep := &d.dependencies[i]
		if len(dep.covers) == 0 {
			continue
		}
		for _, r := range members {
			if slices.Contains(r.Domains, dep.domain) && !r.quiet(dep.since) {
				dep.covers = nil
				break
			}
		}
	}
}

// raise stores at unless v is later.
func raise(v *atomic.Int64, at instant) {
	for {
		old := v.Load()
		if old >= int64(at) || v.CompareAndSwap(old, int64(at)) {
			return
		}
	}
}

// fail notes that upstream was not reached.
func (d *Detector) fail(upstream string, conn uint64, now time.Time) {
	at := d.at(now)
	d.mu.Lock()
	r := (*d.members.Load())[upstream]
	if r == nil || !r.note(at, conn) {
		d.mu.Unlock()
		return
	}
	d.latest = max(d.latest, at)
	d.judgePath(d.latest)
	for i := range d.dependencies {
		d.judgeDependency(&d.dependencies[i], d.latest)
	}
	d.publish(now, "")
	d.mu.Unlock()
	d.tell()
}

// note keeps the latest failures, in order even if they are told out of order.
// It reports false for what was counted already: a connection that many requests
// lost is one piece of evidence. Requires Detector.mu.
func (r *reach) note(at instant, conn uint64) bool {
	if conn != 0 {
		if slices.Contains(r.conns[:], conn) {
			return false
		}
		r.conns[r.conn%len(r.conns)] = conn
		r.conn++
	}
	for i := range r.fails {
		if at > r.fails[i] {
			at, r.fails[i] = r.fails[i], at
		}
	}
	return true
}

// failing reports whether there are enough failures within FaultWindow of now
// and after since.
func (r *reach) failing(now, since instant) bool {
	first := r.fails[FaultFailures-1]
	return first != 0 && first > since && now-first <= instant(FaultWindow)
}

// quiet reports whether it was not reached in the FaultQuiet before now, nor since.
func (r *reach) quiet(now instant) bool {
	ok := instant(r.ok.Load())
	return ok == 0 || now-ok >= instant(FaultQuiet)
}

// judgePath says whether the failures up to now are a fault of the path.
// Requires mu.
func (d *Detector) judgePath(now instant) {
	if d.path {
		return
	}
	reached := instant(d.reached.Load())
	var failing []*reach
	for _, r := range *d.members.Load() {
		if r.failing(now, reached) {
			failing = append(failing, r)
		}
	}
	d.path = domains(failing) >= FaultUpstreams
}

// domains counts the independent ones of l.
func domains(l []*reach) int {
	seen := map[string]bool{}
	for _, r := range l {
		seen[r.domain()] = true
	}
	return len(seen)
}

// latched are the upstreams that fail since one was reached last, however long
// ago: while the fault lasts few attempts are made. Requires mu.
func (d *Detector) latched() []*reach {
	reached := instant(d.reached.Load())
	var l []*reach
	for _, r := range *d.members.Load() {
		if r.fails[FaultFailures-1] > reached {
			l = append(l, r)
		}
	}
	return l
}

// Dependency takes the result of a check of a declared dependency. detail says
// to people what failed. One that is not checked any more is told as not failed.
func (d *Detector) Dependency(name, domain string, failed bool, detail string, now time.Time) {
	d.mu.Lock()
	i := slices.IndexFunc(d.dependencies, func(x dependency) bool { return x.name == name })
	switch {
	case failed && i < 0:
		d.dependencies = append(d.dependencies, dependency{name: name})
		i = len(d.dependencies) - 1
		fallthrough
	case failed:
		dep := &d.dependencies[i]
		if dep.domain != domain {
			dep.covers = nil
		}
		dep.domain, dep.detail = domain, detail
		d.latest = max(d.latest, d.at(now))
		d.judgeDependency(dep, d.latest)
		d.publish(now, "")
	case i >= 0:
		d.dependencies = slices.Delete(d.dependencies, i, i+1)
		d.publish(now, name+" fails no more")
	}
	d.mu.Unlock()
	d.tell()
}

// judgeDependency adds the upstreams that fail for dep. Requires mu.
func (d *Detector) judgeDependency(dep *dependency, now instant) {
	var failing []string
	for name, r := range *d.members.Load() {
		if !slices.Contains(r.Domains, dep.domain) {
			continue
		}
		if !r.quiet(now) {
			return
		}
		if r.failing(now, instant(r.ok.Load())) && !slices.Contains(dep.covers, name) {
			failing = append(failing, name)
		}
	}
	if len(dep.covers) == 0 {
		dep.since = now
	}
	dep.covers = append(dep.covers, failing...)
}

// Active returns the fault in force, nil if there is none.
func (d *Detector) Active() *Fault { return d.active.Load() }

// AdmitProbe reports whether an attempt on an upstream that the fault covers may
// go out: one per cooldown, the first a cooldown after it began. Whoever gets
// true has used it up. Without a fault it is always true.
func (d *Detector) AdmitProbe(now time.Time) bool {
	if d.active.Load() == nil {
		return true
	}
	at, next := int64(d.at(now)), d.probeAt.Load()
	return at >= next && d.probeAt.CompareAndSwap(next, at+d.cooldown.Load())
}

// NextProbe is when AdmitProbe lets the next one through; false without a fault.
func (d *Detector) NextProbe() (time.Time, bool) {
	if d.active.Load() == nil {
		return time.Time{}, false
	}
	return d.epoch.Add(time.Duration(d.probeAt.Load())), true
}

// publish shows the fault that follows from what is known, and tells what
// changed. Requires mu.
func (d *Detector) publish(now time.Time, why string) {
	old := d.active.Load()
	next := d.fault()
	switch {
	case next == nil && old == nil:
		return
	case next == nil:
		d.active.Store(nil)
		d.note(old, now, "ended", why)
	case old == nil:
		next.Since = now
		d.probeAt.Store(int64(d.at(now)) + d.cooldown.Load())
		d.active.Store(next)
		d.note(next, now, "begun", next.Detail)
		// Whoever was reached while this was judged may have seen no fault to end.
		d.judgeEnd()
		d.publish(now, "answered meanwhile")
	case old.Path == next.Path && slices.Equal(old.Dependencies, next.Dependencies) && slices.Equal(old.Upstreams, next.Upstreams):
		return
	default:
		next.Since = old.Since
		d.active.Store(next)
		d.note(next, now, "changed", next.Detail)
	}
}

// fault returns what is known as a fault, nil if it is none. Requires mu.
func (d *Detector) fault() *Fault {
	f := &Fault{Path: d.path}
	var details []string
	if d.path {
		for _, r := range d.latched() {
			f.Upstreams = append(f.Upstreams, r.Upstream)
		}
		details = append(details, fmt.Sprintf("%d upstreams in different fault domains cannot be reached", len(f.Upstreams)))
	}
	for i := range d.dependencies {
		dep := &d.dependencies[i]
		if len(dep.covers) == 0 {
			continue
		}
		f.Dependencies = append(f.Dependencies, dep.name)
		f.Upstreams = append(f.Upstreams, dep.covers...)
		details = append(details, "dependency "+dep.name+" fails: "+dep.detail)
	}
	if len(details) == 0 {
		return nil
	}
	slices.Sort(f.Upstreams)
	f.Upstreams = slices.Compact(f.Upstreams)
	f.Detail = strings.Join(details, "; ")
	return f
}

// note keeps an event for tell. Requires mu.
func (d *Detector) note(f *Fault, now time.Time, to, detail string) {
	if d.onEvent == nil {
		return
	}
	if to != "ended" {
		detail += ": " + strings.Join(f.Upstreams, ", ")
	}
	d.untold = append(d.untold, decision.Event{
		Kind: decision.KindSharedFault, Time: now, To: to, Reason: f.Reason(), Detail: detail, By: decision.Auto, Result: "ok",
	})
}

// tell hands over events with no lock held, unless somebody is doing it: then
// that one hands over these too.
func (d *Detector) tell() {
	if d.onEvent == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.telling {
		return
	}
	d.telling = true
	defer func() { d.telling = false }()
	for len(d.untold) > 0 {
		e := d.untold[0]
		d.untold = d.untold[1:]
		d.mu.Unlock()
		func() {
			defer d.mu.Lock()
			d.onEvent(e)
		}()
	}
	d.untold = nil
}
