package wire

import (
	"encoding/binary"
	"math/bits"
)

// maxDepth is how deep encoding/json lets values nest.
const maxDepth = 10000

// scanner is a cursor over JSON text. It accepts exactly what encoding/json
// accepts and hands out positions, never copies. Whoever reads a value either
// takes it apart (object, array, text) or steps over it (skip); both validate
// every byte. The first fault sticks: after it every method says no, so a
// caller looks at fault once, at the end.
//
// An object is read as
//
//	for more := s.object(); more; more = s.next('}') {
//		switch string(s.key()) { ... each case reads one value ... }
//	}
//
// and an array alike, with array, next(']') and no key.
type scanner struct {
	data  []byte
	pos   int
	depth int

	fault string // what is wrong, empty while nothing is
	at    int    // where
	cut   bool   // what is wrong is that the text ends

	keyStart, keyEnd int  // span of the last key's bytes, without quotes
	keyEscaped       bool // it holds a backslash
	scratch          []byte
}

// token is the span of a string's bytes, without quotes.
type token struct {
	start, end int
	escaped    bool // it holds a backslash
}

func (t token) empty() bool { return t.start == t.end }

// reset starts on data, keeping only memory.
func (s *scanner) reset(data []byte) {
	scratch := s.scratch
	*s = scanner{data: data, scratch: scratch}
}

func (s *scanner) fail(what string) bool {
	if s.fault == "" {
		s.fault, s.at, s.cut = what, min(s.pos, len(s.data)), s.pos >= len(s.data)
		if s.cut {
			s.fault = "unexpected end"
		}
	}
	s.pos = len(s.data)
	return false
}

// peek steps over white space and returns the byte it then stands on, 0 at the
// end. No JSON value begins with 0.
func (s *scanner) peek() byte {
	data, i := s.data, s.pos
	for i < len(data) {
		c := data[i]
		if c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			s.pos = i
			return c
		}
		i++
	}
	s.pos = i
	return 0
}

// end reports whether nothing but white space follows.
func (s *scanner) end() bool {
	if s.peek() != 0 || s.pos < len(s.data) {
		return s.fail("more text after the value")
	}
	return s.fault == ""
}

func (s *scanner) down() bool {
	if s.depth++; s.depth > maxDepth {
		return s.fail("nested too deeply")
	}
	s.pos++
	return true
}

// object enters the object that comes next and reports whether it has a
// member. Any other value is stepped over.
func (s *scanner) object() bool { return s.enter('{', '}') }

// array enters the array that comes next and reports whether it has an
// element. Any other value is stepped over.
func (s *scanner) array() bool { return s.enter('[', ']') }

func (s *scanner) enter(open, closing byte) bool {
	if s.peek() != open {
		s.skip()
		return false
	}
	if !s.down() {
		return false
	}
	if s.peek() == closing {
		s.pos++
		s.depth--
		return false
	}
	return s.fault == ""
}

// next goes on after a member or element and reports whether another follows.
func (s *scanner) next(closing byte) bool {
	switch c := s.peek(); {
	case s.fault != "":
		return false
	case c == ',':
		s.pos++
		return true
	case c == closing:
		s.pos++
		s.depth--
		return false
	}
	if closing == '}' {
		return s.fail("expected , or } in an object")
	}
	return s.fail("expected , or ] in an array")
}

// key reads a member's name and the colon after it. The name is unescaped and
// valid until the next key; it is nil after a fault.
func (s *scanner) key() []byte {
	t, ok := s.name()
	if !ok {
		return nil
	}
	s.keyStart, s.keyEnd, s.keyEscaped = t.start, t.end, t.escaped
	if !t.escaped {
		return s.data[t.start:t.end]
	}
	s.scratch = unquote(s.scratch[:0], s.data[t.start:t.end])
	return s.scratch
}

func (s *scanner) name() (token, bool) {
	if s.peek() != '"' {
		return token{}, s.fail("expected a name in an object")
	}
	t, ok := s.str()
	if !ok {
		return token{}, false
	}
	if s.peek() != ':' {
		return token{}, s.fail("expected : after a name")
	}
	s.pos++
	return t, true
}

// text reads the string that comes next. Any other value is stepped over.
func (s *scanner) text() (token, bool) {
	if s.peek() != '"' {
		s.skip()
		return token{}, false
	}
	return s.str()
}

// value returns t's text. The bytes are part of the input where nothing had to
// be unescaped.
func (s *scanner) value(t token) []byte {
	raw := s.data[t.start:t.end]
	if !t.escaped {
		return raw
	}
	return unquote(nil, raw)
}

// is reports whether t's text is word, without allocating.
func (s *scanner) is(t token, word string) bool {
	return !t.escaped && string(s.data[t.start:t.end]) == word || t.escaped && string(s.value(t)) == word
}

// raw steps over the value that comes next and returns its bytes.
func (s *scanner) raw() []byte {
	s.peek()
	start := s.pos
	if !s.skip() {
		return nil
	}
	return s.data[start:s.pos]
}

// skip steps over the value that comes next, validating it.
func (s *scanner) skip() bool {
	switch c := s.peek(); c {
	case '{', '[':
		return s.skipNested()
	default:
		return s.scalar(c)
	}
}

