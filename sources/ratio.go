package sources

import (
	"fmt"
	"math"
	"slices"
	"time"

	"failback/gateway/operator/api"
	"failback/sources/promql"
)

// ratioFacts is what Prometheus knows of the whole fallback ratio. The ratio
// alone cannot tell a zero from nothing: its vector(0) stands for both.
type ratioFacts struct {
	// Ratio is the expression's value; Requests and Fallbacks are the rates in
	// it. nil: an empty vector, that is, no series with two samples in the window.
	Ratio, Requests, Fallbacks *float64
	// RequestSeries and FallbackSeries count the series that there are now.
	RequestSeries, FallbackSeries float64
	// Sampled is when the newest sample of requests was taken; zero: none is known.
	Sampled time.Time
	// Window is what the rates are taken over.
	Window time.Duration
}

// reading is the ratio as it may be believed.
func (f ratioFacts) reading() Reading {
	is := func(state, why string) Reading {
		return Reading{Number: api.Number{State: state, At: f.Sampled}, Why: why}
	}
	switch {
	case f.Requests == nil && f.RequestSeries > 0:
		return is(StateWaiting, "a rate needs two samples of "+promql.RequestsTotal)
	case f.Requests == nil && !f.Sampled.IsZero():
		return is(api.StateNone, fmt.Sprintf("no series %s since %s: is the target down?", promql.RequestsTotal, f.Sampled.UTC().Format("15:04:05Z")))
	case f.Requests == nil:
		return is(api.StateNone, "no series "+promql.RequestsTotal+": check the selector and the target")
	case f.Fallbacks == nil && f.FallbackSeries > 0:
		return is(StateWaiting, "a rate needs two samples of "+promql.FallbacksTotal)
	case f.Fallbacks == nil:
		return is(api.StateNone, "no series "+promql.FallbacksTotal+", though there are requests")
	case !number(*f.Requests) || !number(*f.Fallbacks):
		return is(StateUnknown, "the counters are no numbers")
	case *f.Requests == 0:
		return is(api.StateIdle, "no requests in "+windowText(f.Window))
	case f.Ratio == nil || !number(*f.Ratio):
		return is(StateUnknown, "the ratio is no number")
	}
	r := is(api.StateValue, "")
	r.Value = *f.Ratio
	return r
}

// traffic is requests a second.
func (f ratioFacts) traffic() Reading {
	r := f.reading()
	if f.Requests == nil {
		return r
	}
	if !number(*f.Requests) {
		return Reading{Number: api.Number{State: StateUnknown, At: f.Sampled}, Why: "the counters are no numbers"}
	}
	return Reading{Number: api.Number{State: api.StateValue, Value: *f.Requests, At: f.Sampled}}
}

// rows is the ratio of each name: of its requests, how many left their primary.
// A name without a series of fallbacks has none of them, as long as there are
// series of fallbacks at all.
func (f ratioFacts) rows(requests, fallbacks map[string]float64, requestsMetric string) []RatioRow {
	rows := []RatioRow{}
	for name, of := range requests {
		n, ok := fallbacks[name]
		r := Reading{Number: api.Number{At: f.Sampled}}
		switch {
		case f.Fallbacks == nil && f.FallbackSeries > 0:
			r.State, r.Why = StateWaiting, "a rate needs two samples of "+promql.FallbacksTotal
		case f.Fallbacks == nil:
			r.State, r.Why = api.StateNone, "no series "+promql.FallbacksTotal
		case !number(of) || ok && !number(n):
			r.State, r.Why = StateUnknown, "the counters are no numbers"
		case of == 0:
			r.State, r.Why = api.StateIdle, "no requests in "+windowText(f.Window)
		default:
			// A client that left before anybody answered is a fallback, but nobody's
			// own request.
			r.State, r.Value = api.StateValue, min(n/of, 1)
		}
		rows = append(rows, RatioRow{name, r})
	}
	for name := range fallbacks {
		if _, ok := requests[name]; !ok {
			rows = append(rows, RatioRow{name, Reading{Number: api.Number{State: api.StateNone, At: f.Sampled}, Why: "no series " + requestsMetric + " of it"}})
		}
	}
	slices.SortFunc(rows, func(a, b RatioRow) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return rows
}

// failedBefore is bad of good and bad, from rates by verdict.
func failedBefore(verdicts map[string]float64, at time.Time) Reading {
	good, hasGood := verdicts["good"]
	bad, hasBad := verdicts["bad"]
	is := func(state, why string) Reading { return Reading{Number: api.Number{State: state, At: at}, Why: why} }
	switch {
	case !hasGood && !hasBad:
		return is(api.StateNone, "nothing is known of an hour ago")
	case !number(good) || !number(bad):
		return is(StateUnknown, "the counters are no numbers")
	case !hasBad:
		return is(api.StateNone, `no series `+promql.VerdictsTotal+` with verdict="bad"`)
	case good+bad == 0:
		return is(api.StateIdle, "no requests an hour ago")
	}
	r := is(api.StateValue, "")
	r.Value = bad / (good + bad)
	return r
}

// number refuses what no counter, rate or ratio is.
func number(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) && f >= 0 }

// bridged is how far apart points over the limit may be within an unbroken time
// over it: what a rate's window holds, and the distance of points.
func bridged(window time.Duration) time.Duration { return window + HistoryEvery }

// overSince says since when the newest points, up to now, are over limit. No
// time that holds a point without requests, or at or under the limit, is one
// over it; one of which nothing is known is bridged.
func overSince(points []Point, limit *float64, now time.Time, window time.Duration) Over {
	bridged := bridged(window)
	known := make([]Point, 0, len(points))
	for _, p := range points {
		if p.State != api.StateNone {
			known = append(known, p)
		}
	}
	last := len(known) - 1
	if limit == nil || last < 0 || now.Sub(known[last].At) >= bridged {
		return Over{}
	}
	is := func(p Point) bool { return p.State == api.StateValue && p.Value > *limit }
	switch {
	case known[last].State != api.StateValue:
		return Over{}
	case !is(known[last]):
		return Over{State: OverNot}
	}
	first := last
	for first > 0 && is(known[first-1]) && known[first].At.Sub(known[first-1].At) <= bridged {
		first--
	}
	since := known[first].At
	switch {
	case first == 0 && !since.After(points[0].At):
		return Over{State: OverLonger, Since: since}
	case first == 0 || since.Sub(known[first-1].At) > bridged:
		return Over{State: OverSince, Since: since, Blind: true}
	}
	return Over{State: OverSince, Since: since, Within: since.Sub(known[first-1].At)}
}

// mergePoints puts the points of a History and those seen besides, each in the
// order of time, into one order.
func mergePoints(points, seen []Point) []Point {
	all := slices.Concat(points, seen)
	slices.SortStableFunc(all, func(a, b Point) int { return a.At.Compare(b.At) })
	return all
}

// points joins two rates into the ratio at each of n times from start on.
func joinPoints(requests, fallbacks map[int64]float64, start time.Time, n int) []Point {
	points := make([]Point, n)
	for i := range points {
		at := start.Add(time.Duration(i) * HistoryEvery)
		p := Point{At: at, State: api.StateNone}
		of, ok := requests[at.UnixMilli()]
		f, both := fallbacks[at.UnixMilli()]
		switch {
		case !ok || !number(of):
		case !both || !number(f):
		case of == 0:
			p.State = api.StateIdle
		default:
			p.State, p.Value = api.StateValue, min(f/of, 1)
		}
		points[i] = p
	}
	return points
}
