package rules

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"failback/sources/promql"
)

const (
	// Step is the distance of the points that a history is measured by, and what
	// each point's rates are taken over.
	Step = 5 * time.Minute
	// OutageStep is the distance of points by which outages are told apart.
	OutageStep = time.Minute
	// MinPoints is how many points a p99 needs: three lie above it.
	MinPoints = 300
	// MinObserved is how many observations of a histogram a p99 needs.
	MinObserved = 1000
	// MinOutages is how many outages, or relapses, a p50 needs.
	MinOutages = 10
	// relapse is how soon after an outage the next one is the same.
	relapse = time.Hour
	// breakerWindow is the default of breaker.window, in which its rate is taken.
	breakerWindow = 30 * time.Second
)

// Distribution is what many values look like. Percentiles are by nearest rank:
// the least value that at least that part of all values do not exceed. There is
// no interpolation: each was measured.
type Distribution struct {
	Count              int
	P50, P90, P99, Max float64
}

// Distribute describes values; those that are no numbers are left out.
func Distribute(values []float64) Distribution {
	v := slices.DeleteFunc(slices.Clone(values), func(f float64) bool { return math.IsNaN(f) || math.IsInf(f, 0) })
	if len(v) == 0 {
		return Distribution{}
	}
	slices.Sort(v)
	return Distribution{len(v), rank(v, 0.5), rank(v, 0.9), rank(v, 0.99), v[len(v)-1]}
}

