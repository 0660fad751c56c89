package sources

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"failback/gateway/operator/api"
	"failback/sources/promql"
)

// before is how far back the numbers are that people compare with.
const before = time.Hour

// question is one instant query of an overview with its answer.
type question struct {
	about  string // for an error or a warning
	must   bool   // without it there is no overview
	promql string

	vector model.Vector
	said   said
	err    error
}

// Overview asks for what the overview shows.
func (p *prom) Overview(ctx context.Context, gen uint64) Answer[Overview] {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	clock, date, err := p.begin(ctx)
	if err != nil {
		return Answer[Overview]{Gen: gen, Clock: Clock{Sent: clock.Sent, Received: clock.Received}, Err: err}
	}
	v, whole, err := p.overview(ctx, clock.At)
	if err != nil {
		return Answer[Overview]{Gen: gen, Clock: Clock{Sent: clock.Sent, Received: time.Now()}, Err: err}
	}
	if w := clock.cached(date); w != "" {
		v.warn(w)
	}
	if whole {
		p.past.see(v.Ratio, clock.At)
	}
	return Answer[Overview]{Gen: gen, Clock: clock, Value: v}
}

// overview asks for an Overview of a moment. It is whole if nothing was said to be
// missing from what its ratio is made of.
func (p *prom) overview(ctx context.Context, at time.Time) (v *Overview, whole bool, err error) {
	q := p.queries
	const failed, output, models, upstreams = "failed an hour ago", "first output an hour ago", "fallback by model", "fallback by upstream"
	var (
		ratio          = &question{about: "fallback ratio", must: true, promql: q.Ratio()}
		requests       = &question{about: "traffic", must: true, promql: q.Rate("", promql.RequestsTotal)}
		fallbacks      = &question{about: "rate of fallbacks", must: true, promql: q.Rate("", promql.FallbacksTotal)}
		requestSeries  = &question{about: "series of requests", must: true, promql: "count(" + q.Series(promql.RequestsTotal) + ")"}
		fallbackSeries = &question{about: "series of fallbacks", must: true, promql: "count(" + q.Series(promql.FallbacksTotal) + ")"}
		sampled        = &question{about: "newest sample", must: true, promql: "max(timestamp(" + q.Series(promql.RequestsTotal) + "))"}
		old            = &question{about: "age of the series", promql: "count(" + q.Series(promql.RequestsTotal) + " and " + q.Series(promql.RequestsTotal) + " offset " + windowText(p.Window()) + ")"}
		unscraped      = &question{about: "gateways", promql: "group by (instance) (last_over_time(" + q.Series(promql.RequestsTotal) + "[" + windowText(unscrapedFor) + "])) unless group by (instance) (" + q.Series(promql.RequestsTotal) + ")"}
		modelRequests  = &question{about: models, promql: q.Rate("model", promql.RequestsTotal)}
		modelFallbacks = &question{about: models, promql: q.Rate("model", promql.FallbacksTotal)}
		own            = &question{about: upstreams, promql: q.Rate("provider", promql.OwnTotal)}
		ownFallbacks   = &question{about: upstreams, promql: q.Rate("primary", promql.FallbacksTotal)}
		verdicts       = &question{about: failed, promql: q.RateBefore(before, "verdict", promql.VerdictsTotal, `verdict=~"good|bad"`)}
		outputs        = &question{about: output, promql: q.RateBefore(before, "", promql.FirstOutput+"_count")}
		buckets        = &question{about: output, promql: q.RateBefore(before, "le", promql.FirstOutput+"_bucket")}
		p95            = &question{about: output, promql: "histogram_quantile(0.95, " + q.RateBefore(before, "le", promql.FirstOutput+"_bucket") + ")"}
		alerts         = &question{about: "alerts that fire", promql: q.Firing()}
		violations     = &question{about: "violations of policy", promql: q.Violations()}
		gone           = &question{about: "models that are gone", promql: q.Refuses(`class="model_gone"`)}
	)
	all := []*question{ratio, requests, fallbacks, requestSeries, fallbackSeries, sampled, old, unscraped,
		modelRequests, modelFallbacks, own, ownFallbacks, verdicts, outputs, buckets, p95, alerts, violations, gone}
	p.ask(ctx, at, all)
	v = &Overview{}
	for _, a := range all {
		if a.err != nil && a.must {
			return nil, false, ofQuestion(a.about, a.err)
		}
		v.hear(a.said)
	}
	whole = len(ratio.said.warnings)+len(requests.said.warnings)+len(fallbacks.said.warnings) == 0

	f := ratioFacts{Window: p.Window()}
	var counts [2]*float64
	var newest *float64
	for _, n := range []struct {
		to   **float64
		from *question
	}{{&f.Ratio, ratio}, {&f.Requests, requests}, {&f.Fallbacks, fallbacks}, {&counts[0], requestSeries}, {&counts[1], fallbackSeries}, {&newest, sampled}} {
		var err error
		if *n.to, err = p.one(n.from.vector); err != nil {
			return nil, false, ofQuestion(n.from.about, err)
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
			return nil, false, ofQuestion(sampled.about, err)
		}
	}
	if newest != nil && number(*newest) {
		f.Sampled = time.UnixMilli(int64(*newest * 1000)).UTC()
	}

	v.Sampled, v.Ratio, v.Traffic = f.Sampled, f.reading(), f.traffic()
	v.PerModel = p.parts(v, f, modelRequests, "model", modelFallbacks, "model", promql.RequestsTotal)
	v.PerUpstream = p.parts(v, f, own, "provider", ownFallbacks, "primary", promql.OwnTotal)
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
	v.Alerts = p.above(v, alerts, "alertname")
	v.Violations = p.above(v, violations, "task_type")
	v.Gone = p.above(v, gone, "provider")
	v.young(f, p, old)
	if lost, ok := p.byLabel(v, unscraped, "instance"); ok && len(lost) > 0 && f.RequestSeries > 0 {
		v.warn(unscrapedText(slices.Sorted(maps.Keys(lost))))
	}
	return v, whole, nil
}

