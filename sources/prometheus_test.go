package sources

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"failback/gateway/operator/api"
	"failback/sources/promql"
)

// fakeProm answers by the beginning of a query; all else is an empty vector.
type fakeProm struct {
	at      time.Time
	results map[string]string // query's part → "data" of the answer, or a whole answer if it begins with !
	last    map[string]string // the parameters of the newest range query

	mu    sync.Mutex
	asked []string // guarded by mu
}

func (f *fakeProm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	q := r.Form.Get("query")
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+r.URL.Path+" "+q)
	if r.Form.Get("step") != "" {
		f.last = map[string]string{"start": r.Form.Get("start"), "end": r.Form.Get("end"), "step": r.Form.Get("step")}
	}
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", f.at.UTC().Format(http.TimeFormat))
	data := `{"resultType":"vector","result":[]}`
	if r.Form.Get("step") != "" {
		data = `{"resultType":"matrix","result":[]}`
	}
	if q == "time()" {
		data = fmt.Sprintf(`{"resultType":"scalar","result":[%d,"%d"]}`, f.at.Unix(), f.at.Unix())
	}
	best := ""
	for part, d := range f.results {
		if strings.HasPrefix(q, part) && len(part) > len(best) {
			best, data = part, d
		}
	}
	if whole, ok := strings.CutPrefix(data, "!"); ok {
		_, _ = io.WriteString(w, whole)
		return
	}
	_, _ = io.WriteString(w, `{"status":"success","data":`+data+`}`)
}

// vector writes the data of a vector of name=value pairs by one label.
func vector(label string, pairs ...any) string {
	type sample struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"`
	}
	v := []sample{}
	for i := 0; i < len(pairs); i += 2 {
		metric := map[string]string{}
		if label != "" && pairs[i] != "" {
			metric[label] = pairs[i].(string)
		}
		v = append(v, sample{metric, [2]any{1796003700, fmt.Sprint(pairs[i+1])}})
	}
	b, err := json.Marshal(map[string]any{"resultType": "vector", "result": v})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func healthyProm() *fakeProm {
	at := time.Date(2026, 11, 30, 4, 15, 0, 0, time.UTC)
	return &fakeProm{at: at, results: map[string]string{
		`( sum(rate(ai_fallback`:                                vector("", "", 0.25),
		`sum(rate(ai_model_requests_total`:                      vector("", "", 8),
		`sum(rate(ai_fallback_triggered_total`:                  vector("", "", 2),
		`count(ai_model_requests_total`:                         vector("", "", 40),
		`count(ai_fallback_triggered_total`:                     vector("", "", 90),
		`max(timestamp(ai_model_requests_total`:                 vector("", "", at.Unix()-4),
		`sum by (model) (rate(ai_model_requests_total`:          vector("model", "sonnet", 6, "haiku", 2),
		`sum by (model) (rate(ai_fallback_triggered_total`:      vector("model", "sonnet", 2),
		`sum by (provider) (rate(failback_upstream_own`:         vector("provider", "east", 8, "west", 0),
		`sum by (primary) (rate(ai_fallback_triggered_total`:    vector("primary", "east", 2),
		`sum by (verdict) (rate(failback_slo`:                   vector("verdict", "good", 99, "bad", 1),
		`sum(rate(ai_model_first_output_seconds_count`:          vector("", "", 3),
		`histogram_quantile(0.95, sum by (le) (rate(ai_model_f`: vector("", "", 1.1),
		`sum by (le) (rate(ai_model_first_output_seconds_bucke`: vector("le", "1", 2.8, "2", 2.9, "+Inf", 3),
	}}
}

