package probe

import (
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)

func at(now time.Duration) moment { return moment{now: now, wall: noon.Add(now)} }

func perToken(usd float64) func(int, int) float64 {
	return func(in, out int) float64 { return usd * float64(in+out) }
}

func TestDueWithinItsJitter(t *testing.T) {
	const every = 100 * time.Second
	for _, tc := range []struct {
		name string
		s    standing
		want time.Duration
	}{
		{"the first at the earliest", standing{since: 7 * time.Second}, 57 * time.Second},
		{"the first at the latest", standing{since: 7 * time.Second, draw: 1}, 157 * time.Second},
		{"a later one at the earliest", standing{tried: true, begun: time.Hour}, time.Hour + 90*time.Second},
		{"in the middle", standing{tried: true, begun: time.Hour, draw: 0.5}, time.Hour + 100*time.Second},
		{"a later one at the latest", standing{tried: true, begun: time.Hour, draw: 1}, time.Hour + 110*time.Second},
		{"at a faster pace", standing{tried: true, begun: time.Hour, draw: 1, pace: 15 * time.Second}, time.Hour + 16500*time.Millisecond},
		{"a pace slower than its own", standing{tried: true, begun: time.Hour, draw: 0.5, pace: time.Hour}, time.Hour + 100*time.Second},
		{"held until then", standing{tried: true, begun: time.Hour, again: time.Hour + time.Second}, time.Hour + time.Second},
		{"held for longer than its turn", standing{tried: true, begun: time.Hour, draw: 0.5, again: 2 * time.Hour}, time.Hour + 100*time.Second},
	} {
		got, held := due(at(time.Hour), tc.s, &Target{Every: every})
		if got != tc.want || held != "" {
			t.Errorf("%s: %v %q, want %v", tc.name, got, held, tc.want)
		}
	}
	if got, _ := due(at(0), standing{tried: true, draw: 0.5}, &Target{}); got != DefaultEvery {
		t.Errorf("%v", got)
	}
}

func TestDueWithinItsCost(t *testing.T) {
	s := standing{tried: true, begun: 0, draw: 0.5, spent: 0.9, cost: 0.05}
	m := at(time.Minute)
	target := Target{MaxCostPerDay: 1, Cost: perToken(1), Expect: 0.1}
	if _, held := due(m, s, &target); held != "" {
		t.Errorf("the last that fits: %q", held)
	}
	s.cost = 0.11 // the last one cost more than was expected
	next, held := due(m, s, &target)
	if held != HeldCost || m.wall.Add(next-m.now) != noon.Add(12*time.Hour) {
		t.Errorf("%v %q", next, held)
	}
	target.Cost = nil
	if _, held := due(m, s, &target); held != "" {
		t.Error("a cost that nobody knows binds")
	}
	free := Target{Cost: perToken(0)}
	if _, held := due(m, standing{}, &free); held != "" {
		t.Error("a free probe is held by a cap of 0")
	}
	free.Expect = 0.001
	if _, held := due(m, standing{}, &free); held == "" {
		t.Error("a cap of 0 allows what costs")
	}
}

// The wall clock may be set at will: distances do not change, and no day has
// two budgets.
func TestClockIsSet(t *testing.T) {
	s := standing{tried: true, begun: time.Hour, draw: 0.5}
	want, _ := due(at(time.Hour), s, &Target{})
	for _, shift := range []time.Duration{-time.Hour, time.Hour, -1000 * time.Hour} {
		m := at(time.Hour)
		m.wall = m.wall.Add(shift)
		if got, _ := due(m, s, &Target{}); got != want {
			t.Errorf("set by %v: due %v, want %v", shift, got, want)
		}
	}

	halfPast := time.Date(2026, 3, 30, 0, 30, 0, 0, time.UTC)
	day := func(w time.Time) int64 { return moment{wall: w}.day() }
	l := ledger{day: day(halfPast), usd: 0.3}
	l.turn(day(halfPast.Add(-time.Hour))) // back over midnight
	if l.usd != 0.3 {
		t.Error("forgot what was spent")
	}
	l.turn(day(halfPast)) // and there again
	if l.usd != 0.3 {
		t.Error("midnight came twice, and with it a second budget")
	}
	l.turn(day(halfPast.Add(24 * time.Hour)))
	if l.usd != 0 {
		t.Error("a new day has a new budget")
	}
	l = ledger{day: day(halfPast.AddDate(1, 0, 0)), usd: 0.3} // it was a year ahead
	l.turn(day(halfPast))
	if l.usd != 0.3 {
		t.Error("forgot what was spent")
	}
	l.turn(day(halfPast.AddDate(0, 0, 1)))
	if l.usd != 0 {
		t.Error("held for a year")
	}
}
