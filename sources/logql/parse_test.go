package logql

import (
	"errors"
	"strings"
	"testing"
)

// TestParse: what is read, in its canonical form.
func TestParse(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{a="b"}`, ``},
		{"{ a = `b` , c!~\"d|e\" }", `{a="b", c!~"d|e"}`},
		{`{a="b",}`, `{a="b"}`},
		{`{a=~".+"} # all of them`, `{a=~".+"}`},
		{`{a="b"} |= "x" or "y" != "z" |~ "r" !~ "s"`, ``},
		{`({a="b"} |= "x")`, `{a="b"} |= "x"`},
		{`{a="b"} | json | logfmt --strict --keep-empty`, ``},
		{`{a="b"} | json c, d="e.f[0][\"g h\"]"`, `{a="b"} | json c="c", d="e.f[0][\"g h\"]"`},
		{`{a="b"} | c="d" or e!="f" and g=~"h"`, `{a="b"} | (c="d" or (e!="f" and g=~"h"))`},
		{`{a="b"} | (c="d" or e!="f") and g=~"h"`, `{a="b"} | ((c="d" or e!="f") and g=~"h")`},
		{`{a="b"} | c="d", e="f" or g="h"`, `{a="b"} | (c="d" and (e="f" or g="h"))`},
		{`{a="b"} | c="d" e="f"`, `{a="b"} | (c="d" and e="f")`},
		{`{a="b"} | c=1, d==2, e!=-3, f>=1.5e3`, `{a="b"} | (c == 1 and (d == 2 and (e != -3 and f >= 1500)))`},
		{`{a="b"} | c>1m30s and d<1d and e<=250ms`, `{a="b"} | ((c > 1m30s and d < 24h) and e <= 250ms)`},
		{`{a="b"} | c>1KB | d<2MiB`, `{a="b"} | c > 1000B | d < 2100000B`},
		{`{a="b"} | line_format "{{.x}} y"`, ``},
		{`{a="b"} | label_format c=d,e="{{.f}}"`, `{a="b"} | label_format c=d, e="{{.f}}"`},
		{`{a="b"} | drop c, d="e" | keep f, g=~"h"`, ``},
		{`{a="b"} | rate > 5 | sum="x"`, `{a="b"} | rate > 5 | sum="x"`}, // names of functions are labels too
		{`rate({a="b"}[5m])`, `rate({a="b"} [5m])`},
		{`rate({a="b"}[5m] | json)`, `rate({a="b"} | json [5m])`},
		{`rate(({a="b"} | json)[1h30m] offset 5m)`, `rate({a="b"} | json [1h30m] offset 5m)`},
		{`rate({a="b"}[1d] offset -5m)`, `rate({a="b"} [1d] offset -5m)`},
		{`sum(rate({a="b"}[5m])) by (c)`, `sum by (c) (rate({a="b"} [5m]))`},
		{`sum by () (rate({a="b"}[5m]))`, ``},
		{`topk(3, rate({a="b"}[5m])) without (c, d)`, `topk without (c, d) (3, rate({a="b"} [5m]))`},
		{`quantile_over_time(0.99, {a="b"} | unwrap duration(c) | __error__="" [5m]) by (d)`, `quantile_over_time(0.99, {a="b"} | unwrap duration(c) | __error__="" [5m]) by (d)`},
		{`1 + 2 * 3 ^ 2 ^ 0`, `7`},
		{`1 > 2`, `0`},
		{`-1`, `-1`},
		{`vector(.5)`, `vector(0.5)`},
		{`0 / 0`, `(0 / 0)`},
		{`1e308 * 10`, `(1e308 * 10)`},
		{`vector(1) > bool 2 or vector(3) and on (a) vector(4)`, `((vector(1) > bool 2) or (vector(3) and on (a) vector(4)))`},
		{`vector(1) - vector(2) - vector(3)`, `((vector(1) - vector(2)) - vector(3))`},
		{`vector(1) / ignoring (a, b) vector(2) % 3`, `((vector(1) / ignoring (a, b) vector(2)) % 3)`},
		{`absent_over_time({a="b"}[5m])`, `absent_over_time({a="b"} [5m])`},
	} {
		q, err := Parse(tt.in)
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		want := tt.want
		if want == "" {
			want = tt.in
		}
		got := q.String()
		for _, spaced := range []string{"[5m]"} {
			want = strings.ReplaceAll(strings.ReplaceAll(want, " "+spaced, spaced), spaced, " "+spaced)
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", tt.in, got, want)
		}
	}
}

