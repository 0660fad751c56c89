package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"failback/sources/promql"
)

// YAML is s as a rule file of Prometheus. note stands above it as a comment, a
// line each.
func (s *Set) YAML(note []string, runbookURL string) string {
	var b strings.Builder
	for _, line := range note {
		b.WriteString(comment(line))
	}
	b.WriteString("groups:\n  - name: failback\n    rules:\n")
	var labels strings.Builder
	for _, l := range s.Labels {
		// A label's value is a template of Prometheus, too.
		fmt.Fprintf(&labels, "          %s: %s\n", scalar(l.Name), scalar(strings.ReplaceAll(l.Value, "{{", `{{"{{"}}`)))
	}
	for _, r := range s.Rules {
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n        for: %s\n        labels:\n          severity: %s\n%s        annotations:\n          summary: %s\n          description: %s\n          runbook: %s\n",
			r.Name, scalar(r.Expr), promql.Span(r.For), r.Severity, labels.String(), scalar(r.Summary), scalar(r.Description), r.Runbook)
		if u := link(runbookURL, r.Runbook); u != "" {
			fmt.Fprintf(&b, "          runbook_url: %s\n", scalar(u))
		}
	}
	for _, m := range s.Missing {
		b.WriteString(comment(m.Name + " is left out. It needs " + m.Add + "."))
	}
	return b.String()
}

// link is where a runbook can be read, empty without a prefix.
func link(prefix, id string) string {
	switch {
	case prefix == "":
		return ""
	case strings.Contains(prefix, "{id}"):
		return strings.ReplaceAll(prefix, "{id}", id)
	}
	return prefix + id
}

// comment is a line of a comment; what no line may hold is left out of it.
func comment(line string) string {
	line = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, line)
	if line == "" {
		return "#\n"
	}
	return "# " + line + "\n"
}

// scalar quotes a text for YAML: as it is between single quotes, or, with
// characters that those cannot hold, as JSON does.
func scalar(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always is JSON
	return strings.TrimSpace(b.String())
}
