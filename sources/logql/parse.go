package logql

import (
	"errors"
	"fmt"
	"math"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"failback/sources/pattern"
)

// maxQuery bounds the text of a query.
const maxQuery = 128 << 10

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

const noMatcher = `queries require at least one regexp or equality matcher that does not have an empty-compatible value. For instance, app=~".*" does not meet this requirement, but app=~".+" will`

// Parse reads a query. The error is a *ParseError.
func Parse(query string) (q *Query, err error) {
	if len(query) >= maxQuery {
		return nil, &ParseError{Message: fmt.Sprintf("input size too long (%d > %d)", len(query), maxQuery)}
	}
	if !utf8.ValidString(query) {
		return nil, &ParseError{Message: "the query is not valid UTF-8"}
	}
	defer func() {
		if r := recover(); r != nil {
			pe, ok := r.(*ParseError)
			if !ok {
				panic(r)
			}
			q, err = nil, pe
		}
	}()
	p := &parser{toks: lex(query)}
	e := p.expr(1)
	if p.cur().kind != tokEnd {
		p.unexpected()
	}
	if p.meaning != nil {
		return nil, p.meaning
	}
	return &Query{e: e}, nil
}

// parser is a recursive-descent parser; it leaves by a panic with a *ParseError.
type parser struct {
	toks  []token
	pos   int
	depth int

	ranges, patterns, calls int // so far

	// meaning is the first thing that is wrong although it is written correctly:
	// it counts if all the rest is.
	meaning *ParseError
}

// What a query may hold, beside its length.
const (
	maxStages   = 64     // of a pipeline
	maxRanges   = 32     // range aggregations
	maxPatterns = 20_000 // steps of all regular expressions
	maxCalls    = 128    // of functions in templates
)

// regexp counts a regular expression; NewMatcher and newLineFilter judge it.
func (p *parser) regexp(at *token, text string) {
	n, _ := pattern.Size(text)
	if p.patterns += n; p.patterns > maxPatterns {
		p.failAt(at, fmt.Sprintf("the regular expressions of the query become more than %d steps: make them shorter or fewer", maxPatterns))
	}
}

// cur is the token to be read. A word the lexer could not read is an error only
// when it is reached.
func (p *parser) cur() *token {
	t := &p.toks[p.pos]
	if t.kind == tokBad {
		panic(&ParseError{Line: t.line, Column: t.col, Message: t.text})
	}
	return t
}

// peek is the kind of the token after the current one.
func (p *parser) peek() kind {
	if p.pos+1 < len(p.toks) {
		return p.toks[p.pos+1].kind
	}
	return tokEnd
}

func (p *parser) next() *token {
	t := p.cur()
	if t.kind != tokEnd {
		p.pos++
	}
	return t
}

