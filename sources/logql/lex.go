package logql

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/common/model"
)

// kind is what a token is. Keywords and punctuation are their own text, as error
// messages write them.
type kind string

const (
	tokEnd      kind = "$end"
	tokIdent    kind = "IDENTIFIER"
	tokString   kind = "STRING"
	tokNumber   kind = "NUMBER"
	tokDuration kind = "DURATION"
	tokBytes    kind = "BYTES"
	tokRange    kind = "RANGE"
	tokFlag     kind = "PARSER_FLAG"
	tokBad      kind = "" // text is the message
)

// token is one word of a query.
type token struct {
	kind      kind
	text      string // of a string: its value
	line, col int
	lost      bool // Loki knows its column alone: it is more than a name, a string, a number or a single sign
	num       float64
	dur       time.Duration
	size      uint64
}

// lokisLine is the line as Loki tells it: 0 where it has lost it.
func (t *token) lokisLine() int {
	if t.lost {
		return 0
	}
	return t.line
}

// keywords are never names. Like functions they are the same in any case.
var keywords = map[string]bool{
	"by": true, "without": true, "bool": true, "on": true, "ignoring": true,
	"group_left": true, "group_right": true, "offset": true,
	"and": true, "or": true, "unless": true, "unwrap": true,
	"json": true, "logfmt": true, "regexp": true, "pattern": true, "unpack": true,
	"line_format": true, "label_format": true, "decolorize": true,
	"drop": true, "keep": true, "variants": true, "of": true,
}

// functions are names unless a parenthesis or a grouping follows.
var functions = map[string]bool{}

func init() {
	for _, set := range []map[string]bool{rangeOps, vectorOps, unsupportedCalls, unwrapConversions} {
		for name := range set {
			functions[name] = true
		}
	}
	functions["vector"] = true
	functions["ip"] = true
}

// lex cuts a query into tokens; the last is tokEnd or tokBad.
func lex(src string) []token {
	l := lexer{src: src, line: 1, col: 1}
	var out []token
	for {
		t := l.next()
		out = append(out, t)
		if t.kind == tokEnd || t.kind == tokBad {
			break
		}
	}
	for i := range out {
		t := &out[i]
		if t.kind != tokIdent || i+1 == len(out) {
			continue
		}
		if name := strings.ToLower(t.text); functions[name] {
			switch out[i+1].kind {
			case "(", "by", "without":
				t.kind = kind(name)
			}
		}
	}
	return out
}

type lexer struct {
	src       string
	pos       int
	line, col int
}

// advance moves over n bytes.
func (l *lexer) advance(n int) {
	for _, r := range l.src[l.pos : l.pos+n] {
		if r == '\n' {
			l.line++
			l.col = 1
		} else {
			l.col++
		}
	}
	l.pos += n
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isNameStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

func isNameByte(c byte) bool { return isNameStart(c) || isDigit(c) }

// nameLength is how many bytes at the start of s are a name; 0: none.
func nameLength(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return i
		}
	}
	return len(s)
}

// operators, longest first.
var operators = []string{
	"|=", "|~", "|>", "!=", "!~", "!>", "=~", "==", ">=", "<=",
	"{", "}", "(", ")", ",", "|", "=", ">", "<", "+", "-", "*", "/", "%", "^", ".",
}

