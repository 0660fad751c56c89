package metrics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

// exampleFamilies are the counters of two upstreams at the scrape i.
func exampleFamilies(i int) []*dto.MetricFamily {
	counter := dto.MetricType_COUNTER
	name, v := "ai_model_requests_total", float64(i)
	mf := &dto.MetricFamily{Name: &name, Type: &counter}
	for _, provider := range []string{"a", "b"} {
		label, model, m := "provider", "model", "m"
		mf.Metric = append(mf.Metric, &dto.Metric{
			Label:   []*dto.LabelPair{{Name: &model, Value: &m}, {Name: &label, Value: &provider}},
			Counter: &dto.Counter{Value: &v},
		})
	}
	return []*dto.MetricFamily{mf}
}

// stored returns every sample at the time at, ends as "end".
func stored(t *testing.T, s *Store, at time.Time) map[string]string {
	t.Helper()
	q, err := s.db.Querier(at.UnixMilli(), at.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	got := map[string]string{}
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchNotEqual, metricName, ""))
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() != 0 {
			_, v := it.At()
			text := fmt.Sprint(v)
			if value.IsStaleNaN(v) {
				text = "end"
			}
			got[set.At().Labels().String()] = text
		}
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}

// report has the series of the scrape itself.
func report(samples, added string) map[string]string {
	return map[string]string{
		`{__name__="up", instance="one", job="failback"}`:                                    "1",
		`{__name__="scrape_duration_seconds", instance="one", job="failback"}`:               "0",
		`{__name__="scrape_samples_scraped", instance="one", job="failback"}`:                samples,
		`{__name__="scrape_samples_post_metric_relabeling", instance="one", job="failback"}`: samples,
		`{__name__="scrape_series_added", instance="one", job="failback"}`:                   added,
	}
}

