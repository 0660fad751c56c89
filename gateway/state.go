package gateway

import (
	"os"
	"slices"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/health/probe"
	"failback/gateway/operator/api"
	"failback/gateway/policy"
	"failback/gateway/router"
	"failback/gateway/telemetry"
)

// scope is how far a command reaches.
func scope(cfg *config.Config) string {
	if cfg.Store != nil {
		return "all gateways of the store"
	}
	return "this gateway only"
}

// State describes the gateway; see operator.Control.
func (c *control) State(api.You) api.State {
	g := (*Gateway)(c)
	v := g.view()
	s := v.setup
	lastError, lastErrorAt, restart := g.reloads.read()
	available, size := g.router.Budget.Available()
	state := api.State{
		Version:     g.o.Version,
		Environment: s.cfg.Environment,
		Instance:    g.instance,
		PID:         os.Getpid(),
		StartedAt:   g.started,
		At:          v.now,
		Draining:    g.draining.Load(),
		Scope:       scope(g.startedWith),
		RetryBudget: api.RetryBudget{Available: available, Size: size, At: v.now},
		Config: api.Config{
			Path: s.cfg.Path, Hash: s.cfg.Hash(), LoadedAt: s.loadedAt,
			LastError: lastError, LastErrorAt: lastErrorAt, NeedsRestart: restart,
		},
		Traffic:  v.live.Traffic,
		Log:      g.log.Stats().Log,
		Traces:   g.traces(),
		Settings: g.settings(s, restart),
		Sources:  g.sources(s.cfg),
		Limit:    limit(s.cfg),
		Failback: failbackOf(s.cfg),
	}
	state.Traffic.InFlight = int(g.inflight.Load())
	if p := g.router.Passthrough(); p != nil {
		state.Passthrough = &api.Passthrough{Order: p.Order, Until: p.Until, By: p.By, Why: p.Why, Unsynced: g.overrides.unsynced(passthroughKey)}
	}
	for _, u := range s.cfg.Upstreams {
		up := v.upstream(u.Name)
		state.Upstreams = append(state.Upstreams, up)
		state.Revision += up.Revision
	}
	budgets := g.budgetsByModel()
	for _, m := range s.cfg.Models {
		model := api.Model{Name: m.Name, Budgets: budgets[m.Name]}
		for _, c := range m.Candidates {
			model.Candidates = append(model.Candidates, api.Candidate{
				Upstream: c.Upstream, Model: c.Model, Weight: c.Weight, Substitute: c.Substitute,
			})
		}
		state.Models = append(state.Models, model)
	}
	fillDomains(&state, s.cfg)
	for _, t := range s.cfg.Tasks {
		task := v.task(s.tasks[t.Name])
		task.UserSees = t.UserSees
		state.Tasks = append(state.Tasks, task)
	}
	unnamed := v.task(s.unnamed)
	unnamed.UserSees = s.cfg.DefaultTask.UserSees
	state.Tasks = append(state.Tasks, unnamed, v.task(s.other))
	v.fillCare(&state)
	state.Incidents = g.incidents.heads(true)
	state.Gateways, state.Sessions = g.peers.list(v.now)
	if g.o.Banner != nil {
		state.Demo = g.o.Banner(&state)
	}
	return state
}

// settings are the effective values: of keys that wait for a restart those of
// the start.
func (g *Gateway) settings(s *setup, restart []string) []api.Setting {
	old := make(map[string]api.Setting, len(restart))
	if len(restart) > 0 {
		for _, st := range g.startedWith.Settings() {
			old[st.Key] = api.Setting(st)
		}
	}
	var settings []api.Setting
	for _, st := range s.cfg.Settings() {
		setting := api.Setting(st)
		if was, ok := old[st.Key]; ok && slices.Contains(restart, st.Key) {
			setting = was
		}
		settings = append(settings, setting)
	}
	return settings
}

// view is everything that the state of one moment is made of.
type view struct {
	g       *Gateway
	now     time.Time
	setup   *setup
	live    telemetry.LiveSnapshot
	buckets []breaker.Snapshot
	probing []probe.Status // see probes
}

func (g *Gateway) view() *view {
	now := time.Now()
	return &view{g: g, now: now, setup: g.setup.Load(), live: g.live.Snapshot(now), buckets: g.breakers.Snapshot()}
}

func (g *Gateway) upstreamState(name string) *api.Upstream {
	u := g.view().upstream(name)
	return &u
}

