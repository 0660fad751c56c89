package health

import "fmt"

// recovering climbs one step at a time on evidence of its own step, and goes
// back by itself when that evidence fails and somebody else is there.
type recovering struct{}

func (recovering) wish(_ *Machine, f *Facts) Wish {
	if f.SharedFault {
		return Wish{} // what is measured now says nothing of this upstream
	}
	switch {
	case f.Evidence == Fail:
		to := f.back()
		if !f.OtherAdmits || to == 0 && f.Last {
			return Wish{}
		}
		return Wish{Move: Retreat, To: to, Reason: ReasonEvidence}
	case f.Share >= full:
		if f.HeldFull >= f.Settings.RecoveryWindow {
			return Wish{Move: Settle, To: full, Reason: ReasonHeld}
		}
	case f.Evidence == Pass && f.Next > f.Share && f.climbs():
		return Wish{Move: Climb, To: f.Next, Reason: ReasonEvidence}
	}
	return Wish{}
}

func (r recovering) explain(m *Machine, f *Facts) string {
	s := r.outlook(m, f)
	if f.Reason != "" {
		s += "; taken down for: " + f.Reason
	}
	return s
}

// outlook says what comes of the step in force.
func (recovering) outlook(m *Machine, f *Facts) string {
	switch {
	case f.SharedFault:
		return "held while the fault is shared"
	case f.Evidence == Fail && m.wish.Move == Retreat:
		return "its evidence fails (" + f.EvidenceText + "): " + m.standing("goes back to", "would go back to")
	case f.Evidence == Fail:
		return "its evidence fails (" + f.EvidenceText + "), but nobody else could take its requests: it stays"
	case f.Share >= full:
		return "healthy in " + span(max(f.Settings.RecoveryWindow-f.HeldFull, 0)) + " if 100% holds"
	case m.wish.Move == Climb:
		return m.standing("goes on to", "would go on to")
	case f.climbs() && f.Evidence == NoData:
		return fmt.Sprintf("goes on to %d%% by itself when the evidence of %d%% passes", f.Next, f.Share)
	case f.Evidence == NoData:
		return f.person() + fmt.Sprintf(" (the evidence of %d%% does not pass yet)", f.Share)
	}
	return f.person() + " (its evidence passes)"
}
