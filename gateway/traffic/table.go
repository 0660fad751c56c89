package traffic

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"failback/gateway/decision"
)

// Table is the share table. Its methods may be called from any goroutine;
// Share, Admits, ObserveOwn, Get and All take no lock of the table and may be
// called from onEvent too, the others may not.
type Table struct {
	onEvent func(decision.Event)
	storage Storage
	ctx     context.Context // of saving; ends when Close gives up
	giveUp  context.CancelFunc

	// view is what readers see: by name, present upstreams only. Replaced with
	// mu held, never changed.
	view atomic.Pointer[map[string]*member]

	// raising serialises what waits for the storage before it takes effect.
	// Taken before mu.
	raising sync.Mutex
	// telling serialises calls of onEvent. Taken before mu.
	telling sync.Mutex

	// mu guards everything that follows. It is never held while the storage or
	// onEvent is waited for, so that a lowering is not kept from taking effect.
	mu       sync.Mutex
	entries  map[string]*entry // removed ones included
	steps    []Step            // of failbacks that begin now
	servedAt time.Time         // when served time was last on its way to the storage
	untold   []decision.Event
	writer   writer
	kept     kept
}

// entry is one upstream.
type entry struct {
	rec    Record           // Served aside, which goes on in served
	served *atomic.Int64    // nanoseconds of the step in force
	heavy  map[Key]struct{} // rec.Split
	known  bool             // Ensure has named it since Open
	own    *ownTraffic      // nil unless known

	version  uint64 // of the writer, at the last change of anything stored
	moved    uint64 // the same, of a change of rec.Revision
	saved    uint64 // what of it is stored
	stored   uint64 // rec.Revision that the storage is known to have; 0 for none
	unsynced bool
	refused  *Record // the last raise that may have been stored and is not in force
}

func newEntry(r Record) *entry {
	e := new(entry)
	e.install(r)
	return e
}

// install makes r what e is.
func (e *entry) install(r Record) {
	e.rec = r
	e.served = new(atomic.Int64)
	e.served.Store(int64(r.Served))
	e.heavy = nil
	if len(r.Split) > 0 {
		e.heavy = make(map[Key]struct{}, len(r.Split))
		for _, key := range r.Split {
			e.heavy[key] = struct{}{}
		}
	}
}

// record is e as it would be stored.
func (e *entry) record() Record {
	r := e.rec
	r.Served = time.Duration(e.served.Load())
	return r
}

func (e *entry) state(name string) State {
	return e.member(name).state()
}

func (e *entry) member(name string) *member {
	m := &member{State: e.rec.state(name), served: e.served, heavy: e.heavy, own: e.own}
	m.Unsynced = e.unsynced
	return m
}

// Open reads the share table out of storage. A record that cannot be read is an
// error that names it and says what to do: it is never taken for none.
//
// onEvent gets every step, every change of condition or plan, and every time
// the storage falls behind or catches up, in order, one call at a time. It may
// be nil.
//
// Nothing runs in the background until something has to be stored; Close waits
// for that. ctx is that of reading only.
func Open(ctx context.Context, storage Storage, onEvent func(decision.Event)) (*Table, error) {
	records, err := storage.Load(ctx)
	if err != nil {
		return nil, err
	}
	t := &Table{onEvent: onEvent, storage: storage, entries: make(map[string]*entry, len(records)), steps: DefaultSteps()}
	for name, r := range records {
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("share table: upstream %q: %w; restore its record, or delete it to start the upstream at %d%%", name, err, Full)
		}
		e := newEntry(r.clone())
		e.stored = r.Revision
		t.entries[name] = e
	}
	t.ctx, t.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	t.writer.init()
	t.publish()
	return t, nil
}

// Configure makes steps those of failbacks that begin from now on; one that is
// under way keeps its own. They must rise to Full: Configure panics otherwise.
func (t *Table) Configure(steps []Step) {
	if err := validSteps(steps); err != nil {
		panic("traffic: " + err.Error())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = slices.Clone(steps)
}

// Ensure makes the keys of primaryOf the upstreams of the table. A value names
// what the upstream is primary of, in any order; when that changes, the window
// of a failback under way begins anew and none counts as passed.
//
// A new upstream starts whole. One that leaves ends its failback: it answers no
// command, its plan is over, its window stands still. It comes back as it was
// within KeptFor, and is forgotten then.
func (t *Table) Ensure(primaryOf map[string][]string) {
	now := time.Now()
	t.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(primaryOf)) {
		t.ensure(name, epochOf(primaryOf[name]), now)
	}
	for _, name := range slices.Sorted(maps.Keys(t.entries)) {
		e := t.entries[name]
		_, wanted := primaryOf[name]
		switch {
		case wanted:
		case e.rec.Removed.IsZero():
			// A table that was just read names upstreams that the
			// configuration has lost meanwhile: they are removed now.
			t.remove(name, e, now)
		case e.rec.Gone(now):
			delete(t.entries, name)
		}
	}
	t.publish()
	t.mu.Unlock()
	t.tell()
}

