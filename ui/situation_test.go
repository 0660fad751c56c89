package ui

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/sources"
)

// nobody is an API that must not be asked: Update and View do no I/O.
type nobody struct{ sources.API }

func (nobody) Target() string { return "unix:data/failback.sock" }

// begin is when every situation begins, by the clock of the bubble that a test
// of one runs in.
func begin() { bubble.Sleep(4*time.Hour + 12*time.Minute + 31*time.Second) }

func testModel(w, h int) *model {
	m := newModel(context.Background(), Options{Client: nobody{}, Version: "v1.2.3", DataDir: "data"})
	m.zone = time.FixedZone("", 2*3600)
	m.Update(tea.WindowSizeMsg{Width: w, Height: h})
	return m
}

// give answers the three questions of the console as a gateway in good order
// does.
func give(m *model, s api.State, es []api.Event, ds []api.Decision) {
	now := time.Now()
	s.At = now
	for i := range s.Upstreams {
		if u := &s.Upstreams[i]; u.RevisedBy == "" {
			u.RevisedBy, u.RevisedAt = u.StateBy, u.Since
		}
	}
	clock := sources.Clock{Sent: now, Received: now, At: now}
	gen := ask(&m.live.state, now)
	m.Update(stateMsg{Gen: gen, Clock: clock, Value: &s})
	gen = ask(&m.live.events, now)
	m.Update(eventsMsg{Gen: gen, Clock: clock, Value: &api.Events{Events: es, At: now}})
	gen = ask(&m.live.decisions, now)
	m.Update(decisionsMsg{Gen: gen, Clock: clock, Value: &api.Decisions{Decisions: ds, Total: 1_400_000, PerMinute: 24_700, At: now}})
}

// ask begins a question, even while one is out: in an hour nobody waits for it.
func ask[T any](f *sources.Feed[T], now time.Time) uint64 {
	gen, ok := f.Ask(now)
	if !ok {
		gen, _ = f.Ask(now.Add(time.Hour))
	}
	return gen
}

// refuseConnection answers the three questions as a gateway that is gone does.
func refuseConnection(m *model) {
	now := time.Now()
	err := &api.UnreachableError{Target: "unix:data/failback.sock", Err: &fs.PathError{Op: "dial", Path: "data/failback.sock", Err: syscall.ECONNREFUSED}, Hint: "nobody listens on the socket: start the gateway with failback serve"}
	gen := ask(&m.live.state, now)
	m.Update(stateMsg{Gen: gen, Err: err})
	gen = ask(&m.live.events, now)
	m.Update(eventsMsg{Gen: gen, Err: err})
	gen = ask(&m.live.decisions, now)
	m.Update(decisionsMsg{Gen: gen, Err: errors.New("connection refused")})
}

func val(v float64) api.Number {
	return api.Number{State: api.StateValue, Value: v, At: time.Now()}
}
func idle() api.Number { return api.Number{State: api.StateIdle, At: time.Now()} }
func none() api.Number { return api.Number{State: api.StateNone, At: time.Now()} }

func bucket(upstream, capability, state string, since time.Duration) api.Breaker {
	return api.Breaker{
		Bucket: upstream + ":" + capability, Capability: capability, State: state, Since: time.Now().Add(-since),
		Probes: 1, Samples: 20, Mode: "enforce",
	}
}

// up is an upstream in good order.
func up(name, region string, primary bool, rps float64) api.Upstream {
	u := api.Upstream{
		Name: name, Region: region, Dialect: "anthropic", Revision: 1, Share: 100, Since: time.Now().Add(-6 * 24 * time.Hour), StateBy: "auto",
		Live: none(), RPS: val(rps), OwnRPS: idle(), ErrorRatio: val(0.001), FirstOutputP95: val(1.1),
		Breakers: []api.Breaker{bucket(name, "stream", "closed", 6*24*time.Hour), bucket(name, "text", "closed", 6*24*time.Hour)},
	}
	if primary {
		u.PrimaryOf, u.Live, u.OwnRPS = []string{"sonnet"}, val(0.998), val(rps)
	}
	return u
}

