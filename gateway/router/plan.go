package router

import (
	"slices"
	"sync/atomic"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/decision"
	"failback/gateway/policy"
	"failback/gateway/upstream"
	"failback/gateway/wire"
)

// Plan is what the loop must know of the configuration. It is immutable: a
// reload makes a new one, and a request keeps the one it began with.
type Plan struct {
	Models map[string]*Model
	// FirstOutput bounds a stream up to its first output; Unary bounds a unary
	// or held answer as a whole.
	FirstOutput, Unary time.Duration
	// Attempts caps the attempts of one request, MaxSwitches its changes of candidate.
	Attempts, MaxSwitches int
	// MaxWait bounds the time one request spends waiting between attempts.
	MaxWait time.Duration
	// BudgetRatio and BudgetBurst size the shared retry budget.
	BudgetRatio, BudgetBurst float64
	SwitchOnCredential       bool
	SwitchOnQuota            bool
	MaxHeldBytes             int64
	// UpstreamInflight is what one upstream may hold in flight while another
	// candidate admits; 0 does not bound it.
	UpstreamInflight int64
	// Drains is how many attempts at once may run to their end, unread, after
	// their client left; 0 cancels each at once.
	Drains int64
}

// Model is a name clients ask for, with its candidates by dialect.
type Model struct {
	Name    string
	lineups map[decision.Dialect]*Lineup
}

// Lineup is the ordered candidates of one model in one dialect. The first is
// the primary; the others follow by configured weight, ties in file order.
type Lineup struct {
	Candidates []*Candidate
}

// Primary returns the lineup's primary.
func (l *Lineup) Primary() *Candidate { return l.Candidates[0] }

// NewModel sorts candidates (given in file order) into lineups. A dialect
// without a candidate that could be primary gets none: there the model does
// not exist.
func NewModel(name string, candidates []*Candidate) *Model {
	m := &Model{Name: name, lineups: make(map[decision.Dialect]*Lineup)}
	byDialect := make(map[decision.Dialect][]*Candidate)
	for _, c := range candidates {
		byDialect[c.Upstream.Dialect] = append(byDialect[c.Upstream.Dialect], c)
	}
	for d, cs := range byDialect {
		slices.SortStableFunc(cs, func(a, b *Candidate) int {
			switch {
			case a.Weight > b.Weight:
				return -1
			case a.Weight < b.Weight:
				return 1
			}
			return 0
		})
		i := slices.IndexFunc(cs, func(c *Candidate) bool { return !c.Substitute })
		if i < 0 {
			continue
		}
		primary := cs[i]
		copy(cs[1:i+1], cs[:i])
		cs[0] = primary
		m.lineups[d] = &Lineup{Candidates: cs}
	}
	return m
}

// Lineup returns the candidates for a dialect, nil where the model does not exist in it.
func (m *Model) Lineup(d decision.Dialect) *Lineup { return m.lineups[d] }

// Upstream is an upstream as the loop sees it.
type Upstream struct {
	Name, Region string
	Dialect      decision.Dialect
	Zones        []string
	Client       *upstream.Upstream
	// Base and Cap shape the back-off before the same candidate is asked
	// again; Patience is how long a request waits for it when only a
	// substitute comes next.
	Base, Cap, Patience time.Duration
	// WatchdogOff turns the first-output watchdog off; else it follows the
	// measured p99 between Floor and Ceiling.
	WatchdogOff    bool
	Floor, Ceiling time.Duration
	// UnaryFloor is the least limit of a unary attempt while another candidate is left.
	UnaryFloor time.Duration
	// Inflight counts the attempts this upstream holds. Spare says that, degraded
	// as it is, it may serve who has nobody else. Both outlive reloads.
	Inflight *atomic.Int64
	Spare    *atomic.Bool
}

// Candidate is an upstream with its own name for a model.
type Candidate struct {
	Upstream      *Upstream
	Model         string
	Weight        float64
	Substitute    bool
	LargerContext bool
	ContextTokens int // 0: not known
	Capabilities  decision.CapabilitySet
	groups        [16]*breaker.Group
	// onEndpoint names the model as one endpoint has it, for cooling: a 404
	// that does not name the model may only mean that its upstream lacks the
	// endpoint.
	onEndpoint map[wire.Endpoint]string
}

// OnEndpoint names a model as one endpoint has it; see Candidate.
func OnEndpoint(model string, ep wire.Endpoint) string { return model + " on " + ep.String() }

// Bind resolves the buckets that guard c, once, so that no request looks them up.
func (c *Candidate) Bind(set *breaker.Set) {
	c.onEndpoint = make(map[wire.Endpoint]string, len(wire.Endpoints))
	for _, ep := range wire.Endpoints {
		c.onEndpoint[ep] = OnEndpoint(c.Model, ep)
	}
	for s := range decision.CapabilitySet(len(c.groups)) {
		if s != 0 && c.Capabilities.Covers(s) {
			c.groups[s] = set.Group(c.Upstream.Name, s)
		}
	}
}

// Group returns the buckets that must admit a request that needs caps; nil if
// c cannot serve it.
func (c *Candidate) Group(caps decision.CapabilitySet) *breaker.Group {
	return c.groups[caps&15]
}

// Excluded returns the reason for which the terms of a request that needs
// caps rule c out whatever state it is in, or "". primary says that c is the
// primary of the request.
func (c *Candidate) Excluded(t policy.Terms, caps decision.CapabilitySet, primary bool) decision.Reason {
	if v := policy.MayServe(t, c.facts(primary)); !v.Allowed {
		return v.Reason
	}
	if len(t.Task.Zones) > 0 && !intersects(t.Task.Zones, c.Upstream.Zones) {
		return decision.DataZone
	}
	if !c.Capabilities.Covers(caps) {
		return decision.NoCapability
	}
	return ""
}

// mayServe returns the reason for which q itself rules c out whatever
// happens, or "".
func (c *Candidate) mayServe(q *Request, primary bool) decision.Reason {
	if why := c.Excluded(q.Terms, q.Needs, primary); why != "" {
		return why
	}
	if q.exceeds(c.ContextTokens) {
		return decision.ReasonOf(decision.ContextLength)
	}
	return ""
}

func (c *Candidate) facts(primary bool) policy.Candidate {
	return policy.Candidate{Primary: primary, Substitute: c.Substitute, LargerContext: c.LargerContext}
}

func intersects(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
