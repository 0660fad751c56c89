package logs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
)

// A side file keeps the index of a segment, so that a start does not have to
// read the lines again. It begins with a summary, which has a checksum of its
// own: that is all a start reads.

const (
	sideMagic   = "fblogix2"
	summarySize = 64
	// tailSize is how much of the end of a segment is compared.
	tailSize = 4 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// errSide says that a side file is not, or not entirely, of its segment.
var errSide = errors.New("the index does not belong to the lines")

// summary is what can be known of a segment without its index.
type summary struct {
	size     int64  // of the segment's file, as far as it holds whole lines
	tail     uint32 // checksum of the end of that
	rows     int
	min, max int64
	sorted   bool
	bodySize int64
	body     uint32 // checksum of the index that follows
	damaged  int    // lines that are not among rows
}

// summary returns what there is to know of x without reading its segment again.
func (x *index) summary() *summary {
	return &summary{size: x.size, rows: len(x.ts), min: x.min, max: x.max, sorted: x.sorted, damaged: x.damaged()}
}

func (s summary) encode() []byte {
	b := make([]byte, 0, summarySize)
	b = append(b, sideMagic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.size))
	b = binary.LittleEndian.AppendUint32(b, s.tail)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.rows))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.min))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.max))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.bodySize))
	b = binary.LittleEndian.AppendUint32(b, s.body)
	sorted := uint32(0)
	if s.sorted {
		sorted = 1
	}
	b = binary.LittleEndian.AppendUint32(b, sorted)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.damaged))
	b = append(b, make([]byte, summarySize-4-len(b))...)
	return binary.LittleEndian.AppendUint32(b, sum(b))
}

func decodeSummary(b []byte) (summary, error) {
	if len(b) < summarySize || string(b[:8]) != sideMagic ||
		binary.LittleEndian.Uint32(b[summarySize-4:]) != sum(b[:summarySize-4]) {
		return summary{}, errSide
	}
	le := binary.LittleEndian
	return summary{
		size: int64(le.Uint64(b[8:])), tail: le.Uint32(b[16:]), rows: int(le.Uint32(b[20:])),
		min: int64(le.Uint64(b[24:])), max: int64(le.Uint64(b[32:])),
		bodySize: int64(le.Uint64(b[40:])), body: le.Uint32(b[48:]), sorted: le.Uint32(b[52:]) == 1,
		damaged: int(le.Uint32(b[56:])),
	}, nil
}

// tailSum returns the checksum of the end of the first size bytes of f.
func tailSum(f io.ReaderAt, size int64) (uint32, error) {
	b := make([]byte, min(size, tailSize))
	if _, err := f.ReadAt(b, size-int64(len(b))); err != nil {
		return 0, err
	}
	return sum(b), nil
}

// names is what an index says in words.
type names struct {
	Fields  []string            `json:"fields"`
	Streams []map[string]string `json:"streams"`
	Values  [][]byte            `json:"values"`
	Holes   []hole              `json:"holes"`
}

func encodeIndex(x *index) ([]byte, error) {
	n := names{Fields: x.fields, Streams: x.streams, Holes: x.holes}
	for _, v := range x.values {
		n.Values = append(n.Values, []byte(v)) // may be no text
	}
	words, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, 12+len(words)+4*len(x.shapes)+18*len(x.ts))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(words)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(x.shapes)))
	b = append(b, words...)
	for _, c := range x.shapes {
		b = binary.LittleEndian.AppendUint32(b, c)
	}
	for _, ts := range x.ts {
		b = binary.LittleEndian.AppendUint64(b, uint64(ts))
	}
	for _, o := range x.off {
		b = binary.LittleEndian.AppendUint32(b, o)
	}
	for _, s := range x.shape {
		b = binary.LittleEndian.AppendUint16(b, s)
	}
	for _, s := range x.sums {
		b = binary.LittleEndian.AppendUint32(b, s)
	}
	return b, nil
}