func (v *view) task(t policy.Task) api.Task {
	return api.Task{
		Name: t.Name, Fallback: string(t.Fallback), OnUnavailable: string(t.OnUnavailable), RPS: v.live.Task(t.Name),
	}
}

func (v *view) upstream(name string) api.Upstream {
	up := v.setup.upstreams[name]
	if up == nil {
		return api.Upstream{Name: name}
	}
	share, _ := v.g.traffic.Get(name)
	live := v.live.Upstream(name)
	u := api.Upstream{
		Name: name, Region: up.Region, Dialect: string(up.Dialect),
		Revision: share.Revision, Share: share.Share, Since: share.Since,
		RevisedBy: share.RevisedBy, RevisedAt: share.RevisedAt,
		StateBy: share.By, StateWhy: share.Why, Unsynced: share.Unsynced, FailbackID: share.FailbackID,
		PrimaryOf: v.setup.primaryOf(name),
		Live:      live.Live, RPS: live.RPS, OwnRPS: live.OwnRPS,
		ErrorRatio: live.ErrorRatio, FirstOutputP95: live.FirstOutputP95,
		InFlight: int(up.Inflight.Load()),
		NextStep: api.NextStep{Share: v.setup.nextStep(share)},
	}
	if len(u.PrimaryOf) == 0 {
		u.Live = api.Number{State: api.StateNone, At: v.now}
	}
	if u.NextStep.Share != 0 {
		u.NextStep.BlockedBy = v.blockedBy(name)
	}
	if share.Undo != nil && v.now.Before(share.Undo.Until) {
		u.Undo = &api.Undo{Share: share.Undo.Share, By: share.Undo.By, Until: share.Undo.Until}
	}
	for _, b := range v.buckets {
		if b.Bucket.Upstream == name {
			u.Breakers = append(u.Breakers, v.breaker(b))
		}
	}
	if class, until := up.Client.Cooling(); class != "" {
		u.Credential, u.CredentialUntil = string(class), until
	}
	u.Stranded, u.Elsewhere = v.withoutIt(name)
	v.fillHealth(&u, share)
	return u
}

func (v *view) breaker(b breaker.Snapshot) api.Breaker {
	out := api.Breaker{
		Bucket: b.Bucket.String(), Capability: string(b.Bucket.Capability),
		State: b.State, Reason: b.Reason, Detail: b.Detail, Since: b.Since,
		NextProbeAt: b.NextProbeAt, ProbeDue: b.ProbeDue, Probes: b.Probes, ProbesOut: b.ProbesOut, ProbesOK: b.ProbesOK,
		RampLimit: b.RampLimit, InFlight: b.InFlight, Samples: b.Samples, Failures: b.Failures, Run: b.Run,
		Forced: b.Forced, ForcedBy: b.ForcedBy, ForcedUntil: b.ForcedUntil, Mode: b.Mode, AdmittedRPS: b.AdmittedRPS,
	}
	for _, m := range v.setup.cfg.Models {
		for _, c := range m.Candidates {
			if c.Upstream != b.Bucket.Upstream {
				continue
			}
			ratio := 1.0
			if i := slices.IndexFunc(b.Weights, func(w breaker.ModelWeight) bool { return w.Model == c.Model }); i >= 0 {
				ratio = b.Weights[i].Ratio
			}
			out.Weights = append(out.Weights, api.Weight{Model: m.Name, Weight: c.Weight, Effective: c.Weight * ratio})
		}
	}
	return out
}

var dialects = [...]decision.Dialect{decision.OpenAI, decision.Anthropic}

// primaryOf are the models of which an upstream is primary on some endpoint.
func (s *setup) primaryOf(name string) []string {
	models := []string{}
	for _, m := range s.modelNames {
		for _, d := range dialects {
			if l := s.plan.Models[m].Lineup(d); l != nil && l.Primary().Upstream.Name == name {
				models = append(models, m)
				break
			}
		}
	}
	return models
}

