package sources

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"failback/gateway/operator/api"
)

// before puts a rate one hour back.
const before = " offset 1h"

// question is one instant query of an overview with its answer.
type question struct {
	about  string // for a warning; empty: without it there is no overview
	promql string

	vector   model.Vector
	warnings []string
	err      error
}

// Overview asks for what the overview shows.
func (p *prom) Overview(ctx context.Context, gen uint64) Answer[Overview] {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	clock, err := p.begin(ctx)
	if err != nil {
		return Answer[Overview]{Gen: gen, Clock: Clock{Sent: clock.Sent, Received: clock.Received}, Err: err}
	}
	v, err := p.overview(ctx, clock.At)
	if err != nil {
		return Answer[Overview]{Gen: gen, Clock: Clock{Sent: clock.Sent, Received: time.Now()}, Err: err}
	}
	p.past.see(v.Ratio, clock.At)
	return Answer[Overview]{Gen: gen, Clock: clock, Value: v}
}

func (p *prom) overview(ctx context.Context, at time.Time) (*Overview, error) {
	q := p.queries
	var (
		ratio          = &question{promql: q.ratio()}
		requests       = &question{promql: q.rate("", requestsTotal, "")}
		fallbacks      = &question{promql: q.rate("", fallbacksTotal, "")}
		requestSeries  = &question{promql: "count(" + q.series(requestsTotal) + ")"}
		fallbackSeries = &question{promql: "count(" + q.series(fallbacksTotal) + ")"}
		sampled        = &question{promql: "max(timestamp(" + q.series(requestsTotal) + "))"}
		modelRequests  = &question{about: "fallback by model", promql: q.rate("model", requestsTotal, "")}
		modelFallbacks = &question{about: "fallback by model", promql: q.rate("model", fallbacksTotal, "")}
		own            = &question{about: "fallback by upstream", promql: q.rate("provider", ownTotal, "")}
		ownFallbacks   = &question{about: "fallback by upstream", promql: q.rate("primary", fallbacksTotal, "")}
		verdicts       = &question{about: "failed an hour ago", promql: q.rate("verdict", verdictsTotal, before, `verdict=~"good|bad"`)}
		outputs        = &question{about: "first output an hour ago", promql: q.rate("", firstOutput+"_count", before)}
		buckets        = &question{about: "first output an hour ago", promql: q.rate("le", firstOutput+"_bucket", before)}
		p95            = &question{about: "first output an hour ago", promql: "histogram_quantile(0.95, " + q.rate("le", firstOutput+"_bucket", before) + ")"}
	)
	all := []*question{ratio, requests, fallbacks, requestSeries, fallbackSeries, sampled,
		modelRequests, modelFallbacks, own, ownFallbacks, verdicts, outputs, buckets, p95}
	p.ask(ctx, at, all)
	v := &Overview{}
	for _, a := range all {
		if a.err != nil && a.about == "" {
			return nil, a.err
		}
		for _, w := range a.warnings {
			v.warn(w)
		}
	}

	f := ratioFacts{Window: p.Window()}
	var counts [2]*float64
	var newest *float64
	for _, n := range []struct {
		to   **float64
		from *question
	}{{&f.Ratio, ratio}, {&f.Requests, requests}, {&f.Fallbacks, fallbacks}, {&counts[0], requestSeries}, {&counts[1], fallbackSeries}, {&newest, sampled}} {
		var err error
		if *n.to, err = p.one(n.from.vector); err != nil {
			return nil, err
		}
	}
	for i, to := range []*float64{&f.RequestSeries, &f.FallbackSeries} {
		if counts[i] != nil {
			*to = *counts[i]
		}
	}
	if newest == nil {
		var err error
		if newest, err = p.lastSampled(ctx, at, v); err != nil {
			return nil, err
		}
	}
	if newest != nil && number(*newest) {
		f.Sampled = time.UnixMilli(int64(*newest * 1000)).UTC()
	}

	v.Sampled, v.Ratio, v.Traffic = f.Sampled, f.reading(), f.traffic()
	v.PerModel = p.parts(v, f, modelRequests, "model", modelFallbacks, "model", requestsTotal)
	v.PerUpstream = p.parts(v, f, own, "provider", ownFallbacks, "primary", ownTotal)
	if rows, ok := p.byLabel(v, verdicts, "verdict"); ok {
		v.FailedBefore = failedBefore(rows, at)
	} else {
		v.FailedBefore = unanswered(at)
	}
	v.FirstOutputP95Before = unanswered(at)
	if n, ok := p.single(v, outputs); ok {
		if quantile, ok := p.single(v, p95); ok {
			if byBound, ok := p.byLabel(v, buckets, "le"); ok {
				v.FirstOutputP95Before = quantileBefore(0.95, quantile, n, byBound, at)
			}
		}
	}
	return v, nil
}

