package traffic

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
)

// ref is an upstream as the rules have it, without storage, locks or readers.
type ref struct {
	share    int
	revision uint64
	failback bool
	machine  bool
	steps    []int
	passed   map[int]bool
	retreats int
	plan     string
	served   time.Duration
	primary  string
	undo     *refUndo
}

type refUndo struct {
	share int
	whole bool
	by    string
	until time.Time
}

func (r ref) clone() ref {
	r.passed = maps.Clone(r.passed)
	return r
}

func (r ref) next() int {
	for _, s := range r.steps {
		if s > r.share {
			return s
		}
	}
	return 0
}

// to takes r to share in a new revision.
func (r *ref) to(share int) {
	r.share, r.served, r.undo, r.machine = share, 0, nil, false
	r.revision++
}

func (r *ref) lower(share int, by string, steps []int, now time.Time) {
	undo := &refUndo{share: r.share, whole: !r.failback, by: by, until: now.Add(5 * time.Minute)}
	if !r.failback {
		r.failback, r.steps, r.passed, r.retreats = true, steps, map[int]bool{}, 0
	}
	r.to(share)
	if by == "auto" {
		r.machine = share == 0
	} else {
		r.undo = undo
	}
	if by != "auto" || share == 0 {
		r.plan = ""
	}
}

// takeOver makes an operator's what the machine degraded.
func (r *ref) takeOver() {
	r.machine, r.undo = false, nil
	r.revision++
}

// downAgain is what a person who degrades what is degraded comes to.
func (r *ref) downAgain() {
	switch {
	case r.machine:
		r.takeOver()
	case r.plan != "":
		r.revision++
	}
	r.plan = ""
}

func (r *ref) end() {
	*r = ref{share: 100, revision: r.revision, primary: r.primary}
}

func (r *ref) forgetFrom(share int) {
	for s := range r.passed {
		if s >= share {
			delete(r.passed, s)
		}
	}
}

// world is a table with what it should be.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	storage *counted
	table   *Table
	told    *events
	steps   []int // configured
	refs    map[string]*ref
	kept    map[string]ref // as they were when the storage was last in step
	gone    map[string]bool
	seen    map[string]uint64 // what each operator last saw, by operator and upstream
	trace   []string
}

var names = []string{"a", "b"}

func (w *world) errorf(format string, args ...any) {
	w.t.Helper()
	for _, l := range w.trace {
		w.t.Log(l)
	}
	w.t.Fatalf(format, args...)
}

