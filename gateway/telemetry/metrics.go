package telemetry

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"failback/gateway/decision"
)

// Metrics counts decisions and events. Its methods may be called from any
// goroutine.
type Metrics struct {
	requests      *family[prometheus.Counter]
	fallbacks     *family[prometheus.Counter]
	attempts      *family[prometheus.Counter]
	firstOutput   *family[prometheus.Observer]
	duration      *family[prometheus.Observer]
	transitions   *family[prometheus.Counter]
	health        *family[prometheus.Counter]
	steps         *family[prometheus.Counter]
	own           *family[prometheus.Counter]
	slo           *family[prometheus.Counter]
	inTime        *family[prometheus.Counter]
	violations    *family[prometheus.Counter]
	clientRetries *family[prometheus.Counter]
	outcomes      *family[prometheus.Counter]

	// mu guards everything that follows and the series of the families: who
	// counts only reads them.
	mu    sync.RWMutex
	names *names
	reg   prometheus.Registerer
}

// Bounds of the buckets, in seconds. Tokens begin within tenths of a second to
// some ten; the tail is long, since an unary answer is its own first output.
// Limits that configurations usually have (5 s, 12 s, 60 s, 600 s) are bounds,
// so that the part of the requests within them can be told exactly. A limit over
// the last one is added to them.
var (
	firstOutputBuckets = []float64{.05, .1, .2, .3, .5, .75, 1, 1.5, 2, 3, 4, 5, 7.5, 10, 12, 15, 20, 30, 60, 120, 300, 600}
	durationBuckets    = []float64{.05, .1, .25, .5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1200}
)

var (
	requestsDef = definition{"ai_model_requests_total", "counter", []string{"model", "provider", "route", "outcome"},
		"Client requests, each once at its end. provider is who answered, or none; outcome is workflow_status."}
	fallbacksDef = definition{"ai_fallback_triggered_total", "counter", []string{"model", "primary", "task_type", "reason"},
		"Client requests for which a candidate other than the primary was attempted or answered. reason is why the primary did not answer, or the last cause where nobody did."}
	attemptsDef = definition{"ai_model_attempts_total", "counter", []string{"provider", "region", "capability", "class"},
		"Attempts: exchanges with an upstream that requests made, by how they ended; probes are none; a success has class ok. capability is the most specific of the request."}
	firstOutputDef = definition{"ai_model_first_output_seconds", "histogram", []string{"model", "provider"},
		"Time from a request's acceptance to the first output that its client got, failed attempts included; no sample where none was relayed."}
	durationDef = definition{"ai_workflow_duration_seconds", "histogram", []string{"route", "outcome"},
		"Time from a request's acceptance to its end."}
	transitionsDef = definition{"failback_breaker_transitions_total", "counter", []string{"provider", "region", "capability", "from", "to", "reason"},
		"State changes of a bucket."}
	stepsDef = definition{"failback_traffic_steps_total", "counter", []string{"provider", "to", "by"},
		"Changes of an upstream's share. to is the new share in percent; by is operator, plan or auto."}
	healthDef = definition{"failback_health_transitions_total", "counter", []string{"provider", "from", "to", "reason"},
		"Changes of an upstream's health."}
	ownDef = definition{"failback_upstream_own_requests_total", "counter", []string{"provider", "answered_by"},
		"Requests of which provider is the primary, by who answered, or none. Those that the caller spoiled or left before anyone answered are not counted."}
	sloDef = definition{"failback_slo_requests_total", "counter", []string{"model", "provider", "verdict", "reason"},
		"Client requests by their verdict for availability: good, bad or excluded. provider is who answered, or none."}
	inTimeDef = definition{"failback_slo_first_output_total", "counter", []string{"model", "verdict"},
		"Streams of models with a first_output objective by their verdict for it: good, or bad where the client had no output within the limit."}
	violationsDef = definition{"failback_policy_violations_total", "counter", []string{"task_type"},
		"Requests that a candidate answered although policy did not allow it. Must stay 0."}
	clientRetriesDef = definition{"failback_client_retries_total", "counter", nil,
		"Requests of which the client said that they are its own retry: it multiplies our attempts."}
	outcomesDef = definition{"failback_outcomes_total", "counter", []string{"layer", "route", "verdict"},
		"Outcomes that clients and evaluators reported, each once. route is that of the request's answer, or none where the request is not known, or not any more; verdict is good or bad."}
)

// NewMetrics registers the metrics with reg, which must not have them yet.
// gauges is asked at every scrape for what is true at that moment; nil leaves
// those metrics out. Until Reset every name is unknown.
func NewMetrics(reg prometheus.Registerer, gauges func() Gauges) *Metrics {
	m := &Metrics{
		reg:           reg,
		requests:      newCounters(reg, requestsDef),
		fallbacks:     newCounters(reg, fallbacksDef),
		attempts:      newCounters(reg, attemptsDef),
		firstOutput:   newHistograms(reg, firstOutputDef, firstOutputBuckets),
		duration:      newHistograms(reg, durationDef, durationBuckets),
		transitions:   newCounters(reg, transitionsDef),
		health:        newCounters(reg, healthDef),
		steps:         newCounters(reg, stepsDef),
		own:           newCounters(reg, ownDef),
		slo:           newCounters(reg, sloDef),
		inTime:        newCounters(reg, inTimeDef),
		violations:    newCounters(reg, violationsDef),
		clientRetries: newCounters(reg, clientRetriesDef),
		outcomes:      newCounters(reg, outcomesDef),
	}
	start := prometheus.NewGauge(prometheus.GaugeOpts{Name: startDef.name, Help: startDef.help})
	start.Set(float64(time.Now().UnixMilli()) / 1000)
	reg.MustRegister(start)
	if gauges != nil {
		reg.MustRegister(newGaugeCollector(gauges))
	}
	m.Reset(Topology{})
	return m
}

