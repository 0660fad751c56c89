package traffic

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
)

// recordOf is what the table would store of upstream.
func recordOf(t *testing.T, table *Table, upstream string) Record {
	t.Helper()
	table.mu.Lock()
	defer table.mu.Unlock()
	return table.entries[upstream].record().clone()
}

func merge(table *Table, upstream string, r Record) {
	table.Merge(map[string]Record{upstream: r})
}

func TestMergeTakesTheNewer(t *testing.T) {
	table, told := open(t, "", "a")
	other, _ := open(t, "", "a")
	must(t, other, Command{Upstream: "a", Share: 5, By: "ben", Why: "errors there"})
	up(t, other, "a", 25)
	merge(table, "a", recordOf(t, other, "a"))
	s := get(t, table, "a")
	if want := get(t, other, "a"); s.Share != 25 || s.Revision != 3 || s.FailbackID != want.FailbackID || s.By != want.By || s.Unsynced {
		t.Errorf("%+v, want %+v", s, want)
	}
	e := told.take()
	if len(e) != 2 || e[0].Reason != "merged" || e[0].From != "100" || e[0].To != "25" || e[0].Revision != 3 || e[1].From != "healthy" || e[1].To != "recovering" {
		t.Errorf("told %+v", e)
	}

	// The same again, and what is older, change nothing.
	older := recordOf(t, other, "a")
	older.Share, older.Revision = 5, 2
	merge(table, "a", recordOf(t, other, "a"))
	merge(table, "a", older)
	if got := get(t, table, "a"); got.Revision != 3 || got.Share != 25 || len(told.take()) != 0 {
		t.Errorf("%+v", got)
	}

	// What grows within a revision: every mark counts, and the longer time.
	marked := recordOf(t, other, "a")
	marked.Passed, marked.Served = []int{25}, time.Minute
	table.Serve(time.Second)
	merge(table, "a", marked)
	if got := get(t, table, "a"); len(got.Passed) != 1 || got.Served != time.Minute || got.Revision != 3 {
		t.Errorf("%+v", got)
	}

	marked.Passed, marked.Served = nil, time.Second
	merge(table, "a", marked)
	if got := get(t, table, "a"); len(got.Passed) != 1 || got.Served != time.Minute {
		t.Errorf("what another one lacks is lost here: %+v", got)
	}

	// Stored by the other one: a command on the revision seen before is stale.
	seen := uint64(1)
	if _, err := table.Set(Command{Upstream: "a", Share: 75, Revision: &seen, By: "ana"}); kindOf(err) != "stale" {
		t.Errorf("%v", err)
	}
}

// Both changed while they could not hear each other: the lower share wins on
// both sides, under a revision that neither had.
func TestMergeLowerWins(t *testing.T) {
	for _, shares := range [][2]int{{25, 5}, {5, 25}, {0, 5}, {5, 0}, {5, 5}, {0, 0}} {
		synctest.Test(t, func(t *testing.T) {
			first := new(Memory)
			table, _ := openOn(t, first, "a")
			must(t, table, Command{Upstream: "a", Share: 75})
			closed(t, table)

			var storages [2]*counted
			var tables [2]*Table
			for i, by := range []string{"ana", "ben"} {
				storages[i] = &counted{Memory: Memory{records: maps.Clone(first.records)}}
				tables[i], _ = openOn(t, storages[i], "a")
				storages[i].set(true)
				must(t, tables[i], Command{Upstream: "a", Share: shares[i], By: by})
				if i == 0 {
					pass(time.Second)
				}
			}
			one, two := recordOf(t, tables[0], "a"), recordOf(t, tables[1], "a")
			merge(tables[0], "a", two)
			merge(tables[1], "a", one)
			for i, table := range tables {
				s := get(t, table, "a")
				if s.Share != min(shares[0], shares[1]) || s.Revision <= max(one.Revision, two.Revision) {
					t.Errorf("%v: gateway %d: %+v", shares, i, s)
				}
				storages[i].set(false)
			}
			pass(time.Minute)
			synctest.Wait()
			one, two = recordOf(t, tables[0], "a"), recordOf(t, tables[1], "a")
			if !same(one, two) {
				t.Errorf("%v: they do not agree:\n%+v\n%+v", shares, one, two)
			}
			merge(tables[0], "a", two)
			merge(tables[1], "a", one)
			for i, table := range tables {
				kept := storages[i].of("a")
				if s := get(t, table, "a"); s.Unsynced || s.Revision != one.Revision || !same(kept[len(kept)-1], one) {
					t.Errorf("%v: gateway %d: %+v, stored %+v", shares, i, s, kept)
				}
			}
		})
	}
}

