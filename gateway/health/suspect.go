package health

import (
	"fmt"
	"slices"
	"time"
)

// suspect excludes nothing: it is the time in which an outage may end by itself.
type suspect struct{}

func (suspect) wish(m *Machine, f *Facts) Wish {
	if f.Last || f.SharedFault {
		return Wish{}
	}
	if reason := m.verdict(f); reason != "" {
		return Wish{Move: Degrade, Reason: reason}
	}
	return Wish{}
}

// verdict returns why the upstream is to be degraded, empty while it is not.
func (m *Machine) verdict(f *Facts) string {
	one, two := m.reddest()
	switch {
	case m.count() >= 2 && two >= f.Settings.SuspectWindow:
		return ReasonTwoGroups
	case one >= OneGroupWindow:
		return ReasonOneGroup
	case m.groups[0].red && m.opened.most(m.clock) >= MaxOpenings:
		return ReasonOpenings
	}
	return ""
}

// reddest returns for how long the group that is red longest is red, and the
// second one; 0 for one that is not red now.
func (m *Machine) reddest() (one, two time.Duration) {
	for i := range m.groups {
		switch d := m.groups[i].lasted(m.clock); {
		case d > one:
			one, two = d, one
		case d > two:
			two = d
		}
	}
	return one, two
}

func (suspect) explain(m *Machine, f *Facts) string {
	if !m.any.red {
		clear := m.clock - m.any.clear
		return fmt.Sprintf("nothing red for %s; healthy again in %s if that lasts", span(clear), span(ClearFor-clear))
	}
	_, values := m.reds(false)
	return values + "; " + m.outlook(f)
}

// outlook says what comes of a suspicion that lasts.
func (m *Machine) outlook(f *Facts) string {
	if m.wish.Move == Degrade {
		if m.wish.Would {
			return "would be degraded, but health.mode is shadow"
		}
		return "to be degraded now"
	}
	switch {
	case !slices.ContainsFunc(m.signals, func(s Signal) bool { return s.grave() }):
		return "it is to be looked at and is not degraded for it"
	case f.SharedFault:
		return "not degraded: the fault is shared, another one would fail as well"
	case f.Last:
		return "not degraded: nobody else could serve what it serves, its breaker alone guards it"
	}
	one, two := m.reddest()
	left := OneGroupWindow - one
	if m.count() >= 2 {
		left = min(left, f.Settings.SuspectWindow-two)
	}
	return "degraded in " + span(max(left, 0)) + " if that lasts"
}

// count returns how many groups are gravely red.
func (m *Machine) count() int {
	n := 0
	for i := range m.groups {
		if m.groups[i].red {
			n++
		}
	}
	return n
}
