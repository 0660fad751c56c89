package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file, far above any configuration. The parser's time and stack
// grow with both.
const (
	maxFileBytes = 1 << 20
	maxNesting   = 32
)

// shape is what a node is.
type shape uint8

const (
	shapeNull shape = iota
	shapeScalar
	shapeMap
	shapeList
	shapeRefused // already reported: an alias, an anchor, a tag
)

func (s shape) String() string {
	return [...]string{"nothing", "a single value", "a map", "a list", "something else"}[s]
}

// node is a value of the file.
type node struct {
	shape   shape
	at      position
	text    string // of a scalar, as it was written if it was not quoted
	quoted  bool   // text in quotes, or a block
	word    string // what an unquoted scalar reads as if it is not text: number, yes or no
	entries []entry
	items   []*node
}

// entry is one key of a map.
type entry struct {
	key   string
	at    position
	value *node
	// lone says that there is no colon: the word after a comma in a flow map.
	lone bool
}

type position struct{ line, column int }

// parse reads YAML. The node is nil if there is nothing to go on with; then
// there is a problem.
func parse(file string, data []byte) (*node, Problems) {
	p := &yamlReader{file: file, text: string(data)}
	n := p.read(data)
	return n, p.problems
}

// yamlReader turns the parser's tree into nodes and refuses what a
// configuration needs not.
type yamlReader struct {
	file     string
	text     string
	lines    []string // of text, once they are needed
	problems Problems
}

func (p *yamlReader) add(at position, message, hint string) {
	p.problems = append(p.problems, Problem{File: p.file, Line: at.line, Column: at.column, Message: message, Hint: hint})
}

func (p *yamlReader) read(data []byte) *node {
	start := position{1, 1}
	if len(data) > maxFileBytes {
		p.add(start, fmt.Sprintf("the file has %d bytes, more than %d", len(data), maxFileBytes), "")
		return nil
	}
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		p.add(start, "the file is UTF-16", "save it as UTF-8")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if at, message, hint := invalidText(data); message != "" {
		p.add(at, message, hint)
		return nil
	}
	file, err := parseTokens(string(data))
	if err != nil {
		p.syntax(string(data), err)
		return nil
	}
	var body *node
	for i, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if i > 0 && body != nil {
			at := (&yamlReader{text: p.text}).node(doc.Body).at // whatever else is wrong there
			p.add(at, "a second document", "keep one configuration per file, without ---")
			return nil
		}
		body = p.node(doc.Body)
	}
	if body == nil {
		message := "the file is empty"
		if len(bytes.TrimSpace(data)) > 0 {
			message = "the file holds only comments"
		}
		p.add(start, message, "listen, upstreams and models are required")
		return nil
	}
	return body
}

// invalidText returns where data stops being text: invalid UTF-8, or a control
// character that YAML does not allow.
func invalidText(data []byte) (at position, message, hint string) {
	at = position{1, 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return at, "bytes that are not UTF-8", "save the file as UTF-8"
		case r == 0xfeff:
			return at, "a byte order mark within the file", "remove it"
		case r == '\r' && !bytes.HasPrefix(data, []byte("\r\n")):
			return at, "a carriage return without a line feed", "end lines with a line feed"
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f:
			return at, "a control character", `write it as an escape in double quotes, as "\x1b"`
		}
		at.column++
		if r == '\n' {
			at = position{at.line + 1, 1}
		}
		data = data[size:]
	}
	return at, "", ""
}

// errNesting is a file that is nested too deep, or could be.
type errNesting struct{ at position }

func (e *errNesting) Error() string { return "nested too deep" }

// parseTokens is the parser behind a bound for its recursion. It turns a panic
// of the parser into an error: whoever wrote the file is owed a message.
func parseTokens(text string) (f *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, err = nil, errors.New("the YAML parser does not understand this file")
		}
	}()
	tokens := lexer.Tokenize(text)
	if at, deep := nesting(tokens); deep {
		return nil, &errNesting{at}
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// nesting reports whether tokens would make the parser recurse too deep, and where.
func nesting(tokens token.Tokens) (position, bool) {
	flow, run := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		}
		switch t.Type {
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType, token.TagType, token.AnchorType:
			run++
		default:
			run = 0
		}
		if flow > maxNesting || run > maxNesting || t.Position.IndentLevel > maxNesting {
			return positionOf(t), true
		}
	}
	return position{}, false
}

