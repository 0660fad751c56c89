package sources_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/promql"
)

// of is a client of the same store that selects its series by a selector, and is
// told that samples are taken every period.
func (e engine) of(t *testing.T, selector string, period time.Duration) sources.Metrics {
	t.Helper()
	server := httptest.NewServer(e.store.Handler())
	t.Cleanup(server.Close)
	m, _, err := sources.Connect(overHTTP{server.URL}, api.Sources{Prometheus: api.Source{Selector: selector, EverySeconds: period.Seconds()}},
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// promQL is a client of the same store for any question.
func (e engine) promQL(t *testing.T) promv1.API {
	t.Helper()
	server := httptest.NewServer(e.store.Handler())
	t.Cleanup(server.Close)
	q, _, err := sources.Prometheus(overHTTP{server.URL}, api.Sources{}, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func look(t *testing.T, m sources.Metrics) *sources.Overview {
	t.Helper()
	a := m.Overview(t.Context(), 1)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	return a.Value
}

// A sum, or a ratio, of which one operand is absent is that of the other: who
// fails always is not dropped from the view.
func TestPQL02AbsentOperand(t *testing.T) {
	e := newEngine(t)
	now := time.Now()
	for at := now.Add(-66 * time.Minute); at.Before(now); at = at.Add(every) {
		n := int(at.Sub(now.Add(-66*time.Minute))/every) * 10
		// Nobody ever answered: no verdict good, no other reason, no provider but none.
		e.scrape(t, at, fmt.Sprintf(`ai_model_requests_total{model="m",provider="none",route="none",outcome="unavailable"} %[1]d
ai_fallback_triggered_total{model="m",primary="east",task_type="unnamed",reason="connection"} %[1]d
failback_upstream_own_requests_total{provider="east",answered_by="none"} %[1]d
failback_slo_requests_total{model="m",provider="none",verdict="bad",reason="connection"} %[1]d
`, n))
	}
	v := look(t, e.client)
	for name, r := range map[string]sources.Reading{"ratio": v.Ratio, "failed before": v.FailedBefore} {
		if r.State != api.StateValue || !near(r.Value, 1) {
			t.Errorf("%s: %+v, want 100 %%", name, r)
		}
	}
	for by, rows := range map[string][]sources.RatioRow{"m": v.PerModel, "east": v.PerUpstream} {
		if len(rows) != 1 || rows[0].Name != by || rows[0].State != api.StateValue || !near(rows[0].Value, 1) {
			t.Errorf("%s: %+v, want one row of 100 %%", by, rows)
		}
	}
}

// A filler without labels, as a proxy or a recording rule may add it, is nobody's
// row; a row of a model that fell back never is filled by its own requests.
func TestPQL03PhantomRow(t *testing.T) {
	e := newEngine(t)
	now := time.Now()
	for i := range 30 {
		at := now.Add(time.Duration(i-30) * every)
		e.scrape(t, at, counters(i, "rfo")+fmt.Sprintf(`ai_model_requests_total 0
ai_fallback_triggered_total 0
failback_upstream_own_requests_total 0
ai_model_requests_total{model="never",provider="west",route="primary",outcome="completed"} %d
`, 40*i))
	}
	v := look(t, e.client)
	names := func(rows []sources.RatioRow) (s string) {
		for _, r := range rows {
			s += fmt.Sprintf("%s=%s:%.2f ", r.Name, r.State, r.Value)
		}
		return s
	}
	if got, want := names(v.PerModel), "haiku=value:0.06 never=value:0.00 sonnet=value:0.19 "; got != want {
		t.Errorf("by model %s, want %s", got, want)
	}
	if got, want := names(v.PerUpstream), "east=value:0.25 west=value:0.00 "; got != want {
		t.Errorf("by upstream %s, want %s", got, want)
	}
	said := strings.Join(v.Warnings, "; ")
	for _, want := range []string{"fallback by model: 1 without the label model left out", "fallback by upstream: 1 without the label provider left out"} {
		if !strings.Contains(said, want) {
			t.Errorf("warnings %q do not say %q", said, want)
		}
	}
}

// Two targets of which each may lack each family: every built-in question takes
// what is there, drops no target, and adds none.
func TestPQL04PowerSetOfAbsentSeries(t *testing.T) {
	const families = 3 // requests, fallbacks, own requests
	targets := []string{"east", "west"}
	e := newEngine(t)
	now := time.Now()
	has := func(set, target, family int) bool { return set>>(target*families+family)&1 == 1 }
	step := func(set, target, family int) float64 {
		if !has(set, target, family) {
			return 0
		}
		return []float64{80, float64(10 * (1 + target)), 80}[family]
	}
	for i := range 44 { // half of them to come: many questions take their time
		var b strings.Builder
		for set := range 1 << (2 * families) {
			for target, name := range targets {
				for family, series := range []string{
					`ai_model_requests_total{model="m-%[1]s",provider="%[1]s",route="primary",outcome="completed",set="%[2]d"} %[3]d`,
					`ai_fallback_triggered_total{model="m-%[1]s",primary="%[1]s",task_type="unnamed",reason="server_error",set="%[2]d"} %[3]d`,
					`failback_upstream_own_requests_total{provider="%[1]s",answered_by="%[1]s",set="%[2]d"} %[3]d`,
				} {
					if has(set, target, family) {
						fmt.Fprintf(&b, series+"\n", name, set, i*int(step(set, target, family)))
					}
				}
			}
		}
		e.scrape(t, now.Add(time.Duration(i-22)*every), b.String())
	}
	for set := range 1 << (2 * families) {
		v := look(t, e.of(t, fmt.Sprintf(`set="%d"`, set), every))
		name := fmt.Sprintf("set %06b", set)
		r := has(set, 0, 0) || has(set, 1, 0)
		f := has(set, 0, 1) || has(set, 1, 1)
		want, state := 0.0, api.StateNone
		if r && f {
			state = api.StateValue
			want = (step(set, 0, 1) + step(set, 1, 1)) / (step(set, 0, 0) + step(set, 1, 0))
		}
		if v.Ratio.State != state || !near(v.Ratio.Value, want) {
			t.Errorf("%s: ratio %+v, want %s %g", name, v.Ratio, state, want)
		}
		if traffic := (step(set, 0, 0) + step(set, 1, 0)) / every.Seconds(); (v.Traffic.State == api.StateValue) != r || r && !near(v.Traffic.Value, traffic) {
			t.Errorf("%s: traffic %+v, want %g", name, v.Traffic, traffic)
		}
		for by, rows := range [][]sources.RatioRow{v.PerModel, v.PerUpstream} {
			denominator, prefix := 2*by, []string{"m-", ""}[by]
			got := map[string]sources.Reading{}
			for _, row := range rows {
				got[row.Name] = row.Reading
			}
			there := 0
			for target, n := range targets {
				row, ok := got[prefix+n]
				of, over := has(set, target, denominator), has(set, target, 1)
				if ok != (of || over) {
					t.Errorf("%s: row %s%s is there: %t", name, prefix, n, ok)
				}
				if !ok {
					continue
				}
				there++
				switch {
				case of && f: // one without a series of fallbacks had none
					if row.State != api.StateValue || !near(row.Value, step(set, target, 1)/80) {
						t.Errorf("%s: row %s%s %+v", name, prefix, n, row)
					}
				case row.State != api.StateNone || row.Why == "":
					t.Errorf("%s: row %s%s %+v, want none", name, prefix, n, row)
				}
			}
			if there != len(rows) {
				t.Errorf("%s: rows %+v", name, rows)
			}
		}
	}
}

// The same of an hour ago: verdicts of two targets.
func TestPQL04PowerSetOfVerdicts(t *testing.T) {
	e := newEngine(t)
	now := time.Now()
	for i := range 44 {
		var b strings.Builder
		for set := range 16 {
			for bit, series := range []string{`good",provider="east`, `bad",provider="east`, `good",provider="west`, `bad",provider="west`} {
				if set>>bit&1 == 1 {
					fmt.Fprintf(&b, "failback_slo_requests_total{verdict=\"%s\",set=\"%d\"} %d\n", series, set, 10*i*(bit+1))
				}
			}
		}
		e.scrape(t, now.Add(-time.Hour).Add(time.Duration(i-22)*every), b.String())
	}
	for set := range 16 {
		count := func(bit int) float64 { return float64(set >> bit & 1 * (bit + 1)) }
		good, bad := count(0)+count(2), count(1)+count(3)
		r := look(t, e.of(t, fmt.Sprintf(`set="%d"`, set), every)).FailedBefore
		switch {
		case bad == 0:
			if r.State != api.StateNone || r.Why == "" {
				t.Errorf("set %04b: %+v, want none", set, r)
			}
		case r.State != api.StateValue || !near(r.Value, bad/(good+bad)):
			t.Errorf("set %04b: %+v, want %g", set, r, bad/(good+bad))
		}
	}
}

// The first errors of a series that is new are in no rate, and that is said; of
// one that was there at 0 they are, within one scrape.
func TestPQL06FirstIncrements(t *testing.T) {
	const requests = `ai_model_requests_total{model="m",provider="east",route="primary",outcome="completed"} %d
ai_model_requests_total{model="m",provider="west",route="fallback",outcome="degraded_completed"} %d
`
	const fallbacks = `ai_fallback_triggered_total{model="m",primary="east",task_type="unnamed",reason="server_error"} %d
`
	created, late := newEngine(t), newEngine(t)
	now := time.Now()
	for i := range 30 {
		at := now.Add(time.Duration(i-30) * every)
		last := 0
		if i == 29 {
			last = 3
		}
		created.scrape(t, at, fmt.Sprintf(requests+fallbacks, 10*i, last, last))
		if i < 29 {
			late.scrape(t, at, fmt.Sprintf(strings.SplitAfter(requests, "\n")[0], 10*i))
		} else {
			late.scrape(t, at, fmt.Sprintf(requests+fallbacks, 10*i, last, last))
		}
	}
	v := look(t, created.client)
	if v.Ratio.State != api.StateValue || v.Ratio.Value <= 0 || len(v.Notes) != 0 {
		t.Errorf("series that were there: %+v, notes %q", v.Ratio, v.Notes)
	}
	v = look(t, late.client)
	if v.Ratio.State == api.StateValue {
		t.Errorf("a series with one sample: %+v", v.Ratio)
	}
	if len(v.Notes) != 1 || v.Notes[0] != "1 of 2 series of ai_model_requests_total are younger than 5m" {
		t.Errorf("notes %q", v.Notes)
	}
}

// Every second for two minutes, whatever the phase of the scrapes, one of which
// fails: there is a rate and a ratio, and that is the true one. Over two scrapes
// there is not.
func TestPQL07NoGaps(t *testing.T) {
	for _, period := range []time.Duration{15 * time.Second, time.Minute, 2 * time.Minute} {
		t.Run(period.String(), func(t *testing.T) {
			e := newEngine(t)
			m := e.of(t, `job="failback"`, period)
			end := time.Now()
			begin := end.Add(-2 * time.Minute)
			n := int((2*time.Minute+2*m.Window())/period) + 2
			for i := range n {
				if i == n-3 {
					continue // one that failed
				}
				e.scrape(t, end.Add(time.Duration(i-n+1)*period-time.Second), fmt.Sprintf(`ai_model_requests_total{model="m"} %d
ai_fallback_triggered_total{model="m"} %d
`, 100*i, 25*i))
			}
			if m.Window() < 4*period || m.Window() < sources.MinWindow || m.Window()%time.Minute != 0 {
				t.Errorf("a window of %s", m.Window())
			}
			q := e.promQL(t)
			gaps := func(window time.Duration) (none int) {
				t.Helper()
				traffic := `sum(rate(ai_model_requests_total{job="failback"}[` + model.Duration(window).String() + `]))`
				for i := range 120 {
					at := begin.Add(time.Duration(i) * time.Second)
					for _, question := range []struct {
						promQL      string
						want, least float64 // a rate is less where the window begins at the scrape that failed
					}{{traffic, 100 / period.Seconds(), 0.6}, {promql.New(`job="failback"`, window).Ratio(), 0.25, 0.995}} {
						v, _, _, err := q.Query(t.Context(), question.promQL, at)
						if err != nil {
							t.Fatal(err)
						}
						got, ok := v.(model.Vector)
						if !ok || len(got) != 1 || float64(got[0].Value) < question.want*question.least || float64(got[0].Value) > question.want*1.005 {
							none++
						}
					}
				}
				return none
			}
			if n := gaps(m.Window()); n != 0 {
				t.Errorf("%d gaps over %s", n, m.Window())
			}
			if gaps(period*2) == 0 {
				t.Error("no gap over two scrapes: nothing is tested here")
			}
		})
	}
}

// Buckets as they come, through a real engine: those that are broken are no
// number, and a quantile over the highest bound is over it.
func TestPQL12Engine(t *testing.T) {
	tests := []struct {
		name    string
		buckets map[string]int // per scrape
		state   string
		over    bool
		value   float64
	}{
		{"whole", map[string]int{"1": 9, "2": 10, "60": 10, "+Inf": 10}, api.StateValue, false, 1.5},
		{"all over the highest bound", map[string]int{"1": 0, "2": 0, "60": 0, "+Inf": 10}, api.StateValue, true, 60},
		{"+Inf is missing", map[string]int{"1": 9, "2": 10, "60": 10}, api.StateNone, false, 0},
		{"+Inf is 0", map[string]int{"1": 9, "2": 10, "60": 10, "+Inf": 0}, api.StateNone, false, 0},
		{"not cumulative", map[string]int{"1": 9, "2": 1, "60": 0, "+Inf": 10}, api.StateNone, false, 0},
	}
	e := newEngine(t)
	now := time.Now().Add(-time.Hour)
	for i := range 24 {
		var b strings.Builder
		for set, tt := range tests {
			for le, n := range tt.buckets {
				fmt.Fprintf(&b, "ai_model_first_output_seconds_bucket{set=\"%d\",le=%q} %d\n", set, le, i*n)
			}
			fmt.Fprintf(&b, "ai_model_first_output_seconds_count{set=\"%d\"} %d\n", set, 10*i)
		}
		e.scrape(t, now.Add(time.Duration(i-22)*every), b.String())
	}
	for set, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := look(t, e.of(t, fmt.Sprintf(`set="%d"`, set), every))
			if r := v.FirstOutputP95Before; r.State != tt.state || r.Over != tt.over || !near(r.Value, tt.value) {
				t.Errorf("%+v, warnings %q; want %s, %g, over %t", r, v.Warnings, tt.state, tt.value, tt.over)
			}
		})
	}
}

// TestPQL13OneOfTwo: where one of two gateways is scraped no more the numbers are
// fresh and whole to look at, and are of the other alone.
func TestPQL13OneOfTwo(t *testing.T) {
	e := newEngineOf(t, map[string]string{"job": "failback"})
	now := time.Now()
	of := func(instance string, n int) string {
		return fmt.Sprintf(`ai_model_requests_total{instance=%q,model="m",provider="p",route="primary",outcome="completed"} %d
ai_fallback_triggered_total{instance=%[1]q,model="m",primary="p",task_type="unnamed",reason="server_error"} 0
`, instance, 100*n)
	}
	for n := range 30 {
		at := now.Add(time.Duration(n-30) * every)
		body := of("gw-2", n)
		if n < 12 {
			body += of("gw-9", n)
		}
		e.scrape(t, at, body)
	}
	a := e.client.Overview(t.Context(), 1)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	if got := a.Value.Warnings; a.Value.Ratio.State != api.StateValue || a.Value.Ratio.Value != 0 || len(got) != 1 || got[0] != "gw-9: there were samples within 15m, there are none any more" {
		t.Errorf("%+v, %q", a.Value.Ratio, got)
	}
}

// A target that is gone while Prometheus answers on, seen from a host whose clock
// is three minutes off: the age is the true one, and the difference is known.
func TestPQL13DeadTarget(t *testing.T) {
	e := newEngine(t)
	now := time.Now()
	rising(t, e, now, 24, 4*time.Minute) // look-back serves its samples still
	for _, off := range []time.Duration{-3 * time.Minute, 0, 3 * time.Minute} {
		feed := sources.Feed[sources.Overview]{Period: e.client.Period()}
		gen, _ := feed.Ask(time.Now().Add(off))
		a := e.client.Overview(t.Context(), gen)
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		// As a host would have it whose clock is off.
		a.Clock.Sent, a.Clock.Received = a.Clock.Sent.Add(off), a.Clock.Received.Add(off)
		feed.Take(a)
		here := time.Now().Add(off)
		n := feed.Number(a.Value.Ratio.Number, here)
		if n.State != sources.Unknown || n.Age < 4*time.Minute-time.Second || n.Age > 4*time.Minute+30*time.Second {
			t.Errorf("off by %s: %s, %s old, want unknown and 4m", off, n.State, n.Age)
		}
		if skew := feed.Clock().Skew(); (skew + off).Abs() > 2*time.Second {
			t.Errorf("off by %s: a skew of %s", off, skew)
		}
		if feed.Failing(here) {
			t.Error("prometheus answers: only its target is dead")
		}
	}
}
