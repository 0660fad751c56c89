package incident

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Epoch is a short time in which requests end; later ones are greater. Zero: none.
type Epoch uint32

const (
	// epochLength is how long an Epoch is at most.
	epochLength = time.Second
	// tallied is how long what was counted is kept for an incident that is opened:
	// longer than a first failure is looked for.
	tallied = lookBuckets*lookBucket + time.Minute
	// maxEpochs are kept at most, however many incidents are opened and closed.
	maxEpochs = 2 * int(tallied/epochLength)
)

// Tallies collect what requests come to, and keep it for some minutes: a request
// counts in the incidents that were open when it ended and in those that began
// before that, and so does what is reported of it whenever that comes. Its methods
// may be called from any goroutine; the zero value is ready.
type Tallies struct {
	mu     sync.Mutex // guards everything that follows
	epoch  Epoch      // the newest; 0: nothing was counted or followed yet
	began  time.Time  // of the first
	lost   time.Time  // the end of the newest that was dropped
	closed bool       // the next request begins another epoch
	kept   []*bucket  // oldest first
	open   map[string]*share
	ended  map[string]Epoch // of incidents that were open lately: the first after them
	joined uint64           // counts those that were open
	notes  []pendingNote
}

// bucket is what came in one epoch.
type bucket struct {
	epoch Epoch
	start time.Time
	// taken is what was given to the incidents of the time already, pending what was
	// not.
	taken, pending Counts
}

// share is what is counted for one open incident: backlog, and all that is pending
// since an epoch.
type share struct {
	since   Epoch
	from    time.Time // that it counts from
	order   uint64
	backlog Counts
	// old is pending of epochs that are not kept any more.
	old Counts
}

// Pending is what was collected and not taken.
type Pending struct {
	counts map[string]Counts // of each open incident
	since  map[string]Epoch
	notes  []pendingNote
}

type pendingNote struct {
	epoch Epoch
	text  string
}

// maxNotes wait at most.
const maxNotes = 20

// Count counts, by f, a request that ends now, and returns the epoch of that.
func (t *Tallies) Count(now time.Time, f func(*Counts)) Epoch {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.newest(now)
	f(&b.pending)
	return b.epoch
}

// newest is the bucket of now. It requires mu.
func (t *Tallies) newest(now time.Time) *bucket {
	if n := len(t.kept); n > 0 && !t.closed {
		if b := t.kept[n-1]; now.Sub(b.start) < epochLength {
			return b
		}
	}
	t.closed = false
	drop := 0
	for drop < len(t.kept) && (len(t.kept)-drop >= maxEpochs || now.Sub(t.kept[drop].start) > tallied) {
		b := t.kept[drop]
		for _, s := range t.open {
			if b.epoch >= s.since {
				s.old = s.old.Plus(b.pending)
			}
		}
		t.lost = b.start.Add(epochLength)
		drop++
	}
	t.kept = slices.Delete(t.kept, 0, drop)
	t.begin(now)
	t.epoch++
	b := &bucket{epoch: t.epoch, start: now}
	t.kept = append(t.kept, b)
	return b
}

// begin requires mu.
func (t *Tallies) begin(now time.Time) {
	if t.began.IsZero() {
		t.began = now
	}
}

// Follow takes from when on each open incident counts, and what each that was open
// became. One that counts from before it was known, or from before it was known to,
// is given what was counted since, as far as it is kept. One that was closed and is
// open again is given nothing of before it was closed.
func (t *Tallies) Follow(now time.Time, open map[string]time.Time, became func(string) string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(now)
	was := t.open
	t.open = map[string]*share{}
	for id, s := range was {
		id = became(id)
		if _, is := open[id]; !is {
			t.end(id)
			continue
		}
		// Of two that became one the longer known has what the other has.
		if o := t.open[id]; o != nil {
			if o.order < s.order {
				s, o = o, s
			}
			t.extend(s, o.since, o.from)
		}
		t.open[id] = s
	}
	for id, from := range open {
		s := t.open[id]
		if s == nil {
			t.joined++
			s = &share{since: t.epoch + 1, from: now, order: t.joined}
			t.open[id], t.closed = s, true
		}
		if from.Before(s.from) {
			since, from := t.at(from)
			if e := t.ended[id]; e > since {
				since, from = e, s.from
			}
			t.extend(s, since, from)
		}
	}
	maps.DeleteFunc(t.ended, func(_ string, e Epoch) bool { return len(t.kept) == 0 || e < t.kept[0].epoch })
}

// end requires mu.
func (t *Tallies) end(id string) {
	if t.ended == nil {
		t.ended = map[string]Epoch{}
	}
	t.ended[id], t.closed = t.epoch+1, true
}

// at is the epoch of a time, or the first after it of those that are kept, and from
// when that counts. It requires mu.
func (t *Tallies) at(from time.Time) (Epoch, time.Time) {
	for _, first := range []time.Time{t.began, t.lost} {
		if from.Before(first) {
			from = first
		}
	}
	for _, b := range t.kept {
		if from.Sub(b.start) < epochLength {
			return b.epoch, from
		}
	}
	return t.epoch + 1, from
}

// extend has s count since an earlier epoch too. It requires mu.
func (t *Tallies) extend(s *share, since Epoch, from time.Time) {
	for _, b := range t.kept {
		if b.epoch >= since && b.epoch < s.since {
			s.backlog = s.backlog.Plus(b.taken)
		}
	}
	s.since = min(s.since, since)
	s.from = earlier(s.from, from)
}

// Add counts, by f, something of a request that ended in e.
func (t *Tallies) Add(e Epoch, f func(*Counts)) {
	if e == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, ok := slices.BinarySearchFunc(t.kept, e, func(b *bucket, e Epoch) int { return int(b.epoch) - int(e) }); ok {
		f(&t.kept[i].pending)
		return
	}
	for _, s := range t.open {
		if e >= s.since {
			f(&s.old)
		}
	}
}

// Note keeps a text about a request that ended in e, if an incident counts it and
// there is room.
func (t *Tallies) Note(e Epoch, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.open {
		if e != 0 && e >= s.since && len(t.notes) < maxNotes {
			t.notes = append(t.notes, pendingNote{e, text})
			return
		}
	}
}

// Take returns what was collected and begins anew.
func (t *Tallies) Take() Pending {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := Pending{counts: map[string]Counts{}, since: map[string]Epoch{}, notes: t.notes}
	for id, s := range t.open {
		p.counts[id], p.since[id] = t.of(s), s.since
		s.backlog, s.old = Counts{}, Counts{}
	}
	for _, b := range t.kept {
		if !b.pending.IsZero() {
			b.taken, b.pending = b.taken.Plus(b.pending), Counts{}
		}
	}
	t.notes = nil
	return p
}

// of requires mu.
func (t *Tallies) of(s *share) Counts {
	c := s.backlog.Plus(s.old)
	for _, b := range t.kept {
		if b.epoch >= s.since && !b.pending.IsZero() {
			c = c.Plus(b.pending)
		}
	}
	c.Since = s.from
	return c
}

// Of is what is collected of incident id.
func (t *Tallies) Of(id string) Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.open[id]; s != nil {
		return t.of(s)
	}
	return Counts{}
}

// Of is the part of p that is incident id's.
func (p Pending) Of(id string) (c Counts, notes []string) {
	since, open := p.since[id]
	if !open {
		return Counts{}, nil
	}
	for _, n := range p.notes {
		if n.epoch >= since {
			notes = append(notes, n.text)
		}
	}
	return p.counts[id], notes
}
