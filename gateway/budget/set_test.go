package budget

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"failback/gateway/decision"
)

var began = time.Date(2026, 11, 30, 4, 31, 2, 0, time.UTC)

func at(up time.Duration) Instant { return Instant{Wall: began.Add(up), Up: up} }

// both are the objectives of model m over window.
func both(window time.Duration) []Objective {
	return []Objective{
		{Model: "m", Name: Availability, Target: 0.9, Window: window},
		{Model: "m", Name: FirstOutput, Target: 0.5, Under: 5 * time.Second, Window: window},
	}
}

func newSet(window time.Duration) *Set {
	s := New(began)
	s.Configure(both(window), 0)
	return s
}

func good() *decision.Decision {
	return &decision.Decision{
		Model: "m", Stream: true, Primary: "a", Selected: "a", Route: decision.RoutePrimary,
		Status: decision.Completed, Reason: decision.PrimaryCompleted, FirstOutput: time.Second, HasFirstOutput: true, Duration: 2 * time.Second,
		Attempts: []decision.Attempt{{Provider: "a", Outcome: decision.Outcome{Class: decision.OK}}},
	}
}

// bad is a request that provider failed with class, and nobody answered.
func bad(provider string, class decision.Class) *decision.Decision {
	return &decision.Decision{
		Model: "m", Stream: true, Primary: "a", Route: decision.RouteNone, Status: decision.Unavailable, Reason: decision.BreakerOpen,
		Failed: provider, Duration: time.Second, Attempts: []decision.Attempt{{Provider: provider, Outcome: decision.Outcome{Class: class}}},
	}
}

func report(t *testing.T, s *Set, now Instant, objective string) Report {
	t.Helper()
	for _, r := range s.Report(now) {
		if r.Model == "m" && r.Name == objective {
			return r
		}
	}
	t.Fatalf("no report of %s", objective)
	return Report{}
}

func TestWhatIsSpent(t *testing.T) {
	s := newSet(24 * time.Hour)
	for _, r := range s.Report(at(0)) {
		if r.Spent.Known || r.Fast.Known || r.Slow.Known || r.Covered != 0 {
			t.Errorf("without requests: %+v", r)
		}
	}
	for range 95 {
		s.Observe(good(), 0)
	}
	if r := report(t, s, at(0), Availability); r.Spent != (Ratio{Known: true}) {
		t.Errorf("without bad ones: %+v", r.Spent)
	}
	for range 3 {
		s.Observe(bad("a", decision.Reset), 0)
	}
	for range 2 {
		s.Observe(bad("b", decision.ServerError), 0)
	}
	left := good()
	left.Status, left.HasFirstOutput = decision.Cancelled, false
	s.Observe(left, 0)
	unknown := good()
	unknown.Model = "other"
	s.Observe(unknown, 0)
	r := report(t, s, at(time.Minute), Availability)
	if r.Good != 95 || r.Bad != 5 || math.Abs(r.Spent.Value-0.5) > 1e-9 || math.Abs(r.Fast.Value-0.5) > 1e-9 || r.Covered != time.Minute {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]Spend{{Spender{"a", "reset"}, 3}, {Spender{"b", "server_error"}, 2}}, r.By); diff != "" {
		t.Error(diff)
	}
	// Six hours on, nothing burns; a day on, nothing is spent.
	r = report(t, s, at(7*time.Hour), Availability)
	if r.Fast.Known || r.Slow.Known || math.Abs(r.Spent.Value-0.5) > 1e-9 || r.Covered != 7*time.Hour {
		t.Errorf("after 7 h: %+v", r)
	}
	if r = report(t, s, at(25*time.Hour), Availability); r.Spent.Known || r.By != nil || r.Covered != 24*time.Hour {
		t.Errorf("after 25 h: %+v", r)
	}
}

