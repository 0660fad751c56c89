package logql

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// writer writes random queries of the whole grammar.
type writer struct{ r *rand.Rand }

func (w writer) one(of ...string) string { return of[w.r.IntN(len(of))] }

// some joins up to n words of f, at least one.
func (w writer) some(n int, sep string, f func() string) string {
	var out []string
	for range 1 + w.r.IntN(n) {
		out = append(out, f())
	}
	return strings.Join(out, sep)
}

func (w writer) name() string {
	return w.one("a", "b_2", "app", "level", "größe", "sum", "rate", "__error__", "x_extracted")
}

func (w writer) text() string {
	return w.one(`"x"`, "`y`", `""`, `"quo\"te"`, "`back\\slash`", `"\u6a21\t"`, `"a|b"`, `"[0-9]+"`, `"(?i)x.*"`)
}

func (w writer) space() string {
	return w.one(" ", "  ", "\n", " # note\n", " /* note */ ", " // note\n")
}

func (w writer) selector() string {
	return `{app="x"` + strings.Repeat(", "+w.name()+w.one("=", "!=", "=~", "!~")+w.text(), w.r.IntN(3)) + "}"
}

func (w writer) predicate(deep int) string {
	switch n := w.r.IntN(8); {
	case n == 0 && deep > 0:
		return "(" + w.predicate(deep-1) + ")"
	case n <= 2 && deep > 0:
		return w.predicate(deep-1) + w.one(" and ", " or ", ", ", " ", " AND ", " Or ") + w.predicate(deep-1)
	case n <= 5:
		return w.name() + w.one("=", "!=", "=~", "!~") + w.text()
	}
	return w.name() + w.one(">", ">=", "<", "<=", "==", "!=", "=") +
		w.one("1", "1.5", "-2", "+3", "1e3", "5s", "1m30s", "250ms", "1.5h", "2d", "1KB", "1.5MiB", "3k", "10B", "1536B")
}

func (w writer) stage() string {
	switch w.r.IntN(8) {
	case 0:
		return w.one("|=", "!=", "|~", "!~") + " " + w.some(3, w.one(" or ", " OR "), w.text)
	case 1:
		return "| json" + w.one("", " "+w.some(2, ", ", func() string {
			return w.one("a", "level", w.name()+"=`[\"ä\"]`")
		}), " "+w.some(2, ", ", func() string { return w.name() + w.one(`="a"`, `="a.b[0][\"c d\"]"`, "=`x [ 1 ]`") }))
	case 2:
		return "| logfmt" + w.one("", " --strict", " --keep-empty", " --strict --keep-empty")
	case 3:
		return "| line_format " + w.one("`{{.a}} {{ .b | upper }}`", `"{{ if .a }}\"x\"{{ end }}"`, `""`)
	case 4:
		return "| label_format " + w.one("c=d", "c=`{{.a}}`, e=f", `größe="{{.a}}"`)
	case 5:
		// The last one has a condition: a filter of lines that follows on a bare
		// name is one.
		return "| " + w.one("drop", "keep") + " " + w.some(3, ", ", func() string { return w.name() + w.one("", `="x"`, ` != "z"`) }) + ", " + w.name() + `!~"y"`
	}
	return "| " + w.predicate(2)
}

func (w writer) log(stages int) string {
	s := w.selector()
	for range w.r.IntN(stages + 1) {
		s += w.space() + w.stage()
	}
	return s
}

func (w writer) groups() string {
	return w.one("by", "without", "BY") + " (" + w.one("", w.some(2, ", ", w.name)) + ")"
}