func TestOverview(t *testing.T) {
	f := healthyProm()
	m, _ := clients(t, serve(t, f.ServeHTTP))
	a := m.Overview(t.Context(), 3)
	if a.Err != nil || a.Gen != 3 {
		t.Fatalf("generation %d: %v", a.Gen, a.Err)
	}
	sampled := f.at.Add(-4 * time.Second)
	is := func(at time.Time, state string, v float64, why string) Reading {
		return Reading{Number: api.Number{State: state, Value: v, At: at}, Why: why}
	}
	value := func(at time.Time, v float64) Reading { return is(at, api.StateValue, v, "") }
	want := &Overview{
		Ratio: value(sampled, 0.25), Traffic: value(sampled, 8), Sampled: sampled,
		PerModel:     []RatioRow{{"haiku", value(sampled, 0)}, {"sonnet", value(sampled, 2.0/6)}},
		PerUpstream:  []RatioRow{{"east", value(sampled, 0.25)}, {"west", is(sampled, api.StateIdle, 0, "no requests in 5m")}},
		FailedBefore: value(f.at, 0.01), FirstOutputP95Before: value(f.at, 1.1),
	}
	if d := cmp.Diff(want, a.Value); d != "" {
		t.Error(d)
	}
	if !a.Clock.At.Equal(f.at) || a.Clock.Received.Before(a.Clock.Sent) {
		t.Errorf("clock %+v", a.Clock)
	}
	if m.Period() != 15*time.Second {
		t.Errorf("period %s", m.Period())
	}
	for _, q := range f.asked {
		own := q == "GET /api/v1/query time()" || strings.Contains(q, `ALERTS{`) && strings.Contains(q, `job=~"failback|"`)
		if !strings.HasPrefix(q, "GET /api/v1/query ") || !own && !strings.Contains(q, `job="failback"`) {
			t.Errorf("asked %s", q)
		}
	}
}

// What fires, what policy forbade and which models are gone is named; what
// stands at 0 is not, and what cannot be asked is said and costs no number.
func TestOverviewNames(t *testing.T) {
	f := healthyProm()
	f.results[promql.New(`job="failback"`, MinWindow).Firing()] = vector("alertname", "FailbackModelGone", 1, "FailbackBreakerOpen", 1)
	f.results[promql.New(`job="failback"`, MinWindow).Violations()] = vector("task_type", "refund", 2, "summary", 0)
	f.results[`max by (provider) (failback_upstream_refuses{job="failback",class="model_gone"})`] = vector("provider", "east", 0, "west", 1)
	m, _ := clients(t, serve(t, f.ServeHTTP))
	a := m.Overview(t.Context(), 1)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	if d := cmp.Diff([][]string{{"FailbackBreakerOpen", "FailbackModelGone"}, {"refund"}, {"west"}}, [][]string{a.Value.Alerts, a.Value.Violations, a.Value.Gone}); d != "" {
		t.Error(d)
	}
	f.results["max by (alertname)"], f.results[promql.New(`job="failback"`, MinWindow).Firing()] = "", `!{"status":"error","errorType":"execution","error":"no"}`
	a = m.Overview(t.Context(), 2)
	if a.Err != nil || len(a.Value.Alerts) != 0 || !slices.ContainsFunc(a.Value.Warnings, func(w string) bool { return strings.Contains(w, "alerts that fire") }) {
		t.Errorf("%v, %+v", a.Err, a.Value)
	}
}