// scalar steps over the value at pos, which begins with c and is no object or
// array.
func (s *scanner) scalar(c byte) bool {
	switch c {
	case '"':
		_, ok := s.str()
		return ok
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

// skipNested steps over the object or array at pos. It does not recurse, so
// that depth costs no stack.
func (s *scanner) skipNested() bool {
	// One bit per open level, set for an object: the last 64 levels here, the
	// ones above in spill.
	var levels uint64
	var spill []uint64
	open := 0
	push := func(object bool) {
		if open%64 == 0 && open > 0 {
			spill = append(spill, levels)
		}
		levels <<= 1
		if object {
			levels |= 1
		}
		open++
	}
	pop := func() {
		s.pos++
		s.depth--
		open--
		levels >>= 1
		if open%64 == 0 && open > 0 {
			levels = spill[len(spill)-1]
			spill = spill[:len(spill)-1]
		}
	}
value:
	for {
		switch c := s.peek(); c {
		case '{':
			if !s.down() {
				return false
			}
			push(true)
			if s.peek() != '}' {
				if _, ok := s.name(); !ok {
					return false
				}
				continue value
			}
			pop()
		case '[':
			if !s.down() {
				return false
			}
			push(false)
			if s.peek() != ']' {
				continue value
			}
			pop()
		default:
			if !s.scalar(c) {
				return false
			}
		}
		for open > 0 {
			c, object := s.peek(), levels&1 != 0
			switch {
			case c == ',':
				s.pos++
				if object {
					if _, ok := s.name(); !ok {
						return false
					}
				}
				continue value
			case c == '}' && object, c == ']' && !object:
				pop()
			case object:
				return s.fail("expected , or } in an object")
			default:
				return s.fail("expected , or ] in an array")
			}
		}
		return true
	}
}

func (s *scanner) literal(word string) bool {
	rest := s.data[s.pos:]
	for i := range len(word) {
		if i == len(rest) || rest[i] != word[i] {
			s.pos += i
			return s.fail("expected a value")
		}
	}
	s.pos += len(word)
	return true
}

// number steps over a number.
func (s *scanner) number() bool {
	data, i := s.data, s.pos
	if i < len(data) && data[i] == '-' {
		i++
	}
	if i < len(data) && data[i] == '0' {
		i++
	} else {
		first := i
		for i < len(data) && data[i]-'0' <= 9 {
			i++
		}
		if s.pos = i; i == first {
			return s.fail("expected a value")
		}
	}
	if i < len(data) && (data[i] == '.' || data[i]|0x20 == 'e') {
		return s.fraction(i)
	}
	s.pos = i
	return true
}

// fraction steps over what follows a number's whole part, at i.
func (s *scanner) fraction(i int) bool {
	data := s.data
	digits := func() bool {
		start := i
		for i < len(data) && data[i]-'0' <= 9 {
			i++
		}
		s.pos = i
		return i > start
	}
	if data[i] == '.' {
		i++
		if !digits() {
			return s.fail("expected a digit in a number")
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		if !digits() {
			return s.fail("expected a digit in a number")
		}
	}
	s.pos = i
	return true
}

// str reads the string at pos, which stands on its opening quote.
func (s *scanner) str() (token, bool) {
	data := s.data
	t := token{start: s.pos + 1}
	i := t.start
	for {
		i = plain(data, i)
		if i >= len(data) {
			s.pos = len(data)
			return token{}, s.fail("string without an end")
		}
		switch data[i] {
		case '"':
			t.end = i
			s.pos = i + 1
			return t, true
		case '\\':
			t.escaped = true
			if i+1 >= len(data) {
				s.pos = len(data)
				return token{}, s.fail("string without an end")
			}
			switch data[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				for k := i + 2; k < i+6; k++ {
					if s.pos = k; k >= len(data) || !isHex(data[k]) {
						return token{}, s.fail("bad \\u escape in a string")
					}
				}
				i += 6
			default:
				s.pos = i + 1
				return token{}, s.fail("bad escape in a string")
			}
		default:
			s.pos = i
			return token{}, s.fail("control character in a string")
		}
	}
}

func isHex(c byte) bool {
	return c-'0' <= 9 || c|0x20-'a' <= 5
}

// plain returns the index of the first byte at or after i that ends a run of
// ordinary string bytes: a quote, a backslash or a control character; len(data)
// if there is none.
func plain(data []byte, i int) int {
	for i+32 <= len(data) {
		// Most strings are short: they end in one of these.
		b := data[i : i+32]
		if m := stops(binary.LittleEndian.Uint64(b)); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		if m := stops(binary.LittleEndian.Uint64(b[8:])); m != 0 {
			return i + 8 + bits.TrailingZeros64(m)>>3
		}
		if m := stops(binary.LittleEndian.Uint64(b[16:])); m != 0 {
			return i + 16 + bits.TrailingZeros64(m)>>3
		}
		if m := stops(binary.LittleEndian.Uint64(b[24:])); m != 0 {
			return i + 24 + bits.TrailingZeros64(m)>>3
		}
		for i += 32; i+32 <= len(data); i += 32 {
			b := data[i : i+32]
			if stops(binary.LittleEndian.Uint64(b))|stops(binary.LittleEndian.Uint64(b[8:]))|
				stops(binary.LittleEndian.Uint64(b[16:]))|stops(binary.LittleEndian.Uint64(b[24:])) != 0 {
				break
			}
		}
	}
	for ; i+8 <= len(data); i += 8 {
		if m := stops(binary.LittleEndian.Uint64(data[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(data); i++ {
		if c := data[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// stops marks bytes of x that are a quote, a backslash or a control character
// by their highest bit. In x - k·lowBits, bytes below k borrow: the lowest byte
// that did is exact, one above it may be marked without reason, and none is
// missed. A quote is the one byte that x^2 puts next to the control characters,
// which it leaves where they are.
func stops(x uint64) uint64 {
	const lowBits = 0x0101010101010101
	control, slash := x^(lowBits*2), x^(lowBits*'\\')
	return ((control - lowBits*('"'-1)) | (slash - lowBits)) &^ x & (lowBits << 7)
}
