package logql

import (
	"slices"
	"strings"
)

// The labels that tell of an error on the way.
const (
	errorLabel   = "__error__"
	detailsLabel = "__error_details__"

	errJSON        = "JSONParserErr"
	errLogfmt      = "LogfmtParserErr"
	errSample      = "SampleExtractionErr"
	errFilter      = "LabelFilterErr"
	errTemplate    = "TemplateFormatErr"
	extractedAfter = "_extracted" // of a field named like a label of the stream
)

// stage is one step of a log pipeline: immutable, shared by everybody who runs
// it. Running it needs a runner of one's own.
type stage interface {
	String() string
	bind(p *pipeline) runner
	// requires names the labels the stage reads.
	requires() []string
}

// runner is a stage bound to a pipeline.
type runner interface {
	// run returns the line as it goes on, and false to drop it.
	run(ts int64, line []byte) ([]byte, bool)
}

// symbol is a label name and what it stands for in the current line.
type symbol struct {
	name   string
	wanted bool // a parser has to extract it

	base   []byte // of the stream
	inBase bool
	dup    *symbol // of the field of that name, if inBase; nil until asked for

	// Valid if gen is the pipeline's.
	gen     uint64
	present bool
	val     []byte

	// parsed is the line in which a parser or label_format last set the symbol: no
	// parser sets it in that line again, even if it has been taken away since.
	parsed uint64

	// checks are filters that directly follow the parser and look at this label
	// alone: a line that fails one need not be read to its end.
	checks []check
}

// check is a label filter on one label. maybe is false if the label surely fails
// it.
type check interface{ maybe() bool }

// hints say what of a line has to be read. The zero value: everything.
type hints struct {
	required []string // if not empty, only these
	none     bool     // no label at all
	preserve bool     // an error of a parser is asked for, and no failure
}

// newHints works out what a metric query reads: the labels of its stages and of
// its grouping. It decides what the query answers, too: a line whose required
// labels all came before the place where it is broken is not an error.
func newHints(stages []stage, unwrap *unwrapExpr, g *grouping) hints {
	var need []string
	add := func(name string) {
		for _, n := range []string{name, strings.TrimSuffix(name, extractedAfter)} {
			if n != "" && !slices.Contains(need, n) {
				need = append(need, n)
			}
		}
	}
	all := stages
	if unwrap != nil {
		all = append(slices.Clone(stages), unwrap.post...)
	}
	for _, s := range all {
		for _, n := range s.requires() {
			add(n)
		}
	}
	if g != nil {
		for _, n := range g.labels {
			add(n)
		}
	}
	if unwrap != nil {
		add(unwrap.label)
	}
	var h hints
	switch {
	case g == nil || g.without:
	case len(g.labels) == 0 && len(need) == 0:
		h.none = true
	default:
		h.required, h.preserve = need, slices.Contains(need, errorLabel)
	}
	return h
}

// pipeline runs the stages of one query over lines. It belongs to one goroutine.
type pipeline struct {
	hints   hints
	m       *meter
	symbols map[string]*symbol
	runners []runner

	stream  Labels // the current one
	streams map[*Label][]streamValue
	base    []*symbol // of the stream
	gen     uint64    // the current line
	touched []*symbol // set or deleted in this line
	found   int       // required labels that a parser set in this line
	twice   bool      // some label was set by a parser again in its line; not reset
	err     string
	details string
	excused bool   // the error is no failure
	arena   []byte // values of this line that are not part of it
}

// newPipeline binds stages; what they make is counted on m.
func newPipeline(stages []stage, h hints, m *meter) *pipeline {
	p := &pipeline{hints: h, m: m, symbols: map[string]*symbol{}, streams: map[*Label][]streamValue{}}
	p.bind(stages)
	return p
}

