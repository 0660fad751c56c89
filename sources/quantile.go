package sources

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"failback/gateway/operator/api"
	"failback/sources/promql"
)

// quantileBefore judges what Prometheus says is the quantile q (0 to 1) of a
// histogram that saw count observations a second, in buckets as rates by le.
// histogram_quantile answers something of nearly any buckets: of those without
// +Inf NaN, of those that are not cumulative what it takes them for, and of one
// beyond the highest bound that bound.
func quantileBefore(q float64, quantile, count *float64, buckets map[string]float64, at time.Time) Reading {
	is := func(state, why string) Reading { return Reading{Number: api.Number{State: state, At: at}, Why: why} }
	switch {
	case count == nil && quantile == nil:
		return is(api.StateNone, "nothing is known of an hour ago")
	case quantile == nil:
		return is(api.StateNone, "no series "+promql.FirstOutput+"_bucket")
	case count != nil && *count == 0:
		return is(api.StateIdle, "no output an hour ago")
	}
	h, fault := readBuckets(buckets)
	switch {
	case fault != "":
		return is(api.StateNone, "the buckets of "+promql.FirstOutput+" "+fault)
	case h.all == 0:
		return is(api.StateIdle, "no output an hour ago")
	case !number(*quantile):
		return is(api.StateNone, "the buckets of "+promql.FirstOutput+" are not whole")
	}
	r := is(api.StateValue, "")
	r.Value, r.Over = *quantile, *quantile >= h.top && q*h.all > h.underTop
	return r
}

// cumulated is a histogram: how many observations there are, and how many of
// them are not over its highest finite bound.
type cumulated struct{ top, underTop, all float64 }

// readBuckets reads buckets by le; fault says what is wrong with them, empty:
// nothing.
func readBuckets(byBound map[string]float64) (h cumulated, fault string) {
	type bucket struct{ bound, count float64 }
	buckets := make([]bucket, 0, len(byBound))
	for le, count := range byBound {
		bound, err := strconv.ParseFloat(le, 64)
		if err != nil || math.IsNaN(bound) || !number(count) {
			return h, "are no numbers"
		}
		buckets = append(buckets, bucket{bound, count})
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	last := len(buckets) - 1
	switch {
	case last < 0 || !math.IsInf(buckets[last].bound, 1):
		return h, "have no +Inf"
	case last == 0:
		return h, "have no bound but +Inf"
	}
	for i := range last {
		// Sums of rates are not exact.
		if buckets[i].count > buckets[i+1].count*(1+1e-6) {
			return h, "are not cumulative"
		}
	}
	return cumulated{buckets[last-1].bound, buckets[last-1].count, buckets[last].count}, ""
}
