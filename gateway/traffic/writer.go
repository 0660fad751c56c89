package traffic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"failback/gateway/decision"
)

// Pauses between attempts to write a table that could not be written.
const (
	retryFirst = time.Second
	retryMost  = 30 * time.Second
)

// writer is the state of the one goroutine that writes the file. It runs while
// the file is behind the table or a raise waits to be written.
type writer struct {
	running   bool
	idle      chan struct{} // closed when the writer that runs, or ran last, has ended
	closed    bool
	version   uint64 // of the table
	saved     uint64 // version in the file
	attempted uint64 // version of the last attempt, failed or not
	proposal  *proposal
	err       error         // of the last attempt
	attempt   chan struct{} // closed at the end of every attempt, then replaced
	nudge     chan struct{} // ends a pause
}

// proposal is a raise that takes effect once it is written.
type proposal struct {
	command  Command
	upstream string
	base     *entry
	revision uint64 // of base when it was decided
	next     *entry
	done     chan struct{} // closed when it was applied or failed
	applied  bool
	err      error // why it was not written; nil with !applied: the base changed
}

func (w *writer) init() {
	w.idle = make(chan struct{})
	close(w.idle)
	w.attempt = make(chan struct{})
	w.nudge = make(chan struct{}, 1)
}

// Err returns why the file is behind the table, nil if it is not.
func (t *Table) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writer.err
}

// Close writes what is not written yet, at the latest until ctx ends, and waits
// for the writer. The table stays readable.
func (t *Table) Close(ctx context.Context) error {
	t.mu.Lock()
	t.writer.closed = true
	if t.writer.saved != t.writer.version {
		t.startWriter()
	}
	idle := t.writer.idle
	t.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
		return fmt.Errorf("share table not written: %w", context.Cause(ctx))
	}
	if err := t.Err(); err != nil {
		return fmt.Errorf("share table not written: %w", err)
	}
	return nil
}

// startWriter makes sure that what is pending is written soon. Requires mu.
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

// await waits until version is in the file or an attempt to write it failed,
// at most for d; past that the upstreams behind count as unsynced.
func (t *Table) await(version uint64, d time.Duration) {
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
			if t.writer.saved < version {
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
		w := &t.writer
		version, p := w.version, w.proposal
		if w.saved == version && p == nil {
			break
		}
		f := t.snapshot(p)
		t.mu.Unlock()
		err := t.store(f)
		t.mu.Lock()
		w.attempted = version
		t.settle(p, err)
		if err == nil {
			pause = retryFirst
			w.saved = version
			t.caughtUp(version)
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

// rest pauses, or less if there is news.
func (t *Table) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.writer.nudge:
	}
}

// settle ends p, whose write came to err. Requires mu.
func (t *Table) settle(p *proposal, err error) {
	if p == nil || t.writer.proposal != p {
		return
	}
	t.writer.proposal = nil
	switch {
	case err != nil:
		// A failed write may have got as far as the rename.
		p.err = err
		t.writer.version++
	case p.base.revision != p.revision || !p.base.known:
		t.writer.version++
	default:
		p.next.version = p.base.version
		t.apply(p.command, p.base, p.next)
		p.applied = true
	}
	close(p.done)
}

// withdraw gives up a raise that is taking too long, unless it is settled. The
// file is then written again without it.
func (t *Table) withdraw(p *proposal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.writer.proposal != p {
		return
	}
	t.writer.proposal = nil
	t.writer.version++
	p.err = errors.New("the disk does not answer")
}

// result says what became of a settled or withdrawn p.
func (p *proposal) result(now State) (State, error) {
	switch {
	case p.applied:
		return now, nil
	case p.err != nil:
		return State{}, &WriteError{Current: now, Err: p.err}
	}
	return State{}, &StaleError{Current: now}
}

// behind marks what is in force and not written. Requires mu.
func (t *Table) behind(version uint64, err error) {
	news := t.writer.err == nil
	t.writer.err = err
	for _, e := range t.entries {
		if e.version > t.writer.saved && e.version <= version {
			e.unsynced = true
		}
	}
	if news {
		t.untold = append(t.untold, fileEvent("unsynced", "failed", err.Error()))
	}
	t.publish()
}

// caughtUp clears the marks of what is written now. Requires mu.
func (t *Table) caughtUp(version uint64) {
	for _, e := range t.entries {
		if e.version <= version {
			e.unsynced = false
		}
	}
	if t.writer.err != nil {
		t.writer.err = nil
		t.untold = append(t.untold, fileEvent("synced", "ok", ""))
	}
	t.publish()
}

func fileEvent(action, result, detail string) decision.Event {
	return decision.Event{
		Kind: decision.KindTrafficStep, Time: time.Now(), Action: action, Reason: action, Result: result,
		By: Auto, Detail: detail,
	}
}
