package operator

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
)

func entry(id, phase string) api.AuditEntry {
	return api.AuditEntry{Time: time.Now(), ID: id, Phase: phase, Action: actionShare, Target: "a", By: "ana"}
}

func mustOpen(t *testing.T, path string) (*audit, []api.AuditEntry) {
	t.Helper()
	a, recent, err := openAudit(path, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return a, recent
}

func mustAppend(t *testing.T, a *audit, e api.AuditEntry) {
	t.Helper()
	if err := a.append(e, time.Minute); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t *testing.T, a *audit) {
	t.Helper()
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
}

func TestAuditSurvivesRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, recent := mustOpen(t, path)
	if len(recent) != 0 {
		t.Errorf("a new file has %v", recent)
	}
	mustAppend(t, a, entry("1", api.PhaseAsked))
	mustAppend(t, a, entry("1", api.PhaseDone))
	mustClose(t, a)
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	a, recent = mustOpen(t, path)
	defer mustClose(t, a)
	if len(recent) != 2 || recent[0].Phase != api.PhaseAsked || recent[1].Phase != api.PhaseDone {
		t.Errorf("recent: %+v", recent)
	}
	if l, _ := a.newest(1); len(l) != 1 || l[0].Phase != api.PhaseDone {
		t.Errorf("newest: %+v", l)
	}
}

// A crash may tear the last line anywhere. Whole lines stay as they are, every
// line of the mended file is one entry, and what was torn off is still told.
func TestTornLastLine(t *testing.T) {
	dir := t.TempDir()
	first := string(appendLine(nil, entry("first", api.PhaseDone)))
	second := string(appendLine(nil, api.AuditEntry{ID: "second", Phase: api.PhaseRefused, Why: "ümläut \x1b[2J"}))
	for cut := range len(second) + 1 {
		path := filepath.Join(dir, fmt.Sprint(cut))
		if err := os.WriteFile(path, []byte(first+second[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		a, _ := mustOpen(t, path)
		mustAppend(t, a, entry("third", api.PhaseDone))
		mustClose(t, a)
		var ids []string
		for _, e := range readAudit(t, path) {
			ids = append(ids, e.ID)
			if e.Phase == api.PhaseMended {
				ids[len(ids)-1] = "mended"
				want := strings.ToValidUTF8(second[:cut], "\uFFFD")
				if e.Message != "torn last line: "+want {
					t.Errorf("cut at %d: message %q", cut, e.Message)
				}
			}
		}
		want := "first mended third"
		switch {
		case cut == 0:
			want = "first third"
		case cut >= len(second)-1: // only its end was missing, or nothing
			want = "first second third"
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("cut at %d: %s, want %s", cut, got, want)
		}
	}
}

// After a power cut a file may end in zeros that were never written.
func TestTornByZeros(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	first := appendLine(nil, entry("first", api.PhaseDone))
	if err := os.WriteFile(path, append(first, make([]byte, 5000)...), 0o600); err != nil {
		t.Fatal(err)
	}
	a, _ := mustOpen(t, path)
	mustClose(t, a)
	l := readAudit(t, path)
	if len(l) != 2 || l[0].ID != "first" || l[1].Phase != api.PhaseMended {
		t.Errorf("%+v", l)
	}
}

// Lines that are not ours, and a file longer than what is read at start.
func TestForeignAndLongFiles(t *testing.T) {
	dir := t.TempDir()
	line := string(appendLine(nil, entry("x", api.PhaseDone)))
	for name, content := range map[string]string{
		"foreign": "# by hand\n\n" + line,
		"long":    strings.Repeat(line, auditTail/len(line)+100),
		"one":     strings.Repeat("x", auditTail+10),
		"empty":   "",
		"newline": "\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		a, _ := mustOpen(t, path)
		mustAppend(t, a, entry("new", api.PhaseDone))
		mustClose(t, a)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rest, ok := strings.CutPrefix(string(b), content)
		if !ok || !strings.Contains(strings.TrimPrefix(rest, "\n"), `"id":"new"`) || strings.Count(strings.TrimPrefix(rest, "\n"), "\n") != 1 {
			t.Errorf("%s: the content changed, or ends with %.200q", name, rest)
		}
	}
}

func TestCommandsWithoutResultAreUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var b []byte
	b = appendLine(b, entry("done", api.PhaseAsked))
	b = appendLine(b, entry("lost", api.PhaseAsked))
	b = appendLine(b, entry("done", api.PhaseDone))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // said once, not at every start
		a, _ := mustOpen(t, path)
		mustClose(t, a)
	}
	l := readAudit(t, path)
	if len(l) != 4 || l[3].ID != "lost" || l[3].Result != api.ResultUnknown || l[3].By != "ana" {
		t.Errorf("%+v", l)
	}
}

func TestRotatedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, _ := mustOpen(t, path)
	mustAppend(t, a, entry("1", api.PhaseDone))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, a, entry("2", api.PhaseDone))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, a, entry("3", api.PhaseDone))
	mustClose(t, a)
	for p, want := range map[string]string{path + ".1": "1", path: "3"} {
		if l := readAudit(t, p); len(l) != 1 || l[0].ID != want {
			t.Errorf("%s: %+v", p, l)
		}
	}
}