// TestParseErrors: what is wrong, and where.
func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{``, `parse error at line 1, col 1: syntax error: unexpected $end`},
		{`{a="b"`, `parse error at line 1, col 7: syntax error: unexpected $end, expecting } or ,`},
		{"{a=\"b\"}\n  |= x", `parse error at line 2, col 6: syntax error: unexpected IDENTIFIER, expecting STRING or ip`},
		{`{a}`, `parse error at line 1, col 3: syntax error: unexpected }, expecting = or =~ or !~ or !=`},
		{`{a=b}`, `parse error at line 1, col 4: syntax error: unexpected IDENTIFIER, expecting STRING`},
		{`{a="b"} |~ "("`, "parse error : stage '|~ \"(\"' : error parsing regexp: missing closing ): `(`"},
		{`{a=~"("}`, `parse error at line 1, col 5: error parsing regexp: missing closing ): ` + "`(`"},
		{`{a="b"} | json | x ~ 5`, `parse error at line 1, col 20: syntax error: unexpected IDENTIFIER`},
		{`{a="b"} | json | x =~ 5`, `parse error at line 1, col 23: syntax error: unexpected NUMBER, expecting STRING`},
		{`{a="b"} | json | by="x"`, `parse error at line 1, col 18: syntax error: unexpected by`},
		{`{a="b"} | unwrap x`, `parse error at line 1, col 11: syntax error: unexpected unwrap`},
		{`{a="模"} )`, `parse error at line 1, col 9: syntax error: unexpected )`}, // columns are characters
		{`rate({a="b"})`, `parse error at line 1, col 13: syntax error: unexpected )`},
		{`rate({a="b"}[5x])`, `parse error at line 0, col 13: unknown unit "x" in duration "5x"`},
		{`rate({a="b"}[1d1d])`, `parse error at line 0, col 13: not a valid duration string: "1d1d"`},
		{`rate({a="b"}[1d1w])`, `parse error at line 0, col 13: not a valid duration string: "1d1w"`},
		{`rate({a="b"}[292y300d])`, `parse error at line 0, col 13: duration out of range`},
		{`rate({a="b"}[5m)`, `parse error at line 0, col 13: missing closing ']' in duration`},
		{`{a="b} `, `parse error at line 1, col 4: literal not terminated`},
		{`sum({a="b"})`, `parse error at line 1, col 12: syntax error: unexpected )`},
		{`{a="b"} + 1`, `parse error : unexpected type for left leg of binary operation (+): *syntax.MatchersExpr`},
		{`1 + {a="b"} | json`, `parse error : unexpected type for right leg of binary operation (+): *syntax.PipelineExpr`},
		{`{a="b"} or {c="d"}`, `parse error : unexpected type for left leg of binary operation (or): *syntax.MatchersExpr`},
		{`sum_over_time({a="b"}[5m])`, `parse error : invalid aggregation sum_over_time without unwrap`},
		{`count_over_time({a="b"} | unwrap x [5m])`, `parse error : invalid aggregation count_over_time with unwrap`},
		{`sum_over_time({a="b"} | unwrap x [5m]) by (c)`, `parse error : grouping not allowed for sum_over_time aggregation`},
		{`topk(rate({a="b"}[5m]))`, `parse error : parameter required for operation topk`},
		{`topk(0, rate({a="b"}[5m]))`, `parse error : invalid parameter (must be greater than 0) topk(0`},
		{`sum(2, rate({a="b"}[5m]))`, `parse error : unsupported parameter for operation sum(2,`},
		{`quantile_over_time({a="b"} | unwrap x [5m])`, `parse error : parameter required for operation quantile_over_time`},
		{`rate(1, {a="b"}[5m])`, `parse error : parameter 1 not supported for operation rate`},
		{`vector(1) or 1`, `parse error : unexpected literal for right leg of logical/set binary operation (or): 1.000000`},
		{`{a="b"} | label_format c=d, c=e`, `parse error : stage '| label_format c=d,c=e' : multiple label name 'c' not allowed in a single format operation`},
		{`{a=""}`, `parse error : ` + noMatcher},
		{`{a!="b"}`, `parse error : ` + noMatcher},
		{strings.Repeat("(", 500), `parse error : the query is nested too deeply`},
	} {
		_, err := Parse(tt.in)
		if err == nil {
			t.Errorf("%s: no error, want %s", tt.in, tt.want)
			continue
		}
		if err.Error() != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.in, err, tt.want)
		}
		if pe, ok := errors.AsType[*ParseError](err); !ok || pe.Unsupported {
			t.Errorf("%s: %#v, want a ParseError that is not a refusal", tt.in, err)
		}
	}
}