// do does one thing to the table and to the reference, and compares.
func (w *world) do() {
	w.t.Helper()
	name := names[w.rand.IntN(len(names))]
	r := w.refs[name]
	before := map[string]State{}
	for _, s := range w.table.All() {
		before[s.Upstream] = s
	}
	w.told.take()
	by := []string{"ana", "ben"}[w.rand.IntN(2)]
	seen := w.seen[by+name]
	if w.rand.IntN(3) > 0 {
		seen = r.revision
		w.seen[by+name] = seen
	}
	now := time.Now()
	want, got := "", error(nil)
	raises := false // whether what is done may raise a share
	switch what := w.rand.IntN(22); {
	case w.gone[name] && what < 16:
		w.log("%s is gone, degraded by %s", name, by)
		_, got = w.table.Degrade(Degradation{Upstream: name, By: by})
		want = "invalid"
	case what < 3: // to some share
		share := []int{0, 5, 25, 50, 75, 100}[w.rand.IntN(6)]
		c := Command{Upstream: name, Share: share, Revision: &seen, By: by, Collapse: w.rand.IntN(8) == 0}
		if w.rand.IntN(8) == 0 {
			c.BlockedBy = "breaker open"
		}
		w.log("%s by %s to %d on %d, %v %q", name, by, share, seen, c.Collapse, c.BlockedBy)
		want, raises = w.set(r, c, now), true
		_, got = w.table.Set(c)
	case what < 6: // the next step, as whoever looked would
		c := Command{Upstream: name, Share: r.next(), Revision: &seen, By: by}
		if c.Share == 0 {
			c.Share = 100
		}
		switch w.rand.IntN(4) {
		case 0:
			c.By = decision.Auto
		case 1:
			c.By = decision.ByPlan(by)
		}
		w.log("%s by %s to the next, %d on %d", name, c.By, c.Share, seen)
		want, raises = w.set(r, c, now), true
		_, got = w.table.Set(c)
	case what < 7: // an override
		c := Command{Upstream: name, Share: []int{25, 75, 100}[w.rand.IntN(3)], Revision: &seen, By: by, Override: true, Why: "sure", BlockedBy: "no data"}
		w.log("%s by %s over to %d on %d", name, by, c.Share, seen)
		want, raises = w.set(r, c, now), true
		_, got = w.table.Set(c)
	case what < 8:
		w.log("%s put back by %s", name, by)
		raises = true
		switch u := r.undo; {
		case u == nil || u.by != by || now.After(u.until):
			want = "blocked"
		case w.storage.down:
			want = "write"
		default:
			r.to(u.share)
			if u.whole {
				r.end()
			}
		}
		_, got = w.table.Set(Command{Upstream: name, Undo: true, By: by})
	case what < 9:
		if w.rand.IntN(2) == 0 {
			by = decision.Auto
		}
		w.log("%s degraded by %s", name, by)
		switch {
		case r.share > 0:
			from := r.share
			r.lower(0, by, w.steps, now)
			if by == decision.Auto {
				r.forgetFrom(from)
			}
		case by != decision.Auto:
			r.downAgain()
		}
		_, got = w.table.Degrade(Degradation{Upstream: name, By: by, Reason: "groups_red"})
	case what < 11:
		w.log("%s retreats on %d", name, seen)
		switch {
		case seen != r.revision:
			want = "stale"
		case !r.failback || r.share == 0:
			want = "blocked"
		default:
			retreats := r.retreats + 1
			r.forgetFrom(r.share)
			to := 0
			for s := range r.passed {
				to = max(to, s)
			}
			r.lower(to, decision.Auto, nil, now)
			r.retreats = retreats
			if retreats >= 2 {
				r.plan = ""
			}
		}
		_, got = w.table.Retreat(name, "evidence", "", seen)
	case what < 12:
		w.log("%s settles on %d", name, seen)
		switch {
		case seen != r.revision:
			want = "stale"
		case !r.failback || r.share != 100:
			want = "blocked"
		default:
			r.end()
			r.revision++
		}
		_, got = w.table.Settle(name, "", seen)
	case what < 14:
		w.log("%s passed on %d", name, seen)
		if seen == r.revision && r.failback && r.share > 0 {
			r.passed[r.share] = true
		}
		w.table.MarkPassed(name, seen)
	case what < 15:
		w.log("%s approved by %s on %d", name, by, seen)
		switch {
		case r.plan == by:
		case seen != r.revision:
			want = "stale"
		case !r.failback || r.share == 100 || r.retreats >= 2:
			want = "blocked"
		case w.storage.down:
			want = "write"
		default:
			r.plan = by
			r.revision++
		}
		_, got = w.table.Approve(name, by, "", seen)
	case what < 16:
		w.log("%s withdrawn by %s", name, by)
		if r.plan != "" {
			r.plan = ""
			r.revision++
		}
		_, got = w.table.Withdraw(name, by)
	case what < 18:
		d := time.Duration(1+w.rand.IntN(400)) * time.Second
		w.log("%v pass", d)
		pass(d)
		w.table.Serve(d)
		for name, r := range w.refs {
			if r.failback && !w.gone[name] {
				r.served += d
			}
		}
	case what < 19:
		w.reload(name)
	case what < 20:
		w.steps = [][]int{{5, 25, 75, 100}, {50, 100}, {5, 100}}[w.rand.IntN(3)]
		w.log("configured %v", w.steps)
		w.configure()
	case what < 21:
		down := !w.storage.down
		w.log("storage down: %v", down)
		w.storage.set(down)
		pass(retryMost)
	default:
		w.restart()
		raises = w.storage.down // what was not stored may come back
	}
	synctest.Wait()
	if kind := kindOf(got); kind != want {
		w.errorf("came to %q %v, want %q", kind, got, want)
	}
	w.compare()
	for name, b := range before {
		if s, ok := w.table.Get(name); ok && !raises && s.Share > b.Share {
			w.errorf("%s rose from %d%% to %d%%", name, b.Share, s.Share)
		}
	}
	w.follow(before)
	if !w.storage.down {
		for name, r := range w.refs {
			w.kept[name] = r.clone()
		}
	}
}

