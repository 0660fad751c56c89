package logql

import (
	"fmt"
	"strconv"
)

// What the names before a parenthesis are.
var (
	rangeOps = map[string]bool{
		"count_over_time": true, "rate": true, "bytes_over_time": true, "bytes_rate": true,
		"sum_over_time": true, "avg_over_time": true, "min_over_time": true, "max_over_time": true,
		"stddev_over_time": true, "stdvar_over_time": true, "quantile_over_time": true,
		"first_over_time": true, "last_over_time": true, "absent_over_time": true,
	}
	vectorOps = map[string]bool{
		"sum": true, "avg": true, "min": true, "max": true, "count": true,
		"stddev": true, "stdvar": true, "topk": true, "bottomk": true,
	}
	unsupportedCalls = map[string]bool{
		"rate_counter": true, "label_replace": true, "sort": true, "sort_desc": true, "approx_topk": true,
		"variants": true,
	}
	unwrapConversions = map[string]bool{"bytes": true, "duration": true, "duration_seconds": true}

	// withUnwrap and withoutUnwrap say which range aggregations take their values
	// from a label, and which do not have to.
	withUnwrap = map[string]bool{
		"sum_over_time": true, "avg_over_time": true, "min_over_time": true, "max_over_time": true,
		"stddev_over_time": true, "stdvar_over_time": true, "quantile_over_time": true, "rate": true,
		"first_over_time": true, "last_over_time": true, "absent_over_time": true,
	}
	withoutUnwrap = map[string]bool{
		"count_over_time": true, "rate": true, "bytes_over_time": true, "bytes_rate": true, "absent_over_time": true,
	}
	grouped = map[string]bool{
		"avg_over_time": true, "min_over_time": true, "max_over_time": true, "stddev_over_time": true,
		"stdvar_over_time": true, "quantile_over_time": true, "first_over_time": true, "last_over_time": true,
	}
)

func (p *parser) vectorAgg() expr {
	t := p.next()
	e := &vectorAgg{op: string(t.kind)}
	e.grouping = p.grouping()
	p.expect("(")
	takes := e.op == "topk" || e.op == "bottomk"
	given := p.cur().kind == tokNumber && p.peek() == ","
	if given {
		n := p.next()
		p.next()
		v, err := strconv.Atoi(n.text)
		switch {
		case !takes:
			p.wrong("unsupported parameter for operation %s(%s,", e.op, n.text)
		case err != nil:
			p.wrong("invalid parameter %s(%s,", e.op, n.text)
		case v <= 0:
			p.wrong("invalid parameter (must be greater than 0) %s(%s", e.op, n.text)
		}
		e.param = v
	}
	at := p.cur()
	e.inner = p.expr(1)
	switch e.inner.(type) {
	case *logExpr:
		p.unexpected()
	case *literal:
		p.unsupported(at, e.op+" of a number")
	}
	if takes && !given {
		p.wrong("parameter required for operation %s", e.op)
	}
	if p.cur().kind != ")" {
		p.unexpected()
	}
	p.expect(")")
	if g := p.cur(); g.kind == "by" || g.kind == "without" {
		if e.grouping != nil {
			p.unexpected()
		}
		e.grouping = p.grouping()
	}
	return e
}

func (p *parser) rangeAgg() expr {
	t := p.next()
	if p.ranges++; p.ranges > maxRanges {
		p.failAt(t, fmt.Sprintf("the query has more than %d range aggregations", maxRanges))
	}
	e := &rangeAgg{op: string(t.kind)}
	p.expect("(")
	takes, given := e.op == "quantile_over_time", false
	switch t := p.cur(); t.kind {
	case tokNumber:
		given, e.param = true, p.next().num
		p.expect(",")
		if k := p.cur().kind; k != "{" && k != "(" {
			p.unexpected("{", "(")
		}
		if !takes {
			p.wrong("parameter %s not supported for operation %s", t.text, e.op)
		}
	case "{", "(":
	default:
		p.unexpected(tokNumber, "{", "(")
	}
	p.logRange(e)
	p.expect(")")
	e.grouping = p.grouping()
	if takes && !given {
		p.wrong("parameter required for operation %s", e.op)
	}
	if e.grouping != nil && !grouped[e.op] {
		p.wrong("grouping not allowed for %s aggregation", e.op)
	}
	if e.unwrap != nil && !withUnwrap[e.op] {
		p.wrong("invalid aggregation %s with unwrap", e.op)
	}
	if e.unwrap == nil && !withoutUnwrap[e.op] {
		p.wrong("invalid aggregation %s without unwrap", e.op)
	}
	return e
}

// logRange reads the lines and the stretch of time of a range aggregation. The
// range may stand before the pipeline as well as after it.
func (p *parser) logRange(e *rangeAgg) {
	p.enter()
	defer p.leave()
	ranged := false
	if p.accept("(") {
		p.logRangeIn(e, &ranged)
		p.expect(")")
		p.rangeOf(e, &ranged)
	} else {
		p.selector(e)
		p.rangeOf(e, &ranged)
		p.pipelineOf(e)
		p.rangeOf(e, &ranged)
	}
	if !ranged {
		if e.unwrap != nil && len(e.unwrap.post) == 0 {
			p.unexpected(tokRange, "|")
		}
		p.unexpected()
	}
}

// logRangeIn reads what stands in parentheses, with a range or without.
func (p *parser) logRangeIn(e *rangeAgg, ranged *bool) {
	p.enter()
	defer p.leave()
	if p.accept("(") {
		p.logRangeIn(e, ranged)
		p.expect(")")
		p.rangeOf(e, ranged)
		return
	}
	p.selector(e)
	p.rangeOf(e, ranged)
	p.pipelineOf(e)
	p.rangeOf(e, ranged)
}

func (p *parser) selector(e *rangeAgg) {
	if p.cur().kind != "{" {
		p.unexpected("{", "(")
	}
	e.log = &logExpr{matchers: p.matchers()}
}

func (p *parser) pipelineOf(e *rangeAgg) {
	e.log.stages, e.unwrap = p.stages(true)
}

// rangeOf reads a range with its offset unless there was one.
func (p *parser) rangeOf(e *rangeAgg, ranged *bool) {
	if *ranged || p.cur().kind != tokRange {
		return
	}
	t := p.next()
	if t.dur <= 0 {
		p.failAt(t, "range must be longer than 0: "+t.text)
	}
	e.rng, *ranged = t.dur, true
	if p.accept("offset") {
		negative := p.accept("-")
		d := p.expect(tokDuration)
		e.offset = d.dur
		if negative {
			e.offset = -d.dur
		}
	}
}

// grouping reads by (a) or without (a), nil if there is none.
func (p *parser) grouping() *grouping {
	k := p.cur().kind
	if k != "by" && k != "without" {
		return nil
	}
	p.next()
	return &grouping{without: k == "without", labels: p.names()}
}
