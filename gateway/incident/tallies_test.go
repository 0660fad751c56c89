package incident

import (
	"slices"
	"testing"
)

// A request counts in the incidents that were open when it ended, and so does what
// is reported of it later.
func TestTallies(t *testing.T) {
	var l Tallies
	one := func(c *Counts) { c.Primary++ }
	if l.Now() != 0 {
		t.Error("counted while none is open")
	}
	l.Add(l.Now(), one)
	same := func(id string) string { return id }
	l.Follow([]string{"a"}, same)
	first := l.Now()
	l.Add(first, one)
	l.Follow([]string{"a", "b"}, same)
	second := l.Now()
	l.Add(second, one)
	l.Note(first, "of the first")
	l.Note(second, "of the second")
	if a, b := l.Of("a"), l.Of("b"); a.Primary != 2 || b.Primary != 1 {
		t.Errorf("a %+v, b %+v", a, b)
	}
	p := l.Take()
	a, notes := p.Of("a")
	if a.Primary != 2 || !slices.Equal(notes, []string{"of the first", "of the second"}) {
		t.Errorf("a %+v %q", a, notes)
	}
	if _, notes = p.Of("b"); !slices.Equal(notes, []string{"of the second"}) {
		t.Errorf("b %q", notes)
	}
	if c := l.Of("a"); !c.IsZero() {
		t.Errorf("left: %+v", c)
	}
	l.Follow([]string{"b"}, same)
	if l.Now() != second {
		t.Errorf("that one is closed made %d of %d", l.Now(), second)
	}
	l.Follow(nil, same)
	if l.Now() != 0 {
		t.Error("counted after all were closed")
	}
	l.Follow([]string{"c"}, same)
	l.Add(first, one) // a report of what was long over
	l.Add(second, one)
	l.Add(l.Now(), one)
	if c := l.Of("c"); c.Primary != 1 {
		t.Errorf("c %+v", c)
	}
	// Another gateway opened one for the same: what was counted for this one is that one's.
	l.Follow([]string{"c", "d"}, same)
	l.Add(l.Now(), one)
	l.Follow([]string{"d"}, func(id string) string { return map[string]string{"c": "d", "d": "d"}[id] })
	if c, d := l.Of("c"), l.Of("d"); !c.IsZero() || d.Primary != 2 {
		t.Errorf("c %+v, d %+v", c, d)
	}
	l.Follow([]string{"c"}, same)
	for range 3 * maxNotes {
		l.Note(l.Now(), "x")
	}
	if _, notes := l.Take().Of("c"); len(notes) != maxNotes {
		t.Errorf("%d notes", len(notes))
	}
}
