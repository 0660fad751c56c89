package runbooks

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	yamlparser "github.com/goccy/go-yaml/parser"
)

var (
	idForm    = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	wordForm  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	alertForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)
)

// frontKeys are the keys of the front matter; those that are needed come first.
var (
	neededKeys = []string{"id", "title", "contact", "reviewed", "when"}
	frontKeys  = append(neededKeys[:len(neededKeys):len(neededKeys)], "alerts")
)

// front reads the front matter; its first line is line 2 of the file.
func (p *parser) front(r *Runbook, lines []string) {
	const before = 1 // lines above
	f, err := yamlparser.ParseBytes([]byte(strings.Join(lines, "\n")), 0)
	if err != nil {
		line := 1
		if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil {
			line = e.GetToken().Position.Line
			err = errors.New(e.GetMessage())
		}
		p.fail(line+before, "front matter: %v", err)
		return
	}
	if len(f.Docs) != 1 || f.Docs[0].Body == nil {
		p.fail(1, "the front matter is empty: it has %s", list(frontKeys))
		return
	}
	at := func(n ast.Node) int { return n.GetToken().Position.Line + before }
	m := p.mapping(f.Docs[0].Body, frontKeys, "front matter", at)
	for _, k := range neededKeys {
		if m[k] == nil {
			p.fail(1, "front matter: %s is missing", k)
		}
	}
	text := func(key string, most int) string {
		n := m[key]
		if n == nil {
			return ""
		}
		s, ok := scalar(n)
		switch {
		case !ok:
			p.fail(at(n), "%s is not a text", key)
		case s == "":
			p.fail(at(n), "%s is empty", key)
		case len([]rune(s)) > most:
			p.fail(at(n), "%s has more than %d characters: it stands in one row with others", key, most)
		}
		return s
	}
	r.ID, r.Title, r.Contact = text("id", maxID), text("title", maxTitle), text("contact", maxTitle)
	if n := m["id"]; n != nil {
		p.idLine = at(n)
		if r.ID != "" && !idForm.MatchString(r.ID) {
			p.fail(at(n), "id %q: only a-z, 0-9 and single - between them", r.ID)
		}
	}
	if n := m["reviewed"]; n != nil {
		s := text("reviewed", maxTitle)
		day, err := time.Parse(time.DateOnly, s)
		if err != nil {
			p.fail(at(n), "reviewed %q is not a day: write it as 2026-11-30", s)
		}
		r.Reviewed = day
	}
	if n := m["when"]; n != nil {
		p.when(r, n, at)
	}
	if n := m["alerts"]; n != nil {
		r.Alerts = p.words(n, nil, "alerts", alertForm, at)
		if len(r.Alerts) > 0 {
			r.When = append(r.When, Condition{Kind: FiringAlert, Words: r.Alerts})
		}
	}
}

func (p *parser) when(r *Runbook, n ast.Node, at func(ast.Node) int) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok || len(seq.Values) == 0 {
		p.fail(at(n), "when is a list of conditions of which any proposes the runbook")
		return
	}
	for _, v := range seq.Values {
		m := p.mapping(v, whenKeys, "condition", at)
		if len(m) == 0 {
			continue
		}
		if len(m) > 1 {
			p.fail(at(v), "a condition has one key: begin another with -")
			continue
		}
		for key, val := range m {
			c := Condition{Kind: Cause(slices.Index(conditionKeys, key))}
			switch {
			case c.Kind == OpenBreaker:
				b := p.mapping(val, []string{"reason", "class"}, "breaker", at)
				if len(b) == 0 {
					p.fail(at(val), "breaker asks for a reason, a class or both")
				}
				if b["reason"] != nil {
					c.Words = p.words(b["reason"], Reasons, "reason", wordForm, at)
				}
				if b["class"] != nil {
					c.Classes = p.words(b["class"], Classes, "class", wordForm, at)
				}
			case words[c.Kind] != nil:
				c.Words = p.words(val, words[c.Kind], key, wordForm, at)
			default:
				p.literal(val, literals[c.Kind], key, at)
			}
			r.When = append(r.When, c)
		}
	}
}

// mapping returns the values of a mapping by key; it refuses unknown and
// doubled keys.
func (p *parser) mapping(n ast.Node, known []string, what string, at func(ast.Node) int) map[string]ast.Node {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		p.fail(at(n), "%s is not a mapping; its keys are %s", what, list(known))
		return nil
	}
	m := make(map[string]ast.Node)
	for _, v := range pairs {
		key := v.Key.GetToken().Value
		switch {
		case !slices.Contains(known, key):
			p.fail(at(v.Key), "%s: unknown key %q; there are %s", what, key, list(known))
		case m[key] != nil:
			p.fail(at(v.Key), "%s: %s is there twice", what, key)
		default:
			m[key] = v.Value
		}
	}
	return m
}

// words reads a list of words of a form, and of the known ones unless these are nil.
func (p *parser) words(n ast.Node, known []string, what string, form *regexp.Regexp, at func(ast.Node) int) []string {
	seq, ok := n.(*ast.SequenceNode)
	if !ok || len(seq.Values) == 0 {
		example := "[...]"
		if len(known) > 0 {
			example = "[" + known[0] + "]"
		}
		p.fail(at(n), "%s is a list of words: %s", what, example)
		return nil
	}
	var ws []string
	for _, v := range seq.Values {
		s, ok := scalar(v)
		switch {
		case !ok || !form.MatchString(s):
			p.fail(at(v), "%s: not a word", what)
		case known != nil && !slices.Contains(known, s):
			p.fail(at(v), "%s: %q is none; there are %s", what, s, list(known))
		case slices.Contains(ws, s):
			p.fail(at(v), "%s: %s is there twice", what, s)
		default:
			ws = append(ws, s)
		}
	}
	return ws
}

func (p *parser) literal(n ast.Node, want, key string, at func(ast.Node) int) {
	if s, ok := scalar(n); !ok || s != want {
		p.fail(at(n), "%s can only be %q", key, want)
	}
}

// scalar is the text of a scalar as it was written.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}
