package ui

import (
	"time"

	"failback/gateway/operator/api"
)

// judged are the situations of a gateway that measures health and evidence that
// the laws are checked in.
var judged = []situation{
	{"suspect", func(m *model) { give(m, suspectState(), nil, decisionsOf("primary_completed")) }},
	{"healths", func(m *model) {
		s := incidentState()
		for i, h := range []string{api.Degraded, api.Healthy, api.Suspect, api.Recovering} {
			u := &s.Upstreams[i]
			u.Health, u.HealthSince, u.HealthBy = h, u.Since, "auto"
		}
		give(m, s, incidentEvents(), decisionsOf("upstream_degraded"))
		keep(m, incidentNumbers())
	}},
	{"degraded-passed", func(m *model) { give(m, degradedState(true), degradedEvents(), decisionsOf("upstream_degraded")) }},
	{"degraded-failback", func(m *model) { give(m, degradedState(false), degradedEvents(), nil); keys(m, "b") }},
	{"recovering-dialog", func(m *model) { recovering(m); keys(m, "W", ">") }},
	{"retreated", func(m *model) { retreated(m); keys(m, "b") }},
	{"planned", func(m *model) { planned(m); keys(m, "b") }},
	{"plan-dialog", func(m *model) { recovering(m); keys(m, "W", "p") }},
	{"shared-fault", func(m *model) { give(m, sharedFaultState(), incidentEvents(), decisionsOf("shared_fault")) }},
	{"own-work", func(m *model) { give(m, ownWorkState(), nil, decisionsOf("primary_completed")) }},
}

// These differ from them in a row or two.
func init() {
	alike = append(alike, []situation{
		{"degraded-failing", func(m *model) { give(m, degradedState(false), degradedEvents(), decisionsOf("upstream_degraded")) }},
		{"recovering-nodata", func(m *model) { recovering(m); keys(m, "b") }},
		{"recovering-overview", recovering},
		{"recovering-passed", func(m *model) { give(m, passedState(), recoveringEvents(), decisionsOf("primary_completed")) }},
		{"queue-waiter", func(m *model) { give(m, passedState(), recoveringEvents(), nil); keys(m, "w") }},
		{"recover-dialog", func(m *model) { give(m, degradedState(true), degradedEvents(), nil); keys(m, "W", ">") }},
		{"recover-failing-dialog", func(m *model) { give(m, degradedState(false), degradedEvents(), nil); keys(m, "W", ">") }},
		{"failing-dialog", func(m *model) { failing(m); keys(m, "W", ">") }},
		{"failing", func(m *model) { failing(m); keys(m, "b") }},
		{"plan-back-dialog", func(m *model) { planned(m); keys(m, "W", "p") }},
		{"degrade-dialog", func(m *model) { planned(m); keys(m, "W", "D") }},
		{"demo-windows", func(m *model) {
			s := recoveringState()
			s.Demo = "a demonstration: no provider is asked"
			s.Failback.Steps = []api.FailbackStep{{Share: 5, ObserveSeconds: 20}, {Share: 25, ObserveSeconds: 20}, {Share: 75, ObserveSeconds: 20}, {Share: 100}}
			s.Upstreams[0].Steps = s.Failback.Steps
			e := s.Upstreams[0].Evidence
			e.ObserveSeconds, e.ServedSeconds, e.EnoughInSeconds, e.Rows[0].Text = 20, 12, 8, "served 12s of 20s"
			s.Upstreams[0].NextStep.BlockedBy = "evidence no data: window served 12s of 20s; enough in about 8s"
			give(m, s, degradedEvents(), nil)
			keys(m, "b")
		}},
	}...)
}

func ago(d time.Duration) time.Time { return time.Now().Add(-d) }

// signalsOf are the signals of an upstream whose error rate has a colour.
func signalsOf(colour, value string, since time.Duration) []api.Signal {
	at := ago(2 * time.Second)
	return []api.Signal{
		{Group: "traffic", Name: "error_rate", Colour: colour, Value: value, At: at, Since: ago(since), BlindSpot: "sees requests that came: not what a request of another kind would meet"},
		{Group: "traffic", Name: "success", Colour: api.Green, Value: "8 succeeded in 10s", At: at, Since: ago(6 * time.Hour), BlindSpot: "one success is enough: says nothing of how many fail"},
		{Group: "traffic", Name: "breaker", Colour: api.Green, Value: "stream closed, text closed", At: at, Since: ago(6 * time.Hour), BlindSpot: "sees capabilities that were asked for"},
		{Group: "probe", Name: "probe", Colour: api.Green, Value: "2 of 2 passed", At: ago(41 * time.Second), Since: ago(6 * time.Hour), BlindSpot: "a small request from here: not the load, the size or the region of clients"},
		{Group: "expiry", Name: "credential", Colour: api.Unknown, Value: "no date of expiry is configured", BlindSpot: "knows the configured date; a key that is withdrawn shows when it is used"},
		{Group: "expiry", Name: "certificate", Colour: api.Green, Value: "expires in 61d", At: ago(5 * time.Hour), Since: ago(50 * time.Hour), BlindSpot: "the one of the last handshake: other servers behind the name may show another"},
	}
}

