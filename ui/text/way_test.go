package text_test

import (
	"strings"
	"testing"

	"failback/gateway/operator/api"
	"failback/ui/text"
)

// Nothing is said of candidates behind the one that answered.
func TestPathEndsWithTheAnswer(t *testing.T) {
	d := &api.Decision{
		Candidates: []api.DecisionCandidate{{Provider: "alpha"}, {Provider: "beta", Skipped: "capability"}},
		Attempts:   []api.DecisionAttempt{{Provider: "alpha", Class: "ok"}},
	}
	if got := text.Path(d); got != "alpha ok" {
		t.Errorf("%q", got)
	}
	d.Attempts[0].Class = "reset"
	if got := text.Path(d); got != "alpha reset > beta skipped: capability" {
		t.Errorf("nobody answered: %q", got)
	}
}

func TestCutWay(t *testing.T) {
	const s = "req-1 degraded_completed: anthropic-us-east-1 skipped: breaker_open > vertex ok"
	if got := text.CutWay(s, 40, "~"); got != "req-1 degraded_completed: a~ > vertex ok" || text.Width(got) != 40 {
		t.Errorf("%q", got)
	}
	if got := text.CutWay(s, 100, "~"); got != s {
		t.Errorf("%q", got)
	}
}

// The text of decisions has at most 120 columns, whatever is in it, and who
// answered is seen.
func TestDecisionsWidth(t *testing.T) {
	d := &api.Decision{RequestID: strings.Repeat("r", 36), TaskType: strings.Repeat("t", 60), Model: "sonnet", WorkflowStatus: "degraded_completed", Route: "fallback", Reason: "first_output_timeout"}
	for range 5 {
		d.Candidates = append(d.Candidates, api.DecisionCandidate{Provider: strings.Repeat("p", 40), Skipped: "traffic_share"})
	}
	d.Attempts = []api.DecisionAttempt{{Provider: "vertex", Class: "ok"}}
	out := text.Decisions(&api.Decisions{Decisions: []api.Decision{*d}})
	for l := range strings.SplitSeq(out, "\n") {
		if text.Width(l) > 120 {
			t.Errorf("%d columns: %s", text.Width(l), l)
		}
	}
	if !strings.Contains(out, "> vertex ok\n") || !strings.Contains(out, d.RequestID) {
		t.Error(out)
	}
}
