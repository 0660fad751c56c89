package gateway

import (
	"context"

	"failback/gateway/breaker"
	"failback/gateway/health/probe"
)

// ProbeTargets is what the configuration in force has probed.
func (g *Gateway) ProbeTargets() []probe.Target { return g.probeTargets(g.setup.Load()) }

// AttemptProbe makes one probe.
func (g *Gateway) AttemptProbe(ctx context.Context, t probe.Target) probe.Result {
	return g.attemptProbe(ctx, t)
}

// RunProber runs a prober of the configuration in force until the gateway
// ends, which StartAlone does not.
func (g *Gateway) RunProber() *probe.Prober {
	p := probe.New(probe.Options{Attempt: g.attemptProbe})
	p.Configure(g.ProbeTargets())
	g.run(p.Run)
	return p
}

// Breakers are the gateway's.
func (g *Gateway) Breakers() *breaker.Set { return g.breakers }
