package logs

import (
	"fmt"
	"math"
	"path/filepath"
)

// maxHoles is how many holes an index tells apart; more become one with the last.
const maxHoles = 256

// hole is a place in a segment where lines are damaged: what the disk has there
// no store wrote. They are left out of every answer, and counted.
type hole struct {
	From  int64 `json:"from"` // the time of the line before, in ns since 1970
	To    int64 `json:"to"`   // of the line behind
	Lines int   `json:"lines"`
}

// within reports whether the hole may have lines in [start, end).
func (h hole) within(start, end int64) bool { return h.From < end && h.To >= start }

// addHole notes lines that are damaged between two times.
func (x *index) addHole(from, to int64, lines int) {
	h := hole{min(from, to), max(from, to), lines}
	if n := len(x.holes); n == maxHoles {
		last := &x.holes[n-1]
		*last = hole{min(last.From, h.From), max(last.To, h.To), last.Lines + h.Lines}
		return
	}
	x.holes = append(x.holes, h)
}

// damaged counts the lines in the holes.
func (x *index) damaged() (n int) {
	for _, h := range x.holes {
		n += h.Lines
	}
	return n
}

// hurt notes a damaged line.
func (b *builder) hurt() { b.hurts++ }

// healed ends a hole: the next line is of ts, or there is none.
func (b *builder) healed(ts int64) {
	if b.hurts == 0 {
		return
	}
	from := int64(noTime)
	switch n := len(b.x.ts); {
	case n > 0:
		from = b.x.ts[n-1]
	case ts != math.MaxInt64:
		from = ts
	}
	b.x.addHole(from, ts, b.hurts)
	b.hurts = 0
}

// missed notes that a segment had once more lines than are found in it now: those
// of its old summary. Where its end is still there, they may be of any time.
func (b *builder) missed(old summary) {
	n := old.rows - len(b.x.ts) - b.x.damaged()
	if n <= 0 {
		return
	}
	from := old.min
	if len(b.x.ts) > 0 && b.x.max < old.max {
		from = b.x.max
	}
	b.x.addHole(from, old.max, n)
}

// spoiled notes rows of segments whose lines turned out to be damaged.
func (s *Store) spoiled(refs []ref) {
	var first []*segment
	s.mu.Lock()
	for _, r := range refs {
		if r.v.g.spoiled == nil {
			r.v.g.spoiled = map[int]int64{}
			first = append(first, r.v.g)
		}
		r.v.g.spoiled[r.row] = r.v.x.ts[r.row]
	}
	s.mu.Unlock()
	for _, g := range first {
		s.o.Log(fmt.Sprintf("embedded log: lines of %s are damaged on the disk; they are left out of answers", filepath.Base(g.path)))
	}
}

// damaged counts the lines in [start, end) that are known to be damaged, or all
// of them where the index that says so was not loaded yet.
func (s *Store) damaged(start, end int64) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.segs {
		switch {
		case g.holes != nil:
			for _, h := range g.holes {
				if h.within(start, end) {
					n += h.Lines
				}
			}
		case g.sum != nil && g.sum.damaged > 0 && (g.sum.rows == 0 || g.sum.min < end && g.sum.max >= start):
			n += g.sum.damaged
		}
		for _, ts := range g.spoiled {
			if ts >= start && ts < end {
				n++
			}
		}
	}
	return n
}

// Damaged counts the stored lines that are known to be damaged on the disk and left
// out of answers. It is found when they are read.
func (s *Store) Damaged() int { return s.damaged(math.MinInt64, math.MaxInt64) }

// damage says that n lines are left out; "" if none is.
func damage(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "at least 1 stored line is damaged on the disk and left out"
	}
	return fmt.Sprintf("at least %d stored lines are damaged on the disk and left out", n)
}

// damage is what is known of damaged lines in the time that was asked for.
func (r *reader) damage() string {
	return damage(r.damaged(r.start, r.end))
}

// changed reports whether the newest segment's file, of size bytes, is not as long
// as its writer left it: somebody else cut it or wrote to it.
func (w *writer) changed(size int64) bool { return size != w.size-int64(len(w.out)) }

// giveUp leaves a segment that somebody else changed. Its index is made again from
// what is there.
func (w *writer) giveUp() {
	w.s.o.Log(fmt.Sprintf("embedded log: %s was changed by somebody else; going on with a new one", filepath.Base(w.seg.path)))
	w.abandonLines()
}
