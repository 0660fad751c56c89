package probe

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/internal/bubble"
)

// rig is a prober that runs in a bubble over an upstream that answers by do.
type rig struct {
	*testing.T
	*Prober
	stop func() // ends Run and waits for it

	mu      sync.Mutex // guards everything that follows
	do      func(context.Context, Target) Result
	begun   map[id][]time.Time
	results []Result
	now     map[id]int
	most    int
	most1   map[string]int // by upstream
	out1    map[string]int
	out     int
}

func inBubble(t *testing.T, o Options, f func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, do: passes, begun: map[id][]time.Time{}, now: map[id]int{}, most1: map[string]int{}, out1: map[string]int{}}
		o.Attempt = r.attempt
		o.OnResult = func(res Result) {
			r.Snapshot() // a lock held here would hang the bubble
			r.mu.Lock()
			defer r.mu.Unlock()
			r.results = append(r.results, res)
		}
		r.Prober = New(o)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Prober.Run(ctx) }()
		stopped := false
		r.stop = func() {
			if stopped {
				return
			}
			stopped = true
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		defer r.stop()
		f(r)
	})
}

func passes(context.Context, Target) Result { return ended(decision.OK) }

func ended(c decision.Class) Result { return Result{Outcome: decision.Outcome{Class: c}} }

func (r *rig) attempt(ctx context.Context, t Target) Result {
	i := t.id()
	r.mu.Lock()
	r.begun[i] = append(r.begun[i], time.Now())
	if r.now[i]++; r.now[i] > 1 {
		r.Errorf("two probes of %v at a time", i)
	}
	r.out++
	r.out1[t.Upstream]++
	r.most, r.most1[t.Upstream] = max(r.most, r.out), max(r.most1[t.Upstream], r.out1[t.Upstream])
	do := r.do
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.now[i]--
		r.out--
		r.out1[t.Upstream]--
	}()
	return do(ctx, t)
}

func (r *rig) does(f func(context.Context, Target) Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.do = f
}

func (r *rig) pass(d time.Duration) {
	bubble.Sleep(d)
	synctest.Wait()
}

// times returns when t was probed, and forgets it.
func (r *rig) times(t Target) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.begun[t.id()]
	r.begun[t.id()] = nil
	return l
}

func (r *rig) status(t Target) Status {
	r.Helper()
	for _, s := range r.Snapshot() {
		if s.Target.id() == t.id() {
			return s
		}
	}
	r.Fatalf("no target %v", t.id())
	return Status{}
}

func (r *rig) took() []Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.results
	r.results = nil
	return l
}

func target(upstream string) Target {
	return Target{Upstream: upstream, Model: "m", Capability: decision.Text}
}

// wantGaps wants the times to follow each other within ±10 % of every.
func wantGaps(t *testing.T, l []time.Time, every time.Duration) {
	t.Helper()
	seen := map[time.Duration]bool{}
	for i := 1; i < len(l); i++ {
		gap := l[i].Sub(l[i-1])
		seen[gap] = true
		if gap < every*9/10 || gap > every*11/10 {
			t.Errorf("%v after the one before, want %v ± 10 %%", gap, every)
		}
	}
	if len(l) > 5 && len(seen) < 3 {
		t.Error("no jitter")
	}
}

func TestProbesAtItsPace(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		a, b := target("a"), target("b")
		b.Every = 10 * time.Second
		began := time.Now()
		r.Configure([]Target{a, b})
		r.pass(time.Hour)
		la, lb := r.times(a), r.times(b)
		if first := la[0].Sub(began); first < 45*time.Second || first > 135*time.Second {
			t.Errorf("the first one after %v", first)
		}
		if len(la) < 35 || len(la) > 45 || len(lb) < 320 || len(lb) > 400 {
			t.Errorf("%d and %d an hour", len(la), len(lb))
		}
		wantGaps(t, la, DefaultEvery)
		wantGaps(t, lb, 10*time.Second)

		r.Pace("a", 15*time.Second)
		r.pass(16500 * time.Millisecond)
		if len(r.times(a)) == 0 {
			t.Error("the new pace does not hold at once")
		}
		r.pass(10 * time.Minute)
		wantGaps(t, r.times(a), 15*time.Second)
		if s := r.status(a); s.Every != 15*time.Second {
			t.Errorf("%+v", s)
		}
		r.pass(time.Minute)
		last := r.times(a)
		r.Pace("a", 0)
		r.pass(10 * time.Minute)
		l := append(last[len(last)-1:], r.times(a)...)
		wantGaps(t, l, DefaultEvery)
		wantGaps(t, r.times(b), 10*time.Second) // nobody else's changed

		r.Pace("b", time.Minute) // not faster: its own stays
		r.Pace("later", 15*time.Second)
		later := target("later")
		r.Configure([]Target{b, later})
		r.pass(10 * time.Minute)
		wantGaps(t, r.times(b), 10*time.Second)
		wantGaps(t, r.times(later), 15*time.Second)
		if len(r.times(a)) > 0 {
			t.Error("probed what is no target")
		}
	})
}

