package rules

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"failback/gateway/operator/api"
	"failback/sources/promql"
)

// Severities of a rule.
const (
	Critical = "critical" // somebody is needed now
	Warning  = "warning"  // somebody is needed today
)

// Options are what rules and dashboard are made for. Its zero value is a
// gateway whose series are selected by nothing and scraped by nobody: Every must
// be set.
type Options struct {
	// Selector is the label matchers of this gateway's series, empty for all.
	Selector string
	// Every is how often the gateway is scraped.
	Every time.Duration
	// Thresholds are those that are known.
	Thresholds Thresholds
	// FirstOutputHighest is the highest finite bucket of the first output's
	// histogram, 0: not known. A quantile never is above it.
	FirstOutputHighest time.Duration
	// Objectives are those of the models.
	Objectives []Objective
	// RunbookURL is what a runbook's id is put behind to link to it, or in place
	// of {id} where it has that. Empty: rules name the id alone.
	RunbookURL string
}

// FirstOutputMetric is the histogram that Thresholds.FirstOutput is held against.
const FirstOutputMetric = promql.FirstOutput

// Kinds of an Objective, as the label objective has them.
const (
	Availability = "availability"
	FirstOutput  = "first_output"
)

// Objective says over which time an error budget of a model is spent. What the
// objective is, the rules read from its metric.
type Objective struct {
	Model, Kind string
	Window      time.Duration
}

// Thresholds are limits that somebody gave or that were measured. A nil one is
// not known.
type Thresholds struct {
	// FallbackRatio, Interrupted and ClientRetries are parts of the requests,
	// from 0 to 1.
	FallbackRatio, Interrupted, ClientRetries *float64
	// FirstOutput is a time in seconds that the p95 is held against.
	FirstOutput *float64
}

// Rule is one alert rule.
type Rule struct {
	Name, Expr string
	// For is how long Expr must hold before it is an alert.
	For      time.Duration
	Severity string
	// Summary and Description are templates of Prometheus.
	Summary, Description string
	// Runbook is the id of a runbook.
	Runbook string
}

// Missing is a rule that is left out.
type Missing struct {
	Name string
	// Add says what it would take.
	Add string
}

// Set is all rules, in the order in which they are written.
type Set struct {
	Rules   []Rule
	Missing []Missing
	// Labels are what every alert has besides its own.
	Labels []promql.Label
}

// The times that rules wait. See docs/alerts.md for the reason of each.
const (
	burnFor    = 2 * time.Minute
	quickFor   = time.Minute
	ratioFor   = 5 * time.Minute
	idleFor    = 15 * time.Minute
	absentFor  = 2 * time.Minute
	breakerFor = 5 * time.Minute
	lastingFor = 15 * time.Minute

	// breakerLook is how often a breaker is looked at to add up how long it is not
	// closed.
	breakerLook = 15 * time.Second
)

var burns = []struct {
	name, summary, severity string
	api.Burn
	wait time.Duration
}{
	{"Fast", "a fiftieth of it in an hour", Critical, api.FastBurn, burnFor},
	{"Slow", "a twentieth of it in six hours", Warning, api.SlowBurn, lastingFor},
}

// New makes all rules. The error says that the selector is none, that Every is
// not set, or that a threshold can never be exceeded.
func New(o Options) (*Set, error) {
	q, err := newQuery(o.Selector, o.Every)
	if err != nil {
		return nil, err
	}
	if err := o.ReachesFirstOutput(); err != nil {
		return nil, err
	}
	s := &Set{Labels: q.Fixed()}
	s.ratio(q, o)
	s.users(q, o)
	s.traffic(q)
	s.upstreams(q)
	s.itself(q)
	return s, nil
}

// ReachesFirstOutput is the error of a threshold of the first output that no
// quantile of the histogram can exceed.
func (o Options) ReachesFirstOutput() error {
	t, highest := o.Thresholds.FirstOutput, o.FirstOutputHighest
	if t == nil || highest <= 0 || *t < highest.Seconds() {
		return nil
	}
	return fmt.Errorf("a first output of %ss as threshold: the highest bucket of %s is %s, and no p95 is above that: give less than %s",
		number(*t), promql.FirstOutput, promql.Span(highest), promql.Span(highest))
}

