package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator"
	"failback/gateway/operator/api"
	"failback/gateway/store"
	"failback/gateway/traffic"
)

func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t *testing.T, s *store.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func openShares(t *testing.T, s *store.Store) *shareStorage {
	t.Helper()
	st, err := newShareStorage(s)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// tableOn opens a table of the upstreams a and b on st, and closes it.
func tableOn(t *testing.T, st *shareStorage) *traffic.Table {
	t.Helper()
	table, err := traffic.Open(t.Context(), st, nil)
	if err != nil {
		t.Fatal(err)
	}
	st.merge = table.Merge
	table.Ensure(map[string][]string{"a": {"m"}, "b": nil})
	t.Cleanup(func() { closeTable(t, table) })
	return table
}

func closeTable(t *testing.T, table *traffic.Table) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := table.Close(ctx); err != nil {
		t.Error(err)
	}
}

func setShare(t *testing.T, table *traffic.Table, share int) traffic.State {
	t.Helper()
	state, err := table.Set(traffic.Command{Upstream: "a", Share: share, By: "ana", Why: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// holds waits until table has the share for a.
func holds(t *testing.T, table *traffic.Table, share int) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		s, _ := table.Get("a")
		if s.Share == share && !s.Unsynced {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("a is at %+v, not at %d%%", s, share)
		}
	}
}

func TestSharesSurviveInTheStore(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	table := tableOn(t, openShares(t, s))
	want := setShare(t, table, 25)
	if want.Unsynced {
		t.Fatal("not written")
	}
	closeTable(t, table)
	closeStore(t, s)

	table = tableOn(t, openShares(t, openStore(t, dir)))
	got, ok := table.Get("a")
	if !ok || got.Share != 25 || got.Revision != want.Revision || got.FailbackID != want.FailbackID || got.By != "ana" {
		t.Fatalf("%+v, was %+v", got, want)
	}
	setShare(t, table, 5)
}

// Two gateways on one store, each telling the other.
func TestTwoTablesAgree(t *testing.T) {
	s := openStore(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	var tables []*traffic.Table
	ended := make(chan error, 2)
	for range 2 {
		st := openShares(t, s)
		table := tableOn(t, st)
		tables = append(tables, table)
		go func() { ended <- st.follow(ctx, func(err error) { t.Error(err) }) }()
	}
	setShare(t, tables[0], 25)
	holds(t, tables[1], 25)
	setShare(t, tables[1], 5)
	holds(t, tables[0], 5)
	holds(t, tables[1], 5)
	// Both lower at once: the lower share wins in both.
	done := make(chan struct{})
	go func() { defer close(done); setShare(t, tables[0], 0) }()
	setShare(t, tables[1], 0)
	<-done
	for _, table := range tables {
		holds(t, table, 0)
	}
	cancel()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// A gateway that was told nothing does not overwrite what another one wrote.
func TestUnseenChangeIsTakenInFirst(t *testing.T) {
	s := openStore(t, t.TempDir())
	one, two := tableOn(t, openShares(t, s)), tableOn(t, openShares(t, s))
	setShare(t, one, 5)
	setShare(t, two, 25)
	holds(t, two, 5)
	records, err := openShares(t, s).Load(t.Context())
	if err != nil || records["a"].Share != 5 {
		t.Fatalf("%+v, %v", records, err)
	}
}

// A write that got there although it failed is no change of another's.
func TestOwnWriteOfUnknownEnd(t *testing.T) {
	s := openStore(t, t.TempDir())
	st := openShares(t, s)
	st.merge = func(r map[string]traffic.Record) { t.Errorf("taken for another gateway's: %+v", r) }
	first := traffic.Record{Version: traffic.RecordVersion, Share: 100, Revision: 1, By: "x", StateBy: "x"}
	save := func(r traffic.Record) {
		t.Helper()
		if err := st.Save(t.Context(), map[string]traffic.Record{"a": r}); err != nil {
			t.Fatal(err)
		}
	}
	save(first)
	st.learn("a", 0) // as if the answer had been lost
	save(first)
	st.learn("a", 0)
	second := first
	second.Revision = 2
	save(second)
	if e, err := st.bucket.Get(t.Context(), "a"); err != nil || e.Value.Revision != 2 {
		t.Fatalf("%+v, %v", e, err)
	}
	gone := second
	gone.Removed = time.Now().Add(-2 * traffic.KeptFor)
	save(gone)
	if _, err := st.bucket.Get(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("a record as good as none: %v", err)
	}
}

func TestSharesOfANewerProgramAreRefused(t *testing.T) {
	s := openStore(t, t.TempDir())
	b, err := store.NewBucket[traffic.Record](s, store.BucketOptions{Name: sharesBucket, Version: traffic.RecordVersion + 1, History: 8})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "a", traffic.Record{}); err != nil {
		t.Fatal(err)
	}
	_, err = traffic.Open(t.Context(), openShares(t, s), nil)
	if _, is := errors.AsType[*store.VersionError](err); !is || !strings.Contains(err.Error(), `"a"`) {
		t.Fatalf("%v", err)
	}
}

func TestImportOfTheShareTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traffic.json")
	s := openStore(t, t.TempDir())
	if err := importShares(t.Context(), path, openShares(t, s)); err != nil {
		t.Fatal(err)
	}
	write := func(share int) {
		t.Helper()
		table, err := traffic.Open(t.Context(), traffic.NewFile(path), nil)
		if err != nil {
			t.Fatal(err)
		}
		table.Ensure(map[string][]string{"a": {"m"}})
		setShare(t, table, share)
		closeTable(t, table)
	}
	imported := func(want int) {
		t.Helper()
		st := openShares(t, s)
		if err := importShares(t.Context(), path, st); err != nil {
			t.Fatal(err)
		}
		records, err := st.Load(t.Context())
		if err != nil || records["a"].Share != want {
			t.Fatalf("%+v, %v; %d%% is wanted", records, err, want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the file is still in its place")
		}
		if _, err := os.Stat(path + ".imported"); err != nil {
			t.Error(err)
		}
	}
	write(25)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	imported(25)
	// An older program ran in between: what it wrote is newer.
	write(5)
	imported(5)
	// A copy of old times is not.
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	imported(5)
}

func TestAuditInTheStore(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	a, err := newStoredAudit(s)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := a.Recent(t.Context(), 10); err != nil || len(l) != 0 || a.Shared() {
		t.Fatalf("%v, %v", l, err)
	}
	entry := func(i int) api.AuditEntry {
		return api.AuditEntry{Time: time.Unix(int64(i), 5), ID: fmt.Sprint(i), Phase: api.PhaseDone, Why: "ümläut \x1b"}
	}
	for i := range 6 {
		for range 2 { // again, as after an error
			if err := a.Append(t.Context(), entry(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	newer, err := store.NewStream[int](s, store.StreamOptions{Name: auditStream, Version: 2, MaxBytes: auditBytes})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newer.Append(t.Context(), "", 7); err != nil {
		t.Fatal(err)
	}
	if err := a.Append(t.Context(), entry(6)); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if a, err = newStoredAudit(openStore(t, dir)); err != nil {
		t.Fatal(err)
	}
	l, err := a.Recent(t.Context(), 4)
	if err != nil || len(l) != 4 {
		t.Fatalf("%+v, %v", l, err)
	}
	if l[0].ID != "4" || l[1].ID != "5" || l[3].ID != "6" || operator.AuditID(l[3]) != operator.AuditID(entry(6)) || l[3].Why != entry(6).Why {
		t.Errorf("%+v", l)
	}
	if l[2].Phase != api.PhaseMended || !strings.Contains(l[2].Message, "version 2") {
		t.Errorf("an entry of a newer program: %+v", l[2])
	}
}
