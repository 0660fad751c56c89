package logs

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"
)

// An answer says what its time lacks, also where a window or an offset reaches
// further back than the question; others say nothing.
func TestAnswersSayWhatTheyLack(t *testing.T) {
	gap := time.Date(2026, 11, 30, 4, 30, 0, 0, time.UTC)
	s, err := Open(Options{Dir: t.TempDir(), Lacks: func(start, end time.Time) string {
		if start.After(gap) || !end.After(gap) {
			return ""
		}
		return "lines were lost"
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	ns := func(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }
	for _, tt := range []struct {
		path, query string
		after       time.Duration // the gap, is the end
		lacks       bool
	}{
		{"query_range", `{service_name=~".+"}`, time.Second, true},
		{"query_range", `{service_name=~".+"}`, -time.Minute, false},
		{"query_range", `{service_name=~".+"}`, 2 * time.Hour, false},
		{"query", `count_over_time({service_name=~".+"}[5m])`, time.Minute, true},
		{"query", `count_over_time({service_name=~".+"}[5m])`, 6 * time.Minute, false},
		{"query", `sum(count_over_time({service_name=~".+"}[5m] offset 5m))`, 6 * time.Minute, true},
		{"query", `sum(count_over_time({service_name=~".+"}[5m] offset 5m)) + sum(count_over_time({service_name=~".+"}[5m]))`, 6 * time.Minute, true},
		{"query", `vector(1)`, time.Minute, false},
		{"labels", "", time.Minute, false},
	} {
		end := gap.Add(tt.after)
		params := url.Values{"query": {tt.query}, "start": {ns(end.Add(-time.Hour))}, "end": {ns(end)}, "time": {ns(end)}}
		if tt.query == "" {
			params.Del("query")
		}
		status, _, text := ask(t, s.Handler(), http.MethodGet, "/loki/api/v1/"+tt.path, params)
		var a struct {
			Status   string
			Data     json.RawMessage
			Warnings []string
		}
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK || a.Status != "success" || len(a.Data) == 0 {
			t.Errorf("%s %s: %d %s", tt.path, tt.query, status, text)
		}
		if lacks := len(a.Warnings) == 1 && a.Warnings[0] == "lines were lost"; lacks != tt.lacks {
			t.Errorf("%s %s up to %s behind the gap: %s", tt.path, tt.query, tt.after, text)
		}
	}
}
