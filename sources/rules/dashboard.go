package rules

import (
	"bytes"
	"encoding/json"

	"failback/sources/promql"
)

// Units of Grafana.
const (
	unitRate    = "reqps"
	unitPart    = "percentunit"
	unitSeconds = "s"
	unitCount   = "short"
)

// chart is one panel before it has a place.
type chart struct {
	title, about, unit string
	queries            []shown
	limit              *float64 // a line at a threshold; nil: none
	states             bool     // states over time instead of lines
	most               float64  // upper end of the axis, 0: as it comes
}

// shown is one query with the text of its legend.
type shown struct{ expr, legend string }

// section is a row of panels.
type section struct {
	title  string
	charts []chart
}

// sections are what the dashboard shows, with the queries of the rules and the
// console. Nothing is shown of objectives that there are not.
func sections(q query, o Options) []section {
	all := []section{users(q, o.Thresholds), fallback(q, o.Thresholds), upstreams(q)}
	if budget := budget(q, o.Objectives); len(budget.charts) > 0 {
		all = append(all, budget)
	}
	return append(all, itself(q))
}

func users(q query, t Thresholds) section {
	judged := q.Rate("model", promql.VerdictsTotal, `verdict=~"good|bad"`)
	return section{"Users", []chart{
		{title: "Requests", about: "Client requests a second, each once at its end, by what they came to.", unit: unitRate,
			queries: []shown{{q.Rate("outcome", promql.RequestsTotal), "{{outcome}}"}}},
		{title: "Failed", about: "Part of the judged requests that people got no answer to; excluded ones (the caller's mistake, cancelled) do not count.", unit: unitPart,
			queries: []shown{{q.Rate("model", promql.VerdictsTotal, `verdict="bad"`) + " / (" + judged + " > 0)", "{{model}}"}}},
		{title: "First output, p95", about: "Time from a request's acceptance to the first output that its client got, failed attempts included.", unit: unitSeconds, limit: t.FirstOutput,
			queries: []shown{{q.quantile(0.95, "model", promql.FirstOutput), "{{model}}"}}},
		{title: "Duration, p95", about: "Time from a request's acceptance to its end, streams included.", unit: unitSeconds,
			queries: []shown{{q.quantile(0.95, "outcome", promql.Workflow), "{{outcome}}"}}},
		{title: "Interrupted answers", about: "Part of the requests whose answer broke off after the client had some of it.", unit: unitPart, limit: t.Interrupted,
			queries: []shown{{q.part(q.Rate("", promql.RequestsTotal, `outcome="incomplete"`)), "interrupted"}}},
		{title: "Clients' own retries", about: "Part of the requests of which the client says that it sends them again. They multiply attempts.", unit: unitPart, limit: t.ClientRetries,
			queries: []shown{{q.part(q.Rate("", promql.ClientRetries)), "retries"}}},
	}}
}

func fallback(q query, t Thresholds) section {
	return section{"Fallback", []chart{
		{title: "Fallback ratio", about: "Part of the requests that left their primary, as the console has it. It is 0 also without requests and without series: see Traffic and Series.", unit: unitPart, limit: t.FallbackRatio,
			queries: []shown{{q.Ratio(), "ratio"}}},
		{title: "Traffic", about: "Requests a second. A line at 0 is idle; no line is an absent gateway.", unit: unitRate,
			queries: []shown{{q.Rate("", promql.RequestsTotal), "requests"}}},
		{title: "Series", about: "How many series of requests and of fallbacks there are. Without any, every other panel is blind.", unit: unitCount,
			queries: []shown{{"count(" + q.Series(promql.RequestsTotal) + ")", "requests"}, {"count(" + q.Series(promql.FallbacksTotal) + ")", "fallbacks"}}},
		{title: "Fallbacks by reason", about: "Why the primary did not answer, or the last cause where nobody did.", unit: unitRate,
			queries: []shown{{q.Rate("reason", promql.FallbacksTotal), "{{reason}}"}}},
		{title: "Fallbacks by task", about: "Which kind of work left its primary.", unit: unitRate,
			queries: []shown{{q.Rate("task_type", promql.FallbacksTotal), "{{task_type}}"}}},
		{title: "Not allowed", about: "Requests within the last hour that a candidate answered although policy did not allow it, as the console has it. There must be none.", unit: unitCount,
			queries: []shown{{q.Violations(), "{{task_type}}"}}},
	}}
}

