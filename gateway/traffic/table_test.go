package traffic

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"failback/gateway/decision"
)

func TestNewUpstreamIsAtFull(t *testing.T) {
	table, told := open(t, "", "b", "a")
	s := get(t, table, "a")
	if s.Share != Full || s.Revision != 1 || s.By != decision.Auto || s.FailbackID != "" || s.Since.IsZero() || s.Unsynced || s.Undo != nil {
		t.Errorf("state %+v", s)
	}
	if table.Share("a") != Full || !table.Admits("a", "c", "r") {
		t.Error("not all of its traffic is admitted")
	}
	var names []string
	for _, s := range table.All() {
		names = append(names, s.Upstream)
	}
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("All: %v", names)
	}
	if got := told.take(); got != nil {
		t.Errorf("a start was told as %v", got)
	}
}

func TestUnknownUpstream(t *testing.T) {
	table, _ := open(t, "", "a")
	if table.Share("x") != Full || !table.Admits("x", "c", "r") {
		t.Error("a name that the table does not have is held back")
	}
	table.ObserveOwn("x", "c")
	if _, ok := table.Get("x"); ok {
		t.Error("Get knows it")
	}
	for _, c := range []Command{
		{Upstream: "x", Share: 0, By: "ana"},
		{Upstream: "a", Share: 10, By: "ana"},
		{Upstream: "a", Share: -5, By: "ana"},
		{Upstream: "a", Share: 0},
	} {
		if _, err := table.Set(c); kindOf(err) != "invalid" {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if s := get(t, table, "a"); s.Share != Full || s.Revision != 1 {
		t.Errorf("a refused command left %+v", s)
	}
}

// A failback from the lowering to its end, as the table and its events show it.
func TestFailback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, told := open(t, "", "a")
		pass(time.Until(time.Date(2026, 11, 30, 4, 59, 59, 0, time.UTC)))
		epoch := get(t, table, "a").Epoch

		s := must(t, table, Command{Upstream: "a", Share: 0, Why: " quota exhausted "})
		want := State{
			Upstream: "a", Share: 0, Revision: 2, RevisedBy: "ana", RevisedAt: time.Now(), Since: time.Now(), By: "ana", Why: "quota exhausted",
			FailbackID: "2026-11-30T04", Steps: DefaultSteps(), Epoch: epoch,
			StateSince: time.Now(), StateBy: "ana", Reason: "quota exhausted",
			Undo: &Undo{Share: 100, Condition: Whole, By: "ana", Until: time.Now().Add(5 * time.Minute)},
		}
		if diff := cmp.Diff(want, s); diff != "" {
			t.Error(diff)
		}
		if s.Condition() != Degraded || table.Admits("a", "c", "r") {
			t.Errorf("%v, or a request is admitted at 0", s.Condition())
		}

		pass(time.Hour)
		began := time.Now()
		for i, share := range []int{5, 25, 75, 100} {
			s = up(t, table, "a", share)
			if s.Share != share || s.Revision != uint64(3+i) || s.FailbackID != "2026-11-30T04" || s.Undo != nil || !s.Since.Equal(time.Now()) ||
				s.Condition() != Recovering || !s.StateSince.Equal(began) || s.Reason != "quota exhausted" {
				t.Errorf("at %d%%: %+v", share, s)
			}
			pass(time.Minute)
		}
		if !table.Admits("a", "c", "r") {
			t.Error("recovering at 100% does not admit everybody")
		}
		s, err := table.Settle("a", "held 2m", s.Revision)
		if err != nil || s.Condition() != Whole || s.FailbackID != "" || s.Revision != 7 || s.Share != 100 || s.Steps != nil || s.Reason != "" ||
			!s.StateSince.Equal(time.Now()) || s.StateBy != decision.Auto {
			t.Errorf("settled: %+v, %v", s, err)
		}
		s = must(t, table, Command{Upstream: "a", Share: 25, By: "ben"})
		if s.FailbackID != "2026-11-30T06" || s.Condition() != Recovering {
			t.Errorf("the next failback: %+v", s)
		}

		var steps []string
		for _, e := range told.take() {
			if e.Provider != "a" || e.Result != "ok" || e.Time.IsZero() ||
				(e.Kind == decision.KindTrafficStep) != (e.Action == "share") || (e.Kind == decision.KindHealthTransition) != (e.Action == "state") {
				t.Errorf("event %+v", e)
			}
			steps = append(steps, fmt.Sprintf("%s→%s %s by %s rev %d", e.From, e.To, e.Reason, e.By, e.Revision))
		}
		wantSteps := []string{
			"100→0 lowered by ana rev 2", "healthy→degraded operator by ana rev 2",
			"0→5 raised by ana rev 3", "degraded→recovering operator by ana rev 3",
			"5→25 raised by ana rev 4", "25→75 raised by ana rev 5", "75→100 raised by ana rev 6",
			"recovering→healthy recovered by auto rev 7",
			"100→25 lowered by ben rev 8", "healthy→recovering operator by ben rev 8",
		}
		if diff := cmp.Diff(wantSteps, steps); diff != "" {
			t.Error(diff)
		}
		synctest.Wait()
	})
}

