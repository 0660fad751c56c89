package telemetry

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"failback/gateway/decision"
)

// TEL-03: a failure is booked on who failed, the success on who saved the request.
func TestDecisionIsBookedOnWhoDidIt(t *testing.T) {
	m, reg := newMetrics(t)
	before := scraped(t, reg)
	m.Decision(fellOver())
	want := map[string]float64{
		`ai_model_requests_total{model="sonnet",outcome="degraded_completed",provider="b",route="fallback"}`: 1,
		`ai_fallback_triggered_total{model="sonnet",primary="a",reason="server_error",task_type="summary"}`:  1,
		`ai_model_attempts_total{capability="stream",class="server_error",provider="a",region="us"}`:         1,
		`ai_model_attempts_total{capability="stream",class="ok",provider="b",region="eu"}`:                   1,
		`ai_workflow_duration_seconds_count{outcome="degraded_completed",route="fallback"}`:                  1,
		`ai_workflow_duration_seconds_sum{outcome="degraded_completed",route="fallback"}`:                    3,
		`ai_model_first_output_seconds_count{model="sonnet",provider="b"}`:                                   1,
		`ai_model_first_output_seconds_sum{model="sonnet",provider="b"}`:                                     1.3,
		`failback_upstream_own_requests_total{answered_by="b",provider="a"}`:                                 1,
		`failback_slo_requests_total{model="sonnet",provider="b",reason="server_error",verdict="good"}`:      1,
		`failback_slo_first_output_total{model="sonnet",verdict="good"}`:                                     1,
	}
	if diff := cmp.Diff(want, changed(before, scraped(t, reg))); diff != "" {
		t.Error(diff)
	}
}

func TestDecisionWithoutAnswer(t *testing.T) {
	m, reg := newMetrics(t)
	before := scraped(t, reg)
	d := fellOver()
	d.Selected, d.Route, d.Status, d.Reason = "", decision.RouteNone, decision.Unavailable, decision.ReasonOf(decision.Overloaded)
	d.HasFirstOutput, d.Violation, d.ClientRetry = false, true, 2
	d.Attempts[1].Outcome.Class = decision.Overloaded
	m.Decision(d)
	want := map[string]float64{
		`ai_model_requests_total{model="sonnet",outcome="unavailable",provider="none",route="none"}`:      1,
		`ai_fallback_triggered_total{model="sonnet",primary="a",reason="overloaded",task_type="summary"}`: 1,
		`ai_model_attempts_total{capability="stream",class="server_error",provider="a",region="us"}`:      1,
		`ai_model_attempts_total{capability="stream",class="overloaded",provider="b",region="eu"}`:        1,
		`ai_workflow_duration_seconds_count{outcome="unavailable",route="none"}`:                          1,
		`ai_workflow_duration_seconds_sum{outcome="unavailable",route="none"}`:                            3,
		`failback_upstream_own_requests_total{answered_by="none",provider="a"}`:                           1,
		`failback_slo_requests_total{model="sonnet",provider="none",reason="overloaded",verdict="bad"}`:   1,
		`failback_slo_first_output_total{model="sonnet",verdict="bad"}`:                                   1,
		`failback_policy_violations_total{task_type="summary"}`:                                           1,
		`failback_client_retries_total{}`:                                                                 1,
	}
	if diff := cmp.Diff(want, changed(before, scraped(t, reg))); diff != "" {
		t.Error(diff)
	}
}

// TEL-05: first output is what the client got, from its request on; nothing
// where it got none.
func TestFirstOutputIsTheClients(t *testing.T) {
	m, reg := newMetrics(t)
	d := answered()
	d.FirstOutput = 2 * time.Second // headers and a role came before: no output
	m.Decision(d)
	m.Decision(fellOver()) // a failed after 1 s, b's own first output took 0.3 s
	none := answered()
	none.HasFirstOutput = false
	m.Decision(none)
	got := scraped(t, reg)
	for series, want := range map[string]float64{
		`ai_model_first_output_seconds_count{model="sonnet",provider="a"}`: 1,
		`ai_model_first_output_seconds_sum{model="sonnet",provider="a"}`:   2,
		`ai_model_first_output_seconds_count{model="sonnet",provider="b"}`: 1,
		`ai_model_first_output_seconds_sum{model="sonnet",provider="b"}`:   1.3,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
	}
}

