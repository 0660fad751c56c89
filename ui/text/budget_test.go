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

// Of a budget that burns and is spent the worse is said.
func TestBurning(t *testing.T) {
	n := func(v float64) api.Number { return api.Number{State: api.StateValue, Value: v} }
	for _, tt := range []struct {
		spent   api.Number
		burning string
		want    string
	}{
		{n(0.3), "", ""},
		{n(0.3), api.BurningFast, BurnsFast},
		{n(0.3), api.BurningSlow, BurnsSlowly},
		{n(1), api.BurningSlow, IsSpent},
		{n(2), api.BurningFast, BurnsFast},
		{n(api.Unbounded), "", IsSpent},
		{api.Number{State: api.StateIdle, Value: 9}, "", ""},
	} {
		// How fast it was over the long time alone says nothing.
		b := api.Budget{WindowSeconds: 2592000, Spent: tt.spent, BurnFast: n(99), BurnSlow: n(99), Burning: tt.burning}
		if got := Burning(&b); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt, got, tt.want)
		}
	}
}