func upstreams(q query) section {
	return section{"Upstreams", []chart{
		{title: "Breakers that are not closed", about: "1 while a bucket's breaker is in that state on any gateway.", unit: unitCount, states: true,
			queries: []shown{{"max by (provider, region, capability, state) (" + q.Series(promql.BreakerState, `state!="closed"`) + ")", "{{provider}} {{capability}} {{state}}"}}},
		{title: "Health", about: "1 while an upstream is in that state on any gateway.", unit: unitCount, states: true,
			queries: []shown{{"max by (provider, region, state) (" + q.Series(promql.UpstreamState, `state!="healthy"`) + ")", "{{provider}} {{state}}"}}},
		{title: "Refused keys and models", about: "1 while a key, its account or a model was refused when it was last tried, by a request or a probe, on any gateway.", unit: unitCount, states: true,
			queries: []shown{{"max by (provider, class) (" + q.Series(promql.UpstreamRefuses) + ")", "{{provider}} {{class}}"}}},
		{title: "Shares", about: "Part of its own traffic that an upstream may get; the least of all gateways.", unit: unitPart, most: 1,
			queries: []shown{{"min by (provider, region) (" + q.Series(promql.ShareRatio) + ")", "{{provider}}"}}},
		{title: "Own traffic", about: "Requests of which the upstream is the primary, by who answered.", unit: unitRate,
			queries: []shown{{q.Rate("provider, answered_by", promql.OwnTotal), "{{provider}} by {{answered_by}}"}}},
		{title: "Attempts by class", about: "What the upstreams were sent, by how it ended; ok is a success.", unit: unitRate,
			queries: []shown{{q.Rate("class", promql.AttemptsTotal), "{{class}}"}}},
		{title: "Failures by upstream", about: "Part of an upstream's attempts that count against its breaker.", unit: unitPart,
			queries: []shown{{q.Rate("provider", promql.AttemptsTotal, `class=~"`+blamed+`"`) + " / (" + q.Rate("provider", promql.AttemptsTotal) + " > 0)", "{{provider}}"}}},
		{title: "Weights", about: "Effective weight of a candidate: the configured one times its recent success; the least of all gateways.", unit: unitCount,
			queries: []shown{{"min by (model, provider) (" + q.Series(promql.Weight) + ")", "{{model}} {{provider}}"}}},
		{title: "Turned away by breakers", about: "Requests a second that a bucket did not let through.", unit: unitRate,
			queries: []shown{{q.Rate("provider, capability", promql.BreakerBlocked), "{{provider}} {{capability}}"}}},
		{title: "Steps of traffic", about: "Changes of an upstream's share within the window; to is the new share in percent.", unit: unitCount,
			queries: []shown{{q.Increase("provider, to, by", promql.TrafficSteps), "{{provider}} to {{to}} by {{by}}"}}},
	}}
}

func budget(q query, all []Objective) section {
	s := section{title: "Error budget"}
	if len(all) > 0 {
		s.charts = []chart{
			{title: "Budget spent", about: "Part of the error budget that the objective's window has spent; above 1 it is exceeded.", unit: unitPart, limit: &whole,
				queries: []shown{{"max by (model, objective) (" + q.Series(promql.BudgetSpent) + ")", "{{model}} {{objective}}"}}},
			{title: "Spent on", about: "Bad requests in the objective's window, by who failed first, or none, and why.", unit: unitCount,
				queries: []shown{{"max by (model, objective, provider, reason) (" + q.Series(promql.BudgetBad) + ")", "{{model}} {{objective}} {{provider}} {{reason}}"}}},
		}
	}
	if len(windowsOf(all, FirstOutput)) > 0 {
		s.charts = append(s.charts, chart{title: "First outputs that are late", about: "Part of the streams without output within the limit of their model's objective.", unit: unitPart,
			queries: []shown{{q.Rate("model", promql.InTimeTotal, `verdict="bad"`) + " / (" + q.Rate("model", promql.InTimeTotal) + " > 0)", "{{model}}"}}})
	}
	return s
}

func itself(q query) section {
	return section{"The gateway itself", []chart{
		{title: "Retry budget", about: "Attempts after a first one that all requests together may still make.", unit: unitCount,
			queries: []shown{{"min by (instance) (" + q.Series(promql.RetryBudget) + ")", "{{instance}}"}}},
		{title: "Silence of jobs", about: "Time since a recurring job last succeeded.", unit: unitSeconds,
			queries: []shown{{"time() - (" + q.Series(promql.JobSuccess) + " > 0)", "{{instance}} {{exported_job}}"}}},
		{title: "Log lines dropped", about: "Lines of the decision log that were lost within the window.", unit: unitCount,
			queries: []shown{{q.Increase("instance", promql.LinesDropped), "{{instance}}"}}},
		{title: "Spans of traces", about: "What the collector took, and what it did not take in time. Without telemetry.otlp there is nothing.", unit: unitRate,
			queries: []shown{{q.Rate("result", promql.SpansTotal), "{{result}}"}}},
	}}
}

var whole = 1.0

