package logql

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
)

// sample is one number of a vector.
type sample struct {
	m *metric
	v float64
}

// node answers a part of a query for one step after another.
type node interface {
	// at is asked for the steps in order; it counts on l what it works.
	at(l *labour, step int) ([]sample, error)
}

// evaluator prepares the nodes of a query.
type evaluator struct {
	ctx     context.Context
	src     Source
	steps   steps
	instant bool
	stats   Stats
	budget  *budget
}

// sums are the range aggregations that may be grouped before they are summed:
// the sum is the same, and a line need not be read for labels nobody asks for.
var sums = map[string]bool{
	"count_over_time": true, "rate": true, "bytes_over_time": true, "bytes_rate": true, "sum_over_time": true,
}

// prepare reads what an expression needs. outer is the grouping of a sum around
// it, or nil.
func (ev *evaluator) prepare(e expr, outer *grouping) (node, error) {
	switch e := e.(type) {
	case *rangeAgg:
		g := e.grouping
		if g == nil {
			g = outer
		}
		series, err := ev.collect(e, g)
		if err != nil {
			return nil, err
		}
		n := &rangeNode{e: e, ev: ev, series: series, from: make([]int, len(series)), to: make([]int, len(series))}
		if e.op == "absent_over_time" {
			n.absent = &metric{absentLabels(e.log.matchers)}
		}
		return n, nil
	case *vectorAgg:
		g := e.grouping
		if g == nil {
			g = &grouping{}
		}
		var push *grouping
		if r, ok := e.inner.(*rangeAgg); ok && e.op == "sum" && sums[r.op] {
			push = g
		}
		inner, err := ev.prepare(e.inner, push)
		if err != nil {
			return nil, err
		}
		return &aggNode{e: e, g: g, room: &ev.budget.room, inner: inner, cache: map[*metric]*aggGroup{}, byKey: map[string]*aggGroup{}}, nil
	case *binExpr:
		return ev.prepareBinary(e)
	case *vectorLit:
		return &constNode{sample{&metric{}, e.v}}, nil
	}
	return nil, bad("cannot evaluate " + e.String())
}

func (ev *evaluator) prepareBinary(e *binExpr) (node, error) {
	if l, ok := e.l.(*literal); ok {
		r, err := ev.prepare(e.r, nil)
		if err != nil {
			return nil, err
		}
		return &scalarNode{e: e, scalar: l.v, left: true, inner: r}, nil
	}
	l, err := ev.prepare(e.l, nil)
	if err != nil {
		return nil, err
	}
	if r, ok := e.r.(*literal); ok {
		return &scalarNode{e: e, scalar: r.v, inner: l}, nil
	}
	r, err := ev.prepare(e.r, nil)
	if err != nil {
		return nil, err
	}
	return &binNode{e: e, room: &ev.budget.room, l: l, r: r, keys: map[*metric]string{}, results: map[*metric]*metric{}}, nil
}

// constNode is vector(n).
type constNode struct{ s sample }

func (n *constNode) at(*labour, int) ([]sample, error) { return []sample{n.s}, nil }

// rangeNode is a range aggregation. Its steps are asked for in order.
type rangeNode struct {
	e        *rangeAgg
	ev       *evaluator
	series   []*innerSeries
	from, to []int // of the window, by series
	absent   *metric
	buf      []float64
}

func (n *rangeNode) at(l *labour, step int) ([]sample, error) {
	end := addTime(n.ev.steps.at(step), -int64(n.e.offset))
	start := addTime(end, -int64(n.e.rng))
	var out []sample
	for i, s := range n.series {
		for n.to[i] < len(s.ts) && s.ts[n.to[i]] <= end {
			n.to[i]++
		}
		for n.from[i] < n.to[i] && s.ts[n.from[i]] <= start {
			n.from[i]++
		}
		if err := l.on(n.to[i] - n.from[i]); err != nil {
			return nil, err
		}
		if n.from[i] == n.to[i] {
			continue
		}
		if n.absent != nil {
			return nil, nil
		}
		v := n.e.aggregate(s.ts[n.from[i]:n.to[i]], s.v[n.from[i]:n.to[i]], end, n.ev.instant, &n.buf)
		out = append(out, sample{s.m, v})
	}
	if n.absent != nil {
		return []sample{{n.absent, 1}}, nil
	}
	return out, nil
}

// aggGroup is one group of a vector aggregation.
type aggGroup struct {
	m       *metric
	step    int // in which the rest is valid, from 1
	members []sample
}

// aggNode aggregates over series.
type aggNode struct {
	e     *vectorAgg
	g     *grouping
	inner node
	room  *room
	cache map[*metric]*aggGroup
	byKey map[string]*aggGroup
	order []*aggGroup
}

func (n *aggNode) group(m *metric) *aggGroup {
	if g := n.cache[m]; g != nil {
		return g
	}
	var labels Labels
	for _, l := range m.labels {
		if slices.Contains(n.g.labels, l.Name) != n.g.without {
			labels = append(labels, l)
		}
	}
	key := labels.String()
	g := n.byKey[key]
	if g == nil {
		n.room.spend(len(key) + labels.size())
		g = &aggGroup{m: &metric{labels}}
		n.byKey[key] = g
	}
	n.cache[m] = g
	return g
}

func (n *aggNode) at(l *labour, step int) ([]sample, error) {
	vec, err := n.inner.at(l, step)
	if err != nil {
		return nil, err
	}
	if err := l.on(len(vec)); err != nil {
		return nil, err
	}
	n.order = n.order[:0]
	for _, s := range vec {
		g := n.group(s.m)
		if g.step != step+1 {
			g.step, g.members = step+1, g.members[:0]
			n.order = append(n.order, g)
		}
		g.members = append(g.members, s)
	}
	if !n.room.spend(0) {
		return nil, n.room.exceeded()
	}
	var out []sample
	for _, g := range n.order {
		if n.e.op == "topk" || n.e.op == "bottomk" {
			out = append(out, n.e.most(g.members)...)
			continue
		}
		out = append(out, sample{g.m, n.e.fold(g.members)})
	}
	return out, nil
}

