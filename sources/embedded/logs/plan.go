package logs

import (
	"cmp"
	"context"
	"slices"

	"failback/sources/logql"
)

const (
	// A block begins small, so that a question for a few lines reads little,
	// and grows up to mostLines lines and blockBytes bytes.
	fewLines   = 32
	mostLines  = 1024
	blockBytes = 512 << 10
)

// plan finds the lines that a selection may need, in its order, and cuts them
// into blocks to be read.
type plan struct {
	s    *Store
	sel  logql.Selection
	in   scope
	need need

	pending []*view // not begun yet
	active  []*cursor
	streams map[string]logql.Labels

	work   chan *block // to be read by whoever is free
	blocks chan *block // the same ones, in order
	room   int         // lines of the next block
}

// cursor stands at a line of a segment.
type cursor struct {
	v    *view
	rows []uint32 // in order of time; nil: every row, as they are
	at   int      // into rows, or the row itself
	end  int      // where to stop: beyond the last forward, before the first backward
	ts   int64    // of the line at
}

// run makes the blocks. It ends when there are no more lines, when ctx ends,
// or with the error that keeps it from going on.
func (p *plan) run(ctx context.Context) error {
	p.room = fewLines
	slices.SortStableFunc(p.pending, func(a, b *view) int {
		if p.sel.Forward {
			return cmp.Compare(a.low, b.low)
		}
		return cmp.Compare(b.high, a.high)
	})
	b := p.newBlock()
	for {
		c, err := p.next()
		if err != nil {
			return err
		}
		if c == nil {
			break
		}
		// Until another segment's turn may come, only this one is looked at.
		until, any := p.rival(c)
		for more := true; more; {
			b.add(c)
			if b.full(p.room) {
				if !p.emit(ctx, b) {
					return ctx.Err()
				}
				p.room = min(2*p.room, mostLines)
				b = p.newBlock()
			}
			if more = p.step(c); !more {
				p.active = slices.DeleteFunc(p.active, func(o *cursor) bool { return o == c })
			} else if any && !p.before(c.ts, until) {
				break
			}
		}
	}
	if len(b.refs) > 0 {
		p.emit(ctx, b)
	}
	return ctx.Err()
}

// emit hands a block on.
func (p *plan) emit(ctx context.Context, b *block) bool {
	select {
	case p.blocks <- b:
	case <-ctx.Done():
		return false
	}
	select {
	case p.work <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

// before reports whether a comes strictly before b in the order asked for.
func (p *plan) before(a, b int64) bool {
	if p.sel.Forward {
		return a < b
	}
	return a > b
}

// next returns the cursor whose line comes next, nil if there are no more. It
// begins those segments that may have an earlier one.
func (p *plan) next() (*cursor, error) {
	for {
		var best *cursor
		for _, c := range p.active {
			if best == nil || p.before(c.ts, best.ts) || c.ts == best.ts && (c.v.g.number < best.v.g.number) == p.sel.Forward {
				best = c
			}
		}
		if len(p.pending) == 0 || best != nil && p.before(best.ts, p.edge(p.pending[0])) {
			return best, nil
		}
		v := p.pending[0]
		p.pending = p.pending[1:]
		ok, err := p.open(v)
		if err != nil {
			return nil, err
		}
		if ok {
			if c := p.cursor(v); c != nil {
				p.active = append(p.active, c)
			}
		}
	}
}

// edge returns the time before which v has no lines in the order asked for.
func (p *plan) edge(v *view) int64 {
	if p.sel.Forward {
		return v.low
	}
	return v.high
}

// rival returns the time from which on another segment than c's must be looked
// at. any is false if there is none.
func (p *plan) rival(c *cursor) (ts int64, any bool) {
	take := func(t int64) {
		if !any || p.before(t, ts) {
			ts, any = t, true
		}
	}
	for _, o := range p.active {
		if o != c {
			take(o.ts)
		}
	}
	if len(p.pending) > 0 {
		take(p.edge(p.pending[0]))
	}
	return ts, any
}

// cursor returns one at v's first line, nil if there is none.
func (p *plan) cursor(v *view) *cursor {
	x, c := v.x, &cursor{v: v}
	from, to := p.in.rows(v.g, x)
	if x.sorted {
		all := runOf(x, p.sel)
		from, to = max(from, all.from), min(to, all.to)
	} else {
		c.rows = []uint32{}
		for i := from; i < to; i++ {
			if ts := x.ts[i]; ts >= p.sel.Start && ts < p.sel.End && v.want[x.shape[i]] {
				c.rows = append(c.rows, uint32(i))
			}
		}
		slices.SortStableFunc(c.rows, func(a, b uint32) int { return cmp.Compare(x.ts[a], x.ts[b]) })
		from, to = 0, len(c.rows)
	}
	if from >= to {
		return nil
	}
	if p.sel.Forward {
		c.at, c.end = from-1, to
	} else {
		c.at, c.end = to, from-1
	}
	if !p.step(c) {
		return nil
	}
	return c
}

// step goes to the next line that is wanted, and reports whether there is one.
func (p *plan) step(c *cursor) bool {
	d := 1
	if !p.sel.Forward {
		d = -1
	}
	for i := c.at + d; i != c.end && (i < c.end) == p.sel.Forward; i += d {
		row := i
		if c.rows != nil {
			row = int(c.rows[i])
		} else if !c.v.want[c.v.x.shape[row]] {
			continue
		}
		c.at, c.ts = i, c.v.x.ts[row]
		return true
	}
	return false
}

func (c *cursor) row() int {
	if c.rows != nil {
		return int(c.rows[c.at])
	}
	return c.at
}
