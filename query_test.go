package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/filelog"
	"failback/sources/gatewaytest"
)

const linesFile = "sources/logql/testdata/lines.jsonl"

// runLine runs a command line.
func runLine(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return out.String(), errs.String(), code
}

// What a real Loki answered to each query is what --file answers with --json,
// and its refusals are the text on standard error.
func TestQueryFileAnswersAsLoki(t *testing.T) {
	f, err := os.Open("sources/logql/testdata/queries.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<24)
	asked := 0
	for sc.Scan() {
		var q struct {
			ID, Path string
			Params   map[string]string
			Status   int
			Answer   json.RawMessage
		}
		if err := json.Unmarshal(sc.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		if q.Params["query"][0] == '{' && strings.HasSuffix(q.Path, "/query") {
			continue // lines are always asked for over a range here
		}
		asked++
		args := []string{"query", "--json", "--file", linesFile, "--logql", q.Params["query"]}
		for param, flag := range map[string]string{"start": "start", "end": "end", "time": "end", "limit": "limit", "direction": "direction", "step": "step"} {
			if v := q.Params[param]; v != "" {
				args = append(args, "--"+flag, v)
			}
		}
		out, errs, code := runLine(args...)
		if q.Status != http.StatusOK {
			var want string
			if err := json.Unmarshal(q.Answer, &want); err != nil {
				t.Fatal(err)
			}
			if code != exitFailed || out != "" || strings.TrimSpace(errs) != strings.TrimSpace(want) {
				t.Errorf("%s: exit %d, %q, %q, want %q", q.ID, code, out, errs, want)
			}
			continue
		}
		if code != exitDone || errs != "" {
			t.Errorf("%s: exit %d, %s", q.ID, code, errs)
			continue
		}
		if got, want := answerOf(t, []byte(out)), answerOf(t, q.Answer); got != want {
			t.Errorf("%s:\n got %.300s\nwant %.300s", q.ID, got, want)
		}
	}
	if asked < 40 {
		t.Errorf("only %d queries", asked)
	}
}

// answerOf is an answer without what may differ: its statistics.
func answerOf(t *testing.T, data []byte) string {
	t.Helper()
	var v struct {
		ResultType string
		Result     any
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %.200s", err, data)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestQueryFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, s string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	decisions := write("gateway.log", `{"event":"model_route_selected","time":"2026-11-30T04:12:30Z","request_id":"req-1","task_type":"refund","workflow_status":"unavailable","reason":"not_allowed","candidates":[{"provider":"a","skipped":"breaker_open"}]}
{"event":"operator_command","time":"2026-11-30T04:13:00.5Z","provider":"a","action":"share","from":"0","to":"5","by":"ana","why":"\u001b[2Jx","result":"ok","revision":118}
`)
	torn := write("torn.log", `{"event":"operator_command","time":"2026-11-30T04:13:00.5Z","provider":"a","action":"share","from":"0","to":"5","by":"ana","result":"ok","revision":118}
{"event":"operator_com`)
	broken := write("broken.log", "no JSON\n")
	empty := write("empty.log", "")
	conf := write("failback.yaml", `
listen: 127.0.0.1:0
upstreams: {a: {dialect: openai, base_url: "https://api.example/v1", api_key: literal-key}}
models: {m: {candidates: [{upstream: a}]}}
tasks: {policy_question: {fallback: any}, document_summary: {fallback: any}, payment: {fallback: same_model}}
`)
	for _, c := range []struct {
		args []string
		code int
		out  string   // exactly
		errs []string // parts; none: empty
	}{
		{[]string{"operators", "--file", decisions}, 0, "2026-11-30T04:13:00.500Z  ana a share 0% > 5%  \"\\x1b[2Jx\" rev 118\n", nil},
		{[]string{"--logql", `{service_name="failback"}`, "--direction", "forward", "--limit", "1", "--file", decisions}, 0,
			"2026-11-30T04:12:30.000Z  req-1 refund unavailable not_allowed: a skipped: breaker_open\n", []string{"first 1 only, the oldest"}},
		{[]string{"late-results", "--file", decisions}, 0, "", []string{"none in 31s (searched "}},
		{[]string{"late-results", "--since", "10s", "--file", decisions}, 0, "", []string{"none in 10s"}},
		{[]string{"by-reason", "--file", empty}, 0, "", []string{"none in ", ": no request left its primary"}},
		{[]string{"by-reason", "--file", linesFile}, 0, "REASON              VALUE\nrate_limited           31\nserver_error           29\nfirst_byte_timeout     27\nbreaker_open           21\n", []string{"2 lines not parsed"}},
		{[]string{"by-reason", "--since", "100m", "--step", "300", "--file", linesFile}, 0, "", []string{"not parsed"}},
		{[]string{"not-allowed", "--file", linesFile, "--config", conf}, 0, "", []string{"none in "}},
		{[]string{"not-allowed", "--file", linesFile, "--config", filepath.Join(dir, "none.yaml")}, 2, "", []string{"what each task may", "none.yaml"}},
		{[]string{"--logql", `{service_name="failback"} | json | x=y`, "--file", linesFile}, 1, "", []string{"parse error at line 1, col 3", "\n  {service_name=\"failback\"} | json | x=y\n", "^\n"}},
		{[]string{"--logql", `{a="b"} | pattern "<x>"`, "--file", linesFile}, 1, "", []string{"| pattern is not supported here"}},
		{[]string{"--logql", "{a=\"\x1b\u202e\" |", "--file", linesFile}, 1, "", []string{"parse error", `\u202e`}},
		{[]string{"affected", "--file", broken}, 1, "", []string{"broken.log: no line of it is one of a decision log: line 1: not a JSON"}},
		{[]string{"operators", "--file", torn}, 0, "2026-11-30T04:13:00.500Z  ana a share 0% > 5% rev 118\n", []string{"torn.log: 1 line is none of a decision log and not in it, the first is line 2: not a JSON"}},
		{[]string{"operators", "--json", "--file", torn}, 0, "", []string{"torn.log: 1 line is none"}},
		{[]string{"affected", "--file", filepath.Join(dir, "none")}, 1, "", []string{"--file", "no such file"}},

		{[]string{"by-reson", "--file", decisions}, 2, "", []string{`there is no query "by-reson"; the nearest is by-reason`}},
		{[]string{"xyzzyxyzzy"}, 2, "", []string{"there are first-switch, not-allowed"}},
		{[]string{"xyzzyxyzzy"}, 2, "", []string{"changes, and LogQL of your own goes into --logql"}},
		{[]string{`sum(rate({a="b"}[5m]))`}, 2, "", []string{"there is no query of that name; LogQL of your own goes into --logql, in quotes: --logql 'sum(rate({a=\"b\"}[5m]))'"}},
		{[]string{"{a=\"\x1b\"}"}, 2, "", []string{"--logql"}},
		{[]string{"failed", "--file", empty}, 0, "", []string{"none in ", ": no request failed in this time"}},
		{[]string{"failed", "--file", decisions}, 0, "REASON       TASK_TYPE  VALUE\nnot_allowed  refund         1\n", nil},
		{[]string{"a", "b"}, 2, "", []string{"--logql, in quotes"}},
		{[]string{"affected", "--logql", "x"}, 2, "", []string{"not both"}},
		{[]string{"--logql", " "}, 2, "", []string{"no query in it"}},
		{[]string{"affected", "--file", "x", "--connect", "unix:y"}, 2, "", []string{"--file and --connect"}},
		{[]string{"affected", "--since", "1h", "--start", "now"}, 2, "", []string{"--since and --start"}},
		{[]string{"affected", "--since", "soon"}, 2, "", []string{"--since"}},
		{[]string{"affected", "--since", "-1h"}, 2, "", []string{"--since"}},
		{[]string{"affected", "--start", "tomorrow"}, 2, "", []string{"--start", "tomorrow"}},
		{[]string{"affected", "--end", "1795996500000"}, 2, "", []string{"--end", "neither Unix seconds nor nanoseconds"}},
		{[]string{"affected", "--step", "never"}, 2, "", []string{"--step"}},
		{[]string{"affected", "--step", "1m"}, 2, "", []string{"--step: affected gives lines", "leave it out, or ask failed, by-reason, by-task, first-output"}},
		{[]string{"by-reason", "--file", decisions, "--limit", "3"}, 2, "", []string{"--limit: by-reason gives numbers", "leave it out"}},
		{[]string{"--step", "1m"}, 2, "", []string{"--step: there is no query that it is for", "--logql"}},
		{[]string{"--file", decisions}, 2, "", []string{"--file: there is no query that it is for"}},
		{[]string{"--logql", `{service_name="failback"} | json | line_format "{{div 1 0}}"`, "--file", decisions}, 0, "", []string{"failback: 2 lines could not be written by line_format or label_format: TemplateFormatErr; --json shows each"}},
		{[]string{"--logql", `{service_name="failback"} | json | line_format "{{div 1 0}}" | __error__=""`, "--file", decisions}, 0, "", []string{"none in "}},
		{[]string{"affected", "--limit", "0"}, 2, "", []string{"--limit"}},
		{[]string{"affected", "--limit", "100001"}, 2, "", []string{"at most 100000"}},
		{[]string{"affected", "--direction", "up"}, 2, "", []string{"--direction"}},
		{[]string{"affected", "--file", decisions, "--start", "2026-11-30T05:00:00Z", "--end", "2026-11-30T04:00:00Z"}, 2, "", []string{"ends (2026-11-30T04:00:00Z) before it begins"}},
		{[]string{"by-reason", "--file", decisions, "--start", "2026-11-30T05:00:00Z", "--end", "2026-11-30T04:00:00Z"}, 2, "", []string{"ends (2026-11-30T04:00:00Z) before it begins"}},
	} {
		out, errs, code := runLine(append([]string{"query"}, c.args...)...)
		bad := code != c.code || c.out != "" && out != c.out || c.code != 0 && out != "" || len(c.errs) == 0 && errs != ""
		for _, want := range c.errs {
			bad = bad || !strings.Contains(errs, want)
		}
		if strings.ContainsAny(out+errs, "\x1b\u202e") {
			t.Errorf("query %q drives the terminal: %q %q", c.args, out, errs)
		}
		if bad {
			t.Errorf("query %q: exit %d\n%s%s\nwant exit %d\n%s%q", c.args, code, out, errs, c.code, c.out, c.errs)
		}
	}
	out, _, _ := runLine("query", "by-reason", "--since", "100m", "--step", "300", "--file", linesFile)
	if !strings.HasPrefix(out, "TIME                      REASON ") || strings.Count(out, "2026-11-30T") < 3 {
		t.Errorf("over the range:\n%s", out)
	}
	// An own query over a range has a number each 250th of it.
	for _, from := range []string{"--since=100m", "--start=-100m"} {
		out, errs, code := runLine("query", "--logql", "vector(1)", from, "--file", linesFile)
		if points := strings.Count(out, "\n") - 1; code != 0 || errs != "" || points < 250 || points > 252 {
			t.Errorf("%s: exit %d, %d points, %s", from, code, points, errs)
		}
	}
	// Numbers by step are of that step each: together they are the one number.
	out, _, _ = runLine("query", "by-reason", "--step", "300", "--file", linesFile)
	sum := 0
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "rate_limited" {
			n, err := strconv.Atoi(f[2])
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	if sum != 31 {
		t.Errorf("%d by steps, 31 at once:\n%s", sum, out)
	}
}

// Every flag of query means something to every canned query, or is refused by
// its name before anybody is asked.
func TestCannedQueriesAndFlags(t *testing.T) {
	for _, c := range sources.CannedQueries(nil, "") {
		for _, flag := range ofQueries {
			refused := flag == "step"
			if c.Instant {
				refused = flag == "limit" || flag == "direction"
			}
			err := fits(c, func(f string) bool { return f == flag })
			if (err != nil) != refused || refused && (!strings.Contains(err.Error(), "--"+flag+": "+c.Name+" gives") || !strings.Contains(err.Error(), "leave it out")) {
				t.Errorf("%s --%s: %v", c.Name, flag, err)
			}
		}
	}
}

func TestLineErrors(t *testing.T) {
	row := func(kind string) sources.LogRow { return sources.LogRow{Labels: map[string]string{"__error__": kind}} }
	rows := []sources.LogRow{{}, row(""), row("LogfmtParserErr"), row("JSONParserErr"), row("\x1b[2J"), row("JSONParserErr")}
	got := lineErrors(rows)
	want := []string{
		"2 lines could not be read as json: JSONParserErr",
		`1 line could not be worked on: \x1b[2J`,
		`1 line could not be read as logfmt: LogfmtParserErr; --json shows each with its __error_details__, and | __error__="" in the query leaves them out`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if got := lineErrors(rows[:2]); got != nil {
		t.Errorf("of none: %q", got)
	}
}

// A signal ends a query that waits for its standard input.
func TestQueryFileEndsWhileItReads(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	was := os.Stdin
	os.Stdin = r
	defer func() { os.Stdin = was }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	var out, errs bytes.Buffer
	go func() { ended <- run(ctx, []string{"query", "affected", "--file", "-"}, &out, &errs) }()
	if _, err := io.WriteString(w, "{\"time\":\"2026-11-30T04:12:30Z\"}\n"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if code := <-ended; code != exitFailed || !strings.Contains(errs.String(), "standard input: reading it was broken off") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}

func TestQueryList(t *testing.T) {
	out, errs, code := runLine("query")
	if code != 0 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	js, _, _ := runLine("query", "--json")
	var list []struct{ Name, Means, None string }
	if err := json.Unmarshal([]byte(js), &list); err != nil {
		t.Fatal(err)
	}
	all := sources.CannedQueries(nil, "")
	if len(list) != len(all) {
		t.Errorf("%d of %d", len(list), len(all))
	}
	for i, c := range all {
		if !strings.Contains(out, "\n"+c.Name) && !strings.HasPrefix(out, c.Name) || !strings.Contains(out, c.Means) || !strings.Contains(out, c.None) {
			t.Errorf("%s is not in:\n%s", c.Name, out)
		}
		if list[i].Name != c.Name || list[i].Means != c.Means {
			t.Errorf("%+v", list[i])
		}
	}
}

// lokiOf answers as a Loki does, from a file.
func lokiOf(t *testing.T, asked *[]string) *httptest.Server {
	t.Helper()
	lines, err := filelog.Read(t.Context(), linesFile, func() (io.ReadCloser, error) { return os.Open(linesFile) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards asked: each connection has a goroutine of its own
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		*asked = append(*asked, r.URL.Query().Get("query"))
		mu.Unlock()
		ns := func(name string) time.Time {
			n, _ := strconv.ParseInt(r.FormValue(name), 10, 64)
			return time.Unix(0, n)
		}
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		q := sources.LogQuery{Query: r.FormValue("query"), Start: ns("start"), End: ns("end"), Limit: limit, Forward: r.FormValue("direction") == "forward"}
		if strings.HasSuffix(r.URL.Path, "/query") {
			q.Instant, q.End = true, ns("time")
		}
		data, err := lines.Data(r.Context(), q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":%s}`, data)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestQueryServer(t *testing.T) {
	t.Setenv("LOKI_ADDR", "")
	var asked []string
	loki := lokiOf(t, &asked)
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) {
		s.Tasks = []api.Task{{Name: "policy_question", Fallback: "any"}}
		s.Sources.Loki = api.Source{URL: loki.URL, Selector: `{service_name="failback", instance=~".+"}`}
	})
	for _, c := range []struct {
		args []string
		code int
		out  []string
		errs []string
	}{
		{[]string{"affected", "--since", "2h", "--end", "1796003700", "--limit", "2"}, 0, []string{"req-0259 policy_question degraded_completed server_error"}, []string{"first 2 only, the newest: there are more in 2h"}},
		{[]string{"by-reason", "--since", "2h", "--end", "1796003700"}, 0, []string{"rate_limited           31"}, nil},
		{[]string{"by-reason", "--since", "2h", "--end", "1796003700", "--json"}, 0, []string{`{"resultType":"vector","result":[`, `"31"`}, nil},
		{[]string{"affected", "--since", "2h", "--end", "1796003700", "--limit", "2", "--json"}, 0, []string{`"resultType":"streams"`, `"values":[[`}, nil},
		{[]string{"late-results"}, 0, nil, []string{"none in 24h"}},
		{[]string{"--logql", `{service_name="failback"} |= "req-0120"`, "--start", "1795996499", "--end", "1796003700000000000"}, 0, []string{"req-0120 policy_question"}, nil},
		{[]string{"--logql", `{service_name="failback"} | x=`}, 1, nil, []string{"parse error at line 1, col", "^"}},
	} {
		out, errs, code := runLine(append([]string{"query", "--connect", g.Target()}, c.args...)...)
		bad := code != c.code
		for _, want := range c.out {
			bad = bad || !strings.Contains(out, want)
		}
		for _, want := range c.errs {
			bad = bad || !strings.Contains(errs, want)
		}
		if bad {
			t.Errorf("query %q: exit %d\n%s%s", c.args, code, out, errs)
		}
	}
	runLine("query", "--connect", g.Target(), "not-allowed")
	if got := strings.Join(asked, "\n"); !strings.Contains(got, `{service_name="failback", instance=~".+"}`) || !strings.Contains(got, `task_type!~"policy_question"`) {
		t.Errorf("the gateway's selector or tasks are not in what was asked:\n%s", got)
	}
	loki.Close()
	if _, errs, code := runLine("query", "--connect", g.Target(), "affected"); code != 1 || !strings.Contains(errs, "Loki at http://127.0.0.1:") || !strings.Contains(errs, "connection refused") {
		t.Errorf("exit %d: %s", code, errs)
	}
	g.Stop()
	if _, errs, code := runLine("query", "--connect", g.Target(), "affected"); code != 1 || errs == "" {
		t.Errorf("exit %d: %s", code, errs)
	}
}
