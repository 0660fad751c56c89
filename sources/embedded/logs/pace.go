package logs

import (
	"context"
	"runtime"
	"time"

	"failback/sources/logql"
)

const (
	// stretch is for how long a question may work before it rests.
	stretch = 10 * time.Millisecond
	// checked is how many lines are worked on between two looks at the clock, and
	// slow how long that may take for the next one not to come sooner.
	checked = 16
	slow    = time.Millisecond
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
	since  time.Time     // of the place that is held, or of the last look at the clock
	lines  int           // since then
	every  int           // how many lines to the next look; 0: one
}

var (
	_ logql.Turn  = (*turn)(nil)
	_ logql.Paced = (*Store)(nil)
	_ logql.Paced = scoped{}
)

// Turn returns one for what a question works beside Select.
func (s *Store) Turn() logql.Turn { return &turn{p: s.pace} }

// Begin is begin, Rest rest, and End end.
func (t *turn) Begin(ctx context.Context) error { return t.begin(ctx) }

// Rest lets others work when a stretch is over.
func (t *turn) Rest(ctx context.Context) error { return t.rest(ctx) }

// End gives the place back.
func (t *turn) End(ctx context.Context) { t.end(ctx) }

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
func (t *turn) end(ctx context.Context) {
	_ = t.look(ctx) // whether that was too much, the next one is told
	<-t.p.places
}

// look counts the work since the last look. The error is that the question may
// work no longer.
func (t *turn) look(ctx context.Context) error {
	now := time.Now()
	d := now.Sub(t.since)
	t.worked += d
	t.since, t.lines, t.every = now, 0, checked
	if d > slow {
		t.every = 1
	}
	return logql.Worked(ctx, d)
}

// line counts a line. After a stretch of work it rests as long as that took, in
// its place, so that nobody else works meanwhile, and then lets others work. On
// an error, that of ctx or that the question has worked for as long as it may,
// the place is no longer held.
func (t *turn) line(ctx context.Context) error {
	if t.lines++; t.lines < t.every {
		return nil
	}
	return t.rest(ctx)
}

func (t *turn) rest(ctx context.Context) error {
	if err := t.look(ctx); err != nil {
		<-t.p.places
		return err
	}
	if t.worked < stretch {
		return nil
	}
	timer := time.NewTimer(t.worked)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	<-t.p.places
	t.worked = 0
	return t.begin(ctx)
}
