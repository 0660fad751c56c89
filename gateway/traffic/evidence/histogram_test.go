package evidence

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsReachTheLongest(t *testing.T) {
	if most := histogramMin.Seconds() * math.Pow(gamma, buckets-1); most < histogramMax.Seconds() {
		t.Errorf("%d buckets end at %.0f s, before %s", buckets, most, histogramMax)
	}
	if most := histogramMin.Seconds() * math.Pow(gamma, buckets-2); most > histogramMax.Seconds() {
		t.Errorf("the last of %d buckets is not needed", buckets)
	}
}

func TestQuantileIsWithinTwoPercent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, spread := range []float64{0.01, 0.5, 2} {
		var h Histogram
		var all []time.Duration
		for range 20000 {
			d := time.Duration(float64(time.Second) * math.Exp(spread*r.NormFloat64()))
			d = min(max(d, histogramMin), histogramMax)
			all = append(all, d)
			h.Add(d)
		}
		slices.Sort(all)
		for _, q := range []float64{0, 0.01, 0.5, 0.95, 0.99, 1} {
			want := all[min(max(int(math.Ceil(q*20000))-1, 0), 19999)]
			got, ok := h.Quantile(q)
			if off := math.Abs(float64(got-want)) / float64(want); !ok || off > histogramError+1e-9 {
				t.Errorf("spread %v: quantile %v is %s, %.2f%% off %s", spread, q, got, off*100, want)
			}
		}
	}
}

func TestAboveIsWithinTwoPercent(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 17 * time.Millisecond, time.Second, 7*time.Second + 1, 50 * time.Minute} {
		var h Histogram
		h.Add(d)
		if n := h.Above(time.Duration(float64(d) * 0.979)); n != 1 {
			t.Errorf("%s is not above 97.9%% of it", d)
		}
		if n := h.Above(time.Duration(float64(d) * 1.021)); n != 0 {
			t.Errorf("%s is above 102.1%% of it", d)
		}
	}
	var h Histogram
	h.Add(100 * time.Hour)
	h.Add(-time.Second)
	if n := h.Above(99 * time.Hour); n != 1 {
		t.Errorf("%d above 99 h, not the one that has no bound", n)
	}
}

func TestEmptyHistogramHasNoQuantile(t *testing.T) {
	var h Histogram
	if d, ok := h.Quantile(0.95); ok {
		t.Errorf("nothing has the quantile %s", d)
	}
}

func TestHistogramRefusesHostileText(t *testing.T) {
	for _, text := range []string{
		`null1`, `{}`, `"x"`, `[[1]]`, `[[1,2,3]]`, `[[379,1]]`, `[[-1,1]]`, `[[1,-1]]`, `[[1,0]]`,
		`[[1,1.5]]`, `[[5,1],[5,1]]`, `[[5,1],[4,1]]`, `[[1,18446744073709551615]]`, `[[1,1e30]]`,
	} {
		h := Histogram{n: 1}
		if err := json.Unmarshal([]byte(text), &h); err == nil {
			t.Errorf("%s was taken", text)
		}
		if h.n != 1 {
			t.Errorf("%s left half of itself", text)
		}
	}
}
