package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/logql"
	"failback/ui/text"
)

// lokisLimit is how many lines an own query gives unless --limit says
// otherwise: Loki's own default.
const lokisLimit = 100

// queryFlags are those of failback query.
type queryFlags struct {
	logql, file       string
	since, start, end string
	step, direction   string
	limit             int
}

func runQueryFlags(in *invocation) {
	clientFlags(in)
	q := &in.query
	in.flags.StringVar(&q.logql, "logql", "", "a query of your own instead of a canned one")
	in.flags.StringVar(&q.file, "file", "", "answer from a file of decision log lines, - is standard input, and ask no server")
	in.flags.StringVar(&q.since, "since", "", "how far to look back from --end: 15m, 6h, 7d (default: the query's own; of a file, all of it)")
	in.flags.StringVar(&q.start, "start", "", "from when: RFC 3339, Unix seconds or nanoseconds, or now-1h")
	in.flags.StringVar(&q.end, "end", "", "until when, exclusive, as --start (default: now; of a file, its last line)")
	in.flags.StringVar(&q.step, "step", "", "a number each so often over the range, instead of one for all of it: 1m, or seconds")
	in.flags.IntVar(&q.limit, "limit", 0, "how many lines at most (default: the query's own, 100 with --logql)")
	in.flags.StringVar(&q.direction, "direction", "", "forward, oldest lines first, or backward (default: the query's own, backward with --logql)")
}

// runQuery answers a canned query or one of the caller's own.
func runQuery(in *invocation) error {
	q := &in.query
	switch {
	case len(in.args) > 1:
		return usagef("query takes one name, not %d; LogQL of your own goes into --logql, in quotes", len(in.args))
	case len(in.args) == 1 && in.flags.Changed("logql"):
		return usagef("query takes a name or --logql, not both")
	case in.flags.Changed("logql") && strings.TrimSpace(q.logql) == "":
		return usagef("--logql: there is no query in it")
	case q.file != "" && in.connect != "":
		return usagef("--file and --connect: a file is answered from without a gateway")
	}
	plan, err := q.plan(in.flags.Changed("limit"))
	if err != nil {
		return err
	}
	if len(in.args) == 0 && q.logql == "" {
		return in.listQueries()
	}
	if len(in.args) == 1 { // before anybody is asked
		if _, err := canned(sources.CannedQueries(nil, ""), in.args[0]); err != nil {
			return err
		}
	}
	if q.file != "" {
		return in.queryFile(plan)
	}
	return in.queryServer(plan)
}

// queryPlan is what the flags say of time and amount. Times that they do not
// name are the zero value.
type queryPlan struct {
	since           time.Duration
	start, end      when
	step            time.Duration
	limit           int
	forward, turned bool // turned: a direction was named
}

// when is a moment that was named: by itself, or from now.
type when struct {
	named, relative bool
	at              time.Time
	offset          time.Duration
}

func (w when) time(now time.Time) time.Time {
	if w.relative {
		return now.Add(w.offset)
	}
	return w.at
}

func (q *queryFlags) plan(limited bool) (queryPlan, error) {
	p := queryPlan{limit: q.limit}
	var err error
	if q.since != "" {
		if p.since, err = parseSpan(q.since); err != nil || p.since <= 0 {
			return p, usagef("--since: %q is no time to look back, as 15m, 6h or 7d", q.since)
		}
		if q.start != "" {
			return p, usagef("--since and --start: only one of them can say where it begins")
		}
	}
	if p.start, err = parseWhen(q.start); err != nil {
		return p, usagef("--start: %v", err)
	}
	if p.end, err = parseWhen(q.end); err != nil {
		return p, usagef("--end: %v", err)
	}
	if q.step != "" {
		if p.step, err = parseStep(q.step); err != nil {
			return p, usagef("--step: %v", err)
		}
	}
	switch {
	case limited && p.limit < 1:
		return p, usagef("--limit: %d lines make no answer", p.limit)
	case q.file == "" && p.limit > sources.MaxLogsLimit:
		return p, usagef("--limit: a Loki gives at most %d lines at once; a shorter range gives the rest", sources.MaxLogsLimit)
	}
	switch q.direction {
	case "":
	case "forward", "backward":
		p.turned, p.forward = true, q.direction == "forward"
	default:
		return p, usagef("--direction: %q is not forward or backward", q.direction)
	}
	return p, nil
}

