package sources

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// odd are answers of every type to a question of one number, and some of none.
var odd = map[string]string{
	"empty":       `{"resultType":"vector","result":[]}`,
	"two series":  `{"resultType":"vector","result":[{"metric":{"x":"1"},"value":[1796003700,"0"]},{"metric":{"x":"2"},"value":[1796003700,"0"]}]}`,
	"scalar":      `{"resultType":"scalar","result":[1796003700,"0"]}`,
	"string":      `{"resultType":"string","result":[1796003700,"0"]}`,
	"matrix":      `{"resultType":"matrix","result":[{"metric":{},"values":[[1796003700,"0"]]}]}`,
	"no matrix":   `{"resultType":"matrix","result":[]}`,
	"histogram":   `{"resultType":"vector","result":[{"metric":{},"histogram":[1796003700,{"count":"0","sum":"0","buckets":[]}]}]}`,
	"histograms":  `{"resultType":"matrix","result":[{"metric":{},"histograms":[[1796003700,{"count":"0","sum":"0","buckets":[]}]]}]}`,
	"NaN":         `{"resultType":"vector","result":[{"metric":{},"value":[1796003700,"NaN"]}]}`,
	"+Inf":        `{"resultType":"vector","result":[{"metric":{},"value":[1796003700,"+Inf"]}]}`,
	"negative":    `{"resultType":"vector","result":[{"metric":{},"value":[1796003700,"-1"]}]}`,
	"a new type":  `{"resultType":"tensor","result":[]}`,
	"no type":     `{"result":[]}`,
	"null":        `null`,
	"null result": `{"resultType":"vector","result":null}`,
	"no number":   `{"resultType":"vector","result":[{"metric":{},"value":[1796003700,"many"]}]}`,
	"no value":    `{"resultType":"vector","result":[{"metric":{}}]}`,
	"null value":  `{"resultType":"vector","result":[{"metric":{},"value":null}]}`,
	"an object":   `{"resultType":"vector","result":{}}`,
	"refused":     `!{"status":"error","errorType":"execution","error":"expanding series: context canceled"}`,
	"no status":   `!{}`,
	"a list":      `![]`,
	"a word":      `!"success"`,
}

// verdict is what a gate makes of a ratio: it passes or fails only what is
// known, and holds on the rest.
func verdict(v *Overview, limit float64) string {
	switch {
	case v == nil || v.Ratio.State != api.StateValue:
		return "no data"
	case v.Ratio.Value > limit:
		return "fail"
	}
	return "pass"
}

// Every built-in question, answered by every type: nothing panics, nothing
// becomes a number that is none, and what is not understood names the question.
func TestPQL11EveryTypeToEveryQuestion(t *testing.T) {
	f := healthyProm()
	f.results[`max(max_over_time(timestamp(ai_model_reques`] = vector("", "", f.at.Unix()-100)
	addr := serve(t, f.ServeHTTP)
	m, _ := clients(t, addr)
	if a := m.Overview(t.Context(), 1); verdict(a.Value, 0.2) != "fail" || verdict(a.Value, 0.3) != "pass" {
		t.Fatalf("of what is right: %+v, %v", a.Value, a.Err)
	}
	asked := append([]string(nil), f.asked...)
	if len(asked) < 15 {
		t.Fatalf("asked %d questions", len(asked))
	}
	for _, line := range asked {
		question := strings.TrimPrefix(line, "GET /api/v1/query ")
		for name, data := range odd {
			t.Run(fmt.Sprintf("%.60s %s", question, name), func(t *testing.T) {
				f := healthyProm()
				f.results[question] = data
				m, _ := clients(t, serve(t, f.ServeHTTP))
				a := m.Overview(t.Context(), 1)
				// A zero of a question for one number is a number; the limit is passed
				// only where the ratio itself was answered 0, by a number.
				zero := name == "scalar"
				if got := verdict(a.Value, 0.2); got == "pass" && !(zero && strings.HasPrefix(question, "( sum")) {
					t.Errorf("passes: %+v", a.Value.Ratio)
				}
				if a.Err != nil {
					if text := Why(a.Err); strings.ContainsAny(text, "\n\x1b") || !strings.Contains(text, ": ") && !strings.Contains(text, "its time") {
						t.Errorf("does not name the question: %s", text)
					}
					return
				}
				for _, rows := range [][]RatioRow{a.Value.PerModel, a.Value.PerUpstream} {
					for _, r := range rows {
						if r.Name == "" || r.State == api.StateValue && !number(r.Value) {
							t.Errorf("row %+v", r)
						}
					}
				}
				for _, r := range []Reading{a.Value.Ratio, a.Value.Traffic, a.Value.FailedBefore, a.Value.FirstOutputP95Before} {
					if r.State == api.StateValue && !number(r.Value) || r.State != api.StateValue && r.Why == "" {
						t.Errorf("reading %+v", r)
					}
				}
			})
		}
	}
}