// A budget burns where its alert fires: above the limit, over the long time and
// the short one, whatever its window and its target are.
func TestBurns(t *testing.T) {
	const month, week = 30 * 24 * time.Hour, 7 * 24 * time.Hour
	for _, tt := range []struct {
		name       string
		target     float64
		window     time.Duration
		good, bad  int
		wait       time.Duration
		fast, slow bool
	}{
		{"nothing", 0.9, month, 0, 0, 0, false, false},
		{"1.44%, which is not above 14.4 times", 0.999, month, 9856, 144, 0, false, true},
		{"1.45%", 0.999, month, 9855, 145, 0, true, true},
		{"0.6%, which is not above 6 times", 0.999, month, 9940, 60, 0, false, false},
		{"0.61%", 0.999, month, 9939, 61, 0, false, true},
		{"a week: 0.34%", 0.999, week, 9966, 34, 0, true, true},
		{"a week: 0.33%", 0.999, week, 9967, 33, 0, false, true},
		{"three hours: no faster than whole", 0.9, 3 * time.Hour, 95, 5, 0, false, false},
		{"three hours: faster than whole", 0.9, 3 * time.Hour, 89, 11, 0, true, true},
		{"half of all may be bad, all are", 0.5, month, 0, 100, 0, true, true},
		{"a target of 1", 1, month, 99, 1, 0, true, true},
		{"it ended a quarter of an hour ago", 0.999, month, 0, 100, 15 * time.Minute, false, true},
		{"it ended three quarters of an hour ago", 0.999, month, 0, 100, 45 * time.Minute, false, false},
	} {
		s := New(began)
		s.Configure([]Objective{{Model: "m", Name: Availability, Target: tt.target, Window: tt.window}}, 0)
		for range tt.good {
			s.Observe(good(), 0)
		}
		for range tt.bad {
			s.Observe(bad("a", decision.Reset), 0)
		}
		r := report(t, s, at(tt.wait), Availability)
		if r.BurnsFast != tt.fast || r.BurnsSlow != tt.slow {
			t.Errorf("%s: fast %t, slow %t (%v, %v times)", tt.name, r.BurnsFast, r.BurnsSlow, r.Fast.Value, r.Slow.Value)
		}
	}
}

func TestTargetOfOneHasNoBound(t *testing.T) {
	s := New(began)
	s.Configure([]Objective{{Model: "m", Name: Availability, Target: 1, Window: time.Hour}}, 0)
	s.Observe(good(), 0)
	if r := report(t, s, at(0), Availability); r.Spent != (Ratio{Known: true}) {
		t.Errorf("all good: %+v", r)
	}
	s.Observe(bad("a", decision.Reset), 0)
	if r := report(t, s, at(0), Availability); !math.IsInf(r.Spent.Value, 1) || !math.IsInf(r.Fast.Value, 1) || r.Bad != 1 {
		t.Errorf("one bad: %+v", r)
	}
}

