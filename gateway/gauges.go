package gateway

import (
	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/router"
	"failback/gateway/telemetry"
	"failback/gateway/wire"
)

// gauges is what is true at the moment of a scrape.
func (g *Gateway) gauges() telemetry.Gauges {
	v := g.view()
	available, _ := g.router.Budget.Available()
	out := telemetry.Gauges{RetryBudget: available, RetryRefused: g.router.Budget.Refused(), LogDropped: g.linesDropped(), Budgets: g.budgetGauges()}
	if t := g.traces(); t.Configured {
		out.Spans = &telemetry.SpanGauge{Exported: t.Exported, Dropped: t.Dropped}
	}
	for _, u := range v.setup.cfg.Upstreams {
		out.Shares = append(out.Shares, telemetry.ShareGauge{
			Provider: u.Name, Region: u.Region, Share: g.traffic.Share(u.Name),
		})
		out.Refusals = v.refusals(out.Refusals, &u)
		out.Health = append(out.Health, telemetry.HealthGauge{Provider: u.Name, Region: u.Region, State: v.healthOf(u.Name)})
	}
	for _, j := range g.jobs.Snapshot() {
		out.Jobs = append(out.Jobs, telemetry.JobGauge{Job: j.Name, LastSuccess: j.LastSuccess, Late: j.Late})
	}
	for _, b := range v.buckets {
		out.Breakers = append(out.Breakers, telemetry.BreakerGauge{
			Provider: b.Bucket.Upstream, Region: b.Region, Capability: b.Bucket.Capability,
			State: b.State, Blocked: b.Blocked, Enforced: b.Enforced,
		})
		for _, w := range v.breaker(b).Weights {
			out.Weights = append(out.Weights, telemetry.WeightGauge{
				Model: w.Model, Provider: b.Bucket.Upstream, Capability: b.Bucket.Capability, Weight: w.Effective,
			})
		}
	}
	return out
}

// refusals appends what u refused when it was last asked.
func (v *view) refusals(all []telemetry.RefusalGauge, u *config.Upstream) []telemetry.RefusalGauge {
	client := v.setup.upstreams[u.Name].Client
	add := func(class decision.Class, refused bool) {
		all = append(all, telemetry.RefusalGauge{Provider: u.Name, Region: u.Region, Class: class, Refused: refused})
	}
	for _, class := range []decision.Class{decision.Credential, decision.QuotaExhausted} {
		add(class, client.Refuses(class))
	}
	var models []string
	for _, m := range v.setup.cfg.Models {
		for _, c := range m.Candidates {
			if c.Upstream != u.Name {
				continue
			}
			models = append(models, c.Model)
			for _, ep := range wire.Endpoints {
				models = append(models, router.OnEndpoint(c.Model, ep))
			}
		}
	}
	add(decision.ModelGone, client.Lacks(models...))
	return all
}