// set is what a command for a share comes to.
func (w *world) set(r *ref, c Command, now time.Time) string {
	person := c.By == "ana" || c.By == "ben"
	switch {
	case c.Share != 0 && !slices.Contains(slices.Concat(r.steps, w.steps), c.Share):
		return "invalid"
	case c.Share < r.share:
		r.lower(c.Share, c.By, w.steps, now)
		return ""
	case c.Share == r.share && c.Share == 0 && person:
		r.downAgain()
		return ""
	case c.Share == r.share:
		return ""
	case *c.Revision != r.revision:
		return "stale"
	case !person && r.retreats >= 2:
		return "blocked"
	case !person && c.By != decision.Auto && (r.plan == "" || c.By != "plan:"+r.plan):
		return "blocked"
	}
	if c.Override {
		if !slices.Contains(r.steps, c.Share) {
			return "invalid"
		}
	} else {
		next := r.next()
		if c.Collapse {
			next = 100
		}
		if c.Share != next || c.BlockedBy != "" {
			return "blocked"
		}
	}
	if w.storage.down {
		return "write"
	}
	r.to(c.Share)
	return ""
}

func (w *world) configure() {
	var steps []Step
	for _, s := range w.steps {
		steps = append(steps, Step{Share: s, Observe: time.Minute})
	}
	w.table.Configure(steps)
}

// reload takes name out of the configuration, or back, or changes what it is
// primary of.
func (w *world) reload(name string) {
	r := w.refs[name]
	switch {
	case w.gone[name]:
		delete(w.gone, name)
		w.log("%s comes back", name)
	case w.rand.IntN(2) == 0:
		w.gone[name] = true
		if r.plan != "" {
			r.plan = ""
			r.revision++
		}
		w.log("%s is taken out", name)
	default:
		r.primary = map[string]string{"m": "n", "n": "m"}[r.primary]
		r.served, r.passed = 0, map[int]bool{}
		w.log("%s is primary of %s", name, r.primary)
	}
	w.ensure()
}

func (w *world) ensure() {
	primaryOf := map[string][]string{}
	for name, r := range w.refs {
		if !w.gone[name] {
			primaryOf[name] = []string{r.primary}
		}
	}
	w.table.Ensure(primaryOf)
}

// restart ends the process and starts another. A storage that is down takes
// with it what it never had.
func (w *world) restart() {
	w.log("restart, storage down: %v", w.storage.down)
	err := w.table.Close(w.t.Context())
	if err != nil && !w.storage.down {
		w.errorf("Close: %v", err)
	}
	if w.storage.down {
		for name, r := range w.kept {
			was := w.refs[name].primary
			r = r.clone()
			if r.primary != was {
				r.primary, r.served, r.passed = was, 0, map[int]bool{}
			}
			if w.gone[name] && r.plan != "" {
				r.plan = ""
				r.revision++
			}
			w.refs[name] = &r
		}
	}
	pass(time.Hour)
	w.open()
	for name, r := range w.refs {
		// What was served in the last seconds before a crash is lost.
		if s, ok := w.table.Get(name); ok && w.storage.down && s.Served <= r.served && s.Served > r.served-servedEvery {
			r.served = s.Served
		}
	}
}

func (w *world) open() {
	table, err := Open(w.t.Context(), w.storage, w.told.add)
	if err != nil {
		w.errorf("%v", err)
	}
	w.table = table
	w.configure()
	w.ensure()
}

