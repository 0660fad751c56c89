package traffic

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// away is a storage that refuses what is saved while it is away.
type away struct {
	Memory
	away bool
}

func (a *away) Save(ctx context.Context, records map[string]Record) error {
	if a.away {
		return errors.New("the storage is away")
	}
	return a.Memory.Save(ctx, records)
}

// keeping opens the table on storage with the upstreams a and b, and keeps at
// path what is not stored.
func keeping(t *testing.T, storage Storage, path string) (*Table, *events) {
	t.Helper()
	table, told := openOn(t, storage, "a", "b")
	if err := table.KeepUnsynced(path); err != nil {
		t.Fatal(err)
	}
	return table, told
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// A lowering that could not be stored is in force after a restart, too, is stored
// then, and the end of the process said that it was kept.
func TestUnsyncedLoweringsOutliveTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage, path := new(away), filepath.Join(t.TempDir(), "unsynced")
		table, _ := keeping(t, storage, path)
		must(t, table, Command{Upstream: "b", Share: 75})
		synctest.Wait()
		if exists(path) {
			t.Error("a file is left of what is stored")
		}
		storage.away = true
		if s := must(t, table, Command{Upstream: "a", Share: 0, Why: "it answers nonsense"}); !s.Unsynced || !exists(path) {
			t.Fatalf("%+v, a file: %v", s, exists(path))
		}
		// A raise that was refused is not in force after a restart.
		s := get(t, table, "b")
		if _, err := table.Set(Command{Upstream: "b", Share: 100, By: "ana", Revision: &s.Revision}); err == nil {
			t.Error("raised without the storage")
		}
		err := table.Close(t.Context())
		if err == nil || !strings.Contains(err.Error(), "kept in "+path+" for the next start: a (0%)") || strings.Contains(err.Error(), "does not know") {
			t.Errorf("closed: %v", err)
		}

		storage.away = false
		table, told := keeping(t, storage, path)
		if s := get(t, table, "a"); s.Share != 0 || s.By != "ana" || s.Why != "it answers nonsense" || s.Condition() != Degraded {
			t.Errorf("after a restart: %+v", s)
		}
		if s := get(t, table, "b"); s.Share != 75 {
			t.Errorf("after a restart: %+v", s)
		}
		synctest.Wait()
		l := told.take()
		if len(l) != 2 || l[0].Provider != "a" || l[0].From != "100" || l[0].To != "0" || l[0].By != "ana" || !strings.Contains(l[0].Detail, "before this start") {
			t.Errorf("told %+v", l)
		}
		if records, err := storage.Load(t.Context()); err != nil || records["a"].Share != 0 || exists(path) || get(t, table, "a").Unsynced {
			t.Errorf("stored %+v, %v; a file: %v", records["a"], err, exists(path))
		}
		closed(t, table)
	})
}

// Of what is kept and what others stored meanwhile the lower share wins.
func TestLowestShareWinsOverWhatIsKept(t *testing.T) {
	for _, c := range []struct{ kept, stored, want int }{{25, 5, 5}, {5, 25, 5}, {0, 75, 0}, {5, 0, 0}} {
		synctest.Test(t, func(t *testing.T) {
			storage, path := new(away), filepath.Join(t.TempDir(), "unsynced")
			table, _ := keeping(t, storage, path)
			storage.away = true
			must(t, table, Command{Upstream: "a", Share: c.kept})
			if err := table.Close(t.Context()); err == nil {
				t.Fatal("closed without a word")
			}
			storage.away = false
			other, _ := openOn(t, storage, "a", "b")
			for _, share := range []int{c.stored, 75, c.stored} { // so its revision is the higher one
				if share < get(t, other, "a").Share {
					must(t, other, Command{Upstream: "a", Share: share, By: "bo"})
				}
			}
			closed(t, other)

			table, _ = keeping(t, storage, path)
			synctest.Wait()
			s := get(t, table, "a")
			records, err := storage.Load(t.Context())
			if s.Share != c.want || err != nil || records["a"].Share != c.want || records["a"].Revision != s.Revision || exists(path) {
				t.Errorf("kept %d, stored %d: %+v, stored now %+v, %v", c.kept, c.stored, s, records["a"], err)
			}
			closed(t, table)
		})
	}
}

// What is on its way to a storage that does not answer is kept before it does.
func TestKeptBeforeTheStorageAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage, path := new(slow), filepath.Join(t.TempDir(), "unsynced")
		table, _ := keeping(t, storage, path)
		storage.ends = make(chan error)
		if s := must(t, table, Command{Upstream: "a", Share: 5}); !s.Unsynced {
			t.Errorf("%+v", s)
		}
		if records, err := readKept(path); err != nil || records["a"].Share != 5 || len(records) != 1 {
			t.Errorf("kept %+v, %v", records, err)
		}
		storage.ends <- nil
		synctest.Wait()
		if exists(path) {
			t.Error("a file is left of what is stored")
		}
		closed(t, table)
	})
}

// What can be kept nowhere is named at the end.
func TestWhatIsLostIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage, path := new(away), filepath.Join(t.TempDir(), "nowhere", "unsynced")
		table, _ := keeping(t, storage, path)
		storage.away = true
		must(t, table, Command{Upstream: "b", Share: 25})
		must(t, table, Command{Upstream: "a", Share: 0})
		err := table.Close(t.Context())
		if err == nil || !strings.Contains(err.Error(), "the next start does not know of: a (0%), b (25%); set it again then") || !strings.Contains(err.Error(), "nowhere") {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestKeptFileMustBeReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "unsynced")
	if err := os.WriteFile(path, []byte(`{"version": 2, "upstreams": {"a": {}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	table, _ := openOn(t, new(Memory), "a")
	if err := table.KeepUnsynced(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("%v", err)
	}
	closed(t, table)
}
