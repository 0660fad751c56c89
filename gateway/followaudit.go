package gateway

import (
	"context"
	"time"
)

const (
	// auditEvery is how often the audit is read for what operators did at other
	// gateways, auditBatch how much of it at once.
	auditEvery = 2 * time.Second
	auditBatch = 256
	// auditAgain is how many entries of before the start are read too: they may
	// have come while it started.
	auditAgain = 16
)

// followAudit takes in what operators do at the other gateways of the store,
// until ctx ends.
func (g *Gateway) followAudit(ctx context.Context) error {
	tick := time.NewTicker(auditEvery)
	defer tick.Stop()
	for {
		entries, err := g.audit.news(ctx)
		g.operator.Heard(entries)
		if err == nil && len(entries) == auditBatch {
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
