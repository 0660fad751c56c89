package traffic

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReopenChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traffic.json")
	table, _ := open(t, path, "a", "b", "c")
	for range 100 {
		table.ObserveOwn("a", "batch")
	}
	must(t, table, Command{Upstream: "a", Share: 25, Why: "errors \"quoted\" \x1b[31m"})
	must(t, table, Command{Upstream: "b", Share: 0, By: "ben"})
	up(t, table, "b", 5)
	before, members := table.All(), membersOf(table)
	closed(t, table)

	again, told := open(t, path, "a", "b", "c")
	same := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
	// c was never touched: it starts anew.
	if diff := cmp.Diff(before[:2], again.All()[:2], same); diff != "" {
		t.Error(diff)
	}
	if got := membersOf(again); got != members {
		t.Error("other members after reopening")
	}
	if e := told.take(); len(e) != 0 {
		t.Errorf("reopening was told as %+v", e)
	}
	if s := must(t, again, Command{Upstream: "a", Undo: true}); s.Share != Full {
		t.Errorf("undo after reopening: %+v", s)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// membersOf draws who is inside, one bit for each of many requests.
func membersOf(table *Table) string {
	var b strings.Builder
	for _, upstream := range []string{"a", "b"} {
		for i := range 2000 {
			c := fmt.Sprintf("conversation-%d", i)
			if i%10 == 0 {
				c = "batch"
			}
			bit := byte('0')
			if table.Admits(upstream, c, fmt.Sprintf("request-%d", i)) {
				bit = '1'
			}
			b.WriteByte(bit)
		}
	}
	return b.String()
}

const membersEnv = "FAILBACK_TEST_MEMBERS_OF"

// TestMembersInChild is the second process of TestSecondProcess.
func TestMembersInChild(t *testing.T) {
	path := os.Getenv(membersEnv)
	if path == "" {
		return // nothing to do in the first process
	}
	table, err := Open(t.Context(), NewFile(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	table.Ensure(primaryOf("a", "b"))
	fmt.Printf("members=%s\n", membersOf(table))
}

func TestSecondProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traffic.json")
	table, _ := open(t, path, "a", "b")
	for range 100 {
		table.ObserveOwn("a", "batch")
	}
	must(t, table, Command{Upstream: "a", Share: 25})
	must(t, table, Command{Upstream: "b", Share: 75})
	want := membersOf(table)
	closed(t, table)

	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMembersInChild$")
	child.Env = append(os.Environ(), membersEnv+"="+path)
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "members="+want+"\n") {
		t.Errorf("the second process has other members:\n%.200s", out)
	}
}

func TestUnreadableFile(t *testing.T) {
	const good = `{"version":1,"upstreams":{"a":{"share":25,"revision":3,"since":"2026-11-30T04:00:00Z","by":"ana","failback_id":"2026-11-30T04"}}}`
	if _, err := parseFile([]byte(good)); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	for name, content := range map[string]string{
		"empty":            "",
		"cut":              good[:len(good)-5],
		"not JSON":         "\x00\x00\x00\x00",
		"newer":            strings.Replace(good, `"version":1`, `"version":3`, 1),
		"no version":       `{}`,
		"null":             `null`,
		"no share":         strings.Replace(good, `"share":25`, `"share":110`, 1),
		"no revision":      strings.Replace(good, `"revision":3`, `"revision":0`, 1),
		"negative":         strings.Replace(good, `"revision":3`, `"revision":-1`, 1),
		"no id":            strings.Replace(good, `2026-11-30T04"}`, `"}`, 1),
		"undo down":        strings.Replace(good, `"by":"ana"`, `"by":"ana","undo":{"share":5,"by":"ana","until":"2026-11-30T04:05:00Z"}`, 1),
		"broken split":     strings.Replace(good, `"by":"ana"`, `"by":"ana","split_by_request":["xyz"]`, 1),
		"two of them":      good + good,
		"share as a text":  strings.Replace(good, `"share":25`, `"share":"25"`, 1),
		"since not a time": strings.Replace(good, `2026-11-30T04:00:00Z`, `yesterday`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "traffic.json")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			table, err := Open(t.Context(), NewFile(path), nil)
			if err == nil {
				t.Fatalf("opened as %+v", table.All())
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("the error does not name the file or what to do: %v", err)
			}
			if left, _ := os.ReadFile(path); string(left) != content {
				t.Error("the file was changed")
			}
		})
	}
	if _, err := Open(t.Context(), NewFile(t.TempDir()), nil); err == nil {
		t.Error("a directory was opened")
	}
}

