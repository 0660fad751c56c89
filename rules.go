package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/rules"
	"failback/ui/text"
)

// rulesFlags are those of failback rules.
type rulesFlags struct {
	threshold, interrupted string
	clientRetries, output  string
	measured, url          string
	dashboard              bool
}

func runRulesFlags(in *invocation) {
	connectFlags(in)
	r := &in.rules
	in.flags.StringVar(&r.threshold, "threshold", "", "fallback ratio above which it is an alert, 0 to 1 (default: limit.fallback_ratio of the configuration)")
	in.flags.StringVar(&r.interrupted, "interrupted", "", "part of the answers that break off above which it is an alert, 0 to 1")
	in.flags.StringVar(&r.clientRetries, "client-retries", "", "part of the requests that are clients' retries above which it is an alert, 0 to 1")
	in.flags.StringVar(&r.output, "first-output", "", "p95 of the first output above which it is an alert: 5s")
	in.flags.StringVar(&r.measured, "measured", "", "measure thresholds that are neither given nor configured over this past: 30d")
	in.flags.StringVar(&r.url, "runbook-url", "", "link runbooks: what stands before their id, or a URL with {id} in it")
	in.flags.BoolVar(&r.dashboard, "dashboard", false, "a Grafana dashboard as JSON instead of rules")
}

// runRules prints alert rules, or a dashboard.
func runRules(in *invocation) error {
	f := &in.rules
	o := rules.Options{RunbookURL: f.url}
	var past time.Duration
	var err error
	for _, part := range []struct {
		flag, value string
		to          **float64
	}{
		{"threshold", f.threshold, &o.Thresholds.FallbackRatio},
		{"interrupted", f.interrupted, &o.Thresholds.Interrupted},
		{"client-retries", f.clientRetries, &o.Thresholds.ClientRetries},
	} {
		if *part.to, err = parsePart(part.value); err != nil {
			return usagef("--%s: %v", part.flag, err)
		}
	}
	if f.output != "" {
		d, err := parseSpan(f.output)
		if err != nil || d <= 0 {
			return usagef("--first-output: %q is no time, as 5s or 800ms", f.output)
		}
		o.Thresholds.FirstOutput = new(d.Seconds())
	}
	if f.measured != "" {
		if past, err = parseSpan(f.measured); err != nil || past <= 0 {
			return usagef("--measured wants a span to look back, such as 30d, not %q", f.measured)
		}
	}
	// A flag without its value took the next word for it: that is said before what
	// is left over is.
	if err := in.want(0); err != nil {
		return err
	}
	known, err := in.rulesSource(past > 0)
	if err != nil {
		return err
	}
	defer known.close()
	o.Selector, o.Every = known.sources.Prometheus.Selector, known.every
	o.Objectives = known.objectives
	if o.FirstOutputHighest = known.highest; known.highest == 0 && o.Thresholds.FirstOutput != nil {
		if o.FirstOutputHighest, err = highestFirstOutput(in.ctx, known.gateway); err != nil {
			return err
		}
	}
	if err := o.ReachesFirstOutput(); err != nil {
		return usagef("--first-output %s: %v", f.output, err)
	}

	note := []string{"Alert rules of failback for Prometheus, from failback rules. docs/alerts.md says what each means."}
	if l := known.limit; l != nil && o.Thresholds.FallbackRatio == nil {
		if *l < 1 {
			o.Thresholds.FallbackRatio = l
			note = append(note, fmt.Sprintf("The threshold of FailbackFallbackRatioHigh is limit.fallback_ratio of %s: %v.", known.from, *l))
		} else {
			note = append(note, "limit.fallback_ratio of "+known.from+" is 1, which no ratio exceeds: it is no threshold.")
		}
	}
	if past > 0 {
		prom, every, err := sources.Prometheus(known.gateway, known.sources, os.LookupEnv)
		if err != nil {
			return err
		}
		m, err := rules.Measure(in.ctx, prom, o.Selector, every, past)
		if err != nil {
			return fmt.Errorf("--measured %s: %s", f.measured, text.Visible(err.Error()))
		}
		given := o.Thresholds.FirstOutput
		o.Thresholds = m.Thresholds(o.Thresholds)
		note = append(note, m.Note()...)
		if err := o.ReachesFirstOutput(); err != nil {
			o.Thresholds.FirstOutput = given
			note = append(note, "FailbackFirstOutputSlow is not measured: "+err.Error()+".")
		}
	}
	if f.dashboard {
		d, err := rules.Dashboard(o)
		if err != nil {
			return err
		}
		_, err = in.out.Write(d)
		return err
	}
	s, err := rules.New(o)
	if err != nil {
		return err
	}
	_, err = io.WriteString(in.out, s.YAML(note, o.RunbookURL))
	return err
}

