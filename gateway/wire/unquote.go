package wire

import (
	"unicode/utf16"
	"unicode/utf8"
)

// unquote appends what the bytes between a valid JSON string's quotes mean.
// Like encoding/json it writes U+FFFD for what is no UTF-8 and for a surrogate
// without its pair.
func unquote(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '\\' && raw[i+1] == 'u':
			r := hex4(raw[i+2:])
			i += 6
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if i+6 <= len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
					pair = utf16.DecodeRune(r, hex4(raw[i+2:]))
				}
				if r = pair; r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		case c == '\\':
			c = raw[i+1]
			switch c {
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			}
			dst = append(dst, c)
			i += 2
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, n := utf8.DecodeRune(raw[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst
}

func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case c <= '9':
			c -= '0'
		default:
			c = c | 0x20 - 'a' + 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

// string returns t's text as a string of its own, always valid UTF-8.
func (s *scanner) string(t token) string {
	raw := s.data[t.start:t.end]
	if !t.escaped && utf8.Valid(raw) {
		return string(raw)
	}
	return string(unquote(nil, raw))
}
