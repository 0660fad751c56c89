package logql

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// expr is a query or a part of one; immutable once parsed.
type expr interface{ String() string }

// logExpr selects streams and sends their lines through stages.
type logExpr struct {
	matchers []Matcher
	stages   []stage
}

func (e *logExpr) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, m := range e.matchers {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(m.String())
	}
	b.WriteByte('}')
	for _, s := range e.stages {
		b.WriteByte(' ')
		b.WriteString(s.String())
	}
	return b.String()
}

// kind is what Loki calls the expression in its errors.
func (e *logExpr) kind() string {
	if len(e.stages) == 0 {
		return "MatchersExpr"
	}
	return "PipelineExpr"
}

// unwrapExpr takes the value of samples from a label.
type unwrapExpr struct {
	label string
	conv  string  // "", bytes, duration, duration_seconds
	post  []stage // label filters
}

func (u *unwrapExpr) String() string {
	s := "| unwrap " + u.label
	if u.conv != "" {
		s = "| unwrap " + u.conv + "(" + u.label + ")"
	}
	for _, f := range u.post {
		s += " " + f.String()
	}
	return s
}

// grouping keeps (by) or drops (without) labels.
type grouping struct {
	without bool
	labels  []string
}

func (g *grouping) String() string {
	if g == nil {
		return ""
	}
	word := "by"
	if g.without {
		word = "without"
	}
	return " " + word + " (" + strings.Join(g.labels, ", ") + ")"
}

// rangeAgg aggregates the lines of a stretch of time into one number a series.
type rangeAgg struct {
	op       string
	param    float64 // of quantile_over_time
	log      *logExpr
	unwrap   *unwrapExpr // or nil
	rng      time.Duration
	offset   time.Duration
	grouping *grouping // or nil
}

func (e *rangeAgg) String() string {
	var b strings.Builder
	b.WriteString(e.op)
	b.WriteByte('(')
	if e.op == "quantile_over_time" {
		b.WriteString(formatLiteral(e.param))
		b.WriteString(", ")
	}
	b.WriteString(e.log.String())
	if e.unwrap != nil {
		b.WriteByte(' ')
		b.WriteString(e.unwrap.String())
	}
	b.WriteString(" [" + model.Duration(e.rng).String() + "]")
	if e.offset != 0 {
		b.WriteString(" offset " + formatDuration(e.offset))
	}
	b.WriteByte(')')
	b.WriteString(e.grouping.String())
	return b.String()
}

// vectorAgg aggregates over series.
type vectorAgg struct {
	op       string
	param    int // of topk and bottomk
	inner    expr
	grouping *grouping // or nil: all into one
}

func (e *vectorAgg) String() string {
	s := e.op + e.grouping.String() + " ("
	if e.grouping == nil {
		s = e.op + "("
	}
	if e.op == "topk" || e.op == "bottomk" {
		s += strconv.Itoa(e.param) + ", "
	}
	return s + e.inner.String() + ")"
}

// matching says which labels of two vectors have to agree; nil: all.
type matching struct {
	on     bool
	labels []string
}

// binExpr combines two vectors, or a vector with a literal.
type binExpr struct {
	op       string
	l, r     expr
	bool     bool // a comparison answers 0 or 1 instead of filtering
	matching *matching
}

func (e *binExpr) String() string {
	s := "(" + e.l.String() + " " + e.op
	if e.bool {
		s += " bool"
	}
	if e.matching != nil {
		word := " ignoring"
		if e.matching.on {
			word = " on"
		}
		s += word + " (" + strings.Join(e.matching.labels, ", ") + ")"
	}
	return s + " " + e.r.String() + ")"
}

// literal is a number.
type literal struct{ v float64 }

func (e *literal) String() string { return formatLiteral(e.v) }

// vectorLit is vector(n): one sample without labels.
type vectorLit struct{ v float64 }

func (e *vectorLit) String() string { return "vector(" + formatLiteral(e.v) + ")" }

// formatLiteral writes a number so that it parses to itself. NaN and the
// infinities, which come from folding, have no notation of their own.
func formatLiteral(v float64) string {
	switch {
	case v != v:
		return "(0 / 0)"
	case v > maxFloat:
		return "(1e308 * 10)"
	case v < -maxFloat:
		return "(-1e308 * 10)"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

const maxFloat = 0x1p1023 * (1 + (1 - 0x1p-52))
