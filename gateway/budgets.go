package gateway

import (
	"context"
	"time"

	"failback/gateway/budget"
	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/operator/api"
	"failback/gateway/telemetry"
)

// budgets are the error budgets and where they are kept.
type budgets struct {
	set     *budget.Set
	started time.Time
	kept    *budgetStore // nil without a store
}

// now is this moment by both clocks.
func (b *budgets) now() budget.Instant {
	now := time.Now()
	return budget.Instant{Wall: now, Up: now.Sub(b.started)}
}

// observe counts d, which just ended.
func (b *budgets) observe(d *decision.Decision) { b.set.Observe(d, time.Since(b.started)) }

// openBudgets begins with what the store has. The last of it is written when the
// gateway stops.
func (g *Gateway) openBudgets() error {
	now := time.Now()
	g.budgets = &budgets{set: budget.New(now), started: now}
	if g.store == nil {
		return nil
	}
	gateway := "" // the store is its own, whatever its name
	if g.peers != nil {
		gateway = g.peers.key
	}
	kept, err := newBudgetStore(g.store, gateway)
	if err != nil {
		return err
	}
	g.budgets.kept = kept
	g.onStop(func(ctx context.Context) error { return kept.save(ctx, g.budgets.set, g.budgets.now()) })
	if err := kept.load(g.ctx, g.budgets.set, g.budgets.now()); err != nil {
		g.alarm("error budgets: " + err.Error())
	}
	return nil
}

// budgetsEvery is how much of the budgets a crash may lose.
const budgetsEvery = time.Minute

// keepBudgets writes budgets down over and over, and reads those of other gateways.
func (g *Gateway) keepBudgets(ctx context.Context) error {
	tick := time.NewTicker(budgetsEvery)
	defer tick.Stop()
	g.jobs.Register(jobBudgets, budgetsEvery)
	g.turnBudgets(ctx) // that it works shows at the start, not a minute after
	return g.keepBudgetsAt(ctx, tick.C)
}

func (g *Gateway) turnBudgets(ctx context.Context) {
	g.jobs.Ran(jobBudgets, g.budgets.kept.turn(ctx, g.budgets.set, g.budgets.now()))
}

func (g *Gateway) keepBudgetsAt(ctx context.Context, ticks <-chan time.Time) error {
	g.jobs.Register(jobBudgets, budgetsEvery)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
		}
		g.turnBudgets(ctx)
	}
}

// objectivesOf are those of all models, in file order.
func objectivesOf(cfg *config.Config) []budget.Objective {
	var l []budget.Objective
	for _, m := range cfg.Models {
		if m.SLO == nil {
			continue
		}
		if m.SLO.Availability > 0 {
			l = append(l, budget.Objective{Model: m.Name, Name: budget.Availability, Target: m.SLO.Availability, Window: m.SLO.Window})
		}
		if f := m.SLO.FirstOutput; f != nil {
			l = append(l, budget.Objective{Model: m.Name, Name: budget.FirstOutput, Target: f.Ratio, Under: f.Under, Window: m.SLO.Window})
		}
	}
	return l
}

// firstOutputUnder is the limit of a model's objective for the first output, 0
// if it has none.
func firstOutputUnder(cfg *config.Config, model string) time.Duration {
	for _, m := range cfg.Models {
		if m.Name == model && m.SLO != nil && m.SLO.FirstOutput != nil {
			return m.SLO.FirstOutput.Under
		}
	}
	return 0
}

// budgetsByModel are the error budgets as operators see them.
func (g *Gateway) budgetsByModel() map[string][]api.Budget {
	now := g.budgets.now()
	all := map[string][]api.Budget{}
	for _, r := range g.budgets.set.Report(now) {
		b := api.Budget{
			Objective: r.Name, Target: r.Target, UnderSeconds: r.Under.Seconds(),
			WindowSeconds: r.Window.Seconds(), CoveredSeconds: r.Covered.Seconds(),
			Good: r.Good, Bad: r.Bad,
			Spent: budgetNumber(r.Spent, now.Wall), BurnFast: budgetNumber(r.Fast, now.Wall), BurnSlow: budgetNumber(r.Slow, now.Wall),
		}
		switch {
		case r.BurnsFast:
			b.Burning = api.BurningFast
		case r.BurnsSlow:
			b.Burning = api.BurningSlow
		}
		for _, s := range r.By {
			b.By = append(b.By, api.BudgetSpend{Provider: s.Provider, Reason: s.Reason, Bad: s.Bad})
		}
		all[r.Model] = append(all[r.Model], b)
	}
	return all
}

func budgetNumber(r budget.Ratio, at time.Time) api.Number {
	if !r.Known {
		return api.Number{State: api.StateIdle, At: at}
	}
	return api.Number{State: api.StateValue, Value: min(r.Value, api.Unbounded), At: at}
}

// budgetGauges are the error budgets as metrics have them.
func (g *Gateway) budgetGauges() []telemetry.BudgetGauge {
	var l []telemetry.BudgetGauge
	for _, r := range g.budgets.set.Report(g.budgets.now()) {
		b := telemetry.BudgetGauge{Model: r.Model, Objective: r.Name, Target: r.Target, Spent: r.Spent.Value}
		for _, s := range r.By {
			b.By = append(b.By, telemetry.BudgetSpentGauge{Provider: s.Provider, Reason: s.Reason, Bad: s.Bad})
		}
		l = append(l, b)
	}
	return l
}
