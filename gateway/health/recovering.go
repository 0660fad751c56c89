package health

import (
	"fmt"
	"time"
)

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

func (recovering) explain(m *Machine, f *Facts, now time.Time) string {
	s := fmt.Sprintf("%s at %d%%; ", f.became(now, Recovering), f.Share)
	switch {
	case f.SharedFault:
		return s + "held while the fault is shared"
	case f.Evidence == Fail && m.wish.Move == Retreat:
		return s + "its evidence fails (" + f.EvidenceText + "): " + m.standing("goes back to", "would go back to")
	case f.Evidence == Fail:
		return s + "its evidence fails (" + f.EvidenceText + "), but nobody else could take its requests: it stays"
	case f.Share >= full:
		return s + "healthy in " + span(max(f.Settings.RecoveryWindow-f.HeldFull, 0)) + " if that holds"
	case m.wish.Move == Climb:
		return s + m.standing("goes on to", "would go on to")
	case f.climbs() && f.Evidence == NoData:
		return s + fmt.Sprintf("goes on to %d%% by itself when its evidence passes (%s)", f.Next, f.EvidenceText)
	case f.Evidence == NoData:
		return s + f.person() + " (no evidence yet: " + f.EvidenceText + ")"
	}
	return s + f.person() + " (its evidence passes)"
}
