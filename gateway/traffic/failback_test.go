package traffic

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"failback/gateway/decision"
)

func degraded(t *testing.T, table *Table, upstream, by string) State {
	t.Helper()
	s, err := table.Degrade(Degradation{Upstream: upstream, By: by, Reason: "groups_red", Detail: "12/20 failed"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func retreated(t *testing.T, table *Table, upstream string) State {
	t.Helper()
	s, err := table.Retreat(upstream, "evidence", "3 of 60 failed", get(t, table, upstream).Revision)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMachineDegrades(t *testing.T) {
	table, told := open(t, "", "a")
	s := degraded(t, table, "a", decision.Auto)
	if s.Condition() != Degraded || !s.Machine || s.Undo != nil || s.By != decision.Auto || s.StateBy != decision.Auto || s.Reason != "12/20 failed" || s.Revision != 2 {
		t.Errorf("%+v", s)
	}
	e := told.take()
	if len(e) != 2 || e[0].Kind != decision.KindTrafficStep || e[0].Reason != "degraded" || e[1].Kind != decision.KindHealthTransition ||
		e[1].Reason != "groups_red" || e[1].Detail != "12/20 failed" || e[1].From != "healthy" || e[1].To != "degraded" || e[1].By != decision.Auto {
		t.Errorf("told %+v", e)
	}
	if again := degraded(t, table, "a", decision.Auto); again.Revision != s.Revision {
		t.Errorf("again: %+v", again)
	}

	// An operator takes over: it gets nothing any more. The machine does not
	// take it back.
	s = must(t, table, Command{Upstream: "a", Share: 0, Why: "maintenance"})
	if s.Machine || s.Revision != 3 || s.StateBy != "ana" || s.Reason != "maintenance" || s.FailbackID == "" {
		t.Errorf("taken over: %+v", s)
	}
	if e := told.take(); len(e) != 1 || e[0].From != "degraded" || e[0].To != "degraded" || e[0].Reason != "operator" {
		t.Errorf("told %+v", e)
	}
	for _, by := range []string{decision.Auto, "ben"} {
		if again := degraded(t, table, "a", by); again.Revision != s.Revision || again.Machine {
			t.Errorf("again by %s: %+v", by, again)
		}
	}
	for _, d := range []Degradation{{Upstream: "x", By: decision.Auto}, {Upstream: "a"}} {
		if _, err := table.Degrade(d); kindOf(err) != "invalid" {
			t.Errorf("%+v: %v", d, err)
		}
	}
}

// Degrading at a step drops the marks that the failed step contradicts; a
// person who degrades says nothing of them.
func TestDegradeKeepsWhatPassedBelow(t *testing.T) {
	for by, want := range map[string][]int{decision.Auto: {5}, "ana": {5, 25}} {
		table, _ := open(t, "", "a")
		s := must(t, table, Command{Upstream: "a", Share: 5})
		table.MarkPassed("a", s.Revision)
		s = up(t, table, "a", 25)
		table.MarkPassed("a", s.Revision)
		if s = degraded(t, table, "a", by); !slices.Equal(s.Passed, want) {
			t.Errorf("by %s: passed %v, want %v", by, s.Passed, want)
		}
	}
}

func TestRetreat(t *testing.T) {
	table, told := open(t, "", "a")
	if _, err := table.Retreat("a", "evidence", "", 1); kindOf(err) != "blocked" {
		t.Errorf("a whole upstream: %v", err)
	}
	s := must(t, table, Command{Upstream: "a", Share: 5})
	id := s.FailbackID
	table.MarkPassed("a", s.Revision)
	table.MarkPassed("a", s.Revision-1) // of another revision: nobody knows of what
	s = up(t, table, "a", 25)
	s = up(t, table, "a", 75)
	table.MarkPassed("a", s.Revision)
	if _, err := table.Retreat("a", "evidence", "", s.Revision-1); kindOf(err) != "stale" {
		t.Errorf("judged on another revision: %v", err)
	}
	told.take()
	s = retreated(t, table, "a")
	// The window of 25 did not pass.
	if s.Share != 5 || s.Retreats != 1 || s.FailbackID != id || s.Condition() != Recovering || s.By != decision.Auto || s.Undo != nil || !slices.Equal(s.Passed, []int{5}) {
		t.Errorf("first: %+v", s)
	}
	if e := told.take(); len(e) != 1 || e[0].Reason != "retreat" || e[0].From != "75" || e[0].To != "5" {
		t.Errorf("told %+v", e)
	}
	s = retreated(t, table, "a")
	if s.Share != 0 || !s.Machine || s.Retreats != 2 || s.Condition() != Degraded || s.Reason != "3 of 60 failed" || len(s.Passed) != 0 {
		t.Errorf("second: %+v", s)
	}
	if e := told.take(); len(e) != 2 || e[1].To != "degraded" || e[1].Reason != "evidence" {
		t.Errorf("told %+v", e)
	}
	if _, err := table.Retreat("a", "evidence", "", s.Revision); kindOf(err) != "blocked" {
		t.Errorf("a degraded upstream: %v", err)
	}
	if _, err := table.Set(Command{Upstream: "a", Share: 5, Revision: &s.Revision, By: decision.Auto}); kindOf(err) != "blocked" {
		t.Errorf("a step that nobody typed after two retreats: %v", err)
	}
	up(t, table, "a", 5)
}

func TestSettle(t *testing.T) {
	table, _ := open(t, "", "a")
	if _, err := table.Settle("a", "", 1); kindOf(err) != "blocked" {
		t.Errorf("a whole upstream: %v", err)
	}
	s := must(t, table, Command{Upstream: "a", Share: 75})
	if _, err := table.Settle("a", "", s.Revision); kindOf(err) != "blocked" {
		t.Errorf("at 75%%: %v", err)
	}
	s = up(t, table, "a", Full)
	if _, err := table.Settle("a", "", s.Revision-1); kindOf(err) != "stale" {
		t.Errorf("judged on another revision: %v", err)
	}
	id := s.FailbackID
	lowered := must(t, table, Command{Upstream: "a", Share: 25})
	if lowered.FailbackID != id || id == "" {
		t.Errorf("lowered while recovering at full: %+v", lowered)
	}
	up(t, table, "a", 75)
	s = settled(t, table, "a")
	if again, err := table.Settle("a", "", s.Revision); kindOf(err) != "blocked" {
		t.Errorf("twice: %+v, %v", again, err)
	}
}

// A failback that begins in the same hour has other members.
func TestEveryFailbackHasItsOwnID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(Memory)
		table, _ := openOn(t, storage, "a")
		var ids []string
		for range 3 {
			s := must(t, table, Command{Upstream: "a", Share: 75})
			ids = append(ids, s.FailbackID)
			settled(t, table, "a")
			closed(t, table)
			table, _ = openOn(t, storage, "a")
		}
		// One that was put back has not been.
		undone := must(t, table, Command{Upstream: "a", Share: 5}).FailbackID
		must(t, table, Command{Upstream: "a", Undo: true})
		ids = append(ids, must(t, table, Command{Upstream: "a", Share: 5}).FailbackID)
		if ids[3] != undone {
			t.Errorf("after an undo %s, before %s", ids[3], undone)
		}
		if diff := cmp.Diff([]string{"2000-01-01T00", "2000-01-01T00.2", "2000-01-01T00.3", "2000-01-01T00.4"}, ids); diff != "" {
			t.Error(diff)
		}
		closed(t, table)
	})
}

func TestCollapse(t *testing.T) {
	table, _ := open(t, "", "a")
	s := must(t, table, Command{Upstream: "a", Share: 0})
	if _, err := table.Set(Command{Upstream: "a", Share: 5, Revision: &s.Revision, By: "ana", Collapse: true}); kindOf(err) != "blocked" {
		t.Errorf("to a step at which nothing can be learned: %v", err)
	}
	s = must(t, table, Command{Upstream: "a", Share: Full, Revision: &s.Revision, Collapse: true})
	if s.Share != Full || s.Condition() != Recovering {
		t.Errorf("%+v", s)
	}
}

func TestPlan(t *testing.T) {
	table, told := open(t, "", "a")
	if _, err := table.Approve("a", "ana", "", 1); kindOf(err) != "blocked" {
		t.Errorf("no failback: %v", err)
	}
	s := must(t, table, Command{Upstream: "a", Share: 0})
	if _, err := table.Approve("a", "ana", "", s.Revision-1); kindOf(err) != "stale" {
		t.Errorf("on an old revision: %v", err)
	}
	for _, by := range []string{"", decision.Auto, decision.ByPlan("ana")} {
		if _, err := table.Approve("a", by, "", s.Revision); kindOf(err) != "invalid" {
			t.Errorf("by %q: %v", by, err)
		}
	}
	told.take()
	byPlan := func(name string, share int) (State, error) {
		s := get(t, table, "a")
		return table.Set(Command{Upstream: "a", Share: share, Revision: &s.Revision, By: decision.ByPlan(name)})
	}
	if _, err := byPlan("ana", 5); kindOf(err) != "blocked" {
		t.Errorf("a step of no plan: %v", err)
	}
	approved, err := table.Approve("a", "ana", "go", s.Revision)
	if err != nil || approved.Plan == nil || approved.Plan.By != "ana" || approved.Revision != s.Revision+1 || approved.Share != 0 || approved.Undo == nil {
		t.Fatalf("%+v, %v", approved, err)
	}
	if again, err := table.Approve("a", "ana", "go", s.Revision); err != nil || again.Revision != approved.Revision {
		t.Errorf("a second press: %+v, %v", again, err)
	}
	if e := told.take(); len(e) != 1 || e[0].Action != "plan" || e[0].Reason != "approved" || e[0].By != "ana" || e[0].Why != "go" || e[0].To != "" {
		t.Errorf("told %+v", e)
	}
	if _, err := byPlan("ben", 5); kindOf(err) != "blocked" {
		t.Errorf("a step of somebody else's plan: %v", err)
	}
	stepped, err := byPlan("ana", 5)
	if err != nil || stepped.By != "plan:ana" || stepped.Plan == nil {
		t.Errorf("%+v, %v", stepped, err)
	}
	if e := told.take(); len(e) != 2 || e[0].By != "plan:ana" || e[1].Reason != "plan" {
		t.Errorf("told %+v", e)
	}
	if s := up(t, table, "a", 25); s.Plan == nil {
		t.Error("a person's raise ended the plan")
	}
	if s, err := table.Withdraw("a", "ben"); err != nil || s.Plan != nil {
		t.Errorf("withdrawn: %+v, %v", s, err)
	}
	if e := told.take(); len(e) != 2 || e[1].Action != "plan" || e[1].Reason != "ended" || e[1].By != "ben" || e[1].Detail != "approved by ana" {
		t.Errorf("told %+v", e)
	}
	if s, err := table.Withdraw("a", "ben"); err != nil || s.Revision != get(t, table, "a").Revision {
		t.Errorf("withdrawn again: %+v, %v", s, err)
	}
}

func TestPlanEnds(t *testing.T) {
	type step struct {
		do   func(*testing.T, *Table)
		ends bool
	}
	tests := map[string][]step{
		"a person lowers": {{func(t *testing.T, table *Table) { must(t, table, Command{Upstream: "a", Share: 5, By: "ben"}) }, true}},
		"two retreats": {
			{func(t *testing.T, table *Table) { retreated(t, table, "a") }, false},
			{func(t *testing.T, table *Table) { up(t, table, "a", 25); retreated(t, table, "a") }, true},
		},
		"degraded":           {{func(t *testing.T, table *Table) { degraded(t, table, "a", decision.Auto) }, true}},
		"degraded by person": {{func(t *testing.T, table *Table) { degraded(t, table, "a", "ben") }, true}},
		"settled": {
			{func(t *testing.T, table *Table) { up(t, table, "a", 75) }, false},
			{func(t *testing.T, table *Table) { settled(t, table, "a") }, true},
		},
		"removed": {{func(_ *testing.T, table *Table) { table.Ensure(nil); table.Ensure(primaryOf("a")) }, true}},
		"withdrawn": {{func(t *testing.T, table *Table) {
			if _, err := table.Withdraw("a", "ben"); err != nil {
				t.Error(err)
			}
		}, true}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			table, _ := open(t, "", "a")
			s := must(t, table, Command{Upstream: "a", Share: 5})
			table.MarkPassed("a", s.Revision)
			s = up(t, table, "a", 25)
			if _, err := table.Approve("a", "ana", "", s.Revision); err != nil {
				t.Fatal(err)
			}
			for i, step := range steps {
				step.do(t, table)
				if s := get(t, table, "a"); (s.Plan == nil) != step.ends {
					t.Errorf("after step %d: %+v", i, s)
				}
			}
		})
	}
}