// TestPositions: what is written wrongly is told with Loki's words and column;
// the line is 0 where Loki has lost it.
func TestPositions(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`.`, `line 1, col 1: syntax error: unexpected .`},
		{`{.a="x"}`, `line 1, col 2: syntax error: unexpected ., expecting IDENTIFIER or }`},
		{`{a="x", .b="y"}`, `line 1, col 9: syntax error: unexpected ., expecting IDENTIFIER`},
		{`{a.b="x"}`, `line 1, col 3: syntax error: unexpected ., expecting = or =~ or !~ or !=`},
		{`{a="x" .}`, `line 1, col 8: syntax error: unexpected ., expecting } or ,`},
		{`{a=="x"}`, `line 0, col 3: syntax error: unexpected ==, expecting = or =~ or !~ or !=`},
		{`{a="x"[5m]}`, `line 0, col 7: syntax error: unexpected RANGE, expecting } or ,`},
		{`{a="x"} |= .`, `line 1, col 12: syntax error: unexpected ., expecting STRING or ip`},
		{`{a="x"} |= "y" or .`, `line 1, col 19: syntax error: unexpected ., expecting STRING or ip`},
		{`{a="x"} |~`, `line 1, col 11: syntax error: unexpected $end, expecting STRING or ip`},
		{"{a=\"x\"} |= \"a\"\n  |= |= \"b\"", `line 0, col 6: syntax error: unexpected |=, expecting STRING or ip`},
		{`{a="x"} "foo"`, `line 1, col 9: syntax error: unexpected STRING`},
		{`{a="x"} |`, `line 1, col 10: syntax error: unexpected $end`},
		{`{a="x"} | .`, `line 1, col 11: syntax error: unexpected .`},
		{`{a="x"} | b .`, `line 1, col 13: syntax error: unexpected .`},
		{`{a="x"} | b > .c`, `line 1, col 15: syntax error: unexpected .`},
		{`{a="x"} | (.b="c")`, `line 1, col 12: syntax error: unexpected ., expecting IDENTIFIER or (`},
		{`{a="x"} | b="y" and .c="d"`, `line 1, col 21: syntax error: unexpected ., expecting IDENTIFIER or (`},
		{`{a="x"} | b="y" or .c="d"`, `line 1, col 20: syntax error: unexpected ., expecting IDENTIFIER or (`},
		{`{a="x"} | b="y", .c="d"`, `line 1, col 18: syntax error: unexpected ., expecting IDENTIFIER or (`},
		{`{a="x"} | b="y" c.d="e"`, `line 1, col 18: syntax error: unexpected .`},
		{`{a="x"} | b > 5s .`, `line 1, col 18: syntax error: unexpected .`},
		{`{a="x"} | json a, .b`, `line 1, col 19: syntax error: unexpected ., expecting IDENTIFIER`},
		{`{a="x"} | json a=.b`, `line 1, col 18: syntax error: unexpected ., expecting STRING`},
		{`{a="x"} | json a.b`, `line 1, col 17: syntax error: unexpected .`},
		{`{a="x"} | logfmt --strict .a`, `line 1, col 27: syntax error: unexpected .`},
		{`{a="x"} | line_format .`, `line 1, col 23: syntax error: unexpected ., expecting STRING`},
		{`{a="x"} | label_format .a=b`, `line 1, col 24: syntax error: unexpected ., expecting IDENTIFIER`},
		{`{a="x"} | label_format a.b=c`, `line 1, col 25: syntax error: unexpected ., expecting =`},
		{`{a="x"} | label_format a=.b`, `line 1, col 26: syntax error: unexpected ., expecting IDENTIFIER or STRING`},
		{`{a="x"} | label_format a=b, .c=d`, `line 1, col 29: syntax error: unexpected ., expecting IDENTIFIER`},
		{`{a="x"} | drop .a`, `line 1, col 16: syntax error: unexpected ., expecting IDENTIFIER`},
		{`{a="x"} | keep a, .b`, `line 1, col 19: syntax error: unexpected ., expecting IDENTIFIER`},
		{"{a=\"x\"}\n|   a.b=\"x\"", `line 2, col 6: syntax error: unexpected .`},
		{`sum(.)`, `line 1, col 5: syntax error: unexpected .`},
		{`topk(.)`, `line 1, col 6: syntax error: unexpected .`},
		{`topk(5, .)`, `line 1, col 9: syntax error: unexpected .`},
		{`rate(.)`, `line 1, col 6: syntax error: unexpected ., expecting NUMBER or { or (`},
		{`rate({a="x"}[5m] .)`, `line 1, col 18: syntax error: unexpected ., expecting )`},
		{`rate({a="x"}[5m]) .`, `line 1, col 19: syntax error: unexpected .`},
		{`count_over_time({a="x"}[5m] offset .)`, `line 1, col 36: syntax error: unexpected ., expecting DURATION`},
		{`rate({a="x"} | unwrap .b [5m])`, `line 1, col 23: syntax error: unexpected ., expecting IDENTIFIER or BYTES_CONV or DURATION_CONV or DURATION_SECONDS_CONV`},
		{`rate({a="x"} | unwrap b.c [5m])`, `line 1, col 24: syntax error: unexpected ., expecting RANGE or |`},
		{`rate({a="x"} | unwrap bytes(.b) [5m])`, `line 1, col 29: syntax error: unexpected ., expecting IDENTIFIER`},
		{`rate({a="x"} | unwrap duration(b.c) [5m])`, `line 1, col 33: syntax error: unexpected ., expecting )`},
		{`rate({a="x"} | unwrap b | c.d="y" [5m])`, `line 1, col 28: syntax error: unexpected .`},
		{`sum by (.a) (rate({a="x"}[5m]))`, `line 1, col 9: syntax error: unexpected ., expecting IDENTIFIER or )`},
		{`sum by (a.b) (rate({a="x"}[5m]))`, `line 1, col 10: syntax error: unexpected ., expecting , or )`},
		{`sum by (a, .b) (rate({a="x"}[5m]))`, `line 1, col 12: syntax error: unexpected ., expecting IDENTIFIER`},
		{`sum by (a) .`, `line 1, col 12: syntax error: unexpected ., expecting (`},
		{`vector(1) / on .`, `line 1, col 16: syntax error: unexpected ., expecting (`},
		{`vector(1) / on(a.b) vector(1)`, `line 1, col 17: syntax error: unexpected ., expecting , or )`},
		{`vector(1) > bool .`, `line 1, col 18: syntax error: unexpected .`},
		{`vector(.)`, `line 1, col 8: syntax error: unexpected ., expecting NUMBER`},
		{`vector(-1)`, `line 1, col 8: syntax error: unexpected -, expecting NUMBER`},
		{`quantile_over_time(-1, {a="x"} | unwrap b [5m])`, `line 1, col 20: syntax error: unexpected -, expecting NUMBER or { or (`},
		{`min({a="x"}[5m])`, `line 0, col 12: syntax error: unexpected RANGE`},
		{`rate({a="x"}[5minutes])`, `line 0, col 13: unknown unit "minutes" in duration "5minutes"`},
		{`rate({a="x"}[1.5h])`, `line 0, col 13: unknown unit "." in duration "1.5h"`},
		{`rate({a="x"}[ 5m])`, `line 0, col 13: not a valid duration string: " 5m"`},
		{`rate({a="x"}[])`, `line 0, col 13: empty duration string`},
		{`{a="x"} |~ "\d+"`, `line 1, col 12: invalid char escape`},
		{`{a="x"} |= "y`, `line 1, col 12: literal not terminated`},
		{`{a="żółć"} @`, `line 1, col 12: syntax error: unexpected IDENTIFIER`},
		{`{a="x"} | json | x=y`, `line 1, col 20: syntax error: unexpected IDENTIFIER`},
		{`{a="x"} | json | x=~5`, `line 1, col 21: syntax error: unexpected NUMBER, expecting STRING`},
		{`{a=x} |`, `line 1, col 4: syntax error: unexpected IDENTIFIER, expecting STRING`},
		{`sum_over_time({a="b"}[5m]) .`, `line 1, col 28: syntax error: unexpected .`}, // before what it means
		{`{} | .`, `line 1, col 6: syntax error: unexpected .`},
	} {
		if _, err := Parse(tt.in); err == nil || err.Error() != "parse error at "+tt.want {
			t.Errorf("%s\n got %v\nwant parse error at %s", tt.in, err, tt.want)
		}
	}
}

