package logs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"weak"
)

const (
	lineSuffix = ".log"
	sideSuffix = ".idx"
)

// segment is a file of lines and its side file.
type segment struct {
	number uint64
	path   string

	loading sync.Mutex // one reader makes the index, the others get it
	cached  weak.Pointer[index]

	// What follows is guarded by the store's mu.

	size     int64         // of the file
	sideSize int64         // of the side file
	sum      *summary      // nil: unknown until the index is loaded
	live     *index        // of the segment that is written to
	holes    []hole        // as its index says; nil: none, or it was not loaded yet
	spoiled  map[int]int64 // the times of rows that were found to be damaged
	readers  int
	dropped  bool // to be deleted by the last reader
}

func newSegment(dir string, number uint64) *segment {
	return &segment{number: number, path: filepath.Join(dir, fmt.Sprintf("%08d", number)+lineSuffix)}
}

// segmentNumber returns the number in a segment's name.
func segmentNumber(name string) (uint64, bool) {
	s, ok := strings.CutSuffix(name, lineSuffix)
	if !ok || len(s) < 8 {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

func (g *segment) side() string { return strings.TrimSuffix(g.path, lineSuffix) + sideSuffix }

// remove deletes the segment's files.
func (g *segment) remove() error { return errors.Join(removeIf(g.path), removeIf(g.side())) }

// removeIf deletes a file if it is there.
func removeIf(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// bounds returns between which times the segment's lines are; of what is
// unknown, between all times.
func (g *segment) bounds() (low, high int64) {
	switch {
	case g.live != nil && len(g.live.ts) == 0, g.sum != nil && g.sum.rows == 0:
		return math.MaxInt64, math.MinInt64
	case g.live != nil:
		return g.live.min, g.live.max
	case g.sum != nil:
		return g.sum.min, g.sum.max
	}
	return math.MinInt64, math.MaxInt64
}

// scanFile makes the index of f from its lines. It ends at the last whole
// line; labels are those of lines that nothing is said of.
func scanFile(f io.Reader, fields []string, labels map[string]string) (*builder, error) {
	b := newBuilder(fields)
	r := bufio.NewReaderSize(f, 2*maxLine)
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			// No store writes such a line: it is passed over.
			n := int64(len(line))
			for errors.Is(err, bufio.ErrBufferFull) {
				line, err = r.ReadSlice('\n')
				n += int64(len(line))
			}
			if err == nil {
				b.hurt()
				b.x.size += n
				continue
			}
		case err == nil:
			b.record(line[:len(line)-1], b.x.size, labels)
			b.x.size += int64(len(line))
			continue
		}
		if err == io.EOF {
			b.healed(math.MaxInt64)
			return b, nil
		}
		return nil, err
	}
}

// record adds what a line of the file at off says. What no store
// writes is damaged.
func (b *builder) record(text []byte, off int64, labels map[string]string) {
	r, ok := parseRecord(text)
	if !ok {
		b.hurt()
		return
	}
	if r.labels != nil {
		b.setStream(r.labels)
		return
	}
	line := text[r.start:]
	ts := b.scan.line(line)
	switch {
	case r.ts != noTime:
		ts = r.ts
	case needsTime(line, ts, b.scan.whole):
		ts = noTime
	}
	if ts == noTime || b.stream < 0 && !b.setStream(labels) {
		b.hurt()
		return
	}
	b.healed(ts)
	b.add(ts, off+int64(r.start), line)
}

// wholeLines returns how many of the first size bytes of f are whole lines. A
// power failure leaves zeros at the end: they are no line.
func wholeLines(f io.ReaderAt, size int64) (int64, error) {
	b := make([]byte, 64<<10)
	zeros := true
	for size > 0 {
		n := min(size, int64(len(b)))
		if _, err := f.ReadAt(b[:n], size-n); err != nil {
			return 0, err
		}
		part := b[:n]
		if zeros {
			part = bytes.TrimRight(part, "\x00")
			zeros = len(part) == 0
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return size - n + int64(i) + 1, nil
		}
		size -= n
	}
	return 0, nil
}