// TEL-04: what clients choose makes no series.
func TestClientTextMakesNoSeries(t *testing.T) {
	m, reg := newMetrics(t)
	r := rand.New(rand.NewPCG(1, 2))
	text := func() string { return fmt.Sprintf("x-%x", r.Uint64()) }
	send := func() {
		d := answered()
		d.Model, d.Task, d.RequestID, d.Conversation, d.Turn, d.OperationID, d.StateVersion, d.Endpoint, d.Key =
			text(), text(), text(), text(), text(), text(), text(), text(), text()
		d.ResponseModel, d.Attempts[0].Outcome.Code, d.Attempts[0].Outcome.UpstreamRequestID = text(), text(), text()
		d.Primary, d.Selected, d.Attempts = "", "", nil
		d.Route, d.Status, d.Reason = decision.RouteNone, decision.Rejected, decision.ReasonOf(decision.InvalidRequest)
		d.HasFirstOutput, d.Fallback = false, false
		m.Decision(d)
	}
	before := scraped(t, reg)
	for range 5000 {
		send()
	}
	after := scraped(t, reg)
	if len(after) != len(before) {
		t.Errorf("%d series became %d", len(before), len(after))
	}
	if got := after[`ai_model_requests_total{model="other",outcome="rejected",provider="none",route="none"}`]; got != 5000 {
		t.Errorf("%v requests for other models", got)
	}
}

// Words that no vocabulary has make at most one series of a metric, whatever
// they are: a fault of ours must not grow without bound either.
func TestUnknownWordsAreBounded(t *testing.T) {
	m, reg := newMetrics(t)
	before := scraped(t, reg)
	for i := range 100 {
		x := fmt.Sprint("x", i)
		d := fellOver()
		d.Status, d.Route, d.Reason, d.Primary, d.Selected = decision.Status(x), decision.Route(x), decision.Reason(x), x, x
		d.Attempts[0] = decision.Attempt{Provider: x, Region: x, Capability: decision.Capability(x), Outcome: decision.Outcome{Class: decision.Class(x)}}
		d.Violation, d.Task = true, x
		m.Decision(d)
		m.Event(decision.Event{Kind: decision.KindBreakerTransition, Provider: x, Region: x, Capability: decision.Capability(x), From: x, To: x, Reason: x})
		m.Event(decision.Event{Kind: decision.KindTrafficStep, Provider: x, To: x, By: x})
		m.Event(decision.Event{Kind: decision.KindTrafficStep, Provider: x, To: "5", By: x})
		m.Event(decision.Event{Kind: decision.Kind(x), Provider: x, To: "5", By: x})
	}
	after := scraped(t, reg)
	for series := range after {
		if _, ok := before[series]; !ok && strings.Contains(series, "x") && strings.Contains(series, `"x`) {
			t.Errorf("new series %s", series)
		}
	}
	if n := len(after) - len(before); n > 15 {
		t.Errorf("%d new series: %v", n, changed(before, after))
	}
}