// healthyState is the state of a gateway that measures, and all is well.
func healthyState() api.State {
	s := baseState()
	s.Upstreams = []api.Upstream{
		up("anthropic-us-east-1", "us-east-1", true, 412),
		up("vertex-us-central1", "us-central1", false, 0.8),
		up("bedrock-us-west-2", "us-west-2", false, 0),
	}
	s.Upstreams[2].RPS, s.Upstreams[2].ErrorRatio, s.Upstreams[2].FirstOutputP95 = val(0), idle(), idle()
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		u.Health, u.HealthSince, u.HealthBy, u.Signals = api.Healthy, ago(50*time.Hour), "auto", signalsOf(api.Green, "0/20 failed", 6*time.Hour)
	}
	s.Upstreams[0].Elsewhere = []string{"vertex-us-central1", "bedrock-us-west-2"}
	s.Store.Kind, s.Notify = "embedded", api.Notify{Configured: true, LastOK: ago(time.Hour)}
	s.Jobs = []api.Job{{Name: "probes", EverySeconds: 15, LastSuccess: ago(4 * time.Second)}}
	return s
}

func suspectState() api.State {
	s := healthyState()
	u := &s.Upstreams[0]
	u.Health, u.HealthSince, u.HealthReason, u.ErrorRatio = api.Suspect, ago(12*time.Second), "error_rate red", val(0.6)
	u.Signals = signalsOf(api.Red, "12/20 failed", 12*time.Second)
	return s
}

func probesOf(passed bool) []api.Probe {
	cost := api.Number{State: api.StateValue, Value: 0.0041, At: time.Now()}
	ps := []api.Probe{
		{Model: "claude-sonnet-4-5", Capability: "stream", Result: "ok", At: ago(4 * time.Second), NextAt: time.Now().Add(11 * time.Second), Passed: 3, SpentUSD: cost},
		{Model: "claude-sonnet-4-5", Capability: "text", Result: "ok", At: ago(4 * time.Second), NextAt: time.Now().Add(11 * time.Second), Passed: 2, SpentUSD: cost},
	}
	if !passed {
		p := &ps[1]
		p.Result, p.Detail, p.Passed, p.Failed = "server_error", "HTTP 500", 0, 4
		ps = append(ps, api.Probe{Model: "claude-haiku-4-5", Capability: "text", Held: "its daily cost is used up", SpentUSD: api.Number{State: api.StateValue, Value: 0.05, At: time.Now()}})
	}
	return ps
}

func degradedState(passed bool) api.State {
	s := healthyState()
	u := &s.Upstreams[0]
	u.Health, u.HealthSince, u.HealthBy, u.HealthReason = api.Degraded, ago(24*time.Minute), "auto", "two independent groups red for 30s: error_rate 12/20 failed, probe 1 of 2 failed"
	u.Share, u.Revision, u.Since, u.StateBy, u.StateWhy, u.FailbackID = 0, 131, ago(24*time.Minute), "auto", "", "2026113003"
	u.Live, u.RPS, u.ErrorRatio, u.FirstOutputP95, u.OwnRPS = val(0), val(0), idle(), idle(), val(408)
	u.Steps, u.Probes, u.NextStep = s.Failback.Steps, probesOf(passed), api.NextStep{Share: 5}
	u.Signals = signalsOf(api.Unknown, "too little traffic: 0 in 1m, 20 needed", 23*time.Minute)
	if !passed {
		u.NextStep.BlockedBy = "1 of 3 candidates and capabilities passed their last two probes; text of claude-sonnet-4-5: server_error"
		u.Breakers[1] = bucket(u.Name, "text", "open", 24*time.Minute)
		u.Breakers[1].Reason, u.Breakers[1].Detail, u.Breakers[1].NextProbeAt = "server_error", "12/20 failed (server_error x12)", time.Now().Add(11*time.Second)
		u.Signals[3].Colour, u.Signals[3].Value, u.Signals[3].Since = api.Red, "1 of 2 failed: text server_error", ago(25*time.Minute)
	}
	s.Traffic.FallbackRatio, s.Traffic.FallbackRPS = val(0.381), val(157)
	return s
}

// stepped is a change of the first upstream's share.
func stepped(seq, rev uint64, before time.Duration, by, from, to, reason, detail string) api.Event {
	return api.Event{Seq: seq, Event: "traffic_step", Time: ago(before), Provider: "anthropic-us-east-1", From: from, To: to, By: by, Reason: reason, Detail: detail, Action: "share", Result: "ok", Revision: rev}
}

