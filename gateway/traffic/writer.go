package traffic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Pauses between attempts to store what could not be stored.
const (
	retryFirst = time.Second
	retryMost  = 30 * time.Second
)

// writer is the state of the one goroutine that stores. It runs while the
// storage is behind the table or a raise waits to be stored.
type writer struct {
	running   bool
	idle      chan struct{} // closed when the writer that runs, or ran last, has ended
	closed    bool
	version   uint64            // counts what has to be stored
	attempted uint64            // version of the last attempt, failed or not
	sending   map[string]Record // of the attempt under way
	proposal  *proposal
	err       error         // of the last attempt
	attempt   chan struct{} // closed at the end of every attempt, then replaced
	nudge     chan struct{} // ends a pause
}

// proposal is a change that takes effect once it is stored.
type proposal struct {
	order    order
	outcome  outcome
	at       time.Time
	base     *entry
	revision uint64        // of base when it was decided
	done     chan struct{} // closed when it was applied or failed
	applied  bool
	err      error // why it was not stored; nil with !applied: the base changed
}

func (w *writer) init() {
	w.idle = make(chan struct{})
	close(w.idle)
	w.attempt = make(chan struct{})
	w.nudge = make(chan struct{}, 1)
}

// Err returns why the storage is behind the table, nil if it is not.
func (t *Table) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writer.err
}

// Close stores what is not stored yet, at the latest until ctx ends, and waits
// for the writer. The table stays readable.
func (t *Table) Close(ctx context.Context) error {
	t.mu.Lock()
	t.writer.closed = true
	t.touchServed()
	if t.pending() {
		t.startWriter()
	}
	idle := t.writer.idle
	t.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
		t.giveUp()
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.unwritten(context.Cause(ctx))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.writer.err != nil {
		return t.unwritten(t.writer.err)
	}
	return nil
}

// touch has e stored soon. Requires mu.
func (t *Table) touch(e *entry) {
	t.writer.version++
	e.version = t.writer.version
	t.startWriter()
}

// pending reports whether the storage is behind. Requires mu.
func (t *Table) pending() bool {
	for _, e := range t.entries {
		if e.version > e.saved {
			return true
		}
	}
	return false
}

// startWriter makes sure that what is pending is stored soon. Requires mu.
func (t *Table) startWriter() {
	if t.writer.running {
		select {
		case t.writer.nudge <- struct{}{}:
		default:
		}
		return
	}
	t.writer.running = true
	t.writer.idle = make(chan struct{})
	go t.write(t.writer.idle)
}

// await waits until version of e is stored or an attempt at it failed, at most
// for d; past that the upstreams behind count as unsynced.
func (t *Table) await(e *entry, version uint64, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		t.mu.Lock()
		attempt, done := t.writer.attempt, t.writer.attempted >= version
		t.mu.Unlock()
		if done {
			return
		}
		select {
		case <-attempt:
		case <-timer.C:
			t.mu.Lock()
			if e.saved < version {
				t.behind(version, fmt.Errorf("not written within %v", d))
			}
			t.mu.Unlock()
			return
		}
	}
}

// write is the writer. It closes idle when it ends.
func (t *Table) write(idle chan struct{}) {
	defer close(idle)
	pause := retryFirst
	t.mu.Lock()
	for {
		// Before the storage is asked: it may take long to say that it is away.
		t.keep()
		w := &t.writer
		version, p := w.version, w.proposal
		batch := t.batch(p)
		if len(batch) == 0 {
			break
		}
		w.sending = batch
		t.mu.Unlock()
		err := t.storage.Save(t.ctx, batch)
		t.mu.Lock()
		w.sending, w.attempted = nil, version
		if err == nil {
			t.stored(batch, version)
		}
		t.finish(p, version, err)
		if err == nil {
			pause = retryFirst
			t.caughtUp()
		} else {
			t.behind(version, err)
		}
		close(w.attempt)
		w.attempt = make(chan struct{})
		if err == nil {
			continue
		}
		if w.closed {
			break
		}
		t.mu.Unlock()
		t.tell()
		t.rest(pause)
		pause = min(2*pause, retryMost)
		t.mu.Lock()
	}
	t.writer.running = false
	t.mu.Unlock()
	t.tell()
}

