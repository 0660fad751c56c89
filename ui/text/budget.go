package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
)

// unbounded is said of what a target of 1 does not allow.
const unbounded = "no bound"

// budgets writes a row of each error budget, and below it who and what
// most of it was spent on; empty without any.
func budgets(s *api.State) string {
	var rows [][]string
	var all []*api.Budget
	for i := range s.Models {
		for j := range s.Models[i].Budgets {
			b := &s.Models[i].Budgets[j]
			all = append(all, b)
			rows = append(rows, []string{
				s.Models[i].Name, objective(b), BudgetSpent(b), Number(b.BurnFast, Burn), Number(b.BurnSlow, Burn), Count(b.Bad), budgetWindow(b),
			})
		}
	}
	if len(rows) == 0 {
		return ""
	}
	lines := strings.SplitAfter(Table([]string{"BUDGET", "OBJECTIVE", ">SPENT", ">BURN 1H", ">6H", ">BAD", "IN"}, rows), "\n")
	var out strings.Builder
	out.WriteString(lines[0])
	for i, b := range all {
		out.WriteString(lines[i+1])
		if on := spentOn(b); on != "" {
			paragraph(&out, 2, "spent on", on)
		}
	}
	return out.String()
}

// objective writes what a budget is of: "availability 99.95%".
func objective(b *api.Budget) string {
	s := b.Objective + " " + Target(b.Target)
	if b.UnderSeconds > 0 {
		s += " under " + strconv.FormatFloat(b.UnderSeconds, 'g', 6, 64) + "s"
	}
	return s
}

// Target writes an objective's ratio with the digits it has: 99.95%.
func Target(ratio float64) string {
	s := strconv.FormatFloat(ratio*100, 'f', 6, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + "%"
}

// BudgetSpent writes the part of a budget that is used up.
func BudgetSpent(b *api.Budget) string { return Number(b.Spent, Spent) }

// Spent writes a part of a budget.
func Spent(v float64) string {
	if v >= api.Unbounded {
		return unbounded
	}
	return Percent(v)
}

// What Burning says, and Burns: all of it, the worst first.
const (
	BurnsFast   = "burns fast"
	IsSpent     = "is spent"
	BurnsSlowly = "burns slowly"
)

var Burns = []string{BurnsFast, IsSpent, BurnsSlowly}

// Burning says what somebody should know of a budget; empty: nothing. Whether it
// burns is what the gateway says, as the alerts of those names have it.
func Burning(b *api.Budget) string {
	switch {
	case b.Burning == api.BurningFast:
		return BurnsFast
	case b.Spent.State == api.StateValue && b.Spent.Value >= 1:
		return IsSpent
	case b.Burning == api.BurningSlow:
		return BurnsSlowly
	}
	return ""
}

// Burn writes how many times faster than allowed a budget is spent: 14.4x.
func Burn(v float64) string {
	if v >= api.Unbounded {
		return unbounded
	}
	return Rate(v) + "x"
}

// budgetWindow writes the time that a budget is for, and how much of it was
// counted.
func budgetWindow(b *api.Budget) string {
	window := time.Duration(b.WindowSeconds * float64(time.Second))
	covered := time.Duration(b.CoveredSeconds * float64(time.Second))
	if covered >= window {
		return Age(window)
	}
	return Age(window) + ", counted " + Age(covered)
}

// spentOnMost is how many of those that a budget was spent on are named.
const spentOnMost = 3

// spentOn writes who and what a budget was spent on.
func spentOn(b *api.Budget) string {
	var parts []string
	rest := b.Bad
	for i, s := range b.By {
		if i == spentOnMost {
			break
		}
		rest -= min(s.Bad, rest)
		parts = append(parts, fmt.Sprintf("%s %s %s", s.Provider, s.Reason, Count(s.Bad)))
	}
	if len(parts) > 0 && rest > 0 {
		parts = append(parts, "others "+Count(rest))
	}
	return Visible(strings.Join(parts, ", "))
}
