package incident

import "failback/gateway/decision"

// Technical reports whether an upstream answered; known is false where the end of
// an attempt does not say.
func Technical(c decision.Class) (ok, known bool) {
	switch c.Blame() {
	case decision.OfBucket, decision.OfAdmission, decision.OfCredential, decision.OfUpstreamModel:
		return false, true
	}
	return true, c == decision.OK
}

// Request counts the end of a request: whether another candidate than the primary
// answered it, and whether that was good.
func (c *Counts) Request(d *decision.Decision, degraded, good bool) {
	switch {
	case !good:
		c.Failed++
	case degraded:
		c.Degraded++
	default:
		c.Primary++
	}
	if d.Violation {
		c.Forbidden++
	}
	if (degraded || !good) && len(c.Kept) < MaxKept {
		c.Kept = append(c.Kept, d.RequestID)
	}
	c.Workflow.Side(degraded).Add(good, 1)
	for n := range d.Attempts {
		a := &d.Attempts[n]
		if ok, known := Technical(a.Outcome.Class); known && !a.Hurried {
			c.Technical.Side(a.Provider != d.Primary).Add(ok, 1)
		}
	}
}
