package logql

import (
	"regexp"
	"strings"

	"failback/sources/pattern"
)

// compiled compiles an expression that a template makes, within bounds.
func compiled(re string) (*regexp.Regexp, error) {
	if _, err := pattern.Size(re); err != nil {
		return nil, err
	}
	return regexp.Compile(re)
}

// count is how many times an expression is found in s.
func (m *meter) count(re, s string) (int, error) {
	r, err := compiled(re)
	if err != nil {
		return 0, err
	}
	n := 0
	m.eachMatch(r, s, func(string) string { n++; return "" })
	return n, nil
}

// replaceLiteral puts repl in the place of whatever an expression finds in s.
func (m *meter) replaceLiteral(re, s, repl string) (string, error) {
	r, err := compiled(re)
	if err != nil {
		return "", err
	}
	return m.replaced(r, s, repl)
}

// replace is replaceLiteral where $1 in repl is what the first part in
// parentheses found.
func (m *meter) replace(re, s, repl string) (string, error) {
	r, err := compiled(re)
	if err != nil {
		return "", err
	}
	refs := strings.Count(repl, "$")
	if refs == 0 {
		return m.replaced(r, s, repl)
	}
	if refs*len(s) > 4*maxTemplateOut {
		return "", errTooLong
	}
	if _, err := m.replaced(r, s, repl); err != nil { // which can be stopped
		return "", err
	}
	return within(r.ReplaceAllString(s, repl))
}

func (m *meter) replaced(r *regexp.Regexp, s, repl string) (string, error) {
	size := 0
	out := m.eachMatch(r, s, func(string) string {
		if size += len(repl); size > 4*maxTemplateOut {
			panic(errTooLong) // text/template makes an error of it
		}
		return repl
	})
	return within(out)
}

// eachMatch is r.ReplaceAllStringFunc that does not come back in a query that is
// over: to find all there is may take time with the square of the length.
func (m *meter) eachMatch(r *regexp.Regexp, s string, f func(string) string) string {
	if m == nil || len(s) < long {
		return r.ReplaceAllStringFunc(s, f)
	}
	return r.ReplaceAllStringFunc(s, func(found string) string {
		if !m.look() {
			panic(errEnded)
		}
		return f(found)
	})
}
