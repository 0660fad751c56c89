package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"failback/gateway/breaker"
	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/health"
	"failback/gateway/health/dependency"
	"failback/gateway/health/probe"
	"failback/gateway/jobs"
	"failback/gateway/notify"
	"failback/gateway/operator"
	"failback/gateway/operator/api"
	"failback/gateway/router"
	"failback/gateway/store"
	"failback/gateway/telemetry"
	"failback/gateway/telemetry/spans"
	"failback/gateway/traffic"
	"failback/gateway/upstream"
)

// SocketName is the operator socket's name in the data directory.
const SocketName = "failback.sock"

// Options of a Gateway. Only Load is required.
type Options struct {
	// Load reads the configuration, at start and at each reload.
	Load func(context.Context) (*config.Config, error)
	// Version is the program's, Instance names this gateway among others;
	// empty: the host's name.
	Version, Instance string
	// Stdout is where the decision log goes if it is configured to stdout;
	// nil: os.Stdout.
	Stdout io.Writer
	// Log gets texts for the operator of the process, one line each; nil
	// drops them. It is called concurrently and must not block.
	Log func(string)
	// Banner is shown on every console, for demonstrations; nil: none. It gets the
	// state without it, must not change it, and is called concurrently.
	Banner func(*api.State) string

	// Keeper makes what keeps numbers and lines beside the gateway; nil: nobody
	// keeps any. It is called once, when the data directory is the gateway's.
	Keeper func(Keep) Keeper

	// Listen opens the client listener; nil: net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// DialContext connects to upstreams, what is checked and who is told; nil: a
	// net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// UpstreamTLS is cloned for connections to upstreams; nil: the defaults.
	UpstreamTLS *tls.Config
}

// Gateway is the whole gateway. Use New, Start, and Stop; or Run.
type Gateway struct {
	o        Options
	instance string
	started  time.Time
	// startedWith is the configuration of the start: keys that need a restart
	// have its values.
	startedWith *config.Config

	setup    atomic.Pointer[setup]
	router   *router.Router
	breakers *breaker.Set
	traffic  *traffic.Table
	book     *upstream.Book
	log      *telemetry.Log
	metrics  *telemetry.Metrics
	live     *telemetry.Live
	spans    *spans.Exporter // nil without telemetry.otlp
	traced   float64         // part of the requests without a trace that get spans
	operator *operator.Server
	registry *prometheus.Registry
	keeper   Keeper         // nil: nobody keeps anything
	lines    *telemetry.Log // feeds keeper; nil: it wants none
	certs    *certificates  // nil without tls
	opCerts  *certificates

	store     *store.Store
	shares    *shareStorage
	storage   traffic.Storage // instead of shares, where there is no store; nil: memory
	evidence  *evidenceStore
	overrides *overrides
	budgets   *budgets
	incidents *incidents
	peers     *peers            // nil: the store is this gateway's own
	reported  *outcomesQuestion // nil without peers
	audit     *storedAudit      // nil without a store

	faults       *health.Detector
	prober       *probe.Prober
	dependencies *dependency.Runner
	serverCerts  *dependency.Runner // the certificates of the upstreams
	notify       *notify.Notifier
	jobs         jobs.Board
	pinger       *jobs.Pinger

	memory   memory
	inflight atomic.Int64
	draining atomic.Bool // SIGTERM came; requests are still served
	closing  atomic.Bool // the listener is closed; requests are refused

	// reloading serializes start and reloads.
	reloading sync.Mutex
	kept      map[string]*keptUpstream // guarded by reloading

	alarms  alarms
	noises  alarms // texts of net/http, which strangers cause
	reloads reloads
	seen    atomic.Pointer[fingerprint] // of the files as they were last read

	passthroughEnd atomic.Pointer[time.Timer] // of the last passthrough; nil before

	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	server   *http.Server
	listener net.Listener
	cleanup  []func(context.Context) error // in the order of opening; run backwards
	stopOnce sync.Once
	stopErr  error
}