// unscrapedFor is how long a gateway is missed of which there are no samples any
// more: what it does is in no number, and the others' look whole.
const unscrapedFor = 15 * time.Minute

func unscrapedText(instances []string) string {
	const named = 3
	text := strings.Join(instances[:min(named, len(instances))], ", ")
	if more := len(instances) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ": there were samples within " + windowText(unscrapedFor) + ", there are none any more"
}

// above are the names whose number is above 0, sorted.
func (p *prom) above(v *Overview, a *question, label string) (names []string) {
	rows, _ := p.byLabel(v, a, label)
	for name, n := range rows {
		if n > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// young notes series of requests that have no sample as old as the window: what
// they counted before their first one no rate can tell.
func (v *Overview) young(f ratioFacts, p *prom, old *question) {
	n, ok := p.single(v, old)
	if !ok || f.RequestSeries == 0 {
		return
	}
	then := 0.0
	if n != nil {
		then = *n
	}
	if young := f.RequestSeries - then; young > 0 {
		v.note(fmt.Sprintf("%.0f of %.0f series of %s are younger than %s", young, f.RequestSeries, promql.RequestsTotal, windowText(f.Window)))
	}
}

// ask asks all at one moment, a few at a time.
func (p *prom) ask(ctx context.Context, at time.Time, all []*question) {
	var wg workers
	defer wg.Wait()
	slots := make(chan struct{}, atOnce)
	for _, a := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			a.vector, a.said, a.err = p.instant(ctx, a.promql, at)
		})
	}
}

// lastSampled looks for the newest sample of the last hour, where there is none
// now: a target that is down leaves its series at once, but its rates answer as
// long as the window holds samples.
func (p *prom) lastSampled(ctx context.Context, at time.Time, v *Overview) (*float64, error) {
	step := max(min(p.period, time.Minute), 5*time.Second).Round(time.Second)
	vector, said, err := p.instant(ctx, "max(max_over_time(timestamp("+p.queries.Series(promql.RequestsTotal)+")[1h:"+model.Duration(step).String()+"]))", at)
	v.hear(said)
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
func (v *Overview) note(text string) { v.Notes = warn(v.Notes, text) }

// hear takes what came with an answer.
func (v *Overview) hear(s said) {
	for _, w := range s.warnings {
		v.warn(w)
	}
	for _, i := range s.infos {
		v.note(i)
	}
}

// ofQuestion says what a question was about whose answer is not the one expected.
func ofQuestion(about string, err error) error {
	e, ok := errors.AsType[*RemoteError](err)
	if !ok || e.Kind != RemoteShape && e.Kind != RemoteQuery {
		return err
	}
	n := *e
	n.text = about + ": " + e.text
	return &n
}

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
