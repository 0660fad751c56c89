package incident

import (
	"slices"
	"sync"
	"time"
)

// maxPending is how many ops of one record wait for the store.
const maxPending = 1000

// Book holds the records of one process: what the store has of each, and what is
// not there yet. Its methods may be called from any goroutine.
type Book struct {
	writer, instance string

	mu    sync.Mutex // guards everything that follows
	seq   uint64
	kept  map[string]*kept
	moved map[string]string // ids that became others
}

// kept is one record.
type kept struct {
	stored   Record // with what the store has
	revision uint64 // the store's; 0: it has none
	pending  []Op
	view     Record // stored and pending
	claim    bool   // another gateway may have opened one for the same
	failed   bool   // the last write failed
}

// NewBook returns an empty book. writer is random and of this process alone,
// instance its gateway's name.
func NewBook(writer, instance string) *Book {
	return &Book{writer: writer, instance: instance, kept: map[string]*kept{}, moved: map[string]string{}}
}

// Do changes the record of op.ID and returns it as it is afterwards; false if
// there is none. An OpOpen makes it. claim says that it is to be agreed on with
// other gateways first.
func (b *Book) Do(id string, op Op, claim bool) (Record, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id = b.current(id)
	k := b.kept[id]
	if k == nil {
		if op.Kind != OpOpen {
			return Record{}, false
		}
		k = &kept{claim: claim}
		b.kept[id] = k
	}
	k.push(b.stamp(op))
	return k.view, true
}

// stamp requires mu.
func (b *Book) stamp(op Op) Op {
	b.seq++
	op.Writer, op.Instance, op.Seq = b.writer, b.instance, b.seq
	return op
}

func (k *kept) push(op Op) {
	k.view = k.view.Apply(op) // it has what gives way to op until it is made anew
	if len(k.pending) >= maxPending {
		i := leastPending(k.pending)
		op.Lost += k.pending[i].Lost
		if k.pending[i].Kind != OpCount {
			op.Lost++
		}
		op.Counts = op.Counts.Plus(k.pending[i].Counts)
		k.pending = slices.Delete(k.pending, i, i+1)
	}
	k.pending = append(k.pending, op)
}

// leastPending is the op that gives way to a new one: of the tries of open breakers
// the oldest, then of all that happened, then a count, which the new one takes over,
// then of what people wrote the oldest.
func leastPending(pending []Op) int {
	if i := slices.IndexFunc(pending, func(o Op) bool { return o.Kind == OpEvent && try(o.Event, o.By) }); i >= 0 {
		return i
	}
	for _, kinds := range [][]OpKind{{OpEvent}, {OpCount}, {OpNote, OpTick}, {OpAnswer, OpTrouble, OpSwitch, OpClose, OpReopen}} {
		if i := slices.IndexFunc(pending, func(o Op) bool { return slices.Contains(kinds, o.Kind) }); i >= 0 {
			return i
		}
	}
	return len(pending) - 1
}

// replay makes the view anew.
func (k *kept) replay(writer string) {
	taken := k.stored.Writers[writer].Seq
	k.pending = slices.DeleteFunc(k.pending, func(op Op) bool { return op.Seq <= taken })
	k.view = k.stored
	for _, op := range k.pending {
		k.view = k.view.Apply(op)
	}
}

// current is what became of id. It requires mu.
func (b *Book) current(id string) string {
	for range len(b.moved) {
		to, ok := b.moved[id]
		if !ok {
			break
		}
		id = to
	}
	return id
}

// Current is what became of id: itself, or the record that it was moved to.
func (b *Book) Current(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current(id)
}

// Learn takes what the store has of a record, unless it is older than what is
// known.
func (b *Book) Learn(id string, r Record, revision uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kept[id]
	if k == nil {
		k = &kept{}
		b.kept[id] = k
	}
	if revision > k.revision {
		k.stored, k.revision, k.claim = r, revision, false
		k.replay(b.writer)
	}
}

// Gone takes that the store has no record of id any more. What is not written yet
// stays, and is written as another one only if it opens it.
func (b *Book) Gone(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kept[id]
	if k == nil {
		return
	}
	if len(k.pending) > 0 && k.pending[0].Kind == OpOpen {
		k.stored, k.revision = Record{}, 0
		k.replay(b.writer)
		return
	}
	delete(b.kept, id)
}

// Work is a record that is to be written.
type Work struct {
	ID       string
	Record   Record
	Revision uint64 // that it is based on
	Seq      uint64 // the last op in it
	Claim    bool
}

// Work is what is to be written of id; false if nothing is.
func (b *Book) Work(id string) (Work, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id = b.current(id)
	k := b.kept[id]
	if k == nil || len(k.pending) == 0 {
		return Work{}, false
	}
	return Work{ID: id, Record: k.view, Revision: k.revision, Seq: k.pending[len(k.pending)-1].Seq, Claim: k.claim}, true
}

// Wrote takes that the store has w under revision now.
func (b *Book) Wrote(w Work, revision uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kept[w.ID]
	if k == nil {
		return // it was dropped meanwhile
	}
	// It may have been learned what others wrote after it, without this writer.
	k.pending = slices.DeleteFunc(k.pending, func(op Op) bool { return op.Seq <= w.Seq })
	k.failed = false
	if revision > k.revision {
		k.stored, k.revision, k.claim = w.Record, revision, false
	}
	k.replay(b.writer)
}

// Failed takes that id could not be written.
func (b *Book) Failed(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.kept[b.current(id)]; k != nil {
		k.failed = true
	}
}

// Claimed takes that id may be written as it is.
func (b *Book) Claimed(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.kept[id]; k != nil {
		k.claim = false
	}
}

// Move has all that is known here of id, which was never written, happen to the
// record to.
func (b *Book) Move(id, to string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := b.kept[id]
	if from == nil || id == to {
		return
	}
	delete(b.kept, id)
	b.moved[id] = to
	k := b.kept[to]
	if k == nil {
		k = &kept{}
		b.kept[to] = k
	}
	for _, op := range from.pending {
		if op.Kind == OpOpen {
			op.ID = to
		}
		k.push(b.stamp(op))
	}
}

// Revision is the store's of what is known of id; 0: the store has none.
func (b *Book) Revision(id string) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.kept[id]; k != nil {
		return k.revision
	}
	return 0
}

// Forget drops a record that is not to be kept.
func (b *Book) Forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.kept, id)
}

// Records are all of them, newest first.
func (b *Book) Records() []Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := make([]Record, 0, len(b.kept))
	for _, k := range b.kept {
		if k.view.ID != "" {
			l = append(l, k.view)
		}
	}
	slices.SortFunc(l, func(a, b Record) int {
		if c := b.OpenedAt.Compare(a.OpenedAt); c != 0 {
			return c
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return l
}

// Get is one of them, and whether its newest part could not be written.
func (b *Book) Get(id string) (r Record, unsynced, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kept[b.current(id)]
	if k == nil || k.view.ID == "" {
		return Record{}, false, false
	}
	return k.view, k.failed && len(k.pending) > 0, true
}

// Pending are the ids of those that wait to be written.
func (b *Book) Pending() (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, k := range b.kept {
		if len(k.pending) > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// NewID is that of an incident that is opened at a time; salt tells those of the
// same second apart.
func NewID(at time.Time, salt string) string { return at.UTC().Format("20060102-150405-") + salt }
