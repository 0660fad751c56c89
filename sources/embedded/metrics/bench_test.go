package metrics

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// gatewayRegistry has the metrics of a gateway with six upstreams, three
// models and six tasks: about 2,000 series. count is one more request, of which
// every tenth falls back.
func gatewayRegistry() (reg *prometheus.Registry, count func(i int)) {
	reg = prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	counter := func(name string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: "Help of " + name + "."}, labels)
		reg.MustRegister(v)
		return v
	}
	histogram := func(name string, buckets int, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: "Help of " + name + ".", Buckets: prometheus.ExponentialBuckets(.05, 1.5, buckets)}, labels)
		reg.MustRegister(v)
		return v
	}
	requests := counter("ai_model_requests_total", "model", "provider", "route", "outcome")
	fallbacks := counter("ai_fallback_triggered_total", "model", "primary", "task_type", "reason")
	attempts := counter("ai_model_attempts_total", "provider", "region", "capability", "class")
	transitions := counter("failback_breaker_transitions_total", "provider", "region", "capability", "from", "to", "reason")
	slo := counter("failback_slo_requests_total", "model", "provider", "verdict", "reason")
	first := histogram("ai_model_first_output_seconds", 22, "model", "provider")
	duration := histogram("ai_workflow_duration_seconds", 21, "route", "outcome")

	several := func(kind string, n int) []string {
		var s []string
		for i := range n {
			s = append(s, fmt.Sprint(kind, "-", i))
		}
		return s
	}
	upstreams, models, tasks, outcomes := several("upstream-region", 6), several("model", 3), several("task", 6), several("outcome", 6)
	for _, m := range models {
		for _, u := range upstreams[:4] {
			for _, o := range outcomes {
				requests.WithLabelValues(m, u, "primary", o)
				slo.WithLabelValues(m, u, "good", o)
			}
			first.WithLabelValues(m, u)
		}
		for _, task := range tasks {
			for _, reason := range several("reason", 30) {
				fallbacks.WithLabelValues(m, upstreams[0], task, reason)
			}
		}
	}
	for _, u := range upstreams {
		for _, c := range []string{"text", "stream", "tools"} {
			for _, class := range several("class", 16) {
				attempts.WithLabelValues(u, "eu-central-1", c, class)
			}
			for i, to := range []string{"open", "half_open", "ramping", "closed"} {
				transitions.WithLabelValues(u, "eu-central-1", c, to, several("to", 4)[i], "failure_rate")
			}
		}
	}
	for _, o := range outcomes {
		for _, route := range []string{"primary", "fallback", "none"} {
			duration.WithLabelValues(route, o)
		}
	}
	return reg, func(i int) {
		m, u := models[i%len(models)], upstreams[i%4]
		requests.WithLabelValues(m, u, "primary", outcomes[0]).Inc()
		slo.WithLabelValues(m, u, "good", outcomes[0]).Inc()
		first.WithLabelValues(m, u).Observe(float64(i%100) / 10)
		duration.WithLabelValues("primary", outcomes[0]).Observe(float64(i%100) / 5)
		if i%10 == 0 {
			fallbacks.WithLabelValues(m, upstreams[0], tasks[0], "reason-1").Inc()
		}
	}
}

// grown returns a store with that much past, of a scrape every 15 s.
func grown(b *testing.B, past time.Duration) (s *Store, reg *prometheus.Registry, last time.Time) {
	b.Helper()
	s, n := opened(b, b.TempDir())
	reg, count := gatewayRegistry()
	start := time.Now().Add(-past).Truncate(time.Minute)
	for i := range int(past / step) {
		for j := range 20 {
			count(20*i + j)
		}
		mfs, err := reg.Gather()
		if err != nil {
			b.Fatal(err)
		}
		last = start.Add(time.Duration(i) * step)
		if err := s.Append(last, mfs); err != nil {
			b.Fatal(err)
		}
	}
	if n.String() != "" {
		b.Log(n)
	}
	return s, reg, last
}

