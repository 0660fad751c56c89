package logql

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

// log reads a selector and its pipeline.
func (p *parser) log() *logExpr {
	e := &logExpr{matchers: p.matchers()}
	e.stages, _ = p.stages(false)
	return e
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
			p.failAsLoki(t, "syntax error: unexpected "+t.text)
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
	if p.calls += len(lt.names); p.calls > maxCalls {
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