// Every series that a decision of the gateway can count into is there before.
func TestSeriesAreThereFromTheStart(t *testing.T) {
	m, reg := newMetrics(t)
	before := scraped(t, reg)
	for series, v := range before {
		if strings.HasPrefix(series, startDef.name) {
			if age := time.Since(time.UnixMilli(int64(v * 1000))); age < -time.Second || age > time.Minute {
				t.Errorf("%s is %s ago", series, age)
			}
			continue
		}
		if v != 0 {
			t.Errorf("%s starts at %v", series, v)
		}
	}

	attempt := func(provider, region string, c decision.Class) decision.Attempt {
		return decision.Attempt{Provider: provider, Region: region, Capability: decision.Text, Outcome: decision.Outcome{Class: c}}
	}
	decide := func(change func(d *decision.Decision)) {
		for _, task := range []string{"summary", ""} {
			d := &decision.Decision{Model: "sonnet", Task: task, Primary: "a", Route: decision.RouteNone, Duration: time.Second}
			change(d)
			m.Decision(d)
		}
	}
	passedBy := append([]decision.Reason{
		decision.BreakerOpen, decision.Weight, decision.Slow, decision.RetryBudget, decision.Capacity, decision.NoCapability,
		decision.Passthrough, decision.UpstreamDegraded, decision.TrafficShare, decision.SharedFault, decision.DataZone,
		decision.ReasonOf(decision.Credential), decision.ReasonOf(decision.QuotaExhausted), decision.ReasonOf(decision.ModelGone),
		decision.ReasonOf(decision.RateLimited), decision.ReasonOf(decision.ContextLength),
	}, classReasons(mayMove)...)
	for _, reason := range passedBy {
		for _, end := range []decision.Status{decision.DegradedCompleted, decision.Incomplete, decision.Cancelled} {
			decide(func(d *decision.Decision) {
				d.Selected, d.Route, d.Status, d.Reason, d.Fallback = "b", decision.RouteFallback, end, reason, true
				d.Attempts = []decision.Attempt{attempt("b", "eu", decision.OK)}
				d.HasFirstOutput = true
			})
		}
		for _, fellOver := range []bool{false, true} {
			decide(func(d *decision.Decision) { d.Status, d.Reason, d.Fallback = decision.Unavailable, reason, fellOver })
		}
	}
	for _, reason := range []decision.Reason{
		decision.ReasonOf(decision.Internal), decision.ReasonOf(decision.Unknown), decision.NotAllowed, decision.Deadline,
	} {
		for _, fellOver := range []bool{false, true} {
			decide(func(d *decision.Decision) { d.Status, d.Reason, d.Fallback = decision.Unavailable, reason, fellOver })
		}
	}
	for _, class := range decision.Classes {
		decide(func(d *decision.Decision) {
			d.Selected, d.Route, d.Status, d.Reason = "a", decision.RoutePrimary, decision.Completed, decision.PrimaryCompleted
			d.Attempts = []decision.Attempt{attempt("a", "us", class)}
		})
		if mayBreak(class) {
			decide(func(d *decision.Decision) {
				d.Selected, d.Route, d.Status, d.Reason = "a", decision.RoutePrimary, decision.Incomplete, decision.ReasonOf(class)
			})
		}
	}
	for _, class := range []decision.Class{decision.ClientGone, decision.CallerDeadline} {
		for _, fellOver := range []bool{false, true} {
			decide(func(d *decision.Decision) {
				d.Status, d.Reason, d.Fallback = decision.Cancelled, decision.ReasonOf(class), fellOver
			})
		}
		decide(func(d *decision.Decision) {
			d.Selected, d.Route, d.Status, d.Reason = "a", decision.RoutePrimary, decision.Cancelled, decision.ReasonOf(class)
		})
	}
	for _, class := range []decision.Class{decision.InvalidRequest, decision.ContentFilter, decision.ContextLength} {
		decide(func(d *decision.Decision) { d.Status, d.Reason = decision.Rejected, decision.ReasonOf(class) })
		m.Decision(&decision.Decision{Status: decision.Rejected, Route: decision.RouteNone, Reason: decision.ReasonOf(class)})
	}
	decide(func(d *decision.Decision) {
		d.Selected, d.Route, d.Status, d.Reason = "a", decision.RoutePrimary, decision.Completed, decision.Overflow
	})
	decide(func(d *decision.Decision) { d.Status, d.Reason = decision.RefusedByUs, decision.Draining })
	decide(func(d *decision.Decision) { d.Status, d.Reason = decision.RefusedByUs, decision.Capacity })
	m.Decision(&decision.Decision{Status: decision.RefusedByUs, Route: decision.RouteNone, Reason: decision.Draining})
	m.Decision(&decision.Decision{Status: decision.RefusedByUs, Route: decision.RouteNone, Reason: decision.Capacity})
	m.Decision(&decision.Decision{Task: "x", Model: "sonnet", Primary: "a", Violation: true, Status: decision.Rejected, Route: decision.RouteNone, Reason: decision.ReasonOf(decision.InvalidRequest)})
	for _, tr := range testTransitions {
		m.Event(decision.Event{Kind: decision.KindBreakerTransition, Provider: "a", Region: "us", Capability: decision.Tools, From: tr.From, To: tr.To, Reason: tr.Reason})
	}
	for _, tr := range testHealthTransitions {
		m.Event(decision.Event{Kind: decision.KindHealthTransition, Provider: "a", From: tr.From, To: tr.To, Reason: tr.Reason, Result: "ok"})
	}
	for _, share := range []string{"0", "5", "25", "75", "100"} {
		m.Event(decision.Event{Kind: decision.KindTrafficStep, Provider: "a", To: share, By: "ana"})
		m.Event(decision.Event{Kind: decision.KindTrafficStep, Provider: "a", To: share, By: "plan:ana"})
		m.Event(decision.Event{Kind: decision.KindTrafficStep, Provider: "a", To: share, By: "auto"})
	}

	for series := range scraped(t, reg) {
		if _, ok := before[series]; !ok {
			t.Errorf("%s was not there from the start", series)
		}
	}
}

