package logql

import (
	"strconv"
	"time"
)

// labelFilterStage is `| expression` on labels.
type labelFilterStage struct{ f labelFilter }

func (s *labelFilterStage) String() string          { return "| " + s.f.String() }
func (s *labelFilterStage) requires() []string      { return s.f.names(nil) }
func (s *labelFilterStage) bind(p *pipeline) runner { return &labelFilterRunner{f: s.f.bind(p)} }

type labelFilterRunner struct{ f boundFilter }

func (r *labelFilterRunner) run(_ int64, line []byte) ([]byte, bool) { return line, r.f.ok() }

// labelFilter is an expression on labels.
type labelFilter interface {
	String() string
	names([]string) []string
	bind(p *pipeline) boundFilter
}

type boundFilter interface{ ok() bool }

// singleCheck returns the filter of a runner and its label if it looks at one
// label alone.
func singleCheck(r runner) (check, *symbol) {
	lf, ok := r.(*labelFilterRunner)
	if !ok {
		return nil, nil
	}
	switch f := lf.f.(type) {
	case *boundText:
		return f, f.sym
	case *boundNumber:
		return f, f.sym
	}
	return nil, nil
}

// binaryFilter is and, or.
type binaryFilter struct {
	or   bool
	l, r labelFilter
}

func (f *binaryFilter) String() string {
	word := " and "
	if f.or {
		word = " or "
	}
	return "(" + f.l.String() + word + f.r.String() + ")"
}

func (f *binaryFilter) names(n []string) []string { return f.r.names(f.l.names(n)) }

func (f *binaryFilter) bind(p *pipeline) boundFilter {
	return &boundBinary{or: f.or, l: f.l.bind(p), r: f.r.bind(p)}
}

type boundBinary struct {
	or   bool
	l, r boundFilter
}

func (f *boundBinary) ok() bool {
	if f.or {
		return f.l.ok() || f.r.ok()
	}
	return f.l.ok() && f.r.ok()
}

// textFilter compares a label as text; an absent one is "".
type textFilter struct{ m Matcher }

func (f *textFilter) String() string            { return f.m.String() }
func (f *textFilter) names(n []string) []string { return append(n, f.m.Name) }

func (f *textFilter) bind(p *pipeline) boundFilter {
	return &boundText{p: p, m: &f.m, sym: p.symbol(f.m.Name)}
}

type boundText struct {
	p   *pipeline
	m   *Matcher
	sym *symbol
}

// ok compares __error__ with the error of the line, and all else with labels:
// of the details of an error only a label of that name is seen.
func (f *boundText) ok() bool {
	if f.sym.name == errorLabel {
		return f.m.Matches(f.p.err)
	}
	v, _ := f.p.get(f.sym)
	return f.p.m.reads(len(v)) && f.m.matchesBytes(v)
}

func (f *boundText) maybe() bool { return f.ok() }

// unit is what a number filter reads a label as.
type unit uint8

const (
	unitNumber unit = iota
	unitDuration
	unitBytes
)

// numberFilter compares a label as a number, a duration or a size. A line
// without the label is dropped. One whose label cannot be read goes on with an
// error, as does one that has an error already.
type numberFilter struct {
	name string
	op   string // == != > >= < <=
	unit unit
	num  float64
	dur  time.Duration
	size uint64
}

func (f *numberFilter) String() string {
	switch f.unit {
	case unitDuration:
		return f.name + " " + f.op + " " + formatDuration(f.dur)
	case unitBytes:
		return f.name + " " + f.op + " " + strconv.FormatUint(f.size, 10) + "B"
	}
	return f.name + " " + f.op + " " + strconv.FormatFloat(f.num, 'g', -1, 64)
}

func (f *numberFilter) names(n []string) []string { return append(n, f.name) }

func (f *numberFilter) bind(p *pipeline) boundFilter {
	return &boundNumber{p: p, f: f, sym: p.symbol(f.name)}
}

type boundNumber struct {
	p   *pipeline
	f   *numberFilter
	sym *symbol
}

func (b *boundNumber) ok() bool {
	v, ok := b.p.get(b.sym)
	if !ok {
		return false
	}
	if b.p.err != "" {
		return true
	}
	holds, err := b.f.holds(v)
	if err != nil {
		b.p.fail(errFilter, err.Error())
		return true
	}
	return holds
}

// maybe is ok without a trace: what cannot be read is judged in its turn.
func (b *boundNumber) maybe() bool {
	v, _ := b.p.get(b.sym)
	holds, err := b.f.holds(v)
	return holds || err != nil || b.p.err != ""
}

// holds compares a value.
func (f *numberFilter) holds(v []byte) (bool, error) {
	switch f.unit {
	case unitDuration:
		d, err := time.ParseDuration(string(v))
		return err == nil && compare(f.op, d, f.dur), err
	case unitBytes:
		n, err := parseBytes(string(v))
		return err == nil && compare(f.op, n, f.size), err
	}
	x, err := strconv.ParseFloat(string(v), 64)
	return err == nil && compare(f.op, x, f.num), err
}

func compare[T float64 | time.Duration | uint64](op string, a, b T) bool {
	switch op {
	case "==":
		return a == b
	case "!=":
		return a != b
	case ">":
		return a > b
	case ">=":
		return a >= b
	case "<":
		return a < b
	case "<=":
		return a <= b
	}
	return false
}
