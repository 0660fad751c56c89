package traffic

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counted counts the saves of each upstream, and refuses them while down. It
// keeps every revision it was given, in order.
type counted struct {
	Memory

	mu    sync.Mutex // guards everything that follows
	saves map[string][]Record
	down  bool
}

var errDown = errors.New("no space left on device")

func (c *counted) Save(ctx context.Context, records map[string]Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return errDown
	}
	if c.saves == nil {
		c.saves = map[string][]Record{}
	}
	for name, r := range records {
		c.saves[name] = append(c.saves[name], r)
	}
	return c.Memory.Save(ctx, records)
}

func (c *counted) set(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

func (c *counted) of(name string) []Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.saves[name]
}

func TestServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(counted)
		table, _ := openOn(t, storage, "a", "b", "c")
		s := must(t, table, Command{Upstream: "a", Share: 5})
		must(t, table, Command{Upstream: "c", Share: 0})
		closed(t, table)
		table, told := openOn(t, storage, "a", "b", "c")
		before := len(storage.of("a"))
		for range 60 {
			pass(time.Second)
			table.Serve(time.Second)
		}
		table.Serve(-time.Hour)
		synctest.Wait()
		s = get(t, table, "a")
		if s.Served != time.Minute || s.Unsynced || s.Revision != 2 {
			t.Errorf("%+v", s)
		}
		if get(t, table, "b").Served != 0 {
			t.Error("a whole upstream has served a step")
		}
		if n := len(storage.of("a")) - before; n < 5 || n > 6 {
			t.Errorf("stored %d times in a minute", n)
		}
		if len(storage.of("b")) != 0 {
			t.Error("an upstream that never moved is stored")
		}
		if e := told.take(); len(e) != 0 {
			t.Errorf("told %+v", e)
		}

		// A change is stored with what was served, and a step begins at 0.
		pass(time.Second)
		table.Serve(time.Second)
		table.MarkPassed("a", s.Revision)
		synctest.Wait()
		if l := storage.of("a"); l[len(l)-1].Served != time.Minute+time.Second || len(l[len(l)-1].Passed) != 1 {
			t.Errorf("stored %+v", l[len(l)-1])
		}
		approved, err := table.Approve("a", "ana", "", s.Revision)
		if err != nil || approved.Served != time.Minute+time.Second {
			t.Errorf("a plan is no step: %+v, %v", approved, err)
		}
		if s = up(t, table, "a", 25); s.Served != 0 {
			t.Errorf("a new step has served %v", s.Served)
		}
		pass(3 * time.Second)
		table.Serve(3 * time.Second)
		closed(t, table)

		// Neither a downtime nor a clock that jumped meanwhile adds anything.
		pass(48 * time.Hour)
		table, _ = openOn(t, storage, "a", "b", "c")
		if s = get(t, table, "a"); s.Served != 3*time.Second {
			t.Errorf("after the downtime: %v", s.Served)
		}
		table.Serve(2 * time.Second)
		if s = get(t, table, "a"); s.Served != 5*time.Second {
			t.Errorf("goes on at %v", s.Served)
		}

		// Nor does the time out of the configuration.
		table.Ensure(primaryOf("b"))
		table.Serve(time.Hour)
		table.Ensure(primaryOf("a", "b"))
		if s = get(t, table, "a"); s.Served != 5*time.Second {
			t.Errorf("came back with %v", s.Served)
		}
		closed(t, table)
	})
}

// What is served says nothing of a change: it makes nothing unsynced.
func TestServedIsNotUnsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(counted)
		table, told := openOn(t, storage, "a")
		must(t, table, Command{Upstream: "a", Share: 5})
		synctest.Wait()
		told.take()
		storage.set(true)
		table.Serve(time.Second)
		synctest.Wait()
		if s := get(t, table, "a"); s.Unsynced || s.Served != time.Second {
			t.Errorf("%+v", s)
		}
		if !errors.Is(table.Err(), errDown) {
			t.Errorf("Err: %v", table.Err())
		}
		if e := told.take(); len(e) != 1 || e[0].Action != "unsynced" {
			t.Errorf("told %+v", e)
		}
		storage.set(false)
		closed(t, table)
	})
}

// A window that passes while a raise is on its way is not forgotten by it.
func TestMarkWhileARaiseIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(slow)
		table, _ := openOn(t, storage, "a")
		s := must(t, table, Command{Upstream: "a", Share: 5})
		synctest.Wait()
		storage.ends = make(chan error)
		raised := make(chan State, 1)
		go func() { raised <- up(t, table, "a", 25) }()
		synctest.Wait()
		table.MarkPassed("a", s.Revision)
		table.Serve(time.Second)
		table.Ensure(map[string][]string{"a": {"m"}, "b": nil})
		storage.ends <- nil
		if got := <-raised; got.Share != 25 || len(got.Passed) != 1 || got.Served != 0 {
			t.Errorf("%+v", got)
		}
		storage.ends <- nil
		synctest.Wait()
		kept, err := storage.Load(t.Context())
		if err != nil || kept["a"].Share != 25 || len(kept["a"].Passed) != 1 {
			t.Errorf("stored %+v, %v", kept["a"], err)
		}
	})
}
