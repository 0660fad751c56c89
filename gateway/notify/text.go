package notify

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible is s in one line of at most so many characters, with what drives a
// terminal, or hides, written as Go writes it.
func visible(s string, most int) string {
	var b strings.Builder
	for n := 0; len(s) > 0; n++ {
		if n == most {
			b.WriteString("…")
			break
		}
		r, size := utf8.DecodeRuneInString(s)
		if !unicode.IsGraphic(r) || r == utf8.RuneError || unicode.IsSpace(r) && r != ' ' {
			q := strconv.Quote(s[:size])
			q = q[1 : len(q)-1]
			if q == s[:size] { // a space of another kind, which Quote leaves
				q = " "
			}
			b.WriteString(q)
		} else {
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// markup disarms what Slack takes for a link or mention (<…>), and what
// Mattermost takes for one (@all).
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "(at)")

func disarmed(s string) string { return markup.Replace(s) }

// firstKeys are the first keys of m in order, at most so many.
func firstKeys(m map[string]string, most int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys[:min(most, len(keys))]
}