func (w writer) ranged() string {
	rng := "[" + w.one("5m", "1h30m", "1d", "1w2d", "1500ms", "90s") + "]" + w.one("", "", " offset 1h", " offset -5m", " offset 1.5h")
	unwrap := ""
	op := w.one("count_over_time", "rate", "bytes_over_time", "bytes_rate", "absent_over_time")
	by := ""
	if w.r.IntN(2) == 0 {
		unwrap = " | unwrap " + w.one(w.name(), "bytes(b)", "duration(d)", "duration_seconds(e)") + w.one("", ` | __error__=""`, " | a > 5 | b = `x`")
		op = w.one("rate", "sum_over_time", "avg_over_time", "max_over_time", "stdvar_over_time", "first_over_time", "quantile_over_time", "absent_over_time")
		if grouped[op] {
			by = w.one("", " "+w.groups())
		}
		if op == "quantile_over_time" {
			op += "(" + w.one("0.5", "1", ".99", "1e-3") + ", "
		}
	}
	if !strings.HasSuffix(op, " ") {
		op += "("
	}
	switch w.r.IntN(4) {
	case 0:
		return op + w.selector() + rng + unwrap + ")" + by
	case 1:
		return op + "(" + w.log(2) + unwrap + ")" + rng + ")" + by
	}
	return op + w.log(3) + unwrap + " " + rng + ")" + by
}

func (w writer) metric(deep int) string {
	if deep == 0 {
		return w.one(w.ranged(), w.ranged(), "vector("+w.one("1", ".5", "2e3")+")")
	}
	switch w.r.IntN(6) {
	case 0:
		return "(" + w.metric(deep-1) + ")"
	case 1, 2:
		inner := w.metric(deep - 1)
		op := w.one("sum", "avg", "min", "max", "count", "stddev", "stdvar", "topk", "bottomk", "Sum")
		k := ""
		if strings.HasSuffix(op, "k") {
			k = w.one("1", "3", "10") + ", "
		}
		if w.r.IntN(2) == 0 {
			return op + " " + w.groups() + " (" + k + inner + ")"
		}
		return op + "(" + k + inner + ")" + w.one("", " "+w.groups())
	case 3:
		return w.metric(deep-1) + w.space() + w.one("+", "-", "*", "/", "%", "^", "and", "or", "unless") + w.one(" ", " on (a) ", " ignoring (a, b) ", " on () ") + w.metric(deep-1)
	case 4:
		return w.metric(deep-1) + " " + w.one("==", "!=", ">", ">=", "<", "<=") + w.one(" ", " bool ", " bool on (a) ") + w.metric(deep-1)
	}
	return w.one(w.metric(deep-1)+" "+w.one("+", "-", "*", "/", "%", "^", ">", "<= bool")+" "+w.one("2", "-1", "1.5e3"), "2 "+w.one("*", "/", "<", "^")+" "+w.metric(deep-1))
}

// TestGrammar: every query of the grammar is read, and what is written of it
// reads as the same query.
func TestGrammar(t *testing.T) {
	for seed := range uint64(3000) {
		w := writer{rand.New(rand.NewPCG(seed, 7))}
		in := w.log(4)
		if seed%2 == 1 {
			in = w.metric(3)
		}
		q, err := Parse(in)
		if err != nil {
			t.Fatalf("seed %d: %s\n%v", seed, in, err)
		}
		out := q.String()
		again, err := Parse(out)
		if err != nil {
			t.Fatalf("seed %d: %s\nis written as %s\n%v", seed, in, out, err)
		}
		if s := again.String(); s != out {
			t.Fatalf("seed %d: %s\nis written as %s\nand then as %s", seed, in, out, s)
		}
		if again.IsMetric() != (seed%2 == 1) {
			t.Fatalf("seed %d: %s is of another kind", seed, in)
		}
		if got, want := describe(again.e), describe(q.e); got != want {
			t.Fatalf("seed %d: %s\nmeans   %s\nwritten %s", seed, in, want, got)
		}
	}
}

// describe tells what a query is made of.
func describe(e expr) string {
	switch e := e.(type) {
	case *logExpr:
		return fmt.Sprint("log ", e.matchers, len(e.stages))
	case *rangeAgg:
		return fmt.Sprint(e.op, e.param, e.rng, e.offset, e.grouping, e.unwrap != nil, "(", describe(e.log), ")")
	case *vectorAgg:
		return fmt.Sprint(e.op, e.param, e.grouping, "(", describe(e.inner), ")")
	case *binExpr:
		return fmt.Sprint("(", describe(e.l), e.op, e.bool, e.matching, describe(e.r), ")")
	}
	return e.String()
}
