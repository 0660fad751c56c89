package traffic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A Space-Saving count is never too low, and too high by at most what it says;
// no key with more than a room-th of the stream is missing.
func TestSpaceSavingBounds(t *testing.T) {
	const room, n = 50, 20_000
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 1, 5000)
	s := newSpaceSaving(room)
	truth := map[uint64]uint64{}
	for range n {
		k := zipf.Uint64()
		s.add(k)
		truth[k]++
	}
	counted := map[uint64]bool{}
	for i, c := range s.counters {
		counted[c.key] = true
		if c.count < truth[c.key] || c.count-c.over > truth[c.key] {
			t.Errorf("key %d: counted %d (over by at most %d), in truth %d", c.key, c.count, c.over, truth[c.key])
		}
		if c.over > n/room {
			t.Errorf("key %d may be over by %d, more than %d", c.key, c.over, n/room)
		}
		if s.at[c.key] != i {
			t.Errorf("key %d is looked for at %d and is at %d", c.key, s.at[c.key], i)
		}
		if i > 0 && s.counters[(i-1)/2].count > c.count {
			t.Errorf("counter %d is below its parent", i)
		}
	}
	for k, count := range truth {
		if count > n/room && !counted[k] {
			t.Errorf("key %d with %d of %d is missing", k, count, n)
		}
	}
}

// traffic observes n requests of which every tenth is the batch job's, every
// hundredth exactly the one at the edge, over d.
func observe(table *Table, n int, d time.Duration) {
	for i := range n {
		pass(d / time.Duration(n))
		switch {
		case i%10 == 0:
			table.ObserveOwn("a", "batch")
		case i%100 == 1:
			table.ObserveOwn("a", "edge")
		default:
			table.ObserveOwn("a", fmt.Sprintf("user-%d", i%5000))
		}
	}
}

// heavyAfter returns which of the conversations are split once a failback starts.
func split(table *Table, conversations ...string) []string {
	m := (*table.view.Load())["a"]
	var l []string
	for _, c := range conversations {
		if _, ok := m.heavy[Key(conversationKey(c))]; ok {
			l = append(l, c)
		}
	}
	if len(l) != len(m.heavy) {
		l = append(l, fmt.Sprintf("%d others", len(m.heavy)-len(l)))
	}
	return l
}

func TestHeavyConversationsAreSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir() + "/traffic.json"
		table, _ := open(t, path, "a")
		observe(table, 20_000, 9*time.Minute)
		must(t, table, Command{Upstream: "a", Share: 25})
		if got := split(table, "batch", "edge"); !slices.Equal(got, []string{"batch"}) {
			t.Errorf("split: %v", got)
		}
		inside := 0
		for i := range 1000 {
			if table.Admits("a", "batch", fmt.Sprintf("r-%d", i)) {
				inside++
			}
		}
		if inside < 180 || inside > 320 {
			t.Errorf("%d of 1000 requests of the batch job inside 25%%", inside)
		}

		// Decided when the failback starts: what grows later is not split, what
		// was split stays so, also in the next process.
		for range 5000 {
			table.ObserveOwn("a", "late")
		}
		up(t, table, "a", 75)
		closed(t, table)
		table, _ = open(t, path, "a")
		if got := split(table, "batch", "edge", "late"); !slices.Equal(got, []string{"batch"}) {
			t.Errorf("later: split %v", got)
		}
		settled(t, table, "a")
		if got := split(table, "batch", "edge", "late"); len(got) != 0 {
			t.Errorf("settled: split %v", got)
		}
		closed(t, table)
	})
}

// Only the last ten minutes count.
func TestHeavyForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := open(t, "", "a")
		for range 1000 {
			table.ObserveOwn("a", "old")
		}
		pass(10 * time.Minute)
		for i := range 1000 {
			table.ObserveOwn("a", fmt.Sprintf("c-%d", i))
		}
		must(t, table, Command{Upstream: "a", Share: 5})
		if got := split(table, "old"); len(got) != 0 {
			t.Errorf("split: %v", got)
		}

		// Nor does it without anything new.
		must(t, table, Command{Upstream: "a", Undo: true})
		pass(10 * time.Minute)
		table.ObserveOwn("a", "last")
		pass(10 * time.Minute)
		must(t, table, Command{Upstream: "a", Share: 5})
		if got := split(table, "last"); len(got) != 0 {
			t.Errorf("split after silence: %v", got)
		}
	})
}

// Requests without a conversation make the whole larger and are nobody's.
func TestHeavyWithoutConversation(t *testing.T) {
	table, _ := open(t, "", "a")
	for i := range 1000 {
		table.ObserveOwn("a", "")
		if i%101 == 0 {
			table.ObserveOwn("a", "c")
		}
	}
	must(t, table, Command{Upstream: "a", Share: 5})
	if got := split(table, "", "c"); len(got) != 0 {
		t.Errorf("split: %v", got)
	}
}

// A conversation is not called heavy for what may be others' in its count.
func TestHeavyIsSure(t *testing.T) {
	table, _ := open(t, "", "a")
	for i := range 40_000 {
		table.ObserveOwn("a", fmt.Sprintf("c-%d", i))
	}
	for range 350 {
		table.ObserveOwn("a", "almost")
	}
	must(t, table, Command{Upstream: "a", Share: 5})
	if got := split(table, "almost"); len(got) != 0 {
		t.Errorf("split: %v", got)
	}
}
