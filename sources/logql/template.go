package logql

import (
	"bytes"
	"errors"
	"fmt"
	"text/template"
	"text/template/parse"
	"time"
)

// maxTemplateOut bounds what a template writes for one line, and each text on
// the way: twice the longest line of a store.
const maxTemplateOut = 512 << 10

// lineTemplate is a compiled template of line_format or label_format.
type lineTemplate struct {
	fields []string // labels it reads
	whole  bool     // it may read all labels, or which there are
	names  []string // of the functions it calls, as often as it does
	parts  []templatePart
	t      *template.Template // nil if parts say it all
}

// templatePart is a text, a label's value or the line.
type templatePart struct {
	text  string
	field string // "" for text and line
	line  bool
}

// unsupportedTemplate is LogQL, but not ours.
type unsupportedTemplate struct{ what string }

func (e unsupportedTemplate) Error() string { return e.what + " is not supported here" }

// newTemplate compiles a template. The error is an unsupportedTemplate for what
// is outside the subset.
func newTemplate(name, text string) (*lineTemplate, error) {
	t, err := template.New(name).Option("missingkey=zero").Funcs(templateFuncs).Funcs(lineFuncs(nil)).Parse(text)
	if err != nil {
		return nil, err
	}
	lt := &lineTemplate{t: t}
	if len(t.Templates()) > 1 {
		return nil, unsupportedTemplate{"{{define}} in a template"}
	}
	if t.Tree == nil || t.Root == nil {
		lt.t = nil
		return lt, nil
	}
	if err := lt.walk(t.Root); err != nil {
		return nil, err
	}
	if parts, ok := plainParts(t.Root); ok {
		lt.parts, lt.t = parts, nil
	}
	return lt, nil
}

// walk collects the fields, and refuses what could run without end.
func (lt *lineTemplate) walk(n parse.Node) error {
	var children []parse.Node
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		children = n.Nodes
	case *parse.ActionNode:
		children = []parse.Node{n.Pipe}
	case *parse.PipeNode:
		if n == nil {
			return nil
		}
		for _, c := range n.Cmds {
			children = append(children, c)
		}
	case *parse.CommandNode:
		children = n.Args
	case *parse.ChainNode:
		children = []parse.Node{n.Node}
	case *parse.FieldNode:
		lt.fields = append(lt.fields, n.Ident[0])
	case *parse.VariableNode:
		if len(n.Ident) > 1 && n.Ident[0] == "$" {
			lt.fields = append(lt.fields, n.Ident[1])
		}
		lt.whole = lt.whole || len(n.Ident) == 1 && n.Ident[0] == "$"
	case *parse.DotNode:
		lt.whole = true
	case *parse.IdentifierNode:
		lt.names = append(lt.names, n.Ident)
		if unsupportedFuncs[n.Ident] {
			return unsupportedTemplate{"the template function " + n.Ident}
		}
	case *parse.IfNode:
		children = []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.WithNode:
		children = []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.RangeNode:
		return unsupportedTemplate{"{{range}} in a template"}
	case *parse.TemplateNode:
		return unsupportedTemplate{"{{template}} in a template"}
	}
	for _, c := range children {
		if err := lt.walk(c); err != nil {
			return err
		}
	}
	return nil
}

// plainParts returns a template that only puts labels and the line between
// texts.
func plainParts(root *parse.ListNode) ([]templatePart, bool) {
	var parts []templatePart
	for _, n := range root.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			parts = append(parts, templatePart{text: string(n.Text)})
		case *parse.ActionNode:
			if len(n.Pipe.Decl) > 0 || len(n.Pipe.Cmds) != 1 || len(n.Pipe.Cmds[0].Args) != 1 {
				return nil, false
			}
			switch arg := n.Pipe.Cmds[0].Args[0].(type) {
			case *parse.FieldNode:
				if len(arg.Ident) != 1 {
					return nil, false
				}
				parts = append(parts, templatePart{field: arg.Ident[0]})
			case *parse.IdentifierNode:
				if arg.Ident != "__line__" {
					return nil, false
				}
				parts = append(parts, templatePart{line: true})
			default:
				return nil, false
			}
		default:
			return nil, false
		}
	}
	return parts, true
}

