package logs

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"weak"

	"failback/sources/logql"
)

// gap is how much between two lines is read rather than skipped.
const gap = 8 << 10

var noIndex weak.Pointer[index]

// ref is a line of a segment.
type ref struct {
	v   *view
	row int
}

// block is a run of lines that are read together.
type block struct {
	refs []ref
	size int64 // of the lines

	done  chan struct{} // closed when what follows is there
	lines [][]byte      // nil: surely not in the answer
	err   error
	bad   []ref // damaged on the disk

	buf   []byte
	order []int
}

var blockPool = sync.Pool{New: func() any { return new(block) }}

func (p *plan) newBlock() *block {
	b := blockPool.Get().(*block)
	*b = block{refs: b.refs[:0], lines: b.lines[:0], buf: b.buf[:0], order: b.order[:0], done: make(chan struct{})}
	return b
}

// free gives the block back. Its lines are no longer valid.
func (b *block) free() {
	clear(b.refs)
	if cap(b.buf) <= 4*blockBytes {
		blockPool.Put(b)
	}
}

func (b *block) add(c *cursor) {
	row := c.row()
	b.refs = append(b.refs, ref{c.v, row})
	b.size += c.v.x.until(row) - int64(c.v.x.off[row])
}

func (b *block) full(lines int) bool { return len(b.refs) >= lines || b.size >= blockBytes }

// read reads the lines, those close to one another together. A line that is not
// what was written is damaged: it is in bad and not in lines, whatever became of
// its neighbours.
func (b *block) read(need need) {
	for i := range b.refs {
		b.order = append(b.order, i)
	}
	slices.SortFunc(b.order, func(i, j int) int {
		r, o := b.refs[i], b.refs[j]
		return cmp.Or(cmp.Compare(r.v.g.number, o.v.g.number), cmp.Compare(r.row, o.row))
	})
	b.lines = slices.Grow(b.lines, len(b.refs))[:len(b.refs)]
	// First how much there is to read, so that the buffer stays where it is.
	total := 0
	b.extents(func(_ []int, from, to int64) { total += int(to - from) })
	b.buf = slices.Grow(b.buf[:0], total)
	b.extents(func(run []int, from, to int64) {
		v := b.refs[run[0]].v
		at := len(b.buf)
		b.buf = b.buf[:at+int(to-from)]
		part := b.buf[at:]
		n, err := v.f.ReadAt(part, from)
		clear(part[n:])
		for _, i := range run {
			r := b.refs[i]
			off := int64(v.x.off[r.row])
			line := part[off-from : v.x.until(r.row)-from]
			if err != nil { // perhaps of other lines alone
				n, _ := v.f.ReadAt(line, off)
				clear(line[n:])
			}
			b.lines[i] = nil
			end := bytes.IndexByte(line, '\n')
			if end < 0 || sum(line[:end]) != v.x.sums[r.row] {
				b.bad = append(b.bad, r)
				continue
			}
			if line = line[:end:end]; need.allows(line, v.labels[v.x.stream(r.row)]) {
				b.lines[i] = line
			}
		}
	})
}

// yield hands the lines on, in turn with other questions. It reports whether
// there should be more; the error is that of ctx.
func (b *block) yield(ctx context.Context, own *turn, yield func(logql.Entry) bool) (more bool, err error) {
	if err := own.begin(ctx); err != nil {
		return false, err
	}
	for i, r := range b.refs {
		line := b.lines[i]
		if line == nil {
			continue
		}
		x := r.v.x
		if !yield(logql.Entry{TS: x.ts[r.row], Labels: r.v.labels[x.stream(r.row)], Line: line}) {
			own.end(ctx)
			return false, nil
		}
		if err := own.line(ctx); err != nil {
			return false, err
		}
	}
	own.end(ctx)
	return true, nil
}

// extents calls f for each run of lines of one segment that lie close to one
// another, with the part of the file that holds them.
func (b *block) extents(f func(run []int, from, to int64)) {
	for i := 0; i < len(b.order); {
		r := b.refs[b.order[i]]
		from, to := int64(r.v.x.off[r.row]), r.v.x.until(r.row)
		j := i + 1
		for ; j < len(b.order); j++ {
			n := b.refs[b.order[j]]
			if n.v != r.v || int64(n.v.x.off[n.row])-to > gap {
				break
			}
			to = n.v.x.until(n.row)
		}
		f(b.order[i:j], from, to)
		i = j
	}
}
