package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestRestartKeepsEverything(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := openDir(t, dir)
	b, st := bucket(t, s, BucketOptions{Name: "things"}), stream(t, s, StreamOptions{Name: "lines"})
	r := mustPut(t, b, "a b", thing{1, "x"})
	mustAppend(t, st, 1)
	closeStore(t, s)

	s = openDir(t, dir)
	b, st = bucket(t, s, BucketOptions{Name: "things", MaxBytes: 1 << 20}), stream(t, s, StreamOptions{Name: "lines"})
	if e := mustGet(t, b, "a b"); e.Value != (thing{1, "x"}) || e.Revision != r {
		t.Fatalf("%+v", e)
	}
	if r2 := mustPut(t, b, "c", thing{}); r2 <= r {
		t.Fatalf("revision %d after %d", r2, r)
	}
	if seq := mustAppend(t, st, 2); seq != 2 {
		t.Fatalf("sequence %d", seq)
	}
	if mode := stat(t, dir).Mode().Perm(); mode != 0o700 {
		t.Errorf("others may read the directory: %v", mode)
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi
}

func TestDirectoryBelongsToOne(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	if _, err := Open(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("a second one: %v", err)
	}
	mustPut(t, bucket(t, s, BucketOptions{Name: "things"}), "a", thing{})
	closeStore(t, s)
	openDir(t, dir)
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{}, {Dir: file}, {Dir: filepath.Join(t.TempDir(), "no", "parent")}} {
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), o.Dir) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Nothing may be left: no goroutine, no lock, no listener.
func TestCloseLeaksNothing(t *testing.T) {
	cycle := func(dir string) {
		s, err := Open(context.Background(), Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		b, st := bucket(t, s, BucketOptions{Name: "things"}), stream(t, s, StreamOptions{Name: "lines"})
		mustPut(t, b, "a", thing{})
		mustAppend(t, st, 1)
		ended := make(chan struct{})
		ready := make(chan struct{})
		go func() {
			defer close(ended)
			_ = b.Watch(context.Background(), func(c Change[thing]) {
				if c.Ready {
					close(ready)
				}
			})
		}()
		<-ready
		s.broke(errors.New("as if it could not write"))
		eventually(t, "mended", func() bool { return s.Status().Err == nil })
		closeStore(t, s)
		closeStore(t, s)
		<-ended
	}
	cycle(t.TempDir()) // what the runtime and the libraries start once
	before := runtime.NumGoroutine()
	dir := t.TempDir()
	for range 3 {
		cycle(dir)
	}
	// Goroutines that were told to end may take a moment.
	deadline := time.Now().Add(10 * time.Second)
	n := runtime.NumGoroutine()
	for ; n > before && time.Now().Before(deadline); n = runtime.NumGoroutine() {
		runtime.Gosched()
	}
	if n > before {
		t.Errorf("%d goroutines, %d before\n%s", n, before, stacks())
	}
}

const childDir = "FAILBACK_STORE_TEST_DIR"

// appendInChild appends until it is killed, and prints what was acknowledged.
func TestAppendInChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("requires " + childDir + ": TestKill runs it as a child")
	}
	s := openDir(t, dir)
	b, st := bucket(t, s, BucketOptions{Name: "things"}), stream(t, s, StreamOptions{Name: "lines"})
	for n := 1; n <= 500; n++ {
		seq := mustAppend(t, st, n)
		r := mustPut(t, b, "n", thing{N: n})
		fmt.Printf("acknowledged %d %d %d\n", n, seq, r)
	}
	fmt.Println("the end")
}