func TestCountsInARow(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		a := target("a")
		r.Configure([]Target{a})
		if s := r.status(a); s.HasLast || !s.Uncapped || s.Held != "" || s.Next.Before(time.Now()) {
			t.Errorf("%+v", s)
		}
		r.Pace("a", time.Second)
		script := []Result{
			ended(decision.OK), ended(decision.OK), ended(decision.Credential), ended(decision.ServerError),
			ended(decision.InvalidRequest), ended(decision.RateLimited), ended(decision.ModelGone), ended(decision.OK), ended(decision.Internal),
		}
		want := [][2]int{{1, 0}, {2, 0}, {0, 1}, {0, 2}, {0, 0}, {0, 1}, {0, 2}, {1, 0}, {0, 0}}
		n := 0
		r.does(func(context.Context, Target) Result {
			bubble.Sleep(100 * time.Millisecond)
			n++
			return script[(n-1)%len(script)]
		})
		r.pass(8 * time.Second)
		got := r.took()
		for i := range min(len(got), len(want)) {
			if res := got[i]; [2]int{res.Passed, res.Failed} != want[i] || res.Took != 100*time.Millisecond || res.At.IsZero() || res.Target.id() != a.id() {
				t.Errorf("%d: %+v, want %v", i, res, want[i])
			}
		}
		if len(got) < 6 {
			t.Fatalf("%d results", len(got))
		}
		last := got[len(got)-1]
		if s := r.status(a); !s.HasLast || s.Last.At != last.At || s.Passed != last.Passed || s.Failed != last.Failed {
			t.Errorf("%+v, last %+v", s, last)
		}
	})
}

// What was not sent is no result.
func TestHeld(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		a := target("a")
		r.Configure([]Target{a})
		r.pass(4 * time.Minute)
		r.took()
		r.times(a)
		before := r.status(a)
		r.does(func(context.Context, Target) Result {
			return Result{Held: string(decision.BreakerOpen), RetryIn: 7 * time.Second}
		})
		r.pass(3 * time.Minute)
		s := r.status(a)
		if s.Held != string(decision.BreakerOpen) || s.Passed != before.Passed || s.Last.At != before.Last.At || len(r.took()) != 0 {
			t.Errorf("%+v", s)
		}
		l := r.times(a)
		for i := 1; i < len(l); i++ {
			if gap := l[i].Sub(l[i-1]); gap != 7*time.Second {
				t.Errorf("tried again after %v", gap)
			}
		}
		r.does(func(context.Context, Target) Result { return Result{Held: "capacity"} })
		r.pass(10 * time.Second)
		r.times(a)
		r.pass(5 * time.Minute)
		wantGaps(t, r.times(a), DefaultEvery)
		r.does(passes)
		r.pass(2 * time.Minute)
		if s := r.status(a); s.Held != "" || s.Passed != before.Passed+1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestReloadKeepsHistory(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		a, b := target("a"), target("b")
		r.Configure([]Target{a, b, a})
		if n := len(r.Snapshot()); n != 2 {
			t.Errorf("%d targets", n)
		}
		r.pass(20 * time.Minute)
		before := r.status(a)
		if before.Passed < 10 {
			t.Fatalf("%+v", before)
		}
		l := r.times(a)
		for range 20 { // reloads neither hurry nor delay
			r.Configure([]Target{a})
			r.pass(30 * time.Second)
		}
		wantGaps(t, append(l[len(l)-1:], r.times(a)...), DefaultEvery)
		if s := r.status(a); s.Passed <= before.Passed {
			t.Errorf("%+v", s)
		}
		r.Configure([]Target{a, b})
		if s := r.status(b); s.HasLast || s.Passed != 0 {
			t.Errorf("a target that came back: %+v", s)
		}

		// A reload while a probe is under way: taken out, and put in again.
		release := make(chan struct{})
		r.does(func(ctx context.Context, t Target) Result {
			if t.Upstream == "b" {
				<-release
			}
			return ended(decision.OK)
		})
		r.took()
		for !r.status(b).Running {
			r.pass(time.Second)
		}
		r.Configure([]Target{a})
		r.Configure([]Target{a, b})
		r.Pace("b", time.Second)
		r.pass(20 * time.Second) // the rig wants no second one meanwhile
		close(release)
		r.pass(10 * time.Second)
		if s := r.status(b); s.Passed < 5 {
			t.Errorf("%+v", s)
		}
	})
}