func TestOverviewStates(t *testing.T) {
	const ratio, requests, fallbacks = `( sum(rate(ai_fallback`, `sum(rate(ai_model_requests_total`, `sum(rate(ai_fallback_triggered_total`
	tests := []struct {
		name   string
		change map[string]string // "" takes the answer away
		want   string
		value  float64
		age    time.Duration
	}{
		{name: "value", want: api.StateValue, value: 0.25, age: 4 * time.Second},
		{name: "idle", change: map[string]string{requests: vector("", "", 0), ratio: vector("", "", 0)}, want: api.StateIdle, age: 4 * time.Second},
		{name: "NaN", change: map[string]string{ratio: vector("", "", "NaN")}, want: StateUnknown, age: 4 * time.Second},
		{name: "no fallback series", change: map[string]string{fallbacks: "", `count(ai_fallback_triggered_total`: "", ratio: vector("", "", 0)}, want: api.StateNone, age: 4 * time.Second},
		{name: "one sample", change: map[string]string{requests: "", fallbacks: "", ratio: vector("", "", 0)}, want: StateWaiting, age: 4 * time.Second},
		{
			name: "target down",
			change: map[string]string{
				`max(timestamp(ai_model_requests_total`:       "",
				`count(ai_model_requests_total`:               "",
				`count(ai_fallback_triggered_total`:           "",
				`max(max_over_time(timestamp(ai_model_reques`: vector("", "", time.Date(2026, 11, 30, 4, 13, 0, 0, time.UTC).Unix()),
			},
			want: api.StateValue, value: 0.25, age: 2 * time.Minute,
		},
		{
			name: "nothing at all",
			change: map[string]string{
				ratio: vector("", "", 0), requests: "", fallbacks: "",
				`max(timestamp(ai_model_requests_total`: "", `count(ai_model_requests_total`: "", `count(ai_fallback_triggered_total`: "",
			},
			want: api.StateNone,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := healthyProm()
			for part, data := range tt.change {
				f.results[part] = data
				if data == "" {
					delete(f.results, part)
				}
			}
			m, _ := clients(t, serve(t, f.ServeHTTP))
			a := m.Overview(t.Context(), 1)
			if a.Err != nil {
				t.Fatal(a.Err)
			}
			got := a.Value.Ratio
			if got.State != tt.want || got.Value != tt.value {
				t.Errorf("got %+v, want %s %g", got, tt.want, tt.value)
			}
			if !got.At.IsZero() && a.Clock.At.Sub(got.At) != tt.age || got.At.IsZero() != (tt.age == 0) {
				t.Errorf("sampled at %s, asked at %s, want an age of %s", got.At, a.Clock.At, tt.age)
			}
		})
	}
}

// What fails beside the ratio does not take the ratio along, and is said.
func TestOverviewPartial(t *testing.T) {
	f := healthyProm()
	const failed = `!{"status":"error","errorType":"execution","error":"too many samples"}`
	f.results[`sum by (verdict) (rate(failback_slo`] = failed
	f.results[`histogram_quantile(0.95, sum by (le) (rate(ai_model_f`] = vector("x", "a", 1, "b", 2)
	f.results[`sum by (provider) (rate(failback_upstream_own`] = vector("provider", "east", 8, "", 1)
	f.results[`sum(rate(ai_model_requests_total`] = `!{"status":"success","warnings":["store gw-2 did not answer"],"data":` + vector("", "", 8) + `}`
	m, _ := clients(t, serve(t, f.ServeHTTP))
	a := m.Overview(t.Context(), 1)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	v := a.Value
	if v.Ratio.State != api.StateValue || v.Ratio.Value != 0.25 {
		t.Errorf("ratio %+v", v.Ratio)
	}
	if v.FailedBefore.State != StateUnknown || v.FirstOutputP95Before.State != StateUnknown {
		t.Errorf("an hour ago: %+v, %+v", v.FailedBefore, v.FirstOutputP95Before)
	}
	if len(v.PerUpstream) != 1 || v.PerUpstream[0].Name != "east" {
		t.Errorf("rows %+v", v.PerUpstream)
	}
	want := []string{
		"store gw-2 did not answer",
		"fallback by upstream: 1 without the label provider left out",
		"failed an hour ago: execution: too many samples",
		"first output an hour ago: answers 2 series where one was expected",
	}
	if d := cmp.Diff(want, v.Warnings); d != "" {
		t.Error(d)
	}
	seen := func(m Metrics) []Point {
		return m.(*prom).past.saw(a.Clock.At.Add(-time.Hour), a.Clock.At.Add(time.Hour))
	}
	if got := seen(m); len(got) != 0 {
		t.Errorf("a ratio of a part is kept for the history: %+v", got)
	}
	m, _ = clients(t, serve(t, healthyProm().ServeHTTP))
	if m.Overview(t.Context(), 1); len(seen(m)) != 1 {
		t.Errorf("of a whole one is kept: %+v", seen(m))
	}
}