func TestBlame(t *testing.T) {
	twice := bad("a", decision.Reset)
	twice.Reason = decision.ReasonOf(decision.ServerError)
	twice.Attempts = append(twice.Attempts, decision.Attempt{Provider: "b", Outcome: decision.Outcome{Class: decision.ServerError}})
	nobody := bad("", "")
	nobody.Attempts = nil
	full := bad("a", decision.LocalRefusal)
	full.Reason = decision.Capacity
	late := good()
	late.FirstOutput = 6 * time.Second
	lateAfter := bad("a", decision.FirstOutputTimeout)
	lateAfter.Status, lateAfter.Selected, lateAfter.HasFirstOutput, lateAfter.FirstOutput = decision.DegradedCompleted, "b", true, 6*time.Second
	lateAfter.Attempts = append(lateAfter.Attempts, decision.Attempt{Provider: "b", Outcome: decision.Outcome{Class: decision.OK}})
	for name, tc := range map[string]struct {
		d         *decision.Decision
		objective string
		want      Spender
	}{
		"a failed, then b":         {twice, Availability, Spender{"a", "reset"}},
		"nobody was asked":         {nobody, Availability, Spender{"none", "breaker_open"}},
		"no room":                  {full, Availability, Spender{"a", "capacity"}},
		"no output":                {twice, FirstOutput, Spender{"a", "reset"}},
		"nobody asked, no output":  {nobody, FirstOutput, Spender{"none", "breaker_open"}},
		"slow":                     {late, FirstOutput, Spender{"a", "slow"}},
		"late because of a switch": {lateAfter, FirstOutput, Spender{"a", "first_output_timeout"}},
	} {
		s := newSet(time.Hour)
		s.Observe(tc.d, 0)
		if diff := cmp.Diff([]Spend{{tc.want, 1}}, report(t, s, at(0), tc.objective).By); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A model that leaves and comes back, and a changed target, go on with what was
// counted.
func TestConfigureKeepsCounts(t *testing.T) {
	s := newSet(24 * time.Hour)
	s.Observe(good(), 0)
	s.Observe(bad("a", decision.Reset), 0)
	s.Configure(nil, time.Minute)
	if l := s.Report(at(2 * time.Minute)); len(l) != 0 {
		t.Errorf("%+v", l)
	}
	s.Observe(bad("a", decision.Reset), 3*time.Minute) // it is nobody's by now
	changed := both(24 * time.Hour)
	changed[0].Target = 0.75
	s.Configure(changed, 4*time.Minute)
	s.Observe(good(), 4*time.Minute)
	r := report(t, s, at(5*time.Minute), Availability)
	if r.Good != 2 || r.Bad != 1 || math.Abs(r.Spent.Value-4.0/3) > 1e-9 || r.Covered != 2*time.Minute {
		t.Errorf("%+v", r)
	}
	// A longer window counts at once what had left the shorter one.
	day := 26 * time.Hour
	if r := report(t, s, at(day), Availability); r.Tally != (Tally{}) {
		t.Errorf("after a day: %+v", r.Tally)
	}
	s.Configure(both(48*time.Hour), day)
	if r := report(t, s, at(day), Availability); r.Tally != (Tally{2, 1}) {
		t.Errorf("of two days: %+v", r.Tally)
	}
}

func TestSpendersAreBounded(t *testing.T) {
	s := newSet(24 * time.Hour)
	for i := range 100 {
		s.Observe(bad(fmt.Sprint("u", i), decision.Reset), 0)
	}
	check := func(s *Set) {
		t.Helper()
		r := report(t, s, at(0), Availability)
		sum := uint64(0)
		for _, b := range r.By {
			sum += b.Bad
		}
		if len(r.By) > maxReported || sum != 100 || r.By[0].Provider != other {
			t.Errorf("%d spenders of %d bad: %+v", len(r.By), sum, r.By)
		}
	}
	check(s)
	records := written(t, s, "g", at(0))
	for _, r := range records {
		if len(r.Who) > maxSpenders {
			t.Errorf("%d spenders of one hour are written down", len(r.Who))
		}
	}
	again := newSet(24 * time.Hour)
	again.Restore(records, 0)
	check(again)
}

// written is what a store would give back.
func written(t *testing.T, s *Set, gateway string, now Instant) (records []Record) {
	t.Helper()
	data, err := json.Marshal(s.Records(gateway, now))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &records); err != nil {
		t.Fatal(err)
	}
	return records
}

// A record of the longest window with the most spenders fits a message of NATS.
func TestRecordIsBounded(t *testing.T) {
	s := newSet(MaxWindow)
	r := rand.New(rand.NewPCG(1, 2))
	up := time.Duration(0)
	for range maxHours + 100 {
		for range 40 {
			d := bad(fmt.Sprint("anthropic-us-east-", r.IntN(1000)), decision.FirstOutputTimeout)
			s.Observe(d, up)
		}
		slotOf(s.counts[Key{"m", Availability}].fresh.hours, s.slot(up, hourWidth)).Good = 1e9
		s.look(up)
		up += time.Hour
	}
	for _, rec := range s.Records("g", at(up)) {
		data, err := json.Marshal(rec)
		if err != nil || len(data) > 1_000_000 || int64(len(rec.Hours)) > maxHours+1 || int64(len(rec.Fives)) > maxFives+1 {
			t.Errorf("%d bytes, %d hours, %d fives, %v", len(data), len(rec.Hours), len(rec.Fives), err)
		}
	}
}

// seen is one observation as the reference keeps it.
type seen struct {
	good bool
	by   Spender
	up   time.Duration // in its process
	when int64         // wall, seconds; of earlier processes as it was last written
	own  bool          // of the process that runs
}

// reference is a budget of availability that keeps every request.
type reference struct {
	seen  []*seen
	start time.Time
}

func (r *reference) report(now Instant, window time.Duration) (t Tally, fast, slow Tally, by map[Spender]uint64) {
	by = map[Spender]uint64{}
	count := func(t *Tally, o *seen) {
		if o.good {
			t.Good++
		} else {
			t.Bad++
		}
	}
	for _, o := range r.seen {
		// When it was, and now, on the same clock.
		when, until := o.when, now.Wall.Unix()
		if o.own {
			when, until = r.start.Add(o.up).Unix(), r.start.Add(now.Up).Unix()
		}
		if until-(when/3600+1)*3600 < int64(window/time.Second) {
			count(&t, o)
			if !o.good {
				by[o.by]++
			}
		}
		if end := (when/300 + 1) * 300; until-end < 3600 {
			count(&fast, o)
		}
		if end := (when/300 + 1) * 300; until-end < 6*3600 {
			count(&slow, o)
		}
	}
	return
}

func ratioOf(t Tally, target float64) Ratio {
	if t.Good+t.Bad == 0 {
		return Ratio{}
	}
	return Ratio{true, float64(t.Bad) / float64(t.Good+t.Bad) / (1 - target)}
}

func near(a, b Ratio) bool { return a.Known == b.Known && math.Abs(a.Value-b.Value) < 1e-9 }

// Random requests, hours and restarts, some of which lose the last minute, come
// to what a list of all requests says.
func TestAgainstReference(t *testing.T) {
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 7))
		window := time.Duration(1+r.IntN(60)) * time.Hour
		wall, start := began, began
		ref := &reference{start: start}
		s := New(start)
		s.Configure(both(window), 0)
		now := func() Instant { return Instant{wall, wall.Sub(start)} }
		for step := range 400 {
			switch n := r.IntN(100); {
			case n < 60:
				o := &seen{good: r.IntN(3) > 0, up: now().Up, when: wall.Unix(), own: true}
				d := good()
				if !o.good {
					o.by = Spender{string(rune('a' + r.IntN(3))), string(decision.Reset)}
					d = bad(o.by.Provider, decision.Reset)
				}
				s.Observe(d, o.up)
				ref.seen = append(ref.seen, o)
			case n < 90:
				wall = wall.Add(time.Duration(r.IntN(1800)) * time.Second)
			case n < 95:
				wall = wall.Add(time.Duration(r.IntN(20)) * time.Hour)
			default:
				// The process ends, and begins anew some time later.
				records := written(t, s, "g", now())
				for _, o := range ref.seen {
					o.own = false
				}
				if r.IntN(2) == 0 {
					// Killed: what came after the last writing is lost.
					s.Observe(bad("lost", decision.Reset), now().Up)
				}
				wall = wall.Add(time.Duration(r.IntN(7200)) * time.Second)
				start = wall
				ref.start = start
				s = New(start)
				s.Restore(records, 0)
				s.Configure(both(window), 0)
			}
			got := report(t, s, now(), Availability)
			tally, fast, slow, by := ref.report(now(), window)
			gotBy := map[Spender]uint64{}
			for _, b := range got.By {
				gotBy[b.Spender] = b.Bad
			}
			if got.Tally != tally || !near(got.Spent, ratioOf(tally, 0.9)) || !near(got.Fast, ratioOf(fast, 0.9)) ||
				!near(got.Slow, ratioOf(slow, 0.9)) || !maps.Equal(by, gotBy) {
				t.Fatalf("seed %d, step %d: %+v\nwant %+v, fast %+v, slow %+v, by %v", seed, step, got, tally, fast, slow, by)
			}
			if got.Covered < 0 || got.Covered > window {
				t.Fatalf("seed %d: covered %s of %s", seed, got.Covered, window)
			}
		}
	}
}