// rulesKnown is what rules are made from.
type rulesKnown struct {
	sources    api.Sources
	every      time.Duration
	objectives []rules.Objective
	limit      *float64         // of the fallback ratio; nil: none is configured
	highest    time.Duration    // bucket of the first output; 0: the gateway was asked, whose metrics say it
	from       string           // whose limit that is
	gateway    sources.Embedded // nil: none was asked
	close      func()
}

// rulesSource asks the gateway that --connect names, else reads the
// configuration. Without a configured Prometheus the past is in the gateway of
// that configuration.
func (in *invocation) rulesSource(past bool) (*rulesKnown, error) {
	k := &rulesKnown{close: func() {}}
	if in.connect == "" {
		cfg, err := config.LoadText(config.Source{Path: in.config, Env: os.LookupEnv})
		if err != nil {
			return nil, err
		}
		if !past || cfg.Sources.Prometheus != nil {
			k.fromConfig(cfg)
			return k, nil
		}
	}
	c, err := in.client("")
	if err != nil {
		return nil, err
	}
	s, err := in.state(c)
	if err != nil {
		c.Close()
		return nil, err
	}
	k.gateway, k.close = c, c.Close
	k.fromState(s)
	return k, nil
}

func (k *rulesKnown) fromConfig(cfg *config.Config) {
	k.from = "the configuration"
	if cfg.Limit != nil {
		k.limit = &cfg.Limit.FallbackRatio
	}
	k.every, k.highest = cfg.Sources.Every, gateway.HighestFirstOutput(cfg)
	k.sources.Prometheus = api.Source{Selector: `job="` + api.ServiceName + `"`, EverySeconds: k.every.Seconds()}
	if p := cfg.Sources.Prometheus; p != nil {
		k.sources.Prometheus = api.Source{
			URL: p.URL.String(), Selector: p.Selector, EverySeconds: k.every.Seconds(),
			Method: p.Method, TimeoutSeconds: p.Timeout.Seconds(), Tenant: p.Tenant,
		}
	}
	for _, m := range cfg.Models {
		if m.SLO == nil {
			continue
		}
		if m.SLO.Availability > 0 {
			k.objectives = append(k.objectives, rules.Objective{Model: m.Name, Kind: rules.Availability, Window: m.SLO.Window})
		}
		if m.SLO.FirstOutput != nil {
			k.objectives = append(k.objectives, rules.Objective{Model: m.Name, Kind: rules.FirstOutput, Window: m.SLO.Window})
		}
	}
}

func (k *rulesKnown) fromState(s *api.State) {
	k.from = "the gateway"
	if s.Limit != nil {
		k.limit = &s.Limit.FallbackRatio
	}
	k.sources = s.Sources
	k.every = time.Duration(s.Sources.Prometheus.EverySeconds * float64(time.Second))
	for _, m := range s.Models {
		for _, b := range m.Budgets {
			k.objectives = append(k.objectives, rules.Objective{Model: m.Name, Kind: b.Objective, Window: time.Duration(b.WindowSeconds * float64(time.Second))})
		}
	}
}

// highestFirstOutput reads the highest finite bucket of the first output from the
// metrics of a gateway.
func highestFirstOutput(ctx context.Context, gw sources.Embedded) (time.Duration, error) {
	const what = "the buckets of the gateway's /metrics"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, gw.BaseURL()+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	res, err := gw.Transport().RoundTrip(req)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: it answers %d", what, res.StatusCode)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(res.Body, maxMetrics))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	highest := 0.0
	for _, m := range families[rules.FirstOutputMetric].GetMetric() {
		for _, b := range m.GetHistogram().GetBucket() {
			if le := b.GetUpperBound(); !math.IsInf(le, 0) {
				highest = max(highest, le)
			}
		}
	}
	if highest == 0 {
		return 0, fmt.Errorf("%s: there is no histogram %s", what, rules.FirstOutputMetric)
	}
	return time.Duration(highest * float64(time.Second)), nil
}

// maxMetrics bounds what is read of a gateway's metrics.
const maxMetrics = 64 << 20

// parsePart reads a part of all requests; nil for none.
func parsePart(s string) (*float64, error) {
	if s == "" {
		return nil, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f >= 1 {
		return nil, fmt.Errorf("%q is no part of all requests: 0.1 for 10%%, at least 0 and below 1", s)
	}
	return &f, nil
}