// The same for the questions of a range, and as answers to all questions.
func TestPQL11EveryTypeToHistory(t *testing.T) {
	for name, data := range odd {
		for _, part := range []string{`sum(rate(ai_model_requests_total`, `sum(rate(ai_fallback_triggered_total`, ""} {
			t.Run(name+" to "+part, func(t *testing.T) {
				f := healthyProm()
				for query := range f.results {
					if strings.HasPrefix(query, part) {
						f.results[query] = data
					}
				}
				m, _ := clients(t, serve(t, f.ServeHTTP))
				a := m.History(t.Context(), 1, some(0.02))
				if a.Err == nil {
					if a.Value.Over.State != OverUnknown {
						t.Errorf("over %+v", a.Value.Over)
					}
					for _, p := range a.Value.Spark {
						if p.State != api.StateNone {
							t.Errorf("point %+v", p)
						}
					}
				} else if e := Why(a.Err); !strings.Contains(e, "the last hours of ai_") {
					t.Errorf("does not name the question: %s", e)
				}
				if a := m.Overview(t.Context(), 1); part == "" && verdict(a.Value, 0.2) == "pass" {
					t.Errorf("passes: %+v", a.Value.Ratio)
				}
			})
		}
	}
}

// A Date that is not the time in the answer is said: a cache would make old
// numbers look young.
func TestPQL13Date(t *testing.T) {
	for apart, want := range map[time.Duration]string{
		0: "", 4 * time.Second: "", -4 * time.Second: "",
		3 * time.Minute:  "its HTTP Date is 3m0s ahead of its time(): a cache, or a proxy with another clock, is on the way",
		-3 * time.Minute: "its HTTP Date is 3m0s behind its time(): a proxy with another clock is on the way",
	} {
		f := healthyProm()
		m, _ := clients(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			f.ServeHTTP(dating{w, f.at.Add(apart)}, r)
		}))
		a := m.Overview(t.Context(), 1)
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		if got := strings.Join(a.Value.Warnings, "; "); got != want {
			t.Errorf("%s apart: %q, want %q", apart, got, want)
		}
	}
	// Without one nothing can be said.
	f := healthyProm()
	m, _ := clients(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		f.ServeHTTP(dating{w, time.Time{}}, r)
	}))
	if a := m.Overview(t.Context(), 1); a.Err != nil || len(a.Value.Warnings) != 0 {
		t.Errorf("without a Date: %+v, %v", a.Value, a.Err)
	}
}

// dating answers with another Date; zero: none.
type dating struct {
	http.ResponseWriter
	at time.Time
}

func (d dating) Write(b []byte) (int, error) {
	if d.at.IsZero() {
		d.Header()["Date"] = nil
	} else {
		d.Header().Set("Date", d.at.UTC().Format(http.TimeFormat))
	}
	return d.ResponseWriter.Write(b)
}

func (d dating) WriteString(s string) (int, error) { return d.Write([]byte(s)) }

// What Prometheus remarks of a whole answer does not make it partial.
func TestInfos(t *testing.T) {
	f := healthyProm()
	f.results[`sum(rate(ai_model_requests_total`] = `!{"status":"success","infos":["PromQL info: metric might not be a counter\u001b[2J"],"data":` + vector("", "", 8) + `}`
	m, _ := clients(t, serve(t, f.ServeHTTP))
	a := m.Overview(t.Context(), 1)
	if a.Err != nil || len(a.Value.Warnings) != 0 || len(a.Value.Notes) != 1 || !strings.HasPrefix(a.Value.Notes[0], "PromQL info: metric might not be a counter") {
		t.Errorf("%+v, %v", a.Value, a.Err)
	}
	f = healthyProm()
	f.results[`sum(rate(ai_model_requests_total`] = `!{"status":"success","infos":["a remark"],"data":{"resultType":"matrix","result":[]}}`
	f.results[`sum(rate(ai_fallback_triggered_total`] = f.results[`sum(rate(ai_model_requests_total`]
	m, _ = clients(t, serve(t, f.ServeHTTP))
	if h := m.History(t.Context(), 1, nil); h.Err != nil || len(h.Value.Warnings) != 0 || strings.Join(h.Value.Notes, "; ") != "a remark" {
		t.Errorf("%+v, %v", h.Value, h.Err)
	}
}

// TUI-10: a Prometheus that goes away and comes back is asked again without
// anybody's help, and the feed knows since when it failed and when it last
// answered.
func TestTUI10FeedRecoversByItself(t *testing.T) {
	f := healthyProm()
	down := false
	m, _ := clients(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "starting")
			return
		}
		f.ServeHTTP(w, r)
	}))
	feed := Feed[Overview]{Period: m.Period()}
	now := time.Now()
	ask := func() {
		t.Helper()
		gen, ok := feed.Ask(now)
		if !ok {
			t.Fatal("not asked")
		}
		if !feed.Take(m.Overview(t.Context(), gen)) {
			t.Fatal("not taken")
		}
	}
	if !feed.FailedSince().IsZero() || !feed.LastAnswered().IsZero() {
		t.Error("a feed that asked nothing knows times")
	}
	ask()
	good := feed.LastAnswered()
	if good.IsZero() || !feed.FailedSince().IsZero() {
		t.Errorf("answered at %s, failed since %s", good, feed.FailedSince())
	}
	down = true
	ask()
	since := feed.FailedSince()
	ask()
	if since.Before(good) || !feed.FailedSince().Equal(since) || !feed.LastAnswered().Equal(good) || feed.Value() == nil || !feed.Failing(time.Now()) {
		t.Errorf("failed since %s, then %s; answered at %s, then %s", since, feed.FailedSince(), good, feed.LastAnswered())
	}
	down = false
	ask()
	if !feed.FailedSince().IsZero() || !feed.LastAnswered().After(good) || feed.Failing(time.Now()) {
		t.Errorf("after it came back: failed since %s, answered at %s", feed.FailedSince(), feed.LastAnswered())
	}
}
