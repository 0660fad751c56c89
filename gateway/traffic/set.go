package traffic

import (
	"slices"
	"strings"
	"time"

	"failback/gateway/decision"
)

// How long a command waits for the storage. A lowering is in force before it
// waits; a raise that was not stored by then is refused.
const (
	lowerWait = 2 * time.Second
	raiseWait = 5 * time.Second
)

// Set gives an upstream the share that c asks for and returns its state then.
// Below Full a whole upstream's failback begins: at 0 it is degraded, at a step
// it recovers.
//
// Lowering always succeeds, in force before anything is stored; if it cannot be
// stored, or not soon, State.Unsynced is set and storing goes on in the
// background. Asking for the current share changes nothing, the revision
// neither, except that an operator who asks for 0 takes over what the machine
// degraded. Raising takes one step at a time, based on the current revision, and
// is stored before it takes effect; a lowering meanwhile wins, and a raise that
// went further refuses one that says so (Command.Raise).
//
// Errors are *InvalidError, *StaleError, *BlockedError and *WriteError; the
// state is then what it was.
func (t *Table) Set(c Command) (State, error) {
	if c.By == "" {
		return State{}, invalid("a command needs the name of who gives it")
	}
	return t.do(order{upstream: c.Upstream, by: c.By, why: c.Why, decide: func(r Record, s State, now time.Time) (outcome, error) {
		return decide(c, r, s, t.steps, now)
	}})
}

// Degrade takes an upstream's share to 0, whatever its condition. As a lowering
// it is never refused, takes effect at once, and can be put back by the person
// who did it. An upstream that is degraded stays as it is, except that a person
// takes over what the machine degraded, and ends its plan.
//
// The only error is *InvalidError: no such upstream, or nobody's name.
func (t *Table) Degrade(d Degradation) (State, error) {
	if d.By == "" {
		return State{}, invalid("a command needs the name of who gives it")
	}
	return t.do(order{upstream: d.Upstream, by: d.By, why: d.Why, decide: func(r Record, _ State, now time.Time) (outcome, error) {
		return degrade(d, r, t.steps, now), nil
	}})
}

// Retreat takes a recovering upstream back to the highest lower share whose
// window passed in this failback, else to 0, degraded by the machine. reason is
// machine-readable, detail for people. It takes effect at once.
//
// Errors are *InvalidError, *StaleError if revision is not the one that was
// judged any more, and *BlockedError if the upstream does not recover.
func (t *Table) Retreat(upstream, reason, detail string, revision uint64) (State, error) {
	return t.do(order{upstream: upstream, by: decision.Auto, decide: func(r Record, s State, now time.Time) (outcome, error) {
		return retreat(reason, detail, revision, r, s, now)
	}})
}

// Settle makes an upstream whole that recovers at Full. Errors are those of
// Retreat.
func (t *Table) Settle(upstream, detail string, revision uint64) (State, error) {
	return t.do(order{upstream: upstream, by: decision.Auto, decide: func(r Record, s State, now time.Time) (outcome, error) {
		return settle(detail, revision, r, s, now)
	}})
}

// Approve puts a plan of by in force: see Plan for how it ends. It is stored
// before that. A second approval by the same name changes nothing, one by
// another name takes its place. Errors are those of Set.
func (t *Table) Approve(upstream, by, why string, revision uint64) (State, error) {
	if decision.ByMachine(by) || by == "" {
		return State{}, invalid("a plan needs a person who approves it")
	}
	return t.do(order{upstream: upstream, by: by, why: why, decide: func(r Record, s State, now time.Time) (outcome, error) {
		return approve(by, revision, r, s, now)
	}})
}

// Withdraw ends the plan in force, if there is one, whoever approved it. As a
// lowering it is never refused and takes effect at once. The only error is
// *InvalidError.
func (t *Table) Withdraw(upstream, by string) (State, error) {
	if by == "" {
		return State{}, invalid("a command needs the name of who gives it")
	}
	return t.do(order{upstream: upstream, by: by, decide: func(r Record, _ State, now time.Time) (outcome, error) {
		if r.Plan == nil {
			return outcome{next: r}, nil
		}
		return outcome{next: unplanned(r, by, now)}, nil
	}})
}

