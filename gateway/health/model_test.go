package health

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"failback/gateway/decision"
)

// TestModel compares the machine with a reference that judges by looking back
// over all that happened, in random histories of signals, commands, restarts,
// shared faults and irregular time. The table is a small share table that does
// what the machine wishes, now and then without success.
func TestModel(t *testing.T) {
	rnd := random(t)
	seen := map[Move]int{}
	states := map[State]int{}
	for range 400 {
		w := newWorld(t, rnd)
		for range 250 {
			w.chance()
			w.step()
			seen[w.wish.Move]++
			states[w.state]++
		}
		w.leave()
	}
	for _, m := range []Move{Stay, Degrade, Recover, Climb, Retreat, Settle} {
		if seen[m] == 0 {
			t.Errorf("%v was never wished: the histories do not reach it", m)
		}
	}
	for _, s := range []State{Healthy, Suspect, Degraded, Recovering} {
		if states[s] == 0 {
			t.Errorf("never %s", s)
		}
	}
}

// moment is what a step saw, as the reference keeps it.
type moment struct {
	clock time.Duration
	red   bool
	grave [3]bool
	// judged is false where nothing counts towards degrading: not whole, or a
	// shared fault.
	whole, shared bool
	opened        [capabilities]int
}

type world struct {
	t     *testing.T
	rnd   *rand.Rand
	m     Machine
	f     Facts
	now   time.Time
	clock time.Duration // that only goes on
	past  []moment      // since the last restart
	open  [capabilities]int

	state State
	wish  Wish
}

var ladder = []int{5, 25, 75, 100}

func newWorld(t *testing.T, rnd *rand.Rand) *world {
	w := &world{t: t, rnd: rnd, now: time.Now()}
	if rnd.IntN(2) == 0 {
		w.now = w.now.Round(0) // a clock without a monotonic reading
	}
	w.f = Facts{Settings: settings, Upstream: "a", Share: full, OtherAdmits: true, Signals: signals(Green, Green, Green)}
	w.f.Advance = Advance(rnd.IntN(3))
	w.f.Settings.Shadow = rnd.IntN(8) == 0
	return w
}

// chance changes something, or nothing.
func (w *world) chance() {
	r, f := w.rnd, &w.f
	for i := range f.Signals {
		if r.IntN(12) == 0 {
			s := &f.Signals[i]
			s.Colour = []Colour{Green, Red, Red, Unknown}[r.IntN(4)]
			s.SuspectOnly = s.Colour == Red && r.IntN(4) == 0
		}
	}
	if r.IntN(15) == 0 {
		c := r.IntN(capabilities)
		f.Openings.Count(decision.Capabilities[c])
		w.open[c]++
	}
	if r.IntN(60) == 0 {
		f.SharedFault = !f.SharedFault
	}
	if r.IntN(30) == 0 {
		f.Last = !f.Last
	}
	if r.IntN(20) == 0 {
		f.OtherAdmits = !f.OtherAdmits
	}
	if r.IntN(6) == 0 {
		f.Evidence = Verdict(r.IntN(3))
	}
	if r.IntN(6) == 0 {
		f.Probed = !f.Probed
	}
	switch r.IntN(120) {
	case 0: // restart: what may be lost is lost
		w.m, w.past = Machine{}, nil
	case 1:
		w.set(IsDegraded, 0, false)
	case 2: // a step by an operator, up or down
		if i := slices.Index(ladder, f.Share); i+1 < len(ladder) {
			w.set(IsRecovering, ladder[i+1], false)
		}
	case 3:
		w.set(IsRecovering, ladder[r.IntN(3)], false)
	case 4:
		w.set(Whole, full, false)
	case 5:
		f.Plan = !f.Plan
	case 6:
		f.Settings.Shadow = !f.Settings.Shadow
	}
}

// set is the share table.
func (w *world) set(c Condition, share int, machine bool) {
	f := &w.f
	if c == Whole || f.Condition == Whole {
		f.Passed, f.Retreats, f.Plan = nil, 0, false
	}
	f.Condition, f.Share, f.Machine, f.Evidence, f.HeldFull = c, share, machine, NoData, 0
	f.Next = 0
	if c != Whole {
		if i := slices.Index(ladder, share); i+1 < len(ladder) {
			f.Next = ladder[i+1]
		}
	}
}

