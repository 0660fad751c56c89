package sources_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/embedded/metrics"
)

const every = 15 * time.Second

// overHTTP is a gateway that is only its stores.
type overHTTP struct{ base string }

func (o overHTTP) BaseURL() string              { return o.base }
func (o overHTTP) Transport() http.RoundTripper { return http.DefaultTransport }

// engine is a real store, and a client of it.
type engine struct {
	store  *metrics.Store
	client sources.Metrics
}

func newEngine(t *testing.T) engine {
	t.Helper()
	return newEngineOf(t, map[string]string{"job": "failback", "instance": "gw-1"})
}

// newEngineOf is an engine all of whose series have these labels.
func newEngineOf(t *testing.T, labels map[string]string) engine {
	t.Helper()
	store, err := metrics.Open(metrics.Options{Dir: t.TempDir(), Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(store.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	client, _, err := sources.Connect(overHTTP{server.URL}, api.Sources{Prometheus: api.Source{Selector: `job="failback"`, EverySeconds: every.Seconds()}},
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return engine{store, client}
}

// scrape stores one scrape of metrics in text format.
func (e engine) scrape(t *testing.T, at time.Time, text string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var list []*dto.MetricFamily
	for _, f := range families {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	if err := e.store.Append(at, list); err != nil {
		t.Fatal(err)
	}
}

// overview asks, and judges the ratio as the console does at that moment.
func (e engine) overview(t *testing.T) (*sources.Overview, sources.Number) {
	t.Helper()
	feed := sources.Feed[sources.Overview]{Period: e.client.Period()}
	gen, _ := feed.Ask(time.Now())
	a := e.client.Overview(t.Context(), gen)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	if !feed.Take(a) {
		t.Fatal("the answer was not taken")
	}
	if len(a.Value.Warnings) != 0 {
		t.Errorf("warnings %q", a.Value.Warnings)
	}
	return a.Value, feed.Number(a.Value.Ratio.Number, a.Clock.Received)
}

// counters are what a gateway of two upstreams would expose after n steps, of
// the families that it has. A quarter of east's requests, and an eighth of all,
// leave their primary.
func counters(n int, families string) string {
	var b strings.Builder
	count := func(family string, series string, v int) {
		if strings.Contains(families, family[:1]) {
			fmt.Fprintf(&b, "%s %d\n", series, v)
		}
	}
	for _, m := range []string{"sonnet", "haiku"} {
		for _, p := range []string{"east", "west"} {
			count("requests", fmt.Sprintf(`ai_model_requests_total{model=%q,provider=%q,route="primary",outcome="completed"}`, m, p), 40*n)
		}
	}
	count("fallbacks", `ai_fallback_triggered_total{model="sonnet",primary="east",task_type="unnamed",reason="server_error"}`, 15*n)
	count("fallbacks", `ai_fallback_triggered_total{model="haiku",primary="east",task_type="unnamed",reason="server_error"}`, 5*n)
	count("own", `failback_upstream_own_requests_total{provider="east",answered_by="east"}`, 60*n)
	count("own", `failback_upstream_own_requests_total{provider="east",answered_by="west"}`, 20*n)
	count("own", `failback_upstream_own_requests_total{provider="west",answered_by="west"}`, 80*n)
	return b.String()
}

func near(got, want float64) bool { return math.Abs(got-want) < 0.005 }

// The states of the ratio over every subset of families being absent.
func TestEngineRatioOverThePowerSet(t *testing.T) {
	for _, families := range []string{"", "r", "f", "o", "rf", "ro", "fo", "rfo"} {
		t.Run("has "+families, func(t *testing.T) {
			e := newEngine(t)
			now := time.Now()
			for i := range 24 {
				e.scrape(t, now.Add(time.Duration(i-24)*every), counters(i, families))
			}
			v, n := e.overview(t)
			r, f, o := strings.Contains(families, "r"), strings.Contains(families, "f"), strings.Contains(families, "o")
			want := sources.None
			if r && f {
				want = sources.Value
			}
			if n.State != want || want == sources.Value && !near(n.Value, 0.125) {
				t.Errorf("ratio %s %g (%s), want %s", n.State, n.Value, v.Ratio.Why, want)
			}
			if wantTraffic := api.StateValue; r != (v.Traffic.State == wantTraffic) || r && !near(v.Traffic.Value, 160.0/15) {
				t.Errorf("traffic %+v", v.Traffic)
			}
			models := map[string]float64{"haiku": 5.0 / 80, "sonnet": 15.0 / 80}
			upstreams := map[string]float64{"east": 0.25, "west": 0}
			rows(t, "model", v.PerModel, models, r, f)
			rows(t, "upstream", v.PerUpstream, upstreams, o, f)
		})
	}
}

// rows checks the parts: a value where both families are there; none where one
// is absent, for the names that the other one knows.
func rows(t *testing.T, by string, got []sources.RatioRow, values map[string]float64, denominator, numerator bool) {
	t.Helper()
	seen := 0
	for _, r := range got {
		want, known := values[r.Name]
		if !known {
			t.Errorf("%s %q is unknown", by, r.Name)
		}
		switch {
		case denominator && numerator:
			if r.State != api.StateValue || !near(r.Value, want) {
				t.Errorf("%s %s: %+v, want %g", by, r.Name, r.Reading, want)
			}
		case r.State != api.StateNone:
			t.Errorf("%s %s: %+v, want none", by, r.Name, r.Reading)
		}
		seen++
	}
	if denominator && seen != len(values) || !denominator && !numerator && seen != 0 {
		t.Errorf("%d rows by %s: %+v", seen, by, got)
	}
}

// Each of the six states, from samples as they would come.
func TestEngineSixStates(t *testing.T) {
	tests := []struct {
		name  string
		fill  func(t *testing.T, e engine, now time.Time)
		want  sources.State
		value float64       // of value, ageing and unknown
		age   time.Duration // at least
	}{
		{
			name: "value",
			fill: func(t *testing.T, e engine, now time.Time) { rising(t, e, now, 24, 0) },
			want: sources.Value, value: 0.125,
		},
		{
			name: "a real zero",
			fill: func(t *testing.T, e engine, now time.Time) {
				for i := range 24 {
					e.scrape(t, now.Add(time.Duration(i-24)*every), counters(i, "ro")+counters(7, "f"))
				}
			},
			want: sources.Value, value: 0,
		},
		{
			name: "value after a counter reset",
			fill: func(t *testing.T, e engine, now time.Time) {
				for i := range 24 {
					e.scrape(t, now.Add(time.Duration(i-24)*every), counters(i%12+i/12, "rfo"))
				}
			},
			want: sources.Value, value: 0.125,
		},
		{
			name: "ageing: no scrape for 35 s",
			fill: func(t *testing.T, e engine, now time.Time) { rising(t, e, now, 24, 35*time.Second) },
			want: sources.Ageing, value: 0.125, age: 35 * time.Second,
		},
		{
			name: "unknown: no scrape for a minute",
			fill: func(t *testing.T, e engine, now time.Time) { rising(t, e, now, 24, time.Minute) },
			want: sources.Unknown, value: 0.125, age: time.Minute,
		},
		{
			name: "ageing: the target went down 35 s ago and its series ended",
			fill: func(t *testing.T, e engine, now time.Time) {
				rising(t, e, now, 24, 35*time.Second)
				e.scrape(t, now.Add(-20*time.Second), "")
			},
			want: sources.Ageing, value: 0.125, age: 35 * time.Second,
		},
		{
			name: "unknown: the target is down for two minutes, its rates still answer",
			fill: func(t *testing.T, e engine, now time.Time) {
				rising(t, e, now, 24, 2*time.Minute)
				for i := range 7 {
					e.scrape(t, now.Add(-105*time.Second).Add(time.Duration(i)*every), "")
				}
			},
			want: sources.Unknown, value: 0.125, age: 2 * time.Minute,
		},
		{
			name: "unknown: the target is down for longer than the window",
			fill: func(t *testing.T, e engine, now time.Time) {
				rising(t, e, now, 24, 20*time.Minute)
				e.scrape(t, now.Add(-19*time.Minute), "")
			},
			want: sources.Unknown, age: 20 * time.Minute,
		},
		{
			name: "none: nothing was ever there",
			fill: func(*testing.T, engine, time.Time) {},
			want: sources.None,
		},
		{
			name: "idle: the counters stand still",
			fill: func(t *testing.T, e engine, now time.Time) {
				for i := range 24 {
					e.scrape(t, now.Add(time.Duration(i-24)*every), counters(7, "rfo"))
				}
			},
			want: sources.Idle,
		},
		{
			name: "waiting: one sample",
			fill: func(t *testing.T, e engine, now time.Time) { e.scrape(t, now.Add(-time.Second), counters(7, "rfo")) },
			want: sources.Waiting,
		},
		{
			name: "waiting: the fallbacks have one sample",
			fill: func(t *testing.T, e engine, now time.Time) {
				for i := range 24 {
					e.scrape(t, now.Add(time.Duration(i-25)*every), counters(i, "ro"))
				}
				e.scrape(t, now.Add(-time.Second), counters(24, "rfo"))
			},
			want: sources.Waiting,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t)
			tt.fill(t, e, time.Now())
			v, n := e.overview(t)
			if n.State != tt.want {
				t.Fatalf("%s (%+v), want %s", n.State, v.Ratio, tt.want)
			}
			if !near(n.Value, tt.value) {
				t.Errorf("value %g, want %g", n.Value, tt.value)
			}
			if n.Age < tt.age-time.Second || n.Age > tt.age+30*time.Second { // the last hour is looked through in steps
				t.Errorf("age %s, want %s", n.Age, tt.age)
			}
		})
	}
}

// rising stores scrapes of rising counters, the last one age before now.
func rising(t *testing.T, e engine, now time.Time, scrapes int, age time.Duration) {
	t.Helper()
	for i := range scrapes {
		e.scrape(t, now.Add(-age).Add(time.Duration(i-scrapes+1)*every), counters(i, "rfo"))
	}
}

// An hour ago, and the hours since.
func TestEngineHistory(t *testing.T) {
	e := newEngine(t)
	now := time.Now()
	began := now.Add(-25 * time.Minute)
	requests, fallbacks := 0, 0
	for at := now.Add(-70 * time.Minute); at.Before(now); at = at.Add(every) {
		requests += 100
		if at.After(began) {
			fallbacks += 40
		}
		e.scrape(t, at, fmt.Sprintf(`ai_model_requests_total{model="m",provider="p",route="primary",outcome="completed"} %d
ai_fallback_triggered_total{model="m",primary="p",task_type="unnamed",reason="server_error"} %d
failback_slo_requests_total{model="m",provider="p",verdict="good",reason="primary_completed"} %d
failback_slo_requests_total{model="m",provider="none",verdict="bad",reason="server_error"} %d
# TYPE ai_model_first_output_seconds histogram
ai_model_first_output_seconds_bucket{model="m",provider="p",le="1"} %d
ai_model_first_output_seconds_bucket{model="m",provider="p",le="2"} %d
ai_model_first_output_seconds_bucket{model="m",provider="p",le="+Inf"} %d
ai_model_first_output_seconds_sum{model="m",provider="p"} %d
ai_model_first_output_seconds_count{model="m",provider="p"} %d
`, requests, fallbacks, requests*99/100, requests/100, requests*9/10, requests, requests, requests, requests))
	}
	v, n := e.overview(t)
	if n.State != sources.Value || !near(n.Value, 0.4) {
		t.Errorf("now %s %g", n.State, n.Value)
	}
	if v.FailedBefore.State != api.StateValue || !near(v.FailedBefore.Value, 0.01) {
		t.Errorf("failed an hour ago %+v", v.FailedBefore)
	}
	if v.FirstOutputP95Before.State != api.StateValue || !near(v.FirstOutputP95Before.Value, 1.5) {
		t.Errorf("first output an hour ago %+v", v.FirstOutputP95Before)
	}

	limit := 0.02
	a := e.client.History(t.Context(), 1, &limit)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	h := a.Value
	if h.Over.State != sources.OverSince || h.Over.Blind || h.Over.Since.Sub(began).Abs() > 90*time.Second {
		t.Errorf("over %+v, want since %s", h.Over, began)
	}
	if first, last := h.Spark[0], h.Spark[len(h.Spark)-1]; first.State != api.StateValue || first.Value != 0 || !near(last.Value, 0.4) {
		t.Errorf("spark from %+v to %+v", first, last)
	}
	limit = 0.5
	if a := e.client.History(t.Context(), 2, &limit); a.Err != nil || a.Value.Over.State != sources.OverNot {
		t.Errorf("over %+v: %v", a.Value, a.Err)
	}

	empty := newEngine(t)
	if a := empty.client.History(t.Context(), 1, &limit); a.Err != nil || a.Value.Over.State != sources.OverUnknown || a.Value.Spark[0].State != api.StateNone {
		t.Errorf("of nothing: %+v, %v", a.Value, a.Err)
	}
	if v, _ := empty.overview(t); v.FailedBefore.State != api.StateNone || v.FirstOutputP95Before.State != api.StateNone || v.PerModel == nil || len(v.PerModel) != 0 {
		t.Errorf("of nothing: %+v", v)
	}
}