// batch returns what is to be stored, with p in force. Requires mu.
func (t *Table) batch(p *proposal) map[string]Record {
	batch := make(map[string]Record)
	for name, e := range t.entries {
		if e.version > e.saved {
			batch[name] = e.record().clone()
		}
	}
	if p != nil {
		batch[p.order.upstream] = p.outcome.next.clone()
	}
	return batch
}

// stored notes that batch, everything up to version, is in the storage. Requires mu.
func (t *Table) stored(batch map[string]Record, version uint64) {
	for name, r := range batch {
		e := t.entries[name]
		if e == nil {
			continue
		}
		e.saved = max(e.saved, version)
		e.stored = r.Revision
		if r.Revision == e.rec.Revision {
			e.rec.Served = r.Served
		}
	}
}

// rest pauses, or less if there is news.
func (t *Table) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.writer.nudge:
	}
}

// finish ends p, whose write as version came to err. Requires mu.
func (t *Table) finish(p *proposal, version uint64, err error) {
	if p == nil || t.writer.proposal != p {
		return
	}
	t.writer.proposal = nil
	defer close(p.done)
	e := p.base
	switch {
	case e.rec.Revision != p.revision || !e.known:
		t.refuse(p)
	case err != nil:
		// A failed write may have got as far as the storage.
		p.err = err
		t.refuse(p)
	default:
		// What belongs to no revision may have changed since it was decided.
		cur, next := e.record(), p.outcome.next
		p.outcome.next = brought(cur, next)
		t.move(p.order, e, p.outcome, p.at)
		e.moved = version
		if now := p.outcome.next; now.Epoch != next.Epoch || !slices.Equal(now.Passed, next.Passed) {
			t.touch(e)
		}
		p.applied = true
		t.publish()
	}
}

// brought is next, decided on an earlier cur of the same revision, with what
// has changed since.
func brought(cur, next Record) Record {
	next.Epoch, next.Removed = cur.Epoch, cur.Removed
	if next.FailbackID == cur.FailbackID {
		next.Passed = cur.Passed
		if next.Share == cur.Share {
			next.Served = cur.Served
		}
	}
	return next
}

// giveUpOn gives up a proposal that is taking too long, unless it is finished.
// The record is then stored again without it.
func (t *Table) giveUpOn(p *proposal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.writer.proposal != p {
		return
	}
	t.writer.proposal = nil
	t.refuse(p)
	p.err = errors.New("the storage does not answer")
}

// refuse has the record stored as it is in force, whatever became of p.
// Requires mu.
func (t *Table) refuse(p *proposal) {
	next := p.outcome.next.clone()
	p.base.refused = &next
	t.touch(p.base)
}

// result says what became of a finished p, or of one that was given up.
func (p *proposal) result(now State) (State, error) {
	switch {
	case p.applied:
		return now, nil
	case p.err != nil:
		return State{}, &WriteError{Current: now, Err: p.err}
	}
	return State{}, &StaleError{Current: now}
}

// behind marks what is in force and not stored. Requires mu.
func (t *Table) behind(version uint64, err error) {
	news := t.writer.err == nil
	t.writer.err = err
	for _, e := range t.entries {
		if e.moved > e.saved && e.moved <= version {
			e.unsynced = true
		}
	}
	if news {
		t.untold = append(t.untold, storageEvent("unsynced", "failed", err.Error()))
	}
	t.publish()
}

// caughtUp clears the marks of what is stored now. Requires mu.
func (t *Table) caughtUp() {
	for _, e := range t.entries {
		if e.moved <= e.saved {
			e.unsynced = false
		}
	}
	if t.writer.err != nil {
		t.writer.err = nil
		t.untold = append(t.untold, storageEvent("synced", "ok", ""))
	}
	t.publish()
}