// Whatever the wall clock does, nothing is lost and nothing counted twice: it is
// stepped forth and back by days while requests come, across restarts and for
// two gateways at once, and at its end it is right.
func TestClockSteps(t *testing.T) {
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 11))
		truth, wrong := began, time.Duration(0)
		wall := func() time.Time { return truth.Add(wrong) }
		type process struct {
			s     *Set
			start time.Time // true time
		}
		begin := func(records []Record) *process {
			p := &process{New(wall()), truth}
			p.s.Restore(records, 0)
			p.s.Configure(both(MaxWindow), 0)
			return p
		}
		gateways := []*process{begin(nil), begin(nil)}
		store := [2][]Record{}
		now := func(p *process) Instant { return Instant{wall(), truth.Sub(p.start)} }
		want := Tally{}
		check := func(what string) {
			t.Helper()
			for i, p := range gateways {
				p.s.Others(written(t, gateways[1-i].s, fmt.Sprint(1-i), now(gateways[1-i])))
				if got := report(t, p.s, now(p), Availability); got.Tally != want {
					t.Fatalf("seed %d: %s, clock wrong by %s: gateway %d has %+v, want %+v", seed, what, wrong, i, got.Tally, want)
				}
			}
		}
		for range 150 {
			i := r.IntN(2)
			p := gateways[i]
			switch n := r.IntN(10); {
			case n < 6:
				if r.IntN(2) == 0 {
					p.s.Observe(good(), now(p).Up)
					want.Good++
				} else {
					p.s.Observe(bad("a", decision.Reset), now(p).Up)
					want.Bad++
				}
			case n < 7:
				truth = truth.Add(time.Duration(r.IntN(7200)) * time.Second)
			case n < 9:
				wrong = time.Duration(r.IntN(40*24*3600)-20*24*3600) * time.Second
			default:
				store[i] = written(t, p.s, fmt.Sprint(i), now(p))
				gateways[i] = begin(store[i])
			}
			check("under way")
		}
		wrong = 0
		check("at the end")
	}
}