// What the ratio is made of must be answered as asked.
func TestOverviewRefusesAnotherShape(t *testing.T) {
	for name, data := range map[string]string{
		"two series":         vector("x", "a", 1, "b", 2),
		"a matrix":           `{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2"]]}]}`,
		"a native histogram": `{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"1","sum":"1","buckets":[[0,"1","2","1"]]}]}]}`,
	} {
		for _, part := range []string{`( sum(rate(ai_fallback`, `sum(rate(ai_model_requests_total`, `max(timestamp(ai_model_requests_total`, `count(ai_fallback_triggered_total`} {
			f := healthyProm()
			f.results[part] = data
			m, _ := clients(t, serve(t, f.ServeHTTP))
			a := m.Overview(t.Context(), 1)
			if a.Value != nil || !a.Clock.At.IsZero() {
				t.Errorf("%s for %s was taken: %+v", name, part, a.Value)
				continue
			}
			refused(t, map[string]error{"Prometheus": a.Err}, RemoteShape)
		}
	}
}

// A rate is taken over four samples at least, and everything says over what.
func TestOverviewWindow(t *testing.T) {
	for period, want := range map[time.Duration]time.Duration{
		0: 5 * time.Minute, time.Second: 5 * time.Minute, 75 * time.Second: 5 * time.Minute, 76 * time.Second: 6 * time.Minute,
		2 * time.Minute: 8 * time.Minute, time.Hour: 4 * time.Hour,
	} {
		if got := Window(period); got != want {
			t.Errorf("samples every %s: a window of %s, want %s", period, got, want)
		}
	}
	f := healthyProm()
	f.results[`sum(rate(ai_model_requests_total`] = vector("", "", 0)
	m, _, err := Connect(nil, api.Sources{
		Prometheus: api.Source{URL: serve(t, f.ServeHTTP), Selector: `job="failback"`, EverySeconds: 120},
		Loki:       api.Source{URL: "http://none"},
	}, environment())
	if err != nil {
		t.Fatal(err)
	}
	a := m.Overview(t.Context(), 1)
	if a.Err != nil || len(a.Value.Warnings) != 0 || a.Value.Ratio.Why != "no requests in 8m" || m.Window() != 8*time.Minute {
		t.Errorf("window %s, %+v, %v", m.Window(), a.Value, a.Err)
	}
	for _, q := range f.asked {
		if strings.Contains(q, "rate(") && !strings.Contains(q, "[8m]") {
			t.Errorf("asked %s", q)
		}
	}
}

