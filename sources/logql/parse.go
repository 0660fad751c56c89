package logql

import (
	"fmt"
	"unicode/utf8"

	"failback/sources/pattern"
)

// maxQuery bounds the text of a query.
const maxQuery = 128 << 10

// What a query may hold, beside its length.
const (
	maxStages   = 64     // of a pipeline
	maxRanges   = 32     // range aggregations
	maxPatterns = 20_000 // steps of all regular expressions
	maxCalls    = 128    // of functions in templates
)

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
		p.failAsLoki(t, t.text)
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
	p.failAsLoki(t, msg)
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

// failAsLoki is an error that Loki has too, at the place that it tells.
func (p *parser) failAsLoki(t *token, msg string) {
	panic(&ParseError{Line: t.lokisLine(), Column: t.col, Message: msg})
}

// failAt is an error that Loki has not.
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
