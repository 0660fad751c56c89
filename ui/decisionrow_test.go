package ui

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// In a wide window each decision has its HTTP status, how long it took and what
// became of it in the same columns, however long its way: that is said shorter.
func TestDecisionsHaveTheirColumns(t *testing.T) {
	end := regexp.MustCompile(`  \d\d\d [ <]\d\.\ds +[a-z_]+ $`)
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		for _, reason := range []string{"primary_completed", "breaker_open", "upstream_degraded"} {
			for _, name := range []string{"vertex", "vertex-us-central1", strings.Repeat("far-away-", 5)} {
				for i, v := range decisionsOf(reason)[:3] {
					v.Candidates[1].Provider = name
					for j := range v.Attempts {
						if v.Attempts[j].Provider != v.PrimaryProvider {
							v.Attempts[j].Provider, v.SelectedProvider = name, name
						}
					}
					for _, w := range []int{98, 100, 120} {
						got := m.decisionRow(&v, time.Now(), w).text()
						if width(got) != w || !end.MatchString(got) || !strings.HasSuffix(got, " "+v.WorkflowStatus+" ") {
							t.Errorf("%s %s %d: %d of %d columns: %q", reason, name, i, width(got), w, got)
						}
						if reason == "breaker_open" && !strings.Contains(got, " breaker_open > ") && !strings.Contains(got, "skipped: breaker_open > ") && !strings.Contains(got, "primary: breaker_open > ") {
							t.Errorf("the reason is cut: %q", got)
						}
					}
				}
			}
		}
	})
}

// Decisions are in the order of their end, and their times are when they were
// accepted: both are said, above them and in one opened.
func TestDecisionsSayWhatTheirTimeIs(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		shows(t, m, "that ended last", "times: accepted")
		keys(m, "d")
		shows(t, m, "last ended first", "ACCEPTED   TASK", "HTTP  TOOK", "STATUS")
		keys(m, "enter")
		shows(t, m, " accepted ")
	})
	for _, size := range [][2]int{{80, 24}, {60, 20}, {40, 12}} {
		inSituation(t, "decisions", size[0], size[1], func(t *testing.T, m *model) { shows(t, m, "ACCEPTED   TASK", " > ") })
	}
}