func classReasons(want func(decision.Class) bool) []decision.Reason {
	var l []decision.Reason
	for _, c := range decision.Classes {
		if want(c) {
			l = append(l, decision.ReasonOf(c))
		}
	}
	return l
}

// mayMove is the column "other candidate" of the class table.
func mayMove(c decision.Class) bool {
	switch c {
	case decision.OK, decision.InvalidRequest, decision.ContentFilter, decision.CallerDeadline, decision.ClientGone,
		decision.LocalRefusal, decision.Internal, decision.Unknown:
		return false
	}
	return true
}

// mayBreak reports whether an answer can end with c after it was relayed.
func mayBreak(c decision.Class) bool {
	switch c {
	case decision.Reset, decision.AttemptTimeout, decision.IdleTimeout, decision.ServerError, decision.Overloaded,
		decision.RateLimited, decision.BadResponse, decision.Interrupted, decision.Internal, decision.Unknown:
		return true
	}
	return false
}

// What cannot happen has no series: no fallback where nobody stands in, none of
// a task that stays, none across dialects.
func TestUnreachableSeriesAreNotThere(t *testing.T) {
	_, reg := newMetrics(t)
	for series := range scraped(t, reg) {
		for _, never := range []string{
			`ai_fallback_triggered_total{model="embed"`, `primary="c"`, `task_type="refund",`,
			`provider="c",route="fallback"`, `provider="b",route="primary"`, `{answered_by="b",provider="c"}`,
			`capability="tools",class="ok",provider="b"`, `capability="embeddings",class="ok",provider="a"`,
		} {
			if strings.Contains(series, never) {
				t.Errorf("%s", series)
			}
		}
		if strings.HasPrefix(series, "ai_fallback_triggered_total") && strings.Contains(series, `task_type="refund"`) {
			t.Errorf("%s", series)
		}
	}
}

