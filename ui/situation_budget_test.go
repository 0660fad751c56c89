package ui

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
)

// burning is an outage that spends an error budget, with its incident open.
func burning(m *model) {
	s := openState()
	s.Models = placesState().Models
	b := &s.Models[0].Budgets[0]
	b.Spent, b.BurnFast, b.BurnSlow, b.Burning = val(1.31), val(21.7), val(9.2), api.BurningFast
	give(m, s, degradedEvents(), nil)
}

func init() {
	situations = append(situations, []situation{
		{"burning", burning},
		{"map-filtered", func(m *model) { place("m", placesState)(m); keys(m, "/", "v", "a", "u", "l", "t", "enter") }},
		{"timeline-filtered", func(m *model) {
			give(m, openState(), degradedEvents(), nil)
			keys(m, "i")
			giveIncident(m, theIncident())
			keys(m, "/", "a", "n", "a", "enter")
		}},
	}...)
}

// The overview says of error budgets the one that is worst, of those that
// somebody is to know of, with its key, and nothing of those that last.
func TestBurningBudgetOnTheOverview(t *testing.T) {
	n := func(v float64) api.Number { return val(v) }
	for _, tt := range []struct {
		name              string
		spent, fast, slow float64
		burning           string
		want              string
	}{
		{"it lasts", 0.68, 14.2, 3.1, "", ""},
		{"fast", 0.68, 14.41, 3.1, api.BurningFast, "sonnet availability burns 14.4x in the last hour, 68.0% spent"},
		{"slowly", 0.68, 9, 6.01, api.BurningSlow, "sonnet availability burns 6.0x in the last 6h, 68.0% spent"},
		{"spent", 1.02, 0, 0, "", "sonnet availability is spent: 102.0%"},
		{"no bound", api.Unbounded, api.Unbounded, 0, api.BurningFast, "sonnet availability burns no bound in the last hour, no bound spent"},
	} {
		inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
			s := placesState()
			b := &s.Models[0].Budgets[0]
			b.Spent, b.BurnFast, b.BurnSlow, b.Burning = n(tt.spent), n(tt.fast), n(tt.slow), tt.burning
			give(m, s, nil, nil)
			if got := screenOf(m); strings.Contains(got, " BUDGET ") != (tt.want != "") || !strings.Contains(got, tt.want) {
				t.Errorf("%s: want %q:\n%s", tt.name, tt.want, got)
			}
			keys(m, "$")
			if got := screenOf(m); strings.Contains(got, "e+") || tt.spent == api.Unbounded && !strings.Contains(got, "spent no bound") {
				t.Errorf("%s on the money screen:\n%s", tt.name, got)
			}
			// What is not known any more burns nothing.
			keys(m, "o")
			bubble.Sleep(10 * time.Second)
			m.Update(tickMsg{})
			if got := screenOf(m); strings.Contains(got, " BUDGET ") {
				t.Errorf("%s, 10s old:\n%s", tt.name, got)
			}
		})
	}
}
