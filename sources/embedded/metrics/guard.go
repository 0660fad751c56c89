package metrics

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"failback/sources/pattern"
)

// What an expression may ask for. The engine counts samples alone, and those
// only once it holds them: it reserves memory by the steps of a subquery, and
// lets labels grow as they will.
const (
	maxNodes     = 1_000 // of the expression
	maxNesting   = 100
	maxSelectors = 64
	// maxWindow bounds range/step of a subquery.
	maxWindow = 11_000
	// maxGrid bounds how often what is inside a subquery is evaluated.
	maxGrid = 200_000
	// maxWork bounds steps × points in the window of a range of each series, and
	// maxInner those of a subquery: the engine looks at the time only between
	// series, and while it goes through what it holds it does not rest.
	maxWork  = 50_000_000
	maxInner = 10_000_000
	// maxEvaluations bounds parts × steps, since what needs no samples does not
	// rest.
	maxEvaluations = 2_000_000
	// maxRange bounds the sum of the ranges and offsets on the way to a selector.
	maxRange = 100 * 365 * 24 * time.Hour
	// maxTimeAway is in seconds from 1970, so that no sum of times runs over.
	maxTimeAway = 1e13
	// label_replace and label_join, all together: how many, and how much longer
	// they may make a label.
	maxLabelCalls = 8
	maxGrowth     = 16
	maxString     = 256
	// maxCounted bounds the steps of count_values, which makes ever new series.
	maxCounted = 60
)

// span is for which times an expression is evaluated, in milliseconds. step 0
// is once.
type span struct{ start, end, step int64 }

func (s span) steps() int64 {
	if s.step <= 0 {
		return 1
	}
	return (s.end-s.start)/s.step + 1
}

// guard judges an expression before it is evaluated.
type guard struct {
	every  time.Duration // between the samples, and the steps of a subquery without a step
	oldest time.Duration // how far back there are samples

	nodes, selectors, labelCalls, growth int

	evaluations int64
}

// allow says what is too much in expr, asked for each step from start to end;
// step 0 means once. An expression that cannot be parsed is left to the engine.
func (s *Store) allow(expr string, start, end time.Time, step time.Duration) *apiError {
	for _, t := range []time.Time{start, end} {
		if u := t.Unix(); u > maxTimeAway || u < -maxTimeAway {
			return badParameter("time", errors.New("the time is too far away"))
		}
	}
	at := span{start.UnixMilli(), end.UnixMilli(), step.Milliseconds()}
	if step > 0 && at.step == 0 {
		return badParameter("step", errors.New("the step is shorter than a millisecond"))
	}
	if n := at.steps(); n > s.limits.points+1 {
		return badParameter("step", fmt.Errorf("%d steps are too many, at most %d are possible: take a longer step", n, s.limits.points+1))
	}
	if err := scan(expr); err != nil {
		return badParameter("query", err)
	}
	e, err := s.parser.ParseExpr(expr)
	if err != nil {
		return nil
	}
	g := guard{every: s.o.Every, oldest: s.o.Retention + 24*time.Hour, growth: 1}
	if err := g.walk(e, at, 0, 0); err != nil {
		return badParameter("query", err)
	}
	return nil
}

