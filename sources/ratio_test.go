package sources

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"failback/gateway/operator/api"
	"failback/sources/promql"
)

func some(f float64) *float64 { return &f }

func show(f *float64) string {
	if f == nil {
		return "absent"
	}
	return fmt.Sprint(*f)
}

func TestRatioReading(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 12, 0, 0, time.UTC)
	tests := []struct {
		name  string
		facts ratioFacts
		want  string
		value float64
	}{
		{"a value", ratioFacts{some(0.25), some(8), some(2), 40, 90, at, MinWindow}, api.StateValue, 0.25},
		{"a real zero", ratioFacts{some(0), some(8), some(0), 40, 90, at, MinWindow}, api.StateValue, 0},
		{"no traffic", ratioFacts{some(0), some(0), some(0), 40, 90, at, MinWindow}, api.StateIdle, 0},
		{"nothing there: vector(0) is no zero", ratioFacts{some(0), nil, nil, 0, 0, time.Time{}, MinWindow}, api.StateNone, 0},
		{"requests, but no series of fallbacks: vector(0) is no zero", ratioFacts{some(0), some(8), nil, 40, 0, at, MinWindow}, api.StateNone, 0},
		{"standing requests, no series of fallbacks", ratioFacts{some(0), some(0), nil, 40, 0, at, MinWindow}, api.StateNone, 0},
		{"fallbacks alone", ratioFacts{some(0), nil, some(2), 0, 90, time.Time{}, MinWindow}, api.StateNone, 0},
		{"one sample", ratioFacts{some(0), nil, nil, 40, 90, at, MinWindow}, StateWaiting, 0},
		{"fallbacks have one sample", ratioFacts{some(0), some(8), nil, 40, 90, at, MinWindow}, StateWaiting, 0},
		{"target down, the window still holds samples", ratioFacts{some(0.25), some(8), some(2), 0, 0, at, MinWindow}, api.StateValue, 0.25},
		{"target down for longer than the window", ratioFacts{some(0), nil, nil, 0, 0, at, MinWindow}, api.StateNone, 0},
		{"0/0", ratioFacts{some(math.NaN()), some(8), some(2), 40, 90, at, MinWindow}, StateUnknown, 0},
		{"no ratio at all", ratioFacts{nil, some(8), some(2), 40, 90, at, MinWindow}, StateUnknown, 0},
		{"counters that are no numbers", ratioFacts{some(0), some(math.NaN()), some(2), 40, 90, at, MinWindow}, StateUnknown, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.facts.reading()
			if got.State != tt.want || got.Value != tt.value || !got.At.Equal(tt.facts.Sampled) {
				t.Errorf("got %+v, want %s %g", got, tt.want, tt.value)
			}
		})
	}
}

// Whatever is absent: a ratio is a value only if there is traffic and fallbacks
// are counted, idle only if traffic is known to be 0, and everything that is no
// value says why.
func TestRatioReadingOverThePowerSet(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 12, 0, 0, time.UTC)
	values := []*float64{nil, some(0), some(0.5), some(math.NaN()), some(math.Inf(1))}
	seen := map[string]int{}
	for _, ratio := range values {
		for _, requests := range values {
			for _, fallbacks := range values {
				for _, requestSeries := range []float64{0, 3} {
					for _, fallbackSeries := range []float64{0, 3} {
						for _, sampled := range []time.Time{{}, at} {
							f := ratioFacts{ratio, requests, fallbacks, requestSeries, fallbackSeries, sampled, MinWindow}
							got := f.reading()
							seen[got.State]++
							name := fmt.Sprintf("ratio %s, requests %s in %g series, fallbacks %s in %g, sampled %t: %+v",
								show(ratio), show(requests), requestSeries, show(fallbacks), fallbackSeries, !sampled.IsZero(), got)
							if (got.State == api.StateValue) != (got.Why == "") {
								t.Errorf("%s: why", name)
							}
							known := requests != nil && number(*requests) && fallbacks != nil && number(*fallbacks)
							want := ""
							switch {
							case requests == nil && requestSeries == 0:
								want = api.StateNone
							case requests == nil:
								want = StateWaiting
							case fallbacks == nil && fallbackSeries == 0:
								want = api.StateNone
							case fallbacks == nil:
								want = StateWaiting
							case known && *requests == 0:
								want = api.StateIdle
							case known && ratio != nil && number(*ratio):
								want = api.StateValue
							default:
								want = StateUnknown
							}
							if got.State != want {
								t.Errorf("%s: want %s", name, want)
							}
							if got.State != api.StateValue && got.Value != 0 {
								t.Errorf("%s: carries a value", name)
							}
						}
					}
				}
			}
		}
	}
	for _, state := range []string{api.StateValue, api.StateIdle, api.StateNone, StateWaiting, StateUnknown} {
		if seen[state] == 0 {
			t.Errorf("no case gave %s", state)
		}
	}
}