// TRF-06: pressing twice takes one step.
func TestSecondPressIsIdempotent(t *testing.T) {
	table, told := open(t, "", "a")
	must(t, table, Command{Upstream: "a", Share: 5})
	told.take()
	seen := get(t, table, "a").Revision
	first := must(t, table, Command{Upstream: "a", Share: 25, Revision: &seen})
	second := must(t, table, Command{Upstream: "a", Share: 25, Revision: &seen})
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the second press changed something:\n%s", diff)
	}
	if n := len(told.take()); n != 1 {
		t.Errorf("%d events", n)
	}
}

// TRF-06, both presses at once: still one step.
func TestTwoPressesAtOnceTakeOneStep(t *testing.T) {
	table, told := open(t, "", "a")
	must(t, table, Command{Upstream: "a", Share: 5})
	told.take()
	seen := get(t, table, "a").Revision
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := table.Set(Command{Upstream: "a", Share: 25, Revision: &seen, By: "ana"})
			if err != nil || s.Share != 25 || s.Revision != seen+1 {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	wg.Wait()
	if n := len(told.take()); n != 1 {
		t.Errorf("%d events", n)
	}
}

// TRF-05: a failback that starts while another is under way moves nothing of it.
func TestFailbacksDoNotTouchEachOther(t *testing.T) {
	table, _ := open(t, "", "a", "b", "c")
	must(t, table, Command{Upstream: "a", Share: 25})
	before := get(t, table, "a")
	must(t, table, Command{Upstream: "b", Share: 0})
	up(t, table, "b", 5)
	if diff := cmp.Diff(before, get(t, table, "a")); diff != "" {
		t.Error(diff)
	}
	if s := get(t, table, "c"); s.Share != Full || s.Revision != 1 {
		t.Errorf("c: %+v", s)
	}
	// And of its own: from 25 nothing goes to full at once.
	if _, err := table.Set(Command{Upstream: "a", Share: 100, Revision: &before.Revision, By: "ana"}); kindOf(err) != "blocked" {
		t.Errorf("25 to 100: %v", err)
	}
}

// TRF-09: an override passes the gate it was given for, not the next one.
func TestOverrideIsForOneStep(t *testing.T) {
	table, told := open(t, "", "a")
	must(t, table, Command{Upstream: "a", Share: 5})
	told.take()
	r := get(t, table, "a").Revision
	s := must(t, table, Command{Upstream: "a", Share: 25, Revision: &r, BlockedBy: "no data", Override: true, Why: "no traffic at night"})
	if s.Share != 25 || s.Why != "no traffic at night" {
		t.Fatalf("%+v", s)
	}
	if e := told.take(); len(e) != 1 || e[0].Reason != "override" || e[0].Why != "no traffic at night" || e[0].By != "ana" {
		t.Errorf("told %+v", e)
	}
	_, err := table.Set(Command{Upstream: "a", Share: 75, Revision: &s.Revision, BlockedBy: "no data", By: "ana"})
	var blocked *BlockedError
	if !errors.As(err, &blocked) || blocked.By != "no data" || blocked.Current.Share != 25 {
		t.Errorf("the next step: %v", err)
	}
}

func TestUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, told := open(t, "", "a")
		must(t, table, Command{Upstream: "a", Share: 75})
		id := get(t, table, "a").FailbackID
		must(t, table, Command{Upstream: "a", Share: 5})
		pass(UndoFor)
		told.take()
		s := must(t, table, Command{Upstream: "a", Undo: true})
		if s.Share != 75 || s.FailbackID != id || s.Undo != nil || s.Revision != 4 {
			t.Errorf("after undo: %+v", s)
		}
		if e := told.take(); len(e) != 1 || e[0].Reason != "undo" || e[0].From != "5" || e[0].To != "75" {
			t.Errorf("told %+v", e)
		}
		if _, err := table.Set(Command{Upstream: "a", Undo: true, By: "ana"}); kindOf(err) != "blocked" {
			t.Errorf("a second undo: %v", err)
		}

		must(t, table, Command{Upstream: "a", Share: 0})
		pass(UndoFor + time.Nanosecond)
		if _, err := table.Set(Command{Upstream: "a", Undo: true, By: "ana"}); kindOf(err) != "blocked" {
			t.Errorf("undo too late: %v", err)
		}

		must(t, table, Command{Upstream: "a", Share: 0}) // nothing happens, so nothing can be undone
		up(t, table, "a", 5)
		if _, err := table.Set(Command{Upstream: "a", Undo: true, By: "ana"}); kindOf(err) != "blocked" {
			t.Errorf("undo after a transition: %v", err)
		}

		// One's own lowering on top of another's gives back the other's.
		must(t, table, Command{Upstream: "a", Share: 0, By: "ben"})
		if _, err := table.Set(Command{Upstream: "a", Undo: true, By: "ana"}); kindOf(err) != "blocked" {
			t.Errorf("undo of somebody else's: %v", err)
		}
		s = must(t, table, Command{Upstream: "a", Undo: true, By: "ben"})
		if s.Share != 5 {
			t.Errorf("undo came to %d%%", s.Share)
		}

		// What nobody typed can be put back by nobody in one move.
		s = must(t, table, Command{Upstream: "a", Share: 0, By: decision.Auto})
		if s.Undo != nil {
			t.Errorf("a lowering by %s can be undone: %+v", decision.Auto, s.Undo)
		}
	})
}