func (p *parser) accept(k kind) bool {
	if p.cur().kind != k {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(k kind) *token {
	if p.cur().kind != k {
		p.unexpected(k)
	}
	return p.next()
}

// unexpected fails at the current token; expecting says what else could stand
// there, if that is little.
func (p *parser) unexpected(expecting ...kind) {
	t := p.cur()
	msg := "syntax error: unexpected " + string(t.kind)
	for i, k := range expecting {
		if i == 0 {
			msg += ", expecting "
		} else {
			msg += " or "
		}
		msg += string(k)
	}
	panic(&ParseError{Line: t.line, Column: t.col, Message: msg})
}

// fail is an error of the query as a whole.
func (p *parser) fail(format string, args ...any) {
	panic(&ParseError{Message: fmt.Sprintf(format, args...)})
}

// wrong notes an error of meaning, of the query as a whole.
func (p *parser) wrong(format string, args ...any) {
	if p.meaning == nil {
		p.meaning = &ParseError{Message: fmt.Sprintf(format, args...)}
	}
}

// stageWrong is wrong of a stage, which Loki writes before what is the matter.
func (p *parser) stageWrong(stage, why string) { p.wrong("stage '%s' : %s", stage, why) }

func (p *parser) failAt(t *token, msg string) {
	panic(&ParseError{Line: t.line, Column: t.col, Message: msg})
}

// unsupported refuses by name.
func (p *parser) unsupported(t *token, what string) {
	panic(&ParseError{Line: t.line, Column: t.col, Message: what + " is not supported here", Unsupported: true})
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxDepth {
		p.fail("the query is nested too deeply")
	}
}

func (p *parser) leave() { p.depth-- }

// precedence of binary operators; 0: none.
func precedence(k kind) int {
	switch k {
	case "or":
		return 1
	case "and", "unless":
		return 2
	case "==", "!=", ">", ">=", "<", "<=":
		return 3
	case "+", "-":
		return 4
	case "*", "/", "%":
		return 5
	case "^":
		return 6
	}
	return 0
}

func isComparison(op string) bool { return precedence(kind(op)) == 3 }
func isLogical(op string) bool    { return op == "or" || op == "and" || op == "unless" }

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

// grouping reads by (a) or without (a), nil if there is none.
func (p *parser) grouping() *grouping {
	k := p.cur().kind
	if k != "by" && k != "without" {
		return nil
	}
	p.next()
	return &grouping{without: k == "without", labels: p.names()}
}

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

// log reads a selector and its pipeline.
func (p *parser) log() *logExpr {
	e := &logExpr{matchers: p.matchers()}
	e.stages, _ = p.stages(false)
	return e
}

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

// stages reads a pipeline; an unwrap ends it, but for label filters.
func (p *parser) stages(unwrap bool) (stages []stage, u *unwrapExpr) {
	for {
		t := p.cur()
		if n := len(stages); n > maxStages || u != nil && len(u.post) > maxStages {
			p.failAt(t, fmt.Sprintf("a pipeline has more than %d stages", maxStages))
		}
		switch t.kind {
		case "|=", "!=", "|~", "!~":
			if u != nil {
				p.unexpected()
			}
			stages = append(stages, p.lineFilter())
			continue
		case "|>", "!>":
			p.unsupported(t, "the pattern line filter "+string(t.kind))
		case "|":
		default:
			return stages, u
		}
		p.next()
		t = p.cur()
		if u != nil {
			if t.kind != tokIdent && t.kind != "(" {
				p.unexpected()
			}
			u.post = append(u.post, &labelFilterStage{p.labelFilter(1)})
			continue
		}
		switch t.kind {
		case "unwrap":
			if !unwrap {
				p.unexpected()
			}
			p.next()
			u = p.unwrapOf()
		case "json":
			stages = append(stages, p.json())
		case "logfmt":
			stages = append(stages, p.logfmt())
		case "line_format":
			p.next()
			v := p.expect(tokString)
			st := &lineFormatStage{text: v.text}
			st.t = p.template(v, "line", "invalid line template: ", st.String)
			stages = append(stages, st)
		case "label_format":
			stages = append(stages, p.labelFormat())
		case "drop", "keep":
			stages = append(stages, p.pick())
		case "regexp", "pattern", "unpack", "decolorize":
			p.unsupported(t, "| "+t.text)
		case tokIdent, "(":
			stages = append(stages, &labelFilterStage{p.labelFilter(1)})
		default:
			p.unexpected()
		}
	}
}

func (p *parser) lineFilter() stage {
	op := p.next()
	var texts []string
	at := p.cur()
	for {
		switch t := p.cur(); t.kind {
		case tokString:
			texts = append(texts, p.next().text)
		case "ip":
			p.unsupported(t, "ip()")
		default:
			p.unexpected(tokString, "ip")
		}
		if !p.accept("or") {
			break
		}
	}
	f, err := newLineFilter(string(op.kind), texts)
	if err != nil {
		if _, ok := errors.AsType[*syntax.Error](err); !ok { // it is too large
			p.failAt(at, err.Error())
		}
		p.stageWrong((&lineFilter{op: string(op.kind), texts: texts}).String(), err.Error())
		return &lineFilter{op: string(op.kind), texts: texts}
	}
	if op.kind == "|~" || op.kind == "!~" {
		for _, text := range texts {
			p.regexp(at, text)
		}
	}
	return f
}

func (p *parser) unwrapOf() *unwrapExpr {
	t := p.cur()
	if unwrapConversions[string(t.kind)] {
		p.next()
		p.expect("(")
		u := &unwrapExpr{conv: string(t.kind), label: p.expect(tokIdent).text}
		p.expect(")")
		return u
	}
	if t.kind != tokIdent {
		p.unexpected(tokIdent, "BYTES_CONV", "DURATION_CONV", "DURATION_SECONDS_CONV")
	}
	return &unwrapExpr{label: p.next().text}
}

func (p *parser) json() stage {
	p.next()
	s := &jsonStage{}
	var bad error
	if p.cur().kind != tokIdent {
		return s
	}
	for {
		name := p.expect(tokIdent)
		path := jsonPath{label: name.text, text: name.text}
		if p.accept("=") {
			path.text = p.expect(tokString).text
		}
		steps, err := parseJSONPath(path.text)
		if err != nil {
			bad = fmt.Errorf("cannot parse expression [%s]: %w", path.text, err)
		}
		path.steps = steps
		s.paths = append(s.paths, path)
		if !p.accept(",") {
			if bad != nil {
				p.stageWrong(strings.ReplaceAll(s.String(), ", ", ","), bad.Error())
			}
			return s
		}
	}
}

func (p *parser) logfmt() stage {
	p.next()
	s := &logfmtStage{}
	for p.cur().kind == tokFlag {
		switch t := p.next(); t.text {
		case "--strict":
			s.strict = true
		case "--keep-empty":
			s.keepEmpty = true
		default:
			p.failAt(t, "syntax error: unexpected "+t.text)
		}
	}
	if t := p.cur(); t.kind == tokIdent {
		p.unsupported(t, "logfmt with expressions")
	}
	return s
}

// template reads a template; stage is its stage as errors write it.
func (p *parser) template(v *token, name, what string, stage func() string) *lineTemplate {
	lt, err := newTemplate(name, v.text)
	if err != nil {
		if isUnsupportedTemplate(err) {
			panic(&ParseError{Line: v.line, Column: v.col, Message: err.Error(), Unsupported: true})
		}
		p.stageWrong(stage(), what+err.Error())
		return &lineTemplate{}
	}
	if p.calls += lt.calls; p.calls > maxCalls {
		p.failAt(v, fmt.Sprintf("the templates of the query call more than %d functions", maxCalls))
	}
	return lt
}

func (p *parser) labelFormat() stage {
	p.next()
	s := &labelFormatStage{}
	var wrong string
	said := func() string { return strings.ReplaceAll(s.String(), ", ", ",") }
	for {
		name := p.expect(tokIdent)
		f := labelFormat{name: name.text}
		if slices.ContainsFunc(s.formats, func(o labelFormat) bool { return o.name == f.name }) && wrong == "" {
			wrong = "multiple label name '" + f.name + "' not allowed in a single format operation"
		}
		if f.name == errorLabel && wrong == "" {
			wrong = errorLabel + " cannot be formatted"
		}
		p.expect("=")
		v := p.cur()
		switch v.kind {
		case tokIdent:
			f.from = p.next().text
		case tokString:
			f.text, f.t = p.next().text, &lineTemplate{}
		default:
			p.unexpected(tokIdent, tokString)
		}
		s.formats = append(s.formats, f)
		if f.t != nil {
			s.formats[len(s.formats)-1].t = p.template(v, "label", "invalid template for label '"+f.name+"': ", said)
		}
		if !p.accept(",") {
			if wrong != "" {
				p.stageWrong(said(), wrong)
			}
			return s
		}
	}
}

func (p *parser) pick() stage {
	s := &pickStage{keep: p.next().kind == "keep"}
	for {
		k := labelPick{name: p.expect(tokIdent).text}
		if op, ok := matchOp(p.cur().kind); ok {
			// | drop a != "x" is a condition, not a line filter.
			p.next()
			m := p.matcher(k.name, op, p.expect(tokString))
			k.m = &m
		}
		s.picks = append(s.picks, k)
		if !p.accept(",") {
			return s
		}
	}
}

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

// arith works out an arithmetic operation, and whether a comparison holds.
// Division by zero is NaN, as Loki has it.
func arith(op string, a, b float64) (v float64, ok bool) {
	switch op {
	case "+":
		return a + b, true
	case "-":
		return a - b, true
	case "*":
		return a * b, true
	case "/":
		if b == 0 {
			return math.NaN(), true
		}
		return a / b, true
	case "%":
		if b == 0 {
			return math.NaN(), true
		}
		return math.Mod(a, b), true
	case "^":
		return math.Pow(a, b), true
	}
	return a, compare(op, a, b)
}

// IsMetric says whether the answer is numbers rather than lines.
func (q *Query) IsMetric() bool {
	_, log := q.e.(*logExpr)
	return !log
}

// String writes the query in a canonical form that parses to the same query.
func (q *Query) String() string { return strings.TrimSpace(q.e.String()) }