func degradedEvents() []api.Event {
	return []api.Event{
		{Seq: 1, Event: "breaker_transition", Time: ago(1480 * time.Second), Provider: "anthropic-us-east-1", Capability: "text", From: "closed", To: "open", Reason: "failure_rate", Detail: "12/20 failed (server_error x12)"},
		{Seq: 2, Event: "health_transition", Time: ago(1470 * time.Second), Provider: "anthropic-us-east-1", From: "healthy", To: "suspect", Reason: "red", Detail: "error_rate 12/20 failed", By: "auto", Result: "ok"},
		stepped(3, 131, 24*time.Minute, "auto", "100", "0", "degraded", "failback 2026-11-30T03: two independent groups red for 30s"),
		{Seq: 4, Event: "health_transition", Time: ago(24 * time.Minute), Provider: "anthropic-us-east-1", From: "suspect", To: "degraded", Action: "state", Reason: "two_groups", Detail: "two independent groups red for 30s: error_rate 12/20 failed", By: "auto", Result: "ok", Revision: 131},
	}
}

func row7(verdicts map[string]string, texts map[string]string) []api.EvidenceRow {
	var rows []api.EvidenceRow
	for _, r := range []api.EvidenceRow{
		{Name: "window", Text: "served 8m20s of 10m"}, {Name: "requests", Text: "1930, at least 50 asked"}, {Name: "success", Text: "99.7% of 1930, at least 98.7% asked"},
		{Name: "first_output", Text: "p95 1.1s of 1930, at most 1.5s asked"}, {Name: "classes", Text: "none that is new"}, {Name: "breaker", Text: "did not open"}, {Name: "probes", Text: "12 passed, 0 failed"},
	} {
		r.Verdict = api.Pass
		if v := verdicts[r.Name]; v != "" {
			r.Verdict = v
		}
		if t := texts[r.Name]; t != "" {
			r.Text = t
		}
		rows = append(rows, r)
	}
	return rows
}

// recoveringState is at its first step, with too few requests to tell.
func recoveringState() api.State {
	s := degradedState(true)
	u := &s.Upstreams[0]
	u.Health, u.HealthSince, u.HealthBy, u.HealthReason = api.Recovering, ago(6*time.Minute), "ana", "probe ok, ticket 4412"
	u.Share, u.Revision, u.Since, u.StateBy, u.StateWhy = 5, 132, ago(6*time.Minute), "ana", "probe ok, ticket 4412"
	u.Live, u.RPS, u.OwnRPS, u.ErrorRatio, u.FirstOutputP95 = val(0.048), val(0.1), val(1.9), val(0), val(1.2)
	u.NextStep = api.NextStep{Share: 25, BlockedBy: "evidence no data: window served 6m of 10m; enough in about 4m"}
	u.Signals = signalsOf(api.Green, "0/31 failed", 6*time.Minute)
	u.Evidence = &api.Evidence{
		Verdict: api.NoData, At: ago(time.Second), Share: 5, ObserveSeconds: 600, ServedSeconds: 360, Requests: 31, Success: val(1), FirstOutputP95: val(1.2), EnoughInSeconds: 240,
		BaselineSource: "history", BaselineRequests: 120400, BaselineSuccess: 0.997, BaselineFirstOutputP95: 1,
		Rows: row7(map[string]string{"window": api.NoData, "requests": api.NoData, "success": api.NoData, "first_output": api.NoData}, map[string]string{
			"window": "served 6m of 10m", "requests": "31, at least 50 asked", "success": "100% of 31, at least 98.7% asked; sure after 240 more if they go as usual",
			"first_output": "p95 1.2s of 31, at most 1.5s asked; not sure yet", "probes": "6 passed, 0 failed",
		}),
	}
	return s
}

func recoveringEvents() []api.Event {
	return append(degradedEvents(),
		stepped(5, 132, 6*time.Minute, "ana", "0", "5", "raised", "failback 2026-11-30T03"),
		api.Event{Seq: 6, Event: "health_transition", Time: ago(6 * time.Minute), Provider: "anthropic-us-east-1", From: "degraded", To: "recovering", Action: "state", Reason: "raised", By: "ana", Why: "probe ok, ticket 4412", Result: "ok", Revision: 132})
}

func recovering(m *model) {
	give(m, recoveringState(), recoveringEvents(), decisionsOf("primary_completed"))
}

