package config

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxShown is how many characters of a value an error repeats.
const maxShown = 48

// visible is s for an error text: in quotes, cut short, with control
// characters, escapes and bidi controls made visible.
func visible(s string) string {
	if utf8.RuneCountInString(s) > maxShown {
		r := []rune(s)
		return strconv.Quote(string(r[:maxShown])) + "…"
	}
	return strconv.Quote(s)
}

// Escaped is s with what drives a terminal, or hides there, as Go
// writes it. Lines stay lines.
func Escaped(s string) string {
	hides := func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) || r == utf8.RuneError }
	if strings.IndexFunc(s, hides) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if hides(r) {
			q := strconv.Quote(s[:n])
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// guarded is visible, but hides what could be a credential that slipped into
// the place of a name.
func guarded(s string) string {
	if mayBeSecret(s) {
		return "a text that could be a credential"
	}
	return visible(s)
}

// mayBeSecret reports whether s looks like a random key rather than a word.
func mayBeSecret(s string) bool {
	if strings.HasPrefix(s, "sk-") || strings.HasPrefix(s, "sk_") {
		return true
	}
	if len(s) < 16 {
		return false
	}
	digits, letters := 0, 0
	for _, r := range s {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsLetter(r):
			letters++
		case unicode.IsSpace(r):
			return false
		}
	}
	return digits >= 3 && letters >= 3
}
