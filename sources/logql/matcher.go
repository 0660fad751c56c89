package logql

import (
	"fmt"
	"regexp"
	"strconv"

	"failback/sources/pattern"
)

// Op compares a label with a text.
type Op uint8

// The comparisons of a Matcher.
const (
	Equal Op = iota
	NotEqual
	MatchRegexp
	NotMatchRegexp
)

// String returns the operator as LogQL writes it.
func (o Op) String() string {
	switch o {
	case Equal:
		return "="
	case NotEqual:
		return "!="
	case MatchRegexp:
		return "=~"
	case NotMatchRegexp:
		return "!~"
	}
	return "Op(" + strconv.Itoa(int(o)) + ")"
}

// Matcher is a comparison of one label. Regular expressions match the whole
// value. Make one with NewMatcher; it is safe for concurrent use.
type Matcher struct {
	Name  string
	Op    Op
	Value string

	re *regexp.Regexp
}

// Condition is a Matcher about a field of a line; see Selection.Where.
type Condition = Matcher

// NewMatcher compiles a matcher. The error is that of a bad regular expression.
func NewMatcher(name string, op Op, value string) (Matcher, error) {
	m := Matcher{Name: name, Op: op, Value: value}
	if op == MatchRegexp || op == NotMatchRegexp {
		if _, err := pattern.Size(value); err != nil {
			return Matcher{}, err // as the user wrote it, without the anchors
		}
		re, err := regexp.Compile("^(?s:" + value + ")$")
		if err != nil {
			return Matcher{}, err
		}
		m.re = re
	}
	return m, nil
}

// Matches says whether a value fulfils the matcher; an absent label has the
// value "".
func (m Matcher) Matches(v string) bool {
	switch m.Op {
	case Equal:
		return v == m.Value
	case NotEqual:
		return v != m.Value
	case MatchRegexp:
		return m.re != nil && m.re.MatchString(v)
	case NotMatchRegexp:
		return m.re != nil && !m.re.MatchString(v)
	}
	return false
}

// matchesBytes is Matches without a copy.
func (m *Matcher) matchesBytes(v []byte) bool {
	switch m.Op {
	case Equal:
		return string(v) == m.Value
	case NotEqual:
		return string(v) != m.Value
	case MatchRegexp:
		return m.re != nil && m.re.Match(v)
	case NotMatchRegexp:
		return m.re != nil && !m.re.Match(v)
	}
	return false
}

// String writes the matcher as LogQL does.
func (m Matcher) String() string {
	return fmt.Sprintf("%s%s%s", m.Name, m.Op, strconv.Quote(m.Value))
}