func TestHistory(t *testing.T) {
	f := healthyProm()
	f.at = f.at.Add(42 * time.Second)
	end := f.at.Truncate(time.Minute)
	matrix := func(v func(i int) float64) string {
		values := [][2]any{}
		for i := 0; i <= 360; i++ {
			if x := v(i); x >= 0 {
				values = append(values, [2]any{end.Add(time.Duration(i-360) * time.Minute).Unix(), fmt.Sprint(x)})
			}
		}
		b, _ := json.Marshal(map[string]any{"resultType": "matrix", "result": []any{map[string]any{"metric": map[string]string{}, "values": values}}})
		return string(b)
	}
	f.results[`sum(rate(ai_model_requests_total`] = matrix(func(i int) float64 {
		if i == 350 {
			return -1 // a scrape that failed
		}
		return 10
	})
	f.results[`sum(rate(ai_fallback_triggered_total`] = matrix(func(i int) float64 {
		if i >= 335 {
			return 4
		}
		return 0.1
	})
	base := serve(t, f.ServeHTTP)
	m, _ := clients(t, base)
	a := m.History(t.Context(), 5, some(0.02))
	if a.Err != nil || a.Gen != 5 {
		t.Fatal(a.Err)
	}
	h := a.Value
	if want := (Over{State: OverSince, Since: end.Add(-25 * time.Minute), Within: time.Minute}); h.Over != want {
		t.Errorf("over %+v, want %+v", h.Over, want)
	}
	if len(h.Spark) != 30 || !h.Spark[29].At.Equal(end) || h.Spark[29].Value != 0.4 || h.Spark[0].Value != 0.01 || h.Spark[19].State != api.StateNone {
		t.Errorf("spark %+v", h.Spark)
	}
	if want := map[string]string{"start": fmt.Sprint(end.Add(-6 * time.Hour).Unix()), "end": fmt.Sprint(end.Unix()), "step": "60"}; cmp.Diff(want, f.last) != "" {
		t.Error(cmp.Diff(want, f.last))
	}

	f.results[`sum(rate(ai_fallback_triggered_total`] = `{"resultType":"matrix","result":[{"metric":{"a":"1"},"values":[]},{"metric":{"a":"2"},"values":[]}]}`
	refused(t, map[string]error{"Prometheus": m.History(t.Context(), 1, nil).Err}, RemoteShape, "2 series where one was expected")
	f.results[`sum(rate(ai_fallback_triggered_total`] = vector("", "", 1)
	refused(t, map[string]error{"Prometheus": m.History(t.Context(), 1, nil).Err}, RemoteShape, "answers a vector where a matrix was expected")

	delete(f.results, `sum(rate(ai_fallback_triggered_total`)
	m, _ = clients(t, base)
	if h := m.History(t.Context(), 1, some(0.02)); h.Err != nil || h.Value.Over.State != OverUnknown || h.Value.Spark[3].State != api.StateNone {
		t.Errorf("without fallbacks: %+v", h)
	}
}

func TestInstantQuery(t *testing.T) {
	f := healthyProm()
	f.results["x"] = `!{"status":"success","warnings":["partial"],"infos":["a remark"],"data":` + vector("model", "a", 1, "b", "NaN", "c", "+Inf") + `}`
	m, _ := clients(t, serve(t, f.ServeHTTP))
	v, besides, err := query(t.Context(), m, "x")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range v {
		got = append(got, fmt.Sprint(s.Metric, s.Value))
	}
	got = append(got, fmt.Sprint(besides))
	if d := cmp.Diff([]string{`{model="a"} 1`, `{model="b"} NaN`, `{model="c"} +Inf`, "{[partial] [a remark]}"}, got); d != "" {
		t.Error(d)
	}
	if v, _, err := query(t.Context(), m, "absent"); err != nil || len(v) != 0 {
		t.Errorf("an empty answer: %v, %v", v, err)
	}
}

// A question too long for a URL goes as POST, and as GET after all where that
// is refused.
func TestLongQuestions(t *testing.T) {
	long := "x" + strings.Repeat(" ", longestGet)
	for _, status := range []int{403, 405, 501} {
		var methods []string
		f := healthyProm()
		base := serve(t, func(w http.ResponseWriter, r *http.Request) {
			methods = append(methods, r.Method)
			if r.Method == http.MethodPost {
				http.Error(w, "GET only", status)
				return
			}
			f.ServeHTTP(w, r)
		})
		m, _ := clients(t, base)
		if err := asks(t.Context(), m, long); err != nil {
			t.Errorf("%d: %v", status, err)
		}
		if got := strings.Join(methods, " "); got != "GET POST GET" {
			t.Errorf("%d: asked by %s", status, got)
		}
	}
	f := healthyProm()
	m, _ := clients(t, serve(t, f.ServeHTTP))
	if err := asks(t.Context(), m, long); err != nil || f.asked[1] != "POST /api/v1/query "+long {
		t.Errorf("POST: %v, %.40s", err, f.asked[1])
	}
}

