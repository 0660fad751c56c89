package metrics

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// nested is open n times, inner, and close n times.
func nested(n int, open, inner, close string) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(close, n)
}

func TestExpressionsThatAskForTooMuch(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	twice := nested(17, `label_replace(`, `vector(1)`, `, "a", "$1$1", "a", "(.*)")`)
	for name, c := range map[string]struct{ query, why string }{
		"subquery":           {`max_over_time(vector(1)[100y:1ms])`, "at most 11000"},
		"subquery, default":  {`max_over_time(vector(1)[100y:])`, "at most 11000"},
		"subqueries":         {`max_over_time(max_over_time(vector(1)[10000s:1s])[10000m:1m])`, "points"},
		"fine in coarse":     {`max_over_time(max_over_time(vector(1)[1000s:1s])[9000h:1h])`, "evaluated"},
		"subquery in three":  {`max_over_time(max_over_time(max_over_time(vector(1)[100h:1m])[1000h:1h])[1000d:1d])`, "points"},
		"doubling":           {twice, "label_replace"},
		"joining":            {`label_join(vector(1), "a", "x"` + strings.Repeat(`, "a"`, 500) + `)`, "16 times"},
		"16 by 16":           {nested(2, `label_replace(`, `up`, `, "a", "`+strings.Repeat("$1", 16)+`", "a", "(.*)")`), "16 times"},
		"long text":          {`label_replace(up, "a", "` + strings.Repeat("x", 5000) + `", "a", ".*")`, "too long"},
		"text in brackets":   {`label_replace(up, "a", ("` + strings.Repeat("x", 5000) + `"), "a", ".*")`, "too long"},
		"long name":          {`count_values("` + strings.Repeat("x", 5000) + `", up)`, "too long"},
		"pattern":            {`up{a=~"(?:x?[a-z]*){900}ZQ"}`, "regular expression"},
		"pattern of a label": {`label_replace(up, "a", "$1", "a", "(?:x?[a-z]*){900}ZQ")`, "regular expression"},
		"ranges in ranges":   {nested(40, `max_over_time(`, `up`, `[90y:1y])`), ""},
		"offset":             {`up offset 200y`, "look back"},
		"at":                 {`up @ 9e15`, "too far"},
		"brackets":           {nested(2000, `(`, `1`, `)`), "nested"},
		"sum":                {`1` + strings.Repeat(`+1`, 4000), ""},
		"selectors":          {`up` + strings.Repeat(` or up`, 80), "selectors"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			got := get(t, s, "query", "query", c.query)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if got.code != http.StatusBadRequest || !strings.Contains(got.body, `"errorType":"bad_data"`) || !strings.Contains(got.body, c.why) {
				t.Errorf("%d %.300s", got.code, got.body)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
				t.Errorf("%d bytes were allocated", n)
			}
			if took > 10*time.Second { // a thousand times what it takes
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestRangesThatAskForTooMuch(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	for name, c := range map[string]struct{ query, start, end, step string }{
		"new series at each step": {`count_values("v", vector(time()))`, "0", "10000", "1"},
		"wide windows":            {`quantile_over_time(0.5, up[7d])`, "1700000000", "1700010000", "1"},
		"steps beyond a duration": {`up`, "-900000000000", "900000000000", "864000"},
		"step of nothing":         {`up`, "0", "0.001", "0.0000001"},
		"wide subqueries":         {`max_over_time((sum(rate({__name__=~".+"}[5m])))[1h:1s])`, "1700000000", "1700010000", "1"},
		"parts at many steps":     {`1` + strings.Repeat("*1", 90) + strings.Repeat("+(1"+strings.Repeat("*1", 9)+")", 8), "1700000000", "1700011000", "1"},
		"end of all times":        {`up`, "9223372036854774", "9223372036854775", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := get(t, s, "query_range", "query", c.query, "start", c.start, "end", c.end, "step", c.step)
			runtime.ReadMemStats(&after)
			if got.code != http.StatusBadRequest {
				t.Errorf("%d %.300s", got.code, got.body)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
				t.Errorf("%d bytes were allocated", n)
			}
		})
	}
}

func TestExpressionsThatAreAsUsual(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	for _, query := range []string{
		`up[100y]`, `max_over_time(up[100y])`, `max_over_time(rate(up[5m])[1h:])`, `max_over_time(rate(up[5m])[7d:1m])`,
		`label_replace(label_join(up, "a", "-", "job", "instance"), "b", "$1-$2", "a", "(.*)-(.*)")`,
		`topk(1e9, up)`, `count_values("v", up)`, `up offset 1w`, `up @ start()`, `up{instance=~"a|b|c.+"}`,
		`(sum(rate(ai_fallback_triggered_total[5m])) / (sum(rate(ai_model_requests_total[5m])) > 0)) or vector(0)`,
	} {
		if got := get(t, s, "query", "query", query); got.code != http.StatusOK {
			t.Errorf("%s: %d %s", query, got.code, got.body)
		}
	}
	for _, query := range []string{
		`max_over_time(rate(up[5m])[1h:15s])`, `quantile_over_time(0.9, up[1d])`, `increase(up[7d])`,
	} {
		if got := get(t, s, "query_range", "query", query, "start", "1700000000", "end", "1700604800", "step", "604.8"); got.code != http.StatusOK {
			t.Errorf("%s: %d %s", query, got.code, got.body)
		}
	}
}

// A query that breaks the engine is not in the log of the gateway.
func TestLogWithoutQueries(t *testing.T) {
	n := &notebook{}
	newJournal(n.log).slog("engine").Error("runtime panic during query evaluation",
		slog.String("expr", `up{secret="x"}`), slog.String("err", "runtime error: index out of range"), slog.String("stacktrace", "goroutine 1\nmain.go"))
	if got := n.String(); !strings.Contains(got, "index out of range") || strings.Contains(got, "secret") || strings.Contains(got, "goroutine") {
		t.Errorf("%q", got)
	}
}

// What is refused by its tokens is refused by its tree as well, and quickly.
func TestWhatIsNotParsed(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	parens := func(n int) string { return nested(n, "(", "1", ")") }
	for name, query := range map[string]string{
		"parentheses":      parens(8000),
		"just too many":    parens(101),
		"of calls":         nested(101, "abs(", "up", ")"),
		"signs":            nested(5000, "-(", "1", ")"),
		"signs alone":      strings.Repeat("-", 16000) + "up",
		"sum":              "1" + strings.Repeat("+1", 8000),
		"power":            "1" + strings.Repeat("^1", 8000),
		"and":              "a" + strings.Repeat(" and a", 2700),
		"subqueries":       "a" + strings.Repeat("[1m:]", 3200),
		"side by side":     "(a)" + strings.Repeat("or(a)", 3000),
		"behind a comment": "# \"\n" + parens(8000),
		"behind a text":    `label_replace(up,"a","(","b","")+` + parens(8000),
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"query", "format_query", "query_exemplars"} {
				began := time.Now()
				got := post(t, s, path, "query", query)
				took := time.Since(began)
				if got.code != http.StatusBadRequest || !strings.Contains(got.body, "bad_data") {
					t.Errorf("%s: %d %.200s", path, got.code, got.body)
				}
				t.Logf("%s: %v %.100s", path, took, got.Error)
				if took > 10*time.Second { // thousands of times what it takes
					t.Errorf("%s: it took %v", path, took)
				}
			}
			if len(query) > 2000 {
				return // the tree of those takes long
			}
			e, err := s.parser.ParseExpr(query)
			if err != nil {
				return
			}
			g := guard{every: s.o.Every, oldest: s.o.Retention, growth: 1}
			if scan(query) != nil && g.walk(e, span{}, 0, 0) == nil {
				t.Error("the tree is allowed, the tokens are not")
			}
		})
	}
}

