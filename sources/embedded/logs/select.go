package logs

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"failback/sources/logql"
)

var (
	_ logql.Source      = (*Store)(nil)
	_ logql.Partitioned = (*Store)(nil)
)

// Select yields the lines that sel may need, as logql.Source demands. It reads
// what was stored when it was called; what is stored or dropped meanwhile does
// not matter to it. Lines whose fields the index knows to fail sel.Where are
// not read.
func (s *Store) Select(ctx context.Context, sel logql.Selection, yield func(logql.Entry) bool) error {
	return s.selectWith(ctx, sel, scope{}, min(workers(), 4), yield)
}

// scope narrows a Select.
type scope struct {
	after, before place               // lines that arrived from after on, and before before if that is not zero
	known         map[*segment]*index // indexes that need not be loaded
}

// place is one between two lines in order of arrival.
type place struct {
	number uint64 // of the segment
	row    int
}

// rows returns which lines of a segment are in the scope: from lo to before hi.
func (c scope) rows(g *segment, x *index) (lo, hi int) {
	hi = len(x.ts)
	switch {
	case g.number < c.after.number:
		lo = hi
	case g.number == c.after.number:
		lo = min(c.after.row, hi)
	}
	switch {
	case c.before == place{}:
	case g.number > c.before.number:
		hi = lo
	case g.number == c.before.number:
		hi = max(lo, min(c.before.row, hi))
	}
	return lo, hi
}

// view is a segment as one Select sees it.
type view struct {
	g    *segment
	low  int64 // no line is before low
	high int64 // or after high
	x    *index
	f    *os.File

	want   []bool         // by shape: whether its lines may be in the answer
	labels []logql.Labels // by stream
}

// views holds the segments that may have lines in [start, end).
func (s *Store) views(start, end int64) ([]*view, error) {
	<-s.ready
	if s.ended() {
		return nil, errClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var vs []*view
	for _, g := range s.segs {
		low, high := g.bounds()
		if low < end && high >= start {
			g.readers++
			vs = append(vs, &view{g: g, low: low, high: high, x: g.live})
		}
	}
	return vs, nil
}

func (s *Store) ended() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

func (s *Store) letGo(vs []*view) {
	for _, v := range vs {
		if v.f != nil {
			_ = v.f.Close()
		}
		s.release(v.g)
	}
}

func (s *Store) selectWith(ctx context.Context, sel logql.Selection, in scope, readers int, yield func(logql.Entry) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	vs, err := s.views(sel.Start, sel.End)
	if err != nil {
		return err
	}
	defer s.letGo(vs)
	for _, v := range vs {
		if v.x == nil {
			v.x = in.known[v.g]
		}
	}

	reading, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()

	p := &plan{s: s, sel: sel, in: in, pending: vs, work: make(chan *block, readers), blocks: make(chan *block, 2*readers), streams: map[string]logql.Labels{}}
	p.need = needed(sel, s.o.Indexed)
	var planned error
	wg.Go(func() {
		defer close(p.blocks)
		defer close(p.work)
		planned = p.run(reading)
	})
	for range readers {
		wg.Go(func() {
			own := turn{p: s.pace}
			for b := range p.work {
				if b.err = own.begin(reading); b.err == nil {
					b.read(p.need)
					own.end(reading)
				}
				close(b.done)
			}
		})
	}
	own := turn{p: s.pace}
	for b := range p.blocks {
		select {
		case <-b.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if b.err != nil {
			return b.err
		}
		if len(b.bad) > 0 {
			s.spoiled(b.bad)
		}
		if more, err := b.yield(ctx, &own, yield); !more {
			return err
		}
		b.free()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if planned != nil {
		return planned
	}
	return ctx.Err()
}

// forget makes the index of a segment anew when it is needed next: its file is
// another one.
func (s *Store) forget(g *segment) {
	g.loading.Lock()
	defer g.loading.Unlock()
	g.cached = noIndex
	_ = removeIf(g.side())
}

// open makes v ready to be read. It reports false when the segment is gone or
// has nothing that the selection may need.
func (p *plan) open(v *view) (bool, error) {
	var err error
	if v.x == nil {
		if v.x, err = p.s.load(v.g); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
			return false, err
		}
		if !v.same() { // somebody else cut it
			p.s.forget(v.g)
			if v.x, err = p.s.load(v.g); err != nil {
				return false, err
			}
		}
	}
	if !p.choose(v) {
		return false, nil
	}
	if v.f, err = os.Open(v.g.path); err != nil {
		v.f = nil
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

// same reports whether the file of v has all that its index describes.
func (v *view) same() bool {
	info, err := os.Stat(v.g.path)
	return err != nil || info.Size() >= v.x.size
}

// choose decides by the index which shapes of lines are read. It reports
// whether there are any.
func (p *plan) choose(v *view) bool {
	x := v.x
	streams := make([]bool, len(x.streams))
	v.labels = make([]logql.Labels, len(x.streams))
	for i, l := range x.streams {
		v.labels[i] = p.intern(l)
		streams[i] = matches(p.sel.Matchers, v.labels[i])
	}
	n := x.stride()
	v.want = make([]bool, len(x.shapes)/n)
	for i := range v.want {
		v.want[i] = streams[x.shapes[i*n]]
	}
	for _, c := range p.sel.Where {
		field := slices.Index(x.fields, c.Name)
		if field < 0 {
			continue
		}
		const fulfils, fails = 1, 2
		verdict := make([]uint8, len(x.values)+absent)
		for i := range v.want {
			code := x.shapes[i*n+1+field]
			if code == unknown || !v.want[i] {
				continue
			}
			if _, own := v.labels[x.shapes[i*n]].Lookup(c.Name); own {
				continue // the name is the stream's label, not the field
			}
			if verdict[code] == 0 {
				verdict[code] = fails
				if c.Matches(x.values[code-absent]) {
					verdict[code] = fulfils
				}
			}
			v.want[i] = verdict[code] == fulfils
		}
	}
	return slices.Contains(v.want, true)
}

func matches(ms []logql.Matcher, l logql.Labels) bool {
	for _, m := range ms {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

// labelsOf returns a stream's labels as logql has them.
func labelsOf(m map[string]string) logql.Labels {
	var l logql.Labels
	for _, name := range slices.Sorted(maps.Keys(m)) {
		l = append(l, logql.Label{Name: name, Value: m[name]})
	}
	return l
}

// intern gives a stream the same labels in all segments.
func (p *plan) intern(m map[string]string) logql.Labels {
	l := labelsOf(m)
	key := l.String()
	if known, ok := p.streams[key]; ok {
		return known
	}
	p.streams[key] = l
	return l
}