// decodeIndex reads what encodeIndex wrote. It trusts nothing: an index that
// points anywhere else than into itself and its segment is errSide.
func decodeIndex(s summary, b []byte, fields []string) (*index, error) {
	if int64(len(b)) != s.bodySize || sum(b) != s.body || len(b) < 8 {
		return nil, errSide
	}
	le := binary.LittleEndian
	words, shapes := int(le.Uint32(b)), int(le.Uint32(b[4:]))
	b = b[8:]
	if len(b) != words+4*shapes+18*s.rows {
		return nil, errSide
	}
	var n names
	if json.Unmarshal(b[:words], &n) != nil || !slices.Equal(n.Fields, fields) {
		return nil, errSide
	}
	b = b[words:]
	x := &index{
		fields: fields, size: s.size, streams: n.Streams, min: s.min, max: s.max, sorted: s.sorted, holes: n.Holes,
		sums: make([]uint32, s.rows), ts: make([]int64, s.rows), off: make([]uint32, s.rows), shape: make([]uint16, s.rows), shapes: make([]uint32, shapes),
	}
	for _, v := range n.Values {
		x.values = append(x.values, string(v))
	}
	for i := range x.shapes {
		x.shapes[i] = le.Uint32(b[4*i:])
	}
	b = b[4*shapes:]
	for i := range x.ts {
		x.ts[i] = int64(le.Uint64(b[8*i:]))
	}
	b = b[8*s.rows:]
	for i := range x.off {
		x.off[i] = le.Uint32(b[4*i:])
	}
	b = b[4*s.rows:]
	for i := range x.shape {
		x.shape[i] = le.Uint16(b[2*i:])
	}
	b = b[2*s.rows:]
	for i := range x.sums {
		x.sums[i] = le.Uint32(b[4*i:])
	}
	return x, x.check()
}

// check returns errSide if following the index would lead nowhere.
func (x *index) check() error {
	n := x.stride()
	if len(x.shapes)%n != 0 || len(x.values) == 0 || x.values[0] != "" || x.size > math.MaxUint32 {
		return errSide
	}
	for i, c := range x.shapes {
		if i%n == 0 && int(c) >= len(x.streams) || i%n != 0 && int(c) > len(x.values) {
			return errSide
		}
	}
	for _, h := range x.holes {
		if h.Lines < 1 || h.From > h.To || len(x.holes) > maxHoles {
			return errSide
		}
	}
	at := int64(-1)
	for i, o := range x.off {
		if int64(o) <= at || int64(o) >= x.size || int(x.shape[i]) >= len(x.shapes)/n {
			return errSide
		}
		at = int64(o)
	}
	return nil
}

// writeSide writes the index of the segment in f as the side file name, whole
// or not at all.
func writeSide(name string, x *index, f io.ReaderAt) (size int64, err error) {
	s := *x.summary()
	if s.tail, err = tailSum(f, x.size); err != nil {
		return 0, err
	}
	body, err := encodeIndex(x)
	if err != nil {
		return 0, err
	}
	s.bodySize, s.body = int64(len(body)), sum(body)
	tmp := name + ".tmp"
	if err = os.WriteFile(tmp, append(s.encode(), body...), 0o640); err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		return 0, errors.Join(err, removeIf(tmp))
	}
	return summarySize + s.bodySize, nil
}

// oldSummary reads the summary of a side file that may no longer fit its segment.
func oldSummary(name string) (summary, error) {
	side, err := os.Open(name)
	if err != nil {
		return summary{}, err
	}
	defer side.Close()
	b := make([]byte, summarySize)
	if _, err := io.ReadFull(side, b); err != nil {
		return summary{}, errSide
	}
	return decodeSummary(b)
}

// readSummary reads the beginning of the side file name and compares it with
// the segment in f, which has size bytes.
func readSummary(name string, f io.ReaderAt, size int64) (summary, error) {
	s, err := oldSummary(name)
	if err != nil {
		return s, err
	}
	if s.size != size {
		return s, errSide
	}
	if sum, err := tailSum(f, size); err != nil || sum != s.tail {
		return s, errSide
	}
	info, err := os.Stat(name)
	if err != nil || info.Size() != summarySize+s.bodySize {
		return s, errSide
	}
	return s, nil
}

// readSide reads the whole index of the segment in f.
func readSide(name string, f io.ReaderAt, size int64, fields []string) (*index, error) {
	s, err := readSummary(name, f, size)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if len(b) < summarySize {
		return nil, errSide
	}
	return decodeIndex(s, b[summarySize:], fields)
}
