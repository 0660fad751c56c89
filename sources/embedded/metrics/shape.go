package metrics

import (
	"fmt"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"

	"failback/sources/pattern"
)

// The parser takes time with the square of how deep an expression is, and cannot
// be stopped: what is too deep is refused by its tokens. Only that is refused
// here which walk or the parser would refuse too, but for numbers with more than
// maxNesting signs in a row or maxNodes in all.
const (
	// maxOperators have more than maxNodes operands and operators.
	maxOperators = maxNodes / 2
	// maxParens are of more than maxNodes parts: each part has at most two pairs.
	maxParens = 2 * maxNodes
)

// scan refuses by its tokens what is not to be parsed: too deep, too many parts,
// regular expressions of matchers that are too large, which the parser compiles.
// It takes time with the length of expr.
func scan(expr string) error {
	var (
		item                              parser.Item
		last                              parser.ItemType
		inBraces                          bool
		deep, parens, brackets, operators int
		signs, row                        int
	)
	for l := parser.Lex(expr); ; last = item.Typ {
		l.NextItem(&item)
		sign := false
		switch item.Typ {
		case parser.EOF, parser.ERROR:
			return nil
		case parser.LEFT_BRACE:
			inBraces = true
		case parser.RIGHT_BRACE:
			inBraces = false
		case parser.LEFT_PAREN:
			deep++
			parens++
		case parser.RIGHT_PAREN:
			deep--
		case parser.LEFT_BRACKET:
			brackets++
		case parser.STRING:
			if last != parser.EQL_REGEX && last != parser.NEQ_REGEX {
				break
			}
			// What is no expression is for the parser to say.
			if text, err := strutil.Unquote(item.Val); err == nil {
				if n, err := pattern.Size(text); err != nil && n > 0 {
					return err
				}
			}
		case parser.ADD, parser.SUB:
			if sign = !operand(last); sign {
				signs++
			} else {
				operators++
			}
		case parser.AT:
		default:
			if item.Typ.IsOperator() && !inBraces {
				operators++
			}
		}
		if sign {
			row++
		} else {
			row = 0
		}
		switch {
		case deep > maxNesting, row > maxNesting:
			return fmt.Errorf("the expression is nested deeper than %d", maxNesting)
		case operators > maxOperators, parens > maxParens, brackets > maxNodes, signs > maxNodes:
			return fmt.Errorf("the expression has more than %d parts", maxNodes)
		}
	}
}

// operand reports whether an operand may end with a token of this type: a plus
// or minus behind it is then no sign.
func operand(t parser.ItemType) bool {
	switch t {
	case parser.RIGHT_PAREN, parser.RIGHT_BRACE, parser.RIGHT_BRACKET, parser.NUMBER, parser.DURATION,
		parser.STRING, parser.IDENTIFIER, parser.METRIC_IDENTIFIER:
		return true
	}
	return false
}

// parse parses what is only looked at, and refuses it where query would for its
// shape.
func (s *Store) parse(name, expr string) (parser.Expr, *apiError) {
	if bad := s.tooLong(name, expr); bad != nil {
		return nil, bad
	}
	if err := scan(expr); err != nil {
		return nil, badParameter(name, err)
	}
	e, err := s.parser.ParseExpr(expr)
	if err != nil {
		return nil, badParameter(name, err)
	}
	nodes := 0
	if err := shape(e, 0, &nodes); err != nil {
		return nil, badParameter(name, err)
	}
	return e, nil
}

// shape judges e, with deep expressions around it, after nodes of them.
func shape(e parser.Node, deep int, nodes *int) error {
	if err := count(nodes, &deep); err != nil {
		return err
	}
	for c := range parser.ChildrenIter(e) {
		if err := shape(c, deep, nodes); err != nil {
			return err
		}
	}
	return nil
}

// count counts one more part, one deeper.
func count(nodes, deep *int) error {
	if *nodes++; *nodes > maxNodes {
		return fmt.Errorf("the expression has more than %d parts", maxNodes)
	}
	if *deep++; *deep > maxNesting {
		return fmt.Errorf("the expression is nested deeper than %d", maxNesting)
	}
	return nil
}
