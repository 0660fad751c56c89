package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestBucketRoundTrips(t *testing.T) {
	b := bucket(t, openDir(t, t.TempDir()), BucketOptions{Name: "things"})
	ctx := t.Context()
	if _, err := b.Get(ctx, "a"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("a key without a value: %v", err)
	}
	r1 := mustPut(t, b, "a", thing{1, "one"})
	if e := mustGet(t, b, "a"); e.Value != (thing{1, "one"}) || e.Revision != r1 || e.Key != "a" || time.Since(e.Written) > time.Minute {
		t.Fatalf("%+v, revision %d was written", e, r1)
	}
	if _, err := b.Create(ctx, "a", thing{N: 9}); conflict(err) == nil {
		t.Fatalf("a key that exists was created: %v", err)
	}
	r2, err := b.Update(ctx, "a", thing{N: 2}, r1)
	if err != nil || r2 <= r1 {
		t.Fatalf("update: %d after %d, %v", r2, r1, err)
	}
	if _, err := b.Update(ctx, "a", thing{N: 3}, r1); conflict(err) == nil || conflict(err).Revision != r1 || conflict(err).Key != "a" {
		t.Fatalf("an update based on an old revision: %v", err)
	}
	if e := mustGet(t, b, "a"); e.Value.N != 2 {
		t.Fatalf("a refused update changed it: %+v", e)
	}
	if err := b.DeleteRevision(ctx, "a", r1); conflict(err) == nil {
		t.Fatalf("deleted what was newer: %v", err)
	}
	if err := b.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(ctx, "never"); err != nil {
		t.Fatalf("deleting what is not there: %v", err)
	}
	if _, err := b.Get(ctx, "a"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("a deleted key: %v", err)
	}
	if _, err := b.Update(ctx, "a", thing{N: 4}, r2); conflict(err) == nil {
		t.Fatalf("updated what was deleted: %v", err)
	}
	if _, err := b.Update(ctx, "a", thing{N: 5}, 0); err != nil {
		t.Fatalf("a deleted key created again: %v", err)
	}
	mustPut(t, b, "b", thing{N: 6})
	all, err := b.All(ctx)
	if err != nil || len(all) != 2 || all["a"].Value.N != 5 || all["b"].Value.N != 6 {
		t.Fatalf("%+v, %v", all, err)
	}
}

func conflict(err error) *ConflictError {
	c, _ := errors.AsType[*ConflictError](err)
	return c
}

// 100 writers raise one number; each value must be won by exactly one.
func TestOneWriterWinsEachRevision(t *testing.T) {
	b := bucket(t, openDir(t, t.TempDir()), BucketOptions{Name: "things"})
	const writers, wins = 100, 3
	mustPut(t, b, "n", thing{})
	var mu sync.Mutex
	won := map[int]int{}
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range wins {
				e, err := b.Get(t.Context(), "n")
				if err != nil {
					t.Error(err)
					return
				}
				_, err = b.Update(t.Context(), "n", thing{N: e.Value.N + 1}, e.Revision)
				if err != nil && conflict(err) == nil {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					won[e.Value.N+1]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	e := mustGet(t, b, "n")
	if len(won) != e.Value.N || e.Value.N == 0 {
		t.Errorf("%d updates succeeded, the number is %d", len(won), e.Value.N)
	}
	for n, times := range won {
		if times != 1 {
			t.Errorf("%d was written by %d", n, times)
		}
	}
}

func TestHostileKeys(t *testing.T) {
	b := bucket(t, openDir(t, t.TempDir()), BucketOptions{Name: "things"})
	keys := []string{" ", "a b", ".", "..", "a.b", "*", ">", "a.*", "a.>", "=", "=41", "A", "a", "é", "e\u0301", "日本", "\x00", "\xff\xfe",
		"a\r\nPUB x 1\r\n", "/", "a/b", "-", "_", "$KV", "\t", strings.Repeat("ü", maxKey/2)}
	for i, key := range keys {
		mustPut(t, b, key, thing{N: i})
	}
	all, err := b.All(t.Context())
	if err != nil || len(all) != len(keys) {
		t.Fatalf("%d of %d keys: %v", len(all), len(keys), err)
	}
	for i, key := range keys {
		if mustGet(t, b, key).Value.N != i || all[key].Value.N != i || all[key].Key != key {
			t.Errorf("key %q has another's value", key)
		}
	}
	for _, key := range []string{"", strings.Repeat("x", maxKey+1)} {
		if _, err := b.Put(t.Context(), key, thing{}); err == nil {
			t.Errorf("a key of %d bytes was taken", len(key))
		}
		if _, err := b.Get(t.Context(), key); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("a key of %d bytes was looked up: %v", len(key), err)
		}
	}
}

func TestNamesAreChecked(t *testing.T) {
	s := openDir(t, t.TempDir())
	for _, name := range []string{"", "a b", "a.b", "*", ">", "a/b", "ä", strings.Repeat("x", 65)} {
		if _, err := NewBucket[thing](s, BucketOptions{Name: name}); err == nil {
			t.Errorf("bucket %q was made", name)
		}
		if _, err := NewStream[thing](s, StreamOptions{Name: name}); err == nil {
			t.Errorf("stream %q was made", name)
		}
		if name == "" {
			continue // as a prefix it is the default
		}
		if _, err := Open(t.Context(), Options{Dir: t.TempDir(), Prefix: name}); err == nil {
			t.Errorf("prefix %q was taken", name)
		}
	}
}

func TestBucketHasALimit(t *testing.T) {
	s := openDir(t, t.TempDir())
	b := bucket(t, s, BucketOptions{Name: "small", MaxBytes: 10_000})
	big := thing{Text: strings.Repeat("x", 3000)}
	mustPut(t, b, "a", big)
	mustPut(t, b, "b", big)
	mustPut(t, b, "c", big)
	_, err := b.Put(t.Context(), "d", big)
	if full, is := errors.AsType[*FullError](err); !is || !strings.Contains(full.Error(), "small") {
		t.Fatalf("beyond the limit: %v", err)
	}
	if err := b.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	mustPut(t, b, "d", big)
	if _, err := b.Put(t.Context(), "e", thing{Text: strings.Repeat("x", 2<<20)}); !isFull(err) {
		t.Fatalf("a huge value: %v", err)
	}
	if st := s.Status(); st.Err != nil {
		t.Errorf("a full bucket is not a full disk: %v", st.Err)
	}
}

func isFull(err error) bool {
	_, is := errors.AsType[*FullError](err)
	return is
}

func TestNewerVersionIsRefused(t *testing.T) {
	s := openDir(t, t.TempDir())
	mustPut(t, bucket(t, s, BucketOptions{Name: "things", Version: 2}), "a", thing{N: 7})
	old := bucket(t, s, BucketOptions{Name: "things"})
	mustPut(t, old, "b", thing{N: 8})
	_, err := old.Get(t.Context(), "a")
	if v, is := errors.AsType[*VersionError](err); !is || v.Have != 2 || v.Known != 1 || !strings.Contains(err.Error(), `"a"`) {
		t.Fatalf("%v", err)
	}
	all, err := old.All(t.Context())
	if _, is := errors.AsType[*VersionError](err); !is || len(all) != 1 || all["b"].Value.N != 8 {
		t.Fatalf("%+v, %v", all, err)
	}
	if e := mustGet(t, bucket(t, s, BucketOptions{Name: "things", Version: 3}), "a"); e.Value.N != 7 {
		t.Fatalf("an older version: %+v", e)
	}
}

func TestExpiry(t *testing.T) {
	b := bucket(t, openDir(t, t.TempDir()), BucketOptions{Name: "things", TTL: time.Second})
	changes, _ := watchAll(t, b)
	mustPut(t, b, "a", thing{N: 1})
	if c := next(t, changes); c.Key != "a" || c.Deleted {
		t.Fatalf("%+v", c)
	}
	if c := next(t, changes); c.Key != "a" || !c.Deleted {
		t.Fatalf("%+v", c)
	}
	if _, err := b.Get(t.Context(), "a"); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

// watchAll watches until the test ends or stop is called, and skips Ready.
func watchAll(t *testing.T, b *Bucket[thing]) (changes chan Change[thing], stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	changes, ready, done := make(chan Change[thing], 10_000), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = b.Watch(ctx, func(c Change[thing]) {
			if c.Ready {
				close(ready)
				return
			}
			changes <- c
		})
	}()
	<-ready
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return changes, stop
}

func next(t *testing.T, c chan Change[thing]) Change[thing] {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("no change was told")
		panic("unreachable")
	}
}

