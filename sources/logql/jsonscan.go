package logql

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// What is wrong with a JSON text, in the words of the answers of Loki.
const (
	jsonMalformed   = "Malformed JSON error"
	jsonNoStringEnd = `Value is string, but can't find closing '"' symbol`
	jsonNoArrayEnd  = "Value is array, but can't find closing ']' symbol"
	jsonNoObjectEnd = "Value looks like object, but can't find closing '}' symbol"
	jsonUnknown     = "Unknown value type"
	jsonBadEscape   = "Encountered an invalid escape sequence in a string"
)

type jsonType uint8

const (
	jsonString jsonType = iota // the value is without its quotes, not unescaped
	jsonNumber
	jsonBool
	jsonNull
	jsonObject
	jsonArray
)

// jsonScanner reads the fields of an object one by one. It is lenient where Loki
// is: it looks only at what it passes, and what comes after the object is never
// looked at.
type jsonScanner struct {
	data  []byte
	off   int
	plain bool // there is no escape in data

	key    []byte // not unescaped
	keyEsc bool
	val    []byte
	typ    jsonType
	err    string // why next returned false; "" at the end of the object
}

func skipSpace(data []byte, off int) int {
	for off < len(data) {
		switch data[off] {
		case ' ', '\n', '\r', '\t':
			off++
		default:
			return off
		}
	}
	return off
}

// open begins the object at the start of data.
func (s *jsonScanner) open(data []byte) bool {
	*s = jsonScanner{data: data, plain: bytes.IndexByte(data, '\\') < 0}
	off := skipSpace(data, 0)
	if off == len(data) || data[off] != '{' {
		s.err = jsonNoObjectEnd
		return false
	}
	off = skipSpace(data, off+1)
	if off == len(data) {
		s.err = jsonMalformed
		return false
	}
	s.off = off
	return true
}

// fail ends the scan.
func (s *jsonScanner) fail(why string) bool {
	s.err = why
	return false
}

// next goes to the next field.
func (s *jsonScanner) next() bool {
	data, off := s.data, s.off
	if off >= len(data) {
		return s.fail(jsonNoObjectEnd)
	}
	switch data[off] {
	case '"':
		off++
	case '}':
		return false
	default:
		return s.fail(jsonNoObjectEnd)
	}
	end, esc := stringEnd(data, off, s.plain)
	if end < 0 {
		return s.fail(jsonMalformed)
	}
	s.key, s.keyEsc = data[off:end], esc
	off = end + 1
	if esc {
		if _, ok := unescape(nil, s.key); !ok {
			return s.fail(jsonBadEscape)
		}
	}
	if off < len(data) && data[off] != ':' {
		off = skipSpace(data, off)
	}
	if off == len(data) || data[off] != ':' {
		return s.fail(jsonMalformed)
	}
	off = skipSpace(data, off+1)
	if off == len(data) {
		return s.fail(jsonMalformed)
	}
	if off = s.value(off); off < 0 {
		return false
	}
	// What follows is judged when the next field is asked for, as the field that
	// was read stands.
	s.off = off
	return true
}

// after goes from the end of a field to the next key or the end of the object.
func (s *jsonScanner) after() bool {
	data := s.data
	off := skipSpace(data, s.off)
	if off == len(data) {
		return s.fail(jsonNoArrayEnd)
	}
	switch data[off] {
	case '}':
		s.off = off
		return true
	case ',':
		off++
	default:
		return s.fail(jsonNoObjectEnd)
	}
	if off = skipSpace(data, off); off == len(data) {
		return s.fail(jsonNoArrayEnd)
	}
	s.off = off
	return true
}