// bind makes the runners, and tells the symbols which filters follow directly
// on the parser that sets them. With a second parser, which may set a label
// again, nothing is certain before the end.
func (p *pipeline) bind(stages []stage) {
	parsers := 0
	for _, s := range stages {
		switch s.(type) {
		case *jsonStage, *logfmtStage:
			parsers++
		}
	}
	parser := false
	for _, s := range stages {
		r := s.bind(p)
		p.runners = append(p.runners, r)
		switch s := s.(type) {
		case *jsonStage:
			parser = len(s.paths) == 0
		case *logfmtStage:
			parser = true
		case *lineFilter:
		case *labelFilterStage:
			if c, sym := singleCheck(r); parser && parsers == 1 && c != nil {
				sym.checks = append(sym.checks, c)
			}
		default:
			parser = false
		}
	}
}

// symbol returns the symbol of a name.
func (p *pipeline) symbol(name string) *symbol {
	s := p.symbols[name]
	if s == nil {
		name = strings.Clone(name)
		s = &symbol{name: name, wanted: len(p.hints.required) == 0 || slices.Contains(p.hints.required, name)}
		p.symbols[name] = s
	}
	return s
}

// symbolBytes is symbol without a copy for a known name.
func (p *pipeline) symbolBytes(name []byte) *symbol {
	if s := p.symbols[string(name)]; s != nil {
		return s
	}
	return p.symbol(string(name))
}

// begin starts a line of a stream.
func (p *pipeline) begin(stream Labels) {
	if len(stream) != len(p.stream) || len(stream) > 0 && &stream[0] != &p.stream[0] {
		for _, s := range p.base {
			s.base, s.inBase = nil, false
		}
		p.base, p.stream = p.base[:0], stream
		for _, b := range p.streamValues(stream) {
			b.sym.base, b.sym.inBase = b.value, true
			p.base = append(p.base, b.sym)
		}
	}
	p.m.line()
	p.gen++
	p.touched = p.touched[:0]
	p.found = 0
	p.err, p.details, p.excused = "", "", false
	p.arena = p.arena[:0]
}

// streamValue is a label of a stream.
type streamValue struct {
	sym   *symbol
	value []byte
}

// streamValues returns the labels of a stream, which come back again and again.
func (p *pipeline) streamValues(stream Labels) []streamValue {
	if len(stream) == 0 {
		return nil
	}
	known, ok := p.streams[&stream[0]]
	if !ok || len(known) != len(stream) {
		if len(p.streams) > maxSymbols {
			clear(p.streams)
		}
		known = make([]streamValue, len(stream))
		for i, l := range stream {
			known[i] = streamValue{p.symbol(l.Name), []byte(l.Value)}
		}
		p.streams[&stream[0]] = known
	}
	return known
}

// run sends one line of a stream through the stages. The result is valid until
// the next one begins.
func (p *pipeline) run(ts int64, stream Labels, line []byte) ([]byte, bool) {
	p.begin(stream)
	ok := true
	for _, r := range p.runners {
		if line, ok = r.run(ts, line); !ok {
			return nil, false
		}
	}
	return line, true
}

// maxSymbols bounds what lines with ever new field names make us remember.
const maxSymbols = 10_000

// maxDepth bounds the nesting of queries and of JSON objects.
const maxDepth = 128

// crowded says that the pipeline should be replaced by a new one.
func (p *pipeline) crowded() bool { return len(p.symbols) > maxSymbols }

func (p *pipeline) set(s *symbol, v []byte) {
	if s.gen != p.gen {
		s.gen = p.gen
		p.touched = append(p.touched, s)
	}
	s.present, s.val = true, v
}

func (p *pipeline) del(s *symbol) {
	if s.gen != p.gen {
		s.gen = p.gen
		p.touched = append(p.touched, s)
	}
	s.present, s.val = false, nil
}

// get returns the value of a label and whether there is one. The error of the
// line is none, whatever labels of its name a field has made.
func (p *pipeline) get(s *symbol) ([]byte, bool) {
	if s.gen == p.gen {
		return s.val, s.present
	}
	return s.base, s.inBase
}

// told says whether the details of an error are a label: with their error, or
// without it once anything has changed a label of the line.
func (p *pipeline) told() bool {
	return p.details != "" && (p.err != "" || len(p.touched) > 0)
}

