package gate

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrBusy is for whom there is no place to wait either.
var ErrBusy = errors.New("too many queries at once, try again in a moment")

// Gate lets in so many at once. It is safe for concurrent use.
type Gate struct {
	running chan struct{} // has an element for each that is inside
	waiting atomic.Int64
	most    int64 // of waiting
}

// New returns a gate that lets running in, and waiting wait.
func New(running, waiting int) *Gate {
	return &Gate{running: make(chan struct{}, running), most: int64(waiting)}
}

// Enter waits for a place until ctx ends. Whoever has one calls leave. The error
// is ErrBusy or that of ctx.
func (g *Gate) Enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-g.running }
	select {
	case g.running <- struct{}{}:
		return leave, nil
	default:
	}
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > g.most {
		return nil, ErrBusy
	}
	select {
	case g.running <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
