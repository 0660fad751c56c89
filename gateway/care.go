package gateway

import (
	"crypto/x509"
	"net/url"
	"slices"
	"time"

	"failback/gateway/config"
	"failback/gateway/health"
	"failback/gateway/health/dependency"
	"failback/gateway/health/probe"
	"failback/gateway/jobs"
	"failback/gateway/notify"
)

// openCare makes what watches over the upstreams and tells people of them. None
// of it is on a request's way but the detector of shared faults.
func (g *Gateway) openCare(cfg *config.Config) {
	g.faults = health.NewDetector(g.event)
	g.jobs.Register(jobProbes, time.Minute)
	g.prober = probe.New(probe.Options{Attempt: g.attemptProbe, OnResult: g.probed, OnLook: func() { g.jobs.Ran(jobProbes, nil) }})
	var roots *x509.CertPool
	if g.o.UpstreamTLS != nil {
		roots = g.o.UpstreamTLS.RootCAs
	}
	g.dependencies = dependency.New(dependency.Options{
		Dial: g.o.DialContext, Margin: func() time.Duration { return g.setup.Load().cfg.Health.ExpiryMargin },
		OnResult: g.checked,
	})
	g.serverCerts = dependency.New(dependency.Options{
		Dial: g.o.DialContext, Roots: roots, OnResult: func(dependency.Result) { g.jobs.Ran(jobCertificates, nil) },
	})
	g.notify = notify.New(notify.Options{
		URL: webhook(cfg), Environment: cfg.Environment, Instance: g.instance,
		Dial: g.o.DialContext, OnEvent: g.event,
	})
	g.pinger = jobs.NewPinger(jobs.PingOptions{Board: &g.jobs, URL: ping(cfg), Dial: g.o.DialContext})
}

// startCare runs what openCare made, until the gateway ends.
func (g *Gateway) startCare() {
	g.run(g.prober.Run)
	g.run(g.dependencies.Run)
	g.run(g.serverCerts.Run)
	g.run(g.notify.Run)
	g.run(g.pinger.Run)
	g.run(g.judge)
}

// careFor has everything that watches know the upstreams of s.
func (g *Gateway) careFor(s *setup) {
	members := make([]health.Member, 0, len(s.cfg.Upstreams))
	var certificates []dependency.Check
	for _, u := range s.cfg.Upstreams {
		m := health.Member{Upstream: u.Name, Cloud: u.FaultDomains["cloud"], Host: u.BaseURL.Hostname()}
		for kind, value := range u.FaultDomains {
			m.Domains = append(m.Domains, kind+"/"+value)
		}
		members = append(members, m)
		if c, ok := dependency.CertificateOf(u.Name, u.BaseURL); ok {
			certificates = append(certificates, c)
		}
	}
	g.faults.Configure(members, s.cfg.Breaker.Cooldown, time.Now())
	g.prober.Configure(g.probeTargets(s))
	checks := dependencyChecks(s.cfg)
	for _, r := range g.dependencies.Snapshot() {
		if !slices.ContainsFunc(checks, func(c dependency.Check) bool { return c.Name == r.Name }) {
			g.faults.Dependency(r.Name, r.Domain, false, "no longer configured", time.Now())
		}
	}
	g.expect(jobDependencies, mostEvery(s.cfg), len(checks) > 0)
	g.dependencies.Configure(checks)
	g.expect(jobCertificates, certificateEvery, len(certificates) > 0)
	g.serverCerts.Configure(certificates)
	g.notify.Configure(webhook(s.cfg), s.cfg.Environment)
	g.pinger.Configure(ping(s.cfg))
	for _, u := range s.cfg.Upstreams {
		g.conform(s, u.Name)
	}
}

// The jobs: what the gateway does by itself, over and again.
const (
	jobCertificates  = "certificates"
	jobBudgets       = "budgets"
	jobConfiguration = "configuration"
	jobDependencies  = "dependencies"
	jobHealth        = "health"
	jobMetrics       = "metrics"
	jobProbes        = "probes"
	jobStore         = "store"
)

// expect has a job on the board while there is work for it.
func (g *Gateway) expect(name string, every time.Duration, work bool) {
	if work {
		g.jobs.Register(name, every)
	} else {
		g.jobs.Remove(name)
	}
}

// probed takes the end of one probe.
func (g *Gateway) probed(r probe.Result) {
	g.faults.Observe(r.Target.Upstream, r.Outcome, time.Now())
	g.incidents.attempt(r.Target.Upstream, &r.Outcome, time.Now())
	if w := g.setup.Load().watched[r.Target.Upstream]; w != nil && r.Verdict() != probe.Unknown {
		w.evidence.Probe(r.Target.Model+":"+string(r.Target.Capability), r.Verdict() == probe.Passed)
	}
}

// certificateEvery is how often the certificates of upstreams are looked at.
const certificateEvery = 24 * time.Hour

// checked takes the result of a check of a shared dependency.
func (g *Gateway) checked(r dependency.Result) {
	g.jobs.Ran(jobDependencies, nil)
	if r.State != dependency.Unknown {
		g.faults.Dependency(r.Name, r.Domain, r.State == dependency.Failed, r.Detail, time.Now())
	}
}

// mostEvery is the longest time between two checks of a shared dependency.
func mostEvery(cfg *config.Config) time.Duration {
	most := time.Duration(0)
	for _, d := range cfg.SharedDependencies {
		most = max(most, d.Every)
	}
	return most
}

func webhook(cfg *config.Config) *url.URL {
	if cfg.Notify == nil {
		return nil
	}
	return cfg.Notify.Webhook
}

func ping(cfg *config.Config) *url.URL {
	if cfg.Jobs == nil {
		return nil
	}
	return cfg.Jobs.Ping
}

func dependencyChecks(cfg *config.Config) []dependency.Check {
	var checks []dependency.Check
	for _, d := range cfg.SharedDependencies {
		c := dependency.Check{Name: d.Name, Domain: d.Domain, Every: d.Every, MaxAge: d.MaxAge}
		switch {
		case d.DNS != "":
			c.Kind, c.Target = dependency.DNS, d.DNS
		case d.TCP != "":
			c.Kind, c.Target = dependency.TCP, d.TCP
		case d.TLS != "":
			c.Kind, c.Target = dependency.TLS, d.TLS
		case d.HTTP != nil:
			c.Kind, c.Target = dependency.HTTP, d.HTTP.String()
		default:
			c.Kind, c.Target = dependency.File, d.File
		}
		checks = append(checks, c)
	}
	return checks
}