func BenchmarkScrape(b *testing.B) {
	s, reg, last := grown(b, 10*time.Minute)
	b.Run("gather", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := reg.Gather(); err != nil {
				b.Fatal(err)
			}
		}
	})
	mfs, err := reg.Gather()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("store", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			last = last.Add(step)
			if err := s.Append(last, mfs); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(s.db.Head().NumSeries()), "series")
	})
}

func BenchmarkRatioOver6HoursAt1Minute(b *testing.B) {
	s, _, last := grown(b, 6*time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		a := get(b, s, "query_range", "query", ratioQuery, "start", unix(last.Add(-6*time.Hour)), "end", unix(last), "step", "60")
		if a.code != http.StatusOK {
			b.Fatal(a.body)
		}
	}
}

func BenchmarkQuestionOfTheMoment(b *testing.B) {
	s, _, last := grown(b, 10*time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		if got := ask(b, s, ratioQuery, last); got == "none" {
			b.Fatal(got)
		}
	}
}

// BenchmarkMemory tells what a store takes from the heap, after a minute and
// after three hours, which is the most that the head holds.
func BenchmarkMemory(b *testing.B) {
	for _, past := range []time.Duration{0, time.Minute, 3 * time.Hour} {
		b.Run(past.String(), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				s, _, _ := grown(b, past)
				b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
				closeStore(b, s)
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkOpen is a start after a kill, with three hours to read again.
func BenchmarkOpen(b *testing.B) {
	s, _, _ := grown(b, 3*time.Hour)
	dir := s.o.Dir
	closeStore(b, s)
	for b.Loop() {
		s, err := Open(Options{Dir: dir, Labels: ours})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		closeStore(b, s)
		b.StartTimer()
	}
}

// crowdedRegistry has so many series of a counter.
func crowdedRegistry(series int) (*prometheus.Registry, func()) {
	reg := prometheus.NewRegistry()
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "failback_crowd_total", Help: "Many."}, []string{"model", "provider", "reason"})
	reg.MustRegister(v)
	var all []prometheus.Counter
	for i := range series {
		all = append(all, v.WithLabelValues(fmt.Sprint("model-", i%20), fmt.Sprint("provider-", i/20%50), fmt.Sprint("reason-", i/1000)))
	}
	return reg, func() {
		for i := 0; i < len(all); i += 7 { // most stand still, as in a gateway
			all[i].Inc()
		}
	}
}

const crowd = 20_000

// BenchmarkCrowdedScrape is one self-scrape of 20,000 series, gathered and
// stored, and what a store of them takes from the heap.
func BenchmarkCrowdedScrape(b *testing.B) {
	before := heap()
	s, _ := opened(b, b.TempDir())
	reg, count := crowdedRegistry(crowd)
	at := time.Now().Truncate(time.Second)
	b.ReportAllocs()
	for b.Loop() {
		count()
		at = at.Add(step)
		mfs, err := reg.Gather()
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Append(at, mfs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(s.db.Head().NumSeries()), "series")
	b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
}

// BenchmarkCrowdedRestart is a start after a kill with two hours of 20,000
// series to read again: until it is open, and what it then takes.
func BenchmarkCrowdedRestart(b *testing.B) {
	dir := b.TempDir()
	s, _ := opened(b, dir)
	reg, count := crowdedRegistry(crowd)
	start := time.Now().Add(-2 * time.Hour).Truncate(time.Minute)
	for i := range int(2 * time.Hour / step) {
		count()
		mfs, err := reg.Gather()
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Append(start.Add(time.Duration(i)*step), mfs); err != nil {
			b.Fatal(err)
		}
	}
	// A copy of what is on the disk now is what a kill leaves: all but what the
	// system itself had not written.
	left := b.TempDir()
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		b.Fatal(err)
	}
	_ = os.Remove(filepath.Join(left, "lock"))
	closeStore(b, s)
	s = nil
	before := heap()
	for b.Loop() {
		s, err := Open(Options{Dir: left, Labels: ours})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		b.ReportMetric(float64(s.db.Head().NumSeries()), "series")
		closeStore(b, s)
		b.StartTimer()
	}
}
