package api

import (
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Hidden reports whether r, although JSON allows it as it is, drives a terminal
// or hides there when a line of JSON is looked at: DEL, C1 controls, bidi and
// other format characters, separators of lines, unassigned characters.
func Hidden(r rune) bool { return r == 0x7f || r >= utf8.RuneSelf && !unicode.IsGraphic(r) }

// AppendHidden appends r as JSON escapes it.
func AppendHidden(b []byte, r rune) []byte {
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return AppendHidden(AppendHidden(b, high), low)
	}
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12&0xf], digits[r>>8&0xf], digits[r>>4&0xf], digits[r&0xf])
}

// VisibleJSON is the JSON text b, which is valid UTF-8, with all hidden
// characters escaped: it means the same and is safe to print. b is not changed
// and is returned as it is if there is nothing to escape.
func VisibleJSON(b []byte) []byte {
	var out []byte
	start := 0
	for i := 0; i < len(b); {
		if b[i] < 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if Hidden(r) {
			out = AppendHidden(append(out, b[start:i]...), r)
			start = i + n
		}
		i += n
	}
	if out == nil {
		return b
	}
	return append(out, b[start:]...)
}
