package telemetry

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// Live keeps what the operators' live figures are made of: counts of the last
// minute by second. Its methods may be called from any goroutine.
type Live struct {
	born time.Time

	mu        sync.Mutex      // guards everything that follows
	primaries map[string]bool // nil until Reset: then nobody knows
	upstreams map[string]*liveUpstream
	tasks     map[string]*seconds
	own       map[ownKey]*seconds
	all       liveTraffic
	total     uint64
}

type liveUpstream struct {
	attempts    seconds
	succeeded   seconds
	failed      seconds
	own         seconds
	ownByItself seconds
	firstOutput durations
}

type liveTraffic struct {
	requests, good, bad, fallbacks, clientRetries seconds
	firstOutput                                   durations
}

type ownKey struct{ primary, model, task string }

// NewLive returns a Live that has seen nothing.
func NewLive() *Live {
	return &Live{
		born:      time.Now(),
		upstreams: map[string]*liveUpstream{}, tasks: map[string]*seconds{}, own: map[ownKey]*seconds{},
	}
}

// Reset says what is configured: figures of names that are not are forgotten.
func (l *Live) Reset(t Topology) {
	n := t.names()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.primaries = map[string]bool{}
	for name := range n.upstreams {
		l.primaries[name] = n.primary(name)
	}
	for name := range l.upstreams {
		if _, ok := n.upstreams[name]; !ok {
			delete(l.upstreams, name)
		}
	}
	for name := range l.tasks {
		if !n.hasTask(name) {
			delete(l.tasks, name)
		}
	}
	for k := range l.own {
		if !n.candidate(k.model, k.primary) || !n.hasTask(k.task) {
			delete(l.own, k)
		}
	}
}

