package telemetry

import (
	"testing"

	"failback/gateway/decision"
)

func TestVerdict(t *testing.T) {
	want := map[decision.Status]Verdict{
		decision.Completed:         Good,
		decision.DegradedCompleted: Good,
		decision.Queued:            Undecided,
		decision.Human:             Bad,
		decision.Unavailable:       Bad,
		decision.Incomplete:        Bad,
		decision.Cancelled:         Excluded,
		decision.Rejected:          Excluded,
		decision.RefusedByUs:       Bad,
	}
	for _, status := range decision.Statuses {
		v, ok := want[status]
		if !ok {
			t.Errorf("no verdict known of %s", status)
			continue
		}
		for _, reason := range append(decision.Reasons, classReasons(func(decision.Class) bool { return true })...) {
			expect := v
			if status == decision.RefusedByUs && reason == decision.CostCeiling {
				expect = Excluded // the caller's own budget
			}
			if got := VerdictOf(status, reason); got != expect {
				t.Errorf("%s, %s: %q, want %q", status, reason, got, expect)
			}
		}
	}
	if got := VerdictOf("nonsense", ""); got != Bad {
		t.Errorf("an unknown end is %q: it must not look good", got)
	}
}

func TestOwnRequest(t *testing.T) {
	for _, tt := range []struct {
		name              string
		primary, selected string
		status            decision.Status
		wantBy            string
		want              bool
	}{
		{"answered by itself", "a", "a", decision.Completed, "a", true},
		{"answered by another", "a", "b", decision.DegradedCompleted, "b", true},
		{"nobody could", "a", "", decision.Unavailable, "", true},
		{"left midway", "a", "a", decision.Cancelled, "a", true},
		{"left before an answer", "a", "", decision.Cancelled, "", false},
		{"spoiled", "a", "", decision.Rejected, "", false},
		{"no primary", "", "", decision.Rejected, "", false},
	} {
		primary, by, ok := ownRequest(&decision.Decision{Primary: tt.primary, Selected: tt.selected, Status: tt.status})
		if ok != tt.want || ok && (primary != tt.primary || by != tt.wantBy) {
			t.Errorf("%s: %q by %q, %v", tt.name, primary, by, ok)
		}
	}
}
