package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/sources"
)

// lawful are the situations of numbers and of the step table that the laws are
// checked in.
var lawful = []situation{
	{"prom-down", func(m *model) { incident(m); silence(m, 130*time.Second, false) }},
	{"prom-partial", func(m *model) {
		calm(m)
		k := calmNumbers()
		k.addr, k.overview.Warnings = "https://prom.example", []string{"store prom-2 did not answer", "fallback by model: 3 without the label model left out"}
		k.lines.none = true
		keep(m, k)
	}},
	{"ratio-zero", ratioOf(read(0), "000000iii000000000   000000000")},
	{"over-blind", func(m *model) {
		overOf(sources.Over{State: sources.OverSince, Since: time.Now().Truncate(time.Minute).Add(-25 * time.Minute), Blind: true})(m)
	}},
	{"failback", func(m *model) { comeback(m); keys(m, "b") }},
	{"failback-armed", func(m *model) { comeback(m); keys(m, "W", "b") }},
	{"failback-blocked", func(m *model) { incident(m); keys(m, "b") }},
	{"failback-down", func(m *model) { comeback(m); keys(m, "b"); silence(m, 12*time.Second, true) }},
	{"failback-frozen", func(m *model) { comeback(m); keys(m, "b", "f"); bubble.Sleep(12 * time.Second); calm(m) }},
	{"failback-gone", func(m *model) {
		comeback(m)
		keys(m, "b")
		s := incidentState()
		s.Upstreams = s.Upstreams[1:]
		give(m, s, nil, nil)
	}},
}

// alike differ from those in a row or two: they have goldens, and TestRowsFit.
var alike = []situation{
	{"all-down", func(m *model) { incident(m); silence(m, 130*time.Second, true) }},
	{"prom-ageing", func(m *model) { incident(m); bubble.Sleep(32 * time.Second); give(m, incidentState(), nil, nil) }},
	{"prom-stands-still", func(m *model) {
		incident(m)
		k := incidentNumbers()
		bubble.Sleep(2 * time.Minute)
		give(m, incidentState(), nil, nil)
		answerKept(m, k)
	}},
	{"prom-off", func(m *model) {
		s := incidentState()
		s.Sources.Prometheus.Error = "data/metrics: no space left on device"
		s.Sources.Loki.Error = "data/log: permission denied"
		give(m, s, incidentEvents(), decisionsOf("breaker_open"))
		k := incidentNumbers()
		k.err, k.lines.err = errors.New("the gateway's own is off"), errors.New("the gateway's own is off")
		keep(m, k)
	}},
	{"ratio-first", func(m *model) { calm(m); k := calmNumbers(); connectOnly(m, k) }},
	{"ratio-idle", ratioOf(readAs(api.StateIdle, "no requests in 5m"), "iiiiiiiiiiiiiiiiiiiiiiiiiiiiii")},
	{"ratio-none", func(m *model) {
		ratioOf(sources.Reading{Number: api.Number{State: api.StateNone}, Why: "no series ai_model_requests_total: check the selector and the target"}, "                              ")(m)
	}},
	{"ratio-waiting", ratioOf(readAs(sources.StateWaiting, "a rate needs two samples of ai_model_requests_total"), "                            ii")},
	{"ratio-unknown", ratioOf(readAs(sources.StateUnknown, "the ratio is no number"), "000000000000000000000000000000")},
	{"over-longer", overOf(sources.Over{State: sources.OverLonger})},
	{"no-limit", func(m *model) {
		s := incidentState()
		s.Limit = nil
		give(m, s, incidentEvents(), decisionsOf("breaker_open"))
		k := incidentNumbers()
		k.history.Over = sources.Over{}
		keep(m, k)
	}},
	{"failback-whole", func(m *model) { calm(m); keys(m, "b") }},
	{"failback-spare", func(m *model) { incident(m); keys(m, "j", "b") }},
	{"failback-never", func(m *model) { keys(m, "b") }},
	{"detail-numbers", func(m *model) { comeback(m); keys(m, "enter") }},
}

func init() { situations = slices.Concat(situations, lawful, judged) }

// TestGoldenSizes has the situations of this file at each size.
func TestGoldenSizes(t *testing.T) {
	for _, s := range slices.Concat(lawful, judged, alike) {
		for _, size := range []struct{ w, h int }{{100, 30}, {80, 24}, {60, 20}, {40, 12}} {
			t.Run(fmt.Sprintf("%s/%dx%d", s.name, size.w, size.h), func(t *testing.T) {
				inSituation(t, s.name, size.w, size.h, func(t *testing.T, m *model) {
					golden(t, fmt.Sprintf("%s/%dx%d.txt", s.name, size.w, size.h), screenOf(m))
				})
			})
		}
	}
	for _, name := range []string{"incident", "ratio-zero", "failback"} {
		t.Run(name+"/ascii", func(t *testing.T) {
			inSituation(t, name, 100, 30, func(t *testing.T, m *model) {
				m.th.ascii = true
				m.gl = m.th.glyphs()
				golden(t, name+"/100x30-ascii.txt", screenOf(m))
			})
		})
	}
}

