package traffic

import (
	"strconv"
	"strings"
	"time"

	"failback/gateway/decision"
)

// How long a command waits for the disk. A lowering is in force before it
// waits; a raise that was not written by then is refused.
const (
	lowerWait = 2 * time.Second
	raiseWait = 5 * time.Second
)

// Set gives an upstream the share that c asks for and returns its state then.
//
// Lowering always succeeds, in force before anything is written; if it cannot
// be written, or not soon, State.Unsynced is set and writing goes on in the
// background. Asking for the current share changes nothing, the revision
// neither. Raising takes one step at a time, based on the current revision, and
// is written before it takes effect; a lowering meanwhile wins.
//
// Errors are *InvalidError, *StaleError, *BlockedError and *WriteError; the
// share is then what it was.
func (t *Table) Set(c Command) (State, error) {
	if c.By == "" {
		return State{}, invalid("a command needs the name of who gives it")
	}
	if !c.Undo && !isStep(c.Share) {
		return State{}, invalid("share %d is none of %s", c.Share, stepList())
	}
	defer t.tell()
	for {
		state, raise, err := t.lower(c)
		if !raise {
			return state, err
		}
		state, lower, err := t.raise(c)
		if !lower {
			return state, err
		}
	}
}

// lower does c unless it is a raise.
func (t *Table) lower(c Command) (state State, raise bool, err error) {
	now := time.Now()
	t.mu.Lock()
	e, share, err := t.decide(c, now)
	switch {
	case err != nil:
		t.mu.Unlock()
		return State{}, false, err
	case share > e.share:
		t.mu.Unlock()
		return State{}, true, nil
	case share == e.share:
		if t.writer.saved != t.writer.version {
			t.startWriter()
		}
		state = e.state(c.Upstream)
		t.mu.Unlock()
		return state, false, nil
	}
	next := e.next(share, c, now)
	t.writer.version++
	next.version = t.writer.version
	t.apply(c, e, next)
	t.startWriter()
	t.mu.Unlock()

	t.await(next.version, lowerWait)
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.state(c.Upstream), false, nil
}

// raise does c unless it has become a lowering since it was last looked at,
// because another raise went further.
func (t *Table) raise(c Command) (state State, lower bool, err error) {
	t.raising.Lock()
	defer t.raising.Unlock()
	now := time.Now()
	t.mu.Lock()
	e, share, err := t.decide(c, now)
	switch {
	case err != nil:
		t.mu.Unlock()
		return State{}, false, err
	case share <= e.share:
		state = e.state(c.Upstream)
		t.mu.Unlock()
		return state, share < e.share, nil
	}
	p := &proposal{
		command: c, upstream: c.Upstream, base: e, revision: e.revision,
		next: e.next(share, c, now), done: make(chan struct{}),
	}
	t.writer.proposal = p
	t.startWriter()
	t.mu.Unlock()

	timer := time.NewTimer(raiseWait)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		t.withdraw(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	state, err = p.result(e.state(c.Upstream))
	return state, false, err
}

// decide finds the entry of c and what c comes to. Requires mu.
func (t *Table) decide(c Command, now time.Time) (*entry, int, error) {
	e := t.entries[c.Upstream]
	if e == nil || !e.known {
		return nil, 0, invalid("there is no upstream %q", c.Upstream)
	}
	share, err := decide(c, e.state(c.Upstream), now)
	return e, share, err
}

// next returns the entry that e becomes with share.
func (e *entry) next(share int, c Command, now time.Time) *entry {
	n := *e
	n.share, n.revision, n.since, n.by, n.why = share, e.revision+1, now, c.By, strings.TrimSpace(c.Why)
	n.undo = nil
	if share < e.share && c.By != Auto {
		n.undo = &Undo{Share: e.share, By: c.By, Until: now.Add(UndoFor)}
	}
	switch {
	case share == Full:
		n.id, n.heavy = "", nil
	case e.share == Full:
		n.id, n.heavy = now.UTC().Format(idLayout), e.own.heavy(now)
	}
	return &n
}

// apply puts next in the place of e and tells it. Requires mu.
func (t *Table) apply(c Command, e, next *entry) {
	from := e.share
	// What does not belong to the share may have changed since next was made.
	next.unsynced, next.known, next.removed, next.own = e.unsynced, e.known, e.removed, e.own
	*e = *next
	t.untold = append(t.untold, stepEvent(c, from, e))
	t.publish()
}

func stepEvent(c Command, from int, e *entry) decision.Event {
	reason := "raised"
	switch {
	case c.Undo:
		reason = "undo"
	case e.share < from:
		reason = "lowered"
	case c.Override:
		reason = "override"
	}
	detail := ""
	if e.id != "" {
		detail = "failback " + e.id
	}
	if n := len(e.heavy); n > 0 {
		detail += ", " + strconv.Itoa(n) + " conversations split by request"
	}
	return decision.Event{
		Kind: decision.KindTrafficStep, Time: e.since, Provider: c.Upstream,
		From: strconv.Itoa(from), To: strconv.Itoa(e.share), Reason: reason, Detail: detail,
		By: e.by, Why: e.why, Action: "share", Result: "ok", Revision: e.revision,
	}
}
