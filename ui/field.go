package ui

import (
	"charm.land/bubbles/v2/textinput"
)

// fieldView is what a field of n columns shows of its text, made visible, and
// the column of its cursor.
func fieldView(f textinput.Model, n int, th theme) (string, int) {
	n = max(n, 1)
	value := []rune(f.Value())
	pos := min(f.Position(), len(value))
	before, after := th.outside(string(value[:pos])), th.outside(string(value[pos:]))
	s, at := before+after, width(before)
	// One column is the cursor's, behind the last character.
	if from := at - (n - 1); from > 0 {
		s = row{{s, normal}}.window(from, from+n).text()
		return s, at - from
	}
	return cutRight(s, n, ""), at
}
