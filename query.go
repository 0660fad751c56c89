package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/filelog"
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
	in.flags.StringVar(&q.start, "start", "", "from when: 2006-01-02T15:04:05Z, 2006-01-02 15:04 or 15:04 by this host's clocks, Unix seconds or nanoseconds, -1h or now-1h")
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
	start, end      sources.When
	step            time.Duration
	limit           int
	forward, turned bool // turned: a direction was named
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
	if p.start, err = sources.ParseWhen(q.start, time.Local); err != nil {
		return p, usagef("--start: %v", err)
	}
	if p.end, err = sources.ParseWhen(q.end, time.Local); err != nil {
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
	case q.file == "" && p.limit > sources.MaxLogLines:
		return p, usagef("--limit: at most %d lines are asked of a server; a shorter range gives the rest", sources.MaxLogLines)
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
	if p.end.Named() {
		end = moment("end", p.end, now, in.err)
	}
	begin := func(own time.Duration) time.Time {
		switch {
		case p.start.Named():
			return moment("start", p.start, now, in.err)
		case p.since > 0:
			return end.Add(-p.since)
		case !whole.IsZero():
			return whole
		}
		return end.Add(-own)
	}
	var q sources.LogQuery
	if in.query.logql != "" {
		q = sources.LogQuery{Query: in.query.logql, Start: begin(time.Hour), End: end, Limit: lokisLimit, Instant: sources.AsksNumbers(in.query.logql)}
		// One who names a range wants numbers over it.
		if p.start.Named() || p.since > 0 {
			q.Instant = false
		}
	} else {
		c, err := canned(sources.CannedQueries(tasks, selector), in.args[0])
		if err != nil {
			return q, err
		}
		q = c.At(begin(c.Range), end)
	}
	if q.End.Before(q.Start) || !q.Instant && q.Start.Equal(q.End) { // a file of one instant is whole in a number of it
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
	file, err := in.readFile()
	if err != nil {
		return err
	}
	tasks, err := in.tasksForFile()
	if err != nil {
		return err
	}
	from, to := file.Span()
	q, err := in.question(p, tasks, "", to, from)
	if err != nil {
		return err
	}
	if n, first := file.Skipped(); n > 0 {
		fmt.Fprintf(in.err, "failback: %s: %s, the first is %s\n", text.Visible(file.Addr()), skippedLines(n), text.Visible(first.Error()))
	}
	if in.json { // in Loki's own order
		data, err := file.Data(in.ctx, q)
		if err != nil {
			return in.unanswered(q, "", err)
		}
		return in.printData(data, nil)
	}
	a := file.Query(in.ctx, 1, q)
	if a.Err != nil {
		return in.unanswered(q, "", a.Err)
	}
	return in.printAnswer(a.Value)
}

func skippedLines(n int) string {
	if n == 1 {
		return "1 line is none of a decision log and not in it"
	}
	return text.Count(uint64(n)) + " lines are none of a decision log and not in it"
}

// readFile reads the file. Lines of a decision log get the labels that the
// canned queries select.
func (in *invocation) readFile() (*filelog.Log, error) {
	labels := map[string]string{"service_name": api.ServiceName}
	if in.query.file == "-" {
		stdin := os.Stdin
		return filelog.Read(in.ctx, "standard input", func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }, labels)
	}
	open := func() (io.ReadCloser, error) {
		f, err := os.Open(in.query.file)
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // the path is in the message already
		}
		return f, err
	}
	return filelog.Read(in.ctx, "--file "+in.query.file, open, labels)
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

// printAnswer prints an answer, and beside it what is not in it.
func (in *invocation) printAnswer(a *sources.LogAnswer) error {
	if _, err := io.WriteString(in.out, text.LogAnswer(a)); err != nil {
		return err
	}
	for i, n := range text.LogNotes(a) {
		if i == 0 && a.Empty() && len(in.args) == 1 {
			if c, err := canned(sources.CannedQueries(nil, ""), in.args[0]); err == nil && c.None != "" {
				n += ": " + c.None
			}
		}
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
	message := filelog.Refusal(err)
	if e, ok := errors.AsType[*sources.RemoteError](err); ok && e.Kind == sources.RemoteQuery {
		message = e.Message
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
