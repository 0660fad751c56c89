package rules

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"failback/sources"
)

// The metrics that are asked for; see docs/metrics.md.
const (
	requestsTotal   = "ai_model_requests_total"
	fallbacksTotal  = "ai_fallback_triggered_total"
	attemptsTotal   = "ai_model_attempts_total"
	firstOutput     = "ai_model_first_output_seconds"
	workflow        = "ai_workflow_duration_seconds"
	breakerState    = "failback_breaker_state"
	upstreamState   = "failback_upstream_state"
	shareRatio      = "failback_upstream_share_ratio"
	verdictsTotal   = "failback_slo_requests_total"
	inTimeTotal     = "failback_slo_first_output_total"
	objectiveRatio  = "failback_slo_objective_ratio"
	budgetSpent     = "failback_slo_budget_spent_ratio"
	budgetBad       = "failback_slo_budget_bad_requests"
	ownTotal        = "failback_upstream_own_requests_total"
	weight          = "failback_upstream_weight"
	breakerBlocked  = "failback_breaker_blocked_total"
	trafficSteps    = "failback_traffic_steps_total"
	violationsTotal = "failback_policy_violations_total"
	retryBudget     = "failback_retry_budget_available"
	clientRetries   = "failback_client_retries_total"
	jobSuccess      = "failback_job_last_success_timestamp_seconds"
	spansTotal      = "failback_trace_spans_total"
	linesDropped    = "failback_log_lines_dropped_total"

	// targetUp is Prometheus's own.
	targetUp = "up"
)

// query writes PromQL with the configured label matchers and window.
type query struct {
	selector string
	window   time.Duration
}

// newQuery refuses a selector that is no label matchers, and a scrape interval
// that is none.
func newQuery(selector string, every time.Duration) (query, error) {
	if every <= 0 {
		return query{}, errors.New("how often the gateway is scraped is not known: set sources.every")
	}
	s := sources.Matchers(selector)
	if s != "" {
		if _, err := parser.NewParser(parser.Options{}).ParseMetricSelector("{" + s + "}"); err != nil {
			return query{}, fmt.Errorf("sources.prometheus.selector: %q is no label matchers: %w", selector, err)
		}
	}
	return query{s, sources.Window(every)}, nil
}

// series selects the series of a metric, with more matchers.
func (q query) series(metric string, more ...string) string {
	return sources.Series(q.selector, metric, more...)
}

// rate sums the rate of a metric over the window, by labels unless those are
// empty.
func (q query) rate(by, metric string, more ...string) string {
	return q.over("rate", q.window, by, metric, more...)
}

// increase sums the increase of a metric over the window.
func (q query) increase(by, metric string, more ...string) string {
	return q.over("increase", q.window, by, metric, more...)
}

func (q query) over(f string, window time.Duration, by, metric string, more ...string) string {
	return summed(by) + "(" + f + "(" + q.series(metric, more...) + "[" + span(window) + "]))"
}

func summed(by string) string {
	if by == "" {
		return "sum"
	}
	return "sum by (" + by + ") "
}

// ratio is the whole fallback ratio, in parentheses.
func (q query) ratio() string { return sources.RatioQuery(q.selector, q.window) }

// part is what part of the requests a rate is; empty without requests.
func (q query) part(of string) string {
	return of + " / (" + q.rate("", requestsTotal) + " > 0)"
}

// quantile is a quantile of a histogram, by labels unless those are empty.
func (q query) quantile(p float64, by, metric string) string {
	labels := "le"
	if by != "" {
		labels += ", " + by
	}
	return "histogram_quantile(" + number(p) + ", " + q.rate(labels, metric+"_bucket") + ")"
}

// span is a duration as PromQL writes it.
func span(d time.Duration) string { return model.Duration(d).String() }

// number is f as PromQL and YAML write it.
func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
