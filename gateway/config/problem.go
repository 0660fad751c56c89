package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one reason for which a configuration is refused. It never holds
// the value of a secret.
type Problem struct {
	// File is the path as it was given, or says where else the value came
	// from: "environment variable FAILBACK_LISTEN", "flag".
	File string
	// Line and Column count from 1, columns in characters; 0 where there is no
	// position, as for a missing file or an environment variable.
	Line, Column int
	Key          string // dotted path, empty where no key is to blame
	Message      string
	Hint         string // what to do, empty if the message says it
}

// Error writes p as one line: file:line:column: key: message (hint). What could
// drive a terminal is made visible: names in it come from files and command
// lines.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return strings.ReplaceAll(Escaped(b.String()), "\n", `\n`)
}

// Problems are all reasons for which a configuration is refused, in file
// order; those without a position come last.
type Problems []Problem

// Error writes one problem per line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// sort puts p in file order.
func (p Problems) sort() {
	slices.SortStableFunc(p, func(a, b Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