// MarkPassed notes that the window of the step in force passed, unless the
// revision is another by now or the upstream does not recover.
func (t *Table) MarkPassed(upstream string, revision uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[upstream]
	if e == nil || !e.known || e.rec.Revision != revision {
		return
	}
	cur := e.record()
	next := marked(cur)
	if slices.Equal(cur.Passed, next.Passed) {
		return
	}
	e.install(next)
	t.touch(e)
	t.publish()
}

// order is what somebody wants done.
type order struct {
	upstream, by, why string
	// decide says what it comes to, as a pure function but for Table.steps. It
	// is called with mu held, again if the record has changed meanwhile.
	decide func(Record, State, time.Time) (outcome, error)
}

func (t *Table) do(o order) (State, error) {
	defer t.tell()
	for {
		state, loose, err := t.doNow(o)
		if !loose {
			return state, err
		}
		state, tight, err := t.doStored(o)
		if !tight {
			return state, err
		}
	}
}

// doNow does o unless it lets more through.
func (t *Table) doNow(o order) (state State, loose bool, err error) {
	now := time.Now()
	t.mu.Lock()
	e, out, err := t.decide(o, now)
	switch {
	case err != nil:
		t.mu.Unlock()
		return State{}, false, err
	case out.next.Revision == e.rec.Revision:
		if t.pending() {
			t.startWriter()
		}
		state = e.state(o.upstream)
		t.mu.Unlock()
		return state, false, nil
	case looser(e.rec, out.next):
		t.mu.Unlock()
		return State{}, true, nil
	}
	t.move(o, e, out, now)
	t.touch(e)
	e.moved = e.version
	version := e.version
	t.publish()
	t.mu.Unlock()

	t.await(e, version, lowerWait)
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.state(o.upstream), false, nil
}

// doStored does o, and stores it before, unless it has become a lowering since
// it was last looked at, because another raise went further.
func (t *Table) doStored(o order) (state State, tight bool, err error) {
	t.raising.Lock()
	defer t.raising.Unlock()
	now := time.Now()
	t.mu.Lock()
	e, out, err := t.decide(o, now)
	switch {
	case err != nil:
		t.mu.Unlock()
		return State{}, false, err
	case out.next.Revision == e.rec.Revision || !looser(e.rec, out.next):
		state = e.state(o.upstream)
		t.mu.Unlock()
		return state, out.next.Revision != e.rec.Revision, nil
	}
	p := &proposal{order: o, outcome: out, at: now, base: e, revision: e.rec.Revision, done: make(chan struct{})}
	t.writer.proposal = p
	t.startWriter()
	t.mu.Unlock()

	timer := time.NewTimer(raiseWait)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		t.giveUpOn(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	state, err = p.result(e.state(o.upstream))
	return state, false, err
}

// decide finds the entry of o and what o comes to. Requires mu.
func (t *Table) decide(o order, now time.Time) (*entry, outcome, error) {
	e := t.entries[o.upstream]
	if e == nil || !e.known {
		return nil, outcome{}, invalid("there is no upstream %q", o.upstream)
	}
	cur := e.record()
	out, err := o.decide(cur, e.state(o.upstream), now)
	if err != nil {
		return nil, outcome{}, err
	}
	if cur.FailbackID == "" && out.next.FailbackID != "" {
		out.next.Split = e.own.heavy(now)
	}
	return e, out, nil
}

// move makes out what e is, and tells it. Requires mu.
func (t *Table) move(o order, e *entry, out outcome, now time.Time) {
	t.untold = append(t.untold, eventsOf(o.upstream, e.rec, out, o.by, strings.TrimSpace(o.why), now)...)
	e.install(out.next)
}