// quotedPart is a piece of the file inside a message of the parser.
var quotedPart = regexp.MustCompile(` ?"[^"]*"`)

// syntax reports what the parser refused, in words that do not repeat the file.
func (p *yamlReader) syntax(text string, err error) {
	if e, ok := errors.AsType[*errNesting](err); ok {
		p.add(e.at, fmt.Sprintf("nested more than %d deep", maxNesting), "")
		return
	}
	e, ok := errors.AsType[*yaml.SyntaxError](err)
	if !ok || e.Token == nil {
		p.add(position{1, 1}, "not valid YAML", "")
		return
	}
	at := positionOf(e.Token)
	lines := strings.Split(text, "\n")
	line := ""
	if at.line <= len(lines) {
		line = lines[at.line-1]
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	message, hint := e.Message, ""
	switch {
	case strings.Contains(indent, "\t") && strings.Contains(e.Message, "cannot start any token"):
		at.column = strings.Index(indent, "\t") + 1
		message, hint = "a tab in the indentation", "indent with spaces"
	case strings.Contains(e.Message, "mapping value is not allowed"):
		message, hint = "a second colon in one line, or a key under a value", "put a value that has a colon and a space into quotes"
	case strings.Contains(line, "[:"):
		hint = `put an IPv6 address into quotes, as "[::1]:8080"`
	case strings.Contains(e.Message, "end token ']'"):
		message, hint = "the list is not closed", "add ]"
	case strings.Contains(e.Message, "',' or ']'"):
		message, hint = "a comma or ] is missing", "put a text that has one of , [ ] { } into quotes"
	case strings.Contains(e.Message, "',' or '}'"):
		message, hint = "a comma or } is missing", "put a text that has one of , [ ] { } into quotes"
	case strings.Contains(e.Message, "end token '}'"):
		message, hint = "the map is not closed", "add }"
	case strings.Contains(e.Message, "-quoted text"):
		message, hint = "the quote is not closed", ""
	case strings.Contains(e.Message, "reserved character"):
		message, hint = "a value cannot begin with this character", "put it into quotes"
	case strings.Contains(e.Message, "value is not allowed in this context"), strings.Contains(e.Message, "non-map value"):
		message, hint = "this does not belong here", "check the indentation"
	case strings.Contains(e.Message, "found an invalid key"):
		message, hint = "a key that is not a word", "a text that has one of , [ ] { } ? : needs quotes"
	case strings.Contains(e.Message, "unexpected key name"):
		message, hint = "a key without a colon", "write key: value"
	default:
		message = quotedPart.ReplaceAllString(message, "")
	}
	p.add(at, "not valid YAML: "+message, hint)
}

func positionOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// position is positionOf for a line with tabs too: the parser does not count
// those that separate tokens.
func (p *yamlReader) position(t *token.Token) position {
	at := positionOf(t)
	if !strings.Contains(p.text, "\t") {
		return at
	}
	if p.lines == nil {
		p.lines = strings.Split(strings.TrimPrefix(p.text, "\ufeff"), "\n")
	}
	word, _, _ := strings.Cut(strings.TrimSpace(t.Origin), "\n")
	if at.line > len(p.lines) || word == "" {
		return at
	}
	line := []rune(p.lines[at.line-1])
	if from := at.column - 1; from < len(line) {
		if before, _, found := strings.Cut(string(line[from:]), word); found {
			at.column += utf8.RuneCountInString(before)
		}
	}
	return at
}

func (p *yamlReader) node(n ast.Node) *node {
	at := p.position(n.GetToken())
	switch n := n.(type) {
	case *ast.MappingNode:
		m := &node{shape: shapeMap, at: at}
		if !n.IsFlowStyle && len(n.Values) > 0 {
			m.at = p.position(n.Values[0].Key.GetToken())
		}
		for _, v := range n.Values {
			p.entry(m, v)
		}
		return m
	case *ast.MappingValueNode:
		m := &node{shape: shapeMap, at: p.position(n.Key.GetToken())}
		p.entry(m, n)
		return m
	case *ast.SequenceNode:
		l := &node{shape: shapeList, at: at}
		for _, v := range n.Values {
			if word := p.glued(v); word != nil && n.IsFlowStyle {
				l.items = append(l.items, word)
				continue
			}
			l.items = append(l.items, p.node(v))
		}
		return l
	case *ast.NullNode:
		return &node{shape: shapeNull, at: at}
	case *ast.LiteralNode:
		return &node{shape: shapeScalar, at: at, text: n.Value.Value, quoted: true}
	case *ast.StringNode:
		quoted := n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType
		if p.tab(n.Token) {
			return &node{shape: shapeRefused, at: at}
		}
		return &node{shape: shapeScalar, at: at, text: n.Value, quoted: quoted, word: ""}
	case *ast.IntegerNode:
		return &node{shape: shapeScalar, at: at, text: n.Token.Value, word: "a number"}
	case *ast.FloatNode:
		return &node{shape: shapeScalar, at: at, text: n.Token.Value, word: "a number"}
	case *ast.InfinityNode:
		return &node{shape: shapeScalar, at: at, text: n.Token.Value, word: "a number"}
	case *ast.NanNode:
		return &node{shape: shapeScalar, at: at, text: n.Token.Value, word: "a number"}
	case *ast.BoolNode:
		return &node{shape: shapeScalar, at: at, text: n.Token.Value, word: "a yes or no"}
	case *ast.AnchorNode:
		p.add(at, "an anchor (&)", "anchors and aliases are not supported; write the values out")
	case *ast.AliasNode:
		p.add(at, "an alias (*)", "anchors and aliases are not supported; write the values out, or quote a text that begins with *")
	case *ast.TagNode:
		p.add(at, "a tag (!)", "tags are not supported; leave it out, or quote a text that begins with !")
	case *ast.DirectiveNode:
		p.add(at, "a directive (%)", "directives are not supported; leave it out")
	default:
		p.add(at, "something that does not belong into a configuration", "")
	}
	return &node{shape: shapeRefused, at: at}
}

// tab refuses a tab inside a text without quotes: the parser drops it, others
// do not.
func (p *yamlReader) tab(t *token.Token) bool {
	if t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType || !strings.Contains(strings.TrimSpace(t.Origin), "\t") {
		return false
	}
	p.add(p.position(t), "a tab inside a text", "write a space, or put the text into quotes")
	return true
}

func (p *yamlReader) entry(m *node, v *ast.MappingValueNode) {
	at := p.position(v.Key.GetToken())
	e := entry{at: at}
	switch k := v.Key.(type) {
	case *ast.MergeKeyNode:
		p.add(at, "a merge key (<<)", "anchors and aliases are not supported; write the values out")
		m.shape = shapeRefused
		return
	case *ast.StringNode:
		e.key = k.Value
		if p.tab(k.Token) {
			m.shape = shapeRefused
			return
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		e.key = v.Key.GetToken().Value
	default:
		p.add(at, "a key that is not a word", "")
		return
	}
	if adjacent(v) {
		p.add(at, "a space is missing after the colon", "write key: value")
		m.shape = shapeRefused
		return
	}
	e.lone = v.Start != nil && v.Start.Type != token.MappingValueType
	e.value = p.node(v.Value)
	if e.value.shape == shapeNull {
		e.value.at = at
	}
	m.entries = append(m.entries, e)
}

// adjacent reports whether the value of an unquoted key follows its colon
// without a space. In flow style that is one text, as in [env:KEY], and to
// this parser it is a key and a value.
func adjacent(v *ast.MappingValueNode) bool {
	key, colon := v.Key.GetToken(), v.Start
	if colon == nil || colon.Type != token.MappingValueType || key.Type == token.SingleQuoteType || key.Type == token.DoubleQuoteType {
		return false
	}
	c, x := positionOf(colon), positionOf(v.Value.GetToken())
	_, absent := v.Value.(*ast.NullNode)
	origin := v.Value.GetToken().Origin // with the white space before it
	return !absent && c.line == x.line && x.column == c.column+1 && strings.TrimLeft(origin, " \t\n") == origin
}

// glued is the text that n was before the parser took it for a key and a
// value; nil if it was not.
func (p *yamlReader) glued(n ast.Node) *node {
	v, ok := n.(*ast.MappingValueNode)
	if m, isMap := n.(*ast.MappingNode); isMap && !m.IsFlowStyle && len(m.Values) == 1 {
		v, ok = m.Values[0], true
	}
	if !ok || !adjacent(v) {
		return nil
	}
	if _, plain := v.Value.(ast.ScalarNode); !plain {
		return nil
	}
	key := v.Key.GetToken()
	return &node{shape: shapeScalar, at: p.position(key), text: key.Value + ":" + v.Value.GetToken().Value}
}
