package traffic

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"failback/gateway/decision"
)

// Degradation says who degrades an upstream, and why.
type Degradation struct {
	Upstream string
	By       string // a name, or decision.Auto for the machine; never empty
	Why      string // what a person typed
	Reason   string // machine-readable; empty: operator or auto, by By
	Detail   string // for people, of the machine: what it saw
}

// degrade returns what d comes to. An operator takes over what the machine
// degraded, and ends the plan of what is degraded already; the machine takes
// over nothing.
func degrade(d Degradation, r Record, configured []Step, now time.Time) outcome {
	words := outcome{next: r, step: "degraded", cause: cmp.Or(d.Reason, causeOf(d.By)), detail: d.Detail}
	text := cmp.Or(strings.TrimSpace(d.Why), d.Detail, d.Reason)
	switch {
	case r.Share > 0:
		words.next = lowered(r, Command{By: d.By, Why: text}, configured, now)
		if decision.ByMachine(d.By) {
			words.next.Passed = below(r.Passed, r.Share)
		}
	case r.Machine && !decision.ByMachine(d.By):
		words.next = takenOver(r, d.By, text, now)
	case r.Plan != nil && !decision.ByMachine(d.By):
		words.next = unplanned(r, d.By, now)
	}
	return words
}

// retreat returns where r, whose step failed, goes: to the highest lower share
// whose window passed, else the machine degrades it. The marks of the failed
// share and of those above are gone.
func retreat(reason, detail string, revision uint64, r Record, s State, now time.Time) (outcome, error) {
	if err := current(revision, r, s); err != nil {
		return outcome{}, err
	}
	if r.condition() != Recovering {
		return outcome{}, &BlockedError{Current: s, By: "only a recovering upstream retreats"}
	}
	passed := below(r.Passed, r.Share)
	share := 0
	if len(passed) > 0 {
		share = slices.Max(passed)
	}
	next := lowered(r, Command{Share: share, By: decision.Auto, Why: cmp.Or(detail, reason)}, nil, now)
	next.Passed, next.Retreats = passed, r.Retreats+1
	if next.Retreats >= retreatsMost {
		next.Plan = nil
	}
	return outcome{next: next, step: "retreat", cause: reason, detail: detail}, nil
}

// settle ends the failback of an upstream that held Full.
func settle(detail string, revision uint64, r Record, s State, now time.Time) (outcome, error) {
	if err := current(revision, r, s); err != nil {
		return outcome{}, err
	}
	if r.condition() != Recovering || r.Share != Full {
		return outcome{}, &BlockedError{Current: s, By: "only an upstream that recovers at " + percent(Full) + " settles"}
	}
	next := ended(changed(r, decision.Auto, now))
	entered(&next, r, decision.Auto, now)
	return outcome{next: next, cause: "recovered", detail: detail}, nil
}

// approve puts the plan of by in force.
func approve(by string, revision uint64, r Record, s State, now time.Time) (outcome, error) {
	if r.Plan != nil && r.Plan.By == by {
		return outcome{next: r}, nil
	}
	if err := current(revision, r, s); err != nil {
		return outcome{}, err
	}
	switch {
	case r.FailbackID == "":
		return outcome{}, &BlockedError{Current: s, By: "no failback is under way"}
	case r.Share == Full:
		return outcome{}, &BlockedError{Current: s, By: "no step is left to approve"}
	case r.Retreats >= retreatsMost:
		return outcome{}, &BlockedError{Current: s, By: "it retreated twice: every step is an operator's"}
	}
	next := changed(r, by, now)
	next.Undo = r.Undo // a plan moves nothing
	next.Plan = &Plan{By: by, At: now}
	return outcome{next: next, step: "approved"}, nil
}

// unplanned is r without its plan, which by ended.
func unplanned(r Record, by string, now time.Time) Record {
	next := changed(r, by, now)
	next.Undo, next.Plan = r.Undo, nil
	return next
}

// marked is r with the mark that the window of its share passed.
func marked(r Record) Record {
	if r.condition() == Recovering && !slices.Contains(r.Passed, r.Share) {
		r.Passed = append(slices.Clone(r.Passed), r.Share)
		slices.Sort(r.Passed)
	}
	return r
}

// inEpoch is r as primary of what epoch names. What was seen of other traffic
// does not count: the window begins anew, and none has passed.
func inEpoch(r Record, epoch string) Record {
	if r.Epoch != "" && r.Epoch != epoch {
		r.Served, r.Passed = 0, nil
	}
	r.Epoch = epoch
	return r
}

func current(revision uint64, r Record, s State) error {
	if revision != r.Revision {
		return &StaleError{Current: s}
	}
	return nil
}

func below(shares []int, share int) []int {
	return slices.DeleteFunc(slices.Clone(shares), func(s int) bool { return s >= share })
}
