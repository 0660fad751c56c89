package health

import "fmt"

// degraded has no share. It waits for a person, unless the machine degraded it
// and may bring it back: what an operator took away only an operator gives back.
type degraded struct{}

func (degraded) wish(_ *Machine, f *Facts) Wish {
	if f.Advance != Auto || !f.Machine || f.Retreats >= MaxRetreats || !f.Probed || f.SharedFault || f.Next <= 0 {
		return Wish{}
	}
	return Wish{Move: Recover, To: f.Next, Reason: ReasonProbed}
}

func (degraded) explain(m *Machine, f *Facts) string {
	s := ""
	if f.Reason != "" {
		s = f.Reason + "; "
	}
	switch {
	case m.wish.Move == Recover:
		return s + m.standing("begins to come back at", "would begin to come back at")
	case !f.Machine || f.Advance != Auto || f.Retreats >= MaxRetreats:
		return s + f.person() + f.probing()
	case f.SharedFault:
		return s + "held while the fault is shared"
	case !f.Probed:
		return s + "comes back by itself once the last two probes of each candidate and capability passed"
	}
	return s + f.person()
}

// probing says whether recovery evidence is there.
func (f *Facts) probing() string {
	if f.Probed {
		return " (its probes pass)"
	}
	return " (needs two passed probes in a row of each candidate and capability, or an override)"
}

// person names the command that a person would give.
func (f *Facts) person() string {
	s := "waits for an operator"
	if f.Advance == Auto && f.Retreats >= MaxRetreats {
		s = fmt.Sprintf("waits for an operator after %d retreats", f.Retreats)
	}
	if f.Next <= 0 {
		return s
	}
	s = fmt.Sprintf("%s: failback step %s %d", s, f.Upstream, f.Next)
	if f.Advance == Plan && !f.Plan && f.Condition == IsRecovering {
		s += ", or approval of the plan"
	}
	return s
}

// standing says that the wish stands.
func (m *Machine) standing(does, would string) string {
	if m.wish.Would {
		return fmt.Sprintf("%s %d%%, but health.mode is shadow", would, m.wish.To)
	}
	return fmt.Sprintf("%s %d%%", does, m.wish.To)
}
