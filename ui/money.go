package ui

import (
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

func (m *model) moneyTitle() row {
	return m.placeTitle("MONEY", "error budgets, and what answers cost")
}

// moneyBody is the error budget of each objective with what it was spent on, and
// what is known of costs.
func (m *model) moneyBody(w int, f *sieve) []row {
	if rows, yes := m.unanswered(); yes {
		return rows
	}
	d, _ := m.d()
	s := d.state.Value()
	rows := append(m.stale(w), styled(accent, " ERROR BUDGETS"))
	n := len(rows)
	for i := range s.Models {
		for j := range s.Models[i].Budgets {
			if b := &s.Models[i].Budgets[j]; f.pass(s.Models[i].Name, b.Objective, text.Burning(b)) {
				rows = append(rows, m.budgetRows(&s.Models[i], b, w)...)
			}
		}
	}
	switch {
	case len(rows) > n:
	case f.all > 0:
		rows = append(rows, f.without(""))
	default:
		rows = append(rows, indented(3, "no model has an objective: models.NAME.slo in the configuration gives it one, and this says how much of it is spent, by whom and for what", w, dim)...)
	}
	rows = append(rows, nil, styled(accent, " SPEND AND RESERVATIONS"))
	return append(rows, indented(3, "nothing is recorded: this gateway keeps no ledger. Prices of upstreams and budgets of keys are what would fill this: spend, reservations, and what a fallback costs more than its primary", w, dim)...)
}

// budgetRow is the error budget that somebody should look at, for the overview: one
// that burns fast before one that is spent, and that before one that burns slowly;
// nil without one.
func (m *model) budgetRow(d *data, now time.Time, w int) row {
	s := d.state.Value()
	if s == nil || d.state.Whole(now).State == sources.Unknown {
		return nil
	}
	var worst *api.Budget
	model, word, n := "", "", 0
	for _, is := range text.Burns {
		for i := range s.Models {
			for j := range s.Models[i].Budgets {
				b := &s.Models[i].Budgets[j]
				if text.Burning(b) != is {
					continue
				}
				if n++; worst == nil {
					worst, model, word = b, s.Models[i].Name, is
				}
			}
		}
	}
	if worst == nil {
		return nil
	}
	label, st := " BUDGET      ", bad
	if w < wide {
		label = " BUDGET   "
	}
	says, over := word, ""
	switch word {
	case text.BurnsFast:
		says, over = "burns "+m.number(d.state.Number(worst.BurnFast, now), text.Burn), " in the last hour"
	case text.BurnsSlowly:
		says, over, st = "burns "+m.number(d.state.Number(worst.BurnSlow, now), text.Burn), " in the last 6h", warn
	}
	of, bare := m.th.outside(model)+" "+m.th.outside(worst.Objective)+" ", cutMiddle(m.th.outside(model), 20, m.gl.cut)+" "
	spent := m.number(d.state.Number(worst.Spent, now), text.Spent)
	if word == text.IsSpent {
		spent = ": " + spent
	} else {
		spent = ", " + spent + " spent"
	}
	more := ""
	if n > 1 {
		more = " (+" + strconv.Itoa(n-1) + ")"
	}
	line := func(name string, tail ...string) row {
		return row{{label, accent}, {name, normal}, {says, st}, {strings.Join(tail, "") + more, normal}}
	}
	all := row{{"$", accent}, {": all ", normal}}
	r := first(w-all.width()-2, line(of, over, spent), line(of, spent), line(bare, spent), line(bare))
	return r.apart(all, w, false, m.gl.cut)
}

// budgetRows are one error budget.
func (m *model) budgetRows(model *api.Model, b *api.Budget, w int) []row {
	d, now := m.d()
	out := m.th.outside
	spent := d.state.Number(b.Spent, now)
	st := good
	switch {
	case spent.Value >= 1:
		st = bad
	case spent.Value >= 0.5:
		st = warn
	}
	if spent.State == sources.Value && spent.Dim && st == good {
		st = dim
	}
	target := text.RatioPercent(b.Target)
	if b.UnderSeconds > 0 {
		target += " under " + text.Seconds(b.UnderSeconds)
	}
	window := text.Age(time.Duration(b.WindowSeconds * float64(time.Second)))
	covered := text.Age(time.Duration(b.CoveredSeconds * float64(time.Second)))
	head := row{{" " + out(model.Name), strong}, {"  " + out(b.Objective) + " " + target + " over " + window + "  ", normal}}
	head = head.add(normal, "spent ").join(row{m.num(spent, text.Spent, st)})
	rows := []row{head}
	add := func(label string, r row) {
		rows = append(rows, append(row{{"   " + left(label, 14, ""), dim}}, r...))
	}
	burn := func(n api.Number) span {
		v := d.state.Number(n, now)
		st := normal
		if v.Value > 1 {
			st = warn
		}
		return m.num(v, text.Burn, st)
	}
	add("burns", row{burn(b.BurnFast), {" in the last hour, ", normal}, burn(b.BurnSlow), {" in the last 6h", normal}})
	add("requests", plain(text.Count(b.Good)+" good, "+text.Count(b.Bad)+" bad, in "+covered+" that were served"))
	for i, by := range b.By {
		if i == 5 {
			add("", styled(dim, "and "+strconv.Itoa(len(b.By)-i)+" more"))
			break
		}
		label := ""
		if i == 0 {
			label = "spent on"
		}
		add(label, plain(left(out(by.Provider), 24, m.gl.cut)+" "+left(out(by.Reason), 20, m.gl.cut)+" "+text.Count(by.Bad)))
	}
	return append(rows, nil)
}
