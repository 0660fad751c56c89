package rules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"failback/sources/promql"
)

const (
	// chunk is how much of the past one question is about: no answer is large,
	// and none takes a server long.
	chunk = 24 * time.Hour
	// MaxPast bounds how far is looked back.
	MaxPast = 400 * 24 * time.Hour
)

// blamed are the classes that count against a breaker.
const blamed = "connect|dns|tls|reset|first_output_timeout|attempt_timeout|idle_timeout|server_error|overloaded|bad_response|interrupted"

// ErrPartial is wrapped by the error of a server that says that its answers are
// not whole: thresholds of a part of the data would be wrong ones.
var ErrPartial = errors.New("the server does not answer with all it has")

// Measure asks a Prometheus for the past of the series that selector selects,
// which are scraped every so often, and judges it. It asks one question at a
// time. What the server warns of is ErrPartial; what it remarks is in the Note.
func Measure(ctx context.Context, prom promv1.API, selector string, every, past time.Duration) (*Measured, error) {
	if past > MaxPast {
		return nil, fmt.Errorf("more than %s back is not looked", promql.Span(MaxPast))
	}
	if every > Step/4 {
		return nil, fmt.Errorf("samples are taken every %s: points of %s would hold fewer than four", promql.Span(every), promql.Span(Step))
	}
	q, err := newQuery(selector, every)
	if err != nil {
		return nil, err
	}
	q.Query = promql.New(selector, Step)
	v, _, _, err := prom.Query(ctx, "time()", time.Time{})
	if err != nil {
		return nil, err
	}
	now, ok := v.(*model.Scalar)
	if !ok {
		return nil, errors.New("the server does not tell its time: is this a Prometheus?")
	}
	end := now.Timestamp.Time().Truncate(Step)
	a := asker{ctx: ctx, prom: prom, start: end.Add(-past.Truncate(Step)), end: end}
	h := &History{Start: a.start, End: a.end}
	h.Requests = a.one(q.Rate("", promql.RequestsTotal))
	h.Fallbacks = a.one(q.Rate("", promql.FallbacksTotal))
	h.Interrupted = a.one(q.Rate("", promql.RequestsTotal, `outcome="incomplete"`))
	h.ClientRetries = a.one(q.Rate("", promql.ClientRetries))
	h.FirstOutputP95 = a.one(q.quantile(0.95, "", promql.FirstOutput))
	h.Attempts = a.by("provider", q.Rate("provider", promql.AttemptsTotal), Step)
	h.Failures = a.by("provider", q.Rate("provider", promql.AttemptsTotal, `class=~"`+blamed+`"`), Step)
	h.Down = a.by("bucket", `label_join(max by (provider, region, capability) (`+q.Series(promql.BreakerState, `state!="closed"`)+`), "bucket", "/", "provider", "region", "capability")`, OutageStep)
	h.FirstOutput = a.buckets(q, promql.FirstOutput)
	h.Duration = a.buckets(q, promql.Workflow)
	if a.err != nil {
		return nil, a.err
	}
	m, err := Judge(h)
	if err == nil {
		m.Remarks = a.remarks
	}
	return m, err
}

// asker asks over one time; after the first error it asks no more.
type asker struct {
	ctx        context.Context
	prom       promv1.API
	start, end time.Time
	remarks    []string
	err        error
}

// one is the one series of a query.
func (a *asker) one(q string) Series { return a.by("", q, Step)[""] }

// by is the series of a query by a label.
func (a *asker) by(label, q string, step time.Duration) map[string]Series {
	all := map[string]Series{}
	for from := a.start; a.err == nil && !from.After(a.end); from = from.Add(chunk) {
		to := from.Add(chunk - step)
		if to.After(a.end) {
			to = a.end
		}
		v, warnings, infos, err := a.prom.QueryRange(a.ctx, q, promv1.Range{Start: from, End: to, Step: step})
		if err == nil && len(warnings) > 0 {
			err = fmt.Errorf("%w of %s to %s: %s: ask one that is whole, or give thresholds", ErrPartial, stamp(from), stamp(to), strings.Join(warnings, "; "))
		}
		if err != nil {
			a.err = err
			return nil
		}
		for _, i := range infos {
			if !slices.Contains(a.remarks, i) {
				a.remarks = append(a.remarks, i)
			}
		}
		m, ok := v.(model.Matrix)
		if !ok {
			a.err = errors.New("the server answers no matrix to a range: is this a Prometheus?")
			return nil
		}
		for _, s := range m {
			name := string(s.Metric[model.LabelName(label)])
			if all[name] == nil {
				all[name] = Series{}
			}
			for _, p := range s.Values {
				if f := float64(p.Value); !math.IsNaN(f) {
					all[name][int64(p.Timestamp)] = f
				}
			}
		}
	}
	return all
}

// buckets is the whole histogram: what its buckets grew by in each step.
func (a *asker) buckets(q query, metric string) []Bucket {
	var all []Bucket
	for le, s := range a.by("le", q.Increase("le", metric+"_bucket"), Step) {
		bound, err := strconv.ParseFloat(le, 64)
		if err != nil {
			continue
		}
		b := Bucket{Le: bound}
		for _, n := range s {
			b.Count += n
		}
		all = append(all, b)
	}
	return all
}
