package budget

import (
	"failback/gateway/decision"
	"failback/gateway/telemetry"
)

// other stands for what there are too many of.
const other = telemetry.Other

// blame says on whom and what a bad request is booked: on the provider that
// failed first, with what its own first failure was, since the reason of the
// whole request may be another provider's. Where none failed it is the reason of
// the request, and nobody's.
func blame(d *decision.Decision) Spender {
	if d.Failed == "" {
		return Spender{decision.NoProvider, string(d.Reason)}
	}
	for i := range d.Attempts {
		a := &d.Attempts[i]
		if a.Provider != d.Failed {
			continue
		}
		if a.Outcome.Class == decision.LocalRefusal {
			break // the request knows why we refused
		}
		return Spender{d.Failed, string(a.Outcome.Class)}
	}
	return Spender{d.Failed, string(d.Reason)}
}

// blameLate is blame of a stream that had no output in time. Where nobody
// failed, whoever was asked last was slow.
func blameLate(d *decision.Decision) Spender {
	if d.Failed != "" || len(d.Attempts) == 0 {
		return blame(d)
	}
	return Spender{d.Attempts[len(d.Attempts)-1].Provider, string(decision.Slow)}
}
