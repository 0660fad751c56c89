package logs

import (
	"context"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"failback/sources/logql"
)

// benchStore is a store with n decisions, one a millisecond from benchStart on.
// It is kept between benchmarks of one run.
var benchStores = map[int]*Store{}

const benchStart = int64(1796000000000000000)

func benchStore(b *testing.B, n int) *Store {
	b.Helper()
	if s := benchStores[n]; s != nil {
		return s
	}
	dir := filepath.Join(benchDir, strconv.Itoa(n))
	s, err := Open(Options{Dir: dir, Labels: testLabels, MaxBytes: 2 << 30, MaxAge: 1 << 62})
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	var in []string
	for i := range n {
		in = append(in, decision(r, benchStart+int64(i)*1e6, i))
		if len(in) == 1000 || i == n-1 {
			store(b, s, in...)
			in = in[:0]
		}
	}
	benchStores[n] = s
	return s
}

var benchDir string

func TestMain(m *testing.M) {
	var err error
	if benchDir, err = os.MkdirTemp("", "failback-logs-"); err != nil {
		panic(err)
	}
	code := m.Run()
	for _, s := range benchStores {
		_ = s.Close(context.Background())
	}
	_ = os.RemoveAll(benchDir)
	os.Exit(code)
}

func sizes(b *testing.B, f func(b *testing.B, n int)) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { f(b, n) })
	}
}

func benchSelect(b *testing.B, sel func(n int) logql.Selection) {
	sizes(b, func(b *testing.B, n int) {
		s := benchStore(b, n)
		b.ReportAllocs()
		for b.Loop() {
			got := 0
			if err := s.Select(b.Context(), sel(n), func(logql.Entry) bool { got++; return true }); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(got), "lines")
		}
	})
}

func BenchmarkSelectAll(b *testing.B) {
	benchSelect(b, func(int) logql.Selection { return everything(true) })
}

func BenchmarkSelectFallbacks(b *testing.B) {
	c := condition(b, "fallback_triggered", logql.Equal, "true")
	benchSelect(b, func(int) logql.Selection {
		sel := everything(false)
		sel.Where = []logql.Condition{c}
		return sel
	})
}

func BenchmarkSelectNothing(b *testing.B) {
	c := condition(b, "task_type", logql.Equal, "nope")
	benchSelect(b, func(int) logql.Selection {
		sel := everything(false)
		sel.Where = []logql.Condition{c}
		return sel
	})
}

func BenchmarkSelectRequest(b *testing.B) {
	benchSelect(b, func(n int) logql.Selection {
		sel := everything(false)
		sel.Where = []logql.Condition{condition(b, "request_id", logql.Equal, "req-00001234")}
		return sel
	})
}

func BenchmarkWrite(b *testing.B) {
	s, err := Open(Options{Dir: b.TempDir(), Labels: testLabels, MaxAge: 1 << 62})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(context.Background())
	line := []byte(decision(rand.New(rand.NewPCG(1, 1)), benchStart, 1))
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = s.Write(line)
	}
}

func BenchmarkScan(b *testing.B) {
	sc := newScanner(Fields)
	line := []byte(decision(rand.New(rand.NewPCG(1, 1)), benchStart, 1))
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		sc.line(line)
	}
}

// BenchmarkOpen opens a store of about 1 GiB: one that was closed, one whose
// process was killed, and one without side files.
func BenchmarkOpen(b *testing.B) {
	const n = 1_000_000
	s := benchStore(b, n)
	dir := s.o.Dir
	open := func(b *testing.B, before func()) {
		_ = s.Close(context.Background())
		for b.Loop() {
			b.StopTimer()
			before()
			b.StartTimer()
			began := time.Now()
			o, err := Open(s.o)
			b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-open")
			if err != nil {
				b.Fatal(err)
			}
			if err := o.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
	last := func() string {
		names, _ := filepath.Glob(filepath.Join(dir, "*"+sideSuffix))
		return names[len(names)-1]
	}
	b.Run("closed", func(b *testing.B) { open(b, func() {}) })
	b.Run("killed", func(b *testing.B) { open(b, func() { _ = os.Remove(last()) }) })
	b.Run("bare", func(b *testing.B) { open(b, func() { removeSides(b, dir) }) })
	delete(benchStores, n)
}

// BenchmarkQuery answers the canned queries and their like over HTTP's handler.
func BenchmarkQuery(b *testing.B) {
	const all = `{service_name="failback"} | json `
	for name, query := range map[string]string{
		"first-switch": all + `| event="model_route_selected" | fallback_triggered="true"`,
		"not-allowed":  all + `| fallback_triggered="true" | task_type=~"permission_change|payment"`,
		"nothing":      all + `| workflow_status="incomplete"`,
		"by-reason":    `sum by (reason) (count_over_time(` + all + `| fallback_triggered="true" [24h]))`,
		"by-task":      `sum by (task_type) (count_over_time(` + all + `| __error__="" | fallback_triggered="true" [24h]))`,
		"everything":   `sum by (route) (count_over_time(` + all + `| __error__="" [24h]))`,
		"quantile":     `quantile_over_time(0.99, ` + all + `| __error__="" | unwrap first_output_ms [24h]) by (selected_provider)`,
		"request":      all + `| request_id="req-00001234"`,
		"filter":       `{service_name="failback"} |= "req-00001234"`,
	} {
		b.Run(name, func(b *testing.B) {
			sizes(b, func(b *testing.B, n int) {
				h := benchStore(b, n).Handler()
				end := benchStart + int64(n)*1e6
				params := url.Values{"query": {query}, "limit": {"1000"}, "start": {strconv.FormatInt(benchStart, 10)}, "end": {strconv.FormatInt(end, 10)}}
				path := "query_range"
				if strings.Contains(query, "24h") {
					path, params = "query", url.Values{"query": {query}, "time": {strconv.FormatInt(end, 10)}}
				} else if name == "first-switch" {
					params.Set("direction", "forward")
					params.Set("limit", "1")
				}
				b.ReportAllocs()
				for b.Loop() {
					get(b, h, path, params)
				}
			})
		})
	}
}
