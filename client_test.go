package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/sources/gatewaytest"
)

// A refused step says which evidence is missing; a taken one says nothing of
// it.
func TestStepSaysEvidence(t *testing.T) {
	now := time.Now()
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) {
		s.You = api.You{Name: "ana", Role: api.RoleOperator}
		s.Upstreams = []api.Upstream{
			{
				Name: "a", Share: 5, Revision: 7, Health: api.Recovering, NextStep: api.NextStep{Share: 25, BlockedBy: "evidence of 5%: no data"},
				Evidence: &api.Evidence{Verdict: api.NoData, Share: 5, At: now, EnoughInSeconds: 240, Rows: []api.EvidenceRow{{Name: "requests", Verdict: api.NoData, Text: "31, at least 50 asked"}}},
			},
			{
				Name: "b", Share: 0, Revision: 8, Health: api.Degraded, NextStep: api.NextStep{Share: 5, BlockedBy: "no recovery evidence"},
				Probes: []api.Probe{{Model: "m", Capability: "text", Result: "server_error", Failed: 3, At: now}},
			},
		}
	})
	step := func(args ...string) (code int, out, errs string) {
		var o, e bytes.Buffer
		code = run(t.Context(), append(append([]string{"step"}, args...), "--connect", g.Target()), &o, &e)
		return code, o.String(), e.String()
	}
	for _, tt := range []struct{ name, share, want string }{
		{"a", "25", "no data     requests: 31, at least 50 asked"},
		{"a", "25", "no data at 5%, enough in ~4 min"},
		{"b", "5", "text of m: server_error, 3 failed in a row"},
	} {
		code, out, errs := step(tt.name, tt.share)
		if code != exitFailed || out != "" || !strings.Contains(errs, tt.want) || !strings.Contains(errs, "failback: not now: ") {
			t.Errorf("%s %s: exit %d, printed %q, %q lacks %q", tt.name, tt.share, code, out, errs, tt.want)
		}
	}
	if code, out, _ := step("a", "25", "--json"); code != exitFailed || !strings.Contains(out, `"rows"`) {
		t.Errorf("JSON: exit %d, %s", code, out)
	}
	if code, out, errs := step("a", "25", "--override", "--reason", "sure"); code != exitDone || strings.Contains(out+errs, "evidence ") {
		t.Errorf("with a reason: exit %d, %q, %q", code, out, errs)
	}
}

// The commands about an upstream's way back: what they send, with the revision
// in force, and how they end.
func TestWayBack(t *testing.T) {
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) {
		s.You = api.You{Name: "ana", Role: api.RoleOperator}
		s.Upstreams = []api.Upstream{
			{Name: "a", Share: 100, Revision: 3, Health: api.Healthy},
			{
				Name: "b", Share: 0, Revision: 8, Health: api.Degraded, NextStep: api.NextStep{Share: 5, BlockedBy: "1 of 2 passed"},
				Probes: []api.Probe{{Model: "m", Capability: "text", Result: "server_error", Failed: 3, At: time.Now()}},
			},
			{Name: "c", Share: 25, Revision: 5, Health: api.Recovering, Evidence: &api.Evidence{Verdict: api.Pass, Share: 25}},
		}
	})
	for _, tt := range []struct {
		args, out, errs string
		code            int
	}{
		{"state a degraded --reason slow", "a is degraded", "", exitDone},
		{"state a degraded", "a is degraded", "", exitDone},
		{"state b recovering", "", "text of m: server_error, 3 failed in a row", exitFailed},
		{"state b recovering --override --reason sure --revision 7", "", "changed meanwhile", exitFailed},
		{"state b recovering --override --reason sure", "share 5%", "", exitDone},
		{"state b recovering --revision x", "", "--revision", exitUsage},
		{"state b degraded --override --reason no", "", "--override", exitUsage},
		{"state b healthy", "", "measured", exitUsage},
		{"state b down", "", "degraded or recovering", exitUsage},
		{"state b", "", "2 arguments", exitUsage},
		{"state c recovering", "", "c is recovering, not degraded", exitFailed},
		{"step c plan", "the plan of c: approved", "", exitDone},
		{"step c plan --revision 5", "", "changed meanwhile", exitFailed},
		{"step c manual", "the plan of c: ended", "", exitDone},
		{"step c plan --override --reason no", "", "--override", exitUsage},
		{"step c 25.5", "", "plan or manual", exitUsage},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append(strings.Fields(tt.args), "--connect", g.Target()), &out, &errs)
		if code != tt.code || !strings.Contains(out.String(), tt.out) || !strings.Contains(errs.String(), tt.errs) || tt.errs == "" && errs.Len() > 0 || tt.out == "" && out.Len() > 0 {
			t.Errorf("%s: exit %d, %q, %q", tt.args, code, out.String(), errs.String())
		}
		if strings.HasPrefix(tt.args, "state c") && strings.Contains(errs.String(), "evidence") {
			t.Errorf("%s: its evidence is not what it waits for: %s", tt.args, errs.String())
		}
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"state", "c", "recovering", "--json", "--connect", g.Target()}, &out, &errs); code != exitFailed || !strings.Contains(out.String(), `"blocked"`) || errs.Len() > 0 {
		t.Errorf("JSON: exit %d, %q, %q", code, out.String(), errs.String())
	}
}

// status prints what the gateway says of its own work, and as JSON as it comes.
func TestStatusSaysHealth(t *testing.T) {
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) {
		s.Upstreams = []api.Upstream{{Name: "a", Health: api.Suspect, HealthBy: "auto", Signals: []api.Signal{{Name: "error_rate", Colour: api.Red, Value: "12/20 failed"}}}}
		s.SharedFault = &api.SharedFault{Reason: "path", Upstreams: []string{"a", "b"}}
		s.Store = api.Store{Kind: "embedded", Error: "no space left on device"}
	})
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"status", "--connect", g.Target()}, &out, &errs); code != exitDone {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	for _, want := range []string{"SHARED FAULT nobody to switch to", "STORE       writes fail: no space left on device", "a  SUSPECT by auto", "signals     red: error_rate 12/20 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	if code := run(t.Context(), []string{"status", "--json", "--connect", g.Target()}, &out, &errs); code != exitDone {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	var s api.State
	if err := json.Unmarshal(out.Bytes(), &s); err != nil || s.SharedFault == nil || s.Upstreams[0].Signals[0].Value != "12/20 failed" || s.Store.Kind != "embedded" {
		t.Errorf("%v: %s", err, out.String())
	}
}

// How long a breaker is not closed is told by the newest changes.
func TestStatusTellsSinceWhen(t *testing.T) {
	now := time.Now()
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) {
		s.Upstreams = []api.Upstream{{Name: "a", Share: 100, Breakers: []api.Breaker{{Capability: "text", State: "open", Since: now}}}}
	})
	for _, e := range []struct {
		ago      time.Duration
		from, to string
	}{{3 * time.Hour, "closed", "open"}, {2 * time.Hour, "ramping", "closed"}, {40 * time.Minute, "closed", "open"}, {time.Minute, "half_open", "open"}} {
		g.Happen(api.Event{Event: "breaker_transition", Time: now.Add(-e.ago), Provider: "a", Capability: "text", From: e.from, To: e.to})
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"status", "--connect", g.Target()}, &out, &errs); code != exitDone || !strings.Contains(out.String(), "text OPEN, for 40m\n") {
		t.Errorf("exit %d, %s%s", code, out.String(), errs.String())
	}
}