func with(m map[string]string, more ...string) map[string]string {
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

// Every kind of metric becomes the series that Prometheus makes of it, and
// what vanishes ends.
func TestKindsOfMetrics(t *testing.T) {
	const added = `instance="one", job="failback"`
	s, _ := opened(t, t.TempDir())
	start := someTime()
	for i, tc := range []struct {
		text string
		want map[string]string
	}{
		{"# TYPE c counter\nc{x=\"1\"} 3\nc{x=\"2\"} 4\n# TYPE g gauge\ng NaN\nu -Inf", with(report("4", "4"),
			`{__name__="c", `+added+`, x="1"}`, "3", `{__name__="c", `+added+`, x="2"}`, "4",
			`{__name__="g", `+added+`}`, "NaN", `{__name__="u", `+added+`}`, "-Inf")},
		{"# TYPE c counter\nc{x=\"1\"} 3", with(report("1", "0"),
			`{__name__="c", `+added+`, x="1"}`, "3", `{__name__="c", `+added+`, x="2"}`, "end",
			`{__name__="g", `+added+`}`, "end", `{__name__="u", `+added+`}`, "end")},
		{"# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 3\nh_sum 7\nh_count 3", with(report("4", "4"),
			`{__name__="c", `+added+`, x="1"}`, "end",
			`{__name__="h_bucket", `+added+`, le="1.0"}`, "1", `{__name__="h_bucket", `+added+`, le="+Inf"}`, "3",
			`{__name__="h_sum", `+added+`}`, "7", `{__name__="h_count", `+added+`}`, "3")},
		// Other bounds: the old bucket ends, the rest goes on.
		{"# TYPE h histogram\nh_bucket{le=\"2.5\"} 2\nh_sum 7\nh_count 3", with(report("4", "4"),
			`{__name__="h_bucket", `+added+`, le="1.0"}`, "end",
			`{__name__="h_bucket", `+added+`, le="2.5"}`, "2", `{__name__="h_bucket", `+added+`, le="+Inf"}`, "3",
			`{__name__="h_sum", `+added+`}`, "7", `{__name__="h_count", `+added+`}`, "3")},
		{"# TYPE q summary\nq{quantile=\"0.5\"} 1\nq{quantile=\"1\"} 2\nq_sum 3\nq_count 4", with(report("4", "4"),
			`{__name__="h_bucket", `+added+`, le="2.5"}`, "end", `{__name__="h_bucket", `+added+`, le="+Inf"}`, "end",
			`{__name__="h_sum", `+added+`}`, "end", `{__name__="h_count", `+added+`}`, "end",
			`{__name__="q", `+added+`, quantile="0.5"}`, "1", `{__name__="q", `+added+`, quantile="1.0"}`, "2",
			`{__name__="q_sum", `+added+`}`, "3", `{__name__="q_count", `+added+`}`, "4")},
		{"", with(report("0", "0"),
			`{__name__="q", `+added+`, quantile="0.5"}`, "end", `{__name__="q", `+added+`, quantile="1.0"}`, "end",
			`{__name__="q_sum", `+added+`}`, "end", `{__name__="q_count", `+added+`}`, "end")},
		// Labels of ours that a metric has itself.
		{"l{job=\"theirs\",exported_job=\"others\"} 1", with(report("1", "1"),
			`{__name__="l", exported_exported_job="theirs", exported_job="others", `+added+`}`, "1")},
		{"", with(report("0", "0"), `{__name__="l", exported_exported_job="theirs", exported_job="others", `+added+`}`, "end")},
	} {
		at := start.Add(time.Duration(i) * step)
		appendAt(t, s, at, tc.text)
		if diff := cmp.Diff(tc.want, stored(t, s, at)); diff != "" {
			t.Errorf("scrape %d: (-want +got)\n%s", i, diff)
		}
	}
}

// A metric with a time of its own keeps it, and does not end.
func TestMetricWithItsOwnTime(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	start := someTime()
	own := start.Add(-time.Minute)
	appendAt(t, s, start, fmt.Sprintf("t 5 %d", own.UnixMilli()))
	appendAt(t, s, start.Add(step), "")
	if got := stored(t, s, own)[`{__name__="t", instance="one", job="failback"}`]; got != "5" {
		t.Errorf("at its own time it is %q", got)
	}
	if got := ask(t, s, "t", start.Add(step)); got != "5" {
		t.Errorf("it is %s after it vanished", got)
	}
}

// A value that happens to be the bits of an end is no end.
func TestNoMetricLooksLikeAnEnd(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	mfs := exampleFamilies(0)
	v := math.Float64frombits(value.StaleNaN)
	mfs[0].Metric[0].Counter.Value = &v
	at := someTime()
	if err := s.Append(at, mfs); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s, `ai_model_requests_total{provider="a"}`, at); got != "NaN" {
		t.Errorf("it is %s", got)
	}
}

func TestAlign(t *testing.T) {
	start := time.Date(2026, 3, 1, 4, 0, 0, 7e6, time.UTC)
	for after, want := range map[time.Duration]time.Duration{
		0:                                 0,
		15 * time.Second:                  15 * time.Second,
		15*time.Second + time.Millisecond: 15 * time.Second,
		30*time.Second + jitter:           30 * time.Second,
		30*time.Second + jitter + 1:       30*time.Second + jitter + 1,
		37 * time.Second:                  37 * time.Second,
		-15 * time.Second:                 -15 * time.Second,
		-time.Hour - 7*time.Second:        -time.Hour - 7*time.Second,
		-time.Hour + time.Millisecond:     -time.Hour,
	} {
		if got := align(start, start.Add(after), 15*time.Second).Sub(start); got != want {
			t.Errorf("after %s the time is that of %s, want %s", after, got, want)
		}
	}
	if got := align(start, start.Add(time.Millisecond), 100*time.Millisecond).Sub(start); got != time.Millisecond {
		t.Errorf("of short distances even a millisecond matters, got %s", got)
	}
}

// gatherer is a registry that can fail.
type gatherer struct {
	mu  sync.Mutex
	mfs func() ([]*dto.MetricFamily, error)
}