// withoutIt says what would become of the upstream's own traffic if it got
// none: which tasks' requests nobody else may take, and who takes the others.
func (v *view) withoutIt(name string) (stranded []api.TaskRate, elsewhere []string) {
	type key struct{ task, why string }
	sum := make(map[key]float64)
	for _, own := range v.live.Own {
		if own.Primary != name {
			continue
		}
		to, why := v.otherFor(name, own.Model, own.Task)
		if to == nil {
			sum[key{own.Task, string(why)}] += own.RPS
		} else if !slices.Contains(elsewhere, to.Upstream.Name) {
			elsewhere = append(elsewhere, to.Upstream.Name)
		}
	}
	for k, rps := range sum {
		stranded = append(stranded, api.TaskRate{Task: k.task, RPS: rps, Why: k.why})
	}
	slices.SortFunc(stranded, func(a, b api.TaskRate) int {
		switch {
		case a.RPS > b.RPS:
			return -1
		case a.RPS < b.RPS:
			return 1
		}
		return slices.Compare([]string{a.Task, a.Why}, []string{b.Task, b.Why})
	})
	return stranded, elsewhere
}

// otherFor returns the candidate that would take a task's plain request of
// which name is the primary, or why there is none.
func (v *view) otherFor(name, model, task string) (*router.Candidate, decision.Reason) {
	m := v.setup.plan.Models[model]
	if m == nil {
		return nil, decision.NotAllowed
	}
	terms := policy.Terms{Task: v.setup.task(task)}
	if task == decision.TaskUnnamed {
		terms.Task = v.setup.unnamed
	}
	why := decision.NotAllowed
	for _, d := range dialects {
		l := m.Lineup(d)
		if l == nil || l.Primary().Upstream.Name != name {
			continue
		}
		for _, c := range l.Candidates[1:] {
			closed := v.closedFor(c, terms)
			if closed == "" {
				return c, ""
			}
			if closed != decision.NotAllowed {
				why = closed
			}
		}
	}
	return nil, why
}

// closedFor says why c would not take a plain text request under terms now,
// empty if it would.
func (v *view) closedFor(c *router.Candidate, terms policy.Terms) decision.Reason {
	needs := decision.Needed(false, false, false)
	if why := c.Excluded(terms, needs, false); why != "" {
		return why
	}
	if v.g.traffic.Share(c.Upstream.Name) == 0 {
		return decision.UpstreamDegraded
	}
	if v.g.faults.Active().Covers(c.Upstream.Name) {
		return decision.SharedFault
	}
	if class, _ := c.Upstream.Client.Cooling(); class != "" {
		return decision.ReasonOf(class)
	}
	return c.Group(needs).Check(breaker.Ask{Model: c.Model, Elsewhere: true})
}

// longestFirstOutput is how long a client may have to wait for its first output.
func longestFirstOutput(cfg *config.Config) time.Duration {
	return max(cfg.Deadline.FirstOutput, cfg.Deadline.Unary)
}

// HighestFirstOutput is the highest finite bucket of ai_model_first_output_seconds
// of a gateway that starts with cfg: no quantile is above it.
func HighestFirstOutput(cfg *config.Config) time.Duration {
	return telemetry.HighestFirstOutput(longestFirstOutput(cfg))
}

// topology tells the metrics which label values there can be.
func topology(s *setup) telemetry.Topology {
	t := telemetry.Topology{DefaultTaskStays: s.unnamed.Fallback == policy.Never}
	limits := s.cfg.Deadline
	t.LongestFirstOutput = longestFirstOutput(s.cfg)
	t.LongestRequest = max(limits.Unary, limits.FirstOutput+s.cfg.Stream.Max)
	for _, tr := range breaker.Transitions {
		t.Transitions = append(t.Transitions, telemetry.Transition(tr))
	}
	t.HealthTransitions = healthTransitions()
	for _, step := range s.cfg.Failback.Steps {
		t.Shares = append(t.Shares, step.Share)
	}
	for _, u := range s.cfg.Upstreams {
		t.Upstreams = append(t.Upstreams, telemetry.TopologyUpstream{
			Name: u.Name, Region: u.Region, Dialect: u.Dialect, Capabilities: capabilitiesOf(s.cfg, u.Name),
		})
	}
	for _, name := range s.modelNames {
		model := telemetry.TopologyModel{Name: name, FirstOutputUnder: firstOutputUnder(s.cfg, name)}
		for _, d := range dialects {
			l := s.plan.Models[name].Lineup(d)
			if l == nil {
				continue
			}
			for i, c := range l.Candidates {
				model.Candidates = append(model.Candidates, telemetry.TopologyCandidate{Upstream: c.Upstream.Name, Primary: i == 0})
			}
		}
		t.Models = append(t.Models, model)
	}
	for _, task := range s.cfg.Tasks {
		t.Tasks = append(t.Tasks, telemetry.TopologyTask{Name: task.Name, Stays: policy.Fallback(task.Fallback) == policy.Never})
	}
	return t
}