// The tokens refuse nothing that the tree allows, at the very edge of it.
func TestTokensRefuseNoMoreThanTheTree(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	refused := 0
	check := func(query string) {
		t.Helper()
		e, err := s.parser.ParseExpr(query)
		if err != nil {
			t.Fatalf("%.100s: %v", query, err)
		}
		g := guard{every: s.o.Every, oldest: s.o.Retention, growth: 1}
		tokens, tree := scan(query), g.walk(e, span{}, 0, 0)
		if tokens != nil {
			refused++
		}
		if tokens != nil && tree == nil {
			t.Errorf("%.100s: %v", query, tokens)
		}
	}
	for n := 95; n < 105; n++ {
		check(nested(n, "(", "time()", ")"))
		check(nested(n, "sum by (a) (", "up", ")"))
		check(nested(n, "(", "up * on (a) group_left () up", ")"))
		check(strings.Repeat("-", n) + "up")
		check("1 -" + strings.Repeat("+-", n/2) + "up")
		check("up" + strings.Repeat("*-1", n))
		check("vector(1)" + strings.Repeat(` > bool (1)`, n))
	}
	for n := 495; n < 505; n++ {
		check(nested(8, "(", "1"+strings.Repeat("+1", n/8), ")") + strings.Repeat("*(1"+strings.Repeat("+1", 60)+")", 8))
		check("label_join(up, \"a\"" + strings.Repeat(`, ("a")`, n) + strings.Repeat(`, ("a")`, n) + ")")
	}
	if refused < 20 {
		t.Errorf("only %d were refused", refused)
	}
}

