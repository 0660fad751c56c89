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
		for _, name := range ofQueries {
			if in.flags.Changed(name) {
				return usagef("--%s: there is no query that it is for; give a name, which query alone lists, or LogQL with --logql", name)
			}
		}
		return in.listQueries()
	}
	if len(in.args) == 1 { // before anybody is asked
		c, err := canned(sources.CannedQueries(nil, ""), in.args[0])
		if err != nil {
			return err
		}
		if err := fits(c, in.flags.Changed); err != nil {
			return err
		}
	}
	if q.file != "" {
		return in.queryFile(plan)
	}
	return in.queryServer(plan)
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
		if p.step > 0 {
			q.Query = c.Query(p.step) // each number is of the time since the one before it
		}
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
	if strings.ContainsAny(name, "{(") { // no name has one, and no LogQL has none
		return sources.Canned{}, usagef("there is no query of that name; LogQL of your own goes into --logql, in quotes: --logql '%s'", text.Visible(name))
	}
	if near, close := config.Nearest(name, names); close {
		return sources.Canned{}, usagef("there is no query %q; the nearest is %s, and LogQL of your own goes into --logql", name, near)
	}
	return sources.Canned{}, usagef("there is no query %q; there are %s, and LogQL of your own goes into --logql", name, strings.Join(names, ", "))
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
	for _, n := range lineErrors(a.Rows) {
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