func (s *Set) add(r Rule) { s.Rules = append(s.Rules, r) }

// limited adds a rule if its limit is known.
func (s *Set) limited(limit *float64, flag string, r Rule) {
	if limit == nil {
		s.Missing = append(s.Missing, Missing{r.Name, flag + ", or --measured 30d"})
		return
	}
	r.Expr = "(" + r.Expr + ") > " + number(*limit)
	s.add(r)
}

func (s *Set) ratio(q query, o Options) {
	s.limited(o.Thresholds.FallbackRatio, "--threshold R, limit.fallback_ratio", Rule{
		Name: "FailbackFallbackRatioHigh", Expr: q.Ratio(), For: ratioFor, Severity: Critical, Runbook: "fallback-ratio-high",
		Summary:     "{{ $value | humanizePercentage }} of the requests leave their primary",
		Description: "More requests than the limit are answered by another candidate, or by nobody, for " + promql.Span(ratioFor) + ". The fallback works; the primary does not, or the way to it.",
	})
}

func (s *Set) users(q query, o Options) {
	s.add(Rule{
		Name: "FailbackFellBackNotAllowed", For: 0, Severity: Critical, Runbook: "fell-back-not-allowed",
		Expr:        q.Violations(),
		Summary:     "Task {{ $labels.task_type }} fell back although it may not",
		Description: "A candidate answered that policy does not allow for this task, within the last " + promql.Span(promql.ViolationsFor) + ". This must never happen. failback query not-allowed lists the requests.",
	})
	s.burns(q, o.Objectives, Availability, promql.VerdictsTotal, "Availability", "fail", "provider-5xx")
	s.burns(q, o.Objectives, FirstOutput, promql.InTimeTotal, "FirstOutput", "have no first output in time", "users-time-out")
	s.limited(o.Thresholds.Interrupted, "--interrupted R", Rule{
		Name: "FailbackStreamsInterrupted", Expr: q.part(q.Rate("", promql.RequestsTotal, `outcome="incomplete"`)), For: ratioFor, Severity: Warning, Runbook: "stream-interruptions",
		Summary:     "{{ $value | humanizePercentage }} of the answers break off",
		Description: "Streams end after the client had part of them. No other candidate can continue a stream, so this reaches people.",
	})
	s.limited(o.Thresholds.FirstOutput, "--first-output TIME", Rule{
		Name: "FailbackFirstOutputSlow", Expr: q.quantile(0.95, "model", promql.FirstOutput), For: ratioFor, Severity: Warning, Runbook: "users-time-out",
		Summary:     "First outputs of {{ $labels.model }} take {{ $value | humanizeDuration }} (p95)",
		Description: "People wait longer for the first output than the limit, failed attempts on the way included.",
	})
	s.limited(o.Thresholds.ClientRetries, "--client-retries R", Rule{
		Name: "FailbackClientsRetry", Expr: q.part(q.Rate("", promql.ClientRetries)), For: ratioFor, Severity: Warning, Runbook: "users-time-out",
		Summary:     "{{ $value | humanizePercentage }} of the requests are retries of clients",
		Description: "Clients retry by themselves, which multiplies the gateway's attempts. There should be one owner of retries: turn them off in the client's SDK.",
	})
}

// burns adds the rules of the error budgets of one kind. How fast is too fast
// follows from the window, which models may have different.
func (s *Set) burns(q query, all []Objective, kind, metric, name, bad, runbook string) {
	groups := windowsOf(all, kind)
	for _, b := range burns {
		r := Rule{
			Name: "Failback" + name + "Burns" + b.name, For: b.wait, Severity: b.severity, Runbook: runbook,
			Summary:     "{{ $value | humanizePercentage }} of the requests for {{ $labels.model }} " + bad,
			Description: "The error budget of " + kind + " is spent too fast: " + b.summary + ". failback status says who and what it is spent on.",
		}
		if len(groups) == 0 {
			s.Missing = append(s.Missing, Missing{r.Name, "a model with slo." + kind})
			continue
		}
		var exprs []string
		for _, g := range groups {
			var more []string
			if len(groups) > 1 {
				more = []string{"model=~" + promql.Quote(alternatives(g.models))}
			}
			times := b.Times(g.window)
			exprs = append(exprs, q.burn(metric, kind, times, b.Long, more)+" and on (model) "+q.burn(metric, kind, times, b.Short, more))
		}
		r.Expr = strings.Join(exprs, " or ")
		s.add(r)
	}
}

