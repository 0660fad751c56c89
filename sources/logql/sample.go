package logql

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxInner bounds the series before they are aggregated, and so the memory a
	// query can take.
	maxInner = 100_000
	// maxSamples bounds the samples of a query.
	maxSamples  = 10_000_000
	sampleBatch = 1024 // are counted at once
	// maxKeys bounds the bytes by which series are found again.
	maxKeys = 16 << 20
)

// metric is the labels of a series; two with the same labels may be different
// pointers.
type metric struct{ labels Labels }

// innerSeries is what a range aggregation works on: samples in order of time.
type innerSeries struct {
	m  *metric
	ts []int64
	v  []float64
}

// sampler turns the lines of one part of a source into samples.
type sampler struct {
	e     *rangeAgg
	g     *grouping // nil: all labels
	h     hints
	st    steps
	p     *pipeline
	post  []runner
	value *symbol // of unwrap

	by      []*symbol
	exclude map[*symbol]bool

	series []*innerSeries
	index  map[string]*innerSeries // by labels in any order
	known  map[string]*innerSeries // by labels in order
	key    []byte
	n      int
	keys   int // bytes of those in index
	m      *meter

	failed error // a line that could not be read
}

func newSampler(e *rangeAgg, g *grouping, st steps, m *meter) *sampler {
	s := &sampler{e: e, g: g, st: st, m: m, h: newHints(e.log.stages, e.unwrap, g),
		index: map[string]*innerSeries{}, known: map[string]*innerSeries{}}
	s.bind()
	return s
}

func (s *sampler) bind() {
	s.p = newPipeline(s.e.log.stages, s.h, s.m)
	s.by, s.exclude, s.post, s.value = nil, map[*symbol]bool{}, nil, nil
	if u := s.e.unwrap; u != nil {
		s.value = s.p.symbol(u.label)
		for _, f := range u.post {
			s.post = append(s.post, f.bind(s.p))
		}
		if s.g == nil || s.g.without {
			s.exclude[s.value] = true
		}
	}
	if s.g != nil {
		for _, n := range s.g.labels {
			if s.g.without {
				s.exclude[s.p.symbol(n)] = true
			} else {
				s.by = append(s.by, s.p.symbol(n))
			}
		}
	}
}

// inWindow says whether a sample belongs to any step.
func (s *sampler) inWindow(ts int64) bool {
	t := ts + int64(s.e.offset)
	i := int64(0)
	if s.st.step > 0 && t > s.st.start {
		i = (t - s.st.start + s.st.step - 1) / s.st.step
	}
	at := s.st.start + i*s.st.step
	return i < int64(s.st.n) && t <= at && t > addTime(at, -int64(s.e.rng))
}

func (s *sampler) take(e Entry) bool {
	if !s.inWindow(e.TS) {
		return true
	}
	if s.p.crowded() {
		s.bind()
		s.forget()
	}
	p := s.p
	line, ok := p.run(e.TS, e.Labels, e.Line)
	if !ok {
		return true
	}
	v := 1.0
	switch {
	case s.e.unwrap != nil:
		text, _ := p.get(s.value)
		if len(text) == 0 {
			return true
		}
		var err error
		if v, err = unwrapped(s.e.unwrap.conv, text); err != nil {
			p.fail(errSample, err.Error())
		}
		for _, f := range s.post {
			if _, ok := f.run(e.TS, line); !ok {
				return true
			}
		}
	case s.e.op == "bytes_over_time" || s.e.op == "bytes_rate":
		v = float64(len(line))
	}
	if p.err != "" && !p.excused {
		if s.failed == nil {
			s.failed = pipelineError(p.err, p.labels())
		}
		return false
	}
	in := s.find()
	if in == nil {
		return false
	}
	in.ts = append(in.ts, e.TS)
	in.v = append(in.v, v)
	if s.n++; s.n%sampleBatch == 0 && s.m.b.samples.Add(sampleBatch) > maxSamples {
		s.failed = bad("the query has more than " + strconv.Itoa(maxSamples) + " samples: narrow its time range")
		return false
	}
	return true
}

func pipelineError(kind string, labels Labels) error {
	return bad("pipeline error: '" + kind + "' for series: '" + labels.String() + "'.\n" +
		"Use a label filter to intentionally skip this error. (e.g | __error__!=\"" + kind + "\").\n" +
		"To skip all potential errors you can match empty errors.(e.g __error__=\"\")\n" +
		"The label filter can also be specified after unwrap. (e.g | unwrap latency | __error__=\"\" )\n")
}

func unwrapped(conv string, text []byte) (float64, error) {
	switch conv {
	case "bytes":
		n, err := parseBytes(string(text))
		return float64(n), err
	case "duration", "duration_seconds":
		d, err := time.ParseDuration(string(text))
		return d.Seconds(), err
	}
	return strconv.ParseFloat(string(text), 64)
}