// block makes the audit file unwritable for real: it is moved away and a
// directory put in its place. The function it returns undoes that.
func block(t *testing.T, path string) (unblock func()) {
	t.Helper()
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnwritableEntriesWaitInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var log testLog
	a, _, err := openAudit(path, log.add)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, a, entry("1", api.PhaseDone))
	unblock := block(t, path)
	for _, id := range []string{"2", "3"} {
		if err := a.append(entry(id, api.PhaseDone), time.Minute); err == nil {
			t.Error("no error")
		}
	}
	l, status := a.newest(10)
	if status.Pending != 2 || status.Error == "" || len(l) != 3 || l[0].ID != "3" {
		t.Errorf("%+v %+v", status, l)
	}
	unblock()
	mustAppend(t, a, entry("4", api.PhaseDone))
	if status := a.stat(); status != (api.AuditStatus{}) {
		t.Errorf("%+v", status)
	}
	mustClose(t, a)
	var ids string
	for _, e := range readAudit(t, path) {
		ids += e.ID
	}
	if ids != "1234" {
		t.Errorf("order %s", ids)
	}
	if s := log.text(); strings.Count(s, "cannot be written") != 1 || strings.Count(s, "written again") != 1 {
		t.Errorf("log: %s", s)
	}
}

// A write that failed halfway leaves no half line behind.
func TestFailedWriteIsCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	f, _, err := openAuditFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	good := appendLine(nil, entry("1", api.PhaseDone))
	if err := f.write(good); err != nil {
		t.Fatal(err)
	}
	f.sync = func(f *os.File) error { return errors.New("the disk is gone") }
	if err := f.write(good); err == nil {
		t.Fatal("no error")
	}
	if b, _ := os.ReadFile(path); string(b) != string(good) {
		t.Errorf("after a failed sync: %q", b)
	}
	f.sync = (*os.File).Sync
	if err := f.write(good); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != string(good)+string(good) {
		t.Errorf("afterwards: %q", b)
	}
}

func TestQueueIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, _ := mustOpen(t, path)
	unblock := block(t, path)
	a.mu.Lock()
	for range maxPending {
		a.queue = append(a.queue, queued{entry: entry("x", api.PhaseDone), done: make(chan error, 1)})
	}
	a.mu.Unlock()
	if err := a.append(entry("y", api.PhaseDone), time.Minute); !errors.Is(err, errAuditFull) {
		t.Errorf("%v", err)
	}
	if s := a.stat(); s.Lost != 1 || s.Pending != maxPending {
		t.Errorf("%+v", s)
	}
	unblock()
	mustClose(t, a)
	if n := len(readAudit(t, path)); n != maxPending {
		t.Errorf("%d entries", n)
	}
	if err := a.append(entry("z", api.PhaseDone), time.Minute); !errors.Is(err, errAuditClosed) {
		t.Errorf("after close: %v", err)
	}
}

// What could not be written is tried again although nobody writes anything.
func TestPendingEntriesAreRetried(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	synctest.Test(t, func(t *testing.T) {
		a, _ := mustOpen(t, path)
		unblock := block(t, path)
		if err := a.append(entry("1", api.PhaseDone), time.Minute); err == nil {
			t.Error("no error")
		}
		unblock()
		bubble.Sleep(auditRetry + time.Second) // the bubble's clock
		synctest.Wait()
		if s := a.stat(); s.Pending != 0 || s.Error != "" {
			t.Errorf("%+v", s)
		}
		mustClose(t, a)
	})
}

