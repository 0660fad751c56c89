package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"failback/gateway/decision"
)

// Gauges is what is true at the moment of a scrape.
type Gauges struct {
	Breakers     []BreakerGauge
	Shares       []ShareGauge
	Health       []HealthGauge
	Weights      []WeightGauge
	RetryBudget  float64 // draws available
	RetryRefused uint64  // draws refused since start
	Refusals     []RefusalGauge
	LogDropped   uint64 // lines since start
	Jobs         []JobGauge
	Budgets      []BudgetGauge
	Spans        *SpanGauge // nil: traces are not exported
}

// BreakerGauge is one bucket.
type BreakerGauge struct {
	Provider, Region string
	Capability       decision.Capability
	State            string // closed, open, half_open or ramping
	Blocked          uint64 // requests that it turned away since start
	Enforced         int    // percent of the requests that its refusals bind
}

// ShareGauge is the share of one upstream in percent.
type ShareGauge struct {
	Provider, Region string
	Share            int
}

// HealthGauge is the health of one upstream.
type HealthGauge struct {
	Provider, Region string
	State            string // healthy, suspect, degraded or recovering
}

// RefusalGauge is what one upstream refused when it was last asked.
type RefusalGauge struct {
	Provider, Region string
	Class            decision.Class // credential, quota_exhausted or model_gone
	Refused          bool
}

// WeightGauge is the effective weight of a candidate. Model is the name that
// clients ask for.
type WeightGauge struct {
	Model, Provider string
	Capability      decision.Capability
	Weight          float64
}

// JobGauge is one of the gateway's recurring jobs.
type JobGauge struct {
	Job         string
	LastSuccess time.Time // zero: never yet
	Late        bool      // it should have succeeded since
}

// SpanGauge is what became of the spans since start.
type SpanGauge struct{ Exported, Dropped uint64 }

// BudgetGauge is the error budget of one objective of a model.
type BudgetGauge struct {
	Model, Objective string
	Target           float64
	Spent            float64 // part of the budget; +Inf where a target of 1 is missed
	By               []BudgetSpentGauge
}

// BudgetSpentGauge is a part of what a budget was spent on.
type BudgetSpentGauge struct {
	Provider, Reason string
	Bad              uint64
}

var (
	startDef = definition{"failback_start_time_seconds", "gauge", nil,
		"When the gateway's process began to count, in seconds since 1970: with another value counters began again at 0."}
	breakerStateDef = definition{"failback_breaker_state", "gauge", []string{"provider", "region", "capability", "state"},
		"State of a bucket: exactly one of closed, open, half_open and ramping is 1, the others are 0."}
	breakerBlockedDef = definition{"failback_breaker_blocked_total", "counter", []string{"provider", "region", "capability"},
		"Requests that a bucket turned away."}
	breakerEnforcedDef = definition{"failback_breaker_enforced_ratio", "gauge", []string{"provider", "region", "capability"},
		"Part of the requests that a bucket's refusals bind, from 0 to 1: breaker.enforce_percent, 0 in shadow mode, 1 while an operator forces it."}
	refusalDef = definition{"failback_upstream_refuses", "gauge", []string{"provider", "region", "class"},
		"1 while a key of an upstream, the account of one, or a configured model of it was refused when it was last tried, by a request or a probe: class credential, quota_exhausted or model_gone. Else 0."}
	shareDef = definition{"failback_upstream_share_ratio", "gauge", []string{"provider", "region"},
		"Part of its own traffic that an upstream may get, from 0 to 1."}
	upstreamStateDef = definition{"failback_upstream_state", "gauge", []string{"provider", "region", "state"},
		"Health of an upstream: exactly one of healthy, suspect, degraded and recovering is 1, the others are 0."}
	weightDef = definition{"failback_upstream_weight", "gauge", []string{"model", "provider", "capability"},
		"Effective weight of a candidate: the configured one times its recent success."}
	retryBudgetDef = definition{"failback_retry_budget_available", "gauge", nil,
		"Attempts after a first one that the retry budget, shared by all requests, still allows."}
	retryRefusedDef = definition{"failback_retry_budget_refused_total", "counter", nil,
		"Attempts after a first one that the retry budget refused: their requests ended with the failure before."}
	objectiveDef = definition{"failback_slo_objective_ratio", "gauge", []string{"model", "objective"},
		"Configured objective: the part of the requests that is to be good, from 0 to 1."}
	spentDef = definition{"failback_slo_budget_spent_ratio", "gauge", []string{"model", "objective"},
		"Part of the error budget that the objective's window has spent, over 1 when it is exceeded; of all gateways of the store together. 0 without requests; +Inf where an objective of 1 is missed."}
	spentOnDef = definition{"failback_slo_budget_bad_requests", "gauge", []string{"model", "objective", "provider", "reason"},
		"Bad requests in the objective's window, of all gateways of the store together, by who failed first, or none, and why. The pair other, of what is more than a dozen, is always there; another one while the window has a bad request of it."}
	jobDef = definition{"failback_job_last_success_timestamp_seconds", "gauge", []string{"job"},
		"When a recurring job of the gateway last succeeded, in seconds since 1970; 0: never since the start."}
	jobLateDef = definition{"failback_job_late", "gauge", []string{"job"},
		"1 while a recurring job of the gateway should have succeeded since, else 0: three turns without a success, at least a minute, at most four and a half; of a rarer one a tenth of its pace after it was due, at least a minute, at most five."}
	spansDef = definition{"failback_trace_spans_total", "counter", []string{"result"},
		"Spans of traces: exported, which the collector took, and dropped, which it did not take in time. Without telemetry.otlp there is no such series."}
	logDroppedDef = definition{"failback_log_lines_dropped_total", "counter", nil,
		"Lines of the decision log that were lost because its sink, or the log that is kept in data_dir, did not take them in time."}
)