func (w *world) step() {
	w.t.Helper()
	var d time.Duration
	switch w.rnd.IntN(20) {
	case 0:
		d = time.Duration(w.rnd.IntN(int(3 * time.Minute)))
	case 1:
		d = time.Duration(w.rnd.IntN(3))
	case 2:
		d = ClearFor - 1 + time.Duration(w.rnd.IntN(3))
	default:
		d = time.Duration(1+w.rnd.IntN(4)) * time.Second
	}
	if w.now == w.now.Round(0) && w.rnd.IntN(50) == 0 {
		w.now, d = w.now.Add(-time.Hour), 0
	}
	w.pass(d)
}

// pass lets d go by, judges, compares and does what is wished.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	f := &w.f
	w.now, w.clock = w.now.Add(d), w.clock+d
	if f.Share == full && f.Condition == IsRecovering {
		f.HeldFull += d
	}
	now := moment{clock: w.clock, whole: f.Condition == Whole, shared: f.SharedFault, opened: w.open}
	if len(w.past) == 0 {
		now.opened = [capabilities]int{} // nobody saw them
	}
	w.open = [capabilities]int{}
	for _, s := range f.Signals {
		now.red = now.red || s.Colour == Red
		if s.Colour == Red && !s.SuspectOnly {
			now.grave[slices.Index([]Group{Traffic, Probes, Expiry}, s.Group)] = true
		}
	}
	w.past = append(w.past, now)

	before := w.state
	var tr *Transition
	w.state, w.wish, tr = w.m.Step(w.now, *f)
	wantState, wantMove := w.reference()
	if w.state != wantState || w.wish.Move != wantMove {
		w.t.Fatalf("%s, %v; want %s, %v\nfacts %+v\nlast %+v", w.state, w.wish, wantState, wantMove, *f, w.past[max(0, len(w.past)-30):])
	}
	if tr != nil && (tr.To != w.state || tr.From == tr.To || tr.Reason == "" || tr.Detail == "") {
		w.t.Fatalf("after %s: told %+v, is %s", before, tr, w.state)
	}
	if w.m.Explain() == "" {
		w.t.Fatal("nothing to say")
	}
	w.invariants()
	w.do()
}

// invariants hold whatever the history was.
func (w *world) invariants() {
	w.t.Helper()
	f, x := &w.f, w.wish
	bad := func(what string) { w.t.Helper(); w.t.Fatalf("%s: %+v\nfacts %+v", what, x, *f) }
	leaves := x.Move == Degrade || x.Move == Retreat && x.To == 0
	switch {
	case leaves && f.Last:
		bad("the last one is degraded")
	case (leaves || x.Move == Retreat) && f.SharedFault:
		bad("degraded for a shared fault")
	case x.Move == Degrade && f.Condition != Whole, x.Move == Recover && f.Condition != IsDegraded,
		x.Move >= Climb && f.Condition != IsRecovering:
		bad("no move of this condition")
	case x.Move == Retreat && (!f.OtherAdmits || x.To >= f.Share || x.To != 0 && !slices.Contains(f.Passed, x.To)):
		bad("a retreat to nowhere")
	case x.To > f.Share && x.To != f.Next:
		bad("more than a step")
	case x.To > f.Share && !(f.Advance == Auto && f.Retreats < MaxRetreats || f.Plan && x.Move == Climb):
		bad("raised without a person")
	case x.To > f.Share && f.Evidence != Pass && !(x.Move == Recover && f.Probed):
		bad("raised without evidence")
	case x.Would != (f.Settings.Shadow && x.Move != Stay && x.Move != Settle):
		bad("shadow")
	case x.Move != Stay && (x.Reason == "" || x.Move == Degrade && x.Detail == ""):
		bad("without a reason")
	}
}

// do is the share table doing what is wished, mostly.
func (w *world) do() {
	f, x := &w.f, w.wish
	if x.Would || w.rnd.IntN(5) == 0 {
		return
	}
	switch x.Move {
	case Degrade:
		w.set(IsDegraded, 0, true)
	case Recover:
		w.set(IsRecovering, x.To, false)
	case Climb:
		f.Passed = append(slices.Clone(f.Passed), f.Share)
		w.set(IsRecovering, x.To, false)
	case Retreat:
		f.Retreats++
		if x.To == 0 {
			w.set(IsDegraded, 0, true)
		} else {
			w.set(IsRecovering, x.To, false)
		}
	case Settle:
		w.set(Whole, full, false)
	}
}