// A disk that hangs: a command is refused in time, lowering a share takes
// effect in time, and all of it is written when the disk comes back.
func TestHangingDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		control := newFakeControl()
		s, err := New(Options{
			AuditPath: filepath.Join(dir, "audit.jsonl"), Control: control, Line: testLine, EventLine: testEventLine,
		})
		if err != nil {
			t.Fatal(err)
		}
		a, _ := mustOpen(t, s.o.AuditPath)
		s.audit = a
		hang := make(chan struct{})
		a.to.(*auditFile).sync = func(f *os.File) error { <-hang; return f.Sync() }
		ana := identity{name: "ana", role: api.RoleOperator, via: viaTCPToken}
		r, err := newRequest()
		if err != nil {
			t.Fatal(err)
		}

		perform := func(c api.Command) (*api.Result, *api.Error) {
			e := entryOf(r, ana, actionShare, "a")
			describe(&e, c)
			return s.perform(r, ana, e, c)
		}

		begun := time.Now()
		up := api.Command{Share: new(75), Revision: new(uint64(7))}
		_, refused := perform(up)
		if refused == nil || refused.HTTPStatus != 503 || !strings.Contains(refused.Message, "nothing was changed") {
			t.Errorf("raising: %+v", refused)
		}
		if took := time.Since(begun); took > auditWait+lateAuditWait {
			t.Errorf("raising took %v", took)
		}
		if made := control.made(); len(made) != 0 {
			t.Errorf("raising took effect: %v", made)
		}

		begun = time.Now()
		res, refused := perform(api.Command{Share: new(0)})
		if refused != nil || !res.AuditPending || res.Upstream.Share != 0 {
			t.Errorf("lowering: %+v %+v", res, refused)
		}
		if took := time.Since(begun); took > lateAuditWait {
			t.Errorf("lowering took %v", took)
		}

		close(hang)
		synctest.Wait()
		mustClose(t, a)
		var got []string
		for _, e := range readAudit(t, s.o.AuditPath) {
			got = append(got, e.Phase+" "+e.To+" "+e.Result)
		}
		if want := "[asked 75  done 75 failed done 0 ok]"; fmt.Sprint(got) != want {
			t.Errorf("audit %v, want %v", got, want)
		}
	})
}

func TestManyWritersShareSyncs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, _ := mustOpen(t, path)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() { mustAppend(t, a, entry(fmt.Sprint(i), api.PhaseDone)) })
	}
	all.Wait()
	mustClose(t, a)
	seen := map[string]bool{}
	for _, e := range readAudit(t, path) {
		seen[e.ID] = true
	}
	if len(seen) != 200 {
		t.Errorf("%d entries", len(seen))
	}
}

// TestAuditChild writes entries until it is killed and says which are on disk.
func TestAuditChild(t *testing.T) {
	path := os.Getenv("FAILBACK_TEST_AUDIT")
	if path == "" {
		t.Skip("requires its parent: a process that is killed")
	}
	a, _, err := openAudit(path, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				e := entry(fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i), api.PhaseDone)
				e.Why = strings.Repeat("why ", 200)
				if err := a.append(e, time.Minute); err != nil {
					panic(err)
				}
				fmt.Printf("on disk %s\n", e.ID)
			}
		})
	}
	all.Wait()
}

// A gateway killed while it writes: what it said was written is there, every
// line is whole after the next start, and nothing is there twice.
func TestKillWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	want := map[string]bool{}
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestAuditChild$", "-test.v")
		cmd.Env = append(os.Environ(), "FAILBACK_TEST_AUDIT="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		n := 0
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if id, ok := strings.CutPrefix(sc.Text(), "on disk "); ok {
				want[id] = true
				if n++; n == 20+round*7 {
					cmd.Process.Kill()
				}
			}
		}
		cmd.Wait()
		// Tear what the kill left, as a crash of the machine would.
		if round%2 == 1 {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(f, `{"time":"2026-01-01T00:00:00Z","id":"torn`)
			f.Close()
		}
	}
	a, _ := mustOpen(t, path)
	mustClose(t, a)
	got := map[string]bool{}
	mended := 0
	for _, e := range readAudit(t, path) {
		if e.Phase == api.PhaseMended {
			mended++
			continue
		}
		if got[e.ID] {
			t.Errorf("%s is there twice", e.ID)
		}
		got[e.ID] = true
	}
	for id := range want {
		if !got[id] {
			t.Errorf("%s was on disk and is lost", id)
		}
	}
	if len(want) < 100 || mended < 2 {
		t.Errorf("%d entries, %d mended: too few to say anything", len(want), mended)
	}
}