// question is what is asked: the canned query of that name, or the own one,
// over the planned range. now is what the range ends with and is relative to
// unless the plan says otherwise; whole, if it is not zero, is where it then
// begins.
func (in *invocation) question(p queryPlan, tasks []api.Task, selector string, now, whole time.Time) (sources.LogQuery, error) {
	end := now
	if p.end.named {
		end = p.end.time(now)
	}
	begin := func(own time.Duration) time.Time {
		switch {
		case p.start.named:
			return p.start.time(now)
		case p.since > 0:
			return end.Add(-p.since)
		case !whole.IsZero():
			return whole
		}
		return end.Add(-own)
	}
	var q sources.LogQuery
	if in.query.logql != "" {
		q = sources.LogQuery{Query: in.query.logql, Start: begin(time.Hour), End: end, Limit: lokisLimit, Instant: isMetric(in.query.logql)}
		// One who names a range wants numbers over it.
		if p.start.named || p.since > 0 {
			q.Instant = false
		}
	} else {
		c, err := canned(sources.CannedQueries(tasks, selector), in.args[0])
		if err != nil {
			return q, err
		}
		q = c.At(begin(c.Range), end)
	}
	if !q.Start.Before(q.End) && !q.Instant {
		return q, usagef("the range ends (%s) before it begins (%s)", q.End.UTC().Format(time.RFC3339), q.Start.UTC().Format(time.RFC3339))
	}
	if p.limit > 0 {
		q.Limit = p.limit
	}
	if p.turned {
		q.Forward = p.forward
	}
	if p.step > 0 {
		q.Step, q.Instant = p.step, false
	}
	return q, nil
}

// isMetric reports whether a query asks for numbers. Of one that makes no sense
// it is false: whoever answers it says why.
func isMetric(query string) bool {
	parsed, err := logql.Parse(query)
	if err == nil {
		return parsed.IsMetric()
	}
	return !strings.HasPrefix(strings.TrimLeft(query, " \t\r\n("), "{")
}

// canned finds a query by its name.
func canned(all []sources.Canned, name string) (sources.Canned, error) {
	names := make([]string, len(all))
	for i, c := range all {
		if c.Name == name {
			return c, nil
		}
		names[i] = c.Name
	}
	if near, close := config.Nearest(name, names); close {
		return sources.Canned{}, usagef("there is no query %q; the nearest is %s", name, near)
	}
	return sources.Canned{}, usagef("there is no query %q; there are %s", name, strings.Join(names, ", "))
}

// listQueries prints the canned queries with what they mean.
func (in *invocation) listQueries() error {
	type entry struct {
		Name    string `json:"name"`
		Title   string `json:"title"`
		Range   string `json:"range"`
		Means   string `json:"means"`
		None    string `json:"none"`
		Runbook string `json:"runbook"`
	}
	var all []entry
	var b strings.Builder
	for _, c := range sources.CannedQueries(nil, "") {
		e := entry{c.Name, c.Title, text.Span(c.Range), c.Means, c.None, c.Runbook}
		all = append(all, e)
		fmt.Fprintf(&b, "%-13s %s, over %s\n%-13s an answer: %s\n%-13s none: %s\n", e.Name, e.Title, e.Range, "", e.Means, "", e.None)
	}
	return in.print(all, b.String())
}

// queryServer asks the Loki that the gateway names, or its own.
func (in *invocation) queryServer(p queryPlan) error {
	client, err := in.client("")
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := in.state(client)
	if err != nil {
		return err
	}
	_, loki, _ := sources.Connect(client, s.Sources, os.LookupEnv) // what is set wrongly is in the answer
	q, err := in.question(p, s.Tasks, s.Sources.Loki.Selector, s.At, time.Time{})
	if err != nil {
		return err
	}
	a := loki.Query(in.ctx, 1, q)
	if a.Err != nil {
		where := "Loki"
		if addr := loki.Addr(); addr != "" {
			where += " at " + addr
		}
		return in.unanswered(q, where, a.Err)
	}
	if !in.json {
		return in.printAnswer(a.Value)
	}
	data, err := a.Value.Data()
	if err != nil {
		return err
	}
	return in.printData(data, a.Value)
}

