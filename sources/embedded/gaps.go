package embedded

import (
	"fmt"
	"sync"
	"time"
)

const (
	// late is how much earlier than it is written the time of a line may be: that
	// of a decision is when its request came.
	late = 15 * time.Minute
	// together is how far apart losses may be and still are one.
	together = time.Minute
	// mostGaps are remembered, the newest ones.
	mostGaps = 100
)

// gap is when lines were lost, and how many.
type gap struct {
	from, to time.Time
	lines    uint64
}

// gaps are when lines were lost, as far as that shows: somebody looks often how
// many there are. Times are of the wall clock, since lines have those.
type gaps struct {
	mu     sync.Mutex // guards everything that follows
	lost   uint64
	looked time.Time
	list   []gap // in order of time
}

// look takes note that lost lines in all are lost now.
func (g *gaps) look(lost uint64, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	from := g.looked
	g.looked = now
	if lost <= g.lost {
		return
	}
	n := lost - g.lost
	g.lost = lost
	if from.IsZero() || from.After(now) { // nobody looked before, or the clock went back
		from = now
	}
	if last := len(g.list) - 1; last >= 0 && from.Sub(g.list[last].to) <= together {
		l := &g.list[last]
		l.from, l.to, l.lines = earlier(l.from, from), now, l.lines+n
		return
	}
	if len(g.list) == mostGaps {
		g.list = append(g.list[:0], g.list[1:]...)
	}
	g.list = append(g.list, gap{from, now, n})
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// between says which lines from start to end may not be there; empty: nothing is
// known to lack.
func (g *gaps) between(start, end time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all gap
	for _, l := range g.list {
		if !l.from.Add(-late).Before(end) || l.to.Before(start) {
			continue
		}
		if all.lines == 0 {
			all.from = l.from
		}
		all.to, all.lines = l.to, all.lines+l.lines
	}
	if all.lines == 0 {
		return ""
	}
	return fmt.Sprintf("%d lines are not there, lost between %s and %s: they were not written in time",
		all.lines, all.from.UTC().Format(time.RFC3339), all.to.UTC().Format(time.RFC3339))
}

// now reports whether lines are being lost.
func (g *gaps) now(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	last := len(g.list) - 1
	return last >= 0 && now.Sub(g.list[last].to) < together
}