func baseState() api.State {
	now := time.Now()
	return api.State{
		APIVersion: api.Version, Version: "v1.2.3", Environment: "PROD", Instance: "gw-1", Scope: "this gateway only", PID: 4711, StartedAt: now.Add(-50 * time.Hour),
		You:      api.You{Name: "ana", Role: api.RoleOperator},
		Sessions: []api.Session{{Name: "ana", Instance: "gw-1", LastSeen: now, Since: now.Add(-2 * time.Minute), You: true}},
		RetryBudget: api.RetryBudget{
			Available: 84, Size: 92, At: now,
		},
		Traffic: api.Traffic{
			RPS: val(412), FailedRatio: val(0), FallbackRatio: val(0.002), FallbackRPS: val(0.8), FirstOutputP95: val(1.1), InFlight: 430, ClientRetries: val(0),
		},
		Config: api.Config{Path: "failback.yaml", Hash: "ab12", LoadedAt: now.Add(-50 * time.Hour)},
		Sources: api.Sources{
			Prometheus: api.Source{Selector: `job="failback"`, EverySeconds: 15}, Loki: api.Source{Selector: sources.DefaultStreams},
		},
		Limit: &api.Limit{FallbackRatio: 0.02},
		Failback: api.Failback{
			Steps:   []api.FailbackStep{{Share: 5, ObserveSeconds: 600}, {Share: 25, ObserveSeconds: 900}, {Share: 75, ObserveSeconds: 900}, {Share: 100}},
			Advance: "manual", MinRequests: 50, SuccessTolerance: 0.01, FirstOutputTolerance: 1.5, Owner: "undecided",
		},
	}
}

func calm(m *model) {
	s := baseState()
	s.Upstreams = []api.Upstream{
		up("anthropic-us-east-1", "us-east-1", true, 412),
		up("vertex-us-central1", "us-central1", false, 0.8),
		up("bedrock-us-west-2", "us-west-2", false, 0),
		up("anthropic-eu-west-1", "eu-west-1", true, 37),
	}
	s.Upstreams[2].RPS, s.Upstreams[2].ErrorRatio, s.Upstreams[2].FirstOutputP95 = val(0), idle(), idle()
	s.Upstreams[0].Elsewhere = []string{"vertex-us-central1", "bedrock-us-west-2"}
	give(m, s, nil, decisionsOf("primary_completed"))
	keep(m, calmNumbers())
}

func decisionsOf(reason string) []api.Decision {
	now := time.Now()
	ms := func(v float64) *float64 { return &v }
	var ds []api.Decision
	for i := range 12 {
		d := api.Decision{
			Event: "model_route_selected", Time: now.Add(-time.Duration(i) * 300 * time.Millisecond), RequestID: "req-" + strconv.Itoa(100-i), TaskType: "policy_question",
			Model: "sonnet", Endpoint: "messages", Stream: true, PrimaryProvider: "anthropic-us-east-1", SelectedProvider: "anthropic-us-east-1", SelectedModel: "claude-sonnet-4-5",
			Route: "primary", WorkflowStatus: "completed", Reason: reason, HTTPStatus: 200, FirstOutputMS: ms(900), DurationMS: 2700, RemainingDeadlineMS: 17300, RetryTokens: 84,
			Candidates: []api.DecisionCandidate{
				{Provider: "anthropic-us-east-1", Model: "claude-sonnet-4-5", Weight: 100, Share: 100},
				{Provider: "vertex-us-central1", Model: "claude-sonnet-4-5", Weight: 80, Share: 100},
			},
			Attempts: []api.DecisionAttempt{{Provider: "anthropic-us-east-1", Region: "us-east-1", Capability: "stream", Class: "ok", Status: 200, FirstOutputMS: ms(900), DurationMS: 2690}},
		}
		if reason != "primary_completed" {
			switch i % 3 {
			case 0:
				d.Candidates[0].Skipped, d.SelectedProvider, d.Route, d.WorkflowStatus, d.FallbackTriggered = reason, "vertex-us-central1", "fallback", "degraded_completed", true
				d.Attempts[0].Provider = "vertex-us-central1"
			case 1:
				d.TaskType, d.Candidates[0].Skipped, d.SelectedProvider, d.Route, d.WorkflowStatus, d.HTTPStatus, d.Reason = "document_summary", reason, "", "none", "unavailable", 502, "overloaded"
				d.Attempts[0] = api.DecisionAttempt{Provider: "vertex-us-central1", Region: "us-central1", Capability: "text", Class: "overloaded", Status: 529, DurationMS: 300, Code: "overloaded_error", Detail: "the upstream is over capacity"}
				d.FirstOutputMS, d.DurationMS = nil, 310
			case 2:
				d.TaskType, d.SelectedProvider, d.Route, d.WorkflowStatus, d.HTTPStatus, d.Reason = "permission_change", "", "none", "unavailable", 503, "not_allowed"
				d.Candidates[0].Skipped, d.Candidates[1].Skipped = reason, "not_allowed"
				d.Attempts, d.FirstOutputMS, d.DurationMS = nil, nil, 1
			}
		}
		for j := range d.Attempts {
			a, share := &d.Attempts[j], 100
			a.StartedMS, a.RemainingDeadlineMS, a.RetryTokens, a.Share, a.Weight = ms(4), ms(17300), ms(84), &share, ms(80)
			a.Next, a.Why = "answered", ""
			if a.Class != "ok" {
				a.Next, a.Why = "end", "no_candidate"
			}
		}
		if d.Candidates[0].Skipped == "breaker_open" {
			d.Candidates[0].SkippedWhy = "open since 03:48:10Z: 12/20 failed (server_error x12)"
		}
		ds = append(ds, d)
	}
	return ds
}

