package gateway

import (
	"slices"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/health"
	"failback/gateway/health/dependency"
	"failback/gateway/health/probe"
	"failback/gateway/router"
	"failback/gateway/telemetry"
	"failback/gateway/traffic"
	"failback/gateway/traffic/evidence"
)

// probedTwice is how many probes of each candidate and capability in a row are
// evidence that a degraded upstream is back.
const probedTwice = 2

// inspection is everything that the upstreams are judged by at one moment.
type inspection struct {
	*view
	probes       map[string][]probe.Status // by upstream
	certificates map[string]dependency.Result
	fault        *health.Fault
}

func (g *Gateway) inspect() *inspection {
	in := &inspection{
		view: g.view(), probes: map[string][]probe.Status{}, certificates: map[string]dependency.Result{}, fault: g.faults.Active(),
	}
	for _, s := range g.prober.Snapshot() {
		in.probes[s.Target.Upstream] = append(in.probes[s.Target.Upstream], s)
	}
	for _, r := range g.serverCerts.Snapshot() {
		in.certificates[r.Name] = r
	}
	return in
}

// facts are what the machine judges u by, and the verdict of its step, nil if
// it has none.
func (in *inspection) facts(u *config.Upstream, w *watched, s traffic.State) (health.Facts, *evidence.Verdict) {
	cfg := in.setup.cfg
	f := health.Facts{
		Settings:    healthSettings(cfg, u),
		Upstream:    u.Name,
		Openings:    w.countedOpenings(),
		Condition:   conditions[s.Condition()],
		Share:       s.Share,
		Next:        in.setup.nextStep(s),
		Passed:      s.Passed,
		Retreats:    s.Retreats,
		Machine:     s.Machine,
		Reason:      s.Reason,
		Last:        in.last(u.Name),
		OtherAdmits: in.otherAdmits(u.Name),
		SharedFault: in.fault.Spares(u.Name),
		Probed:      in.probed(in.probes[u.Name]),
		Advance:     advances[cfg.Failback.Advance],
		Plan:        s.Plan != nil,
	}
	if s.Share == traffic.Full {
		f.HeldFull = s.Served
	}
	f.Signals = health.Signals(in.now, in.measures(u, w), f.Settings)
	verdict := in.setup.verdict(u, w, s, in.now)
	if verdict != nil {
		f.Evidence, f.EvidenceText = verdicts[verdict.Verdict], summary(verdict)
	}
	return f, verdict
}

var conditions = [...]health.Condition{
	traffic.Whole: health.Whole, traffic.Degraded: health.IsDegraded, traffic.Recovering: health.IsRecovering,
}

var advances = map[string]health.Advance{"manual": health.Manual, "plan": health.Plan, "auto": health.Auto}

var verdicts = map[string]health.Verdict{evidence.Pass: health.Pass, evidence.Fail: health.Fail, evidence.NoData: health.NoData}

func healthSettings(cfg *config.Config, u *config.Upstream) health.Settings {
	h := cfg.Health
	return health.Settings{
		SuspectWindow: h.SuspectWindow, RecoveryWindow: h.RecoveryWindow, ErrorRate: h.ErrorRate, MinTraffic: h.MinTraffic,
		ExpiryMargin: h.ExpiryMargin, ProbeMaxAge: h.ProbeMaxAge, Window: u.Breaker.Window,
		CredentialSwitch: cfg.Errors.Credential == "switch", QuotaSwitch: cfg.Errors.QuotaExhausted == "switch",
		Shadow: h.Mode == "shadow",
	}
}