// value reads the value at off and returns its end, or -1.
func (s *jsonScanner) value(off int) int {
	data := s.data
	switch c := data[off]; c {
	case '"':
		end, _ := stringEnd(data, off+1, s.plain)
		if end < 0 {
			s.err = jsonNoStringEnd
			return -1
		}
		s.typ, s.val = jsonString, data[off+1:end]
		return end + 1
	case '[', '{':
		typ, closing, why := jsonArray, byte(']'), jsonNoArrayEnd
		if c == '{' {
			typ, closing, why = jsonObject, '}', jsonNoObjectEnd
		}
		end := blockEnd(data, off, c, closing, s.plain)
		if end < 0 {
			s.err = why
			return -1
		}
		s.typ, s.val = typ, data[off:end]
		return end
	}
	end := off
loop:
	for end < len(data) {
		switch data[end] {
		case ' ', '\n', '\r', '\t', ',', '}', ']':
			break loop
		}
		end++
	}
	v := data[off:end]
	if len(v) == 0 {
		s.err = jsonUnknown
		return -1
	}
	switch c := v[0]; {
	case c == 't' && string(v) == "true", c == 'f' && string(v) == "false":
		s.typ = jsonBool
	case c == 'n' && string(v) == "null":
		s.typ = jsonNull
	case isDigit(c) || c == '-':
		s.typ = jsonNumber
	default:
		s.err = jsonUnknown
		return -1
	}
	s.val = v
	return end
}

// stringEnd finds the quote that closes a string which begins at off. plain says
// that there is no escape.
func stringEnd(data []byte, off int, plain bool) (end int, escaped bool) {
	i := bytes.IndexByte(data[off:], '"')
	if i < 0 {
		return -1, false
	}
	end = off + i
	if plain || bytes.IndexByte(data[off:end], '\\') < 0 {
		return end, false
	}
	for {
		back := 0
		for end-1-back >= off && data[end-1-back] == '\\' {
			back++
		}
		if back%2 == 0 {
			return end, true
		}
		i := bytes.IndexByte(data[end+1:], '"')
		if i < 0 {
			return -1, true
		}
		end += 1 + i
	}
}

// blockEnd returns what comes after the bracket that closes the one at off, or
// -1. Brackets of the other kind are not looked at.
func blockEnd(data []byte, off int, opening, closing byte, plain bool) int {
	level := 0
	for i := off; i < len(data); i++ {
		switch data[i] {
		case '"':
			end, _ := stringEnd(data, i+1, plain)
			if end < 0 {
				return -1
			}
			i = end
		case opening:
			level++
		case closing:
			if level--; level == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// unescape appends a JSON string without its escapes to dst.
func unescape(dst, src []byte) ([]byte, bool) {
	for {
		i := bytes.IndexByte(src, '\\')
		if i < 0 {
			return append(dst, src...), true
		}
		dst = append(dst, src[:i]...)
		src = src[i:]
		if len(src) < 2 {
			return dst, false
		}
		n := 2
		switch src[1] {
		case '"', '\\', '/':
			dst = append(dst, src[1])
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, ok := hexRune(src)
			if !ok {
				return dst, false
			}
			n = 6
			if r >= 0xd800 && r <= 0xdfff {
				low, ok := hexRune(src[6:])
				if !ok || low < 0xdc00 {
					return dst, false
				}
				r, n = 0x10000+(r-0xd800)<<10+(low-0xdc00), 12
			}
			dst = utf8.AppendRune(dst, r)
		default:
			return dst, false
		}
		src = src[n:]
	}
}

// hexRune reads the digits of a \uXXXX at the start of b.
func hexRune(b []byte) (rune, bool) {
	if len(b) < 6 {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case isDigit(c):
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// cleanText returns v, or a copy with spaces where v is not valid UTF-8.
func cleanText(v []byte) []byte {
	if !slices.ContainsFunc(v, func(c byte) bool { return c >= utf8.RuneSelf }) ||
		utf8.Valid(v) && !bytes.ContainsRune(v, utf8.RuneError) {
		return v
	}
	return bytes.Map(func(r rune) rune {
		if r == utf8.RuneError {
			return ' '
		}
		return r
	}, v)
}

// appendName appends a field's name to that of the object it is in, as a label
// name has it. A field without a name has its object's.
func appendName(dst []byte, key []byte) []byte {
	key = bytes.TrimSpace(key)
	if len(key) > 0 && (len(dst) > 0 || isDigit(key[0])) {
		dst = append(dst, '_')
	}
	for len(key) > 0 {
		if c := key[0]; c < utf8.RuneSelf {
			if !isNameByte(c) {
				c = '_'
			}
			dst, key = append(dst, c), key[1:]
			continue
		}
		_, n := utf8.DecodeRune(key)
		dst, key = append(dst, '_'), key[n:]
	}
	return dst
}
