package telemetry

import "failback/gateway/decision"

// Verdict is what a request's end means for availability.
type Verdict string

const (
	Good     Verdict = "good"
	Bad      Verdict = "bad"
	Excluded Verdict = "excluded" // the caller's doing
	// Undecided is a request that waits in the queue: it is judged when it ends
	// there, and not counted before.
	Undecided Verdict = ""
)

// VerdictOf judges a request's end. reason tells a refusal for the caller's own
// limits, which is theirs, from one for ours.
func VerdictOf(status decision.Status, reason decision.Reason) Verdict {
	switch status {
	case decision.Completed, decision.DegradedCompleted:
		return Good
	case decision.Rejected, decision.Cancelled:
		return Excluded
	case decision.RefusedByUs:
		if reason == decision.CostCeiling {
			return Excluded
		}
		return Bad
	case decision.Queued:
		return Undecided
	}
	return Bad
}

// ownRequest says whose own traffic d is and who answered it. A request that
// its caller spoiled or left before anyone answered says nothing of where
// traffic goes, and belongs to nobody's.
func ownRequest(d *decision.Decision) (primary, answeredBy string, ok bool) {
	if d.Primary == "" {
		return "", "", false
	}
	if d.Selected == "" && (d.Status == decision.Rejected || d.Status == decision.Cancelled) {
		return "", "", false
	}
	return d.Primary, d.Selected, true
}