func TestUndoToFullEndsTheFailback(t *testing.T) {
	table, _ := open(t, "", "a")
	must(t, table, Command{Upstream: "a", Share: 5})
	if s := must(t, table, Command{Upstream: "a", Undo: true}); s.Share != Full || s.FailbackID != "" {
		t.Errorf("%+v", s)
	}
}

// A name that leaves the configuration is kept for 7 days.
func TestRemovedNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir() + "/traffic.json"
		table, told := open(t, path, "a", "b")
		must(t, table, Command{Upstream: "a", Share: 25})
		before := get(t, table, "a")
		told.take()

		table.Ensure(primaryOf("b"))
		if _, ok := table.Get("a"); ok {
			t.Error("a removed name has a state")
		}
		if _, err := table.Set(Command{Upstream: "a", Share: 0, By: "ana"}); kindOf(err) != "invalid" {
			t.Errorf("a removed name takes commands: %v", err)
		}
		if e := told.take(); len(e) != 1 || e[0].Action != "removed" || e[0].From != "25" || e[0].To != "" || e[0].Provider != "a" {
			t.Errorf("told %+v", e)
		}
		table.Ensure(primaryOf("b"))
		if e := told.take(); len(e) != 0 {
			t.Errorf("a second time: told %+v", e)
		}

		pass(KeptFor - time.Second)
		table.Ensure(primaryOf("a", "b"))
		if diff := cmp.Diff(before, get(t, table, "a")); diff != "" {
			t.Errorf("it came back different:\n%s", diff)
		}
		if e := told.take(); len(e) != 1 || e[0].Action != "returned" {
			t.Errorf("told %+v", e)
		}

		table.Ensure(primaryOf("b"))
		pass(KeptFor)
		table.Ensure(primaryOf("a", "b"))
		if s := get(t, table, "a"); s.Share != Full || s.Revision != 1 {
			t.Errorf("after 7 days: %+v", s)
		}
		closed(t, table)

		// The same over restarts: a name that the configuration lost while
		// nothing ran counts as removed from the next start on.
		table, _ = open(t, path, "b")
		must(t, table, Command{Upstream: "b", Share: 5})
		closed(t, table)
		table, _ = open(t, path, "c")
		closed(t, table)
		pass(KeptFor - time.Second)
		table, _ = open(t, path, "b", "c")
		if s := get(t, table, "b"); s.Share != 5 {
			t.Errorf("after restarts: %+v", s)
		}
		closed(t, table)
		table, _ = open(t, path, "c")
		closed(t, table)
		pass(KeptFor)
		table, _ = open(t, path, "b", "c")
		if s := get(t, table, "b"); s.Share != Full {
			t.Errorf("after restarts and 7 days: %+v", s)
		}
		closed(t, table)
	})
}