func TestRatioRows(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 12, 0, 0, time.UTC)
	f := ratioFacts{some(0.1), some(10), some(1), 9, 9, at, MinWindow}
	got := f.rows(
		map[string]float64{"b": 4, "a": 0, "zero": 5, "over": 1, "odd": math.NaN()},
		map[string]float64{"b": 1, "a": 0, "over": 1.2, "gone": 3}, promql.OwnTotal)
	is := func(name, state string, v float64, why string) RatioRow {
		return RatioRow{name, Reading{Number: api.Number{State: state, Value: v, At: at}, Why: why}}
	}
	want := []RatioRow{
		is("a", api.StateIdle, 0, "no requests in 5m"),
		is("b", api.StateValue, 0.25, ""),
		is("gone", api.StateNone, 0, "no series "+promql.OwnTotal+" of it"),
		is("odd", StateUnknown, 0, "the counters are no numbers"),
		is("over", api.StateValue, 1, ""),
		is("zero", api.StateValue, 0, ""), // filled from the denominator
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}

	f.Fallbacks, f.FallbackSeries = nil, 0
	if got := f.rows(map[string]float64{"a": 4}, nil, promql.OwnTotal); len(got) != 1 || got[0].State != api.StateNone {
		t.Errorf("no series of fallbacks at all: %+v", got)
	}
	f.FallbackSeries = 2
	if got := f.rows(map[string]float64{"a": 4}, nil, promql.OwnTotal); len(got) != 1 || got[0].State != StateWaiting {
		t.Errorf("fallbacks with one sample: %+v", got)
	}
}

func TestFailedBefore(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 12, 0, 0, time.UTC)
	tests := []struct {
		name     string
		verdicts map[string]float64
		want     string
		value    float64
	}{
		{"a value", map[string]float64{"good": 99, "bad": 1}, api.StateValue, 0.01},
		{"everything failed, no good series at all", map[string]float64{"bad": 3}, api.StateValue, 1},
		{"nothing an hour ago", nil, api.StateNone, 0},
		{"no bad series is not 0", map[string]float64{"good": 99}, api.StateNone, 0},
		{"no traffic", map[string]float64{"good": 0, "bad": 0}, api.StateIdle, 0},
		{"no numbers", map[string]float64{"good": math.NaN(), "bad": 0}, StateUnknown, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := failedBefore(tt.verdicts, at)
			if got.State != tt.want || got.Value != tt.value || (got.Why == "") != (tt.want == api.StateValue) {
				t.Errorf("got %+v, want %s %g", got, tt.want, tt.value)
			}
		})
	}
}

// Points are written as one rune each: # over the limit, . under it, _ idle,
// space none.
func TestOverSince(t *testing.T) {
	start := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	tests := []struct {
		name, points string
		want         OverState
		since        int // minutes
		within       int
		blind        bool
	}{
		{name: "nothing known", points: "      "},
		{name: "idle throughout", points: "______"},
		{name: "under", points: "..##..", want: OverNot},
		{name: "over", points: "..#.####", want: OverSince, since: 4, within: 1},
		{name: "over throughout", points: "########", want: OverLonger},
		{name: "a short gap is bridged", points: "..##     ###", want: OverSince, since: 2, within: 1},
		{name: "no requests is not over", points: "..## _ ###", want: OverSince, since: 7, within: 2},
		{name: "no requests now", points: "..##__"},
		{name: "a long gap is not", points: "..##      ###", want: OverSince, since: 10, blind: true},
		{name: "a gap right before", points: "... ###", want: OverSince, since: 4, within: 2},
		{name: "it began with the first sample", points: "       ###", want: OverSince, since: 7, blind: true},
		{name: "the newest is not there yet", points: "..### ", want: OverSince, since: 2, within: 1},
		{name: "the newest is too old to tell", points: "..###      "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var points []Point
			for i, r := range tt.points {
				p := Point{At: start.Add(time.Duration(i) * HistoryEvery)}
				switch r {
				case '#':
					p.State, p.Value = api.StateValue, 0.021
				case '.':
					p.State, p.Value = api.StateValue, 0.02 // the limit itself is not over it
				case '_':
					p.State = api.StateIdle
				default:
					p.State = api.StateNone
				}
				points = append(points, p)
			}
			got := overSince(points, some(0.02), start.Add(time.Duration(len(points)-1)*HistoryEvery), MinWindow)
			want := Over{State: tt.want, Within: time.Duration(tt.within) * time.Minute, Blind: tt.blind}
			if tt.want == OverSince || tt.want == OverLonger {
				want.Since = start.Add(time.Duration(tt.since) * time.Minute)
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got := overSince(points, nil, start, MinWindow); got != (Over{}) {
				t.Errorf("without a limit: %+v", got)
			}
		})
	}
}

