package logql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const sec = int64(time.Second)

// at makes lines a second apart, from 1 s, of the stream {app="x"}.
func at(lines ...string) *Lines {
	labels := Labels{{"app", "x"}}
	var out []Entry
	for i, l := range lines {
		out = append(out, Entry{TS: int64(i+1) * sec, Labels: labels, Line: []byte(l)})
	}
	return NewLines(out)
}

func ask(t *testing.T, src Source, query string, r Request) (*Result, error) {
	t.Helper()
	q, err := Parse(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	r.Query = q
	if r.End == 0 {
		r.End = 1000 * sec
	}
	return Eval(t.Context(), src, r)
}

// logs writes an answer as "labels line" rows.
func logs(t *testing.T, src Source, query string, r Request) []string {
	t.Helper()
	res, err := ask(t, src, query, r)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var out []string
	for _, s := range res.Streams {
		for _, l := range s.Lines {
			out = append(out, s.Labels.String()+" "+l.Text)
		}
	}
	return out
}

// numbers writes an answer as "labels value value".
func numbers(t *testing.T, src Source, query string, r Request) []string {
	t.Helper()
	res, err := ask(t, src, query, r)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	out := []string{}
	for _, s := range res.Series {
		row := s.Labels.String()
		for _, p := range s.Points {
			row += " " + formatValue(p.V)
		}
		out = append(out, row)
	}
	return out
}

// TestPipelines: one line through stages; what comes out, or "".
func TestPipelines(t *testing.T) {
	for _, tt := range []struct{ line, stages, want string }{
		// json: names, nesting, types.
		{`{"a":"x","b":1.50,"c":true,"d":null,"e":[1],"f":{"g":{"h":"i"}},"j":{}}`, `| json`, `{a="x", app="x", b="1.50", c="true", f_g_h="i"}`},
		{`{"a b":1,"1c":2,"d-é":3," e ":4,"":5}`, `| json`, `{_1c="2", a_b="1", app="x", d__="3", e="4"}`},
		{`{"app":"y","app_extracted":"z"}`, `| json`, `{app="x", app_extracted="y"}`},
		{`{"app":"y"}`, `| json | app="y"`, ``},
		{`{"app":"y"}`, `| json | app_extracted="y"`, `{app="x", app_extracted="y"}`},
		{`{"a":"q\"\\\u00e9\ud83d\ude00\n"}`, `| json`, `{a="q\"\\é😀\n", app="x"}`},
		{"{\"a\":\"b\xffc\"}", `| json`, `{a="b c", app="x"}`},
		{`{"a":"\ud800"}`, `| json`, `{a="", app="x"}`},
		{`{"a":1,"a":2}`, `| json`, `{a="1", app="x"}`},
		{`{"a":1} and more`, `| json`, `{a="1", app="x"}`},
		{`{}`, `| json`, `{app="x"}`},
		// json: errors keep what came before.
		{`{"a":1,"b":tru}`, `| json`, `{__error__="JSONParserErr", __error_details__="Unknown value type", a="1", app="x"}`},
		{`{"a":1`, `| json`, `{__error__="JSONParserErr", __error_details__="Value is array, but can't find closing ']' symbol", a="1", app="x"}`},
		{`{"a":"1`, `| json`, `{__error__="JSONParserErr", __error_details__="Value is string, but can't find closing '\"' symbol", app="x"}`},
		{`[1]`, `| json`, `{__error__="JSONParserErr", __error_details__="Value looks like object, but can't find closing '}' symbol", app="x"}`},
		{``, `| json`, `{__error__="JSONParserErr", __error_details__="Value looks like object, but can't find closing '}' symbol", app="x"}`},
		{`nonsense`, `| json | drop __error__, __error_details__`, `{app="x"}`},
		{`nonsense`, `| json | drop __error__`, `{app="x"}`},
		{`nonsense`, `| json | __error__="JSONParserErr"`, `{__error__="JSONParserErr", __error_details__="Value looks like object, but can't find closing '}' symbol", app="x"}`},
		{`nonsense`, `| json | keep a`, `{__error__="JSONParserErr", __error_details__="Value looks like object, but can't find closing '}' symbol"}`},
		// json with expressions.
		{`{"a":{"b":[{"c d":"e"},2]},"f":[1,2]}`, `| json x="a.b[0][\"c d\"]", y="a.b[1]", z="a.b[2]", f`, `{app="x", f="[1,2]", x="e", y="2", z=""}`},
		{`{"a":{"b":1}}`, `| json x="a", y="a.b.c", app="a.b"`, `{app="x", app_extracted="1", x="{\"b\":1}", y=""}`},
		{`nonsense`, `| json x="a"`, `{__error__="JSONParserErr", app="x"}`},
		// logfmt.
		{`a=1 b="c d" e= f g-h=i j="k\"l"`, `| logfmt`, `{a="1", app="x", b="c d", g_h="i", j="k\"l"}`},
		{`a=1 e= f`, `| logfmt --keep-empty`, `{a="1", app="x", e="", f=""}`},
		{`a=1 b"c=2 d=3`, `| logfmt`, `{a="1", app="x", d="3"}`},
		{`a=1 =2 d=3`, `| logfmt --strict`, `{__error__="LogfmtParserErr", __error_details__="logfmt syntax error at pos 5 : unexpected '='", a="1", app="x"}`},
		{`a=1 b="c`, `| logfmt --strict`, `{__error__="LogfmtParserErr", __error_details__="logfmt syntax error at pos 9 : unterminated quoted value", a="1", app="x"}`},
		{`{"a":"b=1 c=2"}`, `| json | line_format "{{.a}}" | logfmt`, `{a="b=1 c=2", app="x", b="1", c="2"} b=1 c=2`},
		// Filters on numbers, durations and sizes.
		{`{"n":5}`, `| json | n=5`, `{app="x", n="5"}`},
		{`{"n":5}`, `| json | n!=5`, ``},
		{`{"n":-5}`, `| json | n<-4.5`, `{app="x", n="-5"}`},
		{`{"n":5}`, `| json | m>1`, ``},
		{`{"n":5}`, `| json | m!=1`, ``},
		{`{"n":"x"}`, `| json | n>1`, `{__error__="LabelFilterErr", __error_details__="strconv.ParseFloat: parsing \"x\": invalid syntax", app="x", n="x"}`},
		{`{"n":null}`, `| json | n>1 | __error__=""`, ``},
		{`{"d":"1.5s"}`, `| json | d>1s and d<=1500ms`, `{app="x", d="1.5s"}`},
		{`{"d":"soon"}`, `| json | d>1s`, `{__error__="LabelFilterErr", __error_details__="time: invalid duration \"soon\"", app="x", d="soon"}`},
		{`{"b":"1.5 MB"}`, `| json | b>1MB | b<2MiB`, `{app="x", b="1.5 MB"}`},
		{`{"b":"3 apples"}`, `| json | b>1MB`, `{__error__="LabelFilterErr", __error_details__="unhandled size name: apples", app="x", b="3 apples"}`},
		{`{"a":"x\ny"}`, `| json | a=~"x.y"`, `{a="x\ny", app="x"}`},
		{`{"a":"xy"}`, `| json | a=~"x"`, ``},
		{`{"a":"xy"}`, `| json | z=""`, `{a="xy", app="x"}`},
		// Formatting.
		{`{"a":"v"}`, `| json | line_format "{{.a}}/{{.missing}}/{{.app}}"`, `{a="v", app="x"} v//x`},
		{`{"a":"v"}`, `| json | line_format "{{ if .a }}{{ .a | upper | printf \"%3s\" }}{{ end }}"`, `{a="v", app="x"}   V`},
		{`hello`, `| line_format "{{ __line__ | ToUpper }} {{ __timestamp__ | unixEpoch }}"`, `{app="x"} HELLO 1`},
		{`{"a":"v"}`, `| json | line_format "{{ .a | trunc \"x\" }}"`, `{__error__="TemplateFormatErr", a="v", app="x"}`},
		{`{"a":"v"}`, `| json | label_format b=a, c="{{.b}}!", d=nothing`, `{app="x", b="v", c="v!"}`},
		{`{"a":"v"}`, `| json | label_format app=a`, `{app="v"}`},
		{`{"a":"v","b":"w"}`, `| json | drop a, b="v", app`, `{b="w"}`},
		{`{"a":"v","b":"w"}`, `| json | keep a, b="v"`, `{a="v"}`},
		{`{"a":"v"}`, `| json | label_format app="" | app=""`, `{a="v", app=""}`},
		// Lines.
		{`a [b] c`, `|= "[b]" != "d" |~ "^a" !~ "b$"`, `{app="x"}`},
		{`abc`, `|= "z" or "b"`, `{app="x"}`},
		{`abc`, `!= "z" or "b"`, ``},
		{`abc`, `!= ""`, ``},
		{`abc`, `|= ""`, `{app="x"}`},
		{`ABC`, `|~ "(?i)b"`, `{app="x"}`},
		{`a|b`, "|~ `a\\|b`", `{app="x"}`},
	} {
		got := logs(t, at(tt.line), `{app="x"} `+tt.stages, Request{})
		want := tt.want
		if want != "" && !strings.Contains(tt.stages, "line_format") {
			want += " " + tt.line
		}
		if strings.Contains(want, errTemplate) { // text/template's own words
			if len(got) != 1 || !strings.Contains(got[0], `__error__="TemplateFormatErr", __error_details__="template: line:1`) {
				t.Errorf("%s %s\n got %q", tt.line, tt.stages, got)
			}
			continue
		}
		if want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s %s\n got %q\nwant %q", tt.line, tt.stages, got, want)
		}
	}
}

