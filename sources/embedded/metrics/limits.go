package metrics

import "time"

// limits bound what queries may take from a process that has something better
// to do.
type limits struct {
	running int           // queries at once; fewer work at the same time
	quick   int           // more of those that ask little
	waiting int           // of each that wait for one of those to end
	samples int           // in memory, of one query
	timeout time.Duration // of one query, the wait included; timeout= can only shorten it
	body    int64         // bytes of a form
	// query is in bytes of an expression or selector. Parsing takes time with
	// the square of the length and cannot be stopped.
	query  int
	points int64         // steps of a range query, as with Prometheus
	write  time.Duration // for the client to take a part of the answer
	answer time.Duration // for the client to take all of it
	// patience is how long Close waits for queries to end: a library may look at
	// the time too rarely.
	patience time.Duration
}

var defaultLimits = limits{
	running: 4,
	quick:   8,
	waiting: 32,
	samples: 2_000_000,
	timeout: 10 * time.Second,
	body:    128 << 10,
	query:   16 << 10,
	points:  11_000,
	write:   10 * time.Second,
	answer:  30 * time.Second,

	patience: 5 * time.Second,
}