func incidentState() api.State {
	now := time.Now()
	s := baseState()
	s.Sessions = append(s.Sessions, api.Session{Name: "ben", Instance: "gw-1", LastSeen: now.Add(-3 * time.Minute), Since: now.Add(-time.Hour)})
	s.Traffic.FailedRatio, s.Traffic.FallbackRatio, s.Traffic.FallbackRPS, s.Traffic.FirstOutputP95, s.Traffic.ClientRetries = val(0.008), val(0.381), val(157), val(2.9), val(3.1)
	s.RetryBudget.Available = 12
	a := up("anthropic-us-east-1", "us-east-1", true, 0)
	a.Live, a.ErrorRatio, a.FirstOutputP95, a.OwnRPS = val(0), idle(), idle(), val(408)
	a.Breakers[1] = bucket(a.Name, "text", "open", 24*time.Minute)
	a.Breakers[1].Reason, a.Breakers[1].Detail, a.Breakers[1].NextProbeAt, a.Breakers[1].Failures = "server_error", "12/20 failed (server_error x11, first_output_timeout x1)", now.Add(18*time.Second), 12
	a.Share, a.Revision, a.Since, a.StateBy, a.StateWhy = 0, 131, now.Add(-20*time.Minute), "ana", "5xx since 03:48"
	a.NextStep = api.NextStep{Share: 5, BlockedBy: "breaker is OPEN, next probe in 18s"}
	a.Elsewhere = []string{"vertex-us-central1"}
	a.Stranded = []api.TaskRate{{Task: "permission_change", RPS: 2.1, Why: "not_allowed"}, {Task: "refund", RPS: 0.4, Why: "breaker_open"}}
	v := up("vertex-us-central1", "us-central1", false, 408.3)
	v.ErrorRatio, v.FirstOutputP95 = val(0.004), val(2.8)
	b := up("bedrock-us-west-2", "us-west-2", false, 0)
	b.RPS, b.ErrorRatio, b.FirstOutputP95 = val(0), idle(), idle()
	b.Breakers[0] = bucket(b.Name, "stream", "open", 2*time.Hour)
	b.Breakers[0].ProbeDue, b.Breakers[0].Reason = true, "connect"
	e := up("anthropic-eu-west-1", "eu-west-1", true, 3.7)
	e.Live, e.OwnRPS, e.ErrorRatio, e.FirstOutputP95 = val(0.049), val(75.5), val(0), val(4.1)
	e.Share, e.Revision, e.Since, e.StateBy, e.StateWhy = 5, 118, now.Add(-41*time.Second), "ana", "probe ok"
	e.NextStep = api.NextStep{Share: 25}
	e.Breakers[1] = bucket(e.Name, "text", "half_open", 40*time.Second)
	s.Upstreams = []api.Upstream{a, v, b, e}
	s.LastWrite = &api.Event{Event: "operator_command", Time: now.Add(-41 * time.Second), By: "ana", Revision: 118, Provider: e.Name, Action: "share", Result: "ok"}
	return s
}