// TestWords: case, comments and letters.
func TestWords(t *testing.T) {
	for in, want := range map[string]string{
		`SUM BY (a) (Rate({a="b"} |= "x" OR "y" [5m])) Or vector(1)`: `(sum by (a) (rate({a="b"} |= "x" or "y" [5m])) or vector(1))`,
		"{a=\"b\"} // x\n|= \"/* y */\" /* z\n */ | JSON":            `{a="b"} |= "/* y */" | json`,
		`{größe="b"} | json | größe="c"`:                             `{größe="b"} | json | größe="c"`,
		`count_over_time({a="b"}[1h500ms])`:                          `count_over_time({a="b"} [1h500ms])`,
	} {
		if q, err := Parse(in); err != nil || q.String() != want {
			t.Errorf("%s: %v, %v, want %s", in, q, err, want)
		}
	}
}

// TestRefusals: what is LogQL and not ours is refused by its name, where it stands.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		in        string
		line, col int
		names     string
	}{
		{`{a="b"} | pattern "<x>"`, 1, 11, "| pattern"},
		{`{a="b"} | regexp "(?P<x>.)"`, 1, 11, "| regexp"},
		{`{a="b"} | unpack`, 1, 11, "| unpack"},
		{`{a="b"} | decolorize`, 1, 11, "| decolorize"},
		{`{a="b"} | logfmt x="y"`, 1, 18, "logfmt with expressions"},
		{`{a="b"} |> "<_> x"`, 1, 9, "|>"},
		{`{a="b"} !> "<_> x"`, 1, 9, "!>"},
		{`{a="b"} |= ip("10.0.0.0/8")`, 1, 12, "ip()"},
		{`{a="b"} | json | addr=ip("10.0.0.0/8")`, 1, 23, "ip()"},
		{`{a="b"} | line_format "{{range .x}}{{end}}"`, 1, 23, "{{range}}"},
		{`{a="b"} | line_format "{{define \"x\"}}{{end}}"`, 1, 23, "{{define}}"},
		{`{a="b"} | line_format "{{now}}"`, 1, 23, "now"},
		{`{a="b"} | label_format c="{{fromJson .x}}"`, 1, 26, "fromJson"},
		{`rate_counter({a="b"} | unwrap x [5m])`, 1, 1, "rate_counter"},
		{`label_replace(rate({a="b"}[5m]), "a", "b", "c", "d")`, 1, 1, "label_replace"},
		{`sort(rate({a="b"}[5m]))`, 1, 1, "sort"},
		{`sort_desc(rate({a="b"}[5m]))`, 1, 1, "sort_desc"},
		{`approx_topk(3, rate({a="b"}[5m]))`, 1, 1, "approx_topk"},
		{`vector(1) + on (a) group_left vector(2)`, 1, 20, "group_left"},
		{`sum(1)`, 1, 5, "sum of a number"},
		{"{a=\"b\"}\n  |> `<_>\nx`", 2, 3, "|>"},
		{"{a=\"b\"} |= `x\ny`\n| json | addr=ip(\"10.0.0.0/8\")", 3, 15, "ip()"},
	} {
		_, err := Parse(tt.in)
		pe, ok := errors.AsType[*ParseError](err)
		if !ok || !pe.Unsupported || !strings.Contains(pe.Message, tt.names+" ") || !strings.HasSuffix(pe.Message, "is not supported here") {
			t.Errorf("%s: %v, want a refusal that names %s", tt.in, err, tt.names)
			continue
		}
		if pe.Line != tt.line || pe.Column != tt.col {
			t.Errorf("%s: %v, want line %d, col %d", tt.in, err, tt.line, tt.col)
		}
	}
}

