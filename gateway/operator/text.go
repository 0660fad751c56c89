package operator

import (
	"fmt"
	"strings"
	"unicode"

	"failback/gateway/operator/api"
)

// ControlCharacter finds the first control character of s that is neither a newline nor a
// tab: those of C0, DEL and C1. No text of an operator or a client may have one:
// it is stored, and comes to terminals and files that obey it.
func ControlCharacter(s string) (r rune, found bool) {
	i := strings.IndexFunc(s, isControl)
	if i < 0 {
		return 0, false
	}
	for _, r = range s[i:] {
		break
	}
	return r, true
}

func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// visible is s with its control characters written out, as \x1b.
func visible(s string) string {
	if !strings.ContainsFunc(s, isControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isControl(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// audited is s as an audit entry has it, in n bytes at most.
func audited(s string, n int) string { return cutText(visible(cutText(s, n)), n) }

// checkTexts refuses control characters in whatever c holds. A path needs no such
// check: it only finds what there is. reason is what its reason is to who gave it.
func checkTexts(c *api.Command, reason string) *api.Error {
	for _, t := range []struct{ name, text string }{
		{reason, c.Reason}, {"state", c.State}, {"action", c.Action}, {"for", c.For},
		{"runbook", c.Runbook}, {"question", c.Question}, {"answer", c.Answer}, {"order", strings.Join(c.Order, "\n")},
	} {
		if r, found := ControlCharacter(t.text); found {
			e := invalid("the %s has the control character %U", t.name, r)
			e.Hint = "of them a text may have newlines and tabs alone"
			return e
		}
	}
	return nil
}
