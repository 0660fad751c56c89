package gateway

import "failback/gateway/telemetry"

// gauges is what is true at the moment of a scrape.
func (g *Gateway) gauges() telemetry.Gauges {
	v := g.view()
	available, _ := g.router.Budget.Available()
	out := telemetry.Gauges{RetryBudget: available, LogDropped: g.log.Stats().Dropped, Budgets: g.budgetGauges()}
	if t := g.traces(); t.Configured {
		out.Spans = &telemetry.SpanGauge{Exported: t.Exported, Dropped: t.Dropped}
	}
	for _, u := range v.setup.cfg.Upstreams {
		out.Shares = append(out.Shares, telemetry.ShareGauge{
			Provider: u.Name, Region: u.Region, Share: g.traffic.Share(u.Name),
		})
		out.Health = append(out.Health, telemetry.HealthGauge{Provider: u.Name, Region: u.Region, State: v.healthOf(u.Name)})
	}
	for _, j := range g.jobs.Snapshot() {
		out.Jobs = append(out.Jobs, telemetry.JobGauge{Job: j.Name, LastSuccess: j.LastSuccess})
	}
	for _, b := range v.buckets {
		out.Breakers = append(out.Breakers, telemetry.BreakerGauge{
			Provider: b.Bucket.Upstream, Region: b.Region, Capability: b.Bucket.Capability,
			State: b.State, Blocked: b.Blocked,
		})
		for _, w := range v.breaker(b).Weights {
			out.Weights = append(out.Weights, telemetry.WeightGauge{
				Model: w.Model, Provider: b.Bucket.Upstream, Capability: b.Bucket.Capability, Weight: w.Effective,
			})
		}
	}
	return out
}
