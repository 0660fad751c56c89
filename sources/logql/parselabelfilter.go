package logql

// labelFilter reads an expression on labels: and binds tighter than or, a comma
// or a space means and, and takes all that follows for its right side.
func (p *parser) labelFilter(least int) labelFilter {
	p.enter()
	defer p.leave()
	var l labelFilter
	if p.accept("(") {
		l = p.labelFilter(1)
		p.expect(")")
	} else {
		l = p.labelPredicate()
	}
	for {
		switch k := p.cur().kind; {
		case k == "or" && least <= 1:
			p.next()
			l = &binaryFilter{or: true, l: l, r: p.labelFilter(2)}
		case k == "and" && least <= 2:
			p.next()
			l = &binaryFilter{l: l, r: p.labelFilter(3)}
		case k == ",":
			p.next()
			l = &binaryFilter{l: l, r: p.labelFilter(1)}
		case k == tokIdent, k == "(":
			l = &binaryFilter{l: l, r: p.labelFilter(1)}
		default:
			return l
		}
	}
}

func (p *parser) labelPredicate() labelFilter {
	if p.cur().kind != tokIdent {
		p.unexpected(tokIdent, "(")
	}
	name := p.next().text
	op := p.cur()
	switch op.kind {
	case "=", "==", "!=", ">", ">=", "<", "<=", "=~", "!~":
		p.next()
	default:
		p.unexpected()
	}
	v := p.cur()
	if v.kind == "ip" {
		p.unsupported(v, "ip()")
	}
	if m, ok := matchOp(op.kind); ok {
		if v.kind == tokString {
			p.next()
			return &textFilter{p.matcher(name, m, v)}
		}
		if op.kind == "=~" || op.kind == "!~" {
			p.unexpected(tokString)
		}
	}
	f := &numberFilter{name: name, op: string(op.kind)}
	if f.op == "=" {
		f.op = "=="
	}
	switch v.kind {
	case tokNumber, "+", "-":
		f.num = p.number()
	case tokDuration:
		f.unit, f.dur = unitDuration, p.next().dur
	case tokBytes:
		f.unit, f.size = unitBytes, p.next().size
	default:
		p.unexpected()
	}
	return f
}
