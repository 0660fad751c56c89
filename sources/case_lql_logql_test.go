package sources_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/embedded/logs"
	"failback/sources/logql"
	"failback/ui/text"
)

func noEnv(string) (string, bool) { return "", false }

// 99 lines of JSON and a plain one: what is asked by name has 99 and says so;
// an own query that is refused has the server's words.
func TestLQL06OneLineThatIsNoJSON(t *testing.T) {
	store, err := logs.Open(logs.Options{Dir: t.TempDir(), Labels: map[string]string{"service_name": "failback"}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(store.Handler())
	t.Cleanup(func() {
		server.Close()
		_ = store.Close(context.Background())
	})
	now := time.Now().UTC()
	for i := range 100 {
		line := fmt.Sprintf(`{"time":%q,"event":"model_route_selected","fallback_triggered":true,"reason":"server_error","level":"info","n":%d}`, now.Add(-time.Minute).Format(time.RFC3339Nano), i)
		if i == 42 {
			line = "panic: a plain line"
		}
		if _, err := store.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	// Configured, so that it is asked as any Loki is.
	_, l, err := sources.Connect(nil, api.Sources{Loki: api.Source{URL: server.URL}, Prometheus: api.Source{URL: server.URL}}, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	all := sources.CannedQueries(nil, "")
	c := all[slices.IndexFunc(all, func(c sources.Canned) bool { return c.Name == "by-reason" })]
	var a sources.Answer[sources.LogAnswer]
	for range 400 { // the store writes beside
		if a = l.Query(t.Context(), 1, c.At(now.Add(-time.Hour), time.Now().Add(time.Second))); a.Err == nil && a.Value.Unparsed == 1 && len(a.Value.Series) == 1 && a.Value.Series[0].Points[0].Value == 99 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if a.Err != nil || len(a.Value.Series) != 1 || a.Value.Series[0].Points[0].Value != 99 || a.Value.Unparsed != 1 {
		t.Fatalf("LQL-06: %+v, %v", a.Value, a.Err)
	}
	if notes := text.LogNotes(a.Value); !slices.Contains(notes, "1 line not parsed and not in it") {
		t.Errorf("LQL-06: notes %q", notes)
	}
	own := l.Query(t.Context(), 1, sources.LogQuery{Query: `sum by (level) (count_over_time({service_name="failback"} | json [5m]))`, Instant: true})
	if own.Err == nil || !strings.Contains(sources.Why(own.Err), "pipeline error") {
		t.Errorf("LQL-06: an own query: %+v, %v", own.Value, own.Err)
	}
}

// Whatever is not chosen is left out, and what selects the streams always
// stays: the real grammar takes every query.
func TestLQL08NothingChosen(t *testing.T) {
	end := time.Now()
	for name, tasks := range map[string][]api.Task{
		"loading":  nil,
		"none yet": {},
		"empty":    {{}},
		"all":      {{Name: "all", Fallback: "any"}, {Name: ".*", Fallback: "same_model"}},
		"never":    {{Name: "a", Fallback: "never"}},
		"quotes":   {{Name: `"} | json`, Fallback: "any"}, {Name: "a\\", Fallback: "same_model"}},
	} {
		for _, selector := range []string{"", "  \n", "{}", " { } ", `{service_name=~".*"}`, `{a=~".+"}`, `{app="gw", env=~"prod|stage"}`} {
			for _, c := range sources.CannedQueries(tasks, selector) {
				q := c.At(end.Add(-time.Hour), end)
				for _, query := range []string{q.Query, q.Unparsed} {
					if query == "" {
						continue
					}
					if _, err := logql.Parse(query); err != nil {
						t.Errorf("LQL-08 %s, tasks %s, selector %q: %s: %v", c.Name, name, selector, query, err)
					}
					rest := strings.NewReplacer(`__error__=""`, "", `__error__!=""`, "").Replace(query)
					if strings.Contains(rest, `=""`) || strings.Contains(rest, `=~""`) {
						t.Errorf("LQL-08 %s: an empty filter in %s", c.Name, query)
					}
				}
			}
		}
	}
	for selector, want := range map[string]string{
		"": sources.DefaultStreams, " ": sources.DefaultStreams, "{}": sources.DefaultStreams, "{ \n}": sources.DefaultStreams,
		`{job=~".*"}`: `{job=~".+"}`, "{job =~ `.*`, app=~\".*\"}": `{job =~".+", app=~".+"}`,
		`{job=~".*", app="gw"}`: `{job=~".*", app="gw"}`, `{job="failback"}`: `{job="failback"}`,
	} {
		got := sources.Streams(selector)
		if _, err := logql.Parse(got); err != nil || got != want {
			t.Errorf("LQL-08 %q: %s, %v", selector, got, err)
		}
	}
}
