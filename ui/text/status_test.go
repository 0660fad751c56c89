package text

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"failback/gateway/operator/api"
)

var update = flag.Bool("update", false, "write the goldens anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (write it anew with -update if that is right):\n%s", path, got)
	}
}

var now = time.Date(2026, 11, 30, 4, 12, 31, 0, time.UTC)

// stateWith is one of everything; h is put wherever text comes from outside.
func stateWith(h string) *api.State {
	val := func(v float64) api.Number { return api.Number{State: api.StateValue, Value: v, At: now} }
	return &api.State{
		APIVersion: api.Version, Version: "v1.2.3" + h, Environment: "PROD" + h, Instance: "gw-1" + h, Scope: "this gateway only" + h, PID: 4711,
		StartedAt: now.Add(-50 * time.Hour), At: now, You: api.You{Name: "ana" + h, Role: "viewer" + h, ReadOnlyWhy: "the role of this token is viewer" + h},
		Passthrough: &api.Passthrough{Order: []string{"vertex" + h, "openai"}, Until: now.Add(29 * time.Minute), By: "ben" + h, Why: "all else is broken" + h},
		Traffic:     api.Traffic{RPS: val(412), FailedRatio: val(0.008), FallbackRatio: val(0.381), FallbackRPS: val(157), FirstOutputP95: val(2.9), ClientRetries: val(3.1), InFlight: 430},
		RetryBudget: api.RetryBudget{Available: 12, Size: 92, At: now},
		LastWrite:   &api.Event{Event: api.KindCommand, Provider: "vertex" + h, Action: "share", From: "0", To: "5", By: "ana" + h, Why: "probe ok" + h, Result: "ok", Revision: 118, Time: now.Add(-41 * time.Second)},
		Upstreams: []api.Upstream{
			{Name: "anthropic-us-east-1" + h, Revision: 131, Share: 0, PrimaryOf: []string{"sonnet"}, Live: val(0), RPS: val(0), ErrorRatio: api.Number{State: "idle"}, FirstOutputP95: api.Number{State: "none"},
				NextStep: api.NextStep{Share: 5, BlockedBy: "breaker text is open, next probe in 18s" + h}, Credential: "credential" + h, CredentialUntil: now.Add(4 * time.Minute),
				Breakers: []api.Breaker{{Bucket: "anthropic-us-east-1:stream" + h, State: "closed", Since: now.Add(-time.Hour)}, {State: "open" + h, Since: now.Add(-24 * time.Minute), NextProbeAt: now.Add(18 * time.Second)}}},
			{Name: "vertex" + h, Revision: 2, Share: 100, Unsynced: true, Live: api.Number{State: "none"}, RPS: val(408.3), ErrorRatio: val(0.004), FirstOutputP95: val(2.8),
				Breakers: []api.Breaker{{Bucket: "vertex:text" + h, State: "closed", Forced: "closed", ForcedBy: "ana" + h, ForcedUntil: now.Add(time.Hour), Since: now.Add(-time.Hour)}}},
			{Name: "openai" + h, Share: 25, NextStep: api.NextStep{Share: 75}, Breakers: []api.Breaker{{State: "closed", Mode: "shadow", Since: now}}},
		},
		Models:   []api.Model{{Name: "sonnet" + h, Candidates: []api.Candidate{{Upstream: "anthropic-us-east-1" + h, Model: "claude-sonnet-4-5" + h, Weight: 100}, {Upstream: "openai" + h, Model: "gpt-5-mini", Weight: 10, Substitute: true}}}},
		Tasks:    []api.Task{{Name: "refund" + h, Fallback: "same_model" + h, OnUnavailable: "human" + h, UserSees: "a colleague will finish this" + h, RPS: val(0.4)}, {Name: "unnamed", Fallback: "same_model", OnUnavailable: "fail", RPS: api.Number{State: "idle"}}},
		Config:   api.Config{Path: "failback.yaml" + h, Hash: "ab12" + h, LoadedAt: now.Add(-50 * time.Hour), LastError: "failback.yaml:3:5: upstreams: unknown key" + h, LastErrorAt: now.Add(-3 * time.Minute), NeedsRestart: []string{"listen" + h}},
		Log:      api.Log{Target: "stdout" + h, Written: 1234567, Dropped: 12, Error: "broken pipe" + h},
		Audit:    api.AuditStatus{Pending: 2, Lost: 1, Error: "no space left on device" + h},
		Settings: []api.Setting{{Key: "breaker.cooldown" + h, Value: "15s" + h, Origin: "default" + h}, {Key: "listen", Value: "127.0.0.1:8080", Origin: "environment"}},
		Demo:     "a demonstration" + h, Draining: true,
	}
}

