package gateway

import (
	"fmt"
	"time"

	"failback/gateway/health/probe"
	"failback/gateway/traffic"
	"failback/gateway/traffic/evidence"
)

// blockedBy is what speaks against giving the upstream more traffic now, empty
// if nothing does: its breaker, the recovery evidence of a degraded upstream,
// the evidence of the step in force.
func (v *view) blockedBy(name string) string {
	state, ok := v.g.traffic.Get(name)
	if !ok || state.Share >= traffic.Full {
		return ""
	}
	if state.Condition() == traffic.Degraded {
		if why := v.unproven(name); why != "" {
			return why // which says more than the breakers that the same probes keep open
		}
	}
	if why := v.blockedByBreaker(name, state.Share); why != "" || state.Condition() == traffic.Degraded {
		return why
	}
	verdict := v.setup.watched[name].judged.Load().of(state)
	switch {
	case verdict == nil:
		return fmt.Sprintf("no evidence of the step to %d%% yet", state.Share)
	case verdict.Verdict == evidence.Pass:
		return ""
	case verdict.EnoughIn > 0:
		return fmt.Sprintf("evidence %s: %s; enough in about %s", verdict.Verdict, summary(verdict), spoken(verdict.EnoughIn.Round(time.Second)))
	}
	return "evidence " + verdict.Verdict + ": " + summary(verdict)
}

// blockedByBreaker is what its buckets have against it. One that nobody probes
// is unknown, and at share 0 a probe that is due does not speak against the
// first step: only that can bring the request that it waits for.
func (v *view) blockedByBreaker(name string, share int) string {
	for _, b := range v.buckets {
		if b.Bucket.Upstream != name || b.State == "closed" || b.Unprobed || share == 0 && b.ProbeDue && !b.Reserved {
			continue
		}
		why := fmt.Sprintf("breaker %s is %s", b.Bucket.Capability, b.State)
		switch {
		case b.State == "open" && b.ProbeDue && b.Reserved:
			why += ", its probe is due"
		case b.State == "open" && b.ProbeDue:
			why += ", its probe waits for traffic"
		case b.State == "open":
			why += fmt.Sprintf(", next probe in %s", time.Until(b.NextProbeAt).Round(time.Second))
		}
		return why
	}
	return ""
}

// unproven says which recovery evidence is missing: the last two probes of each
// candidate and capability passed.
func (v *view) unproven(name string) string {
	var all, passed int
	failing := ""
	maxAge := v.setup.cfg.Health.ProbeMaxAge
	for _, s := range v.probes() {
		if s.Target.Upstream != name {
			continue
		}
		all++
		switch {
		case proven(&s, maxAge, v.now):
			passed++
		case failing != "":
		case s.HasLast && s.Last.Verdict() == probe.Failed:
			failing = fmt.Sprintf("; %s of %s: %s", s.Target.Capability, s.Target.Model, s.Last.Outcome.Class)
		case s.Held != "":
			failing = fmt.Sprintf("; %s of %s: %s", s.Target.Capability, s.Target.Model, s.Held)
		case s.Passed >= probedTwice:
			failing = fmt.Sprintf("; %s of %s: passed too long ago", s.Target.Capability, s.Target.Model)
		}
	}
	switch {
	case all == 0:
		return "nothing of it is probed: there is no recovery evidence"
	case passed < all:
		return fmt.Sprintf("%d of %d candidates and capabilities passed their last two probes%s", passed, all, failing)
	}
	return ""
}
