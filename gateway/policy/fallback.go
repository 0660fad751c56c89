package policy

import "failback/gateway/decision"

// Verdict is an answer with its reason.
type Verdict struct {
	Allowed bool
	// Reason says why not: not_allowed where the task forbids it, else the
	// cause that stands in the way. Empty when allowed.
	Reason decision.Reason
	// Why names the rule behind Reason where there is one of its own, else it is
	// Reason.
	Why decision.Why
}

func refused(r decision.Reason, why decision.Why) Verdict { return Verdict{Reason: r, Why: why} }

// MayFallback says whether c may be given a request after cause stood in its
// way at stage. The primary itself may always be given a request that nothing
// happened to; for a return to it after another candidate the same rules hold.
func MayFallback(t Terms, cause Cause, stage Stage, c Candidate) Verdict {
	if stage == Relayed {
		return refused(cause.Reason, decision.WhyRelayed)
	}
	if !causeMoves(t, cause, c) {
		return refused(cause.Reason, decision.WhyOf(cause.Reason))
	}
	if t.Bound {
		return refused(decision.NotAllowed, decision.WhyBound)
	}
	if !mayServe(t, c) {
		return refused(decision.NotAllowed, decision.WhyOf(decision.NotAllowed))
	}
	if stage == Sent && t.Task.SideEffects && !t.OperationID {
		return refused(decision.NotAllowed, decision.WhySideEffects)
	}
	return Verdict{Allowed: true}
}

// MayServe says whether the task allows c at all, whatever happened before.
func MayServe(t Terms, c Candidate) Verdict {
	if !mayServe(t, c) {
		return refused(decision.NotAllowed, decision.WhyOf(decision.NotAllowed))
	}
	return Verdict{Allowed: true}
}

func mayServe(t Terms, c Candidate) bool {
	if c.Primary && !c.Substitute {
		return true
	}
	switch t.Task.Fallback {
	case Any:
		return !(c.Substitute && t.Embeddings)
	case SameModel:
		return !c.Substitute
	}
	return false
}

// causeMoves says whether a cause is of a kind that another candidate can help.
func causeMoves(t Terms, cause Cause, c Candidate) bool {
	switch decision.Class(cause.Reason) {
	case decision.InvalidRequest, decision.ContentFilter, decision.CallerDeadline,
		decision.ClientGone, decision.Internal, decision.Unknown:
		return false
	case decision.ContextLength:
		return c.LargerContext
	case decision.Credential:
		return t.SwitchOnCredential || !cause.AtPrimary
	case decision.QuotaExhausted:
		return t.SwitchOnQuota || !cause.AtPrimary
	}
	// retry_budget is not among these: as a cause it is the opening of a bucket,
	// which is there to send requests elsewhere. An empty budget ends a request
	// without asking. Nor is shared_fault: whom it covers is passed by for it, and
	// who else there is may not share it.
	switch cause.Reason {
	case decision.Deadline, decision.CostCeiling, decision.Draining, decision.QueueFull, decision.Store:
		return false
	}
	return true
}
