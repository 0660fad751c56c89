package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/gatewaytest"
	"failback/ui/text"
)

// What the answer of Prometheus comes to, state by state.
func TestFactsOf(t *testing.T) {
	now := time.Date(2026, 11, 30, 4, 12, 31, 0, time.UTC)
	reading := func(state string, v float64, age time.Duration, why string) sources.Reading {
		return sources.Reading{Number: api.Number{State: state, Value: v, At: now.Add(-age)}, Why: why}
	}
	for _, tt := range []struct {
		name           string
		ratio, traffic sources.Reading
		state, rate    string
		series         text.Series
		over           string
	}{
		{"over", reading("value", 0.381, 4*time.Second, ""), reading("value", 412, 4*time.Second, ""), "value", "value", text.SeriesPresent, "over"},
		{"at the limit", reading("value", 0.02, 4*time.Second, ""), reading("value", 412, 4*time.Second, ""), "value", "value", text.SeriesPresent, "within"},
		{"zero", reading("value", 0, 4*time.Second, ""), reading("value", 412, 4*time.Second, ""), "value", "value", text.SeriesPresent, "within"},
		{"ageing", reading("value", 0.381, 40*time.Second, ""), reading("value", 412, 40*time.Second, ""), "ageing", "ageing", text.SeriesPresent, "over"},
		{"target down", reading("value", 0.381, 2*time.Minute, ""), reading("value", 412, 2*time.Minute, ""), "unknown", "unknown", text.SeriesPresent, ""},
		{"idle", reading("idle", 0, 4*time.Second, "no requests in 5m"), reading("value", 0, 4*time.Second, ""), "idle", "idle", text.SeriesPresent, ""},
		{"none", reading("none", 0, 4*time.Second, "no series"), reading("none", 0, 4*time.Second, "no series"), "none", "none", text.SeriesAbsent, ""},
		{"waiting", reading("waiting", 0, 4*time.Second, "two samples"), reading("waiting", 0, 4*time.Second, ""), "waiting", "waiting", text.SeriesPresent, ""},
		{"nonsense", reading("unknown", math.NaN(), 4*time.Second, "the ratio is no number"), reading("value", 3, 4*time.Second, ""), "unknown", "value", text.SeriesPresent, ""},
	} {
		a := sources.Answer[sources.Overview]{Clock: sources.Clock{Sent: now, Received: now, At: now}, Value: &sources.Overview{Ratio: tt.ratio, Traffic: tt.traffic}}
		f := factsOf(a, "", 15*time.Second, &api.Limit{FallbackRatio: 0.02})
		over := ""
		if f.OverLimit != nil {
			over = map[bool]string{true: "over", false: "within"}[*f.OverLimit]
		}
		if f.Ratio.State != tt.state || f.Traffic.State != tt.rate || f.Series != tt.series || over != tt.over {
			t.Errorf("%s: ratio %s, traffic %s, series %s, %q", tt.name, f.Ratio.State, f.Traffic.State, f.Series, over)
		}
		if known := tt.state == "value" || tt.state == "ageing"; known != (f.Ratio.Value != nil) || !known && f.Ratio.Why == "" {
			t.Errorf("%s: value %v, why %q", tt.name, f.Ratio.Value, f.Ratio.Why)
		}
	}
	f := factsOf(sources.Answer[sources.Overview]{Err: errors.New("no way")}, "https://prom.example", 15*time.Second, nil)
	if f.Error != "no way" || f.Ratio.State != "unknown" || f.Series != text.SeriesUnknown || f.Limit != nil || f.Prometheus != "https://prom.example" {
		t.Errorf("without an answer: %+v", f)
	}
}

// A Prometheus that does not answer is said, and the state of the gateway is
// given all the same.
func TestStatusWithoutPrometheus(t *testing.T) {
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) {
		s.Environment, s.Limit = "PROD", &api.Limit{FallbackRatio: 0.02}
		s.Sources.Prometheus = api.Source{Error: "data/metrics: no space left on device"}
	})
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"status", "--connect", g.Target()}, &out, &errs); code != exitDone || errs.Len() > 0 {
		t.Fatalf("exit %d, %s", code, &errs)
	}
	for _, want := range []string{"failback PROD", "ratio       ?? over 5m, no answer from the gateway's own Prometheus: ", "no space left on device", "limit       2%"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &out)
		}
	}
	out.Reset()
	if code := run(t.Context(), []string{"status", "--json", "--connect", g.Target()}, &out, &errs); code != exitDone {
		t.Fatalf("exit %d, %s", code, &errs)
	}
	var got struct {
		Environment string        `json:"environment"`
		Fallback    text.Fallback `json:"fallback"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Environment != "PROD" || got.Fallback.Error == "" || got.Fallback.Ratio.State != "unknown" || got.Fallback.Ratio.Value != nil {
		t.Errorf("%v: %+v", err, got)
	}
}
