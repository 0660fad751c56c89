package runbooks

import (
	"regexp"
	"slices"
)

// KeyRef is a key that a runbook names.
type KeyRef struct {
	Key string
	// Screen is where it is to work; empty: on the runbook's own.
	Screen string
	Line   int // of the block that names it
}

// named are keys whose names are longer than a character.
var named = []string{"enter", "esc", "tab", "space", "left", "right", "up", "down", "home", "end", "pgup", "pgdown", "backspace"}

var (
	refForm  = regexp.MustCompile("`([^`]+)`(?: on ([a-z]+)| in the (dialog))?")
	ctrlForm = regexp.MustCompile(`^ctrl\+.$`)
)

// IsKey reports whether code in a runbook's text is the name of a key.
func IsKey(code string) bool {
	return len([]rune(code)) == 1 || slices.Contains(named, code) || ctrlForm.MatchString(code)
}

// Keys returns every key that r names, in the order of its text.
func (r *Runbook) Keys() []KeyRef {
	var ks []KeyRef
	for i := range r.Sections {
		for j := range r.Sections[i].Blocks {
			b := &r.Sections[i].Blocks[j]
			for _, p := range b.Paragraphs {
				ks = append(ks, KeysIn(p, b.Line)...)
			}
		}
	}
	return ks
}

// KeysIn returns every key that a text names, in its order, as of a line.
func KeysIn(text string, line int) []KeyRef {
	var ks []KeyRef
	for _, f := range refForm.FindAllStringSubmatch(text, -1) {
		if IsKey(f[1]) {
			ks = append(ks, KeyRef{f[1], f[2] + f[3], line})
		}
	}
	return ks
}