func (in *invocation) state(client *api.Client) (*api.State, error) {
	ctx, cancel := context.WithTimeout(in.ctx, answerTime)
	defer cancel()
	return client.State(ctx)
}

// queryFile answers from a file.
func (in *invocation) queryFile(p queryPlan) error {
	lines, err := in.readLines()
	if err != nil {
		return err
	}
	tasks, err := in.tasksForFile()
	if err != nil {
		return err
	}
	from, to, err := span(in.ctx, lines)
	if err != nil {
		return err
	}
	q, err := in.question(p, tasks, "", to, from)
	if err != nil {
		return err
	}
	if in.json {
		data, err := evalFile(in.ctx, lines, q)
		if err != nil {
			return in.unanswered(q, "", err)
		}
		return in.printData(data, nil)
	}
	// A line more than wanted tells "the first 100" from "100".
	more := q
	more.Limit++
	data, err := evalFile(in.ctx, lines, more)
	if err != nil {
		return in.unanswered(q, "", err)
	}
	a, err := sources.ReadLogData(data, q)
	if err != nil {
		return err
	}
	if q.Unparsed != "" {
		if err := countUnparsed(in.ctx, lines, a); err != nil {
			return err
		}
	}
	return in.printAnswer(a)
}

// readLines reads the file. Lines of a decision log get the labels that the
// canned queries select.
func (in *invocation) readLines() (*logql.Lines, error) {
	labels := logql.Labels{{Name: "service_name", Value: "failback"}}
	if in.query.file == "-" {
		lines, err := logql.ReadLines(os.Stdin, labels)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return lines, nil
	}
	f, err := os.Open(in.query.file)
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	defer f.Close()
	lines, err := logql.ReadLines(io.Reader(f), labels)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.query.file, err)
	}
	return lines, nil
}

// tasksForFile are the tasks of the configuration, for the one canned query
// that hangs on them.
func (in *invocation) tasksForFile() ([]api.Task, error) {
	if len(in.args) == 0 || in.args[0] != "not-allowed" {
		return nil, nil
	}
	cfg, err := in.load(in.ctx)
	if err != nil {
		fmt.Fprintln(in.err, "failback: not-allowed needs to know what each task may, which is in the configuration:")
		return nil, err
	}
	tasks := []api.Task{{Name: decision.TaskUnnamed, Fallback: cfg.DefaultTask.Fallback}}
	for _, t := range cfg.Tasks {
		tasks = append(tasks, api.Task{Name: t.Name, Fallback: t.Fallback})
	}
	return tasks, nil
}

// span is when the lines of a file begin, and the moment behind its last one.
func span(ctx context.Context, lines *logql.Lines) (from, to time.Time, err error) {
	from, to = time.Unix(0, 0), time.Unix(0, 1)
	for _, forward := range []bool{true, false} {
		s := logql.Selection{Start: math.MinInt64, End: math.MaxInt64, Forward: forward}
		err = lines.Select(ctx, s, func(e logql.Entry) bool {
			if forward {
				from = time.Unix(0, e.TS)
			} else {
				to = time.Unix(0, e.TS+1)
			}
			return false
		})
		if err != nil {
			return from, to, err
		}
	}
	return from, to, nil
}

// evalFile is what Loki would have under "data".
func evalFile(ctx context.Context, lines *logql.Lines, q sources.LogQuery) ([]byte, error) {
	parsed, err := logql.Parse(q.Query)
	if err != nil {
		return nil, err
	}
	r, err := logql.Eval(ctx, lines, logql.Request{
		Query: parsed, Start: q.Start.UnixNano(), End: q.End.UnixNano(), Step: q.Step, Instant: q.Instant, Limit: q.Limit, Forward: q.Forward,
	})
	if err != nil {
		return nil, err
	}
	return r.MarshalJSON()
}

// countUnparsed counts the lines that could not be parsed, as a canned query
// does beside a Loki.
func countUnparsed(ctx context.Context, lines *logql.Lines, a *sources.LogAnswer) error {
	q := a.Query
	q.Query, q.Instant, q.Step, q.Limit = q.Unparsed, true, 0, 1
	data, err := evalFile(ctx, lines, q)
	if err != nil {
		return err
	}
	n, err := sources.ReadLogData(data, q)
	if err != nil {
		return err
	}
	a.Unparsed = 0
	for _, s := range n.Series {
		for _, p := range s.Points {
			a.Unparsed += int64(p.Value)
		}
	}
	return nil
}

