package text

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"failback/gateway/operator/api"
)

// troubled is one of everything that health, evidence and the gateway's own
// work may say; h is put wherever text comes from outside.
func troubled(h string) *api.State {
	val := func(v float64) api.Number { return api.Number{State: api.StateValue, Value: v, At: now} }
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	s := stateWith(h)
	s.SharedFault = &api.SharedFault{Since: ago(130 * time.Second), Reason: "path" + h, Detail: "connect refused" + h, Upstreams: []string{"vertex" + h, "openai"}, NextProbeAt: now.Add(12 * time.Second)}
	s.Dependencies = []api.Dependency{
		{Name: "corp dns" + h, Domain: "dns/corp", Kind: "dns", Result: "failed", Detail: "no answer" + h, Since: ago(3 * time.Minute), At: now, Upstreams: []string{"vertex" + h}},
		{Name: "egress", Domain: "net/egress", Kind: "tcp", Result: "ok"},
	}
	s.Jobs = []api.Job{
		{Name: "probes" + h, EverySeconds: 15, LastSuccess: ago(4 * time.Minute), Late: true, Error: "deadline" + h},
		{Name: "retention", EverySeconds: 3600, Late: true},
		{Name: "fine", EverySeconds: 5, LastSuccess: now},
	}
	s.Notify = api.Notify{Configured: true, Pending: 3, Oldest: ago(4 * time.Minute), LastError: "connection refused" + h, LastErrorAt: ago(9 * time.Second), Lost: 2}
	s.Ping = api.Ping{Configured: true, Held: "late: probes" + h, LastOK: ago(5 * time.Minute), LastError: "it answers 500", LastErrorAt: ago(9 * time.Minute)}
	s.Store = api.Store{Kind: "embedded", Error: "no space left on device" + h, Since: ago(2 * time.Minute)}
	a, v, o := &s.Upstreams[0], &s.Upstreams[1], &s.Upstreams[2]
	a.Health, a.HealthSince, a.HealthBy, a.HealthReason = api.Degraded, ago(24*time.Minute), "auto", "error_rate and probe red for 30s"+h
	a.Signals = []api.Signal{
		{Group: "traffic", Name: "error_rate", Colour: api.Unknown, Value: "too little traffic" + h},
		{Group: "probe", Name: "probe", Colour: api.Red, Value: "1 of 2 failed" + h, At: ago(4 * time.Second), Since: ago(40 * time.Second)},
		{Group: "expiry", Name: "credential", Colour: api.Green, Value: "in 40d"},
	}
	a.Probes = []api.Probe{
		{Model: "claude-sonnet-4-5" + h, Capability: "stream", Result: "ok", Passed: 2, At: ago(4 * time.Second)},
		{Model: "claude-sonnet-4-5", Capability: "text" + h, Result: "server_error", Detail: "500" + h, Failed: 3, At: ago(4 * time.Second)},
		{Model: "claude-sonnet-4-5", Capability: "tools", Held: "daily cost used up" + h},
	}
	v.Health = api.Healthy
	o.Health, o.HealthSince, o.HealthBy, o.Retreats = api.Recovering, ago(8*time.Minute), "ana"+h, 1
	o.Plan = &api.Plan{By: "ana" + h, At: ago(10 * time.Minute)}
	o.Evidence = &api.Evidence{
		Verdict: api.NoData, At: ago(time.Second), Share: 25, ObserveSeconds: 900, ServedSeconds: 480, Requests: 31, Success: val(1), EnoughInSeconds: 246,
		BaselineSource: "history", BaselineRequests: 120400, BaselineSuccess: 0.997, BaselineFirstOutputP95: 1,
		Rows: []api.EvidenceRow{
			{Name: "window", Verdict: api.NoData, Text: "served 8m of 15m"},
			{Name: "first_output", Verdict: api.Fail, Text: "p95 1.9s of 31, at most 1.5s asked" + h},
			{Name: "classes" + h, Verdict: api.Pass, Text: "none that is new"},
		},
	}
	return s
}