// rank is the percentile q (above 0, at most 1) of sorted values, of which there
// is at least one.
func rank(sorted []float64, q float64) float64 {
	// A product such as 0.99*300 lies a hair above the whole number it is.
	i := int(math.Ceil(q*float64(len(sorted))-1e-9)) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Bucket is one of a histogram: how many observations were at most Le, those of
// the buckets before included. The last one's Le is +Inf.
type Bucket struct {
	Le, Count float64
}

// DistributeBuckets describes a histogram. A percentile is the upper bound of
// the bucket that it lies in: the value is at most that. It is +Inf beyond the
// last bound.
func DistributeBuckets(all []Bucket) Distribution {
	b := slices.DeleteFunc(slices.Clone(all), func(b Bucket) bool { return math.IsNaN(b.Le) || math.IsNaN(b.Count) || b.Count < 0 })
	slices.SortFunc(b, func(x, y Bucket) int { return cmp.Compare(x.Le, y.Le) })
	if len(b) == 0 || !math.IsInf(b[len(b)-1].Le, 1) || b[len(b)-1].Count <= 0 {
		return Distribution{}
	}
	for i := 1; i < len(b); i++ { // each bucket was asked for by itself
		b[i].Count = max(b[i].Count, b[i-1].Count)
	}
	total := b[len(b)-1].Count
	at := func(q float64) float64 {
		i := slices.IndexFunc(b, func(x Bucket) bool { return x.Count >= q*total-1e-9*total })
		return b[i].Le
	}
	return Distribution{int(math.Round(total)), at(0.5), at(0.9), at(0.99), at(1)}
}

// Series are values by time in unix milliseconds; a time without a value has no
// entry.
type Series map[int64]float64

// Part is of a as part of b at each time at which both are known and b is above
// 0, at most 1: a client that left before anybody answered is in one and not in
// the other.
func Part(a, b Series) []float64 {
	var parts []float64
	for at, of := range b {
		if n, ok := a[at]; ok && of > 0 && n >= 0 && !math.IsInf(of, 0) && !math.IsNaN(n) {
			parts = append(parts, min(n/of, 1))
		}
	}
	return parts
}

// Outages are the lengths of the unbroken times in which down is above 0, and
// the gaps between them that are no longer than relapse, in seconds. Of an
// outage that begins with the first point, ends with the last or borders on a
// time of which nothing is known, the length is not known, and so is the gap.
func Outages(down Series, step time.Duration) (lengths, relapses []float64) {
	times := make([]int64, 0, len(down))
	for at := range down {
		times = append(times, at)
	}
	slices.Sort(times)
	ms := step.Milliseconds()
	const unknown = int64(math.MinInt64)
	began, ended := unknown, unknown
	was := false
	for i, at := range times {
		is := down[at] > 0
		if i == 0 || at-times[i-1] != ms { // nothing is known before
			began, ended, was = unknown, unknown, is
			continue
		}
		switch {
		case is && !was:
			began = at
			if ended != unknown && at-ended <= relapse.Milliseconds() {
				relapses = append(relapses, float64(at-ended)/1000)
			}
		case !is && was:
			if began != unknown {
				lengths = append(lengths, float64(at-began)/1000)
			}
			ended = at
		}
		was = is
	}
	return lengths, relapses
}

// History is what a Prometheus knows of the past of a gateway.
type History struct {
	Start, End time.Time
	// Rates are per second, a point each Step.
	Requests, Fallbacks, Interrupted, ClientRetries Series
	// FirstOutputP95 is in seconds.
	FirstOutputP95 Series
	// Attempts and Failures are rates by upstream; failures are those that count
	// against a breaker.
	Attempts, Failures map[string]Series
	// Down is by bucket, a point each OutageStep: above 0 while a breaker of it
	// is not closed.
	Down map[string]Series
	// FirstOutput and Duration are the histograms of all of it.
	FirstOutput, Duration []Bucket
}

// Row is one distribution with what it is of.
type Row struct {
	What string
	Distribution
	// Coverage is what part of the asked time there is, 0 to 1; NaN where that
	// says nothing.
	Coverage float64
	// Seconds says that values are times.
	Seconds bool
}

// Measured is what a history says.
type Measured struct {
	Start, End time.Time
	// Remarks are the server's own, of answers that are whole: text from outside.
	Remarks    []string
	Rows       []Row
	Proposals  []Proposal
	thresholds Thresholds
}

// ErrTooLittle is wrapped by the error of a history that says too little.
var ErrTooLittle = errors.New("too little history")

// Judge measures a history. With fewer than MinPoints points with requests it
// is ErrTooLittle, and says how much there is.
func Judge(h *History) (*Measured, error) {
	busy := 0
	for _, n := range h.Requests {
		if n > 0 {
			busy++
		}
	}
	if busy < MinPoints {
		return nil, fmt.Errorf("%w: requests in %d of the points of %s, which is %s; needed are %d, which is %s: give thresholds instead until there is more",
			ErrTooLittle, busy, promql.Span(Step), promql.Span(time.Duration(busy)*Step), MinPoints, promql.Span(MinPoints*Step))
	}
	m := &Measured{Start: h.Start, End: h.End}
	covered := float64(len(h.Requests)) / points(h.Start, h.End, Step)
	row := func(what string, d Distribution, coverage float64, seconds bool) Distribution {
		m.Rows = append(m.Rows, Row{what, d, min(coverage, 1), seconds})
		return d
	}
	row("requests a second", Distribute(values(h.Requests)), covered, false)
	ratio := row("fallback ratio", Distribute(Part(h.Fallbacks, h.Requests)), covered, false)
	interrupted := row("interrupted answers", Distribute(Part(h.Interrupted, h.Requests)), covered, false)
	retries := row("clients' retries", Distribute(Part(h.ClientRetries, h.Requests)), covered, false)
	p95 := row("first output, p95 of 5m", Distribute(values(h.FirstOutputP95)), covered, true)
	m.thresholds = Thresholds{
		FallbackRatio: partLimit(ratio), Interrupted: partLimit(interrupted),
		ClientRetries: partLimit(retries), FirstOutput: limitUnder(p95, highest(h.FirstOutput)),
	}
	row("first output, all", DistributeBuckets(h.FirstOutput), math.NaN(), true)
	row("duration, all", DistributeBuckets(h.Duration), math.NaN(), true)

	f := facts{firstOutput: DistributeBuckets(h.FirstOutput), duration: DistributeBuckets(h.Duration)}
	for _, name := range sorted(h.Attempts) {
		attempts := h.Attempts[name]
		d := row("failures of "+name, Distribute(Part(h.Failures[name], attempts)), float64(len(attempts))/points(h.Start, h.End, Step), false)
		if d.Count >= MinPoints && d.P99 >= f.failures.P99 {
			f.failures, f.pace = d, Distribute(values(attempts)).P50
		}
	}
	var lengths, relapses []float64
	watched := 0.0
	for _, down := range h.Down {
		l, r := Outages(down, OutageStep)
		lengths, relapses = append(lengths, l...), append(relapses, r...)
		watched += float64(len(down))
	}
	if len(h.Down) > 0 {
		watched /= points(h.Start, h.End, OutageStep) * float64(len(h.Down))
	}
	f.outages = row("outages, their length", Distribute(lengths), watched, true)
	f.relapses = row("from an outage to the next within 1h", Distribute(relapses), watched, true)
	f.past = time.Duration(float64(h.End.Sub(h.Start)) * covered)
	m.Proposals = propose(f)
	return m, nil
}

// limitOf is the threshold that a distribution gives: its p99, rounded up to two
// digits, so that one point in a hundred of the past lies above it. A p99 of 0
// says nothing.
func limitOf(d Distribution) *float64 {
	if d.Count < MinPoints || d.P99 <= 0 {
		return nil
	}
	f := roundUp(d.P99, 2)
	return &f
}

// partLimit is limitOf of parts: nothing is above all of them.
func partLimit(d Distribution) *float64 {
	if f := limitOf(d); f != nil && *f < 1 {
		return f
	}
	return nil
}

// limitUnder is limitOf of a quantile of a histogram, which sticks at the highest
// finite bound: a limit of that is never exceeded. A bound of 0 is not known.
func limitUnder(d Distribution, bound float64) *float64 {
	if f := limitOf(d); f != nil && (bound == 0 || *f < bound) {
		return f
	}
	return nil
}

// highest is the highest finite bound of a histogram, 0 without one.
func highest(all []Bucket) (bound float64) {
	for _, b := range all {
		if !math.IsInf(b.Le, 0) && !math.IsNaN(b.Le) {
			bound = max(bound, b.Le)
		}
	}
	return bound
}

// roundUp rounds up to a number of digits.
func roundUp(f float64, digits int) float64 {
	if f <= 0 || math.IsInf(f, 0) {
		return f
	}
	scale := math.Pow(10, float64(digits-1)-math.Floor(math.Log10(f)))
	up := math.Ceil(f*scale-1e-9) / scale
	if up < f {
		up = f
	}
	return up
}

// Thresholds are the given ones, and what was measured in place of those that
// are not.
func (m *Measured) Thresholds(given Thresholds) Thresholds {
	return Thresholds{
		FallbackRatio: cmp.Or(given.FallbackRatio, m.thresholds.FallbackRatio),
		Interrupted:   cmp.Or(given.Interrupted, m.thresholds.Interrupted),
		ClientRetries: cmp.Or(given.ClientRetries, m.thresholds.ClientRetries),
		FirstOutput:   cmp.Or(given.FirstOutput, m.thresholds.FirstOutput),
	}
}

func values(s Series) []float64 {
	v := make([]float64, 0, len(s))
	for _, f := range s {
		v = append(v, f)
	}
	return v
}

// points is how many points each step there are from start to end.
func points(start, end time.Time, step time.Duration) float64 {
	return math.Floor(float64(end.Sub(start))/float64(step)) + 1
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
