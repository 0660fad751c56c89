package incident

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Epoch is a time during which the same incidents were open, none of them younger
// than it; later ones are greater. Zero: none was.
type Epoch uint32

// Tallies collect what requests come to while incidents are open, until it is
// taken: a request, and what is reported of it whenever that comes, counts in the
// incidents that were open when it ended. Its methods may be called from any
// goroutine; the zero value is ready.
type Tallies struct {
	epoch atomic.Uint32

	mu      sync.Mutex // guards everything that follows
	last    Epoch
	pending Pending
}

// Pending is what was collected and not taken.
type Pending struct {
	since  map[string]Epoch // of each open incident
	counts map[Epoch]*Counts
	notes  []pendingNote
}

type pendingNote struct {
	epoch Epoch
	text  string
}

// maxNotes wait at most.
const maxNotes = 20

// Now is the epoch in which a request ends that ends now.
func (t *Tallies) Now() Epoch { return Epoch(t.epoch.Load()) }

// Follow takes which incidents are open, and what each that was became. For one
// that was not open a moment ago it begins to count.
func (t *Tallies) Follow(open []string, became func(string) string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := map[string]Epoch{}
	for id, e := range t.pending.since {
		if id = became(id); slices.Contains(open, id) {
			since[id] = min(e, cmp.Or(since[id], e))
		}
	}
	next := t.last + 1
	for _, id := range open {
		if since[id] == 0 {
			since[id], t.last = next, next
		}
	}
	t.pending.since = since
	if len(open) == 0 {
		t.epoch.Store(0)
		return
	}
	t.epoch.Store(uint32(t.last))
}

// Add counts, by f, something of a request that ended in e.
func (t *Tallies) Add(e Epoch, f func(*Counts)) {
	if e == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.pending.counts[e]
	if c == nil {
		if t.pending.counts == nil {
			t.pending.counts = map[Epoch]*Counts{}
		}
		c = new(Counts)
		t.pending.counts[e] = c
	}
	f(c)
}

// Note keeps a text about a request that ended in e, if there is room.
func (t *Tallies) Note(e Epoch, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e != 0 && len(t.pending.notes) < maxNotes {
		t.pending.notes = append(t.pending.notes, pendingNote{e, text})
	}
}

// Take returns what was collected and begins anew.
func (t *Tallies) Take() Pending {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pending
	t.pending = Pending{since: maps.Clone(p.since)}
	return p
}

// Of is what is collected of incident id.
func (t *Tallies) Of(id string) Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, _ := t.pending.Of(id)
	return c
}

// Of is the part of p that is incident id's.
func (p Pending) Of(id string) (c Counts, notes []string) {
	since, open := p.since[id]
	if !open {
		return Counts{}, nil
	}
	for e, part := range p.counts {
		if e >= since {
			c = c.Plus(*part)
		}
	}
	for _, n := range p.notes {
		if n.epoch >= since {
			notes = append(notes, n.text)
		}
	}
	return c, notes
}