func (in *inspection) measures(u *config.Upstream, w *watched) health.Measures {
	w.recent.over(u.Breaker.Window, in.now)
	m := health.Measures{Credential: health.Credential{Expires: u.APIKeyExpires}}
	m.OK, m.Failed, m.LastAttempt = w.recent.sum(in.now)
	m.Credential.Cooling, m.Credential.Until = in.setup.upstreams[u.Name].Client.Cooling()
	for _, b := range in.buckets {
		if b.Bucket.Upstream != u.Name {
			continue
		}
		m.Breakers = append(m.Breakers, health.Breaker{
			Capability: b.Bucket.Capability, State: b.State, Reason: b.Reason, Samples: b.Samples,
			Waiting: b.ProbeDue && !b.Reserved || b.Unprobed, Forced: b.Forced != "",
			Outweighed: b.Reason == breaker.ForWeight && !w.shutFor(b.Bucket.Capability),
		})
	}
	for _, s := range in.probes[u.Name] {
		r := health.ProbeResult{Model: s.Target.Model, Capability: s.Target.Capability, Held: s.Held == probe.HeldCost}
		if s.HasLast {
			// Known since it ended: one that hangs is as old as it took.
			r.Class, r.At = s.Last.Outcome.Class, s.Last.At.Add(s.Last.Took)
		}
		m.Probes = append(m.Probes, r)
	}
	if c, ok := in.certificates[u.Name]; ok {
		m.Certificate = health.Certificate{NotAfter: c.NotAfter, Seen: c.NotAfterAt}
	}
	return m
}

// probed reports whether l, the probes of one upstream, are recovery evidence.
func (in *inspection) probed(l []probe.Status) bool {
	maxAge := in.setup.cfg.Health.ProbeMaxAge
	return len(l) > 0 && !slices.ContainsFunc(l, func(s probe.Status) bool { return !proven(&s, maxAge, in.now) })
}

// proven reports whether the last two probes of s passed, not too long ago: one
// that is held may have passed before what happened since.
func proven(s *probe.Status, maxAge time.Duration, now time.Time) bool {
	return s.Passed >= probedTwice && now.Sub(s.Last.At) <= maxAge
}

// probesAll reports whether the prober asks for each bucket of name that is not
// closed.
func (in *inspection) probesAll(name string) bool {
	return !slices.ContainsFunc(in.buckets, func(b breaker.Snapshot) bool {
		return b.Bucket.Upstream == name && b.State != breaker.Closed && !slices.ContainsFunc(in.probes[name], func(s probe.Status) bool {
			return s.Target.Capability == b.Bucket.Capability && s.Held != probe.HeldCost
		})
	})
}

// last reports whether there is something that only name serves, of those that
// are not degraded.
func (in *inspection) last(name string) bool {
	for _, l := range in.setup.lineupsOf(name) {
		for _, c := range l.Candidates {
			if c.Upstream.Name != name {
				continue
			}
			for _, capability := range decision.Capabilities {
				if in.setup.serves(c, capability) && !slices.ContainsFunc(l.Candidates, func(o *router.Candidate) bool {
					return o.Upstream.Name != name && o.Capabilities.Has(capability) &&
						!(o.Substitute && capability == decision.Embeddings) && in.g.traffic.Share(o.Upstream.Name) > 0
				}) {
					return true
				}
			}
		}
	}
	return false
}

// serves reports whether there are requests for which c needs capability.
func (s *setup) serves(c *router.Candidate, capability decision.Capability) bool {
	return c.Capabilities.Has(capability) && capabilitiesOf(s.cfg, c.Upstream.Name).Has(capability)
}

// otherAdmits reports whether another candidate takes requests of name now.
func (in *inspection) otherAdmits(name string) bool {
	for _, l := range in.setup.lineupsOf(name) {
		for _, o := range l.Candidates {
			if o.Upstream.Name == name || in.g.traffic.Share(o.Upstream.Name) == 0 || in.fault.Covers(o.Upstream.Name) {
				continue
			}
			needs := decision.Needed(!o.Capabilities.Has(decision.Text), false, false)
			if g := o.Group(needs); g != nil && g.Check(breaker.Ask{Model: o.Model, Elsewhere: true}) == "" {
				return true
			}
		}
	}
	return false
}

// lineupsOf are those in which name is a candidate.
func (s *setup) lineupsOf(name string) []*router.Lineup {
	var found []*router.Lineup
	for _, m := range s.modelNames {
		for _, d := range dialects {
			l := s.plan.Models[m].Lineup(d)
			if l != nil && slices.ContainsFunc(l.Candidates, func(c *router.Candidate) bool { return c.Upstream.Name == name }) {
				found = append(found, l)
			}
		}
	}
	return found
}