func incidentEvents() []api.Event {
	now := time.Now()
	return []api.Event{
		{Seq: 1, Event: "breaker_transition", Time: now.Add(-1461 * time.Second), Provider: "anthropic-us-east-1", Capability: "text", From: "closed", To: "open", Reason: "server_error", Detail: "12/20 failed (server_error x11, first_output_timeout x1)"},
		{Seq: 2, Event: "traffic_step", Time: now.Add(-20 * time.Minute), Provider: "anthropic-us-east-1", From: "100", To: "0", Reason: "lowered", By: "ana", Why: "5xx since 03:48", Action: "share", Result: "ok", Revision: 131},
		{Seq: 3, Event: "breaker_transition", Time: now.Add(-209 * time.Second), Provider: "anthropic-us-east-1", Capability: "text", From: "half_open", To: "open", Reason: "server_error", Detail: "1/1 probes failed (server_error)"},
		{Seq: 4, Event: "operator_command", Time: now.Add(-90 * time.Second), Provider: "anthropic-us-east-1", From: "0", To: "5", By: "ben", Why: "try", Action: "share", Result: "refused", Reason: "blocked", Detail: "breaker is OPEN"},
		{Seq: 5, Event: "operator_command", Time: now.Add(-41 * time.Second), Provider: "anthropic-eu-west-1", From: "0", To: "5", By: "ana", Why: "probe ok", Action: "share", Result: "ok", Revision: 118},
		{Seq: 6, Event: "traffic_step", Time: now.Add(-41 * time.Second), Provider: "anthropic-eu-west-1", From: "0", To: "5", Reason: "raised", By: "ana", Why: "probe ok", Action: "share", Result: "ok", Revision: 118},
	}
}

func incident(m *model) {
	give(m, incidentState(), incidentEvents(), decisionsOf("breaker_open"))
	keep(m, incidentNumbers())
}

// situation is a state of the console by its name.
type situation struct {
	name string
	make func(*model)
}

