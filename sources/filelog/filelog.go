package filelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/logql"
)

// Log is the lines of one file. It is safe for concurrent use.
type Log struct {
	name    string
	lines   *logql.Lines
	skipped int
	first   error // of what was skipped
}

var _ sources.Logs = (*Log)(nil)

// Read reads the whole file called name: lines of a decision log, which get
// these labels, or objects {"ts","labels","line"}. What is neither, like a line
// that was torn, is skipped and counted; where nothing is left, it is refused.
//
// Read returns when ctx ends, also while open or a read blocks, as on a
// terminal: what blocks then ends with the process, or with the other side.
func Read(ctx context.Context, name string, open func() (io.ReadCloser, error), labels map[string]string) (*Log, error) {
	l := &Log{name: name}
	set := make(logql.Labels, 0, len(labels))
	for n, v := range labels {
		set = append(set, logql.Label{Name: n, Value: v})
	}
	read := make(chan error, 1)
	go func() { read <- l.read(ctx, open, set) }()
	select {
	case err := <-read:
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: reading it was broken off: %w", name, ctx.Err())
	}
	return l, nil
}

func (l *Log) read(ctx context.Context, open func() (io.ReadCloser, error), labels logql.Labels) error {
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	l.lines, err = logql.ReadLines(ending{ctx, f}, labels, func(err error) {
		if l.skipped == 0 {
			l.first = err
		}
		l.skipped++
	})
	if err == nil && l.lines.Len() == 0 && l.skipped > 0 {
		return fmt.Errorf("no line of it is one of a decision log: %w", l.first)
	}
	return err
}

// ending is a reader that fails when ctx has ended.
type ending struct {
	ctx context.Context
	r   io.Reader
}

func (e ending) Read(b []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.r.Read(b)
}

// Addr is the name of the file.
func (l *Log) Addr() string { return l.name }

// Told does nothing: a file is nobody's store.
func (*Log) Told(api.Source) {}

// Skipped says how many lines of the file are in no answer, and what was wrong
// with the first of them.
func (l *Log) Skipped() (n int, first error) { return l.skipped, l.first }

// Span is when the lines begin, and the moment behind the last one; of no lines
// a nanosecond long ago.
func (l *Log) Span() (from, to time.Time) {
	from, to = time.Unix(0, 0), time.Unix(0, 1)
	for _, forward := range []bool{true, false} {
		s := logql.Selection{Start: math.MinInt64, End: math.MaxInt64, Forward: forward}
		_ = l.lines.Select(context.Background(), s, func(e logql.Entry) bool { // lines in memory fail with their context alone
			if forward {
				from = time.Unix(0, e.TS)
			} else {
				to = time.Unix(0, e.TS+1)
			}
			return false
		})
	}
	return from, to
}

// Query answers q as a Loki would, with any limit. Its errors are a
// *logql.ParseError, a *logql.QueryError or that of ctx.
func (l *Log) Query(ctx context.Context, gen uint64, q sources.LogQuery) sources.Answer[sources.LogAnswer] {
	return sources.AnswerLogs(ctx, gen, q, l.Data)
}

// Data is what a Loki would have under "data", in its order. Errors are those
// of Query.
func (l *Log) Data(ctx context.Context, q sources.LogQuery) ([]byte, error) {
	parsed, err := logql.Parse(q.Query)
	if err != nil {
		return nil, err
	}
	start, end, step := q.Start.UnixNano(), q.End.UnixNano(), q.Step
	if step == 0 {
		step = logql.DefaultStep(start, end)
	}
	r, err := logql.Eval(ctx, l.lines, logql.Request{
		Query: parsed, Start: start, End: end, Step: step, Instant: q.Instant, Limit: q.Limit, Forward: q.Forward,
	})
	if err != nil {
		return nil, err
	}
	return r.MarshalJSON()
}

// Refusal is the text of an error of Query by which a Loki refuses the query
// too; empty of any other.
func Refusal(err error) string {
	if e, ok := errors.AsType[*logql.ParseError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*logql.QueryError](err); ok {
		return e.Error()
	}
	return ""
}