// Decision counts d, which ended now.
func (l *Live) Decision(d *decision.Decision) {
	second := l.second(time.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	l.all.add(second, d)
	named(l.tasks, taskOf(d)).add(second)
	for i := range d.Attempts {
		if u := l.upstream(d.Attempts[i].Provider); u != nil {
			u.attempt(second, &d.Attempts[i].Outcome)
		}
	}
	if primary, by, ok := ownRequest(d); ok {
		if u := l.upstream(primary); u != nil {
			u.own.add(second)
			if by == primary {
				u.ownByItself.add(second)
			}
			named(l.own, ownKey{primary, d.Model, taskOf(d)}).add(second)
		}
	}
}

func (l *Live) second(now time.Time) int64 { return int64(now.Sub(l.born) / time.Second) }

// upstream returns the figures of name, nil if the configuration lost it.
// Requires mu.
func (l *Live) upstream(name string) *liveUpstream {
	if u := l.upstreams[name]; u != nil {
		return u
	}
	if _, ok := l.primaries[name]; !ok && l.primaries != nil {
		return nil
	}
	return named(l.upstreams, name)
}

func named[K comparable, V any](m map[K]*V, key K) *V {
	v := m[key]
	if v == nil {
		v = new(V)
		m[key] = v
	}
	return v
}

func taskOf(d *decision.Decision) string {
	if d.Task == "" {
		return decision.TaskUnnamed
	}
	return d.Task
}

func (t *liveTraffic) add(second int64, d *decision.Decision) {
	t.requests.add(second)
	switch VerdictOf(d.Status, d.Reason) {
	case Good:
		t.good.add(second)
	case Bad:
		t.bad.add(second)
	}
	if d.Fallback {
		t.fallbacks.add(second)
	}
	if d.ClientRetry > 0 {
		t.clientRetries.add(second)
	}
	if d.HasFirstOutput {
		t.firstOutput.add(second, d.FirstOutput)
	}
}

func (u *liveUpstream) attempt(second int64, o *decision.Outcome) {
	u.attempts.add(second)
	if o.Class == decision.OK {
		u.succeeded.add(second)
	} else if atFault(o.Class) {
		u.failed.add(second)
	}
	if o.HasFirstOutput {
		u.firstOutput.add(second, o.FirstOutput)
	}
}

// atFault reports whether c speaks against the upstream, its key and limits
// included: what an operator means by an error, wider than what a breaker counts.
func atFault(c decision.Class) bool {
	switch c.Blame() {
	case decision.OfBucket, decision.OfAdmission, decision.OfCredential, decision.OfUpstreamModel:
		return true
	}
	return false
}

// LiveSnapshot is the live figures at one moment.
type LiveSnapshot struct {
	At        time.Time
	Upstreams map[string]LiveUpstream // use Upstream, which knows the absent ones
	Traffic   api.Traffic             // InFlight is left to who counts it
	Tasks     map[string]api.Number   // requests a second, last minute; use Task
	Own       []OwnRate               // by primary, model and task
	PerMinute int                     // decisions of the last minute
	Total     uint64                  // decisions since start
}

// LiveUpstream is the live figures of one upstream.
type LiveUpstream struct {
	RPS            api.Number // attempts a second, 10 s
	OwnRPS         api.Number // requests a second of which it is the primary, 10 s
	Live           api.Number // part of those that it answered, 60 s
	ErrorRatio     api.Number // attempts that speak against it, of those and the good ones, 30 s
	FirstOutputP95 api.Number // seconds, of its attempts, 60 s
}

// OwnRate is the rate of one task's requests for one model that have the same
// primary, over the last minute.
type OwnRate struct {
	Primary, Model, Task string
	RPS                  float64
}

// Upstream returns the figures of name; those of one that has had no traffic if
// it is unknown.
func (s LiveSnapshot) Upstream(name string) LiveUpstream {
	if u, ok := s.Upstreams[name]; ok {
		return u
	}
	idle := api.Number{State: api.StateIdle, At: s.At}
	zero := api.Number{State: api.StateValue, At: s.At}
	return LiveUpstream{RPS: zero, OwnRPS: zero, Live: idle, ErrorRatio: idle, FirstOutputP95: idle}
}

// Task returns the requests a second of a task.
func (s LiveSnapshot) Task(name string) api.Number {
	if n, ok := s.Tasks[name]; ok {
		return n
	}
	return api.Number{State: api.StateValue, At: s.At}
}

// Snapshot returns the figures at now, which is the time of their sample.
func (l *Live) Snapshot(now time.Time) LiveSnapshot {
	v := viewer{now: now, second: l.second(now), up: now.Sub(l.born)}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LiveSnapshot{
		At: now, Total: l.total,
		PerMinute: int(l.all.requests.sum(v.second, wholeWindow)),
		Traffic:   v.traffic(&l.all),
		Upstreams: make(map[string]LiveUpstream, len(l.upstreams)),
		Tasks:     make(map[string]api.Number, len(l.tasks)),
	}
	for name, u := range l.upstreams {
		s.Upstreams[name] = v.upstream(u)
	}
	for name, primary := range l.primaries {
		u := s.Upstream(name)
		if !primary {
			u.Live = api.Number{State: api.StateNone, At: now}
		}
		s.Upstreams[name] = u
	}
	for name, t := range l.tasks {
		s.Tasks[name] = v.rate(t, wholeWindow)
	}
	for k, o := range l.own {
		if rate := v.rate(o, wholeWindow).Value; rate > 0 {
			s.Own = append(s.Own, OwnRate{Primary: k.primary, Model: k.model, Task: k.task, RPS: rate})
		}
	}
	slices.SortFunc(s.Own, func(a, b OwnRate) int {
		return cmp.Or(strings.Compare(a.Primary, b.Primary), strings.Compare(a.Model, b.Model), strings.Compare(a.Task, b.Task))
	})
	return s
}

// viewer turns counts into numbers as of one moment.
type viewer struct {
	now    time.Time
	second int64
	up     time.Duration // since the start
}

func (v viewer) traffic(t *liveTraffic) api.Traffic {
	bad := t.bad.sum(v.second, wholeWindow)
	return api.Traffic{
		RPS:            v.rate(&t.requests, wholeWindow),
		FailedRatio:    v.ratio(bad, bad+t.good.sum(v.second, wholeWindow)),
		FallbackRatio:  v.ratio(t.fallbacks.sum(v.second, wholeWindow), t.requests.sum(v.second, wholeWindow)),
		FallbackRPS:    v.rate(&t.fallbacks, wholeWindow),
		FirstOutputP95: v.p95(&t.firstOutput),
		ClientRetries:  v.rate(&t.clientRetries, wholeWindow),
	}
}

func (v viewer) upstream(u *liveUpstream) LiveUpstream {
	failed := u.failed.sum(v.second, errorWindow)
	return LiveUpstream{
		RPS:            v.rate(&u.attempts, rateWindow),
		OwnRPS:         v.rate(&u.own, rateWindow),
		Live:           v.ratio(u.ownByItself.sum(v.second, wholeWindow), u.own.sum(v.second, wholeWindow)),
		ErrorRatio:     v.ratio(failed, failed+u.succeeded.sum(v.second, errorWindow)),
		FirstOutputP95: v.p95(&u.firstOutput),
	}
}

func (v viewer) value(f float64) api.Number {
	return api.Number{State: api.StateValue, Value: f, At: v.now}
}

// rate is per second over the window, or over the time since the start while
// that is shorter. The running second counts as far as it has come.
func (v viewer) rate(s *seconds, window int64) api.Number {
	part := (v.up % time.Second).Seconds()
	over := min(float64(window-1)+part, v.up.Seconds())
	return v.value(float64(s.sum(v.second, window)) / max(over, 1))
}

func (v viewer) ratio(part, whole uint64) api.Number {
	if whole == 0 {
		return api.Number{State: api.StateIdle, At: v.now}
	}
	return v.value(float64(part) / float64(whole))
}

func (v viewer) p95(d *durations) api.Number {
	q, ok := d.quantile(v.second, 0.95)
	if !ok {
		return api.Number{State: api.StateIdle, At: v.now}
	}
	return v.value(q)
}