// walk judges e, evaluated for the times of at. deep is how many expressions
// are around it, back the sum of the ranges and offsets.
func (g *guard) walk(e parser.Expr, at span, deep int, back time.Duration) error {
	if err := count(&g.nodes, &deep); err != nil {
		return err
	}
	if g.evaluations += at.steps(); g.evaluations > maxEvaluations {
		return fmt.Errorf("the parts of the expression would be evaluated more than %d times: take fewer steps or a shorter expression", maxEvaluations)
	}
	switch e := e.(type) {
	case *parser.SubqueryExpr:
		return g.subquery(e, at, deep, back)
	case *parser.MatrixSelector:
		if e.RangeExpr != nil {
			return errors.New("a range must be a duration")
		}
		if err := g.window(at, e.Range, g.every); err != nil {
			return err
		}
		if back = further(back, e.Range); back > maxRange {
			return tooFar()
		}
		return g.walk(e.VectorSelector, at, deep, back)
	case *parser.VectorSelector:
		if g.selectors++; g.selectors > maxSelectors {
			return fmt.Errorf("the expression has more than %d selectors", maxSelectors)
		}
		if further(back, e.OriginalOffset) > maxRange {
			return tooFar()
		}
		return atTime(e.Timestamp)
	case *parser.Call:
		if err := g.call(e); err != nil {
			return err
		}
	case *parser.AggregateExpr:
		if s, ok := bare(e.Param).(*parser.StringLiteral); ok && len(s.Val) > maxString {
			return tooLongString(s)
		}
		if n := at.steps(); e.Op == parser.COUNT_VALUES && n > maxCounted {
			return fmt.Errorf("count_values over %d steps makes too many series, at most %d steps are possible: take a longer step", n, maxCounted)
		}
	}
	for c := range parser.ChildrenIter(e) {
		child, ok := c.(parser.Expr)
		if !ok {
			continue
		}
		if err := g.walk(child, at, deep, back); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) subquery(e *parser.SubqueryExpr, at span, deep int, back time.Duration) error {
	if e.RangeExpr != nil || e.StepExpr != nil {
		return errors.New("range and step of a subquery must be durations")
	}
	step := e.Step
	if step <= 0 {
		step = g.every
	}
	if n := int64(e.Range / step); n > maxWindow {
		return fmt.Errorf("the subquery [%s:%s] has %d steps, at most %d are possible: take a shorter range or a longer step",
			model.Duration(e.Range), model.Duration(step), n, maxWindow)
	}
	if back = further(further(back, e.Range), e.OriginalOffset); back > maxRange {
		return tooFar()
	}
	if err := atTime(e.Timestamp); err != nil {
		return err
	}
	if n := at.steps() * max(1, int64(e.Range/step)); n > maxInner {
		return fmt.Errorf("the subquery [%s:%s] looks at %d points, at most %d are possible: take a shorter range or a longer step",
			model.Duration(e.Range), model.Duration(step), n, maxInner)
	}
	in := span{at.start - e.Range.Milliseconds(), at.end, max(1, step.Milliseconds())}
	if n := in.steps(); n > maxGrid {
		return fmt.Errorf("what is inside the subquery [%s:%s] would be evaluated %d times, at most %d are possible: take a shorter range or a longer step",
			model.Duration(e.Range), model.Duration(step), n, maxGrid)
	}
	return g.walk(e.Expr, in, deep, back)
}

// window judges the range of a selector at each of the times of at.
func (g *guard) window(at span, r, every time.Duration) error {
	n := at.steps() * max(1, int64(min(r, g.oldest)/every))
	if n > maxWork {
		return fmt.Errorf("the range [%s] over %d steps looks at %d points of each series, at most %d are possible: take a shorter range or fewer steps",
			model.Duration(r), at.steps(), n, maxWork)
	}
	return nil
}

// call judges the functions that make labels longer.
func (g *guard) call(e *parser.Call) error {
	for i, arg := range e.Args {
		s, ok := bare(arg).(*parser.StringLiteral)
		switch {
		case !ok:
		case e.Func.Name == "label_replace" && i == 4:
			if n, err := pattern.Size(s.Val); err != nil && n > 0 {
				return err
			}
		case len(s.Val) > maxString:
			return tooLongString(s)
		}
	}
	times := 1
	switch e.Func.Name {
	case "label_replace":
		if len(e.Args) > 2 {
			if s, ok := bare(e.Args[2]).(*parser.StringLiteral); ok {
				times = max(1, strings.Count(s.Val, "$"))
			}
		}
	case "label_join":
		times = max(1, len(e.Args)-3)
	default:
		return nil
	}
	if g.labelCalls++; g.labelCalls > maxLabelCalls {
		return fmt.Errorf("label_replace and label_join are there more than %d times", maxLabelCalls)
	}
	if times > maxGrowth || g.growth*times > maxGrowth {
		return fmt.Errorf("label_replace and label_join would make labels more than %d times as long, one after the other", maxGrowth)
	}
	g.growth *= times
	return nil
}

// bare is e without parentheses.
func bare(e parser.Expr) parser.Expr {
	for {
		p, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

func atTime(ms *int64) error {
	if ms != nil && (*ms/1000 > maxTimeAway || *ms/1000 < -maxTimeAway) {
		return errors.New("the time after @ is too far away")
	}
	return nil
}

// further adds the length of d without running over.
func further(back, d time.Duration) time.Duration {
	if d < 0 {
		d = max(-d, 0) // the least duration has no positive
	}
	return min(back, maxRange+1) + min(d, maxRange+1)
}

func tooFar() error {
	return fmt.Errorf("ranges and offsets one inside the other look back more than %s", model.Duration(maxRange))
}

func tooLongString(s *parser.StringLiteral) error {
	return fmt.Errorf("a text of %d bytes is too long, at most %d are possible", len(s.Val), maxString)
}
