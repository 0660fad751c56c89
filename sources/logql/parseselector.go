package logql

import "slices"

const noMatcher = `queries require at least one regexp or equality matcher that does not have an empty-compatible value. For instance, app=~".*" does not meet this requirement, but app=~".+" will`

// matchers reads {a="b"}.
func (p *parser) matchers() []Matcher {
	p.expect("{")
	var ms []Matcher
	if p.cur().kind == "}" {
		p.next()
		p.wrong(noMatcher)
		return nil
	}
	for {
		if p.cur().kind != tokIdent {
			if len(ms) == 0 {
				p.unexpected(tokIdent, "}")
			}
			p.unexpected(tokIdent)
		}
		name := p.next().text
		op, ok := matchOp(p.cur().kind)
		if !ok {
			p.unexpected("=", "=~", "!~", "!=")
		}
		p.next()
		v := p.expect(tokString)
		ms = append(ms, p.matcher(name, op, v))
		if !p.accept(",") {
			if p.cur().kind != "}" {
				p.unexpected("}", ",")
			}
			p.next()
			break
		}
		if p.cur().kind == "}" { // Loki lets a last comma stand
			p.next()
			break
		}
	}
	if !slices.ContainsFunc(ms, func(m Matcher) bool { return !m.Matches("") }) {
		p.wrong(noMatcher)
	}
	return ms
}

func matchOp(k kind) (Op, bool) {
	switch k {
	case "=":
		return Equal, true
	case "!=":
		return NotEqual, true
	case "=~":
		return MatchRegexp, true
	case "!~":
		return NotMatchRegexp, true
	}
	return 0, false
}

func (p *parser) matcher(name string, op Op, v *token) Matcher {
	m, err := NewMatcher(name, op, v.text)
	if err != nil {
		p.failAt(v, err.Error())
	}
	if m.re != nil {
		p.regexp(v, v.text)
	}
	return m
}
