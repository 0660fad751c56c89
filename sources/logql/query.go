package logql

import (
	"strings"
	"time"
)

// Query is a parsed query. It is immutable and safe for concurrent use.
type Query struct{ e expr }

// IsMetric says whether the answer is numbers rather than lines.
func (q *Query) IsMetric() bool {
	_, log := q.e.(*logExpr)
	return !log
}

// Selector returns the matchers of a query that is a stream selector and nothing
// else.
func (q *Query) Selector() ([]Matcher, bool) {
	e, ok := q.e.(*logExpr)
	if !ok || len(e.stages) > 0 {
		return nil, false
	}
	return e.matchers, true
}

// String writes the query in a canonical form that parses to the same query.
func (q *Query) String() string { return strings.TrimSpace(q.e.String()) }

// defaultPoints is about how many points a range has unless a step is given.
const defaultPoints = 250

// DefaultStep is the step that Loki takes for a range of which none is given.
func DefaultStep(start, end int64) time.Duration {
	length := float64(end) - float64(start) // may be more than an int64 holds
	return max(time.Duration(length/float64(time.Second)/defaultPoints)*time.Second, time.Second)
}

// Request is a query with the time it is asked for.
type Request struct {
	Query      *Query
	Start, End int64         // Unix nanoseconds; an instant query is asked for End
	Step       time.Duration // between the points of a metric range query
	Instant    bool
	Limit      int  // of lines; 0: 100
	Forward    bool // oldest lines first
	// MaxBytes bounds the answer, and what is kept on the way to it; 0: nothing
	// does.
	MaxBytes int64
	// MaxMade bounds the bytes that go through templates, of all lines together,
	// and MaxWork how long the query may work, all its goroutines together and
	// their rests not counted, as the Source tells it by Worked; 0: nothing does.
	// A query that meets a bound is a *QueryError with status 400.
	MaxMade int64
	MaxWork time.Duration
}