// most returns the k largest or smallest. NaN comes last; of equals the first by
// labels.
func (e *vectorAgg) most(s []sample) []sample {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b sample) int {
		if an, bn := math.IsNaN(a.v), math.IsNaN(b.v); an != bn {
			if an {
				return 1
			}
			return -1
		}
		c := cmp.Compare(b.v, a.v)
		if e.op == "bottomk" {
			c = -c
		}
		if c == 0 {
			c = a.m.labels.Compare(b.m.labels)
		}
		return c
	})
	return s[:min(e.param, len(s))]
}

func (e *vectorAgg) fold(s []sample) float64 {
	if e.op == "count" {
		return float64(len(s))
	}
	v := make([]float64, len(s))
	for i := range s {
		v[i] = s[i].v
	}
	switch e.op {
	case "sum":
		return sumOf(v)
	case "avg":
		return sumOf(v) / float64(len(v))
	case "stddev":
		return math.Sqrt(variance(v))
	case "stdvar":
		return variance(v)
	}
	m := v[0]
	for _, x := range v {
		if math.IsNaN(m) || e.op == "min" && x < m || e.op == "max" && x > m {
			m = x
		}
	}
	return m
}

// scalarNode combines a vector with a number.
type scalarNode struct {
	e      *binExpr
	scalar float64
	left   bool
	inner  node
}

func (n *scalarNode) at(l *labour, step int) ([]sample, error) {
	vec, err := n.inner.at(l, step)
	if err != nil {
		return nil, err
	}
	out := make([]sample, 0, len(vec))
	for _, s := range vec {
		a, b := s.v, n.scalar
		if n.left {
			a, b = b, a
		}
		v, ok := arith(n.e.op, a, b)
		switch {
		case !isComparison(n.e.op):
		case n.e.bool:
			v = 0
			if ok {
				v = 1
			}
		case !ok:
			continue
		default:
			v = s.v
		}
		out = append(out, sample{s.m, v})
	}
	return out, nil
}

// manyMatches is an error that Loki takes for its own.
func manyMatches(message string) error {
	return &QueryError{Status: http.StatusInternalServerError, Message: message}
}

// binNode combines two vectors.
type binNode struct {
	e       *binExpr
	room    *room
	l, r    node
	keys    map[*metric]string
	results map[*metric]*metric
}

// key is the labels that have to agree.
func (n *binNode) key(m *metric) string {
	k, ok := n.keys[m]
	if !ok {
		labels := m.labels
		if w := n.e.matching; w != nil {
			labels = nil
			for _, l := range m.labels {
				if slices.Contains(w.labels, l.Name) == w.on {
					labels = append(labels, l)
				}
			}
		}
		k = labels.String()
		n.keys[m] = k
		n.room.spend(len(k))
	}
	return k
}

// result is the labels of what two samples give: those that agreed.
func (n *binNode) result(m *metric) *metric {
	w := n.e.matching
	if w == nil {
		return m
	}
	out := n.results[m]
	if out == nil {
		out = &metric{}
		for _, l := range m.labels {
			if slices.Contains(w.labels, l.Name) == w.on {
				out.labels = append(out.labels, l)
			}
		}
		n.results[m] = out
		n.room.spend(out.labels.size())
	}
	return out
}

func (n *binNode) at(l *labour, step int) ([]sample, error) {
	left, err := n.l.at(l, step)
	if err != nil {
		return nil, err
	}
	right, err := n.r.at(l, step)
	if err != nil {
		return nil, err
	}
	if err := l.on(len(left) + len(right)); err != nil {
		return nil, err
	}
	return n.combine(left, right)
}

// combine answers for one step.
func (n *binNode) combine(l, r []sample) ([]sample, error) {
	right := make(map[string]sample, len(r))
	logical := isLogical(n.e.op)
	for _, s := range r {
		k := n.key(s.m)
		if _, twice := right[k]; twice && !logical {
			return nil, manyMatches("found duplicate series on the right hand-side;many-to-many matching not allowed: matching labels must be unique on one side")
		}
		right[k] = s
	}
	if !n.room.spend(0) {
		return nil, n.room.exceeded()
	}
	var out []sample
	switch n.e.op {
	case "and", "unless":
		for _, s := range l {
			if _, ok := right[n.key(s.m)]; ok == (n.e.op == "and") {
				out = append(out, s)
			}
		}
		return out, nil
	case "or":
		left := make(map[string]bool, len(l))
		for _, s := range l {
			left[n.key(s.m)] = true
		}
		out = slices.Clone(l)
		for _, s := range r {
			if !left[n.key(s.m)] {
				out = append(out, s)
			}
		}
		return out, nil
	}
	seen := make(map[string]bool, len(l))
	for _, s := range l {
		k := n.key(s.m)
		o, ok := right[k]
		if !ok {
			continue
		}
		v, holds := arith(n.e.op, s.v, o.v)
		if isComparison(n.e.op) {
			if n.e.bool {
				v = 0
				if holds {
					v = 1
				}
			} else if !holds {
				continue
			}
		}
		if seen[k] {
			return nil, manyMatches("multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)")
		}
		seen[k] = true
		out = append(out, sample{n.result(s.m), v})
	}
	if !n.room.spend(0) {
		return nil, n.room.exceeded()
	}
	return out, nil
}
