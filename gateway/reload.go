package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// reloads is what came of the last reload.
type reloads struct {
	mu sync.Mutex // guards everything that follows

	lastError    string
	lastErrorAt  time.Time
	needsRestart []string
}

// Reload reads the configuration again and puts all of it in force, or none:
// then the error says why. Keys that only a restart changes are reported and
// stay as they are. by is who asked.
func (g *Gateway) Reload(ctx context.Context, by string) ([]api.ReloadItem, error) {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	old := g.setup.Load()
	before := fingerprintOf(ctx, old.cfg)
	g.seen.Store(before)
	cfg, err := g.o.Load(ctx)
	var useCertificates func()
	if err == nil {
		useCertificates, err = g.readCertificates(cfg)
	}
	if err != nil {
		g.reloads.failed(err)
		g.event(decision.Event{
			Kind: decision.KindConfigReload, By: by, Action: "reload", Result: "refused",
			Detail: "the configuration in force stays: " + err.Error(),
		})
		return nil, err
	}
	var report []api.ReloadItem
	for _, c := range config.Diff(old.cfg, cfg) {
		if !c.Restart {
			report = append(report, api.ReloadItem{Key: c.Key, Result: "applied"})
		}
	}
	var restart []string
	for _, c := range config.Diff(g.startedWith, cfg) {
		if c.Restart {
			report = append(report, api.ReloadItem{Key: c.Key, Result: "needs restart"})
			restart = append(restart, c.Key)
		}
	}
	useCertificates()
	g.install(g.setupFrom(cfg))
	if *fingerprintOf(ctx, old.cfg) == *before {
		// Nothing changed meanwhile: that other files count now is no change.
		g.seen.Store(fingerprintOf(ctx, cfg))
	}
	g.book.ClearAll()
	g.log.Reopen()
	g.reloads.succeeded(restart)
	g.event(decision.Event{
		Kind: decision.KindConfigReload, By: by, Action: "reload", Result: "ok", From: old.cfg.Hash(), To: cfg.Hash(),
		Detail: fmt.Sprintf("changes applied: %d, waiting for a restart: %d", len(report)-len(restart), len(restart)),
	})
	return report, nil
}

func (r *reloads) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastError, r.lastErrorAt = strings.ReplaceAll(err.Error(), "\n", "; "), time.Now()
}

func (r *reloads) succeeded(restart []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastError, r.needsRestart = "", restart
}

func (r *reloads) read() (lastError string, at time.Time, needsRestart []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastError, r.lastErrorAt, r.needsRestart
}
