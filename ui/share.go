package ui

import (
	"slices"
	"strconv"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// sharesOf are the shares that u may be given, in percent, 0 first: the steps
// of its failback under way, else those that are configured.
func sharesOf(s *api.State, u *api.Upstream) []int {
	shares := []int{0}
	for _, f := range stepsOf(s, u) {
		if f.Share > shares[len(shares)-1] {
			shares = append(shares, f.Share)
		}
	}
	if shares[len(shares)-1] < 100 {
		shares = append(shares, 100)
	}
	return shares
}

// shareAbove and shareBelow are the shares of u next to a share; -1 if there
// is none.
func shareAbove(s *api.State, u *api.Upstream, share int) int {
	if n := u.NextStep.Share; share == u.Share && n > share {
		return n // the gateway's word: the steps of a spare collapse
	}
	for _, v := range sharesOf(s, u) {
		if v > share {
			return v
		}
	}
	return -1
}

func shareBelow(s *api.State, u *api.Upstream, share int) int {
	for _, v := range slices.Backward(sharesOf(s, u)) {
		if v < share {
			return v
		}
	}
	return -1
}

// unstated is said of an upstream whose share is not known.
const unstated = "the gateway does not say its share"

func (m *model) noRaise() string {
	if u := m.current(); u != nil && !u.Stated() {
		return m.th.outside(u.Name) + ": " + unstated
	}
	return m.noStep(shareAbove, " has all of its traffic already")
}

func (m *model) noLower() string {
	return m.noStep(shareBelow, " has nothing left to take away")
}

// noStep says why no step can be taken, empty if one can; end is what to say
// of an upstream that has no further step.
func (m *model) noStep(further func(s *api.State, u *api.Upstream, share int) int, end string) string {
	u := m.current()
	switch {
	case m.noWrite() != "":
		return m.noWrite()
	case u == nil:
		return "there is no upstream under the cursor"
	case further(m.live.state.Value(), u, u.Share) < 0:
		return m.th.outside(u.Name) + end
	}
	return ""
}

// step opens the dialog for the next step up or down of the current upstream.
func (m *model) step(up bool) {
	u, further := m.current(), shareBelow
	if up {
		further = shareAbove
	}
	to := further(m.live.state.Value(), u, u.Share)
	m.openDialog(u, to)
}

// undoFor is how long a change is offered to be put back.
const undoFor = time.Hour

// undoing is a change that `u` would put back.
type undoing struct {
	upstream string
	share    int
	// restore is the gateway's own way back, which needs no step and no gate:
	// of one's own lowering of the last minutes.
	restore bool
	event   *api.Event // the change; nil if it is not among those known
}

// undoable finds what `u` puts back: the lowering of the upstream under the
// cursor if it can be restored, else the newest change of a share by a person; on a
// screen about one upstream, and where others are filtered away, of what it shows.
// why says why there is none.
func (m *model) undoable() (undoing, string) {
	s := m.live.state.Value()
	if s == nil {
		return undoing{}, m.never()
	}
	now := m.live.clock(m.now)
	if u := m.current(); m.restorable(u) {
		return undoing{upstream: u.Name, share: u.Undo.Share, restore: true, event: m.lastStep(u)}, ""
	}
	for i := range m.live.changes {
		e := &m.live.changes[i]
		if !e.IsStep() || text.ByMachine(e.By) || !m.about(e.Provider) {
			continue
		}
		u := m.live.upstream(e.Provider)
		name := m.th.outside(e.Provider)
		from, err := strconv.Atoi(e.From)
		switch {
		case u == nil:
			return undoing{}, name + ", changed last, is no longer configured"
		case now.Sub(e.Time) > undoFor:
			return undoing{}, "the last change is " + text.Age(now.Sub(e.Time)) + " old: use < or >"
		case e.Revision != u.Revision:
			return undoing{}, m.changedSince(u, now)
		case m.restorable(u):
			return undoing{upstream: u.Name, share: u.Undo.Share, restore: true, event: e}, ""
		case err != nil || !slices.Contains(sharesOf(s, u), from):
			return undoing{}, "it is not known what " + name + " had before"
		case from == u.Share:
			return undoing{}, name + " has that share already"
		}
		return undoing{upstream: u.Name, share: from, event: e}, ""
	}
	return undoing{}, "nobody changed a share " + m.ofWhat() + "lately"
}

// changedSince says who changed u after the change of a person, to what and when.
func (m *model) changedSince(u *api.Upstream, now time.Time) string {
	name := m.th.outside(u.Name)
	rev := ", rev " + strconv.FormatUint(u.Revision, 10)
	if e := m.lastStep(u); e != nil {
		s := name + ": " + m.th.outside(text.By(e)) + " set " + m.th.outside(api.Percent(e.To)) + " at " + text.Clock(e.Time, now)
		if e.Reason != "" && e.Reason != "raised" && e.Reason != "lowered" { // its numbers say so
			s += " (" + m.th.outside(api.Words(e.Reason)) + ")"
		}
		return s + rev
	}
	if u.RevisedBy == "" || u.RevisedAt.IsZero() {
		return name + " was changed again, by whom is not known" + rev
	}
	return name + ": " + m.th.outside(u.RevisedBy) + " changed it at " + text.Clock(u.RevisedAt, now) + rev // its state or plan
}

// about reports whether the screen is about the upstream of that name: about one, or
// about those that its filter leaves.
func (m *model) about(name string) bool {
	if m.screen == detail || m.screen == failback {
		return name == m.selected
	}
	us, _ := m.upstreams()
	return m.screen != overview || slices.ContainsFunc(us, func(u *api.Upstream) bool { return u.Name == name })
}

// ofWhat says what about does, before another word.
func (m *model) ofWhat() string {
	switch us, all := m.upstreams(); {
	case m.screen == detail || m.screen == failback:
		return "of " + m.th.outside(m.selected) + " "
	case m.screen == overview && len(us) < all:
		return "of those shown "
	}
	return ""
}

// restorable reports whether the gateway restores what u had before one's own
// lowering of it.
func (m *model) restorable(u *api.Upstream) bool {
	s := m.live.state.Value()
	return u != nil && s != nil && u.Undo != nil && u.Undo.By == s.You.Name && m.live.clock(m.now).Before(u.Undo.Until)
}

// lastStep is the change that made u's share what it is; nil if not known.
func (m *model) lastStep(u *api.Upstream) *api.Event {
	for i := range m.live.changes {
		if e := &m.live.changes[i]; e.IsStep() && e.Provider == u.Name && e.Revision == u.Revision {
			return e
		}
	}
	return nil
}

func (m *model) noUndo() string {
	if why := m.noWrite(); why != "" {
		return why
	}
	_, why := m.undoable()
	return why
}

func (m *model) undo() {
	w, _ := m.undoable()
	m.openDialog(m.live.upstream(w.upstream), w.share)
	m.dialog.undo = true
	m.dialog.restore = w.restore
	if w.event != nil {
		e := *w.event
		m.dialog.undoes = &e
	}
	m.dialog.focusNeeded(m)
}

// whole is what may be believed of the live state as a whole.
func (m *model) whole() sources.Number { return m.live.state.Whole(m.now) }