// At the same share the stricter of two conditions wins.
func TestStricter(t *testing.T) {
	now := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	whole := Record{Version: RecordVersion, Share: Full, Revision: 4, By: decision.Auto, StateBy: decision.Auto, Since: now}
	machine := lowered(whole, Command{By: decision.Auto}, DefaultSteps(), now)
	operator := lowered(whole, Command{By: "ana"}, DefaultSteps(), now)
	recovering := lowered(whole, Command{By: "ana", Share: 5}, DefaultSteps(), now)
	full := raised(recovering, Command{By: "ana", Share: Full}, now)
	planned := recovering
	planned.Plan = &Plan{By: "ana", At: now}
	newer := recovering
	newer.Revision++
	order := []Record{operator, machine, newer, recovering, planned, full, whole}
	for i, a := range order {
		for j, b := range order {
			if got := stricter(a, b); i != j && got != (i < j) {
				t.Errorf("%d wins over %d: %v", i, j, got)
			}
		}
	}
}

func TestMergeRefusesWhatCannotBe(t *testing.T) {
	table, told := open(t, "", "a", "b")
	other, _ := open(t, "", "a")
	bad := recordOf(t, other, "a")
	bad.Share, bad.Revision = 50, 7
	must(t, other, Command{Upstream: "a", Share: 5})
	good := recordOf(t, other, "a")
	table.Merge(map[string]Record{"a": bad, "b": good})
	if s := get(t, table, "a"); s.Share != Full || s.Revision != 1 {
		t.Errorf("%+v", s)
	}
	if s := get(t, table, "b"); s.Share != 5 {
		t.Errorf("the good one: %+v", s)
	}
	if e := told.take(); len(e) != 3 || e[0].Provider != "a" || e[0].Result != "failed" || e[0].Detail == "" {
		t.Errorf("told %+v", e)
	}
}

// A name that another gateway's configuration lacks is no less here.
func TestMergeOfNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(counted)
		table, told := openOn(t, storage, "a")
		s := must(t, table, Command{Upstream: "a", Share: 5})
		synctest.Wait()
		told.take()
		r := recordOf(t, table, "a")
		r.Removed = time.Now()
		merge(table, "a", r)
		synctest.Wait()
		if got := get(t, table, "a"); got.Revision != s.Revision || got.Share != 5 || len(told.take()) != 0 {
			t.Errorf("%+v", got)
		}
		if l := storage.of("a"); !l[len(l)-1].Removed.IsZero() {
			t.Error("the storage has it as removed")
		}

		// And one that this configuration lacks waits for it.
		r.Removed = time.Time{}
		merge(table, "b", r)
		if _, ok := table.Get("b"); ok || len(told.take()) != 0 {
			t.Error("a name of another gateway is an upstream here")
		}
		table.Ensure(primaryOf("a", "b"))
		if got := get(t, table, "b"); got.Share != 5 || got.FailbackID != s.FailbackID {
			t.Errorf("%+v", got)
		}
		closed(t, table)
	})
}

// A storage that tells what was stored, also to the one who stored it, as a
// store that gateways share does, makes no change out of it.
func TestMergeOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := &echo{}
		table, told := openOn(t, storage, "a")
		storage.set(table)
		must(t, table, Command{Upstream: "a", Share: 0})
		for _, share := range []int{5, 25, 75} {
			up(t, table, "a", share)
			table.MarkPassed("a", get(t, table, "a").Revision)
			pass(time.Minute)
			table.Serve(time.Minute)
			must(t, table, Command{Upstream: "a", Share: 5})
			up(t, table, "a", 25)
			for get(t, table, "a").Share < share {
				up(t, table, "a", 75)
			}
		}
		settled(t, table, "a")
		synctest.Wait()
		for _, e := range told.take() {
			if e.Reason == "merged" {
				t.Errorf("told %+v", e)
			}
		}
		if s := get(t, table, "a"); s.Unsynced || s.Condition() != Whole {
			t.Errorf("%+v", s)
		}
	})
}

// echo merges what it stores before Save returns.
type echo struct {
	Memory

	mu      sync.Mutex // guards everything that follows
	table   *Table
	lie     error  // what Save returns although it stored
	highest Record // the highest revision it was given
}

func (e *echo) set(table *Table) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.table = table
}

