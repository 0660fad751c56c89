package logs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"failback/sources/embedded/gate"
	"failback/sources/logql"
)

// ask asks a handler and returns its status, type and text.
func ask(t testing.TB, h http.Handler, method, path string, params url.Values) (int, string, string) {
	t.Helper()
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(params.Encode())
	} else if len(params) > 0 {
		path += "?" + params.Encode()
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, body)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Content-Type"), w.Body.String()
}

// get asks for JSON under /loki/api/v1/ and returns what is in data.
func get(t testing.TB, h http.Handler, path string, params url.Values) string {
	t.Helper()
	status, kind, text := ask(t, h, http.MethodGet, "/loki/api/v1/"+path, params)
	var a struct {
		Status string
		Data   json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 || a.Status != "success" || !strings.HasPrefix(kind, "application/json") {
		t.Fatalf("%s %v: %d %s %s", path, params, status, kind, text)
	}
	return string(a.Data)
}

// recorded makes a store of the lines that a real Loki was asked about.
func recorded(t testing.TB) *Store {
	t.Helper()
	f, err := os.Open("../../logql/testdata/lines.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	var b []byte
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var l struct {
			TS     string
			Labels map[string]string
			Line   string
		}
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		ts, err := strconv.ParseInt(l.TS, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		b = append(append(appendTime(appendStream(b, l.Labels), ts, len(l.Line)), l.Line...), '\n')
	}
	if err := os.WriteFile(filepath.Join(dir, "00000001.log"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, Options{Dir: dir})
}

// TestRecordedAnswers asks what a real Loki was asked, and wants its answers.
func TestRecordedAnswers(t *testing.T) {
	h := recorded(t).Handler()
	f, err := os.Open("../../logql/testdata/queries.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for d := json.NewDecoder(f); ; n++ {
		var q struct {
			ID, Path string
			Params   map[string]string
			Status   int
			Answer   json.RawMessage
		}
		if err := d.Decode(&q); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		params := url.Values{}
		for k, v := range q.Params {
			params.Set(k, v)
		}
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			status, kind, text := ask(t, h, method, q.Path, params)
			if status != q.Status {
				t.Errorf("%s: status %d, want %d: %s", q.ID, status, q.Status, text)
				continue
			}
			if status != 200 {
				var want string
				if err := json.Unmarshal(q.Answer, &want); err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(kind, "text/plain") || strings.TrimSpace(text) != strings.TrimSpace(want) {
					t.Errorf("%s: %s %s, want %s", q.ID, kind, text, want)
				}
				continue
			}
			var got struct {
				Status string
				Data   map[string]any
			}
			var want map[string]any
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Errorf("%s: %v", q.ID, err)
				continue
			}
			if err := json.Unmarshal(q.Answer, &want); err != nil {
				t.Fatal(err)
			}
			delete(got.Data, "stats")
			if d := cmp.Diff(want, got.Data); d != "" || got.Status != "success" {
				t.Errorf("%s: %s", q.ID, d)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d queries were recorded", n)
	}
}

func TestLabelsAndSeries(t *testing.T) {
	h := recorded(t).Handler()
	all := url.Values{"start": {"1795996499"}, "end": {"1796003700"}}
	with := func(k string, v ...string) url.Values {
		p := url.Values{k: v}
		for k, v := range all {
			p[k] = v
		}
		return p
	}
	for _, tc := range []struct {
		path   string
		params url.Values
		want   string
	}{
		{"labels", all, `["instance","service_name"]`},
		{"label", all, `["instance","service_name"]`},
		{"labels", nil, `[]`}, // of the last six hours
		{"labels", with("query", `{instance="nope"}`), `[]`},
		{"label/instance/values", all, `["gw-1","gw-2"]`},
		{"label/instance/values", with("query", `{instance!="gw-1", service_name="failback"}`), `["gw-2"]`},
		{"label/nope/values", all, `[]`},
		{"series", all, `[{"instance":"gw-1","service_name":"failback"},{"instance":"gw-2","service_name":"failback"},{"service_name":"other"}]`},
		{"series", with("match[]", `{instance="gw-2"}`, `{service_name="failback",instance=~".*2"}`), `[{"instance":"gw-2","service_name":"failback"}]`},
		{"series", with("match", `{instance="nope"}`), `[]`},
	} {
		if got := get(t, h, tc.path, tc.params); got != tc.want {
			t.Errorf("%s %v: %s, want %s", tc.path, tc.params, got, tc.want)
		}
	}
	for _, match := range []string{`{`, `{}`, `count_over_time({a="b"}[1m])`} {
		if status, kind, text := ask(t, h, http.MethodGet, "/loki/api/v1/series", with("match[]", match)); status != 400 || !strings.HasPrefix(kind, "text/plain") {
			t.Errorf("%s: %d %s %s", match, status, kind, text)
		}
	}
}

func TestDefaultsOfARequest(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir()})
	now := time.Now().UnixNano()
	in := []string{at(now-2*int64(time.Hour), `"n":-1`)}
	for i := range 150 {
		in = append(in, at(now-int64(150-i)*int64(time.Second), `"n":`+strconv.Itoa(i)))
	}
	store(t, s, in...)
	h := s.Handler()
	type streams struct {
		ResultType string
		Result     []struct{ Values [][2]string }
	}
	rows := func(p url.Values) [][2]string {
		t.Helper()
		p.Set("query", `{service_name="failback"}`)
		var a streams
		if err := json.Unmarshal([]byte(get(t, h, "query_range", p)), &a); err != nil || a.ResultType != "streams" || len(a.Result) != 1 {
			t.Fatalf("%v: %+v, %v", p, a, err)
		}
		return a.Result[0].Values
	}
	if got := rows(url.Values{}); len(got) != 100 || got[0][1] != in[150] || got[99][1] != in[51] {
		t.Errorf("%d lines, from %s to %s", len(got), got[0], got[len(got)-1])
	}
	if got := rows(url.Values{"limit": {"5000"}}); len(got) != 150 || got[149][1] != in[1] {
		t.Errorf("%d lines of the last hour", len(got))
	}
	if got := rows(url.Values{"limit": {"1"}, "direction": {"FORWARD"}, "since": {"3h"}}); len(got) != 1 || got[0][1] != in[0] {
		t.Errorf("the first is %v", got)
	}
}

func TestWhatIsRefused(t *testing.T) {
	h := recorded(t).Handler()
	const selector = `{service_name="failback"}`
	const number = `count_over_time({service_name="failback"}[1m])`
	const filtered = selector + ` |= "nothing"`
	const onlyMatchers = `only label matchers are supported: "{service_name=\"failback\"} |= \"nothing\"" is no stream selector alone`
	for _, tc := range []struct {
		path   string
		params url.Values
		status int
		text   string
	}{
		{"query_range", url.Values{}, 400, "parse error"},
		{"query_range", url.Values{"query": {selector}, "limit": {"5001"}}, 400, "max entries limit per query exceeded, limit > max_entries_limit_per_query (5001 > 5000)"},
		{"query_range", url.Values{"query": {selector}, "limit": {"0"}}, 400, "limit must be a positive value"},
		{"query_range", url.Values{"query": {selector}, "limit": {"x"}}, 400, "invalid syntax"},
		{"query_range", url.Values{"query": {selector}, "direction": {"sideways"}}, 400, "invalid direction 'sideways'"},
		{"query_range", url.Values{"query": {selector}, "start": {"20"}, "end": {"10"}}, 400, "end timestamp must not be before or equal to start time"},
		{"query_range", url.Values{"query": {selector}, "start": {"20"}, "end": {"20"}}, 400, "end timestamp must not be before or equal to start time"},
		{"query_range", url.Values{"query": {selector}, "start": {"yesterday"}}, 400, "could not parse 'start' parameter"},
		{"query_range", url.Values{"query": {number}, "step": {"0"}}, 400, "zero or negative query resolution"},
		{"query_range", url.Values{"query": {number}, "step": {"1ms"}}, 400, "exceeded maximum resolution"},
		{"query", url.Values{"query": {number}, "time": {"x"}}, 400, "could not parse 'time' parameter"},
		{"query", url.Values{"query": {selector}}, 400, "log queries are not supported as an instant query type"},
		{"query_range", url.Values{"query": {selector + ` | pattern "<a>"`}}, 400, "pattern"},
		{"labels", url.Values{"since": {"x"}}, 400, "could not parse 'since' parameter"},
		{"push", nil, 404, ""},
		{"nope", nil, 404, "404 page not found"},
		{"query_range", url.Values{"query": {selector}, "interval": {"5s"}}, 400, "the parameter interval is not supported here"},
		{"query_range", url.Values{"query": {selector}, "shards": {"0_of_2"}}, 400, "the parameter shards is not supported here"},
		{"query", url.Values{"query": {number}, "shards": {"", "0_of_2"}}, 400, "the parameter shards is not supported here"},
		{"series", url.Values{"match[]": {selector}, "shards": {"0_of_2"}}, 400, "the parameter shards is not supported here"},
		{"index/stats", url.Values{"query": {number}}, 400, "only label matchers are supported: "},
		{"index/stats", url.Values{"query": {filtered}}, 400, onlyMatchers},
		{"index/volume", url.Values{"query": {filtered}}, 400, onlyMatchers},
		{"index/volume", url.Values{"query": {filtered}, "targetLabels": {"instance"}}, 400, onlyMatchers},
		{"series", url.Values{"match[]": {selector, filtered}}, 400, onlyMatchers},
		{"labels", url.Values{"query": {filtered}}, 400, onlyMatchers},
		{"label/instance/values", url.Values{"query": {selector + " | json"}}, 400, "only label matchers are supported: "},
		{"index/volume", url.Values{"query": {selector}, "aggregateBy": {"labels"}}, 400, "aggregateBy=labels is not supported here"},
		{"format_query", url.Values{"query": {"{"}}, 400, "parse error at line 1, col 2: syntax error: unexpected $end, expecting IDENTIFIER or }"},
	} {
		status, kind, text := ask(t, h, http.MethodGet, "/loki/api/v1/"+tc.path, tc.params)
		if status != tc.status || !strings.HasPrefix(kind, "text/plain") || !strings.Contains(text, tc.text) {
			t.Errorf("%s %v: %d %s %s, want %d %s", tc.path, tc.params, status, kind, text, tc.status, tc.text)
		}
	}
	if status, _, _ := ask(t, h, http.MethodDelete, "/loki/api/v1/query", nil); status != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %d", status)
	}
	if status, _, text := ask(t, h, http.MethodPost, "/loki/api/v1/query", url.Values{"query": {strings.Repeat("x", maxForm)}}); status != 400 {
		t.Errorf("a form that is too large: %d %s", status, text)
	}
}