// ask asks all at one moment, a few at a time.
func (p *prom) ask(ctx context.Context, at time.Time, all []*question) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, atOnce)
	for _, a := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			a.vector, a.warnings, a.err = p.instant(ctx, a.promql, at)
		})
	}
}

// lastSampled looks for the newest sample of the last hour, where there is none
// now: a target that is down leaves its series at once, but its rates answer as
// long as the window holds samples.
func (p *prom) lastSampled(ctx context.Context, at time.Time, v *Overview) (*float64, error) {
	step := max(min(p.period, time.Minute), 5*time.Second).Round(time.Second)
	vector, warnings, err := p.instant(ctx, "max(max_over_time(timestamp("+p.queries.series(requestsTotal)+")[1h:"+model.Duration(step).String()+"]))", at)
	for _, w := range warnings {
		v.warn(w)
	}
	if err != nil {
		return nil, err
	}
	return p.one(vector)
}

// parts is the ratio by a label, which numerator and denominator name
// differently.
func (p *prom) parts(v *Overview, f ratioFacts, of *question, ofLabel string, fallbacks *question, fallbackLabel, metric string) []RatioRow {
	o, ok := p.byLabel(v, of, ofLabel)
	n, both := p.byLabel(v, fallbacks, fallbackLabel)
	if !ok || !both {
		return nil
	}
	return f.rows(o, n, metric)
}

// byLabel is the answer to a as a map; false, and a warning, if there is none.
// Rows without the label are nobody's, and are left out with a warning.
func (p *prom) byLabel(v *Overview, a *question, label string) (map[string]float64, bool) {
	if a.err != nil {
		v.warn(a.about + ": " + a.err.Error())
		return nil, false
	}
	rows := make(map[string]float64, len(a.vector))
	strangers := 0
	for _, s := range a.vector {
		name := string(s.Metric[model.LabelName(label)])
		if name == "" {
			strangers++
			continue
		}
		rows[name] += float64(s.Value)
	}
	if strangers > 0 {
		v.warn(fmt.Sprintf("%s: %d without the label %s left out", a.about, strangers, label))
	}
	return rows, true
}

// single is the one number of the answer to a; false, and a warning, if there
// was no such answer.
func (p *prom) single(v *Overview, a *question) (*float64, bool) {
	n, err := (*float64)(nil), a.err
	if err == nil {
		n, err = p.one(a.vector)
	}
	if err != nil {
		v.warn(a.about + ": " + err.Error())
		return nil, false
	}
	return n, true
}

func (v *Overview) warn(text string) { v.Warnings = warn(v.Warnings, text) }

// warn adds a text that is not there yet.
func warn(all []string, text string) []string {
	text = oneLine(strings.ToValidUTF8(text, "\uFFFD"))
	if slices.Contains(all, text) {
		return all
	}
	return append(all, text)
}

func unanswered(at time.Time) Reading {
	return Reading{Number: api.Number{State: StateUnknown, At: at}, Why: "not answered"}
}
