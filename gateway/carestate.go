package gateway

import (
	"cmp"
	"time"

	"failback/gateway/decision"
	"failback/gateway/health"
	"failback/gateway/health/dependency"
	"failback/gateway/health/probe"
	"failback/gateway/operator/api"
	"failback/gateway/traffic"
	"failback/gateway/traffic/evidence"
)

// fillHealth fills in what u is judged by and what came of it.
func (v *view) fillHealth(u *api.Upstream, s traffic.State) {
	u.Health, u.HealthSince, u.HealthBy = string(stateOf(s)), s.StateSince, s.StateBy
	u.HealthReason = cmp.Or(s.Reason, "not judged yet since it is "+u.Health)
	u.Retreats = s.Retreats
	for _, step := range s.Steps {
		u.Steps = append(u.Steps, api.FailbackStep{Share: step.Share, ObserveSeconds: step.Observe.Seconds()})
	}
	if s.Plan != nil {
		u.Plan = &api.Plan{By: s.Plan.By, At: s.Plan.At}
	}
	for _, p := range v.probes() {
		if p.Target.Upstream == u.Name {
			u.Probes = append(u.Probes, v.probe(p))
		}
	}
	j := v.setup.watched[u.Name].judged.Load()
	if j == nil {
		return
	}
	for _, g := range j.signals {
		u.Signals = append(u.Signals, api.Signal{
			Group: string(g.Group), Name: g.Name, Colour: string(g.Colour), Value: g.Value,
			At: g.At, Since: g.Since, BlindSpot: g.BlindSpot,
		})
	}
	u.Health = v.healthOf(u.Name)
	if s.Condition() == traffic.Whole && u.Health == string(j.state) {
		u.HealthSince, u.HealthBy = j.since, decision.Auto
	}
	if u.Health == string(j.state) && j.isOf(s) {
		u.HealthReason = j.why
	}
	if verdict := j.of(s); verdict != nil {
		u.Evidence = v.evidence(u, s, verdict, j.at)
	}
}

// healthOf is the health of an upstream: suspect as it was last judged, all else
// as the share table has it now.
func (v *view) healthOf(name string) string {
	s, _ := v.g.traffic.Get(name)
	if j := v.setup.watched[name].judged.Load(); j != nil && j.state == health.Suspect && s.Condition() == traffic.Whole {
		return api.Suspect
	}
	return string(stateOf(s))
}

// probes are the probers' statuses, asked for once.
func (v *view) probes() []probe.Status {
	if v.probing == nil {
		v.probing = v.g.prober.Snapshot()
	}
	return v.probing
}

func (v *view) probe(s probe.Status) api.Probe {
	p := api.Probe{
		Model: s.Target.Model, Capability: string(s.Target.Capability), NextAt: s.Next,
		Passed: s.Passed, Failed: s.Failed, Held: s.Held,
		SpentUSD: api.Number{State: api.StateValue, Value: s.SpentUSD, At: v.now},
	}
	if s.Uncapped {
		p.SpentUSD = api.Number{State: api.StateNone, At: v.now}
	}
	if s.HasLast {
		p.Result, p.Detail, p.At = string(s.Last.Outcome.Class), s.Last.Outcome.Detail, s.Last.At
	}
	return p
}

func (v *view) evidence(u *api.Upstream, s traffic.State, verdict *evidence.Verdict, at time.Time) *api.Evidence {
	baseline := v.setup.baseline(v.setup.config(u.Name), v.setup.watched[u.Name], at)
	e := &api.Evidence{
		Verdict: verdict.Verdict, At: at, Share: s.Share,
		ObserveSeconds: v.setup.observe(s).Seconds(), ServedSeconds: s.Served.Seconds(),
		Requests: verdict.Requests, Failed: verdict.Failed,
		Success:        api.Number{State: api.StateIdle, At: at},
		FirstOutputP95: api.Number{State: api.StateIdle, At: at},
		BaselineSource: baseline.Source, BaselineRequests: baseline.Requests, BaselineSuccess: baseline.Success,
		BaselineFirstOutputP95: baseline.FirstOutput.Seconds(),
		EnoughInSeconds:        verdict.EnoughIn.Seconds(),
	}
	for _, r := range verdict.Rows {
		e.Rows = append(e.Rows, api.EvidenceRow{Name: r.Name, Verdict: r.Verdict, Text: r.Text})
	}
	if n := verdict.Requests; n > 0 {
		e.Success = api.Number{State: api.StateValue, Value: 1 - float64(verdict.Failed)/float64(n), At: at}
	}
	if verdict.HasFirstOutput {
		e.FirstOutputP95 = api.Number{State: api.StateValue, Value: verdict.FirstOutput.Seconds(), At: at}
	}
	return e
}

// fillCare fills in what watches over the upstreams.
func (v *view) fillCare(s *api.State) {
	if f := v.g.faults.Active(); f != nil {
		fault := api.SharedFault{Since: f.Since, Reason: f.Reason(), Detail: f.Detail, Upstreams: f.Upstreams}
		fault.NextProbeAt, _ = v.g.faults.NextProbe()
		s.SharedFault = &fault
	}
	for _, r := range v.g.dependencies.Snapshot() {
		s.Dependencies = append(s.Dependencies, api.Dependency{
			Name: r.Name, Domain: r.Domain, Kind: string(r.Kind), Result: string(r.State), Detail: r.Detail,
			At: r.At, Since: r.Since, Upstreams: v.setup.inDomain(r),
		})
	}
	for _, j := range v.g.jobs.Snapshot() {
		s.Jobs = append(s.Jobs, api.Job{
			Name: j.Name, EverySeconds: j.Every.Seconds(), LastSuccess: j.LastSuccess, Late: j.Late, Error: j.Error,
		})
	}
	s.Store = v.g.storeStatus()
	p := v.g.pinger.Status()
	s.Ping = api.Ping{Configured: p.Configured, Held: p.Held, LastOK: p.LastOK, LastError: p.LastError, LastErrorAt: p.LastErrorAt}
	n := v.g.notify.Status()
	s.Notify = api.Notify{
		Configured: n.Configured, Pending: n.Pending, Oldest: n.Oldest, LastOK: n.LastOK,
		LastError: n.LastError, LastErrorAt: n.LastErrorAt, Lost: n.Lost,
	}
}

// inDomain are the upstreams that name the domain of r.
func (s *setup) inDomain(r dependency.Result) []string {
	names := []string{}
	for _, u := range s.cfg.Upstreams {
		for kind, value := range u.FaultDomains {
			if kind+"/"+value == r.Domain {
				names = append(names, u.Name)
			}
		}
	}
	return names
}