// New returns a gateway that is not started.
func New(o Options) *Gateway {
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	g := &Gateway{o: o, instance: o.Instance, kept: make(map[string]*keptUpstream)}
	if g.instance == "" {
		g.instance, _ = os.Hostname()
	}
	g.incidents = newIncidents(g.instance)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Start loads the configuration and serves. If it fails, nothing is left running.
func (g *Gateway) Start(ctx context.Context) (err error) {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	defer func() {
		if err != nil {
			g.cancel()
			g.closeAll(ctx)
		}
	}()
	cfg, err := g.o.Load(ctx)
	if err != nil {
		return err
	}
	g.started, g.startedWith = time.Now(), cfg
	if err := os.MkdirAll(cfg.DataDir, 0o750); err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	g.seen.Store(fingerprintOf(ctx, cfg))
	// First of all the data directory becomes this gateway's: no other one may
	// write into it.
	if err := g.claim(cfg); err != nil {
		return err
	}
	if err := g.startKeeper(cfg); err != nil {
		return err
	}
	if err := g.openStore(ctx, cfg); err != nil {
		return err
	}
	if err := g.openRooms(cfg); err != nil {
		return err
	}
	if g.evidence != nil {
		g.evidence.restore(ctx, g.setup.Load(), g.alarm)
	}
	g.restoreOverrides(ctx)
	// The port is taken before anybody can be told that the gateway runs.
	serve, err := g.listenClients(cfg)
	if err != nil {
		return err
	}
	if err := g.operator.Start(); err != nil {
		_ = g.listener.Close()
		return err
	}
	g.onStop(func(ctx context.Context) error {
		defer func() {
			if end := g.passthroughEnd.Load(); end != nil {
				end.Stop()
			}
		}()
		return g.operator.Stop(ctx)
	})
	// Last: nobody would wait for them if something failed.
	g.running.Go(serve)
	g.run(g.breakers.Run)
	g.run(g.watch)
	g.startCare()
	g.startStore()
	if g.keeper != nil {
		g.run(g.keeper.Run)
	}
	return nil
}

// openRooms builds everything that stands between a request and an upstream.
func (g *Gateway) openRooms(cfg *config.Config) error {
	log, err := telemetry.NewLog(telemetry.LogOptions{
		Target:   cfg.Telemetry.DecisionLog,
		Stdout:   g.o.Stdout,
		Version:  g.o.Version,
		Instance: g.instance,
		Sample:   cfg.Telemetry.Sample,
	})
	if err != nil {
		return fmt.Errorf("telemetry.decision_log: %w", err)
	}
	g.log = log
	g.onStop(func(ctx context.Context) error {
		// A dead sink loses lines, which is said; it fails nothing.
		if err := log.Close(ctx); err != nil {
			g.o.Log(err.Error())
		}
		return nil
	})
	if err := g.openSpans(cfg); err != nil {
		return err
	}
	g.live = telemetry.NewLive()
	g.metrics = telemetry.NewMetrics(g.registry, g.gauges)
	g.breakers = breaker.New(g.event)
	g.book = upstream.NewBook(g.event)
	if g.traffic, err = traffic.Open(g.ctx, g.shareStore(), g.event); err != nil {
		return g.withoutShares(err)
	}
	g.onStop(g.traffic.Close)
	if err := g.openBudgets(); err != nil {
		return err
	}
	if err := g.openIncidents(); err != nil {
		return err
	}
	g.openCare(cfg)
	g.router = &router.Router{
		Breakers: g.breakers,
		Traffic:  g.traffic,
		Book:     g.book,
		Budget:   router.NewRetryBudget(cfg.Retry.Budget.Ratio, cfg.Retry.Budget.Burst),
		Bindings: router.NewBindings(),
		Faults:   g.faults,
		Observe:  g.observe,
		Alarm:    g.alarm,
		Life:     g.ctx,
	}
	g.onStop(func(context.Context) error {
		for _, k := range g.kept {
			k.client.Close()
		}
		return nil
	})
	g.install(g.setupFrom(cfg))
	if g.store == nil {
		return nil
	}
	return g.traffic.KeepUnsynced(filepath.Join(cfg.DataDir, "shares.unsynced"))
}

// install puts s in force. The caller holds reloading.
func (g *Gateway) install(s *setup) {
	primaryOf := make(map[string][]string, len(s.cfg.Upstreams))
	for _, u := range s.cfg.Upstreams {
		primaryOf[u.Name] = s.primaryOf(u.Name)
	}
	g.traffic.Configure(stepsOf(s.cfg))
	g.traffic.Ensure(primaryOf)
	g.router.Budget.Configure(s.plan.BudgetRatio, s.plan.BudgetBurst)
	g.memory.limit.Store(s.cfg.MaxBufferedBytes)
	t := topology(s)
	g.metrics.Reset(t)
	g.live.Reset(t)
	g.budgets.set.Configure(objectivesOf(s.cfg), time.Since(g.budgets.started))
	g.setup.Store(s)
	g.careFor(s)
	for name, k := range g.kept {
		if s.upstreams[name] == nil {
			g.breakers.Remove(name)
			k.client.Close()
			delete(g.kept, name)
		}
	}
}

// claim makes the operator API, which is not served yet, and takes its socket.
func (g *Gateway) claim(cfg *config.Config) error {
	var tlsConfig *tls.Config
	if t := cfg.Operator.TLS; t != nil {
		certs, err := newCertificates(t)
		if err != nil {
			return fmt.Errorf("operator.tls: %w", err)
		}
		g.opCerts, tlsConfig = certs, certs.config()
	}
	g.registry = prometheus.NewRegistry()
	server, err := operator.New(operator.Options{
		Socket:    filepath.Join(cfg.DataDir, SocketName),
		Listen:    cfg.Operator.Listen,
		TLS:       tlsConfig,
		Tokens:    g.operatorTokens,
		AuditPath: filepath.Join(cfg.DataDir, "audit.jsonl"),
		Control:   (*control)(g),
		Line:      g.line,
		EventLine: telemetry.EventLine,
		OnEvent:   g.event,
		Metrics:   promhttp.HandlerFor(g.registry, promhttp.HandlerOpts{}),
		Kept:      g.keptUnder,
		Instance:  g.instance,
		Log:       g.o.Log,
	})
	if err != nil {
		return err
	}
	release, err := server.Claim()
	if err != nil {
		return err
	}
	g.operator = server
	g.onStop(func(context.Context) error {
		release()
		return nil
	})
	return nil
}

func (g *Gateway) line(d *decision.Decision) api.Decision {
	return telemetry.Line(d, telemetry.Meta{Version: g.o.Version, Instance: g.instance})
}

func (g *Gateway) operatorTokens() []operator.Token {
	s := g.setup.Load()
	tokens := make([]operator.Token, 0, len(s.cfg.Operator.Tokens))
	for _, t := range s.cfg.Operator.Tokens {
		tokens = append(tokens, operator.Token{Name: t.Name, Role: t.Role, Hash: t.Hash})
	}
	return tokens
}

// Limits of the client listener that no sensible client meets.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// listenClients takes the client port and returns what serves on it.
func (g *Gateway) listenClients(cfg *config.Config) (serve func(), err error) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	g.server = &http.Server{
		Handler:           http.HandlerFunc(g.serveClient),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         protocols,
		ErrorLog:          noise(g.note),
	}
	if cfg.TLS != nil {
		if g.certs, err = newCertificates(cfg.TLS); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		protocols.SetHTTP2(true)
		g.server.TLSConfig = g.certs.config()
	}
	if g.listener, err = g.o.Listen("tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return func() {
		var err error
		if cfg.TLS == nil {
			err = g.server.Serve(g.listener)
		} else {
			err = g.server.ServeTLS(g.listener, "", "")
		}
		if !errors.Is(err, http.ErrServerClosed) {
			g.o.Log("client listener: " + err.Error())
		}
	}, nil
}

