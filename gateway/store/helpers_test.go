package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

type thing struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

// logs collects lines.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func openDir(t *testing.T, dir string) *Store {
	t.Helper()
	return open(t, Options{Dir: dir})
}

func open(t *testing.T, o Options) *Store {
	t.Helper()
	if o.Log == nil {
		l := &logs{}
		o.Log = l.add
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("log of the store:\n%s", l.text())
			}
		})
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t *testing.T, s *Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func bucket(t *testing.T, s *Store, o BucketOptions) *Bucket[thing] {
	t.Helper()
	b, err := NewBucket[thing](s, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func stream(t *testing.T, s *Store, o StreamOptions) *Stream[thing] {
	t.Helper()
	st, err := NewStream[thing](s, o)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func mustPut(t *testing.T, b *Bucket[thing], key string, v thing) uint64 {
	t.Helper()
	r, err := b.Put(t.Context(), key, v)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustGet(t *testing.T, b *Bucket[thing], key string) Entry[thing] {
	t.Helper()
	e, err := b.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustAppend(t *testing.T, st *Stream[thing], n int) uint64 {
	t.Helper()
	seq, err := st.Append(t.Context(), "", thing{N: n})
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func isUnavailable(err error) bool {
	_, is := errors.AsType[*UnavailableError](err)
	return is
}

// find returns the one file below dir whose name matches.
func find(t *testing.T, dir, pattern string) string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if ok, _ := filepath.Match(pattern, d.Name()); ok && err == nil {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) != 1 {
		t.Fatalf("files %s below %s: %q, %v", pattern, dir, found, err)
	}
	return found[0]
}

func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}
