package logql

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"failback/sources/pattern"
)

// lineFilter keeps lines that hold one of the texts (|=, |~), or none of them
// (!=, !~).
type lineFilter struct {
	op    string
	texts []string
	match []func(line []byte) bool
}

// newLineFilter compiles a filter; the error is that of a regular expression.
func newLineFilter(op string, texts []string) (*lineFilter, error) {
	f := &lineFilter{op: op, texts: texts}
	for _, t := range texts {
		m, err := lineMatcher(op, t)
		if err != nil {
			return nil, err
		}
		f.match = append(f.match, m)
	}
	return f, nil
}

func lineMatcher(op, text string) (func([]byte) bool, error) {
	if op == "|=" || op == "!=" {
		b := []byte(text)
		return func(line []byte) bool { return bytes.Contains(line, b) }, nil
	}
	if _, err := pattern.Size(text); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	alts, ok := literals(text)
	if !ok {
		return re.Match, nil
	}
	var list [][]byte
	for _, a := range alts {
		list = append(list, []byte(a))
	}
	return func(line []byte) bool {
		return slices.ContainsFunc(list, func(b []byte) bool { return bytes.Contains(line, b) })
	}, nil
}

// literals returns the alternatives of a regular expression that is nothing but
// texts with | between them.
func literals(re string) ([]string, bool) {
	alts := strings.Split(re, "|")
	for _, a := range alts {
		if regexp.QuoteMeta(a) != a {
			return nil, false
		}
	}
	return alts, true
}

func (f *lineFilter) negated() bool { return f.op[0] == '!' }

func (f *lineFilter) String() string {
	parts := make([]string, len(f.texts))
	for i, t := range f.texts {
		parts[i] = strconv.Quote(t)
	}
	return f.op + " " + strings.Join(parts, " or ")
}

func (f *lineFilter) requires() []string      { return nil }
func (f *lineFilter) bind(p *pipeline) runner { return &boundLineFilter{f, p} }

type boundLineFilter struct {
	*lineFilter
	p *pipeline
}

func (f *boundLineFilter) run(_ int64, line []byte) ([]byte, bool) {
	for _, m := range f.match {
		if !f.p.m.reads(len(line)) {
			return nil, false
		}
		if m(line) {
			return line, !f.negated()
		}
	}
	return line, f.negated()
}