// printAnswer prints an answer, and beside it what is not in it.
func (in *invocation) printAnswer(a *sources.LogAnswer) error {
	if _, err := io.WriteString(in.out, text.LogAnswer(a)); err != nil {
		return err
	}
	for _, n := range text.LogNotes(a) {
		fmt.Fprintln(in.err, "failback: "+n)
	}
	return nil
}

// printData prints an answer as Loki has it; a, if not nil, is the answer with
// what is missing in it.
func (in *invocation) printData(data []byte, a *sources.LogAnswer) error {
	if a != nil {
		for _, w := range a.Warnings {
			fmt.Fprintln(in.err, "failback: partial: "+text.Visible(w))
		}
	}
	_, err := fmt.Fprintf(in.out, "%s\n", data)
	return err
}

// unanswered prints why there is no answer. Of a query that was refused it is
// the text that Loki has for it, and the place that it names.
func (in *invocation) unanswered(q sources.LogQuery, where string, err error) error {
	message := ""
	if e, ok := errors.AsType[*sources.RemoteError](err); ok && e.Kind == sources.RemoteQuery {
		message = e.Message
	}
	if e, ok := errors.AsType[*logql.ParseError](err); ok {
		message = e.Error()
	}
	if e, ok := errors.AsType[*logql.QueryError](err); ok {
		message = e.Error()
	}
	if message == "" {
		if where != "" {
			return fmt.Errorf("%s: %s", where, text.Visible(err.Error()))
		}
		return err
	}
	for _, l := range text.VisibleLines(strings.TrimRight(message, "\n")) {
		fmt.Fprintln(in.err, l)
	}
	if line, before, ok := text.Mark(q.Query, message); ok && !in.json {
		fmt.Fprintf(in.err, "  %s\n  %s^\n", text.Visible(line), strings.Repeat(" ", text.Width(before)))
	}
	return errReported
}

// parseSpan reads a duration: Go's, or with days and weeks.
func parseSpan(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	d, err := model.ParseDuration(s)
	return time.Duration(d), err
}

// parseStep reads a duration, or seconds.
func parseStep(s string) (time.Duration, error) {
	d, err := parseSpan(s)
	if err != nil {
		seconds, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || !(seconds < 1e9) {
			return 0, fmt.Errorf("%q is no duration, as 1m, and no seconds", s)
		}
		d = time.Duration(seconds * float64(time.Second))
	}
	if d < time.Millisecond {
		return 0, fmt.Errorf("%q is less than a millisecond", s)
	}
	return d, nil
}

// parseWhen reads a moment: RFC 3339, Unix seconds or nanoseconds, now, now-1h.
func parseWhen(s string) (when, error) {
	if s == "" {
		return when{}, nil
	}
	if rest, ok := strings.CutPrefix(s, "now"); ok {
		w := when{named: true, relative: true}
		if rest == "" {
			return w, nil
		}
		switch d, err := parseSpan(rest[1:]); {
		case err != nil || strings.ContainsAny(rest[1:], "+-"):
		case rest[0] == '-':
			w.offset = -d
			return w, nil
		case rest[0] == '+':
			w.offset = d
			return w, nil
		}
		return when{}, fmt.Errorf("%q: want now, now-1h or now-7d", s)
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return when{named: true, at: t}, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		switch digits := len(s); {
		case digits <= 10:
			return when{named: true, at: time.Unix(n, 0)}, nil
		case digits >= 18:
			return when{named: true, at: time.Unix(0, n)}, nil
		}
		return when{}, fmt.Errorf("%q is neither Unix seconds nor nanoseconds", s)
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && f < 1e10 {
		seconds, part := math.Modf(f)
		return when{named: true, at: time.Unix(int64(seconds), int64(part*1e9))}, nil
	}
	return when{}, fmt.Errorf("%q is no time: want 2006-01-02T15:04:05Z, Unix seconds or nanoseconds, or now-1h", s)
}