func TestTemplateFunctions(t *testing.T) {
	src := at(`{"s":"Hello, World","n":"7","f":"2.5","d":"1m30s","b":"2KB"}`)
	for _, tt := range []struct{ text, want string }{
		{`{{.s | lower}} {{ToUpper .s}}`, `hello, world HELLO, WORLD`},
		{`{{Replace .s "l" "L" 1}} {{.s | replace "l" "_"}}`, `HeLlo, World He__o, Wor_d`},
		{`{{trim "  x "}}|{{Trim .s "Hd"}}|{{trimPrefix "He" .s}}|{{TrimSuffix .s "ld"}}`, `x|ello, Worl|llo, World|Hello, Wor`},
		{`{{trunc 5 .s}} {{trunc -5 .s}} {{substr 7 9 .s}}`, `Hello World Wo`},
		{`{{contains "World" .s}} {{hasPrefix "x" .s}} {{if hasSuffix "d" .s}}y{{else}}n{{end}}`, `true false y`},
		{`{{alignLeft 3 .n}}|{{alignRight 3 .n}}|{{alignLeft 2 .s}}|{{alignRight 2 .s}}`, `7  |  7|He|ld`},
		{`{{add .n 1 2}} {{sub 9 .n}} {{mul .n 2}} {{div .n 2}} {{mod .n 4}} {{max .n 3 9}} {{min .n 3}}`, `10 2 14 3 3 9 3`},
		{`{{addf .f 1}} {{mulf .f 2}} {{divf 5 .f}} {{ceil .f}} {{floor .f}} {{round .f 0}} {{int .f}} {{float64 .f}}`, `3.5 5 2 3 2 3 0 2.5`},
		{`{{regexReplaceAll "l+" .s "<$0>"}} {{regexReplaceAllLiteral "l+" .s "$0"}} {{count "l" .s}}`, `He<ll>o, Wor<l>d He$0o, Wor$0d 3`},
		{`{{.nothing | default "-"}} {{default "-" .n}}`, `- 7`},
		{`{{duration .d}} {{bytes .b}}`, `90 2000`},
		{`{{"a b" | urlencode}} {{"a+b" | urldecode}} {{b64enc "x"}} {{b64dec "eA=="}}`, `a+b a b eA== x`},
		{`{{title "ab cd"}} {{repeat 3 "x"}}{{nindent 2 "y"}}`, "Ab Cd xxx\n  y"},
		{`{{date "2006-01-02" __timestamp__}} {{__timestamp__ | unixEpochMillis}}`, `1970-01-01 1000`},
		{`{{len .s}} {{printf "%05d" (int "7")}} {{index . "n"}}`, `12 00007 7`},
	} {
		got := logs(t, src, `{app="x"} | json | line_format `+strconv.Quote(tt.text)+` | keep none`, Request{})
		if len(got) != 1 || got[0] != "{} "+tt.want {
			t.Errorf("%s\n got %q\nwant %q", tt.text, got, tt.want)
		}
	}
	// What would fill the memory is an error of the line.
	for _, text := range []string{`{{repeat 2000000 .s}}`, `{{indent 2000000 .s}}`, `{{alignLeft 2000000 .s}}`, `{{div 1 0}}`} {
		if got := logs(t, src, `{app="x"} | json | line_format `+strconv.Quote(text)+` | __error__="TemplateFormatErr"`, Request{}); len(got) != 1 {
			t.Errorf("%s: %q, want an error", text, got)
		}
	}
}