func TestKill(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestAppendInChild$", "-test.v")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var n, acked, revision int
	for lines := bufio.NewScanner(out); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if strings.Contains(lines.Text(), "the end") {
			t.Error("it was not killed in the middle")
		}
		if len(f) != 4 || f[0] != "acknowledged" {
			continue
		}
		n, _ = strconv.Atoi(f[1])
		acked, _ = strconv.Atoi(f[2])
		revision, _ = strconv.Atoi(f[3])
		if n == 250 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if n < 250 || acked != n {
		t.Fatalf("the child acknowledged %d as %d", n, acked)
	}
	s := openDir(t, dir)
	st := stream(t, s, StreamOptions{Name: "lines"})
	items, err := st.Read(t.Context(), 0, 1000)
	if err != nil || len(items) < n || len(items) > n+1 {
		t.Fatalf("%d were acknowledged, %d are there: %v", n, len(items), err)
	}
	for i, item := range items {
		if item.Value.N != i+1 {
			t.Fatalf("value %d is %d", i+1, item.Value.N)
		}
	}
	if e := mustGet(t, bucket(t, s, BucketOptions{Name: "things"}), "n"); e.Value.N < n || e.Revision < uint64(revision) {
		t.Errorf("%d was acknowledged, %d is there", n, e.Value.N)
	}
}

// The server in the process turns JetStream off by itself when it may not
// write; it says so to nobody who waits for an answer.
func TestServerThatTurnsItselfOff(t *testing.T) {
	s := openDir(t, t.TempDir())
	b := bucket(t, s, BucketOptions{Name: "things"})
	mustPut(t, b, "a", thing{N: 1})
	if err := s.server.srv.ShutdownJetStream(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "a", thing{N: 2}); !isUnavailable(err) {
		t.Fatalf("without JetStream: %v", err)
	}
	eventually(t, "writing again", func() bool {
		_, err := b.Put(t.Context(), "a", thing{N: 3})
		return err == nil
	})
	if e := mustGet(t, b, "a"); e.Value.N != 3 {
		t.Fatalf("%+v", e)
	}
}

// What a stream lets go by age is no damage when it is opened again.
func TestEmptiedStreamIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	st := stream(t, s, StreamOptions{Name: "lines", MaxAge: time.Second})
	mustAppend(t, st, 1)
	last := mustAppend(t, st, 2)
	eventually(t, "expired", func() bool {
		b, err := st.Bounds(t.Context())
		return err == nil && b.Len == 0
	})
	for range 2 {
		closeStore(t, s)
		s = openDir(t, dir)
		st = stream(t, s, StreamOptions{Name: "lines", MaxAge: time.Second})
		if b, err := st.Bounds(t.Context()); err != nil || b.Last != last {
			t.Fatalf("%+v, %v", b, err)
		}
	}
	if seq := mustAppend(t, st, 3); seq != last+1 {
		t.Errorf("sequence %d after %d", seq, last)
	}
}

// Neither is what a bucket let go: values that were replaced, whole files of
// them, and the traces of deleted keys.
func TestReplacedValuesAreNoDamage(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	b := bucket(t, s, BucketOptions{Name: "things"})
	big := strings.Repeat("x", 500_000)
	for n := range 60 {
		mustPut(t, b, "big", thing{n, big})
		mustPut(t, b, strconv.Itoa(n%3), thing{N: n})
	}
	kv, err := b.kv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"big", "0", "1", "2"} {
		if err := kv.Purge(t.Context(), key, jetstream.PurgeTTL(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the traces go", func() bool {
		st, err := kv.Status(t.Context())
		return err == nil && st.Values() == 0
	})
	for range 3 {
		closeStore(t, s)
		s = openDir(t, dir)
		b = bucket(t, s, BucketOptions{Name: "things"})
		if all, err := b.All(t.Context()); err != nil || len(all) != 0 {
			t.Fatalf("%d values, %v", len(all), err)
		}
	}
	if r := mustPut(t, b, "big", thing{}); r != 125 {
		t.Errorf("revision %d", r)
	}
}

// An impatient caller does not make the store doubt itself.
func TestCallersEnd(t *testing.T) {
	s := openDir(t, t.TempDir())
	b := bucket(t, s, BucketOptions{Name: "things"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Put(ctx, "a", thing{}); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if _, err := b.Get(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
	if err := s.Status().Err; err != nil {
		t.Error(err)
	}
	mustPut(t, b, "a", thing{})
}