// Who wrote a revision is told of it, not of the share or the condition that it
// left as they were.
func TestRevised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(Memory)
		table, _ := openOn(t, storage, "a")
		degraded(t, table, "a", decision.Auto)
		since := time.Now()
		is := func(what, by string) {
			t.Helper()
			s := get(t, table, "a")
			if s.RevisedBy != by || !s.RevisedAt.Equal(time.Now()) {
				t.Errorf("%s: revision %d by %s at %v", what, s.Revision, s.RevisedBy, s.RevisedAt)
			}
			if !s.Since.Equal(since) {
				t.Errorf("%s moved the share: %+v", what, s)
			}
		}
		is("degraded", decision.Auto)
		pass(time.Minute)
		if _, err := table.Approve("a", "ana", "", get(t, table, "a").Revision); err != nil {
			t.Fatal(err)
		}
		is("approved", "ana")
		pass(time.Minute)
		if _, err := table.Withdraw("a", "ben"); err != nil {
			t.Fatal(err)
		}
		is("withdrawn", "ben")
		at := time.Now()
		pass(time.Minute)
		if s := get(t, table, "a"); s.RevisedBy != "ben" || !s.RevisedAt.Equal(at) {
			t.Errorf("a minute on: %+v", s)
		}
		// A record that was stored without says the newest of what it knows.
		old := Record{By: "ana", Since: at, StateBy: decision.Auto, StateSince: at.Add(-time.Hour), Plan: &Plan{By: "cat", At: at.Add(time.Hour)}}
		if s := old.state("a"); s.RevisedBy != "cat" || !s.RevisedAt.Equal(old.Plan.At) {
			t.Errorf("%+v", s)
		}
	})
}

