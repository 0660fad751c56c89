package telemetry

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// definition is one metric as docs/metrics.md has it.
type definition struct {
	name   string
	kind   string // counter, gauge or histogram
	labels []string
	help   string
}

// labels are the values of a series, in the order of its definition; unused
// ones are empty.
type labels [6]string

// family is all series of one metric that requests and events count into.
// series is changed only while nobody counts (Metrics.mu).
type family[M any] struct {
	definition
	series map[labels]M
	// extra holds series that nobody foresaw, as map keys.
	extra sync.Map

	with func(values ...string) M
	drop func(values ...string) bool
	// vec and buckets are a histogram's.
	vec     prometheus.Collector
	buckets []float64
}

func newCounters(reg prometheus.Registerer, d definition) *family[prometheus.Counter] {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help}, d.labels)
	reg.MustRegister(vec)
	return &family[prometheus.Counter]{
		definition: d, series: map[labels]prometheus.Counter{},
		with: vec.WithLabelValues, drop: vec.DeleteLabelValues,
	}
}

func newHistograms(reg prometheus.Registerer, d definition, buckets []float64) *family[prometheus.Observer] {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.name, Help: d.help, Buckets: buckets}, d.labels)
	reg.MustRegister(vec)
	return &family[prometheus.Observer]{
		definition: d, series: map[labels]prometheus.Observer{},
		with: vec.WithLabelValues, drop: vec.DeleteLabelValues,
		vec: vec, buckets: buckets,
	}
}

// HighestFirstOutput is the highest finite bound of ai_model_first_output_seconds
// where a client may have to wait so long for its first output.
func HighestFirstOutput(longest time.Duration) time.Duration {
	highest := firstOutputBuckets[len(firstOutputBuckets)-1]
	return max(longest, time.Duration(highest*float64(time.Second)))
}

// reaching is the histogram f if its bounds reach longest, else one in its place
// that also has longest as a bound: a quantile over the highest bound could not
// be told. What f counted is gone then, as after a restart.
func reaching(reg prometheus.Registerer, f *family[prometheus.Observer], longest time.Duration) *family[prometheus.Observer] {
	if longest.Seconds() <= f.buckets[len(f.buckets)-1] {
		return f
	}
	reg.Unregister(f.vec)
	return newHistograms(reg, f.definition, append(slices.Clone(f.buckets), longest.Seconds()))
}

// get returns the series of values, which may be new.
func (f *family[M]) get(values ...string) M {
	var key labels
	copy(key[:], values)
	if s, ok := f.series[key]; ok {
		return s
	}
	return f.unforeseen(key)
}

// unforeseen stands apart so that key escapes to the heap only here.
func (f *family[M]) unforeseen(key labels) M {
	f.extra.Store(key, nil)
	return f.with(key[:len(f.labels)]...)
}

// reset makes wanted the series there are, at 0 where they are new. Others go,
// but those that nobody foresaw stay while keep allows their labels.
func (f *family[M]) reset(wanted map[labels]bool, keep func(labels) bool) {
	for key := range f.series {
		if !wanted[key] {
			f.drop(key[:len(f.labels)]...)
			delete(f.series, key)
		}
	}
	f.extra.Range(func(k, _ any) bool {
		key := k.(labels)
		if wanted[key] || !keep(key) {
			f.extra.Delete(key)
		}
		if !wanted[key] && !keep(key) {
			f.drop(key[:len(f.labels)]...)
		}
		return true
	})
	for key := range wanted {
		if _, ok := f.series[key]; !ok {
			f.series[key] = f.with(key[:len(f.labels)]...)
		}
	}
}

// value returns the value of a label of a series, empty if it has none such.
func (d *definition) value(key labels, label string) string {
	for i, l := range d.labels {
		if l == label {
			return key[i]
		}
	}
	return ""
}
