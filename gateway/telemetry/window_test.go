package telemetry

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	var s seconds
	for second := int64(0); second < 200; second++ {
		s.add(second)
		if second%2 == 0 {
			s.add(second)
		}
	}
	for _, tt := range []struct {
		now, n int64
		want   uint64
	}{
		{199, 1, 1}, {199, 2, 3}, {199, 10, 15}, {199, 60, 90},
		{208, 10, 1}, {209, 10, 0}, {258, 60, 1}, {259, 60, 0}, {100000, 60, 0},
	} {
		if got := s.sum(tt.now, tt.n); got != tt.want {
			t.Errorf("last %d s at %d: %d, want %d", tt.n, tt.now, got, tt.want)
		}
	}
	var fresh seconds
	if got := fresh.sum(3, 60); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

// A quantile is right to 2 %, from a millisecond to a day.
func TestDurationsQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, scale := range []time.Duration{2 * time.Millisecond, 150 * time.Millisecond, 4 * time.Second, 5 * time.Minute, 3 * time.Hour} {
		var d durations
		var all []time.Duration
		for range 5000 {
			v := time.Duration(float64(scale) * math.Exp(r.NormFloat64()/2))
			all = append(all, v)
			d.add(7, v)
		}
		slices.Sort(all)
		for _, q := range []float64{0.5, 0.95, 0.99} {
			want := all[int(math.Ceil(q*5000))-1].Seconds()
			got, ok := d.quantile(7, q)
			if !ok || math.Abs(got/want-1) > 0.021 {
				t.Errorf("scale %v, quantile %v: %v, want %v", scale, q, got, want)
			}
		}
	}
}

func TestDurationsForget(t *testing.T) {
	var d durations
	if _, ok := d.quantile(0, 0.95); ok {
		t.Error("a quantile of nothing")
	}
	for range 100 {
		d.add(0, 10*time.Second)
	}
	for second := int64(30); second < 40; second++ {
		d.add(second, 100*time.Millisecond)
	}
	if got, _ := d.quantile(54, 0.95); got < 9 {
		t.Errorf("after 54 s: %v", got)
	}
	if got, _ := d.quantile(60, 0.95); got > 0.2 {
		t.Errorf("after 60 s: %v", got)
	}
	if _, ok := d.quantile(100, 0.95); ok {
		t.Error("a quantile of what is over a minute old")
	}
	// Nobody asked in between: the slot of a minute ago is not mixed in.
	for range 100 {
		d.add(600, 10*time.Second)
	}
	d.add(660, 100*time.Millisecond)
	if got, _ := d.quantile(660, 0.95); got > 0.2 {
		t.Errorf("a minute later: %v", got)
	}
	d.add(1000, -time.Second)
	d.add(1000, 24*time.Hour)
	if got, ok := d.quantile(1000, 1); !ok || got < 1800 {
		t.Errorf("out of range: %v, %v", got, ok)
	}
}