// Whoever approved a plan for a degraded upstream is told no by the person who
// degrades it once more: after the first step it would climb all the same.
func TestPlanEndsWhereDegradedAgain(t *testing.T) {
	downs := map[string]func(*testing.T, *Table, string){
		"degrade": func(t *testing.T, table *Table, by string) { degraded(t, table, "a", by) },
		"share 0": func(t *testing.T, table *Table, by string) { must(t, table, Command{Upstream: "a", Share: 0, By: by}) },
	}
	for how, down := range downs {
		for _, first := range []string{"ben", decision.Auto} {
			t.Run(how+" after "+first, func(t *testing.T) {
				table, told := open(t, "", "a")
				s := degraded(t, table, "a", first)
				if s, err := table.Approve("a", "ana", "", s.Revision); err != nil || s.Plan == nil {
					t.Fatalf("%+v, %v", s, err)
				}
				down(t, table, decision.Auto)
				before := get(t, table, "a")
				if before.Plan == nil {
					t.Fatal("the machine, which had nothing to degrade, ended the plan")
				}
				told.take()
				down(t, table, "ben")
				after := get(t, table, "a")
				if after.Plan != nil || after.Revision != before.Revision+1 || after.Share != 0 || after.Machine {
					t.Errorf("%+v", after)
				}
				if e := told.take(); len(e) == 0 || e[len(e)-1].Action != "plan" || e[len(e)-1].Reason != "ended" || e[len(e)-1].By != "ben" {
					t.Errorf("told %+v", e)
				}
				down(t, table, "ben")
				if again := get(t, table, "a"); again.Revision != after.Revision {
					t.Errorf("once more changed something: %+v", again)
				}
			})
		}
	}
}