func TestMetrics(t *testing.T) {
	src := at(
		`{"k":"a","v":1,"d":"1s","b":"1KB"}`,
		`{"k":"b","v":2,"d":"2s","b":"2KB"}`,
		`{"k":"a","v":4,"d":"4s","b":"4KB"}`,
		`{"k":"a","v":8,"d":"8s","b":"8KB"}`,
		`{"v":null}`,
	)
	for _, tt := range []struct{ query, want string }{
		{`count_over_time({app="x"}[10s])`, `{app="x"} 5`},
		{`rate({app="x"}[10s])`, `{app="x"} 0.5`},
		{`bytes_over_time({app="x"}[10s])`, `{app="x"} 146`},
		{`bytes_rate({app="x"}[10s])`, `{app="x"} 14.6`},
		{`sum by (k) (count_over_time({app="x"} | json [10s]))`, `{} 1; {k="a"} 3; {k="b"} 1`},
		{`sum(count_over_time({app="x"} | json [10s]))`, `{} 5`},
		{`sum without (app, d, b, v) (count_over_time({app="x"} | json [10s]))`, `{} 1; {k="a"} 3; {k="b"} 1`},
		{`count(count_over_time({app="x"} | json [10s]))`, `{} 5`},
		{`sum_over_time({app="x"} | json | keep k, v | unwrap v [10s])`, `{k="a"} 13; {k="b"} 2`},
		{`rate({app="x"} | json | keep v | unwrap v [10s])`, `{} 1.5`},
		{`avg_over_time({app="x"} | json | unwrap v [10s]) by (k)`, `{k="a"} 4.333333333333333; {k="b"} 2`},
		{`min_over_time({app="x"} | json | unwrap v [10s]) by (k)`, `{k="a"} 1; {k="b"} 2`},
		{`max_over_time({app="x"} | json | unwrap v [10s]) without (k, d, b)`, `{app="x"} 8`},
		{`first_over_time({app="x"} | json | unwrap v [10s]) by (k)`, `{k="a"} 1; {k="b"} 2`},
		{`last_over_time({app="x"} | json | unwrap v [10s]) by (k)`, `{k="a"} 8; {k="b"} 2`},
		{`stdvar_over_time({app="x"} | json | unwrap v [10s]) by (app)`, `{app="x"} 7.1875`},
		{`stddev_over_time({app="x"} | json | unwrap v [10s]) by (app)`, `{app="x"} 2.680951323690902`},
		{`quantile_over_time(0.5, {app="x"} | json | unwrap v [10s]) by (app)`, `{app="x"} 3`},
		{`quantile_over_time(2, {app="x"} | json | unwrap v [10s]) by (app)`, `{app="x"} +Inf`},
		{`max_over_time({app="x"} | json | unwrap duration(d) [10s]) by (app)`, `{app="x"} 8`},
		{`max_over_time({app="x"} | json | unwrap bytes(b) [10s]) by (app)`, `{app="x"} 8000`},
		{`absent_over_time({app="y"}[10s])`, `{app="y"} 1`},
		{`absent_over_time({app="x"}[10s])`, ``},
		{`topk(1, sum by (k) (count_over_time({app="x"} | json | k!="" [10s])))`, `{k="a"} 3`},
		{`bottomk(1, sum by (k) (count_over_time({app="x"} | json | k!="" [10s])))`, `{k="b"} 1`},
		{`topk by (app) (1, count_over_time({app="x"} | json | keep app, k [10s]))`, `{app="x", k="a"} 3`},
		{`avg(sum by (k) (count_over_time({app="x"} | json | k!="" [10s])))`, `{} 2`},
		{`min(sum by (k) (count_over_time({app="x"} | json [10s])))`, `{} 1`},
		{`max(sum by (k) (count_over_time({app="x"} | json [10s])))`, `{} 3`},
		{`stdvar(sum by (k) (count_over_time({app="x"} | json | k!="" [10s])))`, `{} 1`},
		// Time: (t-range, t], offset.
		{`count_over_time({app="x"}[4s] offset 5s)`, `{app="x"} 4`},
		{`count_over_time({app="x"}[9s])`, `{app="x"} 4`},
		{`count_over_time({app="x"}[1s])`, ``},
		// Operators.
		{`sum(count_over_time({app="x"}[10s])) * 2 + 1`, `{} 11`},
		{`10 - sum(count_over_time({app="x"}[10s]))`, `{} 5`},
		{`count_over_time({app="x"}[10s]) / count_over_time({app="x"}[4s] offset 5s)`, `{app="x"} 1.25`},
		{`count_over_time({app="x"}[10s]) / count_over_time({app="x"}[1s])`, ``},
		{`vector(1) / vector(0)`, `{} NaN`},
		{`vector(1) / 0`, `{} NaN`},
		{`vector(5) % 3 ^ 2`, `{} 5`},
		{`vector(5) > 3`, `{} 5`},
		{`3 < vector(5)`, `{} 5`},
		{`vector(5) < 3`, ``},
		{`vector(5) < bool 3`, `{} 0`},
		{`vector(5) == bool vector(5)`, `{} 1`},
		{`vector(5) != vector(5)`, ``},
		{`sum by (k) (count_over_time({app="x"} | json | k!="" [10s])) > 1`, `{k="a"} 3`},
		{`sum by (k) (count_over_time({app="x"} | json | k="b" [10s])) or vector(0)`, `{} 0; {k="b"} 1`},
		{`sum by (k) (count_over_time({app="x"} | json [10s])) and vector(0)`, `{} 1`},
		{`sum by (k) (count_over_time({app="x"} | json [10s])) unless vector(0)`, `{k="a"} 3; {k="b"} 1`},
		{`sum by (k, app) (count_over_time({app="x"} | json | k="a" [10s])) / on (app) sum by (app) (count_over_time({app="x"}[10s]))`, `{app="x"} 0.6`},
		{`sum by (k, app) (count_over_time({app="x"} | json | k="a" [10s])) * ignoring (k) sum by (app) (count_over_time({app="x"}[10s]))`, `{app="x"} 15`},
		// Missing values are no samples.
		{`sum(sum_over_time({app="x"} | json | unwrap nothing [10s]))`, ``},
	} {
		got := strings.Join(numbers(t, src, tt.query, Request{Instant: true, End: 10 * sec}), "; ")
		if got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.query, got, tt.want)
		}
	}
}

