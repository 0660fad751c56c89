package logs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"failback/sources/logql"
)

var testLabels = map[string]string{"service_name": "failback", "instance": "gw-1"}

// open opens a store that is closed with the test.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Labels == nil {
		o.Labels = testLabels
	}
	if o.MaxAge == 0 {
		o.MaxAge = 1 << 62 // the lines of tests are of 1970
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func shut(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// await waits for a condition.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !cond() {
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// store writes lines and returns when the disk has them.
func store(t testing.TB, s *Store, lines ...string) {
	t.Helper()
	written, lost, _ := s.Stats()
	want := written + uint64(len(lines))
	for _, line := range lines {
		await(t, "room in the queue", func() bool {
			s.queue.mu.Lock()
			defer s.queue.mu.Unlock()
			return len(s.queue.lines)+len(line) < queueBytes
		})
		if n, err := s.Write([]byte(line)); err != nil || n != len(line) {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	await(t, "lines on the disk", func() bool { w, _, _ := s.Stats(); return w >= want })
	if _, l, err := s.Stats(); l != lost || err != nil {
		t.Fatalf("%d lines were lost, %v", l-lost, err)
	}
}

// at writes a line with its time.
func at(ts int64, rest string) string {
	return fmt.Sprintf(`{"time":%q,%s}`, time.Unix(0, ts).UTC().Format(time.RFC3339Nano), rest)
}

// entry is an Entry that lasts.
type entry struct {
	TS     int64
	Labels string
	Line   string
}

func collect(t testing.TB, src logql.Source, sel logql.Selection) []entry {
	t.Helper()
	var got []entry
	err := src.Select(t.Context(), sel, func(e logql.Entry) bool {
		got = append(got, entry{e.TS, e.Labels.String(), string(e.Line)})
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// lines returns all that a store has, oldest first.
func lines(t testing.TB, s *Store) []string {
	t.Helper()
	var got []string
	for _, e := range collect(t, s, everything(true)) {
		got = append(got, e.Line)
	}
	return got
}

func everything(forward bool) logql.Selection {
	return logql.Selection{Start: noTime, End: 1<<63 - 1, Forward: forward}
}

func condition(t testing.TB, name string, op logql.Op, v string) logql.Condition {
	t.Helper()
	c, err := logql.NewMatcher(name, op, v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// segmentsOf returns the numbers of a store's segments.
func segmentsOf(s *Store) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n []uint64
	for _, g := range s.segs {
		n = append(n, g.number)
	}
	return slices.Clone(n)
}