// What follows is Grafana's model of a dashboard, as far as it is used.
type (
	board struct {
		UID           string    `json:"uid"`
		Title         string    `json:"title"`
		Description   string    `json:"description"`
		Tags          []string  `json:"tags"`
		SchemaVersion int       `json:"schemaVersion"`
		Version       int       `json:"version"`
		Editable      bool      `json:"editable"`
		Refresh       string    `json:"refresh"`
		Timezone      string    `json:"timezone"`
		Time          timeRange `json:"time"`
		Templating    list      `json:"templating"`
		Annotations   list      `json:"annotations"`
		Panels        []panel   `json:"panels"`
	}
	timeRange struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	list struct {
		List []variable `json:"list"`
	}
	variable struct {
		Name  string `json:"name"`
		Label string `json:"label"`
		Type  string `json:"type"`
		Query string `json:"query"`
	}
	panel struct {
		ID          int         `json:"id"`
		Type        string      `json:"type"`
		Title       string      `json:"title"`
		Description string      `json:"description,omitempty"`
		GridPos     place       `json:"gridPos"`
		Collapsed   *bool       `json:"collapsed,omitempty"`
		Panels      []panel     `json:"panels,omitempty"`
		Datasource  *datasource `json:"datasource,omitempty"`
		Targets     []target    `json:"targets,omitempty"`
		FieldConfig *fields     `json:"fieldConfig,omitempty"`
		Options     any         `json:"options,omitempty"`
	}
	place struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	datasource struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	target struct {
		RefID        string     `json:"refId"`
		Expr         string     `json:"expr"`
		LegendFormat string     `json:"legendFormat"`
		Range        bool       `json:"range"`
		Datasource   datasource `json:"datasource"`
	}
	fields struct {
		Defaults  defaults `json:"defaults"`
		Overrides []any    `json:"overrides"`
	}
	defaults struct {
		Unit       string      `json:"unit"`
		Min        *float64    `json:"min,omitempty"`
		Max        *float64    `json:"max,omitempty"`
		Thresholds *thresholds `json:"thresholds,omitempty"`
		Custom     any         `json:"custom,omitempty"`
	}
	thresholds struct {
		Mode  string `json:"mode"`
		Steps []step `json:"steps"`
	}
	step struct {
		Color string   `json:"color"`
		Value *float64 `json:"value"`
	}
)

const (
	columns     = 24 // of Grafana's grid
	panelWidth  = 8
	panelHeight = 8
	// schema is Grafana 10's; later ones migrate it.
	schema = 39
)

// Dashboard is a dashboard of Grafana as JSON, for the same series as the rules.
func Dashboard(o Options) ([]byte, error) {
	q, err := newQuery(o.Selector, o.Every)
	if err != nil {
		return nil, err
	}
	if err := o.ReachesFirstOutput(); err != nil {
		return nil, err
	}
	from := datasource{"prometheus", "${datasource}"}
	d := board{
		UID: "failback", Title: "failback", Tags: []string{"failback"}, SchemaVersion: schema, Version: 1, Editable: true,
		Description: "What a failback gateway does, from its metrics. Made by failback rules --dashboard; docs/metrics.md says what each number means. Error budgets are shown of models that have an objective (slo).",
		Refresh:     "30s", Timezone: "utc", Time: timeRange{"now-6h", "now"},
		Templating:  list{[]variable{{Name: "datasource", Label: "Prometheus", Type: "datasource", Query: "prometheus"}}},
		Annotations: list{[]variable{}},
	}
	y, id, zero := 0, 0, 0.0
	for _, s := range sections(q, o) {
		id++
		d.Panels = append(d.Panels, panel{ID: id, Type: "row", Title: s.title, GridPos: place{1, columns, 0, y}, Collapsed: new(bool)})
		y++
		for i, c := range s.charts {
			if i > 0 && i%(columns/panelWidth) == 0 {
				y += panelHeight
			}
			id++
			p := panel{ID: id, Type: "timeseries", Title: c.title, Description: c.about, Datasource: &from,
				GridPos:     place{panelHeight, panelWidth, i % (columns / panelWidth) * panelWidth, y},
				FieldConfig: &fields{Defaults: defaults{Unit: c.unit, Min: &zero}, Overrides: []any{}},
				Options:     map[string]any{"legend": map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true}, "tooltip": map[string]any{"mode": "multi", "sort": "desc"}},
			}
			p.FieldConfig.Defaults.Custom = map[string]any{"drawStyle": "line", "spanNulls": false, "lineInterpolation": "linear"}
			if c.states {
				p.Type = "state-timeline"
				p.FieldConfig.Defaults.Custom = map[string]any{"fillOpacity": 70, "lineWidth": 0}
				p.FieldConfig.Defaults.Thresholds = steps(1)
				p.Options = map[string]any{"mergeValues": true, "showValue": "never", "legend": map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": false}}
			}
			if c.most > 0 {
				p.FieldConfig.Defaults.Max = &c.most
			}
			if c.limit != nil {
				p.FieldConfig.Defaults.Thresholds = steps(*c.limit)
				p.FieldConfig.Defaults.Custom.(map[string]any)["thresholdsStyle"] = map[string]string{"mode": "line"}
			}
			for j, s := range c.queries {
				p.Targets = append(p.Targets, target{string(rune('A' + j)), s.expr, s.legend, true, from})
			}
			d.Panels = append(d.Panels, p)
		}
		y += panelHeight
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(d)
	return b.Bytes(), err
}

// steps colours what is at limit or above.
func steps(limit float64) *thresholds {
	return &thresholds{"absolute", []step{{"green", nil}, {"red", &limit}}}
}