// Readers, observers and commands at once; what readers see is always whole.
func TestConcurrentUse(t *testing.T) {
	table, told := open(t, t.TempDir()+"/traffic.json", "a", "b")
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			conversation := fmt.Sprintf("c-%d", i)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				table.ObserveOwn("a", conversation)
				table.Admits("a", conversation, "r")
				if !isShare(table.Share("a"), DefaultSteps()) {
					t.Error("a share between steps")
				}
				if s := get(t, table, "a"); s.Share < Full && s.FailbackID == "" || (s.Share == 0) != (s.Condition() == Degraded) {
					t.Errorf("torn state %+v", s)
				}
				table.All()
			}
		})
	}
	for i := range 4 {
		writers.Go(func() {
			for n := range 25 {
				name := []string{"a", "b"}[n%2]
				switch i {
				case 0:
					_, err := table.Set(Command{Upstream: name, Share: 0, By: "ana"})
					if err != nil {
						t.Errorf("a lowering was refused: %v", err)
					}
				case 1:
					table.Ensure(primaryOf("a", "b", fmt.Sprintf("x%d", n)))
					table.Configure(DefaultSteps())
				case 2:
					s := get(t, table, name)
					table.Serve(time.Second)
					table.MarkPassed(name, s.Revision)
					_, _ = table.Approve(name, "ana", "", s.Revision)
					_, _ = table.Retreat(name, "evidence", "", s.Revision)
					_, _ = table.Settle(name, "", s.Revision)
					if _, err := table.Withdraw(name, "ben"); err != nil {
						t.Errorf("a withdrawal was refused: %v", err)
					}
				default:
					s := get(t, table, name)
					_, _ = table.Set(Command{Upstream: name, Share: s.Next(), Revision: &s.Revision, By: "ben"})
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()

	// Every change was told once, in order, and leads to what is in force.
	for _, name := range []string{"a", "b"} {
		share, revision := "100", uint64(1)
		for _, e := range told.all {
			if e.Provider != name {
				continue
			}
			if e.Action != "share" {
				revision = max(revision, e.Revision) // of a condition or a plan
				continue
			}
			if e.From != share || e.Revision != revision+1 {
				t.Errorf("%s: from %s revision %d after %s revision %d", name, e.From, e.Revision, share, revision)
			}
			share, revision = e.To, e.Revision
		}
		if s := get(t, table, name); fmt.Sprint(s.Share) != share || s.Revision != revision {
			t.Errorf("%s is at %d%% revision %d, told %s%% revision %d", name, s.Share, s.Revision, share, revision)
		}
	}
	closed(t, table)
}

func TestRequestPathAllocatesNothing(t *testing.T) {
	table, _ := open(t, "", "a")
	table.ObserveOwn("a", "c-1")
	must(t, table, Command{Upstream: "a", Share: 25})
	if n := testing.AllocsPerRun(1000, func() {
		table.Share("a")
		table.Admits("a", "conversation-1", "request-1")
		table.ObserveOwn("a", "c-1")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdmits(b *testing.B) {
	table, err := Open(b.Context(), new(Memory), nil)
	if err != nil {
		b.Fatal(err)
	}
	table.Ensure(primaryOf("a", "b"))
	if _, err := table.Set(Command{Upstream: "a", Share: 25, By: "ana"}); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		b.Run(fmt.Sprintf("at %d", table.Share(name)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Admits(name, "conversation-0123456789", "request-1")
			}
		})
	}
	b.Run("observe", func(b *testing.B) {
		b.ReportAllocs()
		names := conversations("random", 4096)
		for i := 0; b.Loop(); i++ {
			table.ObserveOwn("a", names[i%len(names)])
		}
	})
}