// definitions is every metric there is, in the order of the reference.
var definitions = []definition{
	startDef,
	requestsDef, fallbacksDef, attemptsDef, firstOutputDef, durationDef,
	breakerStateDef, transitionsDef, breakerBlockedDef, breakerEnforcedDef, refusalDef,
	upstreamStateDef, healthDef, shareDef, stepsDef, ownDef, weightDef,
	sloDef, inTimeDef, objectiveDef, spentDef, spentOnDef, violationsDef, retryBudgetDef, retryRefusedDef, clientRetriesDef, outcomesDef, jobDef, jobLateDef, logDroppedDef, spansDef,
}

// gaugeDefinitions are those that are asked for at every scrape.
var gaugeDefinitions = []definition{
	breakerStateDef, breakerBlockedDef, breakerEnforcedDef, refusalDef, upstreamStateDef, shareDef, weightDef, objectiveDef, spentDef, spentOnDef,
	retryBudgetDef, retryRefusedDef, jobDef, jobLateDef, logDroppedDef, spansDef,
}

// gaugeCollector turns a Gauges into metrics at every scrape. Nothing is kept
// in between, so nothing can be left over: a bucket has one state, and what the
// configuration lost is gone.
type gaugeCollector struct {
	ask   func() Gauges
	descs map[string]*prometheus.Desc
}

func newGaugeCollector(ask func() Gauges) *gaugeCollector {
	c := &gaugeCollector{ask: ask, descs: map[string]*prometheus.Desc{}}
	for _, d := range gaugeDefinitions {
		c.descs[d.name] = prometheus.NewDesc(d.name, d.help, d.labels, nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *gaugeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *gaugeCollector) Collect(ch chan<- prometheus.Metric) {
	g := c.ask()
	s := scrape{c: c, ch: ch, seen: map[string]map[labels]bool{}}
	for _, b := range g.Breakers {
		for _, state := range breakerStates {
			s.send(breakerStateDef, truth(b.State == state), b.Provider, b.Region, string(b.Capability), state)
		}
		s.send(breakerBlockedDef, float64(b.Blocked), b.Provider, b.Region, string(b.Capability))
		s.send(breakerEnforcedDef, float64(b.Enforced)/100, b.Provider, b.Region, string(b.Capability))
	}
	for _, share := range g.Shares {
		s.send(shareDef, float64(share.Share)/100, share.Provider, share.Region)
	}
	for _, h := range g.Health {
		for _, state := range healthStates {
			s.send(upstreamStateDef, truth(h.State == state), h.Provider, h.Region, state)
		}
	}
	for _, r := range g.Refusals {
		s.send(refusalDef, truth(r.Refused), r.Provider, r.Region, string(r.Class))
	}
	for _, w := range g.Weights {
		s.send(weightDef, w.Weight, w.Model, w.Provider, string(w.Capability))
	}
	for _, b := range g.Budgets {
		s.send(objectiveDef, b.Target, b.Model, b.Objective)
		s.send(spentDef, b.Spent, b.Model, b.Objective)
		for _, by := range b.By {
			s.send(spentOnDef, float64(by.Bad), b.Model, b.Objective, by.Provider, by.Reason)
		}
		s.send(spentOnDef, 0, b.Model, b.Objective, Other, Other) // where it was not sent
	}
	s.send(retryBudgetDef, g.RetryBudget)
	s.send(retryRefusedDef, float64(g.RetryRefused))
	for _, j := range g.Jobs {
		at := 0.0
		if !j.LastSuccess.IsZero() {
			at = float64(j.LastSuccess.UnixMilli()) / 1000
		}
		s.send(jobDef, at, j.Job)
		s.send(jobLateDef, truth(j.Late), j.Job)
	}
	s.send(logDroppedDef, float64(g.LogDropped))
	if g.Spans != nil {
		s.send(spansDef, float64(g.Spans.Exported), "exported")
		s.send(spansDef, float64(g.Spans.Dropped), "dropped")
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// scrape sends each series once: a second one would spoil the whole answer. So
// where a model names an upstream twice, the first candidate's weight is shown.
type scrape struct {
	c    *gaugeCollector
	ch   chan<- prometheus.Metric
	seen map[string]map[labels]bool
}

func (s *scrape) send(d definition, v float64, values ...string) {
	var key labels
	copy(key[:], values)
	if s.seen[d.name] == nil {
		s.seen[d.name] = map[labels]bool{}
	}
	if s.seen[d.name][key] {
		return
	}
	s.seen[d.name][key] = true
	kind := prometheus.GaugeValue
	if d.kind == "counter" {
		kind = prometheus.CounterValue
	}
	m, err := prometheus.NewConstMetric(s.c.descs[d.name], kind, v, values...)
	if err != nil {
		m = prometheus.NewInvalidMetric(s.c.descs[d.name], err)
	}
	s.ch <- m
}