// What passed, served and was stepped to counts for what it was primary of.
func TestChangedPrimary(t *testing.T) {
	storage := new(Memory)
	table, told := openOn(t, storage, "a", "b")
	s := must(t, table, Command{Upstream: "a", Share: 5})
	table.MarkPassed("a", s.Revision)
	table.Serve(time.Minute)
	before := get(t, table, "a")
	told.take()

	table.Ensure(map[string][]string{"a": {"m"}, "b": {"m"}})
	if diff := cmp.Diff(before, get(t, table, "a")); diff != "" || len(told.take()) != 0 {
		t.Errorf("the same again changed something:\n%s", diff)
	}
	table.Ensure(map[string][]string{"a": {"n", "m"}, "b": nil})
	s = get(t, table, "a")
	if s.Epoch == before.Epoch || s.Served != 0 || len(s.Passed) != 0 || s.Share != 5 || s.Revision != before.Revision {
		t.Errorf("%+v", s)
	}
	if e := told.take(); len(e) != 1 || e[0].Provider != "a" || e[0].Action != "primary_changed" || e[0].To != "" {
		t.Errorf("told %+v", e)
	}
	if nothing := get(t, table, "b").Epoch; nothing == "" || nothing == before.Epoch {
		t.Errorf("epoch of a primary of nothing: %q", nothing)
	}
	table.MarkPassed("a", s.Revision)
	closed(t, table)

	// Order is no change, a change during the downtime is one.
	table, err := Open(t.Context(), storage, told.add)
	if err != nil {
		t.Fatal(err)
	}
	table.Ensure(map[string][]string{"a": {"m", "n"}, "b": nil})
	if s := get(t, table, "a"); !slices.Equal(s.Passed, []int{5}) {
		t.Errorf("in another order: %+v", s)
	}
	closed(t, table)
	if table, err = Open(t.Context(), storage, told.add); err != nil {
		t.Fatal(err)
	}
	table.Ensure(map[string][]string{"a": {"m"}, "b": nil})
	if s := get(t, table, "a"); len(s.Passed) != 0 || s.Epoch != before.Epoch {
		t.Errorf("after the downtime: %+v", s)
	}
	closed(t, table)
}