// bare says whether the line has no label at all.
func (p *pipeline) bare() bool {
	if p.err != "" || p.told() {
		return false
	}
	for _, s := range p.base {
		if s.gen != p.gen {
			return false
		}
	}
	return !slices.ContainsFunc(p.touched, func(s *symbol) bool { return s.present })
}

// look is get with the error of the line, which hides a label of its name.
func (p *pipeline) look(s *symbol) ([]byte, bool) {
	switch {
	case p.err != "" && s.name == errorLabel:
		return []byte(p.err), true
	case s.name == detailsLabel && p.told():
		return []byte(p.details), true
	}
	return p.get(s)
}

// fail notes an error; the line goes on.
func (p *pipeline) fail(kind, details string) { p.err, p.details = kind, details }

// failParse notes a parser's error. In a metric query that looks at __error__ it
// is a label like others; all other errors make such a query fail.
func (p *pipeline) failParse(kind, details string) {
	p.fail(kind, details)
	p.excused = p.hints.preserve
}

// maxArena bounds what templates make of one line.
const maxArena = 4 << 20

// keepBytes copies a value so that it lives as long as the line. It reports
// false if there is too much of that already.
func (p *pipeline) keepBytes(v []byte) ([]byte, bool) {
	at := len(p.arena)
	if at+len(v) > maxArena {
		return nil, false
	}
	p.arena = append(p.arena, v...)
	return p.arena[at:len(p.arena):len(p.arena)], true
}

// extract is what a parser does with a field: it sets the label unless nobody
// wants it. more is false when the rest of the line is of no interest, drop when
// the line itself is not.
func (p *pipeline) extract(s *symbol, v []byte) (more, drop bool) {
	if s.parsed == p.gen {
		p.twice = true
		return true, false // the first one stands
	}
	p.found++
	s.parsed = p.gen
	p.set(s, v)
	for _, c := range s.checks {
		if !c.maybe() {
			return false, true
		}
	}
	return len(p.hints.required) == 0 || p.found < len(p.hints.required), false
}

// field returns the symbol under which a parser puts a field.
func (p *pipeline) field(s *symbol) *symbol {
	if !s.inBase {
		return s
	}
	if s.dup == nil {
		s.dup = p.symbol(s.name + extractedAfter)
	}
	return s.dup
}

// wantsPrefix says whether a label that begins so may be wanted.
func (p *pipeline) wantsPrefix(prefix []byte) bool {
	if len(p.hints.required) == 0 {
		return true
	}
	for _, n := range p.hints.required {
		if strings.HasPrefix(n, string(prefix)) {
			return true
		}
	}
	return false
}

// labels returns the labels of the line as it is now, errors among them.
func (p *pipeline) labels() Labels {
	out := make(Labels, 0, len(p.base)+len(p.touched)+2)
	for _, s := range p.base {
		if s.gen != p.gen {
			v, _ := p.stream.Lookup(s.name)
			out = append(out, Label{s.name, v})
		}
	}
	size := 0
	for _, s := range p.touched {
		size += len(s.val)
	}
	all := make([]byte, 0, size) // one piece of memory for all values
	for _, s := range p.touched {
		all = append(all, s.val...)
	}
	text := string(all)
	for _, s := range p.touched {
		if s.present {
			out = append(out, Label{s.name, text[:len(s.val)]})
		}
		text = text[len(s.val):]
	}
	if p.err != "" {
		out = withLabel(out, Label{errorLabel, p.err})
	}
	if p.told() {
		out = withLabel(out, Label{detailsLabel, p.details})
	}
	sortLabels(out)
	return out
}

// withLabel sets a label in place of one of its name.
func withLabel(l Labels, lb Label) Labels {
	for i := range l {
		if l[i].Name == lb.Name {
			l[i] = lb
			return l
		}
	}
	return append(l, lb)
}

func sortLabels(l Labels) {
	slices.SortFunc(l, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
}
