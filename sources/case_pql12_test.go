package sources

import (
	"math"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// What Prometheus answers of buckets that are not whole is no number, and one
// at the highest bound is over it.
func TestPQL12Quantile(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 12, 0, 0, time.UTC)
	whole := map[string]float64{"1": 2, "2.0": 2.9, "60": 3, "+Inf": 3}
	is := func(pairs map[string]float64) map[string]float64 { return pairs }
	tests := []struct {
		name            string
		quantile, count *float64
		buckets         map[string]float64
		want            string
		over            bool
	}{
		{"a value", some(1.1), some(3), whole, api.StateValue, false},
		{"nothing an hour ago", nil, nil, nil, api.StateNone, false},
		{"no output: NaN of nothing", some(math.NaN()), some(0), is(map[string]float64{"1": 0, "+Inf": 0}), api.StateIdle, false},
		{"no output, no count", some(math.NaN()), nil, is(map[string]float64{"1": 0, "+Inf": 0}), api.StateIdle, false},
		{"no buckets", nil, some(3), nil, api.StateNone, false},
		{"+Inf is missing", some(math.NaN()), some(3), is(map[string]float64{"1": 2, "60": 3}), api.StateNone, false},
		{"+Inf is 0", some(60), some(3), is(map[string]float64{"1": 2, "60": 3, "+Inf": 0}), api.StateNone, false},
		{"+Inf alone", some(math.NaN()), some(3), is(map[string]float64{"+Inf": 3}), api.StateNone, false},
		{"not cumulative", some(0.4), some(3), is(map[string]float64{"1": 2, "2": 1, "+Inf": 3}), api.StateNone, false},
		{"cumulative but for rounding", some(0.4), some(3), is(map[string]float64{"1": 2.000000001, "2": 2, "60": 3, "+Inf": 3}), api.StateValue, false},
		{"a bound that is none", some(0.4), some(3), is(map[string]float64{"1": 2, "a lot": 3, "+Inf": 3}), api.StateNone, false},
		{"NaN of whole buckets", some(math.NaN()), some(3), whole, api.StateNone, false},
		{"all over the highest bound", some(60), some(3), is(map[string]float64{"1": 0, "60": 0, "+Inf": 3}), api.StateValue, true},
		{"a tenth over the highest bound", some(60), some(3), is(map[string]float64{"1": 1, "60": 2.7, "+Inf": 3}), api.StateValue, true},
		{"just at the highest bound", some(60), some(3), is(map[string]float64{"1": 1, "60": 3, "+Inf": 3}), api.StateValue, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := quantileBefore(0.95, tt.quantile, tt.count, tt.buckets, at)
			if got.State != tt.want || got.Over != tt.over || (got.Why == "") != (tt.want == api.StateValue) {
				t.Errorf("got %+v, want %s, over %t", got, tt.want, tt.over)
			}
			if got.State != api.StateValue && got.Value != 0 {
				t.Errorf("carries a value: %+v", got)
			}
		})
	}
}