func TestHealthText(t *testing.T) {
	s := troubled("")
	golden(t, "status-health.txt", Status(s))
	for line := range strings.Lines(Status(s)) {
		if n := Width(strings.TrimSuffix(line, "\n")); n > pageWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	golden(t, "evidence.txt", Evidence(&s.Upstreams[0], now)+"\n"+Evidence(&s.Upstreams[2], now))
	for l := range strings.SplitSeq(healths(s, now)+Evidence(&s.Upstreams[2], now), "\n") {
		if n := ansi.StringWidth(l); n > pageWidth {
			t.Errorf("%d columns: %q", n, l)
		}
	}
	// A gateway that measures no health says none, and a whole one has no lines.
	if got := healths(stateWith(""), now); got != "" {
		t.Errorf("of a gateway without health: %q", got)
	}
	for i := range s.Upstreams {
		s.Upstreams[i] = api.Upstream{Name: "a", Health: api.Healthy, Signals: []api.Signal{{Name: "probe", Colour: api.Green}}}
	}
	if got := healths(s, now); got != "" {
		t.Errorf("of healthy upstreams: %q", got)
	}
}

// The last two probes of each candidate and capability must have passed.
func TestRecovery(t *testing.T) {
	p := func(passed, failed int) api.Probe { return api.Probe{Passed: passed, Failed: failed} }
	for _, tt := range []struct {
		probes        []api.Probe
		verdict, says string
	}{
		{nil, api.NoData, "nothing is probed"},
		{[]api.Probe{p(2, 0), p(7, 0)}, api.Pass, "probes passed 2/2"},
		{[]api.Probe{p(2, 0), p(1, 0)}, api.NoData, "probes passed 2/2 for 1 of 2"},
		{[]api.Probe{p(2, 0), p(0, 0)}, api.NoData, "probes passed 2/2 for 1 of 2"},
		{[]api.Probe{p(2, 0), p(0, 1)}, api.Fail, "probes fail: 1 of 2"},
	} {
		if v, why := Recovery(&api.Upstream{Probes: tt.probes}, now); v != tt.verdict || why != tt.says {
			t.Errorf("%+v: %s, %q", tt.probes, v, why)
		}
	}
}

// An estimate is not more exact than it is, and there is none where nobody knows.
func TestEnough(t *testing.T) {
	for seconds, want := range map[float64]string{0: "", -1: "", 41: "enough in ~41s", 246: "enough in ~5 min", 3700: "enough in ~62 min", 9000: "enough in ~3 h"} {
		if got := Enough(&api.Evidence{EnoughInSeconds: seconds}); got != want {
			t.Errorf("%v: %q, want %q", seconds, got, want)
		}
	}
}

// A pass is one only once its window is over; a step to be held has none.
func TestVerdictAndWindow(t *testing.T) {
	for _, tt := range []struct {
		e            api.Evidence
		head, window string
	}{
		{api.Evidence{Verdict: api.Pass, Share: 5, ObserveSeconds: 600, ServedSeconds: 599, At: now}, "so far pass at 5%", "10m 1s left"},
		{api.Evidence{Verdict: api.Pass, Share: 5, ObserveSeconds: 600, ServedSeconds: 600, At: now.Add(-3 * time.Second)}, "pass at 5%, 3s old", "10m done"},
		{api.Evidence{Verdict: api.Fail, Share: 100, ServedSeconds: 9}, "fail at 100%", "hold"},
	} {
		if head, window := EvidenceHead(&tt.e, now), WindowLeft(&tt.e); head != tt.head || window != tt.window {
			t.Errorf("%+v: %q, %q; want %q, %q", tt.e, head, window, tt.head, tt.window)
		}
	}
	if got, want := RetreatIf(&api.Evidence{BaselineSuccess: 0.997, BaselineFirstOutputP95: 1}, &api.Failback{SuccessTolerance: 0.01, FirstOutputTolerance: 1.5}), "ok < 98.7%, p95 > 1.5s, a new class"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A health that is not measured is another thing than one that nothing is said of.
func TestHealthWords(t *testing.T) {
	for _, tt := range []struct {
		u    api.Upstream
		want string
	}{{api.Upstream{}, "??"}, {api.Upstream{Share: 100}, "none"}, {api.Upstream{Health: api.Recovering}, "RECOVERING"}} {
		if got := Health(&tt.u); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.u, got, tt.want)
		}
	}
}

// What has no error, no lateness and no loss is no notice.
func TestNoticesOfOwnWork(t *testing.T) {
	s := &api.State{
		Jobs: []api.Job{{Name: "fine"}}, Notify: api.Notify{Configured: true, Pending: 1}, Store: api.Store{Kind: "nats"},
		Dependencies: []api.Dependency{{Result: "ok"}, {Result: "unknown"}},
	}
	if ns := Notices(s, now); len(ns) != 0 {
		t.Errorf("%+v", ns)
	}
	s.Notify = api.Notify{LastError: "no webhook is configured"}
	s.Ping = api.Ping{LastError: "not configured any more"}
	if ns := Notices(s, now); len(ns) != 0 {
		t.Errorf("%+v", ns)
	}
	s.Ping = api.Ping{Configured: true, LastOK: now}
	if ns := Notices(s, now); len(ns) != 0 {
		t.Errorf("%+v", ns)
	}
	s.Ping.LastError, s.Ping.LastErrorAt, s.Ping.LastOK = "it answers 500", now.Add(-9*time.Second), now.Add(-2*time.Minute)
	if ns := Notices(s, now); len(ns) != 1 || ns[0].Word != "PING" || ns[0].Text != "the dead man's switch does not answer: it answers 500, 9s ago; last held 2m ago" {
		t.Errorf("%+v", ns)
	}
}

// A probe that its breaker holds is sent soon: that is not said as if somebody
// had to see to it, and not at all of one that proved enough.
func TestAProbeThatItsBreakerHolds(t *testing.T) {
	p := api.Probe{Model: "m", Capability: "tools", Result: "overloaded", Failed: 3, Held: "breaker_open"}
	if v, why := ProbeStanding(&p, now); v != api.Fail || why != "tools of m: overloaded, 3 failed in a row; next when its breaker lets one through" {
		t.Errorf("%s: %s", v, why)
	}
	p = api.Probe{Model: "m", Capability: "tools", Result: "ok", Passed: 2, Held: "breaker_open"}
	if v, why := ProbeStanding(&p, now); v != api.Pass || why != "tools of m: the last 2 passed" {
		t.Errorf("%s: %s", v, why)
	}
}