// nextStep is the share above that of s: nothing can be learned at the steps of
// an upstream that is primary of nothing.
func (s *setup) nextStep(state traffic.State) int {
	if state.Share < traffic.Full && len(s.primaryOf(state.Upstream)) == 0 {
		return traffic.Full
	}
	return state.Next()
}

// verdict judges the step in force of u, nil if there is none.
func (s *setup) verdict(u *config.Upstream, w *watched, state traffic.State, now time.Time) *evidence.Verdict {
	if state.Condition() != traffic.Recovering {
		return nil
	}
	window, earlier, ok := w.window(state)
	if !ok {
		return nil
	}
	f := s.cfg.Failback
	terms := evidence.Terms{
		MinRequests: f.MinRequests, SuccessTolerance: f.Tolerance.Success, FirstOutputTolerance: f.Tolerance.FirstOutput,
		Observe: s.observe(state), PrimaryOfNothing: len(s.primaryOf(u.Name)) == 0,
	}
	rate := 0.0
	if window.Served > 0 {
		rate = float64(window.Requests()) / window.Served.Seconds()
	}
	v := evidence.Judge(window, earlier, s.baseline(u, w, now), terms, rate)
	return &v
}

// observe is how long the step of state is watched; that of the whole share as
// long as it must hold.
func (s *setup) observe(state traffic.State) time.Duration {
	for _, step := range state.Steps {
		if step.Share == state.Share && step.Observe > 0 {
			return step.Observe
		}
	}
	return s.cfg.Health.RecoveryWindow
}

// baseline is what the step of u is compared with: its own history, else the
// strictest objective of the models that it is primary of.
func (s *setup) baseline(u *config.Upstream, w *watched, now time.Time) evidence.Baseline {
	if b, ok := w.evidence.Baseline(now); ok {
		return b
	}
	var o evidence.Objective
	own := s.primaryOf(u.Name)
	for _, m := range s.cfg.Models {
		if m.SLO == nil || !slices.Contains(own, m.Name) {
			continue
		}
		o.Availability = max(o.Availability, m.SLO.Availability)
		if f := m.SLO.FirstOutput; f != nil && (o.Under == 0 || f.Under < o.Under) {
			o.Under, o.Ratio = f.Under, f.Ratio
		}
	}
	return evidence.FromObjective(o, u.FirstOutput.Ceiling)
}

// summary says for people what a verdict rests on: the rows that make it.
func summary(v *evidence.Verdict) string {
	text := ""
	for _, r := range v.Rows {
		if r.Verdict != v.Verdict {
			continue
		}
		if text != "" {
			text += "; "
		}
		text += r.Name + ": " + r.Text
	}
	return text
}

// healthTransitions are all that the health of an upstream can do: what the
// machine finds by itself, and what the share table tells.
func healthTransitions() []telemetry.Transition {
	var l []telemetry.Transition
	add := func(from, to health.State, reasons ...string) {
		for _, r := range reasons {
			l = append(l, telemetry.Transition{From: string(from), To: string(to), Reason: r})
		}
	}
	add(health.Healthy, health.Suspect, health.SignalErrorRate, health.SignalSuccess, health.SignalBreaker, health.SignalProbe,
		health.SignalCredential, health.SignalCertificate)
	add(health.Suspect, health.Healthy, health.ReasonClear)
	for _, from := range []health.State{health.Healthy, health.Suspect} {
		add(from, health.Degraded, health.ReasonTwoGroups, health.ReasonOneGroup, health.ReasonOpenings, "operator", "merged")
		add(from, health.Recovering, "operator", "merged")
	}
	add(health.Degraded, health.Degraded, "operator")
	add(health.Degraded, health.Recovering, "operator", "override", "plan", "auto", "undo", "merged")
	add(health.Degraded, health.Healthy, "undo", "merged")
	add(health.Recovering, health.Degraded, "operator", health.ReasonEvidence, "merged")
	add(health.Recovering, health.Healthy, "recovered", "undo", "merged")
	return l
}
