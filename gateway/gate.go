package gateway

import (
	"fmt"
	"math"
	"strings"
	"time"

	"failback/gateway/health/probe"
	"failback/gateway/operator/api"
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
	case verdict.Verdict == evidence.NoData:
		return "evidence " + verdict.Verdict + ": " + lacking(verdict)
	}
	return "evidence " + verdict.Verdict + ": " + summary(verdict)
}

// lacking names the rows that cannot be told yet, and says when they can be.
// What each says is shown with it, wherever this is.
func lacking(v *evidence.Verdict) string {
	var names []string
	for _, r := range v.Rows {
		if r.Verdict == v.Verdict {
			names = append(names, api.Words(r.Name))
		}
	}
	text := "not enough yet for " + strings.Join(names, ", ")
	if v.EnoughIn > 0 {
		text += "; enough in about " + estimate(v.EnoughIn)
	}
	return text
}

// estimate writes a time that nobody knows better than by the minute.
func estimate(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
	case d < 90*time.Minute:
		return fmt.Sprintf("%.0f min", math.Ceil(d.Minutes()))
	}
	return fmt.Sprintf("%.0f h", math.Ceil(d.Hours()))
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
		return fmt.Sprintf("the last two probes passed for %d of %d%s", passed, all, failing)
	}
	return ""
}
