package gateway

import (
	"slices"
	"sync/atomic"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/policy"
	"failback/gateway/router"
	"failback/gateway/upstream"
)

// setup is one configuration made ready to serve. It is immutable; a request
// keeps the one it began with.
type setup struct {
	cfg      *config.Config
	loadedAt time.Time

	plan       *router.Plan
	upstreams  map[string]*router.Upstream
	watched    map[string]*watched // by upstream
	modelNames []string            // in file order
	keys       clientKeys
	tasks      map[string]policy.Task
	unnamed    policy.Task
	other      policy.Task

	maxInflight     int64
	maxRequestBytes int64
}

// task returns the rules for what a client calls its work. A name that is not
// configured may not fall back: it might be misspelt.
func (s *setup) task(name string) policy.Task {
	if name == "" {
		return s.unnamed
	}
	if t, ok := s.tasks[name]; ok {
		return t
	}
	return s.other
}

// config is the configuration of the upstream of that name, which there must be.
func (s *setup) config(upstream string) *config.Upstream {
	i := slices.IndexFunc(s.cfg.Upstreams, func(u config.Upstream) bool { return u.Name == upstream })
	return &s.cfg.Upstreams[i]
}

// inflightShare is the part of max_inflight that one upstream may hold while
// another admits.
const inflightShare = 4

// drainShare is the part of max_inflight that may run on after its client left.
const drainShare = 8

// setupFrom makes cfg ready. Upstreams whose name is known keep their state:
// connections, limits, cooling keys and, in the breakers, buckets. It cannot
// fail: what can be wrong with a configuration, Load has found.
func (g *Gateway) setupFrom(cfg *config.Config) *setup {
	s := &setup{
		cfg:             cfg,
		loadedAt:        time.Now(),
		upstreams:       make(map[string]*router.Upstream, len(cfg.Upstreams)),
		watched:         make(map[string]*watched, len(cfg.Upstreams)),
		keys:            newClientKeys(cfg.Keys, cfg.AllowAnonymous),
		tasks:           make(map[string]policy.Task, len(cfg.Tasks)),
		maxInflight:     int64(cfg.MaxInflight),
		maxRequestBytes: cfg.MaxRequestBytes,
	}
	for _, u := range cfg.Upstreams {
		s.upstreams[u.Name] = g.upstream(u)
		s.watched[u.Name] = &g.kept[u.Name].watched
		g.breakers.Configure(u.Name, u.Region, capabilitiesOf(cfg, u.Name), breakerSettings(u))
	}
	for _, t := range cfg.Tasks {
		s.tasks[t.Name] = taskFrom(t)
	}
	s.unnamed = taskFrom(cfg.DefaultTask)
	s.unnamed.Name = decision.TaskUnnamed
	s.other = policy.Task{Name: decision.TaskOther, Fallback: policy.Never, OnUnavailable: s.unnamed.OnUnavailable}
	s.plan = g.planFrom(cfg, s)
	return s
}

func (g *Gateway) planFrom(cfg *config.Config, s *setup) *router.Plan {
	p := &router.Plan{
		Models:             make(map[string]*router.Model, len(cfg.Models)),
		FirstOutput:        cfg.Deadline.FirstOutput,
		Unary:              cfg.Deadline.Unary,
		Attempts:           cfg.Retry.Attempts,
		MaxSwitches:        cfg.Retry.MaxSwitches,
		MaxWait:            cfg.Retry.MaxWait,
		BudgetRatio:        cfg.Retry.Budget.Ratio,
		BudgetBurst:        cfg.Retry.Budget.Burst,
		SwitchOnCredential: cfg.Errors.Credential == "switch",
		SwitchOnQuota:      cfg.Errors.QuotaExhausted == "switch",
		MaxHeldBytes:       cfg.MaxHeldBytes,
		UpstreamInflight:   max(int64(cfg.MaxInflight)/inflightShare, 1),
	}
	if cfg.OnClientGone == "drain" {
		p.Drains = max(int64(cfg.MaxInflight)/drainShare, 1)
	}
	for _, m := range cfg.Models {
		s.modelNames = append(s.modelNames, m.Name)
		var candidates []*router.Candidate
		for _, c := range m.Candidates {
			candidate := &router.Candidate{
				Upstream:      s.upstreams[c.Upstream],
				Model:         c.Model,
				Weight:        c.Weight,
				Substitute:    c.Substitute,
				LargerContext: c.LargerContext,
				ContextTokens: c.ContextTokens,
				Capabilities:  c.Capabilities,
			}
			candidate.Bind(g.breakers)
			candidates = append(candidates, candidate)
		}
		p.Models[m.Name] = router.NewModel(m.Name, candidates)
	}
	return p
}

