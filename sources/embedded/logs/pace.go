package logs

import (
	"context"
	"runtime"
	"time"
)

const (
	// stretch is for how long a question may work before it rests.
	stretch = 10 * time.Millisecond
	// checked is how many lines are worked on between two looks at the clock.
	checked = 16
)

// workers is how many questions may work at the same time: one on a small
// machine, otherwise half of what there is. The rest is for the requests that
// the gateway is there for.
func workers() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// pacer lets questions work in turn.
type pacer struct{ places chan struct{} }

func newPacer() *pacer { return &pacer{make(chan struct{}, workers())} }

// turn is the work of one goroutine. It belongs to that.
type turn struct {
	p      *pacer
	worked time.Duration // since the last rest, before since
	since  time.Time     // of the place that is held
	lines  int
}

// begin waits for a place. The error is that of ctx.
func (t *turn) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case t.p.places <- struct{}{}:
		t.since = time.Now()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end gives the place back.
func (t *turn) end() {
	t.worked += time.Since(t.since)
	<-t.p.places
}

// line counts a line. After a stretch of work it rests as long as that took, in
// its place, so that nobody else works meanwhile, and then lets others work. On
// an error, that of ctx, the place is no longer held.
func (t *turn) line(ctx context.Context) error {
	if t.lines++; t.lines%checked != 0 {
		return nil
	}
	return t.rest(ctx)
}

func (t *turn) rest(ctx context.Context) error {
	worked := t.worked + time.Since(t.since)
	if worked < stretch {
		return nil
	}
	timer := time.NewTimer(worked)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	<-t.p.places
	t.worked = 0
	return t.begin(ctx)
}
