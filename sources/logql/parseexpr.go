package logql

// expr reads operators that bind at least as tightly as least.
func (p *parser) expr(least int) expr {
	p.enter()
	defer p.leave()
	l := p.operand()
	for {
		op := p.cur()
		prec := precedence(op.kind)
		if prec == 0 || prec < least {
			return l
		}
		p.next()
		b := &binExpr{op: string(op.kind), l: l}
		b.bool = p.accept("bool")
		if k := p.cur().kind; k == "on" || k == "ignoring" {
			p.next()
			b.matching = &matching{on: k == "on", labels: p.names()}
			if t := p.cur(); t.kind == "group_left" || t.kind == "group_right" {
				p.unsupported(t, t.text)
			}
		}
		right := prec + 1
		if op.kind == "^" {
			right = prec
		}
		b.r = p.expr(right)
		l = p.combine(b)
	}
}

// combine checks a binary expression and works out literals.
func (p *parser) combine(b *binExpr) expr {
	for i, side := range []expr{b.l, b.r} {
		if log, ok := side.(*logExpr); ok {
			p.wrong("unexpected type for %s leg of binary operation (%s): *syntax.%s", []string{"left", "right"}[i], b.op, log.kind())
			return b
		}
	}
	l, lok := b.l.(*literal)
	r, rok := b.r.(*literal)
	if isLogical(b.op) {
		if lok {
			p.wrong("unexpected literal for left leg of logical/set binary operation (%s): %f", b.op, l.v)
		}
		if rok {
			p.wrong("unexpected literal for right leg of logical/set binary operation (%s): %f", b.op, r.v)
		}
		b.bool = false
	}
	if !isComparison(b.op) {
		b.bool = false
	}
	if lok && rok {
		v, ok := arith(b.op, l.v, r.v)
		if isComparison(b.op) {
			v = 0
			if ok {
				v = 1
			}
		}
		return &literal{v}
	}
	if lok || rok {
		b.matching = nil
	}
	return b
}

// operand reads what stands between operators.
func (p *parser) operand() expr {
	t := p.cur()
	switch t.kind {
	case "{":
		return p.log()
	case "(":
		p.next()
		e := p.expr(1)
		p.expect(")")
		return e
	case tokNumber, "+", "-":
		return &literal{p.number()}
	case "vector":
		p.next()
		p.expect("(")
		v := p.expect(tokNumber).num
		p.expect(")")
		return &vectorLit{v}
	}
	name := string(t.kind)
	switch {
	case rangeOps[name]:
		return p.rangeAgg()
	case vectorOps[name]:
		return p.vectorAgg()
	case unsupportedCalls[name]:
		p.unsupported(t, name)
	}
	p.unexpected()
	return nil
}
