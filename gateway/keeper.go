package gateway

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"failback/gateway/config"
	"failback/gateway/operator/api"
	"failback/gateway/telemetry"
	"failback/gateway/traffic"
)

// Keep is what a Keeper is made from.
type Keep struct {
	Config   *config.Config // of the start
	Instance string
	// Metrics gathers what /metrics shows.
	Metrics prometheus.Gatherer
	// Scraped is to be told how each scrape of them ended.
	Scraped func(error)
	// Lost is how many lines did not get to the keeper's Lines. It may be called
	// once the keeper is asked for anything, from any goroutine.
	Lost func() uint64
}

// Keeper keeps numbers and lines of the gateway beside it, and serves them on
// the operator API. No request waits for it, and nothing it cannot do ends the
// gateway.
type Keeper interface {
	// Lines gets every line of the decision log, one call each, also those that
	// telemetry.sample leaves out of its target: what is counted here is true.
	// nil: none wanted. It must not block.
	Lines() io.Writer
	// Handler serves a path of the operator API, api.PrometheusPath or
	// api.LokiPath; nil: not kept here.
	Handler(path string) http.Handler
	// Problem is why what is kept under path cannot be asked for, or does not
	// get all there is; empty if all is well. It stays the same while it goes on.
	Problem(path string) string
	// Dropped is how many lines Lines took that are not kept.
	Dropped() uint64
	// Run works until ctx ends.
	Run(ctx context.Context) error
	Close(ctx context.Context) error
}

// startKeeper makes the keeper, and the log that feeds it: one of its own,
// since the configured one may be stuck in a dead pipe.
func (g *Gateway) startKeeper(cfg *config.Config) error {
	if g.o.Keeper == nil {
		return nil
	}
	keep := Keep{Config: cfg, Instance: g.instance, Metrics: g.registry, Scraped: func(error) {}, Lost: g.linesNotFed}
	if cfg.Sources.Prometheus == nil {
		g.jobs.Register(jobMetrics, cfg.Sources.Every)
		keep.Scraped = func(err error) { g.jobs.Ran(jobMetrics, err) }
	}
	g.keeper = g.o.Keeper(keep)
	g.onStop(func(ctx context.Context) error {
		if err := g.keeper.Close(ctx); err != nil {
			g.o.Log(err.Error())
		}
		return nil
	})
	lines := g.keeper.Lines()
	if lines == nil {
		return nil
	}
	log, err := telemetry.NewLog(telemetry.LogOptions{
		Target: telemetry.ToStdout, Stdout: lines,
		Version: g.o.Version, Instance: g.instance,
	})
	if err != nil {
		return err
	}
	g.lines = log
	g.onStop(func(ctx context.Context) error {
		if log.Close(ctx) != nil {
			s := log.Stats()
			g.o.Log(fmt.Sprintf("the log that is kept did not get all lines: %d were lost on the way, %d more were on it", s.Dropped, s.Queued))
		}
		return nil
	})
	return nil
}

// linesNotFed is how many lines were lost on their way to the keeper.
func (g *Gateway) linesNotFed() uint64 {
	if g.lines == nil {
		return 0
	}
	return g.lines.Stats().Dropped
}

// linesDropped is how many lines of the decision log were lost, in its target
// and in the keeper.
func (g *Gateway) linesDropped() uint64 {
	n := g.log.Stats().Dropped + g.linesNotFed()
	if g.keeper != nil {
		n += g.keeper.Dropped()
	}
	return n
}

// keptUnder is the handler of what the keeper serves under path.
func (g *Gateway) keptUnder(path string) http.Handler {
	if g.keeper == nil {
		return nil
	}
	return g.keeper.Handler(path)
}

// sources says where the numbers and lines of this gateway are kept.
func (g *Gateway) sources(cfg *config.Config) api.Sources {
	var s api.Sources
	// Whether the gateway keeps its own was decided at its start.
	own := g.startedWith.Sources
	s.Prometheus.EverySeconds = own.Every.Seconds()
	if p := own.Prometheus; p != nil {
		p = cmp.Or(cfg.Sources.Prometheus, p)
		s.Prometheus.URL, s.Prometheus.Selector = p.URL.String(), p.Selector
		s.Prometheus.Method, s.Prometheus.TimeoutSeconds, s.Prometheus.Tenant = p.Method, p.Timeout.Seconds(), p.Tenant
	} else {
		s.Prometheus.Selector = `job="` + api.ServiceName + `"`
		s.Prometheus.Error = g.keeperProblem(api.PrometheusPath)
	}
	if l := own.Loki; l != nil {
		l = cmp.Or(cfg.Sources.Loki, l)
		s.Loki.URL, s.Loki.Selector = l.URL.String(), l.Selector
		s.Loki.TimeoutSeconds, s.Loki.Tenant = l.Timeout.Seconds(), l.Tenant
	} else {
		s.Loki.Selector = `{service_name="` + api.ServiceName + `"}`
		s.Loki.Error = g.keeperProblem(api.LokiPath)
	}
	return s
}

func (g *Gateway) keeperProblem(path string) string {
	if g.keeper == nil {
		return "this gateway keeps none"
	}
	return g.keeper.Problem(path)
}

// limit is the configured limit, nil if there is none.
func limit(cfg *config.Config) *api.Limit {
	if cfg.Limit == nil {
		return nil
	}
	return &api.Limit{FallbackRatio: cfg.Limit.FallbackRatio}
}

// failbackOf is the way back as failbacks begin it from now on.
func failbackOf(cfg *config.Config) api.Failback {
	f := api.Failback{
		Advance: cfg.Failback.Advance, MinRequests: cfg.Failback.MinRequests, Owner: cfg.Failback.Owner,
		SuccessTolerance: cfg.Failback.Tolerance.Success, FirstOutputTolerance: cfg.Failback.Tolerance.FirstOutput,
	}
	for _, s := range cfg.Failback.Steps {
		f.Steps = append(f.Steps, api.FailbackStep{Share: s.Share, ObserveSeconds: s.Observe.Seconds()})
	}
	return f
}

// stepsOf are the steps of failbacks that begin under cfg.
func stepsOf(cfg *config.Config) []traffic.Step {
	var steps []traffic.Step
	for _, s := range cfg.Failback.Steps {
		steps = append(steps, traffic.Step{Share: s.Share, Observe: s.Observe})
	}
	return steps
}
