package traffic

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Merge takes in what another gateway stored, by the name of the upstream. A
// record with a higher revision takes the place of what is in force here. If
// both changed since the storage was last known, the lower share wins, and of
// equal shares the stricter condition. What wins gets a revision above both, so
// that nobody acts on the one that lost.
//
// Every change is told, and so is a record that contradicts itself, which is
// left alone. That a name left the configuration there says nothing of here.
func (t *Table) Merge(records map[string]Record) {
	now := time.Now()
	t.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(records)) {
		r := records[name].clone()
		if err := r.Validate(); err != nil {
			e := storageEvent("merge", "failed", fmt.Sprintf("the record of another gateway is left alone: %v", err))
			e.Provider = name
			t.untold = append(t.untold, e)
			continue
		}
		t.merge(name, r, now)
	}
	t.publish()
	t.mu.Unlock()
	t.tell()
}

// merge takes in r, the record of name. Requires mu.
func (t *Table) merge(name string, r Record, now time.Time) {
	e := t.entries[name]
	if e == nil {
		if r.Removed.IsZero() {
			r.Removed = now // not an upstream of this gateway
		}
		e = newEntry(r)
		e.stored = r.Revision
		t.entries[name] = e
		return
	}
	if t.own(name, e, r) {
		return
	}
	cur := e.record()
	if e.refused != nil && same(*e.refused, r) {
		// A raise that was refused here has got as far as the storage all the same.
		cur.Revision = max(cur.Revision, r.Revision+1)
		e.install(cur)
		t.touch(e)
		e.moved = e.version
		return
	}
	if e.known && !r.Removed.IsZero() {
		defer t.touch(e) // another gateway lost it; the storage must not
	}
	r.Removed = cur.Removed
	if e.known {
		r = inEpoch(r, cur.Epoch)
	}
	here, there := e.moved > e.saved, r.Revision > e.stored
	switch {
	case same(cur, r):
		e.stored = max(e.stored, r.Revision)
		cur.Passed = union(cur.Passed, r.Passed)
		cur.Served = max(cur.Served, r.Served)
		e.install(cur)
	case r.Revision == cur.Revision || here && there:
		t.contest(name, e, cur, r, now)
	case r.Revision > cur.Revision:
		t.adopt(name, e, r, now)
		e.stored = r.Revision
	}
}

// own reports whether r is what this gateway stores or has stored. Requires mu.
func (t *Table) own(name string, e *entry, r Record) bool {
	if p := t.writer.proposal; p != nil && p.base == e && same(p.outcome.next, r) {
		return true
	}
	sent, sending := t.writer.sending[name]
	return sending && same(sent, r)
}

// contest has cur and r, which both claim to be the newest, come to one.
// Requires mu.
func (t *Table) contest(name string, e *entry, cur, r Record, now time.Time) {
	e.stored = max(e.stored, r.Revision)
	if stricter(cur, r) {
		if cur.Revision <= r.Revision {
			cur.Revision = r.Revision + 1
			e.install(cur)
		}
		t.touch(e)
		e.moved = e.version
		return
	}
	bumped := r.Revision <= cur.Revision
	if bumped {
		r.Revision = cur.Revision + 1
	}
	t.adopt(name, e, r, now)
	if bumped {
		t.touch(e)
		e.moved = e.version
	}
}

// adopt makes r, of another gateway, what e is. Requires mu.
func (t *Table) adopt(name string, e *entry, r Record, now time.Time) {
	cur := e.record()
	by, why := r.By, r.Why
	if r.Share == cur.Share {
		by, why = r.StateBy, ""
	}
	if e.known {
		t.untold = append(t.untold, eventsOf(name, cur, outcome{next: r, step: "merged", cause: "merged", detail: "by another gateway"}, by, why, now)...)
	}
	e.install(r)
	// What was to be stored lost: nothing of it is in force any more, and if it
	// is on its way, it must not stay.
	e.saved, e.moved, e.unsynced = e.version, 0, false
	if _, sending := t.writer.sending[name]; sending {
		t.touch(e)
	}
}

// stricter reports whether a wins over b.
func stricter(a, b Record) bool {
	if a.Share != b.Share {
		return a.Share < b.Share
	}
	if a.condition() != b.condition() {
		return a.condition() != Whole
	}
	if a.Machine != b.Machine {
		return !a.Machine
	}
	if (a.Plan == nil) != (b.Plan == nil) {
		return a.Plan == nil
	}
	if a.Revision != b.Revision {
		return a.Revision > b.Revision
	}
	if !a.Since.Equal(b.Since) {
		return a.Since.Before(b.Since)
	}
	return a.By <= b.By
}

// same reports whether a and b are the same revision of the same upstream. What
// grows within a revision may differ, and so may when and by whom whole
// upstreams came to be.
func same(a, b Record) bool {
	if a.condition() == Whole && b.condition() == Whole {
		return a.Revision == b.Revision
	}
	return a.Revision == b.Revision && a.Share == b.Share && a.FailbackID == b.FailbackID && a.Machine == b.Machine &&
		a.By == b.By && a.Since.Equal(b.Since) && a.StateBy == b.StateBy && a.Retreats == b.Retreats && samePlan(a.Plan, b.Plan)
}

func samePlan(a, b *Plan) bool {
	return a == nil && b == nil || a != nil && b != nil && a.By == b.By && a.At.Equal(b.At)
}

func union(a, b []int) []int {
	l := slices.Concat(a, b)
	slices.Sort(l)
	return slices.Compact(l)
}
