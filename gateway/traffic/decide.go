package traffic

import (
	"slices"
	"strings"
	"time"

	"failback/gateway/decision"
)

// outcome is what a command comes to: the record afterwards, which is the one
// before if there is nothing to do, and the words of its events.
type outcome struct {
	next   Record
	step   string // reason of the step: raised, lowered, undo, override, degraded, retreat, merged
	cause  string // of the change of condition: operator, auto, plan, override, undo, recovered, merged, or the machine's
	detail string // for people
}

// looser reports whether next lets more through than cur, or will by itself:
// only that must be stored before it takes effect.
func looser(cur, next Record) bool {
	return next.Share > cur.Share || next.Plan != nil && !samePlan(cur.Plan, next.Plan)
}

// decide returns what c comes to for the upstream whose record is r and whose
// state is s. configured are the steps of a failback that begins now. A lower
// share takes effect whatever c was based on, unless c was meant to raise. Errors are
// those of Table.Set.
func decide(c Command, r Record, s State, configured []Step, now time.Time) (outcome, error) {
	if c.Undo {
		return undo(c, r, s, now)
	}
	if !isShare(c.Share, r.Steps, configured) {
		steps := configured
		if len(r.Steps) > 0 {
			steps = r.Steps
		}
		return outcome{}, invalid("share %d of %s is none of %s", c.Share, s.Upstream, shareList(steps))
	}
	switch {
	case c.Raise && c.Share <= r.Share:
		return outcome{}, &StaleError{Current: s}
	case c.Share < r.Share:
		return outcome{next: lowered(r, c, configured, now), step: "lowered", cause: causeOf(c.By)}, nil
	case c.Share == r.Share && r.Machine && !decision.ByMachine(c.By):
		// An operator takes over what the machine degraded: it gets nothing
		// any more, which is less.
		return outcome{next: takenOver(r, c.By, strings.TrimSpace(c.Why), now), cause: causeOf(c.By)}, nil
	case c.Share == 0 && r.Share == 0 && r.Plan != nil && !decision.ByMachine(c.By):
		return outcome{next: unplanned(r, c.By, now)}, nil
	case c.Share == r.Share:
		return outcome{next: r}, nil
	}
	if err := mayRaise(c, r, s); err != nil {
		return outcome{}, err
	}
	out := outcome{next: raised(r, c, now), step: "raised", cause: causeOf(c.By)}
	if c.Override {
		out.step, out.cause = "override", "override"
	}
	return out, nil
}

// causeOf is the reason of a change of condition that by asked for.
func causeOf(by string) string {
	switch {
	case by == decision.Auto:
		return "auto"
	case decision.ByMachine(by):
		return "plan"
	}
	return "operator"
}

// mayRaise reports what keeps c, which asks for more, from getting it.
func mayRaise(c Command, r Record, s State) error {
	if c.Revision == nil {
		return invalid("raising %s needs the revision it is based on; the current one is %d", s.Upstream, r.Revision)
	}
	if *c.Revision != r.Revision {
		return &StaleError{Current: s}
	}
	blocked := func(by string) error { return &BlockedError{Current: s, By: by} }
	if decision.ByMachine(c.By) {
		switch {
		case c.Override:
			return invalid("an override of %s needs a person: %s is none", s.Upstream, c.By)
		case r.Retreats >= retreatsMost:
			return blocked("it retreated twice: the next step is an operator's")
		case c.By != decision.Auto && (r.Plan == nil || c.By != decision.ByPlan(r.Plan.By)):
			name, _ := decision.PlanOf(c.By)
			return blocked("no plan of " + name + " is in force")
		}
	}
	if c.Override {
		if strings.TrimSpace(c.Why) == "" {
			return invalid("an override needs a reason: say why %s may skip its gate", s.Upstream)
		}
		if !isShare(c.Share, r.Steps) {
			return invalid("share %d of %s is none of %s, the steps its failback began with", c.Share, s.Upstream, shareList(r.Steps))
		}
		return nil
	}
	next := s.Next()
	if c.Collapse {
		next = Full
	}
	if c.Share != next {
		return blocked("one step at a time: the next is " + percent(next))
	}
	if c.BlockedBy != "" {
		return blocked(c.BlockedBy)
	}
	return nil
}

