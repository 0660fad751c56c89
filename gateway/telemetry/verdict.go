package telemetry

import (
	"time"

	"failback/gateway/decision"
)

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

// FirstOutputVerdictOf judges d for an objective that gives the first output of
// streams that long. What is not a stream is Excluded.
//
// A stream that failed without output is Bad: its client did not have output in
// time, and if only those with output counted, an outage would make the ratio
// better. A client that left before any output left because of the wait if that
// was longer than the limit, so that is Bad, and Excluded if it was shorter. Once
// there was output, when it came is all that counts, however the stream ended.
// One that was answered well and had no output to give is judged by its end.
func FirstOutputVerdictOf(d *decision.Decision, under time.Duration) Verdict {
	if !d.Stream {
		return Excluded
	}
	if d.HasFirstOutput {
		if d.FirstOutput <= under {
			return Good
		}
		return Bad
	}
	late := d.Duration > under
	switch v := VerdictOf(d.Status, d.Reason); {
	case v == Good && late, d.Status == decision.Cancelled && late:
		return Bad
	default:
		return v
	}
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
