package traffic

import (
	"strings"
	"time"
)

// decide returns the share that c comes to in state cur at now. An equal share
// means that there is nothing to do, a lower one takes effect whatever c was
// based on. Errors are those of Table.Set.
func decide(c Command, cur State, now time.Time) (int, error) {
	if c.Undo {
		return undo(c, cur, now)
	}
	if c.Share <= cur.Share {
		return c.Share, nil
	}
	if c.Revision == nil {
		return 0, invalid("raising %s needs the revision it is based on; the current one is %d", cur.Upstream, cur.Revision)
	}
	if *c.Revision != cur.Revision {
		return 0, &StaleError{Current: cur}
	}
	if c.Override {
		if strings.TrimSpace(c.Why) == "" {
			return 0, invalid("an override needs a reason: say why %s may skip its gate", cur.Upstream)
		}
		return c.Share, nil
	}
	if next := Next(cur.Share); c.Share != next {
		return 0, &BlockedError{Current: cur, By: "one step at a time: the next is " + percent(next)}
	}
	if c.BlockedBy != "" {
		return 0, &BlockedError{Current: cur, By: c.BlockedBy}
	}
	return c.Share, nil
}

func undo(c Command, cur State, now time.Time) (int, error) {
	if c.Revision != nil && *c.Revision != cur.Revision {
		return 0, &StaleError{Current: cur}
	}
	u := cur.Undo
	switch {
	case u == nil:
		return 0, &BlockedError{Current: cur, By: "its last change is not a lowering that can be put back"}
	case u.By != c.By:
		return 0, &BlockedError{Current: cur, By: "only " + u.By + " can put back that lowering; raise it step by step"}
	case now.After(u.Until):
		return 0, &BlockedError{Current: cur, By: "it was lowered more than " + UndoFor.String() + " ago; raise it step by step"}
	}
	return u.Share, nil
}
