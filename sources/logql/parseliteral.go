package logql

// number reads a number with its sign.
func (p *parser) number() float64 {
	sign := 1.0
	if p.accept("-") {
		sign = -1
	} else {
		p.accept("+")
	}
	return sign * p.expect(tokNumber).num
}

// names reads (a, b).
func (p *parser) names() []string {
	p.expect("(")
	var names []string
	if p.accept(")") {
		return names
	}
	if p.cur().kind != tokIdent {
		p.unexpected(tokIdent, ")")
	}
	for {
		names = append(names, p.expect(tokIdent).text)
		switch p.cur().kind {
		case ",":
			p.next()
		case ")":
			p.next()
			return names
		default:
			p.unexpected(",", ")")
		}
	}
}