func TestWatch(t *testing.T) {
	s := openDir(t, t.TempDir())
	b := bucket(t, s, BucketOptions{Name: "things"})
	mustPut(t, b, "old", thing{N: 1})
	mustPut(t, b, "gone", thing{N: 2})
	if err := b.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	changes, _ := watchAll(t, b)
	if len(changes) != 1 {
		t.Fatalf("%d values before Ready, there is one", len(changes))
	}
	if c := next(t, changes); c.Key != "old" || c.Value.N != 1 || c.Err != nil {
		t.Fatalf("%+v", c)
	}
	r := mustPut(t, b, "a b", thing{N: 3})
	if c := next(t, changes); c.Key != "a b" || c.Value.N != 3 || c.Revision != r {
		t.Fatalf("%+v", c)
	}
	mustPut(t, bucket(t, s, BucketOptions{Name: "things", Version: 2}), "new", thing{N: 4})
	if c := next(t, changes); c.Key != "new" || c.Err == nil || c.Value != (thing{}) {
		t.Fatalf("a newer version: %+v", c)
	}
	if err := b.Delete(t.Context(), "a b"); err != nil {
		t.Fatal(err)
	}
	if c := next(t, changes); c.Key != "a b" || !c.Deleted {
		t.Fatalf("%+v", c)
	}

	// The server is exchanged; nothing is told twice and nothing left out.
	s.broke(errors.New("as if it could not write"))
	eventually(t, "mended", func() bool { return s.Status().Err == nil })
	mustPut(t, b, "later", thing{N: 5})
	if c := next(t, changes); c.Key != "later" || c.Value.N != 5 {
		t.Fatalf("%+v", c)
	}
	if err := b.Delete(t.Context(), "later"); err != nil {
		t.Fatal(err)
	}
	if c := next(t, changes); c.Key != "later" || !c.Deleted {
		t.Fatalf("%+v", c)
	}
}

func TestWatchEnds(t *testing.T) {
	s := openDir(t, t.TempDir())
	b := bucket(t, s, BucketOptions{Name: "things"})
	// More than the library keeps for a watcher, and one that never takes any.
	for i := range 600 {
		mustPut(t, b, fmt.Sprint(i), thing{N: i})
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	err := b.Watch(ctx, func(Change[thing]) { told++; cancel() })
	if !errors.Is(err, context.Canceled) || told == 0 {
		t.Fatalf("%v after %d", err, told)
	}
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		ended <- b.Watch(context.Background(), func(c Change[thing]) {
			if c.Ready {
				close(ready)
			}
		})
	}()
	<-ready
	closeStore(t, s)
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "1"); !errors.Is(err, ErrClosed) {
		t.Errorf("get after close: %v", err)
	}
	if _, err := b.Put(t.Context(), "1", thing{}); !errors.Is(err, ErrClosed) {
		t.Errorf("put after close: %v", err)
	}
}
