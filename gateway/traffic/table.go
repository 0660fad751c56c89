package traffic

import (
	"cmp"
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
	store   func(file) error

	// view is what readers see: by name, present upstreams only. Replaced with
	// mu held, never changed.
	view atomic.Pointer[map[string]*member]

	// raising serialises raises, each of which waits for the disk. Taken before mu.
	raising sync.Mutex
	// telling serialises calls of onEvent. Taken before mu.
	telling sync.Mutex

	// mu guards everything that follows. It is never held while the disk or
	// onEvent is waited for, so that a lowering is not kept from taking effect.
	mu      sync.Mutex
	entries map[string]*entry // removed ones included
	untold  []decision.Event
	writer  writer
}

// entry is the state of one upstream.
type entry struct {
	share    int
	revision uint64
	since    time.Time
	by, why  string
	id       string
	heavy    []uint64
	undo     *Undo
	removed  time.Time // zero while it is configured
	known    bool      // Ensure has named it since Open
	version  uint64    // of the table at its last change
	unsynced bool
	own      *ownTraffic
}

// Open reads the share table at path, which need not exist yet; its directory
// must. An empty path keeps the table in memory only. An error names the file
// and says what to do: a table that cannot be read is never taken for an empty one.
//
// onEvent gets every step, and every time the file falls behind or catches up,
// in order, one call at a time. It may be nil.
//
// Nothing runs in the background until something has to be written; Close
// waits for that.
func Open(path string, onEvent func(decision.Event)) (*Table, error) {
	t := &Table{onEvent: onEvent, entries: map[string]*entry{}}
	t.writer.init()
	t.store = func(f file) error { return replaceFile(path, f) }
	if path == "" {
		t.store = func(file) error { return nil }
	} else {
		entries, err := readFile(path)
		if err != nil {
			return nil, err
		}
		t.entries = entries
	}
	t.publish()
	return t, nil
}

// Ensure makes names the upstreams of the table. A new one starts at Full. One
// that was removed less than KeptFor ago comes back as it was; a name that is
// not among them any more answers no command and is forgotten after KeptFor.
func (t *Table) Ensure(names []string) {
	now := time.Now()
	t.mu.Lock()
	changed := false
	for _, name := range names {
		e := t.entries[name]
		if e != nil && !e.removed.IsZero() && now.Sub(e.removed) >= KeptFor {
			e = nil
		}
		if e == nil {
			e = &entry{share: Full, revision: 1, since: now, by: Auto}
			t.entries[name] = e
		}
		if e.own == nil {
			e.own = newOwnTraffic(now)
		}
		if !e.removed.IsZero() {
			e.removed = time.Time{}
			changed = true
			t.note(name, e, now, "returned")
		}
		e.known = true
	}
	for name, e := range t.entries {
		switch {
		case slices.Contains(names, name):
		case e.removed.IsZero():
			// A table that was just read names upstreams that the
			// configuration has lost meanwhile: they are removed now.
			e.removed, e.known, e.own = now, false, nil
			changed = true
			t.note(name, e, now, "removed")
		case now.Sub(e.removed) >= KeptFor:
			delete(t.entries, name)
			changed = true
		}
	}
	if changed {
		t.writer.version++
		t.startWriter()
	}
	t.publish()
	t.mu.Unlock()
	t.tell()
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
	return m.State, true
}

// All returns the states of all upstreams, by name.
func (t *Table) All() []State {
	var all []State
	for _, m := range *t.view.Load() {
		all = append(all, m.State)
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

func (e *entry) member(name string) *member {
	m := &member{State: e.state(name), own: e.own}
	if len(e.heavy) > 0 {
		m.heavy = make(map[uint64]struct{}, len(e.heavy))
		for _, key := range e.heavy {
			m.heavy[key] = struct{}{}
		}
	}
	return m
}

func (e *entry) state(name string) State {
	s := State{
		Upstream: name, Share: e.share, Revision: e.revision, Since: e.since, By: e.by, Why: e.why,
		FailbackID: e.id, Unsynced: e.unsynced,
	}
	if e.undo != nil {
		u := *e.undo
		s.Undo = &u
	}
	return s
}

// note tells that an upstream below Full left or came back. Requires mu.
func (t *Table) note(name string, e *entry, now time.Time, what string) {
	if e.share < Full {
		t.untold = append(t.untold, decision.Event{
			Kind: decision.KindTrafficStep, Time: now, Provider: name, From: strconv.Itoa(e.share),
			Reason: what, Action: what, By: Auto, Result: "ok", Revision: e.revision,
			Detail: "failback " + e.id,
		})
	}
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

// snapshot returns the table as it would be stored, with p in force. Requires mu.
func (t *Table) snapshot(p *proposal) file {
	f := file{Version: fileVersion, Upstreams: make(map[string]saved, len(t.entries))}
	for name, e := range t.entries {
		f.Upstreams[name] = e.saved()
	}
	if p != nil {
		f.Upstreams[p.upstream] = p.next.saved()
	}
	return f
}

func percent(share int) string { return strconv.Itoa(share) + "%" }
