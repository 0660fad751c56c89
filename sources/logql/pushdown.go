package logql

import (
	"slices"
	"strings"
)

// pushdown works out the hints of a Selection: what every line that can be in
// the answer fulfils.
func pushdown(e *logExpr, unwrap *unwrapExpr) (where []Condition, contains [][]byte) {
	const (
		raw    = iota // no parser yet: labels are the stream's
		parsed        // json has run, and nothing that changes labels since
		other         // labels may be anything
	)
	state, whole := raw, true // whole: the line is still the source's
	add := func(m Matcher) {
		if m.Name == errorLabel || m.Name == detailsLabel || strings.HasSuffix(m.Name, extractedAfter) ||
			slices.ContainsFunc(e.matchers, func(o Matcher) bool { return o.Name == m.Name }) {
			return
		}
		where = append(where, m)
	}
	for _, s := range e.stages {
		switch s := s.(type) {
		case *lineFilter:
			if whole && s.op == "|=" && len(s.texts) == 1 && s.texts[0] != "" {
				contains = append(contains, []byte(s.texts[0]))
			}
		case *jsonStage:
			if state == raw && whole && len(s.paths) == 0 {
				state = parsed
			} else {
				state = other
			}
		case *labelFilterStage:
			if state == parsed {
				certain(s.f, add)
			}
		case *lineFormatStage:
			whole = false
		default:
			state = other
		}
	}
	if unwrap != nil && state == parsed {
		if m, err := NewMatcher(unwrap.label, NotEqual, ""); err == nil {
			add(m)
		}
	}
	return where, contains
}

// certain calls add with the comparisons a line has to fulfil.
func certain(f labelFilter, add func(Matcher)) {
	switch f := f.(type) {
	case *textFilter:
		add(f.m)
	case *binaryFilter:
		if !f.or {
			certain(f.l, add)
			certain(f.r, add)
		}
	}
}
