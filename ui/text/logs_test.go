package text

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"failback/sources"
)

func TestLogLine(t *testing.T) {
	for _, c := range []struct {
		line, want string
		weight     Weight
	}{
		{`{"event":"model_route_selected","request_id":"req-1","task_type":"refund","workflow_status":"completed","reason":"primary_completed","attempts":[{"provider":"a","class":"ok"}]}`, "req-1 refund completed primary_completed: a ok", Calm},
		{`{"event":"model_route_selected","request_id":"req-2","workflow_status":"degraded_completed","reason":"server_error","candidates":[{"provider":"a","skipped":""},{"provider":"b"}],"attempts":[{"provider":"a","class":"server_error"},{"provider":"b","class":"ok"}]}`, "req-2 degraded_completed server_error: a server_error > b ok", Notable},
		{`{"event":"model_route_selected","request_id":"req-3","workflow_status":"human","reason":"not_allowed"}`, "req-3 human not_allowed", Grave},
		{`{"event":"breaker_transition","provider":"a","capability":"text","from":"closed","to":"open","reason":"server_error","detail":"12/20 failed"}`, "auto a text CLOSED > OPEN  12/20 failed", Grave},
		{`{"event":"traffic_step","provider":"a","from":"0","to":"5","reason":"raised","by":"ana","why":"probe ok","revision":118}`, `ana a share 0% > 5%  "probe ok" rev 118`, Notable},
		{`{"event":"health_transition","provider":"a","from":"suspect","to":"degraded","by":"auto","detail":"30s, error rate and probe agree"}`, "auto a SUSPECT > DEGRADED  30s, error rate and probe agree", Grave},
		{`{"event":"health_transition","provider":"a","from":"recovering","to":"healthy"}`, "auto a RECOVERING > HEALTHY", Calm},
		{`{"event":"config_reload","by":"SIGHUP","action":"reload","result":"refused","detail":"the configuration in force stays: line 3"}`, "SIGHUP config reload REFUSED  the configuration in force stays: line 3", Notable},
		{`{"event":"escalation","provider":"a","reason":"owner_decision","required":"the owner","notified":"none"}`, "auto a owner decision, nobody was told so far: needs the owner", Notable},
		{`{"event":"late_result","time":"2026-11-30T04:12:30Z","request_id":"req-9","provider":"a","n":3,"nested":{"a": [1, 2]},"none":null}`, `late result request_id=req-9 provider=a n=3 nested={"a":[1,2]}`, Notable},
		{`{"event":"model_route_selected","request_id":7}`, "model route selected request_id=7", Notable}, // not a decision as we know it
		{`req-1 refund degraded_completed server_error`, "req-1 refund degraded_completed server_error", Calm},
		{`{"event":`, `{"event":`, Calm},
		{`{"a":1}`, `{"a":1}`, Calm},
		{"", "", Calm},
		{"\x1b[2Jx", `\x1b[2Jx`, Calm},
		{`{"event":"late_result","x":"\u001b[2J\u202e"}`, `late result x=\x1b[2J\u202e`, Notable},
	} {
		got, weight := LogLine(c.line)
		if got != c.want || weight != c.weight {
			t.Errorf("%s\n got %q, %d\nwant %q, %d", c.line, got, weight, c.want, c.weight)
		}
	}
}

func TestLogFields(t *testing.T) {
	got := LogFields(`{"b":"x","a":{"z": [1, "y"]},"b":1.50,"n":null,"e":""}`)
	want := []LogField{{"b", "x"}, {"a", `{"z":[1,"y"]}`}, {"b", "1.50"}, {"n", "null"}, {"e", ""}}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %q, want %q", i, got[i], want[i])
		}
	}
	for _, line := range []string{"", "x", "[1]", `{"a":1`, `{"a":1} {"b":2}`, `{"a"`, `{"a":}`, "null"} {
		if fs := LogFields(line); fs != nil {
			t.Errorf("%s: %q", line, fs)
		}
	}
}

func logQuery(over time.Duration) sources.LogQuery {
	end := time.Date(2026, 11, 30, 4, 12, 31, 0, time.UTC)
	return sources.LogQuery{Query: "q", Start: end.Add(-over), End: end, Limit: 500}
}