// ClientAddr is where clients connect to.
func (g *Gateway) ClientAddr() string { return g.listener.Addr().String() }

// OperatorAddr is where the operator API listens on TCP, empty if it does not.
func (g *Gateway) OperatorAddr() string { return g.operator.Addr() }

// Stop drains and stops the gateway: not ready at once, requests accepted for
// drain_delay, then no new ones; those under way end within shutdown_grace,
// state is flushed. It stops waiting when ctx ends. Later calls return what
// the first did.
func (g *Gateway) Stop(ctx context.Context) error {
	g.stopOnce.Do(func() { g.stopErr = g.stop(ctx) })
	return g.stopErr
}

func (g *Gateway) stop(ctx context.Context) error {
	cfg := g.setup.Load().cfg
	g.draining.Store(true)
	g.o.Log(fmt.Sprintf("draining: requests are accepted for %s more", cfg.DrainDelay))
	wait(ctx, cfg.DrainDelay)
	g.closing.Store(true)
	grace, cancel := context.WithTimeout(ctx, cfg.ShutdownGrace)
	defer cancel()
	var errs []error
	if err := g.server.Shutdown(grace); err != nil {
		// A connection that is open without a request loses nothing.
		if n := g.inflight.Load(); n > 0 {
			errs = append(errs, fmt.Errorf("%d requests did not end within shutdown_grace (%s) and were cut off", n, cfg.ShutdownGrace))
		}
		_ = g.server.Close()
	}
	g.cancel()
	g.running.Wait()
	// Those that were cut off have yet to be recorded. One that does not end must
	// not take the time in which shares are written.
	recorded, enough := context.WithTimeout(context.WithoutCancel(ctx), flushTime/2)
	defer enough()
	for g.inflight.Load() > 0 && recorded.Err() == nil {
		wait(recorded, 5*time.Millisecond)
	}
	errs = append(errs, g.closeAll(context.WithoutCancel(ctx)))
	return errors.Join(errs...)
}

