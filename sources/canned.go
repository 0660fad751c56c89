package sources

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"failback/gateway/operator/api"
)

// DefaultStreams selects the decision log where nothing else is configured.
const DefaultStreams = `{service_name="` + api.ServiceName + `"}`

var (
	allStreams = regexp.MustCompile("^\\{(\\s*[A-Za-z_][A-Za-z0-9_]*\\s*=~\\s*[\"`]\\.\\*[\"`]\\s*,?)*\\s*\\}$")
	anyValue   = regexp.MustCompile("=~\\s*[\"`]\\.\\*[\"`]")
)

// Streams is a configured selector of streams as a Loki takes it: one that
// names none is DefaultStreams, and one whose matchers all match the empty
// value too asks for any value instead, since a Loki refuses the other.
func Streams(selector string) string {
	selector = strings.TrimSpace(selector)
	switch {
	case selector == "" || strings.TrimSpace(strings.Trim(selector, "{}")) == "":
		return DefaultStreams
	case allStreams.MatchString(selector):
		return anyValue.ReplaceAllString(selector, `=~".+"`)
	}
	return selector
}

// Canned is a LogQL query that answers one question of an incident.
type Canned struct {
	Name, Title string
	// Means says what an answer means, None what it means that there is none.
	Means, None string
	// Runbook is the id of the runbook that goes on from its answer; empty: there
	// is none.
	Runbook string
	// Range is how far it looks back unless somebody says otherwise.
	Range time.Duration
	// Instant queries give numbers for the whole range, the others lines.
	Instant bool
	// Limit and Forward are as in LogQuery.
	Limit   int
	Forward bool
	// Alarm says that any answer at all is a fault.
	Alarm bool

	text     string // window stands for the range
	unparsed string
}

// window stands in a Canned's text for the range that it counts over. No
// encoded string can hold it: it begins with a character that is always
// escaped there.
const window = "\x00range"

// Query returns the LogQL over a range, in whole seconds and at least one.
func (c Canned) Query(over time.Duration) string { return putWindow(c.text, over) }

func putWindow(text string, over time.Duration) string {
	over = max(over.Round(time.Second), time.Second)
	return strings.ReplaceAll(text, window, model.Duration(over).String())
}

// At returns the question about a range of time.
func (c Canned) At(start, end time.Time) LogQuery {
	over := end.Sub(start)
	return LogQuery{
		Query: c.Query(over), Start: start, End: end,
		Limit: c.Limit, Forward: c.Forward, Instant: c.Instant,
		Unparsed: putWindow(c.unparsed, over),
	}
}