// situations are the screens that the laws and goldens are checked in.
var situations = []situation{
	{"waiting", func(*model) {}},
	{"calm", calm},
	{"incident", incident},
	{"ageing", func(m *model) { incident(m); bubble.Sleep(4500 * time.Millisecond); m.Update(nil) }},
	{"down", func(m *model) {
		incident(m)
		for range 12 {
			bubble.Sleep(time.Second)
			refuseConnection(m)
		}
	}},
	{"never", func(m *model) { refuseConnection(m); bubble.Sleep(7 * time.Second); refuseConnection(m) }},
	{"armed", func(m *model) { incident(m); keys(m, "W"); bubble.Sleep(28 * time.Second); incident(m) }},
	{"frozen", func(m *model) { incident(m); keys(m, "f"); bubble.Sleep(12 * time.Second); calm(m) }},
	{"dialog-up", func(m *model) { incident(m); keys(m, "W", "j", "j", "j", ">") }},
	{"dialog-no", func(m *model) { incident(m); keys(m, "W", ">") }},
	{"dialog-down", func(m *model) { calm(m); keys(m, "W", "<") }},
	{"dialog-stale", func(m *model) {
		incident(m)
		keys(m, "W", "j", "j", "j", ">")
		s := incidentState()
		s.Upstreams[3].Share, s.Upstreams[3].Revision, s.Upstreams[3].StateBy = 0, 119, "ben"
		s.Upstreams[3].NextStep.Share = 5
		give(m, s, []api.Event{{Seq: 7, Event: "traffic_step", Time: time.Now(), Provider: "anthropic-eu-west-1", From: "5", To: "0", By: "ben", Why: "errors again", Revision: 119}}, nil)
	}},
	{"undo", func(m *model) { incident(m); keys(m, "W", "u") }},
	{"leaving", func(m *model) { incident(m); m.o.Started = true; keys(m, "q") }},
	{"leaving-armed", func(m *model) { incident(m); m.o.Started = true; keys(m, "W", "q") }},
	{"leaving-stop", func(m *model) {
		incident(m)
		m.o.Started = true
		keys(m, "W", "q")
		bubble.Sleep(deafFor)
		keys(m, "s")
	}},
	{"notices", func(m *model) {
		s := incidentState()
		s.Passthrough = &api.Passthrough{Order: []string{"vertex-us-central1", "anthropic-us-east-1"}, Until: time.Now().Add(29 * time.Minute), By: "ben", Why: "all else is broken"}
		s.Upstreams[0].Breakers[0].Forced, s.Upstreams[0].Breakers[0].ForcedBy, s.Upstreams[0].Breakers[0].ForcedUntil = "open", "ana", time.Now().Add(58*time.Minute)
		s.Upstreams[2].Breakers[1].Mode = "shadow"
		s.Upstreams[1].Unsynced = true
		give(m, s, incidentEvents(), nil)
	}},
	{"filter", func(m *model) { incident(m); keys(m, "/", "o", "p", "e", "n") }},
	{"filtered", func(m *model) { incident(m); keys(m, "/", "o", "p", "e", "n", "enter") }},
	{"settling", func(m *model) {
		incident(m)
		m.settling["anthropic-eu-west-1"] = settling{share: 5, from: 0, since: time.Now().Add(-12 * time.Second), at: time.Now()}
	}},
	{"detail", func(m *model) { incident(m); keys(m, "enter") }},
	{"changes", func(m *model) { incident(m); keys(m, "e", "j") }},
	{"change", func(m *model) { incident(m); keys(m, "e", "j", "enter") }},
	{"decisions", func(m *model) { incident(m); keys(m, "d", "j", "j") }},
	{"decision", func(m *model) { incident(m); keys(m, "d", "j", "enter") }},
	{"help", func(m *model) { incident(m); keys(m, "?") }},
	{"ownlog", func(m *model) { incident(m); keys(m, "W", "!") }},
	{"many", func(m *model) { many(m, 200); keys(m, "j", "j", "j", "j", "j", "j", "j", "j") }},
}

func many(m *model, n int) {
	s := incidentState()
	for i := len(s.Upstreams); i < n; i++ {
		u := up("upstream-number-"+strconv.Itoa(i), "region-"+strconv.Itoa(i), true, float64(i))
		if i%17 == 0 {
			u.Breakers[0] = bucket(u.Name, "stream", "ramping", time.Minute)
			u.Breakers[0].RampLimit = 4
		}
		s.Upstreams = append(s.Upstreams, u)
	}
	give(m, s, incidentEvents(), decisionsOf("breaker_open"))
}

// keys presses keys as a person does, with time between them.
func keys(m *model, ks ...string) []tea.Cmd {
	var cmds []tea.Cmd
	for _, k := range ks {
		bubble.Sleep(time.Millisecond)
		_, cmd := m.Update(press(k))
		cmds = append(cmds, cmd)
	}
	return cmds
}

// press is the message of a key.
func press(k string) tea.KeyPressMsg {
	special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "backspace": tea.KeyBackspace, "home": tea.KeyHome, "end": tea.KeyEnd}
	if c, ok := special[k]; ok {
		return tea.KeyPressMsg{Code: c}
	}
	if r, ok := strings.CutPrefix(k, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: []rune(r)[0], Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
}

// inSituation runs f on the named situation, in a bubble of its own.
func inSituation(t *testing.T, name string, w, h int, f func(t *testing.T, m *model)) {
	t.Helper()
	for _, s := range slices.Concat(situations, alike) {
		if s.name == name {
			synctest.Test(t, func(t *testing.T) {
				begin()
				m := testModel(w, h)
				s.make(m)
				f(t, m)
			})
			return
		}
	}
	t.Fatalf("there is no situation %q", name)
}

// screenOf is what is seen, without styles.
func screenOf(m *model) string { return ansi.Strip(m.View().Content) }