// What a crash may leave beside the file is no table and is in nobody's way.
func TestUnfinishedFileIsIgnored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traffic.json")
	if err := os.WriteFile(path+".new", []byte(`{"version":1,"upstr`), 0o600); err != nil {
		t.Fatal(err)
	}
	table, _ := open(t, path, "a")
	must(t, table, Command{Upstream: "a", Share: 5})
	closed(t, table)
	table, _ = open(t, path, "a")
	if table.Share("a") != 5 {
		t.Errorf("share %d", table.Share("a"))
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// obstruct keeps the table's file from being written until the returned
// function is called.
func obstruct(t *testing.T, path string) (clear func()) {
	t.Helper()
	if err := os.Mkdir(path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path + ".new"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnwritableFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "traffic.json")
		table, told := open(t, path, "a", "b")
		must(t, table, Command{Upstream: "b", Share: 75})
		clear := obstruct(t, path)
		told.take()

		// Lowering takes effect all the same, and is shown as unsynced.
		s := must(t, table, Command{Upstream: "a", Share: 5})
		if s.Share != 5 || !s.Unsynced || table.Share("a") != 5 {
			t.Errorf("lowered: %+v", s)
		}
		if get(t, table, "b").Unsynced {
			t.Error("b is in the file and shown as unsynced")
		}
		if err := table.Err(); err == nil || !strings.Contains(err.Error(), path+".new") {
			t.Errorf("Err: %v", err)
		}
		synctest.Wait()
		e := told.take()
		if len(e) != 3 || e[0].Action != "share" || e[1].Action != "state" || e[2].Action != "unsynced" || e[2].Result != "failed" || e[2].Detail == "" {
			t.Errorf("told %+v", e)
		}

		// Raising is refused, and nothing has changed.
		_, err := table.Set(Command{Upstream: "a", Share: 25, Revision: &s.Revision, By: "ana"})
		var write *WriteError
		if !errors.As(err, &write) || write.Current.Share != 5 || write.Current.Revision != s.Revision {
			t.Errorf("raised: %v", err)
		}
		if got := get(t, table, "a"); got.Share != 5 || got.Revision != s.Revision {
			t.Errorf("a refused raise left %+v", got)
		}
		// Again and again, without a word more.
		pass(10 * time.Minute)
		synctest.Wait()
		if e := told.take(); len(e) != 0 {
			t.Errorf("told %+v", e)
		}

		// The way is free: it is written without anybody doing anything.
		clear()
		pass(retryMost)
		synctest.Wait()
		if get(t, table, "a").Unsynced || table.Err() != nil {
			t.Errorf("still unsynced: %v", table.Err())
		}
		if e := told.take(); len(e) != 1 || e[0].Action != "synced" {
			t.Errorf("told %+v", e)
		}
		records, err := NewFile(path).Load(t.Context())
		if err != nil || records["a"].Share != 5 {
			t.Errorf("in the file: %+v, %v", records["a"], err)
		}
		up(t, table, "a", 25)
		closed(t, table)
	})
}

// A command is a reason to try at once.
func TestNextCommandWritesWhatIsUnsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "traffic.json")
		table, _ := open(t, path, "a", "b")
		clear := obstruct(t, path)
		must(t, table, Command{Upstream: "a", Share: 5})
		pass(5 * time.Minute)
		clear()
		before := time.Now()
		if s := up(t, table, "a", 25); s.Unsynced || s.Share != 25 {
			t.Errorf("%+v", s)
		}
		if waited := time.Since(before); waited != 0 {
			t.Errorf("waited %v", waited)
		}
		closed(t, table)
	})
}

func TestCloseWritesOrSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "traffic.json")
		table, _ := open(t, path, "a")
		clear := obstruct(t, path)
		must(t, table, Command{Upstream: "a", Share: 5})
		if err := table.Close(t.Context()); err == nil {
			t.Error("closed without a word, and nothing is written")
		}
		clear()
		if err := table.Close(t.Context()); err != nil {
			t.Errorf("closed again: %v", err)
		}
		if records, err := NewFile(path).Load(t.Context()); err != nil || records["a"].Share != 5 {
			t.Errorf("in the file: %+v, %v", records["a"], err)
		}
	})
}

// slow is a storage of which every Save waits until it gets the way it ends,
// once ends is set. What it refuses it has not stored.
type slow struct {
	Memory
	ends chan error
}

func (s *slow) Save(ctx context.Context, records map[string]Record) error {
	if s.ends != nil {
		if err := <-s.ends; err != nil {
			return err
		}
	}
	return s.Memory.Save(ctx, records)
}

// A disk that does not answer keeps no lowering from taking effect: TRF-01,
// the last command wins, also over a raise that waits for the disk.
func TestDiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(slow)
		table, told := openOn(t, storage, "a", "b")
		must(t, table, Command{Upstream: "a", Share: 5})
		synctest.Wait()
		ends := make(chan error)
		storage.ends = ends
		r := get(t, table, "a").Revision
		told.take()

		raised := make(chan error, 1)
		go func() {
			_, err := table.Set(Command{Upstream: "a", Share: 25, Revision: &r, By: "ben"})
			raised <- err
		}()
		synctest.Wait()
		if table.Share("a") != 5 {
			t.Fatal("a raise took effect before it was written")
		}

		before := time.Now()
		lowered := make(chan State, 1)
		go func() { lowered <- must(t, table, Command{Upstream: "a", Share: 0, Revision: rev(1)}) }()
		synctest.Wait()
		if table.Share("a") != 0 || time.Since(before) != 0 {
			t.Fatalf("at %d%% after %v", table.Share("a"), time.Since(before))
		}
		for i := range 100 {
			if table.Admits("a", fmt.Sprint(i), fmt.Sprint(i)) {
				t.Fatal("a request is admitted after the abort")
			}
		}
		s := <-lowered
		if waited := time.Since(before); waited != lowerWait || !s.Unsynced || s.Share != 0 {
			t.Errorf("answered after %v: %+v", waited, s)
		}

		// The disk comes back with the raise written: the lowering wins.
		ends <- nil
		var stale *StaleError
		if err := <-raised; !errors.As(err, &stale) || stale.Current.Share != 0 {
			t.Errorf("the raise: %v", err)
		}
		ends <- nil
		synctest.Wait()
		if s := get(t, table, "a"); s.Share != 0 || s.Unsynced {
			t.Errorf("in the end: %+v", s)
		}
		var actions []string
		for _, e := range told.take() {
			actions = append(actions, e.Action+" "+e.To)
		}
		if diff := cmp.Diff([]string{"share 0", "state degraded", "unsynced ", "synced "}, actions); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRaiseGivesUpOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(slow)
		table, _ := openOn(t, storage, "a")
		must(t, table, Command{Upstream: "a", Share: 5})
		synctest.Wait()
		ends := make(chan error)
		storage.ends = ends
		r := get(t, table, "a").Revision
		before := time.Now()
		_, err := table.Set(Command{Upstream: "a", Share: 25, Revision: &r, By: "ana"})
		if kindOf(err) != "write" || time.Since(before) != raiseWait {
			t.Errorf("after %v: %v", time.Since(before), err)
		}
		ends <- nil // the raise is written, though nobody waits for it
		synctest.Wait()
		if s := get(t, table, "a"); s.Share != 5 || s.Revision != r {
			t.Errorf("a raise that was refused took effect: %+v", s)
		}
		select {
		case ends <- nil: // and written away again
		default:
			t.Error("the file is left with a share that is not in force")
		}
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must(t, table, Command{Upstream: "a", Share: 0})
		if err := table.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		ends <- nil
	})
}