// failing is at 25 %, and its evidence fails.
func failingState() api.State {
	s := recoveringState()
	u := &s.Upstreams[0]
	u.Share, u.Revision, u.Since, u.StateWhy = 25, 133, ago(4*time.Minute), "5% held"
	u.Live, u.RPS, u.OwnRPS, u.ErrorRatio = val(0.246), val(100.4), val(408), val(0.031)
	u.NextStep = api.NextStep{Share: 75, BlockedBy: "evidence fail: success 96.9% of 4112, at least 98.7% asked"}
	e := u.Evidence
	e.Verdict, e.Share, e.ObserveSeconds, e.ServedSeconds, e.Requests, e.Failed, e.Success, e.FirstOutputP95, e.EnoughInSeconds = api.Fail, 25, 900, 240, 4112, 127, val(0.969), val(1.4), 0
	e.Rows = row7(map[string]string{"window": api.NoData, "success": api.Fail, "classes": api.Fail}, map[string]string{
		"window": "served 4m of 15m", "requests": "4112, at least 50 asked", "success": "96.9% of 4112, at least 98.7% asked",
		"first_output": "p95 1.4s of 4112, at most 1.5s asked", "classes": "overloaded is new: 41 of 4112 requests",
	})
	return s
}

func failingEvents() []api.Event {
	return append(recoveringEvents(), stepped(7, 133, 4*time.Minute, "ben", "5", "25", "raised", "failback 2026-11-30T03"))
}

func failing(m *model) { give(m, failingState(), failingEvents(), decisionsOf("primary_completed")) }

// retreated came back from 25 % by itself.
func retreated(m *model) {
	s := recoveringState()
	u := &s.Upstreams[0]
	u.Revision, u.Since, u.StateBy, u.StateWhy, u.Retreats, u.HealthBy = 134, ago(40*time.Second), "auto", "", 1, "auto"
	u.HealthReason = "retreat from 25%: success 96.9% of 4112, at least 98.7% asked"
	u.Evidence.ServedSeconds, u.Evidence.Requests, u.Evidence.EnoughInSeconds = 40, 4, 560
	es := append(failingEvents(), stepped(8, 134, 40*time.Second, "auto", "25", "5", "retreat", "failback 2026-11-30T03: success 96.9% of 4112, at least 98.7% asked"))
	give(m, s, es, decisionsOf("primary_completed"))
}

// planned goes by itself.
func planned(m *model) {
	s := failingState()
	u := &s.Upstreams[0]
	u.Plan = &api.Plan{By: "ana", At: ago(5 * time.Minute)}
	u.NextStep.BlockedBy = ""
	e := u.Evidence
	e.Verdict, e.ServedSeconds, e.Failed, e.Success = api.Pass, 528, 14, val(0.996)
	e.Rows = row7(map[string]string{"window": api.NoData}, map[string]string{"window": "served 8m48s of 15m", "requests": "4112, at least 50 asked", "success": "99.6% of 4112, at least 98.7% asked"})
	es := append(failingEvents(), api.Event{Seq: 9, Event: "traffic_step", Time: ago(5 * time.Minute), Provider: u.Name, Action: "plan", Reason: "approved", By: "ana", Why: "all quiet", Result: "ok", Revision: 133})
	give(m, s, es, decisionsOf("primary_completed"))
}

func sharedFaultState() api.State {
	s := healthyState()
	s.SharedFault = &api.SharedFault{
		Since: ago(130 * time.Second), Reason: "path", Detail: "connect: network is unreachable", NextProbeAt: time.Now().Add(12 * time.Second),
		Upstreams: []string{"anthropic-us-east-1", "vertex-us-central1"},
	}
	s.Dependencies = []api.Dependency{{Name: "egress proxy", Domain: "net/egress", Kind: "tcp", Result: "failed", Detail: "connection refused", At: time.Now(), Since: ago(140 * time.Second), Upstreams: []string{"anthropic-us-east-1", "vertex-us-central1"}}}
	for i := range 2 {
		u := &s.Upstreams[i]
		u.Health, u.HealthSince, u.Signals = api.Suspect, ago(130*time.Second), signalsOf(api.Red, "20/20 failed", 130*time.Second)
		u.Breakers[0] = bucket(u.Name, "stream", "open", 128*time.Second)
		u.Breakers[0].Reason, u.Breakers[0].NextProbeAt = "connect", time.Now().Add(12*time.Second)
		u.ErrorRatio = val(1)
	}
	s.Traffic.FailedRatio = val(0.97)
	return s
}

func ownWorkState() api.State {
	s := healthyState()
	s.Jobs = append(s.Jobs, api.Job{Name: "baseline", EverySeconds: 60, LastSuccess: ago(11 * time.Minute), Late: true, Error: "data/history: no space left on device"})
	s.Notify = api.Notify{Configured: true, Pending: 3, Oldest: ago(4 * time.Minute), LastError: "connection refused", LastErrorAt: ago(9 * time.Second)}
	s.Store = api.Store{Kind: "embedded", Error: "no space left on device", Since: ago(12 * time.Minute)}
	s.Upstreams[1].Unsynced = true
	return s
}
