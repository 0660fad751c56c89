package logql

import (
	"context"
	"time"
)

// Turn is the work of one goroutine for one query.
type Turn interface {
	// Begin waits until it may work. The error is that of ctx.
	Begin(ctx context.Context) error
	// Rest is called now and then while it works. It counts the work, by Worked,
	// and may let others work meanwhile. On an error it may not work any more.
	Rest(ctx context.Context) error
	// End says that it works no more, until the next Begin.
	End(ctx context.Context)
}

// Paced is a Source that lets those who ask work in turn. What is worked on
// entries within yield is in the turns of Select itself.
type Paced interface {
	Source
	// Turn returns one for what is worked between and after the selections.
	Turn() Turn
}

// freely is a Turn of a source that has none: it only counts.
type freely struct {
	since time.Time // of the last look at the clock
	lines int       // since then
	every int       // how many lines to the next look
}

func (f *freely) Begin(ctx context.Context) error {
	f.since = time.Now()
	return ctx.Err()
}

func (f *freely) Rest(ctx context.Context) error {
	now := time.Now()
	d := now.Sub(f.since)
	f.since, f.lines = now, 0
	if d < time.Millisecond {
		f.every = min(2*f.every, 256)
	} else {
		f.every = max(f.every/4, 1)
	}
	if err := Worked(ctx, d); err != nil {
		return err
	}
	return ctx.Err()
}

// line counts a line, of which the clock is looked at the more seldom the faster
// they are.
func (f *freely) line(ctx context.Context) error {
	if f.lines++; f.lines < f.every {
		return nil
	}
	return f.Rest(ctx)
}

func (f *freely) End(ctx context.Context) { _ = Worked(ctx, time.Since(f.since)) }

// rested is how many numbers are worked on between two calls of Turn.Rest.
const rested = 16 << 10

// labour is work in a turn that is measured by how many numbers it is on.
type labour struct {
	ctx  context.Context
	t    Turn
	done int // since the last rest
	lost bool
}

// inTurn runs f in a turn of a source.
func inTurn(ctx context.Context, src Source, f func(*labour) error) error {
	l := &labour{ctx: ctx}
	if p, ok := src.(Paced); ok {
		l.t = p.Turn()
	} else {
		l.t = &freely{}
	}
	if err := l.t.Begin(ctx); err != nil {
		return err
	}
	defer func() {
		if !l.lost {
			l.t.End(ctx)
		}
	}()
	return f(l)
}

// on counts n numbers that are going to be worked on.
func (l *labour) on(n int) error {
	if l.done += n + 1; l.done < rested {
		return nil
	}
	l.done = 0
	err := l.t.Rest(l.ctx)
	l.lost = err != nil
	return err
}
