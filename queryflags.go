package main

import (
	"strings"
	"time"

	"failback/sources"
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
	in.flags.StringVar(&q.step, "step", "", "a number each so often over the range: 1m, or seconds (default: one for all of it; with --logql and --since or --start one each 250th of the range)")
	in.flags.IntVar(&q.limit, "limit", 0, "how many lines at most (default: the query's own, 100 with --logql)")
	in.flags.StringVar(&q.direction, "direction", "", "forward, oldest lines first, or backward (default: the query's own, backward with --logql)")
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

// ofQueries are the flags that mean nothing without a query.
var ofQueries = []string{"file", "since", "start", "end", "step", "limit", "direction"}

// fits says which of the flags that were given means nothing to a canned query.
// Every one of them takes a range of time.
func fits(c sources.Canned, given func(flag string) bool) error {
	if !c.Instant {
		if given("step") {
			return usagef("--step: %s gives lines, and a step is for numbers; leave it out, or ask %s", c.Name, strings.Join(numeric(), ", "))
		}
		return nil
	}
	for _, flag := range []string{"limit", "direction"} {
		if given(flag) {
			return usagef("--%s: %s gives numbers, all there are, and that is for lines; leave it out", flag, c.Name)
		}
	}
	return nil
}

// numeric are the names of the canned queries that give numbers.
func numeric() []string {
	var names []string
	for _, c := range sources.CannedQueries(nil, "") {
		if c.Instant {
			names = append(names, c.Name)
		}
	}
	return names
}