// A configuration in which nobody may leave its primary has the metric all the
// same: absent it would look like a gateway that is not measured.
func TestFallbackSeriesAreThereWhereNobodyStandsIn(t *testing.T) {
	alone := testTopology()
	alone.Models = alone.Models[1:]
	stays := testTopology()
	stays.Tasks, stays.DefaultTaskStays = stays.Tasks[:1], true
	for name, topology := range map[string]Topology{"one candidate": alone, "no task may": stays} {
		reg := prometheus.NewPedanticRegistry()
		NewMetrics(reg, nil).Reset(topology)
		found := 0
		for series, v := range scraped(t, reg) {
			if strings.HasPrefix(series, "ai_fallback_triggered_total{") {
				found++
				if v != 0 || !strings.Contains(series, `reason="not_allowed"`) || !strings.Contains(series, `task_type="other"`) {
					t.Errorf("%s: %s %v", name, series, v)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: there is no series of fallbacks", name)
		}
	}
}

// TEL-01, second half: what the configuration loses leaves; what stays goes on.
func TestResetRemovesWhatIsLost(t *testing.T) {
	m, reg := newMetrics(t)
	m.Decision(fellOver())
	m.Decision(answered())
	m.Event(decision.Event{Kind: decision.KindTrafficStep, Provider: "b", To: "5", By: "ana"})
	queued := answered() // a status that nobody foresaw
	queued.Selected, queued.Route, queued.Status = "", decision.RouteNone, decision.Human
	m.Decision(queued)

	without := testTopology()
	without.Upstreams = without.Upstreams[:1]
	without.Upstreams[0].Region = "us-east-1"
	without.Models = []TopologyModel{{Name: "sonnet", Candidates: []TopologyCandidate{{Upstream: "a", Primary: true}}}}
	without.Tasks = without.Tasks[:1]
	m.Reset(without)
	got := scraped(t, reg)
	for series := range got {
		for _, lost := range []string{`"b"`, `"c"`, `"embed"`, `"summary"`, `"us"`, `"eu"`} {
			if strings.Contains(series, lost) {
				t.Errorf("left over: %s", series)
			}
		}
	}
	for series, want := range map[string]float64{
		`ai_model_requests_total{model="sonnet",outcome="completed",provider="a",route="primary"}`: 1,
		`ai_model_requests_total{model="sonnet",outcome="human",provider="none",route="none"}`:     1,
		`ai_model_attempts_total{capability="text",class="ok",provider="a",region="us-east-1"}`:    0,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", series, v, ok, want)
		}
	}

	// A request that ends after the reload names what is gone.
	before := scraped(t, reg)
	m.Decision(fellOver())
	for series := range changed(before, scraped(t, reg)) {
		if strings.Contains(series, `"b"`) || strings.Contains(series, `"summary"`) {
			t.Errorf("came back: %s", series)
		}
	}
	if got := sum(scraped(t, reg), "ai_model_attempts_total"); got != 2 {
		t.Errorf("%v attempts, want both", got)
	}

	// And back again, from 0.
	m.Reset(testTopology())
	got = scraped(t, reg)
	if v, ok := got[`ai_model_requests_total{model="sonnet",outcome="degraded_completed",provider="b",route="fallback"}`]; !ok || v != 0 {
		t.Errorf("after coming back: %v (there: %v)", v, ok)
	}
	if v := got[`ai_model_requests_total{model="sonnet",outcome="completed",provider="a",route="primary"}`]; v != 1 {
		t.Errorf("what stayed all along is at %v", v)
	}
}

// A series that nobody foresaw leaves like any other.
func TestResetRemovesWhatNobodyForesaw(t *testing.T) {
	m, reg := newMetrics(t)
	before := scraped(t, reg)
	human := func(model, provider string) {
		m.Decision(&decision.Decision{Model: model, Selected: provider, Primary: provider, Task: "summary", Route: decision.RoutePrimary, Status: decision.Human, Reason: decision.Store})
	}
	human("sonnet", "a")
	human("sonnet", "c")
	human("embed", "c")
	m.Decision(&decision.Decision{Model: "sonnet", Status: decision.Rejected, Attempts: []decision.Attempt{
		{Provider: "a", Capability: decision.Embeddings, Outcome: decision.Outcome{Class: decision.OK}},
	}})
	m.Reset(testTopology())
	for _, series := range []string{
		`ai_model_requests_total{model="sonnet",outcome="human",provider="c",route="primary"}`,
		`ai_model_requests_total{model="embed",outcome="human",provider="c",route="primary"}`,
		`ai_model_attempts_total{capability="embeddings",class="ok",provider="a",region="us"}`,
	} {
		if v := scraped(t, reg)[series]; v != 1 {
			t.Errorf("%s is %v after a reload that changed nothing", series, v)
		}
	}

	changed := testTopology()
	changed.Upstreams[0].Region = "us-east-1"
	changed.Models[0].Candidates = changed.Models[0].Candidates[:2] // c is still there, and not of sonnet
	m.Reset(changed)
	var left []string
	for series := range scraped(t, reg) {
		_, foreseen := before[series]
		if !foreseen && strings.Contains(series, `"human"`) || strings.Contains(series, `capability="embeddings"`) && strings.Contains(series, `provider="a"`) {
			left = append(left, series)
		}
	}
	slices.Sort(left)
	want := []string{
		`ai_model_requests_total{model="embed",outcome="human",provider="c",route="primary"}`,
		`ai_model_requests_total{model="sonnet",outcome="human",provider="a",route="primary"}`,
		`ai_workflow_duration_seconds_count{outcome="human",route="primary"}`,
		`ai_workflow_duration_seconds_sum{outcome="human",route="primary"}`,
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Error(diff)
	}
}

// TEL-01: one state is 1, the series are the same before and after.
func TestBreakerStateIsOneOfFour(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	g := Gauges{
		Breakers:    []BreakerGauge{{Provider: "a", Region: "us", Capability: decision.Text, State: "closed", Blocked: 3, Enforced: 30}},
		Health:      []HealthGauge{{Provider: "a", Region: "us", State: "degraded"}},
		Shares:      []ShareGauge{{Provider: "a", Region: "us", Share: 25}},
		Weights:     []WeightGauge{{Model: "sonnet", Provider: "a", Capability: decision.Text, Weight: 62.5}, {Model: "sonnet", Provider: "a", Capability: decision.Text, Weight: 1}},
		Jobs:        []JobGauge{{Job: "probe", LastSuccess: time.UnixMilli(1_790_000_000_250)}, {Job: "watch", Late: true}},
		Refusals:    []RefusalGauge{{Provider: "a", Region: "us", Class: decision.Credential, Refused: true}, {Provider: "a", Region: "us", Class: decision.ModelGone}},
		RetryBudget: 7.5, RetryRefused: 6, LogDropped: 4,
		Spans: &SpanGauge{Exported: 9, Dropped: 2},
	}
	NewMetrics(reg, func() Gauges { return g })
	gauges := func() map[string]float64 {
		got := map[string]float64{}
		for k, v := range scraped(t, reg) {
			for _, d := range gaugeDefinitions {
				if strings.HasPrefix(k, d.name+"{") {
					got[k] = v
				}
			}
		}
		return got
	}
	want := map[string]float64{
		`failback_breaker_state{capability="text",provider="a",region="us",state="closed"}`:    1,
		`failback_breaker_state{capability="text",provider="a",region="us",state="open"}`:      0,
		`failback_breaker_state{capability="text",provider="a",region="us",state="half_open"}`: 0,
		`failback_breaker_state{capability="text",provider="a",region="us",state="ramping"}`:   0,
		`failback_breaker_blocked_total{capability="text",provider="a",region="us"}`:           3,
		`failback_breaker_enforced_ratio{capability="text",provider="a",region="us"}`:          0.3,
		`failback_upstream_refuses{class="credential",provider="a",region="us"}`:               1,
		`failback_upstream_refuses{class="model_gone",provider="a",region="us"}`:               0,
		`failback_job_late{job="probe"}`:                                                       0,
		`failback_job_late{job="watch"}`:                                                       1,
		`failback_retry_budget_refused_total{}`:                                                6,
		`failback_upstream_share_ratio{provider="a",region="us"}`:                              0.25,
		`failback_upstream_weight{capability="text",model="sonnet",provider="a"}`:              62.5,
		`failback_job_last_success_timestamp_seconds{job="probe"}`:                             1_790_000_000.25,
		`failback_job_last_success_timestamp_seconds{job="watch"}`:                             0,
		`failback_upstream_state{provider="a",region="us",state="healthy"}`:                    0,
		`failback_upstream_state{provider="a",region="us",state="suspect"}`:                    0,
		`failback_upstream_state{provider="a",region="us",state="degraded"}`:                   1,
		`failback_upstream_state{provider="a",region="us",state="recovering"}`:                 0,
		`failback_retry_budget_available{}`:                                                    7.5,
		`failback_log_lines_dropped_total{}`:                                                   4,
		`failback_trace_spans_total{result="exported"}`:                                        9,
		`failback_trace_spans_total{result="dropped"}`:                                         2,
	}
	if diff := cmp.Diff(want, gauges()); diff != "" {
		t.Error(diff)
	}
	for _, state := range []string{"open", "half_open", "ramping", "closed"} {
		g.Breakers[0].State = state
		got := gauges()
		if len(got) != len(want) || sum(got, "failback_breaker_state") != 1 || sum(got, "failback_breaker_state", `"`+state+`"`) != 1 {
			t.Errorf("at %s: %v", state, got)
		}
	}
	g = Gauges{}
	if got := gauges(); len(got) != 3 {
		t.Errorf("what the configuration lost is still there: %v", got)
	}
}

func TestEvents(t *testing.T) {
	m, reg := newMetrics(t)
	before := scraped(t, reg)
	m.Event(decision.Event{Kind: decision.KindBreakerTransition, Provider: "a", Region: "us", Capability: decision.Text, From: "closed", To: "open", Reason: "failure_rate"})
	m.Event(decision.Event{Kind: decision.KindTrafficStep, Provider: "a", From: "100", To: "25", By: "ana", Action: "share"})
	m.Event(decision.Event{Kind: decision.KindTrafficStep, Provider: "a", From: "25", To: "5", By: "auto", Action: "share"})
	m.Event(decision.Event{Kind: decision.KindTrafficStep, Provider: "a", From: "5", By: "auto", Action: "removed"})
	m.Event(decision.Event{Kind: decision.KindTrafficStep, Provider: "a", From: "5", To: "25", By: "plan:ana", Action: "share"})
	m.Event(decision.Event{Kind: decision.KindHealthTransition, Provider: "a", From: "healthy", To: "suspect", Reason: "error_rate", Result: "ok"})
	m.Event(decision.Event{Kind: decision.KindHealthTransition, Provider: "a", From: "healthy", To: "healthy", Reason: "two_groups", Result: "shadow"})
	m.Event(decision.Event{Kind: decision.KindHealthTransition, Provider: "a", From: "x", To: "degraded", Reason: "y", Result: "ok"})
	m.Event(decision.Event{Kind: decision.KindOperatorCommand, Provider: "a", To: "25", By: "ana", Action: "share"})
	want := map[string]float64{
		`failback_breaker_transitions_total{capability="text",from="closed",provider="a",reason="failure_rate",region="us",to="open"}`: 1,
		`failback_traffic_steps_total{by="operator",provider="a",to="25"}`:                                                             1,
		`failback_traffic_steps_total{by="auto",provider="a",to="5"}`:                                                                  1,
		`failback_traffic_steps_total{by="plan",provider="a",to="25"}`:                                                                 1,
		`failback_health_transitions_total{from="healthy",provider="a",reason="error_rate",to="suspect"}`:                              1,
		`failback_health_transitions_total{from="other",provider="a",reason="other",to="degraded"}`:                                    1,
	}
	if diff := cmp.Diff(want, changed(before, scraped(t, reg))); diff != "" {
		t.Error(diff)
	}
}

func TestNamesFollowTheConventions(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg, func() Gauges { return Gauges{} })
	m.Reset(testTopology())
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestMetricsConcurrently(t *testing.T) {
	m, reg := newMetrics(t)
	small := testTopology()
	small.Upstreams, small.Models = small.Upstreams[:1], nil
	var wg sync.WaitGroup
	const each = 500
	for range 4 {
		wg.Go(func() {
			for range each {
				m.Decision(fellOver())
				m.Event(decision.Event{Kind: decision.KindTrafficStep, Provider: "b", To: "5", By: "ana"})
			}
		})
	}
	for i := range 20 {
		if i%2 == 0 {
			m.Reset(small)
		} else {
			m.Reset(testTopology())
		}
		scraped(t, reg)
	}
	wg.Wait()
	// Whatever the names were at the time, no request is lost or counted twice.
	if got := sum(scraped(t, reg), "ai_workflow_duration_seconds_count"); got != 4*each {
		t.Errorf("%v requests, want %d", got, 4*each)
	}
}

func BenchmarkMetricsDecision(b *testing.B) {
	m, _ := newMetrics(b)
	for name, d := range map[string]*decision.Decision{"primary": answered(), "fallback": fellOver()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			report := cpu(b)
			for b.Loop() {
				m.Decision(d)
			}
			report()
		})
	}
}