// TestRowsFit is the width law for the rows in which alike differ.
func TestRowsFit(t *testing.T) {
	for _, s := range alike {
		inSituation(t, s.name, 100, 30, func(t *testing.T, m *model) {
			for w := tinyWidth; w <= 200; w++ {
				m.width = w
				rows := []row{m.freshness(w), m.users(&m.live, m.now, w), m.fallback(&m.live, m.now, w)}
				rows = append(rows, m.failbackBody(w)...)
				for _, r := range rows {
					if n := r.fit(w, m.gl.cut).width(); n > w {
						t.Fatalf("%s, %d columns: %d: %q", s.name, w, n, r.text())
					}
				}
				for i, r := range rows[:3] {
					if r.width() > w && w >= 60 {
						t.Errorf("%s, %d columns: row %d does not fit: %q", s.name, w, i, r.text())
					}
				}
			}
		})
	}
}

// remoteError is what sources makes of an answer with a status and a body, of a
// way that fails with err if that is set.
func remoteError(status int, body string, err error) error {
	_, lines, _ := sources.Connect(wayTo{status, body, err}, api.Sources{}, func(string) (string, bool) { return "", false })
	return lines.Query(context.Background(), 1, sources.LogQuery{Query: "{}"}).Err
}

// wayTo answers without a network.
type wayTo struct {
	status int
	body   string
	err    error
}

func (w wayTo) Transport() http.RoundTripper { return w }
func (wayTo) BaseURL() string                { return "http://gateway" }

func (w wayTo) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.err != nil {
		return nil, w.err
	}
	return &http.Response{StatusCode: w.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(w.body)), Request: r}, nil
}

// silence lets d pass in which Prometheus and Loki do not answer, nor does the
// gateway if all is set.
func silence(m *model, d time.Duration, all bool) {
	bubble.Sleep(d)
	if all {
		refuseConnection(m)
	} else {
		give(m, incidentState(), nil, decisionsOf("breaker_open"))
	}
	k := incidentNumbers()
	k.err = remoteError(0, "", syscall.ECONNREFUSED)
	k.lines.err = remoteError(503, "no quorum", nil)
	answerKept(m, k)
}

// connectOnly connects without an answer.
func connectOnly(m *model, k kept) {
	keep(m, k)
	m.live.metrics = sources.Feed[sources.Overview]{Period: k.Period()}
	m.live.history = sources.Feed[sources.History]{Period: 2 * sources.HistoryEvery}
	m.live.loki = sources.Feed[sources.LogAnswer]{Period: probeEvery}
	for _, f := range []func(){func() { m.live.metrics.Ask(m.now) }, func() { m.live.history.Ask(m.now) }, func() { m.live.loki.Ask(m.now) }} {
		f()
	}
}

func ratioOf(r sources.Reading, spark string) func(*model) {
	state, value, why := r.State, r.Value, r.Why
	return func(m *model) {
		calm(m)
		k := calmNumbers()
		now := readAs(state, why)
		now.Value = value
		if state == api.StateNone { // nothing was ever sampled
			now.At, k.overview.Sampled = time.Time{}, time.Time{}
		}
		k.overview.Ratio, k.overview.Traffic, k.overview.PerModel, k.overview.PerUpstream = now, now, nil, nil
		k.history = sources.History{Spark: sparkOf(spark)}
		keep(m, k)
	}
}

func overOf(o sources.Over) func(*model) {
	return func(m *model) {
		incident(m)
		k := incidentNumbers()
		k.history.Over = o
		if o.State == sources.OverLonger {
			k.history.Over.Since = time.Now().Add(-sources.HistoryRange)
		}
		keep(m, k)
	}
}

// comeback is an upstream on its way back, at its second step, with the history
// of how it came there.
func comeback(m *model) {
	now := time.Now()
	s := incidentState()
	u := &s.Upstreams[0]
	u.Share, u.Revision, u.Since, u.StateBy, u.StateWhy = 25, 133, now.Add(-192*time.Second), "ben", "5% held, ticket 4412"
	u.Live, u.RPS, u.ErrorRatio, u.FirstOutputP95 = val(0.246), val(100.4), val(0.004), val(1.2)
	u.NextStep, u.Stranded = api.NextStep{Share: 75}, nil
	u.Breakers[1] = bucket(u.Name, "text", "closed", 17*time.Minute)
	step := func(seq, rev uint64, ago time.Duration, by, from, to, why string) api.Event {
		return api.Event{Seq: seq, Event: "traffic_step", Time: now.Add(-ago), Provider: u.Name, From: from, To: to, By: by, Why: why, Action: "share", Result: "ok", Revision: rev}
	}
	es := append(incidentEvents()[:5:5],
		step(7, 132, 832*time.Second, "ana", "0", "5", "probe ok"),
		step(8, 133, 192*time.Second, "ben", "5", "25", "5% held, ticket 4412"),
	)
	give(m, s, es, decisionsOf("primary_completed"))
	k := incidentNumbers()
	k.overview.Ratio, k.overview.PerUpstream[1].Reading, k.overview.PerModel[0].Reading = read(0.301), read(0.754), read(0.301)
	keep(m, k)
}