func (e *echo) Save(ctx context.Context, records map[string]Record) error {
	_ = e.Memory.Save(ctx, records)
	e.mu.Lock()
	table, lie := e.table, e.lie
	if r := records["a"]; r.Revision > e.highest.Revision {
		e.highest = r
	}
	e.mu.Unlock()
	if table != nil && lie == nil {
		table.Merge(maps.Clone(records))
	}
	return lie
}

// A raise that was refused because the storage failed, and got there all the
// same, is raised nowhere: neither here nor, by a higher revision, elsewhere.
func TestRefusedRaiseThatWasStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(echo)
		table, _ := openOn(t, storage, "a")
		s := must(t, table, Command{Upstream: "a", Share: 5})
		synctest.Wait()
		storage.mu.Lock()
		storage.lie = errDown
		storage.mu.Unlock()
		if _, err := table.Set(Command{Upstream: "a", Share: 25, Revision: &s.Revision, By: "ana"}); kindOf(err) != "write" {
			t.Fatal(err)
		}
		synctest.Wait()
		storage.mu.Lock()
		landed := storage.highest
		storage.mu.Unlock()
		if landed.Share != 25 {
			t.Fatalf("stored %+v", landed)
		}
		elsewhere, _ := open(t, "", "a")
		merge(elsewhere, "a", landed)
		merge(table, "a", landed)
		storage.mu.Lock()
		storage.lie = nil
		storage.mu.Unlock()
		pass(time.Minute)
		synctest.Wait()
		if got := get(t, table, "a"); got.Share != 5 || got.Revision <= landed.Revision {
			t.Errorf("here: %+v", got)
		}
		merge(elsewhere, "a", storage.records["a"])
		if got := get(t, elsewhere, "a"); got.Share != 5 {
			t.Errorf("elsewhere: %+v", got)
		}
	})
}

// What another gateway stored while an older revision of this one is on its way
// is not undone by that.
func TestMergeWhileStoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(slow)
		table, _ := openOn(t, storage, "a")
		must(t, table, Command{Upstream: "a", Share: 75})
		closed(t, table)
		newer := recordOf(t, table, "a")
		storage.ends = make(chan error)
		table, _ = openOn(t, storage, "a")
		table.MarkPassed("a", newer.Revision)
		synctest.Wait()

		newer = lowered(newer, Command{Share: 5, By: "ben"}, nil, time.Now())
		merge(table, "a", newer)
		storage.ends <- nil
		storage.ends <- nil
		synctest.Wait()
		kept, err := storage.Load(t.Context())
		if s := get(t, table, "a"); err != nil || s.Share != 5 || !same(kept["a"], newer) {
			t.Errorf("at %d%%, stored %+v, %v", s.Share, kept["a"], err)
		}
	})
}

// contested is a storage in which another gateway was first: it takes that in
// and refuses.
type contested struct {
	Memory

	mu    sync.Mutex // guards everything that follows
	first func()
}

func (c *contested) set(first func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first = first
}

func (c *contested) Save(ctx context.Context, records map[string]Record) error {
	c.mu.Lock()
	first := c.first
	c.first = nil
	c.mu.Unlock()
	if first != nil {
		first()
		return errDown
	}
	return c.Memory.Save(ctx, records)
}

// Two operators at two gateways: the one whose raise came second learns what
// the first did, as at one gateway.
func TestRaiseBehindAnotherGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(contested)
		table, _ := openOn(t, storage, "a")
		s := must(t, table, Command{Upstream: "a", Share: 5})
		synctest.Wait()
		theirs := raised(recordOf(t, table, "a"), Command{Share: 25, By: "ben"}, time.Now())
		storage.set(func() { merge(table, "a", theirs) })
		_, err := table.Set(Command{Upstream: "a", Share: 25, Revision: &s.Revision, By: "ana"})
		stale, is := errors.AsType[*StaleError](err)
		if !is || stale.Current.Share != 25 || stale.Current.By != "ben" || stale.Current.Revision != theirs.Revision {
			t.Errorf("%v", err)
		}
		closed(t, table)
		if kept := storage.records["a"]; !same(kept, theirs) {
			t.Errorf("stored %+v", kept)
		}

		// A lowering goes through all the same.
		theirs = raised(recordOf(t, table, "a"), Command{Share: 75, By: "ben"}, time.Now())
		storage.set(func() { merge(table, "a", theirs) })
		if s := must(t, table, Command{Upstream: "a", Share: 0}); s.Share != 0 {
			t.Errorf("%+v", s)
		}
		closed(t, table)
		if kept := storage.records["a"]; kept.Share != 0 || kept.Revision != theirs.Revision+1 {
			t.Errorf("stored %+v", kept)
		}
	})
}
