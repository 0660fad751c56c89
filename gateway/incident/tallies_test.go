package incident

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
)

// clerk is Tallies with a clock, of a second between any two steps.
type clerk struct {
	Tallies
	now time.Time
}

func (c *clerk) later(d time.Duration) time.Time {
	c.now = c.now.Add(d)
	return c.now
}

// one counts a request that ends a second later.
func (c *clerk) one() Epoch { return c.Count(c.later(time.Second), oneMore) }

func oneMore(c *Counts) { c.Primary++ }

func same(id string) string { return id }

func (c *clerk) follow(open map[string]time.Time) { c.Follow(c.later(time.Second), open, same) }

// primary is what is collected of id.
func (c *clerk) primary(id string) int { return int(c.Of(id).Primary) }

// What a request adds: its end by who answered, each attempt by its upstream, and
// its name where it was not as it should be.
func TestWhatARequestCounts(t *testing.T) {
	attempt := func(provider string, class decision.Class, hurried bool) decision.Attempt {
		return decision.Attempt{Provider: provider, Hurried: hurried, Outcome: decision.Outcome{Class: class}}
	}
	var c Counts
	for _, r := range []struct {
		id             string
		degraded, good bool
		violation      bool
		attempts       []decision.Attempt
	}{
		{"fine", false, true, false, []decision.Attempt{attempt("a", decision.OK, false)}},
		{"switched", true, true, true, []decision.Attempt{attempt("a", decision.Reset, false), attempt("b", decision.OK, false)}},
		{"failed", false, false, false, []decision.Attempt{attempt("a", decision.ServerError, false)}},
		{"failed elsewhere", true, false, false, []decision.Attempt{attempt("b", decision.ServerError, false)}},
		{"hasty", false, true, false, []decision.Attempt{attempt("a", decision.AttemptTimeout, true), attempt("a", decision.ClientGone, false)}},
	} {
		c.Request(&decision.Decision{RequestID: r.id, Primary: "a", Violation: r.violation, Attempts: r.attempts}, r.degraded, r.good)
	}
	want := Counts{
		Primary: 2, Degraded: 1, Failed: 2, Forbidden: 1, Kept: []string{"switched", "failed", "failed elsewhere"},
		Technical: Sides{Degraded: Tally{1, 1}, Primary: Tally{1, 2}}, Workflow: Sides{Degraded: Tally{1, 1}, Primary: Tally{2, 1}},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

// A request counts in the incidents that were open when it ended, and so does what
// is reported of it later.
func TestTallies(t *testing.T) {
	l := clerk{now: day}
	l.one()
	from := map[string]time.Time{"a": l.now.Add(time.Second)}
	l.follow(from)
	first := l.one()
	from["b"] = l.now.Add(time.Second)
	l.follow(from)
	second := l.one()
	l.Note(first, "of the first")
	l.Note(second, "of the second")
	if a, b := l.primary("a"), l.primary("b"); a != 2 || b != 1 {
		t.Errorf("a %d, b %d", a, b)
	}
	p := l.Take()
	a, notes := p.Of("a")
	if a.Primary != 2 || !a.Since.Equal(from["a"]) || !slices.Equal(notes, []string{"of the first", "of the second"}) {
		t.Errorf("a %+v %q", a, notes)
	}
	if _, notes = p.Of("b"); !slices.Equal(notes, []string{"of the second"}) {
		t.Errorf("b %q", notes)
	}
	if c := l.Of("a"); !c.IsZero() {
		t.Errorf("left: %+v", c)
	}
	l.follow(map[string]time.Time{"b": from["b"]})
	l.follow(nil)
	l.one()
	l.Add(second, oneMore) // a report of what is over
	l.follow(map[string]time.Time{"c": l.now.Add(time.Second)})
	l.Add(first, oneMore)
	l.Add(second, oneMore)
	l.Add(0, oneMore)
	l.Note(second, "over")
	l.one()
	if c, notes := l.Take().Of("c"); c.Primary != 1 || len(notes) > 0 {
		t.Errorf("c %+v %q", c, notes)
	}
	// Another gateway opened one for the same: what was counted for this one is that one's.
	l.follow(map[string]time.Time{"c": l.now, "d": l.now})
	l.one()
	l.Follow(l.later(time.Second), map[string]time.Time{"d": l.now}, func(string) string { return "d" })
	if c, d := l.Of("c"), l.primary("d"); !c.IsZero() || d != 1 {
		t.Errorf("c %+v, d %d", c, d)
	}
	l.follow(map[string]time.Time{"c": l.now.Add(time.Second)})
	e := l.one()
	for range 3 * maxNotes {
		l.Note(e, "x")
	}
	if _, notes := l.Take().Of("c"); len(notes) != maxNotes {
		t.Errorf("%d notes", len(notes))
	}
}

// An incident is given what was counted since its first failure, whether others were
// given that already or not, each request once; and what is reported of it later.
func TestTalliesBeginWithTheFirstFailure(t *testing.T) {
	for _, c := range []struct {
		name         string
		taken, other bool
	}{{"pending", false, false}, {"taken", true, false}, {"taken by another", true, true}, {"pending for another", false, true}} {
		l := clerk{now: day}
		open := map[string]time.Time{}
		if c.other {
			open["o"] = l.now.Add(time.Second)
			l.follow(open)
		}
		for range 60 {
			l.one()
		}
		first := l.now.Add(time.Second)
		failed := l.one()
		for range 29 {
			l.one()
		}
		if c.taken {
			l.Take()
		}
		for range 10 {
			l.one()
		}
		open["i"] = l.later(time.Second) // opened, and then it becomes known since when it is
		l.Follow(l.now, open, same)
		if n := l.primary("i"); n != 0 {
			t.Errorf("%s: %d requests of before", c.name, n)
		}
		open["i"] = first
		for range 3 {
			l.follow(open)
		}
		l.one()
		l.Add(failed, oneMore)
		got := l.Of("i")
		if got.Primary != 42 || !got.Since.Equal(first) {
			t.Errorf("%s: %d requests since %s, want 42 since %s", c.name, got.Primary, got.Since, first)
		}
		if p, _ := l.Take().Of("i"); p.Primary != 42 || l.primary("i") != 0 {
			t.Errorf("%s: took %d, left %d", c.name, p.Primary, l.primary("i"))
		}
		if c.other {
			l.one()
			if n := l.primary("o"); n != 1 {
				t.Errorf("%s: the other has %d", c.name, n)
			}
		}
		// Closed and opened again: what came before it was closed is not counted again.
		for _, from := range []struct {
			at time.Time
			n  int
		}{{first, 2}, {l.now.Add(7 * time.Second), 1}} {
			delete(open, "i")
			l.follow(open)
			l.one()
			open["i"] = from.at
			l.follow(open)
			l.one()
			if n, _ := l.Take().Of("i"); int(n.Primary) != from.n {
				t.Errorf("%s: opened again it has %d, want %d", c.name, n.Primary, from.n)
			}
		}
	}
}

// What is kept is bounded, and an incident that began before it says so. A late
// report of a request finds the incident all the same.
func TestTalliesAreBounded(t *testing.T) {
	l := clerk{now: day}
	l.follow(map[string]time.Time{"old": l.now})
	early := l.one()
	for range 2 * int(tallied/time.Second) {
		l.one()
	}
	if n := len(l.kept); n > int(tallied/epochLength)+2 {
		t.Errorf("%d epochs are kept", n)
	}
	if n := l.primary("old"); n != 2*int(tallied/time.Second)+1 {
		t.Errorf("one that nobody took from has %d", n)
	}
	l.Take()
	l.follow(map[string]time.Time{"old": day, "new": day})
	c := l.Of("new")
	if n := int(l.now.Sub(c.Since) / time.Second); n < int(tallied/time.Second)-1 || int(c.Primary) > n+1 || int(c.Primary) < n-1 {
		t.Errorf("%d requests in the %d s since %s", c.Primary, n, c.Since)
	}
	l.Take()
	l.Add(early, oneMore)
	if o, n := l.primary("old"), l.primary("new"); o != 1 || n != 0 {
		t.Errorf("a late report: old %d, new %d", o, n)
	}
	for range 3 * maxEpochs { // incidents opened and closed between any two requests
		l.Follow(l.now, map[string]time.Time{"x": l.now}, same)
		l.Count(l.now, oneMore)
		l.Follow(l.now, nil, same)
	}
	if len(l.kept) > maxEpochs || len(l.ended) > 10 {
		t.Errorf("%d epochs, %d that ended", len(l.kept), len(l.ended))
	}
}

// Two gateways opened one each, and only then this one hears that both are one.
func TestTalliesOfOneThatBecameAnother(t *testing.T) {
	l := clerk{now: day}
	var starts []time.Time
	for range 20 {
		l.one()
		starts = append(starts, l.now)
	}
	l.Take()
	l.follow(map[string]time.Time{"mine": starts[10]})
	if n, _ := l.Take().Of("mine"); n.Primary != 10 {
		t.Errorf("mine has %d", n.Primary)
	}
	l.follow(map[string]time.Time{"mine": starts[10], "theirs": starts[5]})
	l.Follow(l.later(time.Second), map[string]time.Time{"theirs": starts[5]}, func(string) string { return "theirs" })
	l.one()
	if n := l.primary("theirs"); n != 6 {
		t.Errorf("theirs has %d more, want the 5 before and the one after", n)
	}
}

func BenchmarkTalliesCount(b *testing.B) {
	for _, name := range []string{"idle", "open"} {
		b.Run(name, func(b *testing.B) {
			var l Tallies
			now := day
			if name == "open" {
				l.Follow(now, map[string]time.Time{"a": now}, same)
			}
			d := &decision.Decision{RequestID: "r", Primary: "A", Attempts: []decision.Attempt{{Provider: "A"}}}
			d.Attempts[0].Outcome.Class = decision.OK
			b.ReportAllocs()
			for n := range b.N {
				if n%1000 == 0 { // as many a second
					now = now.Add(epochLength)
				}
				l.Count(now, func(c *Counts) { c.Request(d, false, true) })
			}
		})
	}
}

// What is said of the time that counts are since.
func TestCounted(t *testing.T) {
	at := func(s int) time.Time { return day.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		first, since time.Time
		want         string
	}{
		{time.Time{}, time.Time{}, "since it was opened at " + Clock(at(60)) + ", as no first failure is known"},
		{at(10), at(10), "since the first failure at " + Clock(at(10))},
		{at(10), at(30), "since " + Clock(at(30)) + ", after the first failure"},
		{at(10), time.Time{}, "since it was opened at " + Clock(at(60)) + ", after the first failure"}, // as it was written before
		{at(10), at(70), "since it was opened at " + Clock(at(60)) + ", after the first failure"},
	} {
		r := Record{OpenedAt: at(60), Counts: Counts{Since: c.since}}
		r.Milestones.FirstFailure = c.first
		if got := Counted(r); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
		v := View(r, false, Facts(r, nil), day)
		if v.Requests.Counted != c.want || !v.Requests.Since.Equal(r.CountsSince()) {
			t.Errorf("%+v", v.Requests)
		}
		r.State = "open"
		if n := fmt.Sprint(View(r, false, Facts(r, nil), day)); strings.Count(n, c.want) != 4 {
			t.Errorf("%q is there %d times in %s", c.want, strings.Count(n, c.want), n)
		}
	}
}
