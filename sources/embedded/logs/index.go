package logs

import (
	"encoding/binary"
	"maps"
	"slices"
)

const (
	// maxShapes is how many different combinations of values an index tells
	// apart, and maxValues how many different values; of lines with others it
	// says only the time and the stream. So it stays small whatever is written.
	maxShapes = 16 << 10
	maxValues = 16 << 10
	// maxStreams is how many streams a segment may have.
	maxStreams = 1 << 10
)

// unknown is the code of a value that the index does not say, absent that of
// "" and of a field that a line does not have.
const (
	unknown = 0
	absent  = 1
)

// index says of each line of a segment its time, its place and its shape. It
// only ever grows: a copy stays what it was.
type index struct {
	fields []string
	size   int64 // of the file, up to where the index describes it

	// One per line, in order of arrival.
	ts    []int64
	off   []uint32 // of its first byte
	shape []uint16
	sums  []uint32 // checksums of the lines

	shapes  []uint32 // stride() codes each: of the stream, then of each field
	values  []string // by code, from absent on
	streams []map[string]string

	holes []hole // where there are damaged lines, which have no rows

	min, max int64 // of ts, if there are lines
	sorted   bool  // ts never falls
}

// stride is how many codes a shape has.
func (x *index) stride() int { return 1 + len(x.fields) }

// stream is the number of the stream that a row belongs to.
func (x *index) stream(row int) uint32 { return x.shapes[int(x.shape[row])*x.stride()] }

// until returns the place behind line row and whatever follows it in the file
// before the next line.
func (x *index) until(row int) int64 {
	if row+1 < len(x.off) {
		return int64(x.off[row+1])
	}
	return x.size
}

// builder makes an index, line by line.
type builder struct {
	x      index
	scan   *scanner
	stream int // of the next line

	codes  map[string]uint32
	shapes map[string]uint16
	hurts  int      // damaged lines since the last whole one
	plain  []uint16 // by stream: its shape with nothing known
	key    []byte
	row    []uint32
}

// newBuilder returns a builder of an empty index.
func newBuilder(fields []string) *builder {
	return &builder{
		x: index{fields: fields, sorted: true, values: []string{""}}, scan: newScanner(fields), stream: -1,
		codes: map[string]uint32{"": absent}, shapes: map[string]uint16{}, row: make([]uint32, 1+len(fields)),
	}
}

// resume returns a builder that continues an index.
func resume(x *index) *builder {
	b := newBuilder(x.fields)
	b.x = *x
	for i, v := range x.values {
		b.codes[v] = uint32(i + absent)
	}
	n := x.stride()
	for i := range len(x.shapes) / n {
		s := x.shapes[i*n : (i+1)*n]
		b.shapes[string(b.pack(s))] = uint16(i)
		// The first shape of a stream is the one with nothing known.
		if int(s[0]) == len(b.plain) {
			b.plain = append(b.plain, uint16(i))
		}
	}
	return b
}

// setStream says which labels the next lines have, and reports whether there
// was room for them.
func (b *builder) setStream(labels map[string]string) bool {
	for i, l := range b.x.streams {
		if maps.Equal(l, labels) {
			b.stream = i
			return true
		}
	}
	if len(b.x.streams) == maxStreams {
		return false
	}
	b.stream = len(b.x.streams)
	b.x.streams = append(b.x.streams, maps.Clone(labels))
	clear(b.row)
	b.row[0] = uint32(b.stream)
	b.plain = append(b.plain, b.intern())
	return true
}

// add notes the line at off. b.scan has read it last.
func (b *builder) add(ts int64, off int64, line []byte) {
	x := &b.x
	if n := len(x.ts); n == 0 {
		x.min, x.max = ts, ts
	} else {
		x.sorted = x.sorted && ts >= x.ts[n-1]
		x.min, x.max = min(x.min, ts), max(x.max, ts)
	}
	x.ts = append(x.ts, ts)
	x.off = append(x.off, uint32(off))
	x.sums = append(x.sums, sum(line))
	b.row[0] = uint32(b.stream)
	for i, v := range b.scan.vals {
		b.row[1+i] = b.code(v)
	}
	x.shape = append(x.shape, b.intern())
}

// code returns the code of a value, a new one if there is room.
func (b *builder) code(v value) uint32 {
	if !v.known {
		return unknown
	}
	if c, ok := b.codes[string(v.text)]; ok {
		return c
	}
	if len(b.x.values) == maxValues {
		return unknown
	}
	s := string(v.text)
	b.x.values = append(b.x.values, s)
	c := uint32(len(b.x.values) - 1 + absent)
	b.codes[s] = c
	return c
}

// intern returns the shape that b.row describes, or the stream's plain one if
// there is no room for another.
func (b *builder) intern() uint16 {
	b.key = b.pack(b.row)
	if s, ok := b.shapes[string(b.key)]; ok {
		return s
	}
	n := len(b.x.shapes) / b.x.stride()
	if n >= maxShapes && len(b.plain) > b.stream {
		return b.plain[b.stream]
	}
	b.x.shapes = append(b.x.shapes, b.row...)
	b.shapes[string(b.key)] = uint16(n)
	return uint16(n)
}

func (b *builder) pack(row []uint32) []byte {
	b.key = b.key[:0]
	for _, c := range row {
		b.key = binary.LittleEndian.AppendUint32(b.key, c)
	}
	return b.key
}

// view returns the index as it is now; adding more does not change it.
func (b *builder) view() *index {
	x := b.x
	x.ts, x.off, x.shape, x.sums = slices.Clip(x.ts), slices.Clip(x.off), slices.Clip(x.shape), slices.Clip(x.sums)
	x.holes = slices.Clone(x.holes)
	x.shapes, x.values, x.streams = slices.Clip(x.shapes), slices.Clip(x.values), slices.Clip(x.streams)
	return &x
}