// flushTime bounds the writing of what each room still has in memory when the
// gateway ends: one that is stuck takes nothing from the others.
const flushTime = 5 * time.Second

func (g *Gateway) closeAll(ctx context.Context) error {
	var errs []error
	for len(g.cleanup) > 0 {
		last := len(g.cleanup) - 1
		errs = append(errs, closeOne(ctx, g.cleanup[last]))
		g.cleanup = g.cleanup[:last]
	}
	return errors.Join(errs...)
}

func closeOne(ctx context.Context, f func(context.Context) error) error {
	ctx, done := context.WithTimeout(ctx, flushTime)
	defer done()
	return f(ctx)
}

func (g *Gateway) onStop(f func(context.Context) error) { g.cleanup = append(g.cleanup, f) }

// run starts f, which must return when its context ends; Stop waits for it.
func (g *Gateway) run(f func(context.Context) error) {
	g.running.Go(func() {
		if err := f(g.ctx); err != nil && g.ctx.Err() == nil {
			g.alarm(err.Error())
		}
	})
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// event shows one change everywhere changes are shown.
func (g *Gateway) event(e decision.Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e = g.fromSuspect(e)
	g.log.Event(e)
	if g.lines != nil {
		g.lines.Event(e)
	}
	g.metrics.Event(e)
	if g.operator != nil {
		g.operator.Event(e)
	}
	g.incidents.event(e)
	g.follow(e)
}

// recordDecision shows the end of one request everywhere it is shown.
func (g *Gateway) recordDecision(d *decision.Decision) {
	g.log.Decision(d)
	if g.lines != nil {
		g.lines.Decision(d)
	}
	g.metrics.Decision(d)
	g.live.Decision(d)
	if g.spans != nil {
		g.spans.Observe(d)
	}
	g.budgets.observe(d)
	g.gather(d)
	g.incidents.decision(d)
	g.operator.Decision(d)
}

// note passes on a text of net/http about whoever connects, if it is due.
func (g *Gateway) note(text string) {
	if text, ok := g.noises.due(text); ok {
		g.o.Log(text)
	}
}

func (g *Gateway) alarm(detail string) {
	if text, ok := g.alarms.due(detail); ok {
		g.o.Log("alarm: " + text)
	}
}
