package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// maxMarks is how many combining marks in a row are shown as they are. Living
// scripts need two or three; stacks of them draw over the lines around.
const maxMarks = 3

// Visible returns s as one line in which nothing drives a terminal or hides:
// control characters, escapes, bidi controls, invisible and unassigned
// characters and bytes that are not UTF-8 are written out as Go would (\x1b,
// \u202e). Everything else, brackets and backslashes too, stays as it is.
func Visible(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	marks := maxMarks // a mark at the start has nothing to sit on
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			writeEscape(&b, `\x`, uint64(s[i]), 2)
			marks = 0
		case hidden(r):
			writeRune(&b, r)
			marks = 0
		case unicode.Is(unicode.M, r):
			if marks++; marks > maxMarks {
				writeRune(&b, r)
			} else {
				b.WriteRune(r)
			}
		default:
			b.WriteRune(r)
			marks = 0
		}
		i += n
	}
	return b.String()
}

// VisibleLines is Visible for text that may have lines: it is split at
// newlines, tabs become spaces.
func VisibleLines(s string) []string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = Visible(strings.ReplaceAll(l, "\t", "    "))
	}
	return lines
}

// ASCII is Visible with everything outside ASCII written out too.
func ASCII(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for _, r := range Visible(s) {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			writeRune(&b, r)
		}
	}
	return b.String()
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// hidden reports whether r must be written out: it is not graphic (controls,
// format and bidi characters, private use, unassigned), or it is graphic by
// its category and yet blank or changes how its neighbour is drawn.
func hidden(r rune) bool {
	if !unicode.IsGraphic(r) {
		return true
	}
	switch {
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef, // variation selectors
		r >= 0x180b && r <= 0x180f,                         // Mongolian ones
		r == 0x034f,                                        // combining grapheme joiner
		r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, // Hangul fillers
		r == 0x2800,                  // blank Braille
		r >= 0x1f1e6 && r <= 0x1f1ff: // regional indicators: terminals disagree on their width
		return true
	}
	return false
}

func writeRune(b *strings.Builder, r rune) {
	switch {
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case r < 0x80:
		writeEscape(b, `\x`, uint64(r), 2)
	case r <= 0xffff:
		writeEscape(b, `\u`, uint64(r), 4)
	default:
		writeEscape(b, `\U`, uint64(r), 8)
	}
}

func writeEscape(b *strings.Builder, prefix string, v uint64, digits int) {
	h := strconv.FormatUint(v, 16)
	b.WriteString(prefix)
	for range digits - len(h) {
		b.WriteByte('0')
	}
	b.WriteString(h)
}

// Width is how many columns of a terminal Visible(s) takes.
func Width(s string) int { return ansi.StringWidth(Visible(s)) }