// find returns the series of the current line.
func (s *sampler) find() *innerSeries {
	p := s.p
	full := p.err != "" // its labels are not grouped: they would hide the error
	switch {
	case full || s.g == nil || s.g.without:
		var exclude map[*symbol]bool
		if !full {
			exclude = s.exclude
		}
		s.key = p.appendKey(s.key[:0], exclude)
	default:
		s.key = s.key[:0]
		for _, sym := range s.by {
			v, ok := p.get(sym)
			s.key = appendKeyPart(s.key, v, ok)
		}
	}
	if in := s.index[string(s.key)]; in != nil {
		return in
	}
	var labels Labels
	switch {
	case full:
		labels = p.labels()
	case s.g == nil || s.g.without:
		labels = slices.DeleteFunc(p.labels(), func(l Label) bool { return s.exclude[p.symbols[l.Name]] })
	default:
		for _, sym := range s.by {
			if v, ok := p.get(sym); ok {
				if _, twice := labels.Lookup(sym.name); !twice {
					labels = append(labels, Label{sym.name, string(v)})
				}
			}
		}
		sortLabels(labels)
	}
	name := labels.String()
	in := s.known[name]
	if in == nil {
		if kind, ok := labels.Lookup(errorLabel); ok && !p.excused { // a field of that name
			s.failed = pipelineError(kind, labels)
			return nil
		}
		if len(s.series) == maxInner {
			s.failed = bad("the query has more than " + strconv.Itoa(maxInner) +
				" series before they are aggregated: group by fewer labels (sum by (…)) or filter more")
			return nil
		}
		if !s.m.b.room.spend(len(name) + labels.size()) {
			s.failed = s.m.b.room.exceeded()
			return nil
		}
		in = &innerSeries{m: &metric{labels}}
		s.known[name] = in
		s.series = append(s.series, in)
	}
	if s.keys += len(s.key); len(s.index) > 2*maxInner || s.keys > maxKeys { // the same labels in ever new orders
		s.forget()
	}
	s.index[string(s.key)] = in
	return in
}

func (s *sampler) forget() {
	clear(s.index)
	s.keys = 0
}

func appendKeyPart(key, v []byte, ok bool) []byte {
	if !ok {
		return append(key, 0)
	}
	key = binary.AppendUvarint(append(key, 1), uint64(len(v)))
	return append(key, v...)
}

// appendKey appends what tells the labels of the current line from others. The
// same labels may have several keys, but no two sets the same one.
func (p *pipeline) appendKey(key []byte, exclude map[*symbol]bool) []byte {
	add := func(s *symbol, v []byte) {
		key = binary.AppendUvarint(key, uint64(len(s.name)))
		key = append(key, s.name...)
		key = binary.AppendUvarint(key, uint64(len(v)))
		key = append(key, v...)
	}
	for _, s := range p.base {
		if s.gen != p.gen && !exclude[s] {
			add(s, s.base)
		}
	}
	for _, s := range p.touched {
		if s.present && !exclude[s] {
			add(s, s.val)
		}
	}
	key = binary.AppendUvarint(key, 0)
	key = append(append(append(key, p.err...), 0), p.details...)
	return key
}

// collect reads the samples of a range aggregation.
func (ev *evaluator) collect(e *rangeAgg, g *grouping) ([]*innerSeries, error) {
	sel := Selection{
		Matchers: e.log.matchers,
		Start:    addTime(addTime(addTime(ev.steps.start, -int64(e.rng)), -int64(e.offset)), 1),
		End:      addTime(addTime(ev.steps.end, -int64(e.offset)), 1),
		Forward:  true,
	}
	sel.Where, sel.Contains = pushdown(e.log, e.unwrap)
	var parts []*sampler
	stats, err := each(ev.ctx, ev.src, sel, ev.budget, func(m *meter) (func(Entry) bool, func() bool) {
		s := newSampler(e, g, ev.steps, m)
		parts = append(parts, s)
		return s.take, func() bool { return s.failed != nil }
	})
	ev.stats.Lines += stats.Lines
	ev.stats.Bytes += stats.Bytes
	if err != nil {
		return nil, err
	}
	for _, s := range parts {
		if s.failed != nil {
			return nil, s.failed
		}
	}
	all := parts[0]
	err = inTurn(ev.ctx, ev.src, func(l *labour) error {
		if err := all.add(l, parts[1:]); err != nil {
			return err
		}
		slices.SortFunc(all.series, func(a, b *innerSeries) int { return a.m.labels.Compare(b.m.labels) })
		return nil
	})
	return all.series, err
}

