package store

import (
	"context"
	"strings"
	"testing"
)

func benchStore(b *testing.B) *Store {
	s, err := Open(b.Context(), Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func BenchmarkPut(b *testing.B) {
	bk, err := NewBucket[thing](benchStore(b), BucketOptions{Name: "things"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := bk.Put(b.Context(), "anthropic-us-east-1", thing{1, "x"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	bk, err := NewBucket[thing](benchStore(b), BucketOptions{Name: "things"})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := bk.Put(b.Context(), "anthropic-us-east-1", thing{1, "x"}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := bk.Get(b.Context(), "anthropic-us-east-1"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	st, err := NewStream[thing](benchStore(b), StreamOptions{Name: "lines", MaxBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	v := thing{1, strings.Repeat("x", 400)}
	for b.Loop() {
		if _, err := st.Append(b.Context(), "", v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		s, err := Open(b.Context(), Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := NewBucket[thing](s, BucketOptions{Name: "things"}); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
