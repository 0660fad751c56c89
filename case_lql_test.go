package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/sources/gatewaytest"
)

// What is entered by the clocks of a zone arrives at the Loki as nanoseconds of
// the epoch, and how it was understood is said.
func TestLQL09QueryRange(t *testing.T) {
	york, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Skip("requires the time zone database")
	}
	local := time.Local
	time.Local = york
	t.Cleanup(func() { time.Local = local })
	t.Setenv("LOKI_ADDR", "")
	var mu sync.Mutex
	var asked url.Values // guarded by mu
	loki := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/query_range") { // beside the count of lines that are no JSON
			mu.Lock()
			asked = r.URL.Query()
			mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"streams","result":[]}}`))
	}))
	defer loki.Close()
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) { s.Sources.Loki = api.Source{URL: loki.URL} })
	for _, c := range []struct {
		start, end         string
		wantStart, wantEnd string
		says               []string
	}{
		{"2026-03-08 02:30", "2026-11-01 01:30", "2026-03-08T07:30:00Z", "2026-11-01T05:30:00Z", []string{
			"--start: 2026-03-08 02:30 does not exist", "--end: 2026-11-01 01:30 comes twice"}},
		{"2026-07-04 14:00", "2026-07-04 14:00Z", "2026-07-04T18:00:00Z", "", []string{"EDT (UTC-04:00)", "before it begins"}},
		{"2026-07-04 14:00Z", "2026-07-04 14:00", "2026-07-04T14:00:00Z", "2026-07-04T18:00:00Z", []string{"--end: 2026-07-04 14:00:00 EDT (UTC-04:00), 2026-07-04 18:00:00Z"}},
	} {
		t.Run("LQL-09 "+c.start, func(t *testing.T) {
			_, errs, code := runLine("query", "--connect", g.Target(), "affected", "--start", c.start, "--end", c.end)
			for _, s := range c.says {
				if !strings.Contains(errs, s) {
					t.Errorf("no %q in %s", s, errs)
				}
			}
			if c.wantEnd == "" {
				if code != 2 {
					t.Errorf("exit %d", code)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for name, want := range map[string]string{"start": c.wantStart, "end": c.wantEnd} {
				at, err := time.Parse(time.RFC3339, want)
				if err != nil {
					t.Fatal(err)
				}
				if got := asked.Get(name); got != strconv.FormatInt(at.UnixNano(), 10) {
					t.Errorf("%s=%s, not %s", name, got, want)
				}
			}
		})
	}
	// What is relative, is so to the gateway's clock.
	if _, errs, code := runLine("query", "--connect", g.Target(), "affected", "--start", "-1h", "--end", "now"); code != 0 || strings.Contains(errs, "EDT") {
		t.Errorf("exit %d: %s", code, errs)
	}
	mu.Lock()
	defer mu.Unlock()
	from, _ := strconv.ParseInt(asked.Get("start"), 10, 64)
	to, _ := strconv.ParseInt(asked.Get("end"), 10, 64)
	if to-from != int64(time.Hour) {
		t.Errorf("asked from %d to %d", from, to)
	}
}

// More lines than a Loki gives at once are asked for by pages.
func TestLQL02QueryPages(t *testing.T) {
	t.Setenv("LOKI_ADDR", "")
	const all = 12_000
	base := time.Now().Add(-time.Hour).Truncate(time.Second).UnixNano()
	loki := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		end, _ := strconv.ParseInt(r.FormValue("end"), 10, 64)
		if limit > 5000 {
			http.Error(w, "max entries limit per query exceeded, limit > max_entries_limit_per_query", http.StatusBadRequest)
			return
		}
		var values []string
		for i := all - 1; i >= 0 && len(values) < limit; i-- { // backward, three a nanosecond
			if ts := base + int64(i/3); ts < end {
				values = append(values, fmt.Sprintf(`["%d","line %05d"]`, ts, i))
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"streams","result":[{"stream":{"a":"b"},"values":[%s]}]}}`, strings.Join(values, ","))
	}))
	defer loki.Close()
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) { s.Sources.Loki = api.Source{URL: loki.URL} })
	out, errs, code := runLine("query", "--connect", g.Target(), "--logql", `{a="b"}`, "--since", "2h", "--limit", "20000")
	if code != 0 || strings.Count(out, "\n") != all || !strings.Contains(out, "line 00000\n") || errs != "" {
		t.Errorf("exit %d, %d lines: %s", code, strings.Count(out, "\n"), errs)
	}
	for i := range all {
		if n := strings.Count(out, fmt.Sprintf("line %05d\n", i)); n != 1 && i%97 == 0 {
			t.Errorf("line %d is there %d times", i, n)
		}
	}
}
