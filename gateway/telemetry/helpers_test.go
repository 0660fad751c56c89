package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"failback/gateway/decision"
)

// pass lets d go by, in a bubble of synctest.
func pass(d time.Duration) { <-time.After(d) }

// scraped returns every series of reg as name{label="value",...}, with _count and
// _sum for a histogram.
func scraped(t testing.TB, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var l []string
			for _, p := range m.GetLabel() {
				l = append(l, fmt.Sprintf("%s=%q", p.GetName(), p.GetValue()))
			}
			labels := "{" + strings.Join(l, ",") + "}"
			switch {
			case m.GetHistogram() != nil:
				got[f.GetName()+"_count"+labels] = float64(m.GetHistogram().GetSampleCount())
				got[f.GetName()+"_sum"+labels] = m.GetHistogram().GetSampleSum()
			case m.GetGauge() != nil:
				got[f.GetName()+labels] = m.GetGauge().GetValue()
			default:
				got[f.GetName()+labels] = m.GetCounter().GetValue()
			}
		}
	}
	return got
}

// changed returns what of after is new or other than before.
func changed(before, after map[string]float64) map[string]float64 {
	d := map[string]float64{}
	for k, v := range after {
		if old, ok := before[k]; !ok || old != v {
			d[k] = v
		}
	}
	return d
}

// sum adds up all series of a metric whose labels contain each of parts.
func sum(got map[string]float64, name string, parts ...string) float64 {
	total := 0.0
next:
	for k, v := range got {
		if !strings.HasPrefix(k, name+"{") {
			continue
		}
		for _, p := range parts {
			if !strings.Contains(k, p) {
				continue next
			}
		}
		total += v
	}
	return total
}

var testHealthTransitions = []Transition{
	{"healthy", "suspect", "error_rate"}, {"suspect", "healthy", "clear"}, {"healthy", "degraded", "two_groups"}, {"degraded", "recovering", "operator"},
}

var testTransitions = []Transition{
	{"closed", "open", "failure_rate"}, {"open", "half_open", "cooldown_over"},
	{"half_open", "ramping", "probes_ok"}, {"ramping", "closed", "ramp_over"},
}

// testTopology is two providers of one dialect and one of the other, a model
// with a stand-in and one without, and a task that stays.
func testTopology() Topology {
	return Topology{
		Upstreams: []TopologyUpstream{
			{Name: "a", Region: "us", Dialect: decision.Anthropic, Capabilities: decision.SetOf(decision.Text, decision.Stream, decision.Tools)},
			{Name: "b", Region: "eu", Dialect: decision.Anthropic, Capabilities: decision.SetOf(decision.Text, decision.Stream)},
			{Name: "c", Region: "global", Dialect: decision.OpenAI, Capabilities: decision.SetOf(decision.Text, decision.Embeddings)},
		},
		Models: []TopologyModel{
			{Name: "sonnet", FirstOutputUnder: 5 * time.Second, Candidates: []TopologyCandidate{{Upstream: "a", Primary: true}, {Upstream: "b"}, {Upstream: "c", Primary: true}}},
			{Name: "embed", Candidates: []TopologyCandidate{{Upstream: "c", Primary: true}}},
		},
		Tasks:       []TopologyTask{{Name: "refund", Stays: true}, {Name: "summary"}},
		Transitions: testTransitions, HealthTransitions: testHealthTransitions, Shares: []int{5, 25, 75, 100},
	}
}

// newMetrics returns metrics of testTopology without gauges.
func newMetrics(t testing.TB) (*Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg, nil)
	m.Reset(testTopology())
	return m, reg
}

// fellOver is a decision in which a failed and b answered.
func fellOver() *decision.Decision {
	return &decision.Decision{
		Time: time.Date(2026, 11, 30, 4, 31, 2, 3e6, time.UTC), RequestID: "req-1",
		Task: "summary", Model: "sonnet", Endpoint: "messages", Stream: true,
		Primary: "a", Selected: "b", SelectedModel: "claude-sonnet-4-5", ResponseModel: "claude-sonnet-4-5",
		Route: decision.RouteFallback, Fallback: true, Status: decision.DegradedCompleted,
		Reason: decision.ReasonOf(decision.ServerError), Failed: "a",
		Candidates: []decision.Candidate{
			{Provider: "a", Model: "claude-sonnet-4-5", Weight: 100, Share: 100},
			{Provider: "b", Model: "claude-sonnet-4-5", Weight: 80, Share: 100},
		},
		Attempts: []decision.Attempt{
			{Provider: "a", Region: "us", Capability: decision.Stream, Outcome: decision.Outcome{
				Class: decision.ServerError, Status: 500, Duration: time.Second, Detail: "500 from upstream", Code: "api_error",
			}},
			{Provider: "b", Region: "eu", Capability: decision.Stream, Outcome: decision.Outcome{
				Class: decision.OK, Status: 200, FirstOutput: 300 * time.Millisecond, HasFirstOutput: true, Duration: 2 * time.Second, Relayed: true,
			}},
		},
		FirstOutput: 1300 * time.Millisecond, HasFirstOutput: true, Duration: 3 * time.Second, HTTPStatus: 200,
	}
}

// answered is a decision that the primary a completed.
func answered() *decision.Decision {
	return &decision.Decision{
		Time: time.Now(), RequestID: "req-2", Task: "summary", Model: "sonnet", Endpoint: "messages",
		Primary: "a", Selected: "a", Route: decision.RoutePrimary, Status: decision.Completed, Reason: decision.PrimaryCompleted,
		Attempts: []decision.Attempt{{Provider: "a", Region: "us", Capability: decision.Text, Outcome: decision.Outcome{
			Class: decision.OK, Status: 200, FirstOutput: time.Second, HasFirstOutput: true, Duration: time.Second, Relayed: true,
		}}},
		FirstOutput: time.Second, HasFirstOutput: true, Duration: time.Second, HTTPStatus: 200,
	}
}
