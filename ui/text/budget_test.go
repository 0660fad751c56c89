package text

import (
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

func spentState(h string) *api.State {
	n := func(v float64) api.Number { return api.Number{State: api.StateValue, Value: v} }
	idle := api.Number{State: api.StateIdle}
	return &api.State{At: now, Models: []api.Model{
		{Name: "plain"},
		{Name: "sonnet" + h, Budgets: []api.Budget{
			{
				Objective: "availability", Target: 0.9995, WindowSeconds: 2592000, CoveredSeconds: 2592000, Good: 99_980, Bad: 20,
				Spent: n(0.4), BurnFast: n(14.42), BurnSlow: n(0),
				By: []api.BudgetSpend{
					{Provider: "vertex" + h, Reason: "server_error", Bad: 11}, {Provider: "none", Reason: "breaker_open" + h, Bad: 5},
					{Provider: "vertex", Reason: "reset", Bad: 2}, {Provider: "openai", Reason: "reset", Bad: 2},
				},
			},
			{Objective: "first_output", Target: 0.99, UnderSeconds: 5, WindowSeconds: 604800, CoveredSeconds: 7500, Spent: idle, BurnFast: idle, BurnSlow: idle},
		}},
		{Name: "strict", Budgets: []api.Budget{{
			Objective: "availability", Target: 1, WindowSeconds: 3600, CoveredSeconds: 3600, Good: 10, Bad: 1,
			Spent: n(api.Unbounded), BurnFast: n(api.Unbounded), BurnSlow: n(api.Unbounded),
			By: []api.BudgetSpend{{Provider: "vertex", Reason: "reset", Bad: 1}},
		}}},
	}}
}

func TestBudgets(t *testing.T) {
	golden(t, "budgets.txt", budgets(spentState("")))
	if got := Status(spentState("")); !strings.Contains(got, budgets(spentState(""))) {
		t.Errorf("status does not have the budgets:\n%s", got)
	}
	if got := budgets(&api.State{Models: []api.Model{{Name: "m"}}}); got != "" {
		t.Errorf("without an objective: %q", got)
	}
	plain := heads(budgets(spentState("")))
	for _, h := range []string{"\x1b[2J", "\u202e", "\nFAKE", "\xff"} {
		got := budgets(spentState(h))
		if strings.Contains(got, h) || heads(got) != plain {
			t.Errorf("%q gets through:\n%s", h, got)
		}
	}
}

func TestTarget(t *testing.T) {
	for ratio, want := range map[float64]string{1: "100%", 0.9995: "99.95%", 0.99999: "99.999%", 0.9: "90%", 0.57: "57%"} {
		if got := Target(ratio); got != want {
			t.Errorf("%g: %s, want %s", ratio, got, want)
		}
	}
}

// A budget is told to burn from where the alerts begin, whatever its window is, and
// a number that is none burns nothing.
func TestBurning(t *testing.T) {
	n := func(v float64) api.Number { return api.Number{State: api.StateValue, Value: v} }
	const month, week = 2592000, 604800
	for _, tt := range []struct {
		window            float64
		spent, fast, slow api.Number
		want              string
	}{
		{month, n(0.3), n(14.39), n(5.99), ""},
		{month, n(0.3), n(14.4), n(5.99), BurnsFast},
		{month, n(0.3), n(0), n(6), BurnsSlowly},
		{month, n(1), n(0), n(6), IsSpent},
		{month, n(2), n(14.4), n(6), BurnsFast},
		{week, n(0.1), n(3.36), n(0), BurnsFast},
		{week, n(0.1), n(3.35), n(1.4), BurnsSlowly},
		{month, n(api.Unbounded), n(0), n(0), IsSpent},
		{month, api.Number{State: api.StateIdle, Value: 9}, api.Number{State: api.StateIdle, Value: 99}, api.Number{State: api.StateNone, Value: 99}, ""},
		{0, n(0), n(5), n(5), ""},
	} {
		b := api.Budget{WindowSeconds: tt.window, Spent: tt.spent, BurnFast: tt.fast, BurnSlow: tt.slow}
		if got := Burning(&b); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt, got, tt.want)
		}
	}
}