func TestResultOfWhatIsNoTarget(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		a := target("a")
		release := make(chan struct{})
		r.does(func(context.Context, Target) Result { <-release; return ended(decision.OK) })
		r.Configure([]Target{a})
		for !r.status(a).Running {
			r.pass(time.Second)
		}
		r.Configure(nil)
		close(release)
		r.pass(time.Minute)
		if got := r.took(); len(got) != 0 || len(r.Snapshot()) != 0 {
			t.Errorf("%v", got)
		}
	})
}

// The cap is the candidate's, all its capabilities together, and its day UTC's.
func TestDailyCost(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.does(func(context.Context, Target) Result {
			return Result{Outcome: decision.Outcome{Class: decision.OK, InputTokens: 8, OutputTokens: 2}}
		})
		var ts []Target
		for _, c := range []decision.Capability{decision.Text, decision.Stream} {
			ts = append(ts, Target{
				Upstream: "a", Model: "m", Capability: c, Every: time.Minute,
				MaxCostPerDay: 0.1, Cost: perToken(0.0001), Expect: 0.001,
			})
		}
		other := ts[0]
		other.Model = "n"
		unpriced := target("b")
		r.Configure(append(ts, other, unpriced))
		day := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		r.pass(time.Until(day.Add(-time.Minute))) // the bubble begins at a midnight
		n := 0
		for _, t := range ts {
			n += len(r.times(t))
		}
		if n != 100 { // 0.1 USD of 0.001 each
			t.Errorf("%d probes of the candidate", n)
		}
		for _, target := range ts {
			s := r.status(target)
			if s.Held != HeldCost || s.SpentUSD < 0.0999 || s.SpentUSD > 0.1001 || s.Uncapped {
				t.Errorf("%+v", s)
			}
			if s.Next.Before(day) || s.Next.After(day.Add(time.Minute)) {
				t.Errorf("next at %v", s.Next)
			}
		}
		if s := r.status(other); s.Held != HeldCost {
			t.Errorf("%+v", s)
		}
		if s := r.status(unpriced); s.Held != "" || s.SpentUSD != 0 || !s.Uncapped || len(r.times(unpriced)) < 800 {
			t.Errorf("%+v", s)
		}
		r.Configure(ts[:1]) // a reload is no new day
		r.Configure(ts)
		if s := r.status(ts[1]); s.SpentUSD < 0.0999 {
			t.Errorf("%+v", s)
		}
		r.pass(12 * time.Minute)
		if s := r.status(ts[0]); s.Held != "" || s.SpentUSD == 0 || s.SpentUSD > 0.03 {
			t.Errorf("after midnight: %+v", s)
		}
	})
}

// An answer that names no usage costs what was expected; no answer costs nothing.
func TestCostWithoutUsage(t *testing.T) {
	priced := Target{Cost: perToken(1), Expect: 0.5}
	for _, tc := range []struct {
		r    Result
		want float64
	}{
		{ended(decision.OK), 0.5},
		{ended(decision.Connect), 0},
		{Result{Held: "capacity"}, 0},
		{Result{Outcome: decision.Outcome{Class: decision.Interrupted, InputTokens: 3}}, 3},
	} {
		if got := costOf(&priced, &tc.r); got != tc.want {
			t.Errorf("%+v: %v, want %v", tc.r, got, tc.want)
		}
	}
	if got := costOf(&Target{Expect: 1}, &Result{Outcome: decision.Outcome{Class: decision.OK}}); got != 0 {
		t.Errorf("unknown prices: %v", got)
	}
}

