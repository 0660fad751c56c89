package rules

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/embedded/metrics"
)

// overHTTP is a gateway that is only its stores.
type overHTTP struct{ base string }

func (o overHTTP) BaseURL() string              { return o.base }
func (o overHTTP) Transport() http.RoundTripper { return http.DefaultTransport }

// recorded is a real store with n scrapes, one a minute until now.
func recorded(t *testing.T, n int) (sources.Embedded, api.Sources) {
	t.Helper()
	store, err := metrics.Open(metrics.Options{Dir: t.TempDir(), Labels: map[string]string{"job": "failback", "instance": "gw-1"}})
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
	now := time.Now()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	for i := range n {
		families, err := parser.TextToMetricFamilies(strings.NewReader(exposed(i)))
		if err != nil {
			t.Fatal(err)
		}
		var list []*dto.MetricFamily
		for _, f := range families {
			list = append(list, f)
		}
		if err := store.Append(now.Add(time.Duration(i-n+1)*time.Minute), list); err != nil {
			t.Fatal(err)
		}
	}
	return overHTTP{server.URL}, api.Sources{Prometheus: api.Source{Selector: `job="failback"`, EverySeconds: 60}}
}

// exposed is what a gateway shows after i minutes: a tenth of its requests leave
// their primary, of which a quarter of the attempts fail; nine in ten first
// outputs come within a second and all within two; every two hours its breaker
// is open for three minutes.
func exposed(i int) string {
	open := 0
	if i%120 >= 60 && i%120 < 63 {
		open = 1
	}
	return fmt.Sprintf(`
# TYPE ai_model_requests_total counter
ai_model_requests_total{outcome="completed",model="m",provider="east",route="primary"} %[1]d
ai_model_requests_total{outcome="incomplete",model="m",provider="east",route="primary"} 0
# TYPE ai_fallback_triggered_total counter
ai_fallback_triggered_total{model="m",primary="east",task_type="unnamed",reason="server_error"} %[2]d
# TYPE ai_model_attempts_total counter
ai_model_attempts_total{provider="east",class="ok"} %[3]d
ai_model_attempts_total{provider="east",class="server_error"} %[4]d
ai_model_attempts_total{provider="east",class="client_gone"} %[5]d
# TYPE failback_client_retries_total counter
failback_client_retries_total 0
# TYPE failback_breaker_state gauge
failback_breaker_state{provider="east",region="r",capability="text",state="closed"} %[6]d
failback_breaker_state{provider="east",region="r",capability="text",state="open"} %[7]d
# TYPE ai_model_first_output_seconds histogram
ai_model_first_output_seconds_bucket{model="m",le="1"} %[8]d
ai_model_first_output_seconds_bucket{model="m",le="2"} %[1]d
ai_model_first_output_seconds_bucket{model="m",le="+Inf"} %[1]d
ai_model_first_output_seconds_sum{model="m"} %[1]d
ai_model_first_output_seconds_count{model="m"} %[1]d
# TYPE ai_workflow_duration_seconds histogram
ai_workflow_duration_seconds_bucket{route="primary",outcome="completed",le="10"} %[1]d
ai_workflow_duration_seconds_bucket{route="primary",outcome="completed",le="+Inf"} %[1]d
ai_workflow_duration_seconds_sum{route="primary",outcome="completed"} %[1]d
ai_workflow_duration_seconds_count{route="primary",outcome="completed"} %[1]d
`, 100*i, 10*i, 60*i, 20*i, 900*i, 1-open, open, 90*i)
}

// says is a server that says something with each answer of a range.
type says struct {
	promv1.API
	warnings promv1.Warnings
	infos    promv1.Infos
}

func (s says) QueryRange(ctx context.Context, q string, r promv1.Range, o ...promv1.Option) (model.Value, promv1.Warnings, promv1.Infos, error) {
	v, _, _, err := s.API.QueryRange(ctx, q, r, o...)
	return v, s.warnings, s.infos, err
}

// A real engine is asked over HTTP for a past of which it has a part.
func TestMeasureAsksAnEngine(t *testing.T) {
	gw, s := recorded(t, 27*60)
	prom, every, err := sources.Prometheus(gw, s, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	m, err := Measure(t.Context(), prom, s.Prometheus.Selector, every, 48*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	note := strings.Join(m.Note(), "\n")
	row := func(what string) []string {
		for l := range strings.SplitSeq(note, "\n") {
			if rest, ok := strings.CutPrefix(l, what); ok {
				return strings.Fields(rest)
			}
		}
		t.Fatalf("no row %s in:\n%s", what, note)
		return nil
	}
	for what, want := range map[string]string{
		"fallback ratio": "0.1 0.1 0.1 0.1", "requests a second": "1.67 1.67 1.67 1.67", "interrupted answers": "0 0 0 0",
		"failures of east": "0.0204 0.0204 0.0204 0.0204", "first output, all": "1s 1s 2s 2s", "duration, all": "10s 10s 10s 10s",
		"outages, their length": "3m0s 3m0s 3m0s 3m0s",
	} {
		f := row(what)
		if got := strings.Join(f[1:5], " "); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	if got := row("fallback ratio"); !strings.HasPrefix(got[5], "56.") && !strings.HasPrefix(got[5], "55.") {
		t.Errorf("27 of 48 hours are covered: %s", got[5])
	}
	if got := row("outages, their length")[0]; got != "13" && got != "14" {
		t.Errorf("%s outages in 27 hours", got)
	}
	if th := m.Thresholds(Thresholds{}); th.FallbackRatio == nil || *th.FallbackRatio < 0.1 || *th.FallbackRatio > 0.11 {
		t.Errorf("threshold %v", th.FallbackRatio)
	}
	for _, want := range []string{"health:\n  suspect_window: 3m0s", "deadline:\n  first_output: 3s"} {
		if !strings.Contains(note, want) {
			t.Errorf("%q is not in:\n%s", want, note)
		}
	}

	// What the engine remarks is in the note, what it warns of is no measure.
	if m, err := Measure(t.Context(), says{prom, nil, promv1.Infos{"a remark"}}, s.Prometheus.Selector, every, 48*time.Hour); err != nil || strings.Count(strings.Join(m.Note(), "\n"), "Prometheus remarks: a remark") != 1 {
		t.Errorf("with a remark: %+v, %v", m, err)
	}
	if _, err := Measure(t.Context(), says{prom, promv1.Warnings{"a store is missing"}, nil}, s.Prometheus.Selector, every, 48*time.Hour); !errors.Is(err, ErrPartial) || !strings.Contains(err.Error(), "a store is missing") {
		t.Errorf("with a warning: %v", err)
	}

	if _, err := Measure(t.Context(), prom, s.Prometheus.Selector, every, 12*time.Hour); !errors.Is(err, ErrTooLittle) {
		t.Errorf("12 hours: %v", err)
	}
	if _, err := Measure(t.Context(), prom, `job="other"`, every, 48*time.Hour); !errors.Is(err, ErrTooLittle) || !strings.Contains(err.Error(), "requests in 0 of") {
		t.Errorf("nothing there: %v", err)
	}
	if _, err := Measure(t.Context(), prom, "", 2*time.Minute, 48*time.Hour); err == nil || !strings.Contains(err.Error(), "fewer than four") {
		t.Errorf("scraped too rarely: %v", err)
	}
	if _, err := Measure(t.Context(), prom, "", every, MaxPast+time.Hour); err == nil {
		t.Error("more than can be asked for is asked for")
	}
}