func undo(c Command, r Record, s State, now time.Time) (outcome, error) {
	if c.Revision != nil && *c.Revision != r.Revision {
		return outcome{}, &StaleError{Current: s}
	}
	u := r.Undo
	switch {
	case u == nil:
		return outcome{}, &BlockedError{Current: s, By: "its last change is not a lowering that can be put back"}
	case u.By != c.By:
		return outcome{}, &BlockedError{Current: s, By: "only " + u.By + " can put back that lowering; raise it step by step"}
	case now.After(u.Until):
		return outcome{}, &BlockedError{Current: s, By: "it was lowered more than " + UndoFor.String() + " ago; raise it step by step"}
	}
	c.Share = u.Share
	next := raised(r, c, now)
	if u.Whole {
		next = ended(next)
		next.LastID = u.LastID
	}
	next.Reason = u.Reason
	entered(&next, r, c.By, now)
	return outcome{next: next, step: "undo", cause: "undo"}, nil
}

// changed is r one revision on, which by wrote.
func changed(r Record, by string, now time.Time) Record {
	r.Revision++
	r.RevisedBy, r.RevisedAt = by, now
	r.Undo = nil
	return r
}

// entered notes on next, which r becomes, whose change of condition it is.
func entered(next *Record, r Record, by string, now time.Time) {
	if next.condition() != r.condition() || next.Machine != r.Machine {
		next.StateSince, next.StateBy = now, by
	}
}

func raised(r Record, c Command, now time.Time) Record {
	next := changed(r, c.By, now)
	next.Share, next.Since, next.By, next.Why = c.Share, now, c.By, strings.TrimSpace(c.Why)
	next.Served, next.Machine = 0, false
	entered(&next, r, c.By, now)
	return next
}

// lowered begins a failback with the configured steps unless one is under way.
func lowered(r Record, c Command, configured []Step, now time.Time) Record {
	next := changed(r, c.By, now)
	next.Share, next.Since, next.By, next.Why = c.Share, now, c.By, strings.TrimSpace(c.Why)
	next.Served, next.Machine = 0, c.Share == 0 && c.By == decision.Auto
	if r.FailbackID == "" {
		next.FailbackID, next.Steps = nextID(r.LastID, now), slices.Clone(configured)
	}
	if r.FailbackID == "" || c.Share == 0 {
		next.Reason = next.Why
	}
	if !decision.ByMachine(c.By) {
		next.Undo = &UndoRecord{
			Share: r.Share, Whole: r.FailbackID == "", Reason: r.Reason, LastID: r.LastID,
			By: c.By, Until: now.Add(UndoFor),
		}
	}
	if !decision.ByMachine(c.By) || c.Share == 0 {
		next.Plan = nil
	}
	entered(&next, r, c.By, now)
	return next
}

// takenOver is r, degraded by the machine, as an operator's doing. Like every
// way of a person down to 0 it ends the plan.
func takenOver(r Record, by, reason string, now time.Time) Record {
	next := changed(r, by, now)
	next.Machine, next.By, next.Why, next.Reason = false, by, reason, reason
	next.Plan = nil
	entered(&next, r, by, now)
	return next
}

// ended is r without its failback.
func ended(r Record) Record {
	r.LastID, r.FailbackID = r.FailbackID, ""
	r.Machine, r.Steps, r.Passed, r.Retreats, r.Plan, r.Undo = false, nil, nil, 0, nil, nil
	r.Served, r.Split, r.Reason = 0, nil, ""
	return r
}
