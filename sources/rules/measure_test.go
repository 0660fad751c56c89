package rules

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A percentile is a value that was measured; at least its part of the values do
// not exceed it, and fewer than that are below it.
func TestPercentilesAreNearestRank(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		v := make([]float64, 1+r.IntN(400))
		for i := range v {
			v[i] = float64(r.IntN(50))
			if r.IntN(3) == 0 {
				v[i] = r.Float64()
			}
		}
		d := Distribute(v)
		if d.Count != len(v) || d.Max != slices.Max(v) {
			t.Fatalf("%+v of %v", d, v)
		}
		for _, p := range []struct{ q, got float64 }{{0.5, d.P50}, {0.9, d.P90}, {0.99, d.P99}} {
			atMost, below := 0, 0
			for _, f := range v {
				if f <= p.got {
					atMost++
				}
				if f < p.got {
					below++
				}
			}
			n := p.q * float64(len(v))
			if !slices.Contains(v, p.got) || float64(atMost) < n-1e-6 || float64(below) >= n-1e-6 {
				t.Fatalf("p%g of %d values is %g: %d are at most that, %d below", p.q*100, len(v), p.got, atMost, below)
			}
		}
		shuffled := slices.Clone(v)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if Distribute(append(shuffled, math.NaN(), math.Inf(1))) != d {
			t.Fatal("the order, or what is no number, changes it")
		}
	}
	if d := Distribute(nil); d != (Distribution{}) {
		t.Errorf("nothing: %+v", d)
	}
}

// A p95 that sticks at the highest finite bucket gives no threshold: none is ever
// above it.
func TestNoThresholdAtTheHighestBucket(t *testing.T) {
	at := func(p95 float64) *float64 {
		h := &History{Start: time.Unix(0, 0), End: time.Unix(400*300, 0), Requests: Series{}, FirstOutputP95: Series{},
			FirstOutput: []Bucket{{1, 1}, {600, 90}, {math.Inf(1), 100}}}
		for i := range int64(400) {
			h.Requests[i*300000], h.FirstOutputP95[i*300000] = 1, p95
		}
		m, err := Judge(h)
		if err != nil {
			t.Fatal(err)
		}
		return m.Thresholds(Thresholds{}).FirstOutput
	}
	if f := at(30); f == nil || *f != 30 {
		t.Errorf("a p95 of 30s gives %v", f)
	}
	for _, p95 := range []float64{599, 600} { // rounded up
		if f := at(p95); f != nil {
			t.Errorf("a p95 of %g gives %g", p95, *f)
		}
	}
}

// A histogram's percentile is the bound of the bucket that holds the percentile
// of the values themselves.
func TestPercentilesOfBuckets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	bounds := []float64{0.5, 1, 2, 5, 10, math.Inf(1)}
	bound := func(f float64) float64 {
		return bounds[slices.IndexFunc(bounds, func(b float64) bool { return f <= b })]
	}
	for range 1000 {
		v := make([]float64, 1+r.IntN(300))
		for i := range v {
			v[i] = r.ExpFloat64() * 3
		}
		var b []Bucket
		for _, le := range bounds {
			n := 0
			for _, f := range v {
				if f <= le {
					n++
				}
			}
			b = append(b, Bucket{le, float64(n)})
		}
		r.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
		of, want := DistributeBuckets(b), Distribute(v)
		if of.Count != len(v) || of.P50 != bound(want.P50) || of.P90 != bound(want.P90) || of.P99 != bound(want.P99) || of.Max != bound(want.Max) {
			t.Fatalf("%+v of buckets, %+v of values", of, want)
		}
	}
	// Each bucket was asked for by itself: the last may have seen less.
	if d := DistributeBuckets([]Bucket{{1, 3}, {2, 10}, {math.Inf(1), 4}}); d != (Distribution{10, 2, 2, 2, 2}) {
		t.Errorf("buckets of several moments: %+v", d)
	}
	for name, b := range map[string][]Bucket{"none": nil, "without +Inf": {{1, 3}}, "empty": {{1, 0}, {math.Inf(1), 0}}} {
		if d := DistributeBuckets(b); d != (Distribution{}) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestOutages(t *testing.T) {
	series := func(s string) Series {
		out := Series{}
		for i, r := range s {
			if r != '?' {
				out[int64(i)*60_000] = map[rune]float64{'-': 0, 'X': 1}[r]
			}
		}
		return out
	}
	for _, c := range []struct {
		s                 string
		lengths, relapses []float64
	}{
		{"", nil, nil},
		{"----", nil, nil},
		{"XXXX", nil, nil},
		{"-XX-", []float64{120}, nil},
		{"XX-X-", []float64{60}, []float64{60}}, // the first began before
		{"-X--XXX", []float64{60}, []float64{120}},
		{"-X?X-", nil, nil},
		{"-X-?-X-", []float64{60, 60}, nil},
		{"-X" + strings.Repeat("-", 61) + "X-", []float64{60, 60}, nil},
		{"-X" + strings.Repeat("-", 60) + "X-", []float64{60, 60}, []float64{3600}},
	} {
		l, r := Outages(series(c.s), time.Minute)
		if !slices.Equal(l, c.lengths) || !slices.Equal(r, c.relapses) {
			t.Errorf("%q: outages %v, relapses %v; want %v, %v", c.s, l, r, c.lengths, c.relapses)
		}
	}
	// No length is more than there is of it, and none is 0.
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		s := make([]byte, r.IntN(200))
		for i := range s {
			s[i] = "--XX?"[r.IntN(5)]
		}
		lengths, relapses := Outages(series(string(s)), time.Minute)
		sum := 0.0
		for _, l := range lengths {
			sum += l
			if l < 60 {
				t.Fatalf("%s: %v", s, lengths)
			}
		}
		if sum > float64(strings.Count(string(s), "X"))*60 || len(relapses) > max(len(lengths), strings.Count(string(s), "-X")) {
			t.Fatalf("%s: %v, %v", s, lengths, relapses)
		}
	}
}