// reference judges the last moment by looking back.
func (w *world) reference() (State, Move) {
	f := &w.f
	end := len(w.past) - 1
	switch {
	case f.Condition == IsDegraded:
		if f.Advance == Auto && f.Machine && f.Retreats < 2 && f.Probed && !f.SharedFault {
			return Degraded, Recover
		}
		return Degraded, Stay
	case f.Condition == IsRecovering:
		return Recovering, w.climbing()
	}
	first := end // of those that are whole
	for first > 0 && w.past[first-1].whole {
		first--
	}
	if _, on := w.since(first, func(m moment) bool { return m.red }); !on {
		return Healthy, Stay
	}
	if f.Last || f.SharedFault {
		return Suspect, Stay
	}
	// Times of a shared fault do not count; the moment of its end is when its
	// last step was.
	from := first
	for i := first; i <= end; i++ {
		if w.past[i].shared {
			from = i
		}
	}
	var lasted []time.Duration
	for g := range 3 {
		since, _ := w.since(from, func(m moment) bool { return m.grave[g] })
		if w.past[end].grave[g] {
			lasted = append(lasted, w.past[end].clock-since)
		}
	}
	slices.Sort(lasted)
	n := len(lasted)
	switch {
	case n >= 2 && lasted[n-2] >= settings.SuspectWindow, n >= 1 && lasted[n-1] >= 5*time.Minute:
		return Suspect, Degrade
	}
	for c := range capabilities {
		opened := 0
		for i := end; i >= first && !w.past[i].shared && w.past[end].clock-w.past[i].clock <= 10*time.Minute; i-- {
			opened += w.past[i].opened[c]
		}
		if opened >= 3 && w.past[end].grave[0] {
			return Suspect, Degrade
		}
	}
	return Suspect, Stay
}

// since finds the beginning of the stretch of red that reaches to the last
// moment, looking back no further than first.
func (w *world) since(first int, red func(moment) bool) (time.Duration, bool) {
	end := len(w.past) - 1
	start, found := 0, false
	clearFrom := w.past[end].clock // the earliest clear moment after what was looked at
	seen := w.past[end].clock      // the red or last moment before which the gap ends
	for i := end; i >= first; i-- {
		m := w.past[i]
		if !red(m) {
			clearFrom = m.clock
			continue
		}
		if seen-clearFrom >= 10*time.Second {
			break
		}
		start, found = i, true
		seen, clearFrom = m.clock, m.clock
	}
	if !found {
		return 0, false
	}
	return w.past[start].clock, true
}

func (w *world) climbing() Move {
	f := &w.f
	if f.SharedFault {
		return Stay
	}
	if f.Evidence == Fail {
		lower := slices.ContainsFunc(f.Passed, func(s int) bool { return s < f.Share })
		if f.OtherAdmits && (lower || !f.Last) {
			return Retreat
		}
		return Stay
	}
	if f.Share == full {
		if f.HeldFull >= settings.RecoveryWindow {
			return Settle
		}
		return Stay
	}
	person := !f.Plan && (f.Advance != Auto || f.Retreats >= 2)
	if f.Evidence == Pass && !person {
		return Climb
	}
	return Stay
}

// leave walks from wherever the history ended back to healthy: no state is a
// dead end.
func (w *world) leave() {
	w.t.Helper()
	f := &w.f
	f.Signals = signals(Green, Green, Green)
	f.SharedFault, f.Last, f.OtherAdmits, f.Settings.Shadow = false, false, true, false
	for range 3000 {
		if f.Condition == Whole && w.state == Healthy {
			return
		}
		f.Evidence = Pass
		if f.Condition == IsDegraded {
			w.set(IsRecovering, f.Next, false) // by an operator
		}
		if f.Advance == Manual && f.Condition == IsRecovering && f.Share < full {
			w.set(IsRecovering, f.Next, false)
		}
		f.Plan = true
		w.pass(time.Second)
	}
	w.t.Fatalf("stays %s: %+v", w.state, *f)
}
