package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"failback/sources/embedded/gate"
)

// at is a fixed time, so that answers can be written down.
var at = time.Date(2026, 3, 1, 4, 0, 0, 250e6, time.UTC)

// filled returns a store with a few series at at and the minute before.
func filled(t testing.TB, l limits) *Store {
	t.Helper()
	s, _ := openedWith(t, t.TempDir(), l)
	for i := range 5 {
		appendAt(t, s, at.Add(time.Duration(i-4)*step), fmt.Sprintf(`# HELP requests_total Requests, "quoted" \\ and so on.
# TYPE requests_total counter
requests_total{provider="a"} %d
requests_total{provider="b \"ü\" <&>"} %d
# TYPE share gauge
share NaN
# TYPE latency_seconds histogram
latency_seconds_bucket{le="1"} %d
latency_seconds_bucket{le="2.5"} %d
latency_seconds_bucket{le="+Inf"} %d
latency_seconds_sum 12.5
latency_seconds_count %d`, 10+i, 20+i, i, 2*i, 3*i, 3*i))
	}
	return s
}

// The bytes are Prometheus's own.
func TestAnswersOfQueries(t *testing.T) {
	s := filled(t, defaultLimits)
	now := unix(at)
	for _, tc := range []struct {
		name, path string
		params     []string
		data       string
	}{
		{"vector", "query", []string{"query", `requests_total{provider="a"}`, "time", now},
			`{"resultType":"vector","result":[{"metric":{"__name__":"requests_total","instance":"one","job":"failback","provider":"a"},"value":[1772337600.250,"14"]}]}`},
		{"vector of nothing", "query", []string{"query", "absent_total", "time", now}, `{"resultType":"vector","result":[]}`},
		{"vector without labels", "query", []string{"query", "vector(1e30)", "time", "1772337600"},
			`{"resultType":"vector","result":[{"metric":{},"value":[1772337600,"1e+30"]}]}`},
		{"strange labels", "query", []string{"query", `sum by (provider) (requests_total{provider=~"b.*"})`, "time", now},
			`{"resultType":"vector","result":[{"metric":{"provider":"b \"ü\" \u003c\u0026\u003e"},"value":[1772337600.250,"24"]}]}`},
		{"scalar", "query", []string{"query", "-1/0", "time", "2026-03-01T04:00:00Z"}, `{"resultType":"scalar","result":[1772337600,"-Inf"]}`},
		{"not a number", "query", []string{"query", "0/0", "time", "0"}, `{"resultType":"scalar","result":[0,"NaN"]}`},
		{"before 1970", "query", []string{"query", "1/0", "time", "-1.5"}, `{"resultType":"scalar","result":[-1.500,"+Inf"]}`},
		{"stored NaN", "query", []string{"query", "share * 2", "time", now},
			`{"resultType":"vector","result":[{"metric":{"instance":"one","job":"failback"},"value":[1772337600.250,"NaN"]}]}`},
		{"string", "query", []string{"query", `"a \"b\""`, "time", "1"}, `{"resultType":"string","result":[1,"a \"b\""]}`},
		{"range vector", "query", []string{"query", `requests_total{provider="a"}[31s]`, "time", now},
			`{"resultType":"matrix","result":[{"metric":{"__name__":"requests_total","instance":"one","job":"failback","provider":"a"},"values":[[1772337570.250,"12"],[1772337585.250,"13"],[1772337600.250,"14"]]}]}`},
		{"matrix", "query_range", []string{"query", `sum(requests_total)`, "start", unix(at.Add(-30 * time.Second)), "end", now, "step", "15s"},
			`{"resultType":"matrix","result":[{"metric":{},"values":[[1772337570.250,"34"],[1772337585.250,"36"],[1772337600.250,"38"]]}]}`},
		{"matrix of a scalar", "query_range", []string{"query", `1e-7`, "start", "1", "end", "2", "step", "0.5"},
			`{"resultType":"matrix","result":[{"metric":{},"values":[[1,"1e-07"],[1.500,"1e-07"],[2,"1e-07"]]}]}`},
		{"matrix of nothing", "query_range", []string{"query", `absent_total`, "start", "1", "end", "2", "step", "1"}, `{"resultType":"matrix","result":[]}`},
		{"buckets", "query", []string{"query", `sum by (le) (latency_seconds_bucket{le!="+Inf"})`, "time", now},
			`{"resultType":"vector","result":[{"metric":{"le":"1.0"},"value":[1772337600.250,"4"]},{"metric":{"le":"2.5"},"value":[1772337600.250,"8"]}]}`},
		{"series", "series", []string{"match[]", `{__name__="share"}`, "match[]", `up`},
			`[{"__name__":"share","instance":"one","job":"failback"},{"__name__":"up","instance":"one","job":"failback"}]`},
		{"no series", "series", []string{"match[]", "absent_total"}, `[]`},
		{"series of another time", "series", []string{"match[]", "up", "end", "1000"}, `[]`},
		{"labels", "labels", nil, `["__name__","instance","job","le","provider"]`},
		{"labels of some", "labels", []string{"match[]", "up", "match[]", "requests_total"}, `["__name__","instance","job","provider"]`},
		{"values", "label/provider/values", nil, `["a","b \"ü\" \u003c\u0026\u003e"]`},
		{"values of some", "label/__name__/values", []string{"match[]", `{provider="a"}`, "match[]", "up"}, `["requests_total","up"]`},
		{"values of an unknown label", "label/nothing/values", nil, `[]`},
		{"metadata", "metadata", []string{"metric", "requests_total"}, `{"requests_total":[{"type":"counter","unit":"","help":"Requests, \"quoted\" \\ and so on."}]}`},
		{"no metadata", "metadata", []string{"metric", "absent"}, `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := get(t, s, tc.path, tc.params...)
			want := `{"status":"success","data":` + tc.data + `}`
			if a.code != http.StatusOK || a.body != want {
				t.Errorf("got  %d %s\nwant 200 %s", a.code, a.body, want)
			}
			if strings.Contains(tc.path, "/") || tc.path == "metadata" {
				return
			}
			if b := post(t, s, tc.path, tc.params...); b.body != a.body || b.code != a.code {
				t.Errorf("POST answers %d %s", b.code, b.body)
			}
		})
	}
}

func TestWarningsAndInfos(t *testing.T) {
	s := filled(t, defaultLimits)
	a := get(t, s, "query", "query", `histogram_quantile(2, rate(latency_seconds_bucket[1m]))`, "time", unix(at))
	if a.code != http.StatusOK || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "quantile value should be between 0 and 1") {
		t.Errorf("a quantile of 2: %d %s", a.code, a.body)
	}
	a = get(t, s, "query", "query", `rate(share[1m])`, "time", unix(at))
	if a.code != http.StatusOK || len(a.Infos) != 1 || !strings.Contains(a.Infos[0], "might not be a counter") {
		t.Errorf("the rate of a gauge: %d %s", a.code, a.body)
	}
	for path, params := range map[string][]string{
		"query":                 {"query", "requests_total", "time", unix(at)},
		"query_range":           {"query", "requests_total", "start", unix(at), "end", unix(at), "step", "1"},
		"series":                {"match[]", "requests_total"},
		"labels":                nil,
		"label/__name__/values": nil,
	} {
		a := get(t, s, path, append(params, "limit", "1")...)
		if a.code != http.StatusOK || len(a.Warnings) != 1 || a.Warnings[0] != "results truncated due to limit" {
			t.Errorf("%s with a limit: %d %s", path, a.code, a.body)
		}
	}
	if a := get(t, s, "query", "query", "up", "time", unix(at), "stats", "all"); !strings.Contains(string(a.Data), `"totalQueryableSamples":1`) {
		t.Errorf("stats: %s", a.body)
	}
}

func TestRefusals(t *testing.T) {
	few := defaultLimits
	few.samples = 10
	s := filled(t, few)
	long := strings.Repeat(" ", few.query) + "up"
	for _, tc := range []struct {
		name, path string
		params     []string
		code       int
		kind       string
		text       string // within the error
	}{
		{"no query", "query", nil, 400, "bad_data", `invalid parameter "query": unknown position: parse error: no expression found in input`},
		{"not PromQL", "query", []string{"query", "up{"}, 400, "bad_data", `invalid parameter "query": 1:4: parse error`},
		{"types", "query", []string{"query", `sum("a")`}, 400, "bad_data", "expected type instant vector"},
		{"time", "query", []string{"query", "up", "time", "noon"}, 400, "bad_data", `invalid parameter "time": invalid time value for 'time': cannot parse "noon" to a valid timestamp`},
		{"no time", "query", []string{"query", "up", "time", "NaN"}, 400, "bad_data", `cannot parse "NaN"`},
		{"time beyond", "query", []string{"query", "up", "time", "1e300"}, 400, "bad_data", `cannot parse "1e300"`},
		{"timeout", "query", []string{"query", "up", "timeout", "soon"}, 400, "bad_data", `invalid parameter "timeout": cannot parse "soon"`},
		{"timeout of nothing", "query", []string{"query", "up", "timeout", "0"}, 400, "bad_data", "timeout must be positive"},
		{"limit", "query", []string{"query", "up", "limit", "-1"}, 400, "bad_data", `invalid parameter "limit": limit must be non-negative`},
		{"look back", "query", []string{"query", "up", "lookback_delta", "x"}, 400, "bad_data", "error parsing lookback delta duration"},
		{"too long", "query", []string{"query", long}, 400, "bad_data", "bytes are too long"},
		{"no start", "query_range", []string{"query", "up"}, 400, "bad_data", `invalid parameter "start": cannot parse ""`},
		{"no end", "query_range", []string{"query", "up", "start", "1"}, 400, "bad_data", `invalid parameter "end"`},
		{"no step", "query_range", []string{"query", "up", "start", "1", "end", "2"}, 400, "bad_data", `invalid parameter "step": cannot parse ""`},
		{"ends before it starts", "query_range", []string{"query", "up", "start", "2", "end", "1", "step", "1"}, 400, "bad_data", "end timestamp must not be before start time"},
		{"step of 0", "query_range", []string{"query", "up", "start", "1", "end", "2", "step", "0"}, 400, "bad_data", "zero or negative query resolution"},
		{"endless step", "query_range", []string{"query", "up", "start", "1", "end", "2", "step", "NaN"}, 400, "bad_data", "overflows int64"},
		{"too many points", "query_range", []string{"query", "up", "start", "0", "end", "11001", "step", "1"}, 400, "bad_data", "exceeded maximum resolution of 11,000 points"},
		{"range of a string", "query_range", []string{"query", `"a"`, "start", "1", "end", "2", "step", "1"}, 400, "bad_data", `invalid expression type "string"`},
		{"too many samples", "query_range", []string{"query", "1", "start", "0", "end", "100", "step", "1"}, 422, "execution", "query processing would load too many samples into memory"},
		{"one to many", "query", []string{"query", `requests_total * on(job) requests_total`, "time", unix(at)}, 422, "execution", "many-to-many"},
		{"out of time", "query", []string{"query", "up", "timeout", "0.000000001"}, 503, "timeout", "query timed out"},
		{"no match", "series", nil, 400, "bad_data", "no match[] parameter provided"},
		{"match all", "series", []string{"match[]", `{a=~".*"}`}, 400, "bad_data", "match[]"},
		{"not a selector", "series", []string{"match[]", "1+1"}, 400, "bad_data", `invalid parameter "match[]"`},
		{"long match", "labels", []string{"match[]", long}, 400, "bad_data", "bytes are too long"},
		{"label name", "label/%FF/values", nil, 400, "bad_data", "invalid label name"},
		{"metadata limit", "metadata", []string{"limit", "x"}, 400, "bad_data", "limit must be a number"},
		{"no query to format", "format_query", []string{"query", "up{"}, 400, "bad_data", `invalid parameter "query"`},
		{"no exemplars of that", "query_exemplars", []string{"query", "up{"}, 400, "bad_data", `invalid parameter "query"`},
		{"exemplars backwards", "query_exemplars", []string{"query", "up", "start", "2", "end", "1"}, 400, "bad_data", "must not be before start timestamp"},
		{"rules of a kind", "rules", []string{"type", "X"}, 400, "bad_data", `invalid parameter "type": not supported value "x"`},
		{"rules without alerts", "rules", []string{"type", "Alert", "exclude_alerts", "x"}, 400, "bad_data", `invalid parameter "exclude_alerts": error converting exclude_alerts: `},
		{"rules that match", "rules", []string{"match[]", "1+1"}, 400, "bad_data", `invalid parameter "match[]"`},
		{"many rules", "rules", []string{"group_limit", "x"}, 400, "bad_data", "group_limit needs to be a valid number"},
		{"no rules", "rules", []string{"group_limit", "0"}, 400, "bad_data", "group_limit needs to be greater than 0"},
		{"more rules", "rules", []string{"group_next_token", "x"}, 400, "bad_data", "group_limit needs to be present"},
		{"elsewhere", "targets", nil, 404, "not_found", "no such endpoint"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := get(t, s, tc.path, tc.params...)
			if a.code != tc.code || a.Status != "error" || a.ErrorType != tc.kind || !strings.Contains(a.Error, tc.text) {
				t.Errorf("got %d %s, want %d %s with %q", a.code, a.body, tc.code, tc.kind, tc.text)
			}
			if a.Data != nil {
				t.Errorf("an error with data: %s", a.body)
			}
		})
	}

	if a := post(t, s, "query", "query", strings.Repeat("1", int(few.body)+1)); a.code != http.StatusRequestEntityTooLarge || a.ErrorType != "bad_data" {
		t.Errorf("a body too large: %d %s", a.code, a.body)
	}
	if a := send(t, s, httptest.NewRequest("PUT", base+"query", nil)); a.code != http.StatusMethodNotAllowed || a.header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("PUT: %d", a.code)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(gone, "GET", base+"query?query=up", nil)
	if a := send(t, s, r); a.code != 499 || a.ErrorType != "canceled" {
		t.Errorf("a client that left: %d %s", a.code, a.body)
	}
}

// Nested as deeply as the length allows, a query is answered or refused, and
// the process lives.
func TestDeepQueries(t *testing.T) {
	s := filled(t, defaultLimits)
	n := defaultLimits.query/2 - 2
	for name, q := range map[string]string{
		"parentheses": strings.Repeat("(", n) + "1" + strings.Repeat(")", n),
		"signs":       strings.Repeat("-", 2*n) + "1",
		"operators":   strings.Repeat("1+", n) + "1",
		"subqueries":  "up" + strings.Repeat("[1m:]", n/3),
	} {
		a := post(t, s, "query", "query", q)
		if a.code != http.StatusOK && a.code != http.StatusBadRequest && a.code != http.StatusUnprocessableEntity && a.code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %.300s", name, a.code, a.body)
		}
	}
}

func TestOnlySoManyAtOnce(t *testing.T) {
	l := defaultLimits
	l.running, l.quick, l.waiting = 1, 1, 1
	s := filled(t, l)
	t.Run("quick", func(t *testing.T) { onlySoManyAtOnce(t, s, s.quick, "1", "max_over_time(vector(1)[1m:])") })
	t.Run("others", func(t *testing.T) { onlySoManyAtOnce(t, s, s.gate, "max_over_time(vector(1)[1m:])", "1") })
}

// onlySoManyAtOnce asks query, which goes through g, and other, which does not.
func onlySoManyAtOnce(t *testing.T, s *Store, g *gate.Gate, query, other string) {
	leave, err := g.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	if a := get(t, s, "query", "query", query, "timeout", "1ms"); a.code != http.StatusServiceUnavailable || a.ErrorType != "timeout" || !strings.Contains(a.Error, "query queue") {
		t.Errorf("who waited in vain: %d %s", a.code, a.body)
	}

	waiting := make(chan reply, 1)
	go func() { waiting <- get(t, s, "query", "query", query) }()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	full := func() bool {
		_, err := g.Enter(gone)
		return errors.Is(err, gate.ErrBusy)
	}
	for !full() {
		select {
		case a := <-waiting:
			t.Fatalf("it did not wait: %d %s", a.code, a.body)
		case <-time.After(time.Millisecond):
		}
	}
	a := get(t, s, "query", "query", query)
	if a.code != http.StatusServiceUnavailable || a.ErrorType != "unavailable" || a.header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d %s", a.code, a.body)
	}
	if a := get(t, s, "query", "query", other); a.code != http.StatusOK {
		t.Errorf("who has other places: %d %s", a.code, a.body)
	}
	leave()
	if a := <-waiting; a.code != http.StatusOK {
		t.Errorf("who waited: %d %s", a.code, a.body)
	}
	if leave, err = g.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	if full() {
		t.Error("one still waits after all have their answers")
	}
	leave()
}

func TestClosedStoreIsUnavailable(t *testing.T) {
	s := filled(t, defaultLimits)
	closeStore(t, s)
	closeStore(t, s)
	for _, path := range []string{"query?query=1", "labels", "metadata"} {
		a := send(t, s, httptest.NewRequest("GET", base+path, nil))
		if a.code != http.StatusServiceUnavailable || a.ErrorType != "unavailable" {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
	if err := s.Append(at.Add(time.Hour), nil); err != errClosed {
		t.Errorf("Append: %v", err)
	}
}
