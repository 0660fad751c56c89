package gateway

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"failback/gateway/config"
	"failback/gateway/operator/api"
	"failback/gateway/store"
	"failback/gateway/traffic"
)

// openStore opens the store, and in it shares, evidence, overrides, the audit and
// the list of gateways; other rooms open their own part when they are made.
// The data directory is this gateway's already.
func (g *Gateway) openStore(ctx context.Context, cfg *config.Config) error {
	o := store.Options{
		Dir: filepath.Join(cfg.DataDir, "store"), Log: g.o.Log, OnState: g.storeState,
	}
	if cfg.Store != nil {
		o.URL = cfg.Store.NATS.String()
	}
	s, err := store.Open(ctx, o)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	g.store = s
	g.onStop(s.Close)
	if g.shares, err = newShareStorage(s); err != nil {
		return err
	}
	// Only the table's writes ask for it, and it is there by then.
	g.shares.merge = func(records map[string]traffic.Record) { g.traffic.Merge(records) }
	if err := importShares(ctx, filepath.Join(cfg.DataDir, "traffic.json"), g.shares); err != nil {
		return g.withoutShares(err)
	}
	if g.evidence, err = newEvidenceStore(s, g.instance); err != nil {
		return err
	}
	if g.overrides, err = newOverrides(s); err != nil {
		return err
	}
	if g.audit, err = newStoredAudit(s); err != nil {
		return err
	}
	g.operator.KeepAuditIn(g.audit)
	return g.openPeers(s, cfg)
}

// shareStore is where the share table is kept.
func (g *Gateway) shareStore() traffic.Storage {
	switch {
	case g.shares != nil:
		return g.shares
	case g.storage != nil:
		return g.storage
	}
	return new(traffic.Memory)
}

// withoutShares is the error of a start that could not read the share table: err
// and, if that is about a shared store that is away, what can be done.
func (g *Gateway) withoutShares(err error) error {
	away, is := errors.AsType[*store.UnavailableError](err)
	if !is || g.store.Status().Kind != store.NATS {
		return err
	}
	return fmt.Errorf("the share table could not be read from the store (store.nats, %s), which was tried for %s: %w. "+
		"Without it the gateway does not start: it would not know from which upstreams operators took traffic. "+
		"Start NATS with JetStream there, or make it reachable from here, and start the gateway again. "+
		"To serve without a shared store, take store out of the configuration: shares are then those of data_dir/store, %d%% for upstreams that it does not hold, "+
		"and lowering one holds at this gateway only",
		g.store.Place(), max(time.Since(g.started).Round(time.Second), time.Second), away.Err, traffic.Full)
}

// startStore begins what goes on beside the store, until the gateway ends.
func (g *Gateway) startStore() {
	if g.store == nil {
		return
	}
	g.run(func(ctx context.Context) error {
		err := g.shares.follow(ctx, func(err error) { g.alarm("share table: " + err.Error()) })
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
	g.run(g.followOverrides)
	g.run(g.overrides.rewrite)
	g.run(g.incidents.kept.follow)
	g.run(g.incidents.kept.keep)
	g.run(g.keepEvidence)
	g.run(g.keepBudgets)
	if g.peers != nil {
		g.run(g.peers.run)
		g.run(g.peers.follow)
		g.run(g.followAudit)
		g.run(g.answerOutcomes)
	}
}

// storeState tells when writing begins and ends to fail.
func (g *Gateway) storeState(err error) {
	if err != nil {
		g.alarm("store: " + err.Error())
		return
	}
	g.o.Log("store: writes again")
}

// storeStatus is the state of the store.
func (g *Gateway) storeStatus() api.Store {
	if g.store == nil {
		return api.Store{Kind: "memory"}
	}
	st := g.store.Status()
	s := api.Store{Kind: string(st.Kind)}
	if st.Err != nil {
		s.Error, s.Since = st.Err.Error(), st.Since
	}
	return s
}

// keepEvery is how much evidence a crash may lose.
const keepEvery = 10 * time.Second

// keepEvidence writes evidence down over and over, and once more at the end.
func (g *Gateway) keepEvidence(ctx context.Context) error {
	g.jobs.Register(jobStore, keepEvery)
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		g.jobs.Ran(jobStore, g.evidence.save(context.WithoutCancel(ctx), g.setup.Load()))
	}
	return nil
}
