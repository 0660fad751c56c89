package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
)

// textHash is a running hash of texts, the same in every process and version:
// which conversations are in an upstream's share hangs on it.
type textHash uint64

const (
	hashSpread = 0x9e3779b97f4a7c15
	hashEnd    = 0xd6e8feb86659fd93
)

// text returns h with one more text.
func (h textHash) text(b []byte) textHash {
	x := h.begin(len(b))
	for ; len(b) >= 8; b = b[8:] {
		x = fold(x^binary.LittleEndian.Uint64(b), hashSpread)
	}
	return endHash(x, b)
}

func (h textHash) begin(length int) uint64 { return uint64(h) ^ uint64(length)*hashSpread }

// endHash returns a text's hash with the rest of it, less than eight bytes.
func endHash(x uint64, rest []byte) textHash {
	var tail uint64
	for i, c := range rest {
		tail |= uint64(c) << (8 * i)
	}
	return textHash(fold(x^tail, hashEnd))
}

// join returns h with all that o hashed.
func (h textHash) join(o textHash) textHash {
	return textHash(fold(uint64(h)^uint64(o)+hashSpread, hashEnd))
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// longText is from where a text is hashed while it is validated. Each step of
// the hash waits for the one before; validation has room between them.
const longText = 64

// words reads the string at pos, which stands on its opening quote. Its bytes
// go into h, if not nil.
func (q *request) words(h *textHash) {
	if h == nil {
		q.str()
		return
	}
	start := q.pos + 1
	if end := closingQuote(q.data, start); end-start >= longText {
		if x, ok := h.valid(q.data[start:end]); ok {
			*h = x
			q.pos = end + 1
			return
		}
	}
	if t, ok := q.str(); ok { // which also says what is wrong, if anything is
		*h = h.text(q.data[t.start:t.end])
	}
}

// closingQuote returns where the string ends whose bytes begin at start, if all
// of it is valid; -1 if it does not end. A quote is escaped if the backslashes
// before it are odd.
func closingQuote(data []byte, start int) int {
	for from := start; ; {
		n := bytes.IndexByte(data[from:], '"')
		if n < 0 {
			return -1
		}
		quote := from + n
		slashes := quote
		for slashes > from && data[slashes-1] == '\\' {
			slashes--
		}
		if (quote-slashes)%2 == 0 {
			return quote
		}
		from = quote + 1
	}
}

// valid returns h with the text of a string's bytes, without quotes, and
// whether they are all valid.
func (h textHash) valid(raw []byte) (textHash, bool) {
	x := h.begin(len(raw))
	next := 0 // what stands before is part of an escape that was looked at
	i := 0
	for ; i+32 <= len(raw); i += 32 {
		b := raw[i : i+32]
		b0, b1, b2, b3 := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]),
			binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		x = fold(x^b0, hashSpread)
		x = fold(x^b1, hashSpread)
		x = fold(x^b2, hashSpread)
		x = fold(x^b3, hashSpread)
		s0, s1, s2, s3 := stops(b0), stops(b1), stops(b2), stops(b3)
		if s0|s1|s2|s3 != 0 {
			next = validStops(raw, i, s0, next)
			next = validStops(raw, i+8, s1, next)
			next = validStops(raw, i+16, s2, next)
			if next = validStops(raw, i+24, s3, next); next > len(raw) {
				return 0, false
			}
		}
	}
	for ; i+8 <= len(raw); i += 8 {
		b := binary.LittleEndian.Uint64(raw[i:])
		x = fold(x^b, hashSpread)
		next = validStops(raw, i, stops(b), next)
	}
	for k := max(i, next); k < len(raw); k++ {
		if c := raw[k]; c < ' ' || c == '"' || c == '\\' {
			next = validStops(raw, k, 1, next)
			k = next - 1
		}
	}
	return endHash(x, raw[i:]), next <= len(raw)
}

// validStops validates the bytes of the word at raw[i] that are marked, as by
// stops, and the escapes that begin there. next is the end of the last escape
// before; the new one is returned, notValid if something is not valid.
func validStops(raw []byte, i int, marked uint64, next int) int {
	for ; marked != 0; marked &= marked - 1 {
		at := i + bits.TrailingZeros64(marked)>>3
		if at < next {
			continue
		}
		switch c := raw[at]; {
		case c == '\\':
			n := escape(raw[at:])
			if n == 0 {
				return notValid
			}
			next = at + n
		case c < ' ', c == '"':
			return notValid
		}
	}
	return next
}

const notValid = math.MaxInt

// escape is the length of the escape that b begins with, 0 if it is none.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]) {
			return 6
		}
	}
	return 0
}
