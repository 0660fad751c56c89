package api

import "testing"

// What a plan takes: each step but the way out of degraded.
func TestPlanTakes(t *testing.T) {
	const rest, itself = "5% is yours (the way out of degraded), the rest by itself", "the next step goes by itself when its evidence passes"
	for _, c := range []struct {
		name, health, by, advance string
		retreats, next            int
		want                      string
	}{
		{"degraded by the machine", Degraded, "auto", "manual", 0, 5, rest},
		{"degraded by the machine, plan", Degraded, "auto", "plan", 0, 5, rest},
		{"degraded by an operator, auto", Degraded, "ana", "auto", 0, 5, rest},
		{"degraded by the machine, auto", Degraded, "auto", "auto", 1, 5, itself},
		{"auto is over", Degraded, "auto", "auto", 2, 5, rest},
		{"spare", Degraded, "auto", "manual", 0, 100, "100% is yours (the way out of degraded), and no step is left to a plan"},
		{"recovering", Recovering, "ana", "manual", 0, 25, itself},
	} {
		u := Upstream{Health: c.health, HealthBy: c.by, Retreats: c.retreats, NextStep: NextStep{Share: c.next}}
		if got := u.PlanTakes(c.advance); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