// The largest layouts there are take no longer than a query may.
func TestLayoutOfTheLargest(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	wide := strings.TrimSuffix(strings.Repeat("up{a=\"bbbbbbbbbbbbb\"}+", 45), "+")
	for name, query := range map[string]string{
		"deep":          nested(99, "(", "1", ")"),
		"deep and wide": nested(50, "(", wide, ")"),
		"deep and long": nested(98, "(", `up{a="`+strings.Repeat("x", 15<<10)+`"}`, ")"),
		"calls":         nested(98, "abs(", `up{a="`+strings.Repeat("x", 15<<10)+`"}`, ")"),
		"sums":          nested(98, "sum(", `up{a="`+strings.Repeat("x", 15<<10)+`"}`, ")"),
		"minus":         nested(48, "-(", `up{a="`+strings.Repeat("x", 15<<10)+`"}`, ")"),
		"plus":          strings.Repeat("1+", 98) + `up{a="` + strings.Repeat("x", 15<<10) + `"}`,
	} {
		began := time.Now()
		got := post(t, s, "format_query", "query", query)
		took := time.Since(began)
		if got.code != http.StatusOK {
			t.Errorf("%s: %d %.200s", name, got.code, got.body)
		}
		t.Logf("%s: %v", name, took)
		if took > s.limits.timeout {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// What the product's own rules ask passes, over a week as well.
func TestOwnQueriesPass(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	var queries []string
	b, err := os.ReadFile(filepath.Join("..", "..", "rules", "testdata", "rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\s*expr: '(.*)'$`).FindAllStringSubmatch(string(b), -1) {
		queries = append(queries, m[1])
	}
	if len(queries) < 5 {
		t.Fatalf("only %d queries", len(queries))
	}
	for _, query := range queries {
		if err := scan(query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
		end := time.Unix(1_700_604_800, 0)
		if _, err := s.parser.ParseExpr(query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
		if bad := s.allow(query, end, end, 0); bad != nil {
			t.Errorf("%s: %v", query, bad.err)
		}
		if bad := s.allow(query, end.Add(-7*24*time.Hour), end, 5*time.Minute); bad != nil {
			t.Errorf("%s: %v", query, bad.err)
		}
	}
}