// CannedQueries returns the queries for a configuration's tasks and the stream
// selector of its decision log, in the order in which an incident asks them;
// the selector is as Streams has it.
func CannedQueries(tasks []api.Task, selector string) []Canned {
	selector = Streams(selector)
	// What is no JSON would fail a query of numbers as a whole.
	parsed := selector + ` | json | __error__=""`
	requests := parsed + ` | event="model_route_selected"`
	switched := requests + ` | fallback_triggered="true"`
	count := func(by, lines string) string {
		return "sum by (" + by + ") (count_over_time(" + lines + " [" + window + "]))"
	}
	event := func(name string) string {
		return selector + ` |= ` + quoteLogQL(name) + ` | json | __error__="" | event=` + quoteLogQL(name)
	}
	events := func(names ...string) string {
		any := quoteLogQL(strings.Join(names, "|"))
		return selector + ` |~ ` + any + ` | json | __error__="" | event=~` + any
	}
	all := []Canned{
		{
			Name: "first-switch", Title: "when the first switch happened", text: switched,
			Means:   "the first request that left its primary: its time is when it began, failed_provider and reason say why",
			None:    "no request left its primary in this time",
			Runbook: "provider-5xx", Range: 6 * time.Hour, Limit: 1, Forward: true,
		},
		{
			Name: "not-allowed", Title: "tasks that fell back although not allowed", text: requests + notAllowed(tasks), Alarm: true,
			Means:   "must be empty: each line is a request that another candidate, or another model, was given against the task's policy",
			None:    "as it must be: no task left its primary, or its model, against its policy",
			Runbook: "fell-back-not-allowed", Range: 24 * time.Hour, Limit: LogsLimit,
		},
		{
			Name: "affected", Title: "affected request ids",
			text: requests + ` | workflow_status=~"degraded_completed|queued|human|unavailable|incomplete|refused"` +
				` | line_format "{{.request_id}} {{.task_type}} {{.workflow_status}} {{.reason}}"`,
			Means:   "each request that did not simply get its primary's answer: request id, task, what it came to, and why",
			None:    "every request got its primary's answer, was the caller's mistake, or its client left",
			Runbook: "closing-an-incident", Range: 15 * time.Minute, Limit: LogsLimit,
		},
		{
			Name: "failed", Title: "failed requests by task and reason", text: count("task_type, reason", requests+failed), Instant: true,
			Means:   "how many requests had no whole answer from anybody, by task and why: whose users are hurt; affected names each, and those that another answered",
			None:    "no request failed in this time: each was answered, was the caller's mistake or over a caller's own limits, or its client left",
			Runbook: "provider-5xx", Range: time.Hour,
		},
		{
			Name: "by-reason", Title: "switches by reason", text: count("reason", switched), Instant: true,
			Means:   "how many requests left their primary, by why it did not answer: the greatest names the runbook to begin with",
			None:    "no request left its primary in this time",
			Runbook: "fallback-ratio-high", Range: time.Hour,
		},
		{
			Name: "by-task", Title: "switches by task", text: count("task_type", switched), Instant: true,
			Means:   "how many requests left their primary, by task: whose users notice",
			None:    "no request left its primary in this time",
			Runbook: "fallback-ratio-high", Range: time.Hour,
		},
		{
			Name: "first-output", Title: "first-output failovers by failed provider",
			text: count("failed_provider", switched+` | reason="first_output_timeout"`), Instant: true,
			Means:   "how many streams were given to another candidate because no output came in time, by who kept silent",
			None:    "no stream was given away for want of a first output",
			Runbook: "provider-silent", Range: time.Hour,
		},
		{
			Name: "breakers", Title: "breaker transitions", text: event("breaker_transition"),
			Means:   "each change of a bucket, with its reason: open and half_open in turn is a provider that is not back yet",
			None:    "no breaker changed in this time; what is open has been open for longer",
			Runbook: "provider-5xx", Range: 6 * time.Hour, Limit: LogsLimit,
		},
		{
			Name: "late-results", Title: "late results", text: event("late_result"),
			Means:   "answers that came after their request had ended elsewhere: paid for, given to nobody, and looked at before work is repeated",
			None:    "this version records none of these: nothing is known of answers that came too late",
			Runbook: "users-time-out", Range: 24 * time.Hour, Limit: LogsLimit,
		},
		{
			Name: "incomplete", Title: "incomplete streams", text: requests + ` | workflow_status="incomplete"`,
			Means:   "streams that broke off after the client had part of them: these users saw half an answer",
			None:    "no stream broke off after it had begun",
			Runbook: "stream-interruptions", Range: time.Hour, Limit: LogsLimit,
		},
		{
			Name: "human", Title: "what went to people", text: requests + ` | workflow_status="human"`,
			Means:   "requests that no candidate could or might answer, and that wait for a person",
			None:    "this version records none of these: it hands no request to a person, and answers 503 where a task asks for one",
			Runbook: "closing-an-incident", Range: 24 * time.Hour, Limit: LogsLimit,
		},
		{
			Name: "operators", Title: "operator commands", text: event("operator_command"),
			Means:   "who changed what, why, and whether it took effect, refused commands too",
			None:    "nobody gave a command in this time",
			Runbook: "manual-failback", Range: 24 * time.Hour, Limit: LogsLimit,
		},
		{
			Name: "changes", Title: "changes of configuration, share, health", text: events("config_reload", "operator_command", "traffic_step", "health_transition", "passthrough"),
			Means:   "reloads, commands, steps of shares, healths and passthrough, whoever did them: what changed just before it began, and what the gateway did by itself",
			None:    "no configuration, share or health changed in this time, and nobody gave a command",
			Runbook: "manual-failback", Range: 24 * time.Hour, Limit: LogsLimit,
		},
	}
	for i := range all {
		all[i].unparsed = `sum(count_over_time(` + selector + ` | json | __error__!="" [` + window + `]))`
	}
	return all
}

// failed filters the requests that count against availability: those that
// nobody answered in full and that neither their caller spoiled nor their client
// left. A refusal for the caller's own ceiling is the caller's.
const failed = ` | workflow_status=~"unavailable|incomplete|human" or (workflow_status="refused" and reason!="cost_ceiling")`

// notAllowed filters the requests that policy forbade: another candidate for a
// task that may not fall back, or another model for one that keeps its own. A
// task that is not in the configuration may not fall back.
func notAllowed(tasks []api.Task) string {
	var may, same []string
	for _, t := range tasks {
		switch t.Fallback {
		case "any":
			may = append(may, t.Name)
		case "same_model":
			may = append(may, t.Name)
			same = append(same, t.Name)
		}
	}
	f := ` | fallback_triggered="true"`
	switch {
	case len(may) == 0:
		return f
	case len(same) == 0:
		return f + ` | task_type!~` + oneOf(may)
	}
	return f + ` | task_type!~` + oneOf(may) + ` or (task_type=~` + oneOf(same) + ` and substitute="true")`
}

// oneOf is a LogQL string with a regular expression that matches the names and
// nothing else; LogQL anchors it.
func oneOf(names []string) string {
	names = slices.Sorted(slices.Values(names))
	for i := range names {
		names[i] = regexp.QuoteMeta(names[i])
	}
	return quoteLogQL(strings.Join(slices.Compact(names), "|"))
}

// quoteLogQL is the one way by which a string gets into a query: as Go, and so
// LogQL, writes it, in ASCII alone.
func quoteLogQL(s string) string { return strconv.QuoteToASCII(s) }