func ds(h string) *api.Decisions {
	ms := 2700.0
	return &api.Decisions{
		Total: 1400000, PerMinute: 24700, At: now,
		Decisions: []api.Decision{
			{Time: now, RequestID: "req-1" + h, TaskType: "policy_question" + h, Model: "sonnet" + h, WorkflowStatus: "degraded_completed" + h, Route: "fallback" + h, SelectedProvider: "vertex" + h, Reason: "breaker_open" + h, HTTPStatus: 200, FirstOutputMS: &ms, DurationMS: 2900,
				Candidates: []api.DecisionCandidate{{Provider: "anthropic-us-east-1" + h, Skipped: "breaker_open" + h}, {Provider: "openai"}, {Provider: "vertex" + h}},
				Attempts:   []api.DecisionAttempt{{Provider: "vertex" + h, Class: "reset" + h}, {Provider: "vertex" + h, Class: "ok" + h}}},
			{Time: now.Add(-time.Second), RequestID: "req-0", TaskType: "refund", Model: "sonnet", WorkflowStatus: "unavailable", Route: "none", Reason: "not_allowed", HTTPStatus: 503, DurationMS: 1},
		},
	}
}

func es(h string) []api.Event {
	return []api.Event{
		{Event: api.KindStep, Time: now, Provider: "vertex" + h, From: "0", To: "5", Reason: "override" + h, By: "ana" + h, Why: "probe ok" + h, Revision: 118},
		{Event: api.KindBreaker, Time: now, Provider: "anthropic-us-east-1" + h, Capability: "text" + h, From: "half_open", To: "open" + h, Reason: "server_error" + h, Detail: "1/1 probes failed" + h},
		{Event: api.KindBreaker, Time: now, Provider: "anthropic-us-east-1", Capability: "text", From: "closed", To: "open", Reason: "weight"},
		{Event: api.KindCommand, Time: now, Provider: "vertex", Action: "share", From: "5%", To: "25%", By: "ben", Result: "stale", Reason: "stale_revision", Why: "go"},
		{Event: api.KindCommand, Time: now, Provider: "vertex", Capability: "text", Action: "breaker", From: "auto", To: "open", By: "ben", Result: "ok", Revision: 0},
		{Event: api.KindReload, Time: now, By: "ana", Result: "failed", Detail: "failback.yaml:3:5: unknown key"},
		{Event: api.KindCredential, Time: now, Provider: "openai", Reason: "credential", Detail: "cooling for 5m"},
		{Event: api.KindPassthrough, Time: now, Action: "on", By: "ben", Why: "all else is broken"},
		{Event: api.KindEscalation, Time: now, Provider: "vertex", Reason: "shared_fault" + h, Required: "whoever runs it" + h, Notified: "none", Detail: "no connection" + h},
		{Event: api.KindEscalation, Time: now, Provider: "vertex", Reason: "waiting", Required: "an operator, to decide", Notified: "none", Result: "failed", Detail: "no answer"},
		{Event: api.KindEscalation, Time: now, Provider: "vertex", Reason: "waiting", Required: "an operator, to decide", Notified: "webhook" + h, Result: "ok", Detail: "pass at 5%"},
	}
}

// told writes events as the console does, a line each.
func told(es []api.Event) string {
	var b strings.Builder
	for i := range es {
		b.WriteString(By(&es[i]) + "  " + Event(&es[i]) + "\n")
	}
	return b.String()
}

func TestRenderings(t *testing.T) {
	golden(t, "events.txt", told(es("")))
	golden(t, "status.txt", Status(stateWith("")))
	golden(t, "status-empty.txt", Status(&api.State{At: now, APIVersion: 2}))
	golden(t, "decisions.txt", Decisions(ds("")))
	golden(t, "decisions-empty.txt", Decisions(&api.Decisions{}))
	golden(t, "result.txt", Result(&api.Result{Message: "vertex gets 5%", AuditPending: true, Upstream: &stateWith("").Upstreams[0], Report: []api.ReloadItem{{Key: "listen", Result: "needs restart"}, {Key: "breaker.cooldown", Result: "applied"}}}))
}