// A clock that is years wrong hides what earlier processes counted while it is
// wrong, and no longer; what this process counts it does not touch.
func TestClockOfYearsAhead(t *testing.T) {
	s := newSet(24 * time.Hour)
	s.Observe(bad("a", decision.Reset), 0)
	records := written(t, s, "g", at(time.Minute))
	s = newSet(24 * time.Hour)
	s.Restore(records, 0)
	s.Observe(good(), time.Minute)
	years := at(2 * time.Minute)
	years.Wall = years.Wall.AddDate(3, 0, 0)
	if r := report(t, s, years, Availability); r.Tally != (Tally{Good: 1}) {
		t.Errorf("while it is wrong: %+v", r.Tally)
	}
	kept := written(t, s, "g", years) // it is written while the clock is wrong
	if r := report(t, s, at(3*time.Minute), Availability); r.Tally != (Tally{1, 1}) {
		t.Errorf("right again: %+v", r.Tally)
	}
	// Restarted under the right clock: what has a date of the future counts, but
	// says nothing of now, and not for years.
	s = newSet(24 * time.Hour)
	s.Restore(kept, 0)
	r := report(t, s, at(time.Minute), Availability)
	if r.Tally != (Tally{1, 1}) || math.Abs(r.Fast.Value-10) > 1e-9 {
		t.Errorf("dates of the future: %+v", r)
	}
	if r := report(t, s, at(26*time.Hour), Availability); r.Tally != (Tally{}) {
		t.Errorf("a day later: %+v", r.Tally)
	}
}

// A clock that is set right after the start dates what was counted before, too.
func TestClockSetRight(t *testing.T) {
	s := New(began.AddDate(0, 0, -20))
	s.Configure(both(24*time.Hour), 0)
	s.Observe(bad("a", decision.Reset), 0)
	records := written(t, s, "g", at(time.Minute))
	s = newSet(24 * time.Hour)
	s.Restore(records, 0)
	if r := report(t, s, at(time.Hour), Availability); r.Bad != 1 {
		t.Errorf("%+v", r)
	}
}

// A request that ended in the last hour, and is counted in this one after a
// look, is not forgotten.
func TestLateForItsHour(t *testing.T) {
	s := newSet(24 * time.Hour)
	report(t, s, at(time.Hour), Availability)
	s.Observe(bad("a", decision.Reset), 10*time.Minute)
	if r := report(t, s, at(time.Hour+time.Second), Availability); r.Bad != 1 {
		t.Errorf("%+v", r)
	}
}