// TestPipelineErrors: a line that cannot be read makes a number impossible,
// unless nobody needs what stands behind the break.
func TestPipelineErrors(t *testing.T) {
	src := at(`{"k":"a","n":1}`, `{"k":"a","n":`, `nonsense`, `{"k":"b","n":"many"}`)
	for _, tt := range []struct{ query, want string }{
		{`sum(count_over_time({app="x"} | json [10s]))`, `{} 4`}, // no label is asked for
		{`sum(count_over_time({app="x"} | json | k="a" [10s]))`, `{} 2`},
		{`sum by (k) (count_over_time({app="x"} | json | __error__="" [10s]))`, `{k="a"} 1; {k="b"} 1`},
		{`sum by (k) (count_over_time({app="x"} | json | __error__!="" [10s]))`, `{} 1; {k="a"} 1`},
		{`sum by (__error__) (count_over_time({app="x"} | json [10s]))`, `{} 2; {__error__="JSONParserErr"} 2`},
		{`sum(sum_over_time({app="x"} | json | __error__="" | unwrap n | __error__="" [10s]))`, `{} 1`},
		{`sum by (k) (count_over_time({app="x"} | json | drop __error__ [10s]))`, `{} 1; {k="a"} 2; {k="b"} 1`},
	} {
		if got := strings.Join(numbers(t, src, tt.query, Request{Instant: true, End: 10 * sec}), "; "); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.query, got, tt.want)
		}
	}
	for _, tt := range []struct{ query, kind, series string }{
		{`count_over_time({app="x"} | json [10s])`, errJSON, `{__error__="JSONParserErr", __error_details__="Malformed JSON error", app="x", k="a"}`},
		{`sum by (n) (count_over_time({app="x"} | json [10s]))`, errJSON, `{__error__="JSONParserErr", __error_details__="Malformed JSON error", app="x"}`},
		{`sum(sum_over_time({app="x"} | json | __error__="" | unwrap n [10s]))`, errSample, `{__error__="SampleExtractionErr", __error_details__="strconv.ParseFloat: parsing \"many\": invalid syntax", app="x", n="many"}`},
		{`sum(count_over_time({app="x"} | json | __error__="" | n > 0 [10s]))`, errFilter, `{__error__="LabelFilterErr", __error_details__="strconv.ParseFloat: parsing \"many\": invalid syntax", app="x", n="many"}`},
	} {
		_, err := ask(t, src, tt.query, Request{Instant: true, End: 10 * sec})
		qe, ok := errors.AsType[*QueryError](err)
		if !ok || qe.Status != 400 || !strings.HasPrefix(qe.Message, "pipeline error: '"+tt.kind+"' for series: '"+tt.series+"'.\n") {
			t.Errorf("%s: %v\nwant %s for %s", tt.query, err, tt.kind, tt.series)
		}
	}
	// A bad line outside every window harms nobody.
	if got := numbers(t, src, `count_over_time({app="x"} | json [1s])`, Request{Start: sec, End: sec, Step: time.Second}); len(got) != 1 {
		t.Errorf("%q, want one series", got)
	}
}