func TestHangs(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		a, b := target("a"), target("b")
		forever := make(chan struct{})
		r.does(func(ctx context.Context, t Target) Result {
			if t.Upstream == "b" {
				<-forever // deaf
				return ended(decision.OK)
			}
			<-ctx.Done()
			return ended(decision.AttemptTimeout)
		})
		r.Configure([]Target{a, b})
		r.pass(10 * time.Minute)
		s := r.status(a)
		if s.Failed < 5 || s.Last.Took != timeout {
			t.Errorf("%+v", s)
		}
		wantGaps(t, r.times(a), DefaultEvery)
		s = r.status(b)
		if !s.Running || s.Failed != 0 || s.Last.Outcome.Class != decision.Internal || len(r.times(b)) != 1 {
			t.Errorf("%+v", s)
		}
		r.does(passes)
		close(forever)
		r.pass(5 * time.Minute)
		if s := r.status(b); s.Passed < 2 || s.Running {
			t.Errorf("%+v", s)
		}
		p := r.Prober
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.out != 0 || len(p.slots) != 0 || len(p.busy) != 0 {
			t.Errorf("%d out, slots %v, busy %v", p.out, p.slots, p.busy)
		}
	})
}

// Those that hang for good take no slot from others.
func TestHangingGivesSlotsBack(t *testing.T) {
	inBubble(t, Options{AtOnce: 2, PerUpstream: 2}, func(r *rig) {
		forever := make(chan struct{})
		r.does(func(ctx context.Context, t Target) Result {
			if t.Upstream == "bad" {
				<-forever
			}
			return ended(decision.OK)
		})
		defer close(forever)
		var ts []Target
		for i := range 20 {
			bad := target("bad")
			bad.Model = fmt.Sprint(i)
			ts = append(ts, bad)
		}
		good := target("good")
		r.Configure(append(ts, good))
		r.pass(20 * time.Minute)
		if s := r.status(good); s.Passed < 5 {
			t.Errorf("%+v", s)
		}
	})
}

func TestPanics(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		a, b := target("a"), target("b")
		var none []int
		r.does(func(_ context.Context, t Target) Result {
			if t.Upstream == "a" {
				panic("sk-secret")
			}
			return ended(decision.Classes[none[3]])
		})
		r.Configure([]Target{a, b})
		r.pass(10 * time.Minute)
		for _, tc := range []struct {
			t    Target
			want string
		}{
			{a, "the probe panicked"},
			{b, "the probe panicked: runtime error: index out of range [3] with length 0"},
		} {
			s := r.status(tc.t)
			if o := s.Last.Outcome; o.Class != decision.Internal || o.Detail != tc.want || s.Failed != 0 || len(r.times(tc.t)) < 5 {
				t.Errorf("%+v", s)
			}
		}
		r.does(passes)
		r.pass(5 * time.Minute)
		if s := r.status(a); s.Passed < 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestManyTargets(t *testing.T) {
	inBubble(t, Options{AtOnce: 20, PerUpstream: 3}, func(r *rig) {
		r.does(func(_ context.Context, t Target) Result {
			bubble.Sleep(2 * time.Second)
			return ended(decision.OK)
		})
		var ts []Target
		for i := range 500 {
			ts = append(ts, Target{Upstream: fmt.Sprint("u", i%50), Model: fmt.Sprint(i), Capability: decision.Stream})
		}
		r.Configure(ts)
		r.pass(30 * time.Minute)
		if r.most > 20 || r.most < 10 {
			t.Errorf("%d at a time", r.most)
		}
		for u, n := range r.most1 {
			if n > 3 {
				t.Errorf("%d of %s at a time", n, u)
			}
		}
		perSecond := map[int64]int{}
		for _, target := range ts {
			l := r.times(target)
			if len(l) < 15 {
				t.Errorf("%v was probed %d times", target.id(), len(l))
			}
			for _, at := range l {
				perSecond[at.Unix()]++
			}
		}
		for s, n := range perSecond {
			if n > 20 {
				t.Errorf("%d began in second %d", n, s)
			}
		}
	})
}

// Run ends what is under way, waits for it and drops what came of it; another
// Run goes on from there.
func TestRunEnds(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		a := target("a")
		r.does(func(ctx context.Context, _ Target) Result {
			<-ctx.Done()
			bubble.Sleep(time.Second) // it takes a while to end
			return ended(decision.ClientGone)
		})
		r.Configure([]Target{a})
		for !r.status(a).Running {
			r.pass(time.Second)
		}
		began := time.Now()
		r.stop()
		if d := time.Since(began); d != time.Second {
			t.Errorf("Run took %v to end", d)
		}
		if s := r.status(a); s.Running || s.Failed != 0 || len(r.took()) > 1 {
			t.Errorf("%+v", s)
		}
	})
}