func TestReadyAndBuildinfo(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir()})
	h := s.Handler()
	if status, _, text := ask(t, h, http.MethodGet, "/ready", nil); status != 200 || text != "ready\n" {
		t.Errorf("%d %s", status, text)
	}
	status, _, text := ask(t, h, http.MethodGet, "/loki/api/v1/status/buildinfo", nil)
	var b map[string]string
	if err := json.Unmarshal([]byte(text), &b); err != nil || status != 200 || b["goVersion"] == "" || b["version"] == "" {
		t.Errorf("%d %s", status, text)
	}
	shut(t, s)
	for _, path := range []string{"/ready", "/loki/api/v1/labels"} {
		if status, _, text := ask(t, h, http.MethodGet, path, nil); status != 503 || !strings.Contains(text, "closed") {
			t.Errorf("%s of a closed store: %d %s", path, status, text)
		}
	}
}

// Only so many are answered at once, so many more wait, and the rest is told.
func TestACrowdIsBounded(t *testing.T) {
	a := newAPI(open(t, Options{Dir: t.TempDir()}))
	h := a.routes()
	var leave []func()
	for range queries {
		l, err := a.gate.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, waiting)
	for range waiting {
		go func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/loki/api/v1/labels", nil)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			ended <- w.Code
		}()
	}
	gone, cancelGone := context.WithCancel(t.Context())
	cancelGone()
	full := func() bool {
		_, err := a.gate.Enter(gone)
		return errors.Is(err, gate.ErrBusy)
	}
	await(t, "all to wait", full)
	if status, _, text := ask(t, h, http.MethodGet, "/loki/api/v1/labels", nil); status != 429 || text != "too many outstanding requests\n" {
		t.Errorf("%d %s", status, text)
	}
	cancel()
	for range waiting {
		if status := <-ended; status != statusClosedRequest {
			t.Errorf("who left got %d", status)
		}
	}
	for _, l := range leave {
		l()
	}
	if status, _, text := ask(t, h, http.MethodGet, "/loki/api/v1/labels", nil); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if full() {
		t.Error("it is full although all have left")
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	if _, err := encode(strings.Repeat("x", maxAnswer)); err == nil || !strings.Contains(err.Error(), "ask for less time") {
		t.Error(err)
	}
	if b, err := encode([]string{"a"}); err != nil || string(b) != `["a"]` {
		t.Errorf("%s, %v", b, err)
	}
}