// bind makes a template of one's own.
func (lt *lineTemplate) bind(p *pipeline) *boundTemplate {
	b := &boundTemplate{p: p, parts: lt.parts, whole: lt.whole}
	for _, name := range lt.fields {
		b.reads = append(b.reads, p.symbol(name))
	}
	for _, part := range lt.parts {
		var s *symbol
		if part.field != "" {
			s = p.symbol(part.field)
		}
		b.symbols = append(b.symbols, s)
	}
	if lt.t != nil {
		t, err := lt.t.Clone()
		if err != nil {
			b.err = err
			return b
		}
		funcs := lineFuncs(b)
		if p.m != nil {
			funcs = metered(p.m, lt.names, funcs)
		}
		b.t = t.Funcs(funcs)
	}
	return b
}

type boundTemplate struct {
	p       *pipeline
	parts   []templatePart
	symbols []*symbol // by part; nil for one that is no label
	reads   []*symbol
	whole   bool // reads are not all
	t       *template.Template
	err     error
	out     bytes.Buffer

	ts   int64
	line []byte
}

// data adds the labels that the template may read.
func (b *boundTemplate) data(data map[string]string) {
	if b.whole {
		for _, l := range b.p.labels() {
			data[l.Name] = l.Value
		}
		return
	}
	for _, s := range b.reads {
		if _, have := data[s.name]; have {
			continue
		}
		if v, ok := b.p.look(s); ok {
			data[s.name] = string(v)
		}
	}
}

// executeWith is execute with labels as they were.
func (b *boundTemplate) executeWith(ts int64, line []byte, data map[string]string) ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	b.out.Reset()
	if b.t == nil {
		for _, part := range b.parts {
			v := part.text
			size := len(v)
			if part.field != "" {
				v = data[part.field]
				size = len(v)
			} else if part.line {
				size = len(line)
			}
			if b.out.Len()+size > maxTemplateOut {
				return nil, errTooLong
			}
			if part.line {
				b.out.Write(line)
			} else {
				b.out.WriteString(v)
			}
		}
		return b.out.Bytes(), nil
	}
	b.ts, b.line = ts, line
	if err := b.t.Execute(boundedWriter{&b.out}, data); err != nil {
		return nil, err
	}
	return b.out.Bytes(), nil
}

// execute returns what the template makes of the line; valid until the next.
func (b *boundTemplate) execute(ts int64, line []byte) ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	b.out.Reset()
	if b.t == nil {
		for i, part := range b.parts {
			if b.symbols[i] == nil && !part.line {
				b.out.WriteString(part.text)
				continue
			}
			v := line
			if !part.line {
				v, _ = b.p.look(b.symbols[i])
			}
			if b.out.Len()+len(v) > maxTemplateOut {
				return nil, errTooLong
			}
			b.out.Write(v)
		}
		return b.out.Bytes(), nil
	}
	data := map[string]string{}
	b.data(data)
	return b.executeWith(ts, line, data)
}

// lineFuncs are the template functions that depend on the line, and those that
// may take so long that the query can end in them.
func lineFuncs(b *boundTemplate) template.FuncMap {
	return template.FuncMap{
		"__line__":      func() string { return string(b.line) },
		"__timestamp__": func() time.Time { return time.Unix(0, b.ts).UTC() },

		"count":                  func(re, s string) (int, error) { return b.p.m.count(re, s) },
		"regexReplaceAll":        func(re, s, repl string) (string, error) { return b.p.m.replace(re, s, repl) },
		"regexReplaceAllLiteral": func(re, s, repl string) (string, error) { return b.p.m.replaceLiteral(re, s, repl) },
	}
}

type boundedWriter struct{ b *bytes.Buffer }

var (
	errTooLong  = fmt.Errorf("more than %d bytes", maxTemplateOut)
	errLineFull = fmt.Errorf("the templates make more than %d bytes of one line", maxArena)
)

func (w boundedWriter) Write(p []byte) (int, error) {
	if w.b.Len()+len(p) > maxTemplateOut {
		return 0, errTooLong
	}
	return w.b.Write(p)
}

// isUnsupportedTemplate says whether an error is a refusal.
func isUnsupportedTemplate(err error) bool {
	_, ok := errors.AsType[unsupportedTemplate](err)
	return ok
}