func TestPart(t *testing.T) {
	got := Part(Series{1: 1, 2: 3, 3: 0, 4: 5, 6: math.NaN()}, Series{1: 4, 2: 2, 3: 0, 5: 9, 6: 1})
	slices.Sort(got)
	if !slices.Equal(got, []float64{0.25, 1}) {
		t.Errorf("%v: idle, unknown and one-sided times are no parts, and none is over 1", got)
	}
}

func TestRoundUp(t *testing.T) {
	for f, want := range map[float64]float64{0.0123: 0.013, 0.1: 0.1, 0.12: 0.12, 0.121: 0.13, 5: 5, 4.01: 4.1, 0: 0, 99.5: 100, 0.30000000000000004: 0.30000000000000004} {
		if got := roundUp(f, 2); got != want {
			t.Errorf("%g: %g, want %g", f, got, want)
		}
	}
	r := rand.New(rand.NewPCG(7, 8))
	for range 10000 {
		f := math.Exp(r.Float64()*20 - 10)
		if up := roundUp(f, 2); up < f || up > f*1.11 {
			t.Fatalf("%g: %g", f, up)
		}
	}
}

// past makes a history of n points; each of its series is a function of the
// point's number.
func past(n int, ratio, failures func(i int) float64) *History {
	end := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	h := &History{
		Start: end.Add(-time.Duration(2*n-1) * Step), End: end, // half of it is there
		Requests: Series{}, Fallbacks: Series{}, Interrupted: Series{}, ClientRetries: Series{}, FirstOutputP95: Series{},
		Attempts: map[string]Series{"east": {}}, Failures: map[string]Series{"east": {}},
		FirstOutput: []Bucket{{1, 900}, {2, 999}, {math.Inf(1), 1000}},
		Duration:    []Bucket{{10, 500}, {30, 980}, {math.Inf(1), 1000}},
	}
	for i := range n {
		at := end.Add(-time.Duration(i) * Step).UnixMilli()
		h.Requests[at], h.Fallbacks[at] = 10, 10*ratio(i)
		h.Interrupted[at], h.ClientRetries[at], h.FirstOutputP95[at] = 0, 1, 1.5
		h.Attempts["east"][at], h.Failures["east"][at] = 12, 12*failures(i)
	}
	return h
}

