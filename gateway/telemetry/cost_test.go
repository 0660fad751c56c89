package telemetry

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"failback/gateway/decision"
)

// BenchmarkLogToFile is all that one request costs in the decision log: its line
// is queued, rendered and written to a file. The request itself waits for the
// first of the three alone; see BenchmarkLog.
func BenchmarkLogToFile(b *testing.B) {
	for name, d := range map[string]*decision.Decision{"primary": answered(), "fallback": fellOver()} {
		b.Run(name, func(b *testing.B) {
			l, err := NewLog(LogOptions{Target: filepath.Join(b.TempDir(), "decisions.jsonl"), Version: "1.2.3", Instance: "gw-1"})
			if err != nil {
				b.Fatal(err)
			}
			line := Line(d, l.meta)
			b.SetBytes(int64(len(appendDecision(nil, &line))))
			b.ReportAllocs()
			report := cpu(b)
			for b.Loop() {
				if len(l.queue) >= l.room {
					l.queue <- item{d: d} // waits, as no request does
					continue
				}
				l.Decision(d)
			}
			if err := l.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
			report()
			if s := l.Stats(); s.Dropped != 0 || s.Written == 0 {
				b.Fatalf("%+v", s)
			}
		})
	}
}

// large is a topology with about 20,000 series.
func large() Topology {
	t := Topology{Transitions: testTransitions, HealthTransitions: testHealthTransitions, Shares: []int{5, 25, 75, 100}}
	for i := range 40 {
		t.Upstreams = append(t.Upstreams, TopologyUpstream{
			Name: fmt.Sprintf("upstream-%d", i), Region: "eu-west-1", Dialect: decision.OpenAI,
			Capabilities: decision.SetOf(decision.Text, decision.Stream, decision.Tools),
		})
	}
	for i := range 26 {
		m := TopologyModel{Name: fmt.Sprintf("model-%d", i)}
		for j := range 4 {
			m.Candidates = append(m.Candidates, TopologyCandidate{Upstream: fmt.Sprintf("upstream-%d", (i+10*j)%40), Primary: j == 0})
		}
		t.Models = append(t.Models, m)
	}
	for i := range 4 {
		t.Tasks = append(t.Tasks, TopologyTask{Name: fmt.Sprintf("task-%d", i)})
	}
	return t
}

// BenchmarkScrape is one scrape: gathering alone, as the gateway takes samples of
// itself, and the whole answer of /metrics.
func BenchmarkScrape(b *testing.B) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, func() Gauges { return Gauges{} })
	m.Reset(large())
	families, err := reg.Gather()
	if err != nil {
		b.Fatal(err)
	}
	series := 0
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			series++
			if h := metric.GetHistogram(); h != nil {
				series += len(h.GetBucket()) + 2 // +Inf, sum; count is the one
			}
		}
	}
	if series < 18_000 || series > 25_000 {
		b.Fatalf("%d series", series)
	}
	b.Run("gather", func(b *testing.B) {
		b.ReportAllocs()
		report := cpu(b)
		for b.Loop() {
			if _, err := reg.Gather(); err != nil {
				b.Fatal(err)
			}
		}
		report()
		b.ReportMetric(float64(series), "series")
	})
	b.Run("answer", func(b *testing.B) {
		h := promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
		r := httptest.NewRequest("GET", "/metrics", nil)
		b.ReportAllocs()
		report := cpu(b)
		for b.Loop() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != 200 {
				b.Fatal(w.Code)
			}
			b.SetBytes(int64(w.Body.Len()))
		}
		report()
	})
}