// rangeProm answers range queries with one request a second and what share
// says of fallbacks, for the range that was asked for alone.
type rangeProm struct {
	fakeProm
	share   func(at time.Time) float64 // negative: no sample
	warning string
	ranges  []string
}

func (f *rangeProm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	if r.Form.Get("step") == "" {
		f.fakeProm.ServeHTTP(w, r)
		return
	}
	unix := func(name string) int64 {
		n, _ := strconv.ParseInt(r.Form.Get(name), 10, 64)
		return n
	}
	values := [][2]any{}
	for at := unix("start"); at <= unix("end"); at += 60 {
		v := f.share(time.Unix(at, 0))
		if strings.Contains(r.Form.Get("query"), promql.RequestsTotal) && v >= 0 {
			v = 1
		}
		if v >= 0 {
			values = append(values, [2]any{at, fmt.Sprint(v)})
		}
	}
	f.mu.Lock()
	f.ranges = append(f.ranges, time.Duration((unix("end")-unix("start"))*1e9).String())
	f.mu.Unlock()
	body := map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": []any{map[string]any{"metric": map[string]string{}, "values": values}}}}
	if f.warning != "" {
		body["warnings"] = []string{f.warning}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// The whole range is asked for once, and then what is new; the answer is as if
// all of it had been asked for. What was partial, or late, is asked for again.
func TestHistoryAsksForWhatIsNew(t *testing.T) {
	start := time.Date(2026, 11, 30, 4, 15, 20, 0, time.UTC)
	began := start.Add(-25 * time.Minute)
	late := start.Add(-90 * time.Second)
	f := &rangeProm{fakeProm: fakeProm{at: start}, share: func(at time.Time) float64 {
		switch {
		case at.After(late): // on its way
			return -1
		case at.After(began):
			return 0.4
		}
		return 0
	}}
	base := serve(t, f.ServeHTTP)
	m, _ := clients(t, base)
	ask := func(name, wantRange string) *History {
		t.Helper()
		f.ranges = nil
		a := m.History(t.Context(), 1, some(0.02))
		if a.Err != nil {
			t.Fatalf("%s: %v", name, a.Err)
		}
		if len(f.ranges) != 2 || f.ranges[0] != wantRange || f.ranges[1] != wantRange {
			t.Errorf("%s: asked for %s, want %s", name, f.ranges, wantRange)
		}
		other, _ := clients(t, base)
		if whole := other.History(t.Context(), 1, some(0.02)); whole.Err != nil || cmp.Diff(whole.Value, a.Value) != "" {
			t.Errorf("%s: differs from the whole: %v %s", name, whole.Err, cmp.Diff(whole.Value, a.Value))
		}
		return a.Value
	}
	h := ask("first", "6h0m0s")
	if last := h.Spark[29]; last.State != api.StateNone || h.Over.State != OverSince {
		t.Errorf("before the late samples: %+v, %+v", last, h.Over)
	}
	late = late.Add(time.Hour)
	f.at = f.at.Add(2 * time.Minute)
	h = ask("two minutes on", "7m0s")
	if last := h.Spark[29]; last.State != api.StateValue || last.Value != 0.4 {
		t.Errorf("the late samples are missing: %+v", last)
	}
	for _, p := range h.Spark {
		if p.State == api.StateNone {
			t.Errorf("a gap at %s stays", p.At)
		}
	}
	f.warning = "one store is missing"
	f.at = f.at.Add(time.Minute)
	ask("partial", "6m0s")
	f.warning = ""
	f.at = f.at.Add(time.Minute)
	ask("after it", "7m0s")
	f.at = f.at.Add(-10 * time.Minute)
	ask("a clock that went back", "6h0m0s")
	f.at = f.at.Add(7 * time.Hour)
	late = f.at
	ask("after a night", "6h0m0s")
}