// compare has the table say what the reference says.
func (w *world) compare() {
	w.t.Helper()
	for name, r := range w.refs {
		s, ok := w.table.Get(name)
		if ok == w.gone[name] {
			w.errorf("%s is there: %v", name, ok)
		}
		if !ok {
			continue
		}
		passed := slices.Sorted(maps.Keys(r.passed))
		plan, steps := "", []int(nil)
		if s.Plan != nil {
			plan = s.Plan.By
		}
		for _, step := range s.Steps {
			steps = append(steps, step.Share)
		}
		if s.Share != r.share || s.Revision != r.revision || s.Machine != r.machine || (s.FailbackID != "") != r.failback ||
			!slices.Equal(s.Passed, passed) || s.Retreats != r.retreats || plan != r.plan || !slices.Equal(steps, r.steps) {
			w.errorf("%s is %+v\nwant %+v, passed %v", name, s, *r, passed)
		}
		if s.Served != r.served {
			w.errorf("%s has served %v, want %v", name, s.Served, r.served)
		}
		if (s.Undo == nil) != (r.undo == nil) || s.Undo != nil && (s.Undo.Share != r.undo.share || (s.Undo.Condition == Whole) != r.undo.whole) {
			w.errorf("%s would be put back to %+v, want %+v", name, s.Undo, r.undo)
		}
		// Share and condition do not contradict each other.
		if c := s.Condition(); (c == Whole && s.Share != Full) || (c == Degraded) != (s.Share == 0) || s.Machine && c != Degraded {
			w.errorf("%s is %v at %d%%", name, c, s.Share)
		}
		if share := w.table.Share(name); share != r.share {
			w.errorf("%s lets %d%% through, want %d%%", name, share, r.share)
		}
		if s.Unsynced && !w.storage.down {
			w.errorf("%s is unsynced", name)
		}
	}
}

// follow has every change told, in order, each from where the one before led;
// and nothing stored out of order.
func (w *world) follow(before map[string]State) {
	w.t.Helper()
	share, state := map[string]string{}, map[string]string{}
	for name, s := range before {
		share[name], state[name] = fmt.Sprint(s.Share), s.Condition().String()
	}
	restarted := w.trace[len(w.trace)-1][0] == 'r'
	for _, e := range w.told.take() {
		at := share
		switch {
		case e.Action == "share":
		case e.Kind == decision.KindHealthTransition:
			at = state
		default:
			continue
		}
		if at[e.Provider] != e.From && !restarted {
			w.errorf("told %+v at %s", e, at[e.Provider])
		}
		at[e.Provider] = e.To
	}
	for name := range before {
		s, ok := w.table.Get(name)
		if !ok || restarted {
			continue
		}
		if share[name] != fmt.Sprint(s.Share) || state[name] != s.Condition().String() {
			w.errorf("told of %s%% and %s, %s is %+v", share[name], state[name], name, s)
		}
	}
	for name, l := range w.storage.saves {
		for i := 1; i < len(l); i++ {
			if l[i].Revision < l[i-1].Revision {
				w.errorf("%s: revision %d stored after %d", name, l[i].Revision, l[i-1].Revision)
			}
		}
		if last := l[len(l)-1]; !w.storage.down && last.Revision != w.refs[name].revision {
			w.errorf("%s: revision %d is stored, %d in force", name, last.Revision, w.refs[name].revision)
		}
	}
}

func (w *world) log(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// Random commands of two operators and the machine, reloads, restarts and a
// storage that fails, against the rules.
func TestAgainstReference(t *testing.T) {
	seeds := 400
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			w := &world{
				t: t, rand: rand.New(rand.NewPCG(uint64(seed), 7)), storage: new(counted), told: new(events),
				steps: []int{5, 25, 75, 100}, refs: map[string]*ref{}, kept: map[string]ref{}, gone: map[string]bool{}, seen: map[string]uint64{},
			}
			w.log("seed %d", seed)
			for _, name := range names {
				w.refs[name] = &ref{share: 100, revision: 1, primary: "m"}
				w.kept[name] = w.refs[name].clone()
			}
			w.open()
			defer func() {
				w.storage.set(false)
				if err := w.table.Close(t.Context()); err != nil {
					t.Errorf("Close: %v", err)
				}
			}()
			for range 80 {
				w.do()
			}
		})
	}
}