func (l *lexer) next() token {
	for l.pos < len(l.src) {
		c, rest := l.src[l.pos], l.src[l.pos:]
		if c == '#' || strings.HasPrefix(rest, "//") {
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			l.advance(end)
			continue
		}
		if strings.HasPrefix(rest, "/*") {
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return token{kind: tokBad, text: "comment not terminated", line: l.line, col: l.col}
			}
			l.advance(end + 4)
			continue
		}
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			break
		}
		l.advance(1)
	}
	t := token{line: l.line, col: l.col}
	rest := l.src[l.pos:]
	if rest == "" {
		t.kind = tokEnd
		return t
	}
	bad := func(msg string) token {
		t.kind, t.text = tokBad, msg
		return t
	}
	switch c := rest[0]; {
	case nameLength(rest) > 0:
		n := nameLength(rest)
		t.text, t.kind = rest[:n], tokIdent
		if word := strings.ToLower(t.text); keywords[word] {
			t.kind = kind(word)
		}
		l.advance(n)
		return t
	case isDigit(c) || c == '.' && len(rest) > 1 && isDigit(rest[1]):
		return l.number(t, rest)
	case c == '"':
		n := 1
		for n < len(rest) && rest[n] != '"' && rest[n] != '\n' {
			if rest[n] == '\\' && n+1 < len(rest) {
				n++
			}
			n++
		}
		if n >= len(rest) || rest[n] != '"' {
			return bad("literal not terminated")
		}
		s, err := strconv.Unquote(rest[:n+1])
		if err != nil {
			return bad("invalid char escape")
		}
		t.kind, t.text = tokString, s
		l.advance(n + 1)
		return t
	case c == '`':
		n := strings.IndexByte(rest[1:], '`')
		if n < 0 {
			return bad("literal not terminated")
		}
		t.kind, t.text = tokString, strings.ReplaceAll(rest[1:n+1], "\r", "")
		l.advance(n + 2)
		return t
	case c == '[':
		t.lost = true
		n := strings.IndexByte(rest, ']')
		if n < 0 {
			return bad("missing closing ']' in duration")
		}
		d, err := model.ParseDuration(rest[1:n])
		if err != nil {
			return bad(err.Error())
		}
		t.kind, t.text, t.dur = tokRange, rest[:n+1], time.Duration(d)
		l.advance(n + 1)
		return t
	case strings.HasPrefix(rest, "--") && len(rest) > 2 && isNameStart(rest[2]):
		n := 2
		for n < len(rest) && (isNameByte(rest[n]) || rest[n] == '-') {
			n++
		}
		t.kind, t.text, t.lost = tokFlag, rest[:n], true
		l.advance(n)
		return t
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			t.kind, t.text = kind(op), op
			t.lost = len(op) > 1
			l.advance(len(op))
			return t
		}
	}
	return bad("syntax error: unexpected " + string(tokIdent)) // which Loki takes a stray sign for
}

// number reads a number, a duration or a size.
func (l *lexer) number(t token, rest string) token {
	n := 0
	for n < len(rest) {
		c := rest[n]
		if isNameByte(c) || c == '.' || strings.HasPrefix(rest[n:], "µ") {
			n++
			if c == "µ"[0] {
				n++
			}
			continue
		}
		// The sign of an exponent belongs to the number.
		if (c == '+' || c == '-') && n > 0 && (rest[n-1] == 'e' || rest[n-1] == 'E') &&
			strings.Trim(rest[:n-1], "0123456789.") == "" && n+1 < len(rest) && isDigit(rest[n+1]) {
			n++
			continue
		}
		break
	}
	t.text = rest[:n]
	if f, err := strconv.ParseFloat(t.text, 64); err == nil && !strings.ContainsAny(t.text, "xX_") {
		t.kind, t.num = tokNumber, f
	} else if d, ok := parseDuration(t.text); ok {
		t.kind, t.dur, t.lost = tokDuration, d, true
	} else if b, ok := parseSize(t.text); ok {
		if b == 0 {
			t.kind, t.text = tokBad, "binary literal has no digits" // 0B, which is how Loki writes it
			return t
		}
		t.kind, t.size, t.lost = tokBytes, b, true
	} else if n := len(t.text) - len(strings.TrimLeft(t.text, "0123456789.")); n < len(t.text) && !strings.ContainsRune("eExXpPbBoO_", rune(t.text[n])) {
		// A number, and a name right behind it.
		f, err := strconv.ParseFloat(t.text[:n], 64)
		if err != nil {
			t.kind, t.text = tokBad, "syntax error: unexpected "+string(tokNumber)
			return t
		}
		t.kind, t.num, t.text = tokNumber, f, t.text[:n]
		l.advance(n)
		return t
	} else {
		t.kind, t.text = tokBad, "syntax error: "+strconv.Quote(t.text)+" is no number, duration or size"
		return t
	}
	l.advance(n)
	return t
}