// What was shown between two points is a point too: a dip ends the time over
// the limit, and an onset is known by it.
func TestOverSinceWithWhatWasSeen(t *testing.T) {
	start := time.Date(2026, 11, 30, 9, 53, 0, 0, time.UTC)
	now := start.Add(6*time.Minute + 17*time.Second)
	at := func(after time.Duration, v float64) Point { return Point{start.Add(after), api.StateValue, v} }
	var points []Point
	for i := range 7 {
		points = append(points, at(time.Duration(i)*time.Minute, 0.03))
	}
	limit := some(0.02)
	if got, want := overSince(points, limit, now, MinWindow), (Over{State: OverLonger, Since: start}); got != want {
		t.Errorf("by the points alone: %+v", got)
	}
	var p past
	for _, s := range []Point{at(-7*time.Hour, 0.01), at(5*time.Minute+20*time.Second, 0.019), at(5*time.Minute+25*time.Second, 0.021), at(6*time.Minute+16*time.Second, 0.03)} {
		p.see(Reading{Number: api.Number{State: s.State, Value: s.Value}}, s.At)
	}
	p.see(Reading{Number: api.Number{State: api.StateNone}}, now)
	want := Over{State: OverSince, Since: start.Add(5*time.Minute + 25*time.Second), Within: 5 * time.Second}
	if got := overSince(mergePoints(points, p.saw(start, now)), limit, now, MinWindow); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(p.seen) != 3 {
		t.Errorf("%d are kept", len(p.seen))
	}
	p.see(Reading{Number: api.Number{State: api.StateValue, Value: 0.01}}, start.Add(6*time.Minute+10*time.Second)) // a clock that went back
	if got := overSince(mergePoints(points, p.saw(start, now)), limit, now, MinWindow); got != (Over{State: OverNot}) || len(p.seen) != 3 {
		t.Errorf("under it now: %+v, %d kept", got, len(p.seen))
	}
}

func TestJoinPoints(t *testing.T) {
	start := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	ms := func(i int) int64 { return start.Add(time.Duration(i) * HistoryEvery).UnixMilli() }
	got := joinPoints(
		map[int64]float64{ms(0): 4, ms(1): 0, ms(3): 4, ms(4): math.NaN()},
		map[int64]float64{ms(0): 1, ms(1): 0, ms(2): 1, ms(4): 1}, start, 5)
	want := []Point{
		{start, api.StateValue, 0.25},
		{start.Add(1 * time.Minute), api.StateIdle, 0},
		{start.Add(2 * time.Minute), api.StateNone, 0},
		{start.Add(3 * time.Minute), api.StateNone, 0}, // requests, but no fallbacks counted
		{start.Add(4 * time.Minute), api.StateNone, 0},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestQueriesKeepTheSelector(t *testing.T) {
	const want = `( sum(rate(ai_fallback_triggered_total{job="failback"}[5m])) / (sum(rate(ai_model_requests_total{job="failback"}[5m])) > 0) ) or vector(0)`
	for _, selector := range []string{`job="failback"`, `{job="failback"}`, ` job="failback", `} {
		if got := promql.New(selector, MinWindow).Ratio(); got != want {
			t.Errorf("selector %s:\n got %s\nwant %s", selector, got, want)
		}
	}
	for _, selector := range []string{"", "{}", " "} {
		if got, want := promql.New(selector, MinWindow).Ratio(), `( sum(rate(ai_fallback_triggered_total[5m])) / (sum(rate(ai_model_requests_total[5m])) > 0) ) or vector(0)`; got != want {
			t.Errorf("selector %q: got %s", selector, got)
		}
	}
	if got, want := promql.New(`job="x"`, MinWindow).RateBefore(before, "verdict", "m", `v="a"`), `sum by (verdict) (rate(m{job="x",v="a"}[5m] offset 1h))`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