// ensure has name among the upstreams. Requires mu.
func (t *Table) ensure(name, epoch string, now time.Time) {
	e := t.entries[name]
	if e == nil || e.rec.Gone(now) {
		e = newEntry(Record{
			Version: RecordVersion, Share: Full, Revision: 1, Since: now, By: decision.Auto,
			StateSince: now, StateBy: decision.Auto, Epoch: epoch,
		})
		t.entries[name] = e
	}
	e.known = true
	if e.own == nil {
		e.own = newOwnTraffic(now)
	}
	r := e.record()
	if !r.Removed.IsZero() {
		r.Removed = time.Time{}
		e.install(r)
		t.touch(e)
		t.note(name, e, now, "returned", "")
	}
	if r.Epoch != epoch {
		anew := r.Epoch != ""
		e.install(inEpoch(r, epoch))
		// Nothing needs to be stored of an upstream that never moved.
		if e.stored > 0 || e.moved > 0 {
			t.touch(e)
		}
		if anew {
			t.note(name, e, now, "primary_changed", "its evidence begins anew")
		}
	}
}

// remove takes name from the upstreams. Requires mu.
func (t *Table) remove(name string, e *entry, now time.Time) {
	cur := e.record()
	next := cur
	if cur.Plan != nil {
		next = unplanned(cur, decision.Auto, now)
		t.untold = append(t.untold, eventsOf(name, cur, outcome{next: next}, decision.Auto, "", now)...)
	}
	next.Removed = now
	e.install(next)
	e.known, e.own = false, nil
	t.touch(e)
	if next.Revision != cur.Revision {
		e.moved = e.version
	}
	t.note(name, e, now, "removed", "")
}

// note tells of an upstream whose failback is under way. Requires mu.
func (t *Table) note(name string, e *entry, now time.Time, what, detail string) {
	if e.rec.FailbackID != "" {
		t.untold = append(t.untold, noteOf(name, e.rec, now, what, detail))
	}
}

// epochOf names what an upstream is primary of: the same for the same, in every
// process.
func epochOf(primaryOf []string) string {
	h := fnv.New64a()
	for _, p := range slices.Sorted(slices.Values(primaryOf)) {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// Share returns the percent of its own traffic that upstream may get. A name
// that Ensure was not given is at Full.
func (t *Table) Share(upstream string) int {
	if m := (*t.view.Load())[upstream]; m != nil {
		return m.Share
	}
	return Full
}

// Admits reports whether a request is inside the share of upstream. At Full it
// always is, at 0 never; else its conversation decides, and the request where
// the conversation carried much of the upstream's own traffic when the failback
// began, or where there is none. request is an id that no other request has.
func (t *Table) Admits(upstream, conversation, request string) bool {
	if m := (*t.view.Load())[upstream]; m != nil {
		return m.admits(conversation, request)
	}
	return true
}

// ObserveOwn counts one request of which upstream is the primary, so that a
// failback that starts knows which conversations to split.
func (t *Table) ObserveOwn(upstream, conversation string) {
	if m := (*t.view.Load())[upstream]; m != nil {
		m.own.observe(conversation, time.Now())
	}
}

// Get returns the state of upstream, if Ensure was given that name.
func (t *Table) Get(upstream string) (State, bool) {
	m := (*t.view.Load())[upstream]
	if m == nil {
		return State{}, false
	}
	return m.state(), true
}

// All returns the states of all upstreams, by name.
func (t *Table) All() []State {
	var all []State
	for _, m := range *t.view.Load() {
		all = append(all, m.state())
	}
	slices.SortFunc(all, func(a, b State) int { return cmp.Compare(a.Upstream, b.Upstream) })
	return all
}

// publish shows the entries to readers. Requires mu.
func (t *Table) publish() {
	view := make(map[string]*member, len(t.entries))
	for name, e := range t.entries {
		if e.known {
			view[name] = e.member(name)
		}
	}
	t.view.Store(&view)
}

// tell hands over what happened, in order. Requires that mu is not held.
func (t *Table) tell() {
	t.telling.Lock()
	defer t.telling.Unlock()
	t.mu.Lock()
	events := t.untold
	t.untold = nil
	t.mu.Unlock()
	if t.onEvent == nil {
		return
	}
	for _, e := range events {
		t.onEvent(e)
	}
}
