package promql

import (
	"regexp"
	"strconv"
	"strings"
)

// Label is a label with its value.
type Label struct{ Name, Value string }

// matcher is the beginning of label matchers: a name, which may be quoted, and
// an operator.
var matcher = regexp.MustCompile(`^[\s,]*([a-zA-Z_][a-zA-Z0-9_]*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|` + "`[^`]*`" + `)\s*(=~|!~|!=|=)\s*`)

// literal is a quoted text at the beginning.
var literal = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|` + "`[^`]*`)")

// taken are labels that are an alert's own.
var taken = map[string]bool{"alertname": true, "alertstate": true, "severity": true}

// Fixed are the labels that all series of q have by its selector: those that it
// matches by =, but those that no alert can have. What a selector holds behind
// something that is no matcher is not among them.
func (q Query) Fixed() (labels []Label) {
	rest := q.matchers
	for {
		m := matcher.FindStringSubmatch(rest)
		if m == nil {
			return labels
		}
		rest = rest[len(m[0]):]
		value := literal.FindString(rest)
		rest = rest[len(value):]
		name, ok := m[1], true
		if strings.ContainsAny(name[:1], "\"'`") {
			name, ok = unquote(name)
		}
		text, known := unquote(value)
		if !ok || !known {
			return labels
		}
		if m[2] == "=" && text != "" && !taken[name] && !strings.HasPrefix(name, "__") {
			labels = append(labels, Label{name, text})
		}
	}
}

// unquote reads a text as PromQL quotes it.
func unquote(s string) (text string, ok bool) {
	if len(s) < 2 {
		return "", false
	}
	quote, rest := s[0], s[1:len(s)-1]
	if quote == '`' {
		return rest, true
	}
	var b strings.Builder
	for rest != "" {
		r, multibyte, tail, err := strconv.UnquoteChar(rest, quote)
		if err != nil {
			return "", false
		}
		if multibyte || r < 0x80 {
			b.WriteRune(r)
		} else {
			b.WriteByte(byte(r))
		}
		rest = tail
	}
	return b.String(), true
}

// Quote is s as PromQL quotes it.
func Quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
