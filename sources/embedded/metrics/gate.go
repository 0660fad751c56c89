package metrics

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// limits bound what queries may take from a process that has something better
// to do.
type limits struct {
	running int           // queries at once
	waiting int           // that wait for one of those to end
	samples int           // in memory, of one query
	timeout time.Duration // of one query, the wait included; timeout= can only shorten it
	body    int64         // bytes of a form
	// query is in bytes of an expression or selector. Parsing takes time with
	// the square of the length and cannot be stopped.
	query  int
	points int64         // steps of a range query, as with Prometheus
	write  time.Duration // for the client to take a part of the answer
}

var defaultLimits = limits{
	running: 4,
	waiting: 32,
	samples: 5_000_000,
	timeout: 10 * time.Second,
	body:    128 << 10,
	query:   16 << 10,
	points:  11_000,
	write:   10 * time.Second,
}

// errBusy is for whom there is no place to wait either.
var errBusy = errors.New("too many queries at once, try again in a moment")

// gate lets in so many at once.
type gate struct {
	running chan struct{}
	waiting atomic.Int64
	max     int64 // waiting
}

func newGate(l limits) *gate {
	return &gate{running: make(chan struct{}, l.running), max: int64(l.waiting)}
}

// enter waits for a place until ctx ends. The error is errBusy or that of ctx.
func (g *gate) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-g.running }
	select {
	case g.running <- struct{}{}:
		return leave, nil
	default:
	}
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > g.max {
		return nil, errBusy
	}
	select {
	case g.running <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