func TestLogNotes(t *testing.T) {
	row := []sources.LogRow{{Line: "x"}}
	forward := logQuery(time.Hour)
	forward.Forward = true
	for _, c := range []struct {
		a    sources.LogAnswer
		want string
	}{
		{sources.LogAnswer{Query: logQuery(15 * time.Minute), SearchedBytes: 1_234_000_000, Unparsed: -1}, "none in 15m (searched 1.2 GB)"},
		{sources.LogAnswer{Query: logQuery(24 * time.Hour), SearchedBytes: 0}, "none in 24h (searched 0 B)"},
		{sources.LogAnswer{Query: logQuery(15 * time.Minute), SearchedBytes: -1}, "none in 15m"},
		{sources.LogAnswer{Query: logQuery(time.Hour), Rows: row, CutOff: true, SearchedBytes: 5}, "first 1 only, the newest: there are more in 1h"},
		{sources.LogAnswer{Query: forward, Rows: row, CutOff: true, SearchedBytes: 5}, "first 1 only, the oldest: there are more in 1h"},
		{sources.LogAnswer{Query: forward, Rows: row, Unparsed: 1200, Warnings: []string{"a\x1bb"}}, `1 200 lines not parsed and not in it|partial: a\x1bb`},
		{sources.LogAnswer{Query: forward, Rows: row}, ""},
	} {
		if got := strings.Join(LogNotes(&c.a), "|"); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		15 * time.Minute: "15m", time.Hour: "1h", 90 * time.Minute: "1h30m", 24 * time.Hour: "24h", 7 * 24 * time.Hour: "7d",
		90 * time.Second: "1m30s", 30 * time.Second: "30s", 0: "0s", time.Hour + time.Second: "1h0m1s", 100 * time.Minute: "1h40m",
	} {
		if got := Span(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

func TestLogAnswer(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 12, 31, 500e6, time.UTC)
	labels := func(route string) map[string]string { return map[string]string{"route": route} }
	vector := sources.LogAnswer{Kind: sources.LogVector, Series: []sources.LogSeries{
		{Labels: labels("primary"), Points: []sources.LogPoint{{At: at, Value: 3}}},
		{Labels: labels("none"), Points: []sources.LogPoint{{At: at, Value: math.NaN()}}},
		{Labels: labels("fall\nback"), Points: []sources.LogPoint{{At: at, Value: 117}}},
		{Labels: map[string]string{}, Points: []sources.LogPoint{{At: at, Value: 0.25}}},
	}}
	if got, want := LogAnswer(&vector), "ROUTE       VALUE\nfall\\nback    117\nprimary         3\n-            0.25\nnone          NaN\n"; got != want {
		t.Errorf("vector:\n%s\nwant\n%s", got, want)
	}
	matrix := sources.LogAnswer{Kind: sources.LogMatrix, Query: sources.LogQuery{Forward: true}, Series: []sources.LogSeries{
		{Labels: labels("a"), Points: []sources.LogPoint{{At: at, Value: 3}, {At: at.Add(time.Minute), Value: 5}}},
		{Labels: labels("b"), Points: []sources.LogPoint{{At: at, Value: 4}}},
	}}
	if got, want := LogAnswer(&matrix), "TIME                      ROUTE  VALUE\n2026-11-30T04:12:31.500Z  a          3\n2026-11-30T04:12:31.500Z  b          4\n2026-11-30T04:13:31.500Z  a          5\n"; got != want {
		t.Errorf("matrix:\n%s\nwant\n%s", got, want)
	}
	many := map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "\x1b"}
	wide := sources.LogAnswer{Kind: sources.LogVector, Series: []sources.LogSeries{{Labels: many, Points: []sources.LogPoint{{Value: 1}}}}}
	if got := LogAnswer(&wide); !strings.Contains(got, `{a="1", b="2", c="3", d="4", e="5", f="\x1b"}`) {
		t.Errorf("many labels:\n%s", got)
	}
	lines := sources.LogAnswer{Kind: sources.LogLines, Rows: []sources.LogRow{{TS: at.UnixNano(), Line: "a\x1b[2J\nb"}}}
	if got, want := LogAnswer(&lines), "2026-11-30T04:12:31.500Z  a\\x1b[2J\\nb\n"; got != want {
		t.Errorf("lines: %q, want %q", got, want)
	}
	for _, h := range []string{"\x1b]0;x\x07", "\u202e", "\xff", "a\rb"} {
		vector.Series[0].Labels = map[string]string{h: h}
		for _, r := range LogAnswer(&vector) {
			if r != '\n' && !unicode.IsGraphic(r) {
				t.Errorf("%q: %U is printed", h, r)
			}
		}
	}
	if got := LogAnswer(&sources.LogAnswer{}); got != "" {
		t.Errorf("an empty answer: %q", got)
	}
}

func TestMark(t *testing.T) {
	for _, c := range []struct {
		query, message, line, before string
		ok                           bool
	}{
		{`{a="b"`, "400: parse error at line 1, col 7: syntax error: unexpected $end", `{a="b"`, `{a="b"`, true},
		{`{a="模"} |`, "parse error at line 1, col 6: x", `{a="模"} |`, `{a="模`, true},
		{"{a=\"b\"}\n| x", "parse error at line 2, col 3: x", "| x", "| ", true},
		{"x", "parse error at line 3, col 1: x", "", "", false},
		{"x", "parse error : queries require", "", "", false},
		{"x", "parse error at line 1, col -4: x", "", "", false},
		{"x", "parse error at line 1, col 99999: x", "x", "x", true},
		{"x", "", "", "", false},
	} {
		line, before, ok := Mark(c.query, c.message)
		if line != c.line || before != c.before || ok != c.ok {
			t.Errorf("%q, %q: %q, %q, %t", c.query, c.message, line, before, ok)
		}
	}
}
