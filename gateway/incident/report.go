package incident

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// Report is an incident as a Markdown document, from its record alone. What people
// or other systems wrote is shown as text, whatever it holds.
func Report(in api.Incident) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# %s\n", markdown(in.Title))
	state := "open"
	if in.State == api.IncidentClosed {
		state = fmt.Sprintf("closed by %s at %s", markdown(in.ClosedBy), stamp(in.ClosedAt))
	}
	line("Incident `%s`, %s. Cause: %s. Opened by %s at %s.", code(in.ID), state, markdown(api.Words(in.Cause)), markdown(in.OpenedBy), stamp(in.OpenedAt))
	if len(in.Upstreams) > 0 {
		line("Upstreams: %s.", markdown(strings.Join(in.Upstreams, ", ")))
	}
	line("State of the record: %s, revision %d.\n", stamp(in.At), in.Revision)

	line("## Milestones\n")
	line("| milestone | time | after the first failure |\n|---|---|---|")
	for _, m := range Milestones(in.Milestones) {
		at, after := "not yet", ""
		if !m.At.IsZero() {
			at = stamp(m.At)
			if begin := in.Milestones.FirstFailure; !begin.IsZero() {
				after = m.At.Sub(begin).Round(time.Second).String()
			}
		}
		line("| %s | %s | %s |", m.Text, at, after)
	}
	if in.Milestones.FirstFailure.IsZero() {
		line("\nNo failed attempt is known from before it was opened.")
	}

	r := in.Requests
	line("\n## Impact\n")
	line("Counted for all models, %s.\n", markdown(r.Counted))
	line("| requests | number |\n|---|---|")
	line("| answered by their primary | %d |\n| answered by another candidate | %d |\n| failed | %d |\n| answered against policy | %d |", r.Primary, r.Degraded, r.Failed, r.Forbidden)
	if len(r.Kept) > 0 {
		line("\nSome of those that were answered by another candidate or failed:")
		for _, id := range r.Kept {
			line("`%s`", code(id))
		}
	}

	line("\n## Success by layer\n")
	line("| layer | degraded good | degraded bad | primary good | primary bad |\n|---|---|---|---|---|")
	for _, l := range in.Layers {
		line("| %s | %s | %s |", markdown(l.Name), tally(l, l.Degraded), tally(l, l.Primary))
	}

	line("\n## Timeline\n")
	if in.Lost > 0 {
		line("%s.\n", LeftOut(in.Lost))
	}
	line("| time | who | what |\n|---|---|---|")
	for _, e := range in.Timeline {
		by := e.By
		if e.Instance != "" {
			by += " on " + e.Instance
		}
		line("| %s | %s | %s |", stamp(e.At), markdown(by), markdown(What(&e)))
	}

	line("\n## Decisions\n")
	decided := 0
	for _, e := range in.Timeline {
		if byPerson(&e) {
			decided++
			line("- %s, %s: %s", stamp(e.At), markdown(e.By), markdown(e.Text))
		}
	}
	if decided == 0 {
		line("No operator gave a command.")
	}

	line("\n## Closing\n")
	for _, q := range in.Closing {
		line("### %s\n", markdown(q.Text))
		if q.Fact != "" {
			line("The gateway: %s\n", markdown(q.Fact))
		}
		if q.Answer == "" {
			line("Not answered.\n")
			continue
		}
		line("%s, %s: %s\n", markdown(q.By), stamp(q.At), markdown(q.Answer))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// byPerson reports whether an entry is what a person decided about traffic: a
// command, or the step that tells of one.
func byPerson(e *api.IncidentEntry) bool {
	if e.Event == nil {
		return false
	}
	return e.Event.Event == string(decision.KindOperatorCommand) || e.Event.Event == string(decision.KindTrafficStep) && !decision.ByMachine(e.By)
}

// Milestone is one of an incident, in words.
type Milestone struct {
	Name string // of the API's field
	Text string
	At   time.Time // zero: not yet
}

// Milestones are those of m in their order.
func Milestones(m api.Milestones) []Milestone {
	return []Milestone{
		{"first_failure", "first failure", m.FirstFailure},
		{"first_switch", "first switch", m.FirstSwitch},
		{"recovered", "technically recovered", m.Recovered},
		{"traffic_back", "traffic back", m.TrafficBack},
		{"closed", "closed", m.Closed},
	}
}

func tally(l api.Layer, t api.Tally) string {
	if t.Good+t.Bad == 0 {
		return markdown(l.Nothing) + " | "
	}
	return fmt.Sprintf("%d | %d", t.Good, t.Bad)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "not yet"
	}
	return Clock(t)
}

// markdown is s as text that no reader of Markdown takes for anything else: no
// markup, no table's end, no link, no list and no mention. Sites look for mentions
// in what was rendered, where an escape is gone: a character of no width parts them.
func markdown(s string) string {
	var b strings.Builder
	number := true // so far, which begins a list
	for i, r := range visible(strings.Join(strings.Fields(s), " ")) {
		switch {
		case strings.ContainsRune("\\`*_{}[]<>#|~&$", r), i == 0 && strings.ContainsRune("-+=:.!/", r), number && i > 0 && strings.ContainsRune(".)", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '@':
			b.WriteString("@&#8203;")
		default:
			b.WriteRune(r)
		}
		number = number && r >= '0' && r <= '9'
	}
	return strings.NewReplacer("://", `:\/\/`, "www.", `www\.`).Replace(b.String())
}

// code is s for within a code span.
func code(s string) string { return strings.ReplaceAll(visible(s), "`", "'") }

// visible is s with what drives a terminal or hides written out.
func visible(s string) string {
	var b []byte
	for _, r := range s {
		if r < ' ' || api.Hidden(r) {
			b = api.AppendHidden(b, r)
			continue
		}
		b = utf8.AppendRune(b, r)
	}
	return string(b)
}