func TestSteps(t *testing.T) {
	src := at("a", "a", "a", "a", "a", "a", "a", "a", "a", "a")
	res, err := ask(t, src, `count_over_time({app="x"}[2s])`, Request{Start: 1, End: 11*sec + 1, Step: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	// 0 has no lines, 15 is the end rounded up and has none either.
	if got := fmt.Sprint(res.Kind, res.Series[0].Points); got != "matrix[{5000000000 2} {10000000000 2}]" {
		t.Errorf("%s", got)
	}
	if got := numbers(t, src, `vector(3)`, Request{Start: 0, End: 10 * sec, Step: 5 * time.Second}); got[0] != "{} 3 3 3" {
		t.Errorf("%q", got)
	}
	if got := numbers(t, src, `1 + 1`, Request{Start: 0, End: 5 * sec, Step: 5 * time.Second}); got[0] != "{} 2 2" {
		t.Errorf("%q", got)
	}
	if res, err := ask(t, src, `1 + 1`, Request{Instant: true}); err != nil || res.Kind != KindScalar {
		t.Errorf("%v %v", res, err)
	}
	if res, err := ask(t, src, `vector(1)`, Request{End: maxPoints * sec, Step: time.Second}); err != nil || len(res.Series[0].Points) != maxPoints+1 {
		t.Errorf("as many steps as there may be: %v", err)
	}
	for _, tt := range []struct {
		query string
		r     Request
		want  string
	}{
		{`vector(1)`, Request{End: sec}, "zero or negative query resolution step widths are not accepted. Try a positive integer"},
		{`vector(1)`, Request{End: (maxPoints + 1) * sec, Step: time.Second}, "exceeded maximum resolution of 11,000 points per time series. Try increasing the value of the step parameter"},
		{`vector(1)`, Request{Start: 2 * sec, End: sec, Step: time.Second}, "end timestamp must not be before or equal to start time"},
		{`{app="x"}`, Request{Instant: true}, "log queries are not supported as an instant query type, please change your query to a range query type"},
		{`vector(1) / on () count_over_time({app=~".+"} | json [10s])`, Request{Instant: true, End: 10 * sec}, "pipeline error"},
	} {
		_, err := ask(t, src, tt.query, tt.r)
		if qe, ok := errors.AsType[*QueryError](err); !ok || qe.Status != 400 || !strings.HasPrefix(qe.Message, tt.want) {
			t.Errorf("%s: %v, want %s", tt.query, err, tt.want)
		}
	}
	// Times at the ends of what an int64 holds do not run over.
	for _, r := range []Request{
		{Instant: true, Start: math.MaxInt64, End: math.MaxInt64},
		{Instant: true, Start: math.MinInt64, End: math.MinInt64},
	} {
		r.Query, _ = Parse(`count_over_time({app="x"}[24h] offset -24h)`)
		if res, err := Eval(t.Context(), src, r); err != nil || len(res.Series) != 0 {
			t.Errorf("%v %v, want nothing", res, err)
		}
	}
}

// TestManyToOne: what would need group_left is an error, not a choice.
func TestManyToOne(t *testing.T) {
	src := at(`{"k":"a"}`, `{"k":"b"}`)
	by := `sum by (app, k) (count_over_time({app="x"} | json [10s]))`
	one := `sum by (app) (count_over_time({app="x"}[10s]))`
	for _, q := range []string{by + " / on (app) " + one, one + " / on (app) " + by} {
		if _, err := ask(t, src, q, Request{Instant: true, End: 10 * sec}); err == nil || !strings.Contains(err.Error(), "many-to-") {
			t.Errorf("%s: %v", q, err)
		}
	}
}

// TestLimitAndOrder: streams are sorted by labels, lines by time in the
// direction asked for, and the limit counts lines of all streams.
func TestLimitAndOrder(t *testing.T) {
	a, b := Labels{{"app", "x"}, {"i", "1"}}, Labels{{"app", "x"}, {"i", "2"}}
	l := NewLines([]Entry{
		{1691766820435525604, b, []byte("b2")},
		{1691766820435525603, b, []byte("b1")},
		{1691766820435525603, a, []byte("a1")},
		{1691766820435525603, a, []byte("a1'")},
		{1691766820435525605, a, []byte("a3")},
	})
	r := Request{Start: 1691766820435525603, End: 1691766820435525605} // a3 is not before the end
	r.Forward = true
	if got := fmt.Sprint(logs(t, l, `{app="x"}`, r)); got != `[{app="x", i="1"} a1 {app="x", i="1"} a1' {app="x", i="2"} b1 {app="x", i="2"} b2]` {
		t.Errorf("forward: %s", got)
	}
	r.Forward = false
	if got := fmt.Sprint(logs(t, l, `{app="x"}`, r)); got != `[{app="x", i="1"} a1' {app="x", i="1"} a1 {app="x", i="2"} b2 {app="x", i="2"} b1]` {
		t.Errorf("backward: %s", got)
	}
	r.Limit = 2
	if got := fmt.Sprint(logs(t, l, `{app="x"}`, r)); got != `[{app="x", i="1"} a1' {app="x", i="2"} b2]` {
		t.Errorf("limited: %s", got)
	}
	// Thirty lines of one nanosecond are thirty lines.
	var same []Entry
	for i := range 30 {
		same = append(same, Entry{7, a, []byte(strconv.Itoa(i))})
	}
	if got := logs(t, NewLines(same), `{app="x"}`, Request{Forward: true}); len(got) != 30 || got[29] != `{app="x", i="1"} 29` {
		t.Errorf("%q", got)
	}
	if got := logs(t, NewLines(slices.Repeat(same, 10)), `{app="x"}`, Request{}); len(got) != defaultLimit {
		t.Errorf("%d lines without a limit, want %d", len(got), defaultLimit)
	}
}

// What a part found and nobody needs is not counted against the answer.
func TestAnAnswerThatIsThereIsGiven(t *testing.T) {
	part := func(full bool, n int) *lineCollector {
		c := &lineCollector{full: full, sets: []Labels{{{"app", "x"}}}}
		for i := range n {
			c.lines = append(c.lines, found{Line{TS: int64(i), Text: "line"}, 0})
		}
		return c
	}
	for _, tt := range []struct {
		first, second *lineCollector
		whole         bool
	}{
		{part(false, 3), part(true, 2), true},
		{part(false, 1), part(true, 2), true},
		{part(false, 1), part(true, 1), false},
		{part(true, 2), part(false, 3), false},
	} {
		res := &Result{most: 1 << 20}
		err := inTurn(t.Context(), at(), func(l *labour) error { return gather(l, res, []*lineCollector{tt.first, tt.second}, 3) })
		if (err == nil) != tt.whole || tt.whole && res.Stats.Found != 3 {
			t.Errorf("%d and %d lines: %d found, %v", len(tt.first.lines), len(tt.second.lines), res.Stats.Found, err)
		}
	}
}

func TestMaxSeries(t *testing.T) {
	var lines []string
	for i := range maxSeries + 1 {
		lines = append(lines, fmt.Sprintf(`{"i":%d}`, i))
	}
	_, err := ask(t, at(lines...), `count_over_time({app="x"} | json [1h])`, Request{Instant: true})
	if qe, ok := errors.AsType[*QueryError](err); !ok || !strings.HasPrefix(qe.Message, "maximum number of series (500) reached for a single query") {
		t.Errorf("%v", err)
	}
	if got := numbers(t, at(lines...), `count(count_over_time({app="x"} | json [1h]))`, Request{Instant: true}); got[0] != "{} 501" {
		t.Errorf("%q", got)
	}
}

func TestResultJSON(t *testing.T) {
	for _, tt := range []struct {
		query string
		r     Request
		want  string
	}{
		{`{app="x"} | json`, Request{}, `{"resultType":"streams","result":[{"stream":{"a":"<\u0001\"é>","app":"x"},"values":[["1000000000","{\"a\":\"<\\u0001\\\"é>\"}"]]}],"stats":{"summary":{"totalBytesProcessed":20,"totalLinesProcessed":1,"totalEntriesReturned":1}}}`},
		{`{app="y"}`, Request{}, `{"resultType":"streams","result":[],"stats":{"summary":{"totalBytesProcessed":0,"totalLinesProcessed":0,"totalEntriesReturned":0}}}`},
		{`vector(1.5)`, Request{Instant: true, End: 1_500_000_000}, `{"resultType":"vector","result":[{"metric":{},"value":[1.5,"1.5"]}],"stats":{"summary":{"totalBytesProcessed":0,"totalLinesProcessed":0,"totalEntriesReturned":0}}}`},
		{`0 / 0`, Request{Instant: true, End: sec}, `{"resultType":"scalar","result":[1,"NaN"],"stats":{"summary":{"totalBytesProcessed":0,"totalLinesProcessed":0,"totalEntriesReturned":0}}}`},
		{`vector(1) > 2`, Request{End: sec, Step: time.Second}, `{"resultType":"matrix","result":[],"stats":{"summary":{"totalBytesProcessed":0,"totalLinesProcessed":0,"totalEntriesReturned":0}}}`},
		{`vector(1)`, Request{End: sec, Step: time.Second}, `{"resultType":"matrix","result":[{"metric":{},"values":[[0,"1"],[1,"1"]]}],"stats":{"summary":{"totalBytesProcessed":0,"totalLinesProcessed":0,"totalEntriesReturned":0}}}`},
	} {
		res, err := ask(t, at(`{"a":"<\u0001\"é>"}`), tt.query, tt.r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := res.MarshalJSON()
		if err != nil || !json.Valid(b) || string(b) != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.query, b, tt.want)
		}
	}
	// Any text comes back as encoding/json would have it.
	text := "\x00\x1f\"\\/\n\r\té\u2028\xff😀\xed\xa0\x80"
	var got string
	if err := json.Unmarshal(appendString(nil, text), &got); err != nil || got != strings.ToValidUTF8(strings.ReplaceAll(text, "\xed\xa0\x80", "\ufffd\ufffd\ufffd"), "\ufffd") {
		t.Errorf("%q %v", got, err)
	}
}

// TestEnds: a query ends with its context, and with its source.
func TestEnds(t *testing.T) {
	q, err := Parse(`sum(count_over_time({app="x"}[1h]))`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Eval(ctx, at("a"), Request{Query: q, Instant: true, End: sec}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}
	boom := errors.New("disk on fire")
	if _, err := Eval(t.Context(), failing{boom}, Request{Query: q, Instant: true, End: sec}); !errors.Is(err, boom) {
		t.Errorf("%v, want the source's error", err)
	}
}

type failing struct{ err error }

func (f failing) Select(context.Context, Selection, func(Entry) bool) error { return f.err }

func TestPushdown(t *testing.T) {
	for _, tt := range []struct{ query, where, contains string }{
		{`{app="x"} |= "a" |= "b" or "c" != "d" |~ "e" | json | f="g" | h!="" and i=~"j|k"`, `[f="g" h!="" i=~"j|k"]`, `[a]`},
		{`{app="x"} | json | a="b" or c="d"`, `[]`, `[]`},
		{`{app="x"} | a="b" | json`, `[]`, `[]`},
		{`{app="x"} | json | app="y" | app_extracted="z" | __error__="" | a="b"`, `[a="b"]`, `[]`},
		{`{app="x"} | json | n > 5 | a="b"`, `[a="b"]`, `[]`},
		{`{app="x"} | json | label_format a=c | a="b"`, `[]`, `[]`},
		{`{app="x"} | json | drop a | a=""`, `[]`, `[]`},
		{`{app="x"} | json | a="b" | logfmt | c="d"`, `[a="b"]`, `[]`},
		{`{app="x"} | logfmt | json | c="d"`, `[]`, `[]`},
		{`{app="x"} | json c="d" | c="d"`, `[]`, `[]`},
		{`{app="x"} | line_format "{{.a}}" |= "b" | json | c="d"`, `[]`, `[]`},
		{`{app="x"} | json | line_format "{{.a}}" |= "b" | c="d"`, `[c="d"]`, `[]`},
		{`sum_over_time({app="x"} |= "a" | json | b="c" | unwrap d [5m])`, `[b="c" d!=""]`, `[a]`},
		{`sum_over_time({app="x"} | json | label_format d=e | unwrap d [5m])`, `[]`, `[]`},
	} {
		q, err := Parse(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		var where []Condition
		var contains [][]byte
		switch e := q.e.(type) {
		case *logExpr:
			where, contains = pushdown(e, nil)
		case *rangeAgg:
			where, contains = pushdown(e.log, e.unwrap)
		}
		if got := fmt.Sprint(where); got != tt.where {
			t.Errorf("%s: where %s, want %s", tt.query, got, tt.where)
		}
		if got := fmt.Sprintf("%s", contains); got != tt.contains {
			t.Errorf("%s: contains %s, want %s", tt.query, got, tt.contains)
		}
	}
}

func TestFieldReader(t *testing.T) {
	f := NewFieldReader([]string{"a", "b_c"})
	for _, tt := range []struct {
		line    string
		a, bc   string
		certain bool
	}{
		{`{"a":"x","b_c":true}`, "x", "true", true},
		{`{"b":{"c":1}}`, "", "1", true},
		{`{"b-c":"q"}`, "", "q", true},
		{`{"a":"x","a":"y"}`, "", "", false},
		{`{"b":{"c":1},"b_c":2}`, "", "", false},
		{`{"a":"x","b_c":`, "x", "", true},
		{`nonsense`, "", "", true},
		{`{"z":1}`, "", "", true},
	} {
		got := make([]string, 2)
		certain := f.Values([]byte(tt.line), got)
		if certain != tt.certain || certain && (got[0] != tt.a || got[1] != tt.bc) {
			t.Errorf("%s: %q %v, want %q %q %v", tt.line, got, certain, tt.a, tt.bc, tt.certain)
		}
	}
}

func TestReadLines(t *testing.T) {
	l, err := ReadLines(strings.NewReader(
		`{"time":"2026-05-01T10:00:00.000000002Z","event":"b"}`+"\r\n\n"+
			`{"ts":"3","labels":{"z":"1","a":"2"},"line":"text"}`+"\n"+
			`{"time":"2026-05-01T12:00:00.000000001+02:00","line":"not the other form"}`), Labels{{"b", "y"}, {"a", "x"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = l.Select(t.Context(), Selection{Start: math.MinInt64, End: math.MaxInt64, Forward: true}, func(e Entry) bool {
		got = append(got, fmt.Sprint(e.TS, " ", e.Labels, " ", string(e.Line)))
		return true
	})
	want := []string{
		`3 {a="2", z="1"} text`,
		`1777629600000000001 {a="x", b="y"} {"time":"2026-05-01T12:00:00.000000001+02:00","line":"not the other form"}`,
		`1777629600000000002 {a="x", b="y"} {"time":"2026-05-01T10:00:00.000000002Z","event":"b"}`,
	}
	if err != nil || !slices.Equal(got, want) || l.Len() != 3 {
		t.Errorf("%v\n got %q\nwant %q", err, got, want)
	}
	for _, tt := range []struct{ in, want string }{
		{"\n\nnonsense\n", "line 3: not a JSON object: "},
		{`{"event":"x"}`, `line 1: no "time" in it, which a line of a decision log has`},
		{`{"time":"yesterday"}`, `line 1: its "time" is not RFC 3339: `},
		{`{"ts":"x","line":"y"}`, `line 1: its "ts" is not Unix nanoseconds: `},
	} {
		if _, err := ReadLines(strings.NewReader(tt.in), nil, nil); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.in, err, tt.want)
		}
	}
}

func TestReadLinesSkips(t *testing.T) {
	var skipped []string
	l, err := ReadLines(strings.NewReader(`{"time":"2026-05-01T10:00:00Z"}
no JSON
{"time":"2026-05-01T10:00:01Z"}
{"time":"2026-05-01T10:0`), nil, func(err error) { skipped = append(skipped, err.Error()) })
	if err != nil || l.Len() != 2 || len(skipped) != 2 || !strings.HasPrefix(skipped[0], "line 2: ") || !strings.HasPrefix(skipped[1], "line 4: ") {
		t.Errorf("%v, %d lines, skipped %q", err, l.Len(), skipped)
	}
}

// TestManyNames: lines with ever new field names neither fill the memory nor
// change the answer.
func TestManyNames(t *testing.T) {
	var lines []string
	for i := range 3*maxSymbols/10 + 500 {
		var b strings.Builder
		for j := range 10 {
			fmt.Fprintf(&b, `"f%d_%d":1,`, i, j)
		}
		lines = append(lines, `{`+b.String()+`"k":"v"}`)
	}
	r := Request{Instant: true, End: int64(len(lines)) * sec}
	want := fmt.Sprintf(`{k="v"} %d`, len(lines))
	if got := numbers(t, at(lines...), `count_over_time({app="x"} | json | keep k [24h])`, r); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	deep := strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)
	if got := logs(t, at(deep), `{app="x"} | json`, Request{}); len(got) != 1 || got[0] != `{app="x"} `+deep {
		t.Errorf("a line nested 10,000 times: %d rows, %.100q", len(got), got)
	}
}