func TestJudgeRefusesTooLittle(t *testing.T) {
	no := func(int) float64 { return 0 }
	_, err := Judge(past(MinPoints-1, no, no))
	if !errors.Is(err, ErrTooLittle) {
		t.Fatal(err)
	}
	for _, want := range []string{"299 of the points", "1d55m", "needed are 300", "1d1h"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	// Points without requests are idle, and say nothing of a ratio.
	idle := past(1000, no, no)
	n := 0
	for at := range idle.Requests {
		if n++; n > 200 {
			idle.Requests[at] = 0
		}
	}
	if _, err := Judge(idle); !errors.Is(err, ErrTooLittle) {
		t.Error(err)
	}
	if _, err := Judge(past(MinPoints, no, no)); err != nil {
		t.Error(err)
	}
}

func TestJudge(t *testing.T) {
	h := past(1000, func(i int) float64 { return float64(i%100) / 1000 }, func(i int) float64 { return float64(i%50) / 1000 })
	// One that was hardly asked says nothing of what is usual.
	h.Attempts["west"], h.Failures["west"] = Series{}, Series{}
	for i := range 10 {
		at := h.End.Add(-time.Duration(i) * Step).UnixMilli()
		h.Attempts["west"][at], h.Failures["west"][at] = 1, 1
	}
	m, err := Judge(h)
	if err != nil {
		t.Fatal(err)
	}
	th := m.Thresholds(Thresholds{ClientRetries: new(0.7)})
	if *th.FallbackRatio != 0.098 || th.Interrupted != nil || *th.ClientRetries != 0.7 || *th.FirstOutput != 1.5 {
		t.Errorf("thresholds %v %v %v %v: p99 rounded up; none of what never happened; the given one", *th.FallbackRatio, th.Interrupted, *th.ClientRetries, *th.FirstOutput)
	}
	if all, err := Judge(past(1000, func(int) float64 { return 0.995 }, func(int) float64 { return 0 })); err != nil || all.Thresholds(Thresholds{}).FallbackRatio != nil {
		t.Error("a threshold that nothing can be above", err)
	}
	note := strings.Join(m.Note(), "\n")
	for _, want := range []string{
		"fallback ratio                                    1000     0.049     0.089     0.098     0.099     50.0%\n",
		"interrupted answers                               1000         0         0         0         0     50.0%\n",
		"first output, all                                 1000        1s        1s        2s      +Inf\n",
		"outages, their length                                0      none      none      none      none      0.0%\n",
		"nearest rank", "Measured from 2026-11-23T05:25:00Z to 2026-11-30T04:00:00Z",
		"  # suspect_window: not proposed: 0 outages of known length, 10 are needed",
		"breaker:\n  failure_rate: 0.52  # half way from the p99",
		"deadline:\n  first_output: 3s  # one and a half",
		"  # unary: not proposed: the p99 lies beyond the last bound",
	} {
		if !strings.Contains(note, want) {
			t.Errorf("%q is not in:\n%s", want, note)
		}
	}
}

func TestProposalsFromOutages(t *testing.T) {
	f := facts{outages: Distribution{Count: 10, P50: 90}, relapses: Distribution{Count: 10, P90: 240}, past: 720 * time.Hour,
		failures: Distribution{Count: MinPoints, P99: 0.02}, pace: 0.1}
	got := map[string]string{}
	for _, p := range propose(f) {
		got[p.Key] = p.Value
		if p.Why == "" {
			t.Errorf("%s without a reason", p.Key)
		}
	}
	for key, want := range map[string]string{"health.suspect_window": "1m30s", "health.recovery_window": "4m0s", "breaker.failure_rate": "0.51", "breaker.min_samples": "6", "deadline.unary": ""} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s: %q, want %q", key, v, want)
		}
	}
	for p50, want := range map[float64]string{10: "30s", 3600: "5m0s"} {
		f.outages.P50 = p50
		if v := propose(f)[0].Value; v != want {
			t.Errorf("outages of %gs: %s, want %s", p50, v, want)
		}
	}
}

// By chance alone a breaker of the proposed values opens at most once in the
// past, and with one sample less it would open more often.
func TestBreakerOfTellsChanceApart(t *testing.T) {
	for _, usual := range []float64{0, 0.001, 0.01, 0.05, 0.2, 0.5} {
		for _, past := range []time.Duration{24 * time.Hour, 720 * time.Hour} {
			rate, n := breakerOf(usual, past)
			if n == 0 || rate <= usual || rate > 1 {
				t.Fatalf("usual %g: %g of %d", usual, rate, n)
			}
			chance := float64(breakerWindow) / float64(past)
			at := func(n int) float64 { return tail(n, int(math.Ceil(rate*float64(n)-1e-9)), usual) }
			for m := n; m <= mostSamples; m++ {
				if at(m) > chance {
					t.Fatalf("usual %g over %s: %d samples fail by chance with %g, and %d are proposed", usual, past, m, at(m), n)
				}
			}
			if n > 1 && at(n-1) <= chance {
				t.Errorf("usual %g over %s: %d samples would do", usual, past, n-1)
			}
		}
	}
	if _, n := breakerOf(1, 24*time.Hour); n != 0 {
		t.Error("where everything fails always, nothing can be told")
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		n, k    int
		p, want float64
	}{{1, 1, 0.3, 0.3}, {2, 1, 0.5, 0.75}, {10, 10, 0.5, 1.0 / 1024}, {10, 0, 0.5, 1}, {10, 3, 0, 0}, {10, 3, 1, 1}, {4, 2, 0.5, 11.0 / 16}} {
		if got := tail(c.n, c.k, c.p); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %g", c, got)
		}
	}
}