// Whoever serves the API bounds the time of an answer's reader from when the
// question came. A slow query, or one that waits its turn, takes longer than
// that, and is answered all the same.
func TestASlowAnswerIsWritten(t *testing.T) {
	s := recorded(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(-time.Second)) // it has run out by the time of the answer
		s.Handler().ServeHTTP(w, r)
	}))
	defer server.Close()
	for query, want := range map[string]int{`{service_name="failback"}`: http.StatusOK, `{`: http.StatusBadRequest} {
		res, err := http.Get(server.URL + "/loki/api/v1/query_range?query=" + url.QueryEscape(query))
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != want || len(body) == 0 {
			t.Errorf("%s: %d %q, %v, want %d", query, res.StatusCode, body, err, want)
		}
	}
}

func TestStatusOfAnError(t *testing.T) {
	_, parse := logql.Parse("{")
	for _, tc := range []struct {
		err    error
		status int
		text   string
	}{
		{parse, 400, "parse error"},
		{fmt.Errorf("reading: %w", context.DeadlineExceeded), 504, "request timed out, decrease the duration"},
		{context.Canceled, 499, "cancelled by the client"},
		{&logql.QueryError{Status: 422, Message: "so"}, 422, "so"},
		{errClosed, 503, "closed"},
		{gate.ErrBusy, 429, "too many outstanding requests"},
		{io.ErrUnexpectedEOF, 500, "unexpected EOF"},
	} {
		w := httptest.NewRecorder()
		fail(w, tc.err)
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.text) || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%v: %d %s", tc.err, w.Code, w.Body)
		}
	}
}
