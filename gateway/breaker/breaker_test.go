package breaker

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
)

// defaults are the settings of a configuration that says nothing.
func defaults() Settings {
	return Settings{
		FailureRate: 0.5, MinSamples: 10, Window: 30 * time.Second, Consecutive: 5,
		SlowOver: 20 * time.Second, SlowRate: 0.8,
		Cooldown: 15 * time.Second, CooldownMax: 2 * time.Minute, Patience: 2 * time.Second,
		Probes: 1, EnforcePercent: 100,
	}
}

// only returns settings under which a bucket opens by nothing but what the test
// adds.
func only(add func(*Settings)) Settings {
	s := Settings{
		MinSamples: 10, Window: 30 * time.Second,
		Cooldown: 15 * time.Second, CooldownMax: 2 * time.Minute, Probes: 1, EnforcePercent: 100,
	}
	if add != nil {
		add(&s)
	}
	return s
}

var everything = decision.SetOf(decision.Capabilities...)

// rig is one upstream "a" under test, inside a bubble, with the tick running.
type rig struct {
	*testing.T
	set *Set
	g   *Group // stream and text

	mu     sync.Mutex
	events []decision.Event
}

// bubble runs f with a rig in a bubble of virtual time.
func bubble(t *testing.T, s Settings, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t}
		r.set = New(func(e decision.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		})
		r.set.Configure("a", "eu", everything, s)
		r.g = r.set.Group("a", decision.Needed(false, true, false))
		go func() {
			if err := r.set.Run(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		f(r)
	})
}

// pass lets d go by, and the tick do what is due then.
func (r *rig) pass(d time.Duration) {
	r.Helper()
	<-time.After(d)
	synctest.Wait()
}

func (r *rig) bucket(c decision.Capability) Snapshot {
	r.Helper()
	for _, s := range r.set.Snapshot() {
		if s.Bucket.Upstream == "a" && s.Bucket.Capability == c {
			return s
		}
	}
	r.Fatalf("no bucket for %s", c)
	return Snapshot{}
}

func (r *rig) wantState(want string) Snapshot {
	r.Helper()
	s := r.bucket(decision.Stream)
	if s.State != want {
		r.Fatalf("state %s (%s: %s), want %s; events %v", s.State, s.Reason, s.Detail, want, r.trace())
	}
	return s
}

// trace is the transitions so far, as from>to:reason.
func (r *rig) trace() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var l []string
	for _, e := range r.events {
		l = append(l, e.From+">"+e.To+":"+e.Reason)
	}
	return l
}

func (r *rig) wantTrace(want ...string) {
	r.Helper()
	if got := r.trace(); !slices.Equal(got, want) {
		r.Fatalf("transitions\n got %v\nwant %v", got, want)
	}
}

// last returns the last transition.
func (r *rig) last() decision.Event {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) == 0 {
		r.Fatal("no transition")
	}
	return r.events[len(r.events)-1]
}

// ask is a request that another candidate could serve.
func ask() Ask { return Ask{Model: "m", Stream: true, Elsewhere: true} }

// lone is a request that nobody else can serve.
func lone() Ask { return Ask{Model: "m", Stream: true, LastResort: true} }

// get acquires and must be admitted.
func (r *rig) get(a Ask) *Permit {
	r.Helper()
	p := new(Permit)
	if why := r.g.Acquire(p, a); why != "" {
		r.Fatalf("refused: %s", why)
	}
	return p
}

func (r *rig) refused(a Ask, want decision.Reason) {
	r.Helper()
	if why := r.g.Check(a); why != want {
		r.Fatalf("Check: %q, want %q", why, want)
	}
	p := new(Permit)
	if why := r.g.Acquire(p, a); why != want {
		r.Fatalf("Acquire: %q, want %q", why, want)
	}
	if p.g != nil {
		r.Fatal("a refused permit was touched")
	}
}

func ended(c decision.Class) decision.Outcome {
	return decision.Outcome{Class: c, Status: map[decision.Class]int{
		decision.OK: 200, decision.ServerError: 500, decision.Overloaded: 503, decision.RateLimited: 429,
		decision.InvalidRequest: 400,
	}[c]}
}

func asked(c decision.Class, d time.Duration) decision.Outcome {
	o := ended(c)
	o.RetryAfter, o.HasRetryAfter = d, true
	return o
}

// end returns p with the outcome; a failed request goes elsewhere then.
func end(p *Permit, o decision.Outcome) Report {
	rep := p.Done(o)
	rep.Open = p.Left() || rep.Open
	return rep
}

// do makes n whole requests that end so, at once.
func (r *rig) do(n int, c decision.Class) {
	r.Helper()
	for range n {
		end(r.get(ask()), ended(c))
	}
}

// steady makes perSecond requests a second for d, each ending at once.
func (r *rig) steady(perSecond int, d time.Duration, c decision.Class) {
	r.Helper()
	gap := time.Second / time.Duration(perSecond)
	for t := time.Duration(0); t < d; t += gap {
		end(r.get(ask()), ended(c))
		r.pass(gap)
	}
}

// trip opens the bucket.
func (r *rig) trip(reason string) {
	r.Helper()
	r.g.Trip(decision.Reason(reason), "test")
	r.wantState(Open)
}

// due opens the bucket for a reason that binds everybody, and lets the cooldown
// pass: the next attempt is a probe.
func (r *rig) due() {
	r.Helper()
	r.trip(ForFailureRate)
	r.pass(time.Until(r.bucket(decision.Stream).NextProbeAt))
}

// ramp brings the bucket into its ramp.
func (r *rig) ramp() {
	r.Helper()
	r.due()
	for range r.bucket(decision.Stream).Probes {
		end(r.get(ask()), ended(decision.OK))
	}
	r.wantState(Ramping)
}

func contains(t *testing.T, s string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(s, p) {
			t.Errorf("%q lacks %q", s, p)
		}
	}
}