// burn is the part of bad requests over a time where it is more than so many
// times what the objective allows, or more than any budget bears.
func (q query) burn(metric, kind string, times float64, over time.Duration, more []string) string {
	over = max(over, q.Window())
	of := func(verdict string) string {
		return q.Over("rate", over, "model", metric, append(slices.Clone(more), verdict)...)
	}
	return "(" + of(`verdict="bad"`) + " / (" + of(`verdict=~"good|bad"`) + " > 0) > on (model) clamp_max(" + number(times) +
		" * (1 - max by (model) (" + q.Series(promql.ObjectiveRatio, append(slices.Clone(more), "objective="+promql.Quote(kind))...) + ")), " + number(api.BurnMostBad) + "))"
}

func (s *Set) traffic(q query) {
	s.add(Rule{
		Name: "FailbackNoTraffic", Expr: q.Rate("", promql.RequestsTotal) + " == 0", For: idleFor, Severity: Warning, Runbook: "gateway-or-store",
		Summary:     "The gateway is there, and no request reaches it",
		Description: "The series are scraped and stand still for " + promql.Span(idleFor) + ". Where there is no traffic by night this is no fault; else look between clients and gateway.",
	})
	s.add(Rule{
		Name: "FailbackSeriesAbsent", For: absentFor, Severity: Critical, Runbook: "gateway-or-store",
		Expr:        "absent(" + q.Series(promql.RequestsTotal) + ") or absent(" + q.Series(promql.FallbacksTotal) + ")",
		Summary:     "No gateway is measured",
		Description: "Every series is there from a gateway's start. Without them no gateway runs, Prometheus does not reach it, or the selector selects nothing; all other rules are blind.",
	})
	if !q.Selects() {
		s.Missing = append(s.Missing, Missing{"FailbackGatewayDown", "sources.prometheus.selector: without one it would watch every target of that Prometheus"})
		return
	}
	s.add(Rule{
		Name: "FailbackGatewayDown", Expr: q.Series(promql.TargetUp) + " == 0", For: absentFor, Severity: Critical, Runbook: "gateway-or-store",
		Summary:     "The gateway {{ $labels.instance }} cannot be scraped",
		Description: "It does not run, or Prometheus does not reach its operator listener. Others may still serve.",
	})
}

func (s *Set) upstreams(q query) {
	closed := q.Series(promql.BreakerState, `state="closed"`)
	s.add(Rule{
		Name: "FailbackBreakerOpen", For: 0, Severity: Warning, Runbook: "provider-5xx",
		// Looks at even distances add up to a time; an average of a gateway that has
		// just started does not.
		Expr: "max by (provider, region, capability) (sum_over_time((1 - " + closed + ")[" + promql.Span(max(2*breakerFor, q.Window())) + ":" + promql.Span(breakerLook) + "])" +
			" unless ignoring (state) " + q.Series(promql.BreakerEnforced) + " == 0) > " + number(float64(breakerFor/breakerLook)),
		Summary:     "The breaker of {{ $labels.provider }} keeps {{ $labels.capability }} requests away",
		Description: "It was not closed for more than " + promql.Span(breakerFor) + " of the last " + promql.Span(max(2*breakerFor, q.Window())) + ", on one gateway at least: it stays open, or opens again whenever it lets requests through. That long one group of signals may be red before health takes the upstream's traffic away.",
	})
	s.add(Rule{
		Name: "FailbackUpstreamWaits", For: quickFor, Severity: Warning, Runbook: "manual-failback",
		Expr:        "max by (provider, region) (" + q.Series(promql.UpstreamState, `state="degraded"`) + ") == 1",
		Summary:     "{{ $labels.provider }} is degraded and waits for an operator",
		Description: "Its share of its own traffic is 0. Once its probes pass, failback state and failback step give it back, unless failback.advance is auto.",
	})
	s.add(Rule{
		Name: "FailbackCredentialRefused", For: quickFor, Severity: Critical, Runbook: "our-credential",
		Expr:        q.Refuses(`class="credential"`) + " == 1",
		Summary:     "{{ $labels.provider }} refuses our credential",
		Description: "A key is wrong, expired or revoked: a request or a probe found out, and nothing worked with it since. No retry helps, and other keys of the same account may follow.",
	})
	s.add(Rule{
		Name: "FailbackQuotaExhausted", For: quickFor, Severity: Warning, Runbook: "rate-limited",
		Expr:        q.Refuses(`class="quota_exhausted"`) + " == 1",
		Summary:     "{{ $labels.provider }} says that our quota or credit is used up",
		Description: "A request or a probe found out, and nothing worked with that account since. Others take its requests unless errors.quota_exhausted is fail; it needs money or a higher cap.",
	})
	s.add(Rule{
		Name: "FailbackModelGone", For: quickFor, Severity: Critical, Runbook: "retired-model",
		Expr:        q.Refuses(`class="model_gone"`) + " == 1",
		Summary:     "{{ $labels.provider }} does not know a configured model any more",
		Description: "A candidate's model is retired or renamed. The candidate is passed by until the configuration names another.",
	})
	s.add(Rule{
		Name: "FailbackSharedFault", For: quickFor, Severity: Critical, Runbook: "shared-fault",
		Expr:        q.Grown(q.Window(), "model", promql.VerdictsTotal, `verdict="bad"`, `reason="shared_fault"`),
		Summary:     "Several upstreams fail for a reason they share; {{ $labels.model }} is not answered",
		Description: "The way out of this gateway, or a declared dependency, is broken. Switching is pointless.",
	})
}