func (g *gatherer) set(f func() ([]*dto.MetricFamily, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mfs = f
}

func (g *gatherer) Gather() ([]*dto.MetricFamily, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mfs()
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ai_model_requests_total", Help: "h"}, []string{"provider"})
		reg.MustRegister(requests)
		requests.WithLabelValues("a").Add(3)
		requests.WithLabelValues("b").Add(3)
		g := &gatherer{mfs: reg.Gather}
		n := &notebook{}
		s, err := Open(Options{Dir: dir, Gatherer: g, Labels: ours, Log: n.log})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		done := make(chan struct{})
		go func() { s.Run(t.Context()); close(done) }()

		pass := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		pass(5*time.Minute + time.Second)
		if got := ask(t, s, "count_over_time(up[10m])", time.Now()); got != "21" {
			t.Errorf("%s scrapes in five minutes of every 15 s", got)
		}
		if got := ask(t, s, "timestamp(up)", time.Now()); got != fmt.Sprint(begin.Add(5*time.Minute).Unix()) {
			t.Errorf("the last is of %s", got)
		}
		if got := ask(t, s, `count(ai_model_requests_total{job="failback",instance="one"})`, time.Now()); got != "2" {
			t.Errorf("%s of 2 series", got)
		}

		requests.DeleteLabelValues("b")
		pass(15 * time.Second)
		if got := ask(t, s, `count(ai_model_requests_total)`, time.Now()); got != "1" {
			t.Errorf("%s series, one has vanished", got)
		}

		g.set(func() ([]*dto.MetricFamily, error) { return nil, errors.New("no metrics today") })
		pass(15 * time.Second)
		if got := ask(t, s, "up", time.Now()); got != "0" {
			t.Errorf("up is %s without metrics", got)
		}
		if got := ask(t, s, "count(ai_model_requests_total)", time.Now()); got != "none" {
			t.Errorf("%s series without metrics", got)
		}
		pass(time.Minute)
		if got := strings.Count(n.String(), "no metrics today"); got != 1 {
			t.Errorf("said %d times: %s", got, n)
		}
		if a := get(t, s, "metadata"); !strings.Contains(a.body, "ai_model_requests_total") {
			t.Errorf("metadata: %s", a.body)
		}

		g.set(func() ([]*dto.MetricFamily, error) {
			mfs, err := reg.Gather()
			return mfs, errors.Join(err, errors.New("one collector is broken"), errors.New("another too"))
		})
		pass(15 * time.Second)
		if got := ask(t, s, "up * on() ai_model_requests_total", time.Now()); got != "3" {
			t.Errorf("with a part of the metrics they are %s", got)
		}

		<-time.After(repeatAfter) // it is said again, in one line
		if !strings.Contains(n.String(), "one collector is broken; another too") {
			t.Errorf("said: %s", n)
		}

		closeStore(t, s)
		<-done // Close ends Run
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s, err := Open(Options{Dir: dir, Gatherer: reg})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		<-time.After(time.Minute)
		cancel()
		<-done
		closeStore(t, s)
		s.Run(t.Context()) // of a closed store: at once
	})
}

// Scrapes, questions and the end at once.
func TestAllAtOnce(t *testing.T) {
	s, _ := opened(t, t.TempDir())
	start := someTime()
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 200 {
			if err := s.Append(start.Add(time.Duration(i)*time.Second), exampleFamilies(i)); err != nil && err != errClosed {
				t.Error(err)
			}
		}
	})
	codes := map[int]bool{200: true, 499: true, 503: true}
	for range 4 {
		wg.Go(func() {
			for i := range 50 {
				paths := []string{"query?query=sum(rate(ai_model_requests_total[1m]))", "series?match[]=up", "labels", "label/provider/values", "metadata"}
				r := httptest.NewRequest("GET", base+paths[i%len(paths)], nil)
				if a := send(t, s, r); !codes[a.code] {
					t.Errorf("%s: %d %s", r.URL, a.code, a.body)
				}
			}
		})
	}
	wg.Go(func() {
		for s.scraped() == 0 {
			<-time.After(time.Millisecond)
		}
		closeStore(t, s)
	})
	wg.Wait()
}

// scraped returns how many metrics the last scrape had.
func (s *Store) scraped() int {
	s.scraper.mu.Lock()
	defer s.scraper.mu.Unlock()
	return len(s.scraper.cache.entries)
}