// Reset says what is configured: every series that can be counted into is
// there afterwards, with the value it had or 0, and no series has a name that
// the configuration lost.
func (m *Metrics) Reset(t Topology) {
	n := t.names()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names = n
	m.firstOutput = reaching(m.reg, m.firstOutput, t.LongestFirstOutput)
	m.duration = reaching(m.reg, m.duration, t.LongestRequest)
	m.requests.reset(n.requestSeries(), n.keep(&m.requests.definition))
	m.fallbacks.reset(n.fallbackSeries(), n.keep(&m.fallbacks.definition))
	m.attempts.reset(n.attemptSeries(), n.keep(&m.attempts.definition))
	m.firstOutput.reset(n.firstOutputSeries(), n.keep(&m.firstOutput.definition))
	m.duration.reset(n.durationSeries(), n.keep(&m.duration.definition))
	m.transitions.reset(n.transitionSeries(), n.keep(&m.transitions.definition))
	m.health.reset(n.healthSeries(), n.keep(&m.health.definition))
	m.steps.reset(n.stepSeries(), n.keep(&m.steps.definition))
	m.own.reset(n.ownSeries(), n.keep(&m.own.definition))
	m.slo.reset(n.sloSeries(), n.keep(&m.slo.definition))
	m.inTime.reset(n.inTimeSeries(), n.keep(&m.inTime.definition))
	m.violations.reset(n.violationSeries(), n.keep(&m.violations.definition))
	m.clientRetries.reset(map[labels]bool{{}: true}, n.keep(&m.clientRetries.definition))
	m.outcomes.reset(outcomeSeries(), n.keep(&m.outcomes.definition))
}

// Decision counts d.
func (m *Metrics) Decision(d *decision.Decision) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := m.names
	model, provider, reason := n.model(d.Model), n.provider(d.Selected), reasonLabel(d.Reason)
	route, outcome := routeLabel(d.Route), outcomeLabel(d.Status)

	m.requests.get(model, provider, route, outcome).Inc()
	m.duration.get(route, outcome).Observe(d.Duration.Seconds())
	if d.HasFirstOutput {
		m.firstOutput.get(model, provider).Observe(d.FirstOutput.Seconds())
	}
	if d.Fallback {
		m.fallbacks.get(model, n.provider(d.Primary), n.task(d.Task), reason).Inc()
	}
	for i := range d.Attempts {
		a := &d.Attempts[i]
		m.attempts.get(n.provider(a.Provider), n.region(a.Provider), capabilityLabel(a.Capability), classLabel(a.Outcome.Class)).Inc()
	}
	if primary, by, ok := ownRequest(d); ok {
		m.own.get(n.provider(primary), n.provider(by)).Inc()
	}
	if v := VerdictOf(d.Status, d.Reason); v != Undecided {
		m.slo.get(model, provider, string(v), reason).Inc()
	}
	if under := n.under[d.Model]; under > 0 {
		if v := FirstOutputVerdictOf(d, under); v == Good || v == Bad {
			m.inTime.get(model, string(v)).Inc()
		}
	}
	if d.Violation {
		m.violations.get(n.task(d.Task)).Inc()
	}
	if d.ClientRetry > 0 {
		m.clientRetries.get().Inc()
	}
}

// Outcome counts what was reported of an answer in one layer.
func (m *Metrics) Outcome(layer string, route decision.Route, good bool) {
	verdict := Bad
	if good {
		verdict = Good
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.outcomes.get(layer, routeLabel(route), string(verdict)).Inc()
}

// Event counts e: the transition of a breaker or of health, or a step of a share. Other
// events have no metric.
func (m *Metrics) Event(e decision.Event) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := m.names
	switch e.Kind {
	case decision.KindBreakerTransition:
		tr := Transition{e.From, e.To, e.Reason}
		if len(n.transitions) > 0 && !n.transitions[tr] {
			tr = Transition{stateLabel(e.From), stateLabel(e.To), Other}
		}
		m.transitions.get(n.provider(e.Provider), n.region(e.Provider), capabilityLabel(e.Capability), tr.From, tr.To, tr.Reason).Inc()
	case decision.KindHealthTransition:
		if e.Result != "ok" {
			return // it would have happened
		}
		tr := Transition{e.From, e.To, e.Reason}
		if len(n.health) > 0 && !n.health[tr] {
			tr = Transition{healthLabel(e.From), healthLabel(e.To), Other}
		}
		m.health.get(n.provider(e.Provider), tr.From, tr.To, tr.Reason).Inc()
	case decision.KindTrafficStep:
		if !n.shares[e.To] {
			return // a name left or came back, a file fell behind
		}
		m.steps.get(n.provider(e.Provider), e.To, whoLabel(e.By)).Inc()
	}
}

func routeLabel(r decision.Route) string {
	if slices.Contains(decision.Routes, r) {
		return string(r)
	}
	return string(decision.RouteNone)
}

func outcomeLabel(s decision.Status) string {
	if slices.Contains(decision.Statuses, s) {
		return string(s)
	}
	return Other
}

func classLabel(c decision.Class) string {
	if slices.Contains(decision.Classes, c) {
		return string(c)
	}
	return Other
}

func capabilityLabel(c decision.Capability) string {
	if slices.Contains(decision.Capabilities, c) {
		return string(c)
	}
	return Other
}

func stateLabel(s string) string {
	if slices.Contains(breakerStates, s) {
		return s
	}
	return Other
}