func (s *Set) itself(q query) {
	s.add(Rule{
		Name: "FailbackRetryBudgetEmpty", Expr: q.Grown(q.Window(), "instance", promql.RetryRefused), For: max(ratioFor, q.Window()), Severity: Warning, Runbook: "provider-5xx",
		Summary:     "{{ $labels.instance }} has no attempts left after a first one",
		Description: "The retry budget is spent faster than requests fill it: most first attempts fail, and their requests end with them.",
	})
	// The metric's label job is exported_job after a scrape, whose own label it is.
	s.add(Rule{
		Name: "FailbackJobSilent", Expr: q.Series(promql.JobLate) + " == 1", For: 0, Severity: Warning, Runbook: "gateway-or-store",
		Summary:     "The job {{ $labels.exported_job }} of {{ $labels.instance }} has not succeeded in time",
		Description: "A recurring job of the gateway stands still: what it keeps up to date (health, probes, numbers, state) is old. failback status names its error.",
	})
	s.add(Rule{
		Name: "FailbackLogLinesDropped", Expr: q.Grown(q.Window(), "instance", promql.LinesDropped), For: quickFor, Severity: Warning, Runbook: "gateway-or-store",
		Summary:     "{{ $labels.instance }} loses lines of the decision log",
		Description: "The sink does not take them in time. What the log says of this time is less than what happened; the metrics count everything.",
	})
	s.add(Rule{
		Name: "FailbackTraceSpansDropped", Expr: q.Grown(q.Window(), "instance", promql.SpansTotal, `result="dropped"`), For: quickFor, Severity: Warning, Runbook: "gateway-or-store",
		Summary:     "{{ $labels.instance }} loses spans of traces",
		Description: "The collector does not take them in time. Requests, log and metrics do not miss anything.",
	})
}

// alternatives is a regular expression for just these names.
func alternatives(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return strings.Join(quoted, "|")
}

// windowGroup is the models whose budgets of one kind have the same window.
type windowGroup struct {
	window time.Duration
	models []string
}

// windowsOf groups the objectives of a kind, the shortest window first.
func windowsOf(all []Objective, kind string) (groups []windowGroup) {
	for _, o := range all {
		if o.Kind != kind {
			continue
		}
		i := slices.IndexFunc(groups, func(g windowGroup) bool { return g.window == o.Window })
		if i < 0 {
			i = len(groups)
			groups = append(groups, windowGroup{window: o.Window})
		}
		groups[i].models = append(groups[i].models, o.Model)
	}
	for _, g := range groups {
		slices.Sort(g.models)
	}
	slices.SortFunc(groups, func(a, b windowGroup) int { return cmp.Compare(a.window, b.window) })
	return groups
}