// PQL-12: a histogram reaches the longest time that is configured, so that no
// quantile sticks at a bound under it; and none begins anew for a limit that it
// reaches.
func TestPQL12BucketsReachTheLongestLimit(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg, nil)
	last := func(name string) float64 {
		t.Helper()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == name {
				b := f.Metric[0].Histogram.Bucket
				return b[len(b)-1].GetUpperBound()
			}
		}
		t.Fatalf("no family %s", name)
		return 0
	}
	topology := testTopology()
	for _, tt := range []struct {
		output, request   time.Duration
		wantOut, wantRequ float64
	}{
		{10 * time.Minute, 16 * time.Minute, 600, 1200},
		{45 * time.Minute, 2 * time.Hour, 2700, 7200},
		{10 * time.Minute, 16 * time.Minute, 2700, 7200},
	} {
		topology.LongestFirstOutput, topology.LongestRequest = tt.output, tt.request
		m.Reset(topology)
		m.Decision(fellOver())
		if got := last("ai_model_first_output_seconds"); got != tt.wantOut {
			t.Errorf("%s: the first output's last bound is %g, want %g", tt.output, got, tt.wantOut)
		}
		if got := last("ai_workflow_duration_seconds"); got != tt.wantRequ {
			t.Errorf("%s: the duration's last bound is %g, want %g", tt.request, got, tt.wantRequ)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := uint64(0)
	for _, f := range families {
		if f.GetName() == "ai_model_first_output_seconds" {
			for _, s := range f.Metric {
				seen += s.Histogram.GetSampleCount()
			}
		}
	}
	if seen != 2 { // since the bounds were last widened
		t.Errorf("%d observations, want 2", seen)
	}
}
