package ui

import (
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// Who lowers a share reads what becomes of the requests that nobody else may
// take, and the step table what an upstream without a share still gets.
func TestFateOfTheStranded(t *testing.T) {
	for _, tt := range []struct {
		name, key, by string
		stranded      float64
		want, not     string
	}{
		{"lowered to a step", "<", "", 2, ". It answers them as overflow, while CLOSED", "no answer"},
		{"all of it", "D", "", 2, ". They get no answer", "overflow"},
		{"nobody is", "D", "", 0, "others may take every request", "They get no answer"},
		{"degraded by the machine", "b", "auto", 2, "overflow only", "gets nothing"},
		{"degraded by an operator", "b", "ana", 2, "gets nothing", "overflow only"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSituation(t, "calm", 100, 50, func(t *testing.T, m *model) {
				s := failingState()
				if tt.by != "" {
					s = degradedState(true)
					s.Upstreams[0].HealthBy = tt.by
				}
				s.Upstreams[0].Stranded = []api.TaskRate{{Task: "refund", RPS: tt.stranded, Why: "not_allowed"}}
				give(m, s, nil, nil)
				keys(m, "W", tt.key)
				got := screenOf(m)
				if i := strings.Index(got, "┌─"); i >= 0 {
					got = got[i:]
				} else {
					_, got, _ = strings.Cut(got, "VERDICT")
				}
				flat := strings.Join(strings.Fields(strings.NewReplacer("│", " ", "─", " ").Replace(got)), " ")
				if !strings.Contains(flat, tt.want) || strings.Contains(flat, tt.not) {
					t.Errorf("want %q and not %q:\n%s", tt.want, tt.not, got)
				}
			})
		})
	}
}
