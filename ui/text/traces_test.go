package text

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

func TestTraces(t *testing.T) {
	now := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	for want, in := range map[string]api.Traces{
		"": {},
		"traces        0 spans exported, 0 dropped\n": {Configured: true},
		"traces        1 200 spans exported, 3 dropped, last taken 10s ago; the collector 2s ago: it answers 503\n": {
			Configured: true, Exported: 1200, Dropped: 3, LastOK: now.Add(-10 * time.Second), Error: "it answers 503", ErrorAt: now.Add(-2 * time.Second),
		},
	} {
		if got := traces(&in, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDecisionsSayWhy(t *testing.T) {
	wait := 250.0
	d := api.Decision{RequestID: "r", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Attempts: []api.DecisionAttempt{
		{Provider: "a", Class: "server_error", Next: "same_again", Why: "first_failure", WaitMS: &wait},
		{Provider: "a", Class: "overloaded", Next: "switch", Why: "overloaded"},
		{Provider: "b", Class: "ok", Next: "answered", Why: "ok"},
	}}
	got := Decisions(&api.Decisions{Decisions: []api.Decision{d}})
	if want := "\n    a same again: first_failure after 0.2s, trace 4bf92f3577b34da6a3ce929d0e0e4736\n"; !strings.Contains(got, want) {
		t.Errorf("%s lacks %q", got, want)
	}
	d.TraceID, d.Attempts = "", d.Attempts[1:]
	if got := Decisions(&api.Decisions{Decisions: []api.Decision{d}}); strings.Count(got, "\n") != 4 {
		t.Errorf("a line that says nothing more:\n%s", got)
	}
}
