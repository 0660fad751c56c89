package traffic

import (
	"context"
	"sync"
	"testing"
	"time"

	"failback/gateway/decision"
)

// events collects what a table tells.
type events struct {
	mu  sync.Mutex
	all []decision.Event
}

func (e *events) add(ev decision.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

// take returns what was told since the last take.
func (e *events) take() []decision.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.all
	e.all = nil
	return l
}

// open opens the table at path, or in memory if that is empty, with upstreams
// that are primary of m.
func open(t *testing.T, path string, names ...string) (*Table, *events) {
	t.Helper()
	if path == "" {
		return openOn(t, new(Memory), names...)
	}
	return openOn(t, NewFile(path), names...)
}

func openOn(t *testing.T, storage Storage, names ...string) (*Table, *events) {
	t.Helper()
	told := new(events)
	table, err := Open(t.Context(), storage, told.add)
	if err != nil {
		t.Fatal(err)
	}
	table.Ensure(primaryOf(names...))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = table.Close(ctx) // a test that needs it written closes it itself
	})
	return table, told
}

// primaryOf has every name primary of m.
func primaryOf(names ...string) map[string][]string {
	p := map[string][]string{}
	for _, name := range names {
		p[name] = []string{"m"}
	}
	return p
}

func closed(t *testing.T, table *Table) {
	t.Helper()
	if err := table.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// must does c and returns the state afterwards.
func must(t *testing.T, table *Table, c Command) State {
	t.Helper()
	if c.By == "" {
		c.By = "ana"
	}
	s, err := table.Set(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// up raises upstream to share as an operator who just looked.
func up(t *testing.T, table *Table, upstream string, share int) State {
	t.Helper()
	s := get(t, table, upstream)
	return must(t, table, Command{Upstream: upstream, Share: share, Revision: &s.Revision})
}

// settled takes upstream from the step below to Full and through its settling.
func settled(t *testing.T, table *Table, upstream string) State {
	t.Helper()
	s := up(t, table, upstream, Full)
	s, err := table.Settle(upstream, "held 2m", s.Revision)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(t *testing.T, table *Table, upstream string) State {
	t.Helper()
	s, ok := table.Get(upstream)
	if !ok {
		t.Fatalf("no state of %s", upstream)
	}
	return s
}

// pass lets d go by, in a bubble of synctest.
func pass(d time.Duration) { <-time.After(d) }
