package text

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"failback/gateway/operator/api"
)

// Event is e.Text, safe on a terminal.
func Event(e *api.Event) string { return Visible(e.Text()) }

// By names who made e, "auto" for the gateway itself.
func By(e *api.Event) string {
	if e.By == "" {
		return "auto"
	}
	return Visible(e.By)
}

// ByMachine reports whether nobody typed what by names: the gateway did it by
// itself, or by a plan that somebody approved.
func ByMachine(by string) bool {
	return by == "" || by == "auto" || strings.HasPrefix(by, "plan:")
}

// Failed reports whether e is a command that did not take effect.
func Failed(e *api.Event) bool {
	return e.Event == api.KindCommand && e.Result != "" && e.Result != api.ResultOK
}

// Path writes how a request went, step by step: which candidates were skipped
// and why, which were attempted and how that ended.
//
//	anthropic-us-east-1 skipped: breaker_open > vertex-us-central1 ok
func Path(d *api.Decision) string {
	var b strings.Builder
	step := func(s string) {
		if b.Len() > 0 {
			b.WriteString(" > ")
		}
		b.WriteString(s)
	}
	asked, tried := Tried(d), make([]bool, len(d.Candidates))
	for _, c := range asked {
		if c >= 0 {
			tried[c] = true
		}
	}
	next := 0
	ended := func(of int) {
		name := d.Attempts[next].Provider
		if of >= 0 {
			name = nameOf(d, of)
		}
		step(name + " " + d.Attempts[next].Class)
		next++
	}
	answered := func() bool { return next == len(d.Attempts) && next > 0 && d.Attempts[next-1].Class == "ok" }
	for i := 0; i < len(d.Candidates) && !answered(); i++ {
		c := &d.Candidates[i]
		switch {
		case tried[i]:
			// All attempts up to the last on this candidate.
			last := next
			for j := next; j < len(d.Attempts); j++ {
				if asked[j] == i {
					last = j + 1
				}
			}
			for next < last {
				ended(asked[next])
			}
		case c.Skipped != "":
			step(nameOf(d, i) + " skipped: " + c.Skipped)
		}
	}
	for next < len(d.Attempts) {
		ended(asked[next])
	}
	if b.Len() == 0 {
		step(d.Reason)
	}
	return Visible(b.String())
}

// CutWay is a way of a request, or a line that ends with one, in n columns with
// its last step whole, as far as that has room: it says who answered. What came
// before is cut, and marked.
func CutWay(s string, n int, mark string) string {
	i := strings.LastIndex(s, " > ")
	if ansi.StringWidth(s) <= n || i < 0 || ansi.StringWidth(s[i:]) > n*2/3 {
		return s
	}
	return ansi.Truncate(s[:i], n-ansi.StringWidth(s[i:]), mark) + s[i:]
}

// Milliseconds writes a duration given in milliseconds; nil is "none".
func Milliseconds(ms *float64) string {
	if ms == nil {
		return "none"
	}
	return Seconds(*ms / 1000)
}
