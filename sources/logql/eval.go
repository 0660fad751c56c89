package logql

import (
	"context"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// defaultLimit is how many lines an answer has if nobody says.
	defaultLimit = 100
	// maxPoints bounds the points of a series.
	maxPoints = 11_000
	// maxSeries bounds the series of an answer, as Loki does by default.
	maxSeries = 500
	// maxWorkers bounds how many places of a source are read at once.
	maxWorkers = 8
)

// Eval answers a request. Lines are those in [Start, End). A metric query over a
// range is answered for Start rounded down, End rounded up and every Step
// between, each number from the lines in (t-range, t].
//
// The error is a *QueryError when the query cannot be answered, or the
// context's, or the source's.
func Eval(ctx context.Context, src Source, r Request) (*Result, error) {
	b := newBudget(r)
	ctx = context.WithValue(ctx, budgetKey{}, b)
	if r.End < r.Start && !r.Instant {
		return nil, bad("end timestamp must not be before or equal to start time")
	}
	if e, ok := r.Query.e.(*logExpr); ok {
		if r.Instant {
			return nil, bad("log queries are not supported as an instant query type, please change your query to a range query type")
		}
		return evalLog(ctx, src, e, r, b)
	}
	st := steps{start: r.End, end: r.End, n: 1}
	if !r.Instant {
		if r.Step <= 0 {
			return nil, bad("zero or negative query resolution step widths are not accepted. Try a positive integer")
		}
		if (r.End-r.Start)/int64(r.Step) > maxPoints {
			return nil, bad("exceeded maximum resolution of 11,000 points per time series. Try increasing the value of the step parameter")
		}
		st = alignedSteps(r.Start, r.End, int64(r.Step))
	}
	return evalMetric(ctx, src, r, st, b)
}

// steps are the points in time a metric query is answered for.
type steps struct {
	start, end, step int64
	n                int
}

// alignedSteps are the multiples of step from the last before start to the first
// after end.
func alignedSteps(start, end, step int64) steps {
	if m := mod(start, step); m != 0 && start >= math.MinInt64+m {
		start -= m
	}
	if m := mod(end, step); m != 0 && end <= math.MaxInt64-step {
		end += step - m
	}
	return steps{start: start, end: end, step: step, n: int((end-start)/step) + 1}
}

func mod(a, b int64) int64 {
	if m := a % b; m >= 0 {
		return m
	}
	return a%b + b
}

func (s steps) at(i int) int64 { return s.start + int64(i)*s.step }

// addTime adds without running over.
func addTime(t, d int64) int64 {
	switch {
	case d > 0 && t > math.MaxInt64-d:
		return math.MaxInt64
	case d < 0 && t < math.MinInt64-d:
		return math.MinInt64
	}
	return t + d
}

// each reads a selection, in several places at once if the source can. begin
// returns what takes the entries of the i-th part, and counts on m what it makes; parts are in the order of the
// selection, and begin is called for all before any entry. takes returns false
// when its part has enough; if that means that later parts are not needed, it
// says so by last.
func each(ctx context.Context, src Source, sel Selection, b *budget, begin func(m *meter) (take func(Entry) bool, last func() bool)) (Stats, error) {
	parts := []Source{src}
	if p, ok := src.(Partitioned); ok {
		if n := min(runtime.GOMAXPROCS(0), maxWorkers); n > 1 {
			parts = p.Partitions(sel, n)
		}
	}
	type state struct {
		cancel context.CancelFunc
		ended  atomic.Bool // the context of the part
		stats  Stats
		err    error
	}
	states := make([]state, len(parts))
	ctxs := make([]context.Context, len(parts))
	takes := make([]func(Entry) bool, len(parts))
	lasts := make([]func() bool, len(parts))
	for i := range parts {
		ctxs[i], states[i].cancel = context.WithCancel(ctx)
		defer states[i].cancel()
		takes[i], lasts[i] = begin(&meter{b: b, ended: &states[i].ended})
	}
	run := func(i int) {
		st := &states[i]
		// A source looks at the context now and then; a line may take long.
		defer context.AfterFunc(ctxs[i], func() { st.ended.Store(true) })()
		st.err = parts[i].Select(ctxs[i], sel, func(e Entry) bool {
			if st.ended.Load() || b.over.Load() {
				return false
			}
			st.stats.Lines++
			st.stats.Bytes += int64(len(e.Line))
			return takes[i](e) && !b.over.Load()
		})
		if lasts[i]() {
			for j := i + 1; j < len(states); j++ {
				states[j].cancel()
			}
		}
	}
	if len(parts) == 1 {
		run(0)
	} else {
		var wg sync.WaitGroup
		for i := range parts {
			wg.Go(func() { run(i) })
		}
		wg.Wait()
	}
	var total Stats
	for i := range states {
		total.Lines += states[i].stats.Lines
		total.Bytes += states[i].stats.Bytes
	}
	if err := b.err(); err != nil {
		return total, err
	}
	if err := ctx.Err(); err != nil {
		return total, err
	}
	for i := range states {
		if states[i].err != nil {
			return total, states[i].err
		}
		if lasts[i]() {
			break
		}
	}
	return total, nil
}

// found is a line that is in the answer, with the index of its labels.
type found struct {
	line   Line
	labels int
}

// lineCollector runs the pipeline of a log query and keeps what comes out.
type lineCollector struct {
	stages []stage
	limit  int
	p      *pipeline
	m      *meter
	room   room
	full   bool // the line that came next had no room

	index map[string]int // by a key of the labels
	sets  []Labels
	lines []found
	key   []byte
}

