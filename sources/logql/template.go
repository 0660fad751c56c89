package logql

import (
	"bytes"
	"errors"
	"fmt"
	"text/template"
	"text/template/parse"
	"time"
)

// maxTemplateOut bounds what a template writes for one line.
const maxTemplateOut = 1 << 20

// lineTemplate is a compiled template of line_format or label_format.
type lineTemplate struct {
	fields []string // labels it reads
	calls  int      // of functions
	parts  []templatePart
	t      *template.Template // nil if parts say it all
}

// templatePart is a text, or a label's value.
type templatePart struct {
	text  string
	field string // "" for text
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
	case *parse.IdentifierNode:
		lt.calls++
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

// plainParts returns a template that only puts labels between texts.
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
			f, ok := n.Pipe.Cmds[0].Args[0].(*parse.FieldNode)
			if !ok || len(f.Ident) != 1 {
				return nil, false
			}
			parts = append(parts, templatePart{field: f.Ident[0]})
		default:
			return nil, false
		}
	}
	return parts, true
}

// bind makes a template of one's own.
func (lt *lineTemplate) bind(p *pipeline) *boundTemplate {
	b := &boundTemplate{p: p, parts: lt.parts}
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
		b.t = t.Funcs(lineFuncs(b))
	}
	return b
}

type boundTemplate struct {
	p       *pipeline
	parts   []templatePart
	symbols []*symbol
	t       *template.Template
	err     error
	out     bytes.Buffer

	ts   int64
	line []byte
}

// data are the labels for a template.
func (p *pipeline) data() map[string]string {
	data := map[string]string{}
	for _, l := range p.labels() {
		data[l.Name] = l.Value
	}
	return data
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
			if part.field != "" {
				v = data[part.field]
			}
			if b.out.Len()+len(v) > maxTemplateOut {
				return nil, errTooLong
			}
			b.out.WriteString(v)
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
			if b.symbols[i] == nil {
				b.out.WriteString(part.text)
				continue
			}
			v, _ := b.p.look(b.symbols[i])
			if b.out.Len()+len(v) > maxTemplateOut {
				return nil, errTooLong
			}
			b.out.Write(v)
		}
		return b.out.Bytes(), nil
	}
	return b.executeWith(ts, line, b.p.data())
}

// lineFuncs are the template functions that depend on the line.
func lineFuncs(b *boundTemplate) template.FuncMap {
	return template.FuncMap{
		"__line__":      func() string { return string(b.line) },
		"__timestamp__": func() time.Time { return time.Unix(0, b.ts).UTC() },
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
