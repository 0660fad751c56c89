// Package pattern owns how large a regular expression of a question may be.
// It never compiles one: what is too large must not be compiled to be refused.
package pattern

import (
	"fmt"
	"regexp/syntax"
)

const (
	// MaxSize bounds the size of an expression. Matching a line takes time with
	// the product of both lengths, and cannot be stopped.
	MaxSize = 1_000
	// maxWords bounds one that only lists texts, which matches in one pass.
	maxWords = 16 << 10
)

// Size is about how many instructions the expression becomes when it is
// compiled, and an error if it is none or has more than MaxSize. A list of
// texts (a|b|c) may be longer.
func Size(expr string) (int, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, err
	}
	n, words := size(re)
	if limit := limitOf(words); n > limit {
		return n, fmt.Errorf("the regular expression becomes more than %d steps, repetitions counted: make it shorter", limit)
	}
	return n, nil
}

func limitOf(words bool) int {
	if words {
		return maxWords
	}
	return MaxSize
}

// size is saturated far above every limit. words: there are only texts and
// alternatives in it.
func size(re *syntax.Regexp) (n int, words bool) {
	words = true
	for _, sub := range re.Sub {
		m, w := size(sub)
		n, words = min(n+m, 1<<24), words && w
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune), true
	case syntax.OpConcat, syntax.OpEmptyMatch, syntax.OpCapture,
		syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine:
		return n + 2, words
	case syntax.OpAlternate:
		return n + len(re.Sub), words
	case syntax.OpRepeat:
		times := re.Max
		if times < 0 {
			times = re.Min + 1
		}
		return min((n+1)*max(times, 1), 1<<24), false
	case syntax.OpCharClass:
		return 1, re.Flags&syntax.FoldCase != 0 || len(re.Rune) <= 8 // [ab] comes of a|b
	}
	return n + 1, false
}