// perLine is about what a line takes beside its text.
const perLine = 48

func (c *lineCollector) take(e Entry) bool {
	if c.p == nil || c.p.crowded() {
		c.p = newPipeline(c.stages, hints{}, c.m)
	}
	line, ok := c.p.run(e.TS, e.Labels, e.Line)
	if !ok {
		return true
	}
	c.key = c.p.appendKey(c.key[:0], nil)
	n, ok := c.index[string(c.key)]
	if !ok {
		n = len(c.sets)
		labels := c.p.labels()
		if c.full = !c.room.spend(len(c.key) + labels.size()); c.full {
			return false
		}
		c.index[string(c.key)] = n
		c.sets = append(c.sets, labels)
	}
	if c.full = !c.room.spend(len(line) + perLine); c.full {
		return false
	}
	c.lines = append(c.lines, found{Line{e.TS, string(line)}, n})
	return len(c.lines) < c.limit
}

func evalLog(ctx context.Context, src Source, e *logExpr, r Request, b *budget) (*Result, error) {
	limit := r.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	sel := Selection{Matchers: e.matchers, Start: r.Start, End: r.End, Forward: r.Forward}
	sel.Where, sel.Contains = pushdown(e, nil)
	var parts []*lineCollector
	stats, err := each(ctx, src, sel, b, func(m *meter) (func(Entry) bool, func() bool) {
		c := &lineCollector{stages: e.stages, limit: limit, m: m, index: map[string]int{}, room: room{max: r.MaxBytes}}
		parts = append(parts, c)
		return c.take, func() bool { return c.full || len(c.lines) >= limit }
	})
	if err != nil {
		return nil, err
	}
	res := &Result{Kind: KindStreams, Stats: stats, most: r.MaxBytes}
	if err := inTurn(ctx, src, func(l *labour) error { return gather(l, res, parts, limit) }); err != nil {
		return nil, err
	}
	return res, nil
}

// gather puts the lines of all parts together, limit at most.
func gather(l *labour, res *Result, parts []*lineCollector, limit int) error {
	byLabels := map[string]int{}
	whole := room{max: res.most}
	var names []string
	for _, c := range parts {
		// Labels that came out in another order, or in another part, are the same.
		where := make([]int, len(c.sets))
		for i := range where {
			where[i] = -1
		}
		for _, f := range c.lines {
			if res.Stats.Found == int64(limit) {
				break
			}
			if where[f.labels] < 0 {
				name := c.sets[f.labels].String()
				n, ok := byLabels[name]
				if !ok {
					n = len(res.Streams)
					byLabels[name] = n
					res.Streams = append(res.Streams, Stream{Labels: c.sets[f.labels]})
					names = append(names, name)
				}
				where[f.labels] = n
			}
			s := &res.Streams[where[f.labels]]
			s.Lines = append(s.Lines, f.line)
			res.Stats.Found++
			if !whole.spend(len(f.line.Text) + perLine) {
				return whole.exceeded()
			}
		}
		if err := l.on(len(c.lines)); err != nil {
			return err
		}
		if c.full && res.Stats.Found < int64(limit) {
			return whole.exceeded()
		}
	}
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(names[a], names[b]) })
	sorted := make([]Stream, len(order))
	for i, n := range order {
		sorted[i] = res.Streams[n]
	}
	res.Streams = sorted
	return nil
}

// evalMetric answers a query whose answer is numbers.
func evalMetric(ctx context.Context, src Source, r Request, st steps, b *budget) (*Result, error) {
	if lit, ok := r.Query.e.(*literal); ok {
		s := Series{Labels: Labels{}}
		for i := range st.n {
			s.Points = append(s.Points, Point{st.at(i), lit.v})
		}
		kind := KindMatrix
		if r.Instant {
			kind = KindScalar
		}
		return &Result{Kind: kind, Series: []Series{s}}, nil
	}
	ev := &evaluator{ctx: ctx, src: src, steps: st, instant: r.Instant, budget: b}
	node, err := ev.prepare(r.Query.e, nil)
	if err != nil {
		return nil, err
	}
	res := &Result{Kind: KindMatrix, most: r.MaxBytes}
	if r.Instant {
		res.Kind = KindVector
	}
	if err := inTurn(ctx, src, func(l *labour) error { return evalSteps(l, res, node, st) }); err != nil {
		return nil, err
	}
	slices.SortFunc(res.Series, func(a, b Series) int { return a.Labels.Compare(b.Labels) })
	res.Stats = ev.stats
	return res, nil
}

// evalSteps asks node for one step after another.
func evalSteps(l *labour, res *Result, node node, st steps) error {
	index := map[*metric]int{}
	byKey := map[string]int{}
	for i := range st.n {
		vec, err := node.at(l, i)
		if err != nil {
			return err
		}
		if err := l.on(len(vec)); err != nil {
			return err
		}
		for _, s := range vec {
			n, ok := index[s.m]
			if !ok {
				key := s.m.labels.String()
				if n, ok = byKey[key]; !ok {
					n = len(res.Series)
					if n == maxSeries {
						return bad("maximum number of series (500) reached for a single query; consider reducing query cardinality by adding more specific stream selectors, reducing the time range, or aggregating results with functions like sum(), count() or topk()")
					}
					byKey[key] = n
					res.Series = append(res.Series, Series{Labels: s.m.labels})
				}
				index[s.m] = n
			}
			ps := &res.Series[n].Points
			*ps = append(*ps, Point{st.at(i), s.v})
		}
	}
	return nil
}
