package logql

import (
	"context"
	"errors"
	"io"
	"time"
)

// Query is a parsed query. It is immutable and safe for concurrent use.
type Query struct{}

// Parse reads a query. The error is a *ParseError.
func Parse(query string) (*Query, error) { return nil, errors.ErrUnsupported }

// IsMetric says whether the answer is numbers rather than lines.
func (q *Query) IsMetric() bool { return false }

// String writes the query in a canonical form that parses to the same query.
func (q *Query) String() string { return "" }

// Request is a query with the time it is asked for.
type Request struct {
	Query      *Query
	Start, End int64         // Unix nanoseconds; an instant query is asked for End
	Step       time.Duration // between the points of a metric range query
	Instant    bool
	Limit      int  // of lines; 0: 100
	Forward    bool // oldest lines first
}

// Result is an answer. Its JSON form is what Loki's HTTP API has under "data".
type Result struct{}

// MarshalJSON writes the answer as Loki's HTTP API has it under "data".
func (r *Result) MarshalJSON() ([]byte, error) { return nil, errors.ErrUnsupported }

// Eval answers a request.
func Eval(ctx context.Context, src Source, r Request) (*Result, error) {
	return nil, errors.ErrUnsupported
}

// Lines is a Source in memory.
type Lines struct{}

// ReadLines reads lines.
func ReadLines(r io.Reader, labels Labels) (*Lines, error) { return nil, errors.ErrUnsupported }

// Select yields entries; see Source.
func (l *Lines) Select(ctx context.Context, s Selection, yield func(Entry) bool) error {
	return errors.ErrUnsupported
}
