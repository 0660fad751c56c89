package telemetry

import (
	"testing"
	"time"

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

func TestFirstOutputVerdict(t *testing.T) {
	const under = 5 * time.Second
	for name, tc := range map[string]struct {
		change func(d *decision.Decision)
		want   Verdict
	}{
		"in time":                       {func(*decision.Decision) {}, Good},
		"at the limit":                  {func(d *decision.Decision) { d.FirstOutput = under }, Good},
		"late":                          {func(d *decision.Decision) { d.FirstOutput = under + 1 }, Bad},
		"no stream":                     {func(d *decision.Decision) { d.Stream = false }, Excluded},
		"in time, then broken":          {func(d *decision.Decision) { d.Status = decision.Incomplete }, Good},
		"in time, then the client left": {func(d *decision.Decision) { d.Status = decision.Cancelled }, Good},
		"failed without output":         {func(d *decision.Decision) { d.HasFirstOutput, d.Status = false, decision.Unavailable }, Bad},
		"left before the limit":         {func(d *decision.Decision) { d.HasFirstOutput, d.Status = false, decision.Cancelled }, Excluded},
		"left after the limit": {func(d *decision.Decision) {
			d.HasFirstOutput, d.Status, d.Duration = false, decision.Cancelled, under+1
		}, Bad},
		"caller's mistake": {func(d *decision.Decision) {
			d.HasFirstOutput, d.Status, d.Duration = false, decision.Rejected, under+1
		}, Excluded},
		"nothing to give":       {func(d *decision.Decision) { d.HasFirstOutput = false }, Good},
		"nothing to give, late": {func(d *decision.Decision) { d.HasFirstOutput, d.Duration = false, under+1 }, Bad},
		"in the queue":          {func(d *decision.Decision) { d.HasFirstOutput, d.Status = false, decision.Queued }, Undecided},
	} {
		d := fellOver()
		tc.change(d)
		if got := FirstOutputVerdictOf(d, under); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
