package store

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestStreamRoundTrips(t *testing.T) {
	st := stream(t, openDir(t, t.TempDir()), StreamOptions{Name: "lines"})
	ctx := t.Context()
	if b, err := st.Bounds(ctx); err != nil || b.Len != 0 || b.First != b.Last+1 {
		t.Fatalf("empty: %+v, %v", b, err)
	}
	if items, err := st.Last(ctx, 3); err != nil || len(items) != 0 {
		t.Fatalf("empty: %+v, %v", items, err)
	}
	for n := 1; n <= 10; n++ {
		if seq := mustAppend(t, st, n); seq != uint64(n) {
			t.Fatalf("the %dth has sequence %d", n, seq)
		}
	}
	for _, tc := range []struct {
		after uint64
		limit int
		want  []int
	}{
		{0, 3, []int{1, 2, 3}}, {3, 2, []int{4, 5}}, {8, 5, []int{9, 10}}, {10, 5, nil}, {99, 5, nil}, {0, 0, nil},
	} {
		items, err := st.Read(ctx, tc.after, tc.limit)
		if err != nil || !equal(items, tc.want) {
			t.Errorf("after %d, %d: %+v, %v", tc.after, tc.limit, items, err)
		}
	}
	for n, want := range map[int][]int{0: nil, 2: {9, 10}, 10: {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 11: {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}} {
		items, err := st.Last(ctx, n)
		if err != nil || !equal(items, want) {
			t.Errorf("last %d: %+v, %v", n, items, err)
		}
	}
	if b, err := st.Bounds(ctx); err != nil || b.Len != 10 || b.First != 1 || b.Last != 10 || b.Bytes == 0 {
		t.Fatalf("%+v, %v", b, err)
	}
}

func equal(items []Item[thing], want []int) bool {
	if len(items) != len(want) {
		return false
	}
	for i, n := range want {
		if items[i].Value.N != n || items[i].Sequence != uint64(n) || time.Since(items[i].Written) > time.Minute {
			return false
		}
	}
	return true
}

func TestAppendOncePerID(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	st := stream(t, s, StreamOptions{Name: "lines"})
	const id = "command 7/asked\r\n"
	first, err := st.Append(t.Context(), id, thing{N: 1})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, st, 2)
	closeStore(t, s)
	st = stream(t, openDir(t, dir), StreamOptions{Name: "lines"})
	again, err := st.Append(t.Context(), id, thing{N: 1})
	if err != nil || again != first {
		t.Fatalf("appended as %d, then as %d: %v", first, again, err)
	}
	if b, _ := st.Bounds(t.Context()); b.Len != 2 {
		t.Fatalf("%+v", b)
	}
}

func TestStreamHasLimits(t *testing.T) {
	s := openDir(t, t.TempDir())
	big := thing{Text: strings.Repeat("x", 3000)}
	rolling := stream(t, s, StreamOptions{Name: "rolling", MaxBytes: 10_000})
	refusing := stream(t, s, StreamOptions{Name: "refusing", MaxBytes: 10_000, Refuse: true})
	for range 5 {
		if _, err := rolling.Append(t.Context(), "", big); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := rolling.Bounds(t.Context()); err != nil || b.Len != 3 || b.First != 3 || b.Last != 5 {
		t.Errorf("%+v, %v", b, err)
	}
	if items, err := rolling.Read(t.Context(), 0, 9); err != nil || len(items) != 3 || items[0].Sequence != 3 {
		t.Errorf("from before the first: %d values, %v", len(items), err)
	}
	for range 3 {
		if _, err := refusing.Append(t.Context(), "", big); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := refusing.Append(t.Context(), "", big); !isFull(err) {
		t.Errorf("beyond the limit: %v", err)
	}
	if b, err := refusing.Bounds(t.Context()); err != nil || b.Len != 3 || b.First != 1 {
		t.Errorf("%+v, %v", b, err)
	}
	if err := s.Status().Err; err != nil {
		t.Errorf("a full stream is not a full disk: %v", err)
	}
}

func TestUnreadableValueIsNamed(t *testing.T) {
	s := openDir(t, t.TempDir())
	old := stream(t, s, StreamOptions{Name: "lines"})
	mustAppend(t, old, 1)
	mustAppend(t, stream(t, s, StreamOptions{Name: "lines", Version: 2}), 2)
	if _, err := s.js.Publish(t.Context(), "failback.lines", []byte(`{"n":3}`)); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, old, 4)
	items, err := old.Read(t.Context(), 0, 9)
	if v, is := errors.AsType[*VersionError](err); !is || v.Sequence != 2 || len(items) != 1 {
		t.Fatalf("%+v, %v", items, err)
	}
	items, err = old.Read(t.Context(), 2, 9)
	if d, is := errors.AsType[*DecodeError](err); !is || d.Sequence != 3 || len(items) != 0 {
		t.Fatalf("%+v, %v", items, err)
	}
	if items, err = old.Read(t.Context(), 3, 9); err != nil || !equal(items[:0], nil) || items[0].Value.N != 4 {
		t.Fatalf("%+v, %v", items, err)
	}
}