// TestBoundsTellTheirPlace: an error that Loki has not never loses its line.
func TestBoundsTellTheirPlace(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"{a=\"b\"}\n" + strings.Repeat(`|= "x"`, maxStages+2), "parse error at line 2, col 391: a pipeline has more than 64 stages"},
		{"rate({a=\"b\"}\n[0s])", "parse error at line 2, col 1: range must be longer than 0: [0s]"},
	} {
		if _, err := Parse(tt.in); err == nil || err.Error() != tt.want {
			t.Errorf("%.20q\n got %v\nwant %s", tt.in, err, tt.want)
		}
	}
}

// FuzzParse: nothing panics, and what is read reads the same when written again.
func FuzzParse(f *testing.F) {
	for _, r := range readRecorded(f) {
		f.Add(r.Params["query"])
	}
	for _, s := range []string{
		`sum by (a) (rate({b="c"} | logfmt --strict | d > 5m or e <= 3KiB, (f="g" h=~"i") | label_format j="{{.k | upper}}" [5m] offset -1h)) / ignoring(l) vector(-2) > bool 0`,
		`topk(3, quantile_over_time(0.5, {a=~"b+"} | json c="d[\"e\"]" | unwrap bytes(f) | __error__="" [1w2d]) by (g)) unless 1e308 * 10 ^ vector(0/0)`,
		"{a=`b`} |= \"c\\x00\\u00e9\" or `d` !~ \"\" | keep e, f!=\"g\" | drop __error__ # x\n| line_format `{{ if .a }}{{ end }}`",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		q, err := Parse(in)
		if err != nil {
			if _, ok := errors.AsType[*ParseError](err); !ok {
				t.Fatalf("%q: %T, want a *ParseError", in, err)
			}
			return
		}
		s := q.String()
		again, err := Parse(s)
		if err != nil {
			t.Fatalf("%q was written as %q, which does not parse: %v", in, s, err)
		}
		if s2 := again.String(); s2 != s {
			t.Fatalf("%q: %q is written as %q again", in, s, s2)
		}
		if again.IsMetric() != q.IsMetric() {
			t.Fatalf("%q and %q are not of one kind", in, s)
		}
	})
}
