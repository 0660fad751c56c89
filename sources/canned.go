package sources

import (
	"time"

	"failback/gateway/operator/api"
)

// Canned is a LogQL query that answers one question of an incident.
type Canned struct {
	Name, Title string
	// Means says what an answer means, None what it means that there is none.
	Means, None string
	// Runbook is the id of the runbook it belongs to.
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

	text     string // $range stands for the window
	unparsed string
}

// Query returns the LogQL over a window, at least a second.
func (c Canned) Query(window time.Duration) string { return c.text }

// At returns the question about a range of time.
func (c Canned) At(start, end time.Time) LogQuery {
	return LogQuery{
		Query: c.Query(end.Sub(start)), Start: start, End: end,
		Limit: c.Limit, Forward: c.Forward, Instant: c.Instant,
	}
}

// CannedQueries returns the queries for a configuration's tasks and the stream
// selector of its decision log; empty: {service_name="failback"}.
func CannedQueries(tasks []api.Task, selector string) []Canned { return nil }
