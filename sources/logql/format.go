package logql

import (
	"slices"
	"strconv"
	"strings"
)

// lineFormatStage is `line_format`: the line is written anew.
type lineFormatStage struct {
	text string
	t    *lineTemplate
}

func (s *lineFormatStage) String() string     { return "| line_format " + strconv.Quote(s.text) }
func (s *lineFormatStage) requires() []string { return s.t.fields }

func (s *lineFormatStage) bind(p *pipeline) runner {
	return &lineFormatRunner{p: p, t: s.t.bind(p)}
}

type lineFormatRunner struct {
	p *pipeline
	t *boundTemplate
}

func (r *lineFormatRunner) run(ts int64, line []byte) ([]byte, bool) {
	out, err := r.t.execute(ts, line)
	if err != nil {
		r.p.fail(errTemplate, err.Error())
		return line, true
	}
	if !r.p.m.make(len(out)) {
		return nil, false
	}
	kept, ok := r.p.keepBytes(out)
	if !ok {
		r.p.fail(errTemplate, errLineFull.Error())
		return line, true
	}
	return kept, true
}

// labelFormat sets a label: to another one's value, which it takes away, or to
// what a template says.
type labelFormat struct {
	name string
	from string
	text string
	t    *lineTemplate // nil: rename
}

type labelFormatStage struct{ formats []labelFormat }

func (s *labelFormatStage) String() string {
	parts := make([]string, len(s.formats))
	for i, f := range s.formats {
		if f.t == nil {
			parts[i] = f.name + "=" + f.from
		} else {
			parts[i] = f.name + "=" + strconv.Quote(f.text)
		}
	}
	return "| label_format " + strings.Join(parts, ", ")
}

func (s *labelFormatStage) requires() []string {
	var names []string
	for _, f := range s.formats {
		if f.t == nil {
			names = append(names, f.from)
		} else {
			names = append(names, f.t.fields...)
		}
	}
	return names
}

func (s *labelFormatStage) bind(p *pipeline) runner {
	r := &labelFormatRunner{p: p}
	for _, f := range s.formats {
		b := boundLabelFormat{name: p.symbol(f.name)}
		if f.t == nil {
			b.from = p.symbol(f.from)
		} else {
			b.t = f.t.bind(p)
		}
		r.formats = append(r.formats, b)
	}
	return r
}

type boundLabelFormat struct {
	name, from *symbol
	t          *boundTemplate
}

type labelFormatRunner struct {
	p       *pipeline
	formats []boundLabelFormat
}

func (r *labelFormatRunner) run(ts int64, line []byte) ([]byte, bool) {
	p := r.p
	var data map[string]string // for all templates of the stage, as it was before the first
	known := false
	for i := range r.formats {
		f := &r.formats[i]
		if f.from != nil {
			if v, ok := p.get(f.from); ok {
				r.put(f.name, v)
				p.del(f.from) // also when it is the same: it is gone then
			}
			continue
		}
		if !known { // Loki asks once more if there were none
			data, known = r.data(), !p.bare()
		}
		v, err := f.t.executeWith(ts, line, data)
		if err != nil {
			p.fail(errTemplate, err.Error())
			continue
		}
		if !p.m.make(len(v)) {
			return nil, false
		}
		kept, ok := p.keepBytes(v)
		if !ok {
			p.fail(errTemplate, errLineFull.Error())
			continue
		}
		r.put(f.name, kept)
	}
	return line, true
}

// data are the labels that the templates of the stage may read.
func (r *labelFormatRunner) data() map[string]string {
	data := map[string]string{}
	for i := range r.formats {
		if t := r.formats[i].t; t != nil {
			t.data(data)
		}
	}
	return data
}

// put sets a label, which no parser sets again then.
func (r *labelFormatRunner) put(s *symbol, v []byte) {
	r.p.set(s, v)
	s.parsed = r.p.gen
}

// labelPick is a label of drop or keep, with a condition or without.
type labelPick struct {
	name string
	m    *Matcher
}

// pickStage is `drop`, or `keep`.
type pickStage struct {
	keep  bool
	picks []labelPick
}

func (s *pickStage) String() string {
	parts := make([]string, len(s.picks))
	for i, k := range s.picks {
		parts[i] = k.name
		if k.m != nil {
			parts[i] = k.m.String()
		}
	}
	word := "| drop "
	if s.keep {
		word = "| keep "
	}
	return word + strings.Join(parts, ", ")
}

func (s *pickStage) requires() []string { return nil }

func (s *pickStage) bind(p *pipeline) runner {
	r := &pickRunner{p: p, stage: s}
	for _, k := range s.picks {
		r.symbols = append(r.symbols, p.symbol(k.name))
	}
	return r
}

type pickRunner struct {
	p       *pipeline
	stage   *pickStage
	symbols []*symbol
}

func (r *pickRunner) run(_ int64, line []byte) ([]byte, bool) {
	p := r.p
	if r.stage.keep {
		for _, s := range p.base {
			r.keepOnly(s)
		}
		for _, s := range p.touched {
			r.keepOnly(s)
		}
		return line, true
	}
	for i, k := range r.stage.picks {
		s := r.symbols[i]
		switch s.name {
		case errorLabel: // the error of the line, never a label of that name
			if k.m == nil || k.m.Matches(p.err) {
				p.err = ""
			}
			continue
		case detailsLabel:
			if k.m == nil || k.m.Matches(p.details) {
				p.details = ""
			}
			continue
		}
		// A condition that an absent label fulfils counts as a change too.
		if v, ok := p.get(s); k.m == nil && ok || k.m != nil && k.m.matchesBytes(v) {
			p.del(s)
		}
	}
	return line, true
}

// keepOnly deletes a label that is not picked.
func (r *pickRunner) keepOnly(s *symbol) {
	v, ok := r.p.get(s)
	if !ok || s.name == errorLabel || s.name == detailsLabel {
		return
	}
	if !slices.ContainsFunc(r.stage.picks, func(k labelPick) bool {
		return k.name == s.name && (k.m == nil || k.m.matchesBytes(v))
	}) {
		r.p.del(s)
	}
}