// add takes what other parts found, which comes after what this one found.
func (all *sampler) add(l *labour, parts []*sampler) error {
	for _, s := range parts {
		for _, in := range s.series {
			if err := l.on(len(in.v)); err != nil {
				return err
			}
			name := in.m.labels.String()
			have := all.known[name]
			if have == nil {
				all.known[name] = in
				all.series = append(all.series, in)
				continue
			}
			have.ts = append(have.ts, in.ts...)
			have.v = append(have.v, in.v...)
		}
	}
	return nil
}

// reducesLabels reports whether lines of several streams may become one series. An
// average is then a sum by a count for Loki, which adds up both over its shards.
func (e *rangeAgg) reducesLabels() bool {
	if g := e.grouping; g != nil && (!g.without || len(g.labels) > 0) {
		return true
	}
	return slices.ContainsFunc(e.log.stages, func(s stage) bool {
		switch s := s.(type) {
		case *pickStage:
			return true
		case *labelFormatStage:
			return slices.ContainsFunc(s.formats, func(f labelFormat) bool { return f.t == nil })
		}
		return false
	})
}

// splitSums is the stretch of time in whose pieces Loki adds up an instant query.
const splitSums = int64(time.Hour)

// aggregate works out one number from the samples in (from, to].
func (e *rangeAgg) aggregate(ts []int64, v []float64, to int64, instant bool, buf *[]float64) float64 {
	n := float64(len(v))
	switch e.op {
	case "count_over_time":
		return n
	case "rate":
		if e.unwrap == nil {
			return n / e.rng.Seconds()
		}
		return e.sum(ts, v, to, instant) / e.rng.Seconds()
	case "bytes_rate":
		return e.sum(ts, v, to, instant) / e.rng.Seconds()
	case "bytes_over_time", "sum_over_time":
		return e.sum(ts, v, to, instant)
	case "avg_over_time":
		if e.reducesLabels() {
			return sumOf(v) / n
		}
		return meanOf(v)
	case "min_over_time":
		m := v[0]
		for _, x := range v {
			if x < m || math.IsNaN(m) {
				m = x
			}
		}
		return m
	case "max_over_time":
		m := v[0]
		for _, x := range v {
			if x > m || math.IsNaN(m) {
				m = x
			}
		}
		return m
	case "first_over_time":
		return v[0]
	case "last_over_time":
		return v[len(v)-1]
	case "stddev_over_time":
		return math.Sqrt(variance(v))
	case "stdvar_over_time":
		return variance(v)
	case "quantile_over_time":
		*buf = append((*buf)[:0], v...)
		return quantile(e.param, *buf)
	}
	return math.NaN()
}

// sum adds up; for an instant query over more than an hour hour by hour from the
// newest, as Loki splits such a query, for the last digits to be the same.
func (e *rangeAgg) sum(ts []int64, v []float64, to int64, instant bool) float64 {
	if !instant || int64(e.rng) <= splitSums {
		return sumOf(v)
	}
	total := 0.0
	for end := to; len(v) > 0; end -= splitSums {
		i, _ := slices.BinarySearch(ts, end-splitSums+1)
		total += sumOf(v[i:])
		ts, v = ts[:i], v[:i]
	}
	return total
}

func sumOf(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

// meanOf works an average out value by value, which no sum runs over in.
func meanOf(v []float64) float64 {
	var mean, count float64
	for _, x := range v {
		count++
		if math.IsInf(mean, 0) && !math.IsNaN(x) && (!math.IsInf(x, 0) || x == mean) {
			continue // it stays infinite, where the difference below would be no number
		}
		mean += x/count - mean/count
	}
	return mean
}

func variance(v []float64) float64 {
	var aux, count, mean float64
	for _, x := range v {
		count++
		delta := x - mean
		mean += delta / count
		aux += delta * (x - mean)
	}
	return aux / count
}

// quantile works out a quantile between the two values next to it. It sorts v.
func quantile(q float64, v []float64) float64 {
	switch {
	case len(v) == 0 || math.IsNaN(q):
		return math.NaN()
	case q < 0:
		return math.Inf(-1)
	case q > 1:
		return math.Inf(1)
	}
	slices.Sort(v) // NaN first
	rank := q * float64(len(v)-1)
	lower := max(0, math.Floor(rank))
	upper := min(float64(len(v)-1), lower+1)
	weight := rank - math.Floor(rank)
	return v[int(lower)]*(1-weight) + v[int(upper)]*weight
}

// absentLabels are the labels of absent_over_time: those its selector fixes.
func absentLabels(ms []Matcher) Labels {
	var out Labels
	var loose []string
	for _, m := range ms {
		if _, have := out.Lookup(m.Name); m.Op == Equal && !have {
			out = append(out, Label{m.Name, m.Value})
		} else {
			loose = append(loose, m.Name)
		}
	}
	out = slices.DeleteFunc(out, func(l Label) bool { return slices.Contains(loose, l.Name) })
	slices.SortFunc(out, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	return out
}