// Two gateways that served the same hour covered that hour once.
func TestCoveredOnce(t *testing.T) {
	a, b := newSet(24*time.Hour), newSet(24*time.Hour)
	a.Observe(good(), 0)
	b.Observe(good(), 0)
	b.Configure(nil, 90*time.Minute)
	a.Others(written(t, b, "b", at(2*time.Hour)))
	if r := report(t, a, at(2*time.Hour), Availability); r.Covered != 2*time.Hour || r.Good != 2 {
		t.Errorf("%+v", r)
	}
	c := newSet(24 * time.Hour)
	c.Others(written(t, b, "b", at(2*time.Hour)))
	if r := report(t, c, at(time.Hour), Availability); r.Covered != 90*time.Minute {
		t.Errorf("the longer of both: %+v", r)
	}
	c.Others(append(written(t, b, "b", at(2*time.Hour)), written(t, b, "d", at(2*time.Hour))...))
	if r := report(t, c, at(time.Hour), Availability); r.Covered != 90*time.Minute {
		t.Errorf("two others that served at once: %+v", r)
	}
}

// What others counted leaves the window by the wall clock, in the midst of an
// hour of this process whose clock was moved.
func TestAnHourLeavesInTime(t *testing.T) {
	s := newSet(2 * time.Hour)
	s.Others([]Record{{Gateway: "b", Model: "m", Objective: Availability, Hours: []Hour{{At: began.Unix() / 3600, Good: 1}}}})
	end := began.Truncate(time.Hour).Add(3 * time.Hour)
	moved := func(wall time.Time) Instant { return Instant{wall, wall.Add(-20 * time.Minute).Sub(began)} }
	if r := report(t, s, moved(end.Add(-time.Minute)), Availability); r.Good != 1 {
		t.Errorf("before: %+v", r.Tally)
	}
	if r := report(t, s, moved(end), Availability); r.Good != 0 {
		t.Errorf("after: %+v", r.Tally)
	}
}

// A clock that is set by less than half a slot leaves every count where it is.
func TestAClockSetALittle(t *testing.T) {
	s := newSet(24 * time.Hour)
	s.Observe(good(), 0)
	for _, by := range []time.Duration{-2 * time.Minute, -time.Second, time.Second, 2 * time.Minute} {
		now := at(time.Minute)
		now.Wall = now.Wall.Add(by)
		r := written(t, s, "g", now)[0]
		if r.Hours[0].At != began.Unix()/3600 || r.Fives[0].At != began.Unix()/300 {
			t.Errorf("set by %s: hour %d, five %d", by, r.Hours[0].At, r.Fives[0].At)
		}
	}
}

// Records of another program, or damaged, are no reason to fall.
func TestStrangeRecords(t *testing.T) {
	s := newSet(24 * time.Hour)
	h := began.Unix() / 3600
	s.Restore([]Record{{Model: "m", Objective: Availability, Hours: []Hour{{At: h, Bad: 2, By: [][2]uint64{{7, 2}}}}}}, 0)
	r := report(t, s, at(0), Availability)
	if diff := cmp.Diff([]Spend{{Spender{other, other}, 2}}, r.By); diff != "" {
		t.Error(diff)
	}
	names := slices.Collect(maps.Keys(s.earlier))
	if len(names) != 1 {
		t.Error(names)
	}
}

func BenchmarkObserve(b *testing.B) {
	s := newSet(MaxWindow)
	d := good()
	b.ReportAllocs()
	for b.Loop() {
		s.Observe(d, time.Minute)
	}
}

func BenchmarkObserveBad(b *testing.B) {
	s := newSet(MaxWindow)
	d := bad("a", decision.Reset)
	b.ReportAllocs()
	for b.Loop() {
		s.Observe(d, time.Minute)
	}
}

func BenchmarkReport(b *testing.B) {
	s := newSet(MaxWindow)
	up := time.Duration(0)
	for range 2160 {
		s.Observe(bad("a", decision.Reset), up)
		s.Observe(bad("b", decision.Reset), up)
		up += time.Hour
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Report(at(up))
	}
}