// upstream returns the upstream of that name with u's settings.
func (g *Gateway) upstream(u config.Upstream) *router.Upstream {
	keys := make([]string, 0, len(u.Keys))
	for _, k := range u.Keys {
		keys = append(keys, k.Value())
	}
	settings := upstream.Settings{
		Name:        u.Name,
		Region:      u.Region,
		Dialect:     u.Dialect,
		BaseURL:     u.BaseURL,
		Auth:        u.Auth,
		Keys:        keys,
		Billing:     u.FaultDomains["billing"],
		Concurrency: u.Limits.Concurrency,
		RPS:         u.Limits.RPS,
		TPM:         u.Limits.TPM,
		Idle:        u.Stream.Idle,
		Max:         u.Stream.Max,
		DialContext: g.o.DialContext,
		TLS:         g.o.UpstreamTLS,
	}
	kept := g.kept[u.Name]
	if kept == nil {
		kept = &keptUpstream{client: upstream.New(settings, g.book)}
		g.kept[u.Name] = kept
	} else {
		kept.client.Update(settings)
	}
	return &router.Upstream{
		Name:        u.Name,
		Region:      u.Region,
		Dialect:     u.Dialect,
		Zones:       u.DataZones,
		Client:      kept.client,
		Base:        u.Retry.Base,
		Cap:         u.Retry.Cap,
		Patience:    u.Retry.Patience,
		WatchdogOff: u.FirstOutput.Mode == "off",
		Floor:       u.FirstOutput.Floor,
		Ceiling:     u.FirstOutput.Ceiling,
		UnaryFloor:  u.UnaryAttempt.Floor,
		Inflight:    &kept.inflight,
		Spare:       &kept.spare,
	}
}

// keptUpstream is what of an upstream outlives a reload.
type keptUpstream struct {
	client   *upstream.Upstream
	inflight atomic.Int64
	spare    atomic.Bool
	watched  watched
}

// capabilitiesOf is what any candidate of the upstream may serve: a bucket
// that no request can reach would only be noise on every screen.
func capabilitiesOf(cfg *config.Config, name string) decision.CapabilitySet {
	var s decision.CapabilitySet
	for _, m := range cfg.Models {
		for _, c := range m.Candidates {
			if c.Upstream == name {
				s |= c.Capabilities
			}
		}
	}
	for _, u := range cfg.Upstreams {
		if u.Name == name && u.Dialect == decision.Anthropic {
			s &^= decision.SetOf(decision.Embeddings) // the dialect has none
		}
	}
	return s
}

func breakerSettings(u config.Upstream) breaker.Settings {
	b := u.Breaker
	return breaker.Settings{
		FailureRate:    b.FailureRate,
		MinSamples:     b.MinSamples,
		Window:         b.Window,
		Consecutive:    b.Consecutive,
		SlowOver:       b.Slow.Over,
		SlowRate:       b.Slow.Rate,
		Cooldown:       b.Cooldown,
		CooldownMax:    b.CooldownMax,
		Patience:       u.Retry.Patience,
		Probes:         b.Probes,
		Shadow:         b.Mode == "shadow",
		EnforcePercent: b.EnforcePercent,
	}
}

func taskFrom(t config.Task) policy.Task {
	return policy.Task{
		Name:          t.Name,
		Fallback:      policy.Fallback(t.Fallback),
		OnUnavailable: policy.OnUnavailable(t.OnUnavailable),
		SideEffects:   t.SideEffects,
		Hold:          t.Release == "complete",
		Zones:         t.DataZones,
		Deadline:      t.Deadline,
	}
}