func TestConfigureIsForTheNextFailback(t *testing.T) {
	table, _ := open(t, "", "a", "b")
	must(t, table, Command{Upstream: "a", Share: 5})
	mine := []Step{{Share: 10, Observe: time.Minute}, {Share: Full}}
	table.Configure(mine)
	mine[0].Share = 99
	if s := get(t, table, "a"); s.Next() != 25 {
		t.Errorf("the one under way: %+v", s)
	}
	s := must(t, table, Command{Upstream: "b", Share: 0})
	if diff := cmp.Diff([]Step{{Share: 10, Observe: time.Minute}, {Share: Full}}, s.Steps); diff != "" {
		t.Error(diff)
	}
	// A copy: changing it changes nothing.
	s.Steps[0].Share = 99
	up(t, table, "b", 10)
	defer func() {
		if recover() == nil {
			t.Error("steps that do not reach 100 were taken")
		}
	}()
	table.Configure([]Step{{Share: 10}})
}

// Two operators on the same revision: one wins, the other is told what is.
func TestTwoOperators(t *testing.T) {
	for range 20 {
		table, _ := open(t, "", "a")
		seen := must(t, table, Command{Upstream: "a", Share: 0}).Revision
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i, c := range []Command{{Share: 5, By: "ana"}, {Share: 25, By: "ben", Override: true, Why: "vendor confirmed"}} {
			c.Upstream, c.Revision = "a", &seen
			wg.Go(func() { _, errs[i] = table.Set(c) })
		}
		wg.Wait()
		s := get(t, table, "a")
		if s.Revision != seen+1 {
			// ana's 5 after ben's 25 is a lowering, and those always count.
			if s.Share != 5 || s.Revision != seen+2 || errs[0] != nil || errs[1] != nil {
				t.Errorf("%+v, %v", s, errs)
			}
			continue
		}
		loser := errs[0]
		if s.By == "ana" {
			loser = errs[1]
		}
		var stale *StaleError
		if !errors.As(loser, &stale) || stale.Current.Revision != s.Revision || stale.Current.Share != s.Share || stale.Current.By != s.By {
			t.Errorf("%+v, %v", s, errs)
		}
	}
}