// Below the row of an upstream is what is not plain, and its next step.
func TestLinesBelowAnUpstream(t *testing.T) {
	closed := []api.Breaker{{Bucket: "a:text", Capability: "text", State: "closed", Since: now.Add(-time.Hour)}}
	forced := []api.Breaker{{Bucket: "a:text", Capability: "text", State: "closed", Forced: "open", ForcedBy: "ana", ForcedUntil: now.Add(time.Hour)}}
	for _, tt := range []struct {
		name  string
		u     api.Upstream
		lines []string // beginnings of those below the row
	}{
		{"in good order", api.Upstream{Name: "a", Share: 100, Breakers: closed}, nil},
		{"no step is named", api.Upstream{Name: "a", Share: 25, Breakers: closed}, []string{"next step   none"}},
		{"nothing is said of it", api.Upstream{Name: "a", Breakers: closed}, nil},
		{"forced open", api.Upstream{Name: "a", Share: 25, NextStep: api.NextStep{Share: 75}, Breakers: forced}, []string{"breaker     text FORCED OPEN by ana", "next step   75% not now: forced open by ana"}},
		{"not written down", api.Upstream{Name: "a", Share: 100, Unsynced: true, Breakers: closed}, []string{"UNSYNCED"}},
	} {
		got := strings.Split(strings.TrimSuffix(upstreams(&api.State{Upstreams: []api.Upstream{tt.u}}, nil, now), "\n"), "\n")[2:]
		var heads []string
		for _, l := range got {
			if !strings.HasPrefix(l, "      ") { // else it goes on with the one above
				heads = append(heads, strings.TrimSpace(l))
			}
		}
		ok := len(heads) == len(tt.lines)
		for i := range min(len(heads), len(tt.lines)) {
			ok = ok && strings.HasPrefix(heads[i], tt.lines[i])
		}
		if !ok {
			t.Errorf("%s: %q, want %q", tt.name, heads, tt.lines)
		}
	}
	if got := Next(&api.Upstream{Share: 25}, now); got != "none" {
		t.Errorf("of a share below all without a step: %q", got)
	}
	if got, want := Result(&api.Result{Message: "done", Upstream: &api.Upstream{Name: "a", Share: 100, Revision: 7, Unsynced: true}}), "done\na share 100%, revision 7, next step none, it has all\nUNSYNCED: in force in this gateway, not yet written down\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestColumnsAreStable: the columns of a table begin at the same place in each
// of its rows, whatever is in them.
func TestColumnsAreStable(t *testing.T) {
	got := Table([]string{"NAME", ">N", "REST"}, [][]string{{"模型", "1", "a"}, {"", "22 000", "b"}, {strings.Repeat("x", 500), "3", "c"}})
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	for i, l := range lines {
		cells := []rune(l)
		if i == 0 {
			continue
		}
		if c := string(cells[len(cells)-1]); c != string(rune('a'+i-1)) {
			t.Errorf("row %d ends with %q", i, c)
		}
	}
	if !strings.Contains(got, "~") || strings.Contains(got, strings.Repeat("x", 200)) {
		t.Error("a long cell pushes the others off the page")
	}
}

// TestHostile: whatever comes from outside, nothing that drives a terminal is
// printed, and no row becomes two.
func TestHostile(t *testing.T) {
	for _, h := range []string{"\x1b[2J", "\x1b]52;c;eA==\a", "\u202e", "\r", "\nFAKE", "\u009b", "\xff", "\t", "\u200b"} {
		for name, f := range map[string]func(h string) string{
			"status":    func(h string) string { return Status(stateWith(h)) },
			"health":    func(h string) string { return Status(troubled(h)) },
			"decisions": func(h string) string { return Decisions(ds(h)) },
			"events":    func(h string) string { return told(es(h)) },
			"result": func(h string) string {
				return Result(&api.Result{Message: h, Upstream: &stateWith(h).Upstreams[0], Report: []api.ReloadItem{{Key: h, Result: h}}})
			},
		} {
			got := f(h)
			for _, r := range got {
				if r != '\n' && !unicode.IsGraphic(r) {
					t.Errorf("%s with %q prints %U", name, h, r)
				}
			}
			if n, plain := heads(got), heads(f("x")); n != plain {
				t.Errorf("%s with %q has %d lines, %d without", name, h, n, plain)
			}
		}
	}
}

// heads counts the lines that do not go on with the one above.
func heads(s string) int {
	n := 0
	for l := range strings.SplitSeq(s, "\n") {
		if !strings.HasPrefix(l, "            ") {
			n++
		}
	}
	return n
}
