package metrics

import (
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// metricName is the label that holds a metric's name.
const metricName = "__name__"

// series is one series of the TSDB. ref is 0 until its first sample.
type series struct {
	ref    storage.SeriesRef
	labels labels.Labels
}

// entry is one metric of the last scrape: one series, or those of a histogram
// or summary.
type entry struct {
	round uint64
	// bounds are the upper bounds or the quantiles for which there are series.
	bounds []float64
	// series are: of a counter, gauge or untyped metric the one; of a histogram
	// its buckets, +Inf, sum, count; of a summary its quantiles, sum, count.
	series []series
}

// cache finds the series of a metric without making their labels again.
type cache struct {
	added   labels.Labels
	entries map[string]*entry
	round   uint64
	created int      // series that the last scrape had first
	gone    []series // replaced within the scrape
	key     []byte
}

func newCache(added labels.Labels) *cache {
	return &cache{added: added, entries: map[string]*entry{}}
}

func (c *cache) begin() {
	c.round++
	c.created = 0
}

// end ends what the scrape has not had.
func (c *cache) end(w *writer) {
	for k, e := range c.entries {
		if e.round != c.round {
			c.gone = append(c.gone, e.series...)
			delete(c.entries, k)
		}
	}
	for i := range c.gone {
		w.end(&c.gone[i])
	}
	clear(c.gone)
	c.gone = c.gone[:0]
}

// put appends the samples of m.
func (c *cache) put(w *writer, mf *dto.MetricFamily, m *dto.Metric) {
	if m.TimestampMs != nil {
		c.putWithTime(w, mf, m)
		return
	}
	e := c.entry(mf, m)
	e.round = c.round
	c.samples(mf, m, func(i int, v float64) { w.put(&e.series[i], v) })
}

// putWithTime is for a metric that brings its own time. As with Prometheus, it
// does not end when it vanishes.
func (c *cache) putWithTime(w *writer, mf *dto.MetricFamily, m *dto.Metric) {
	e := c.make(mf, m)
	c.samples(mf, m, func(i int, v float64) { w.putAt(&e.series[i], m.GetTimestampMs(), v) })
}

// samples calls put with each value of m, in the order of entry.series.
func (c *cache) samples(mf *dto.MetricFamily, m *dto.Metric, put func(i int, v float64)) {
	switch mf.GetType() {
	case dto.MetricType_COUNTER:
		put(0, m.GetCounter().GetValue())
	case dto.MetricType_GAUGE:
		put(0, m.GetGauge().GetValue())
	case dto.MetricType_SUMMARY:
		s, i := m.GetSummary(), 0
		for _, q := range s.GetQuantile() {
			put(i, q.GetValue())
			i++
		}
		put(i, s.GetSampleSum())
		put(i+1, float64(s.GetSampleCount()))
	case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE_HISTOGRAM:
		h, i := m.GetHistogram(), 0
		count := float64(h.GetSampleCount())
		if f := h.GetSampleCountFloat(); f > 0 {
			count = f
		}
		for _, b := range h.GetBucket() {
			if math.IsInf(b.GetUpperBound(), 1) {
				continue // is the count
			}
			v := float64(b.GetCumulativeCount())
			if f := b.GetCumulativeCountFloat(); f > 0 {
				v = f
			}
			put(i, v)
			i++
		}
		put(i, count)
		put(i+1, h.GetSampleSum())
		put(i+2, count)
	default:
		put(0, m.GetUntyped().GetValue())
	}
}

// entry returns that of m, a new one if m is new or has other bounds.
func (c *cache) entry(mf *dto.MetricFamily, m *dto.Metric) *entry {
	k := append(c.key[:0], byte(mf.GetType()))
	k = append(k, mf.GetName()...)
	for _, l := range m.GetLabel() {
		k = append(k, 0xff) // not in UTF-8
		k = append(k, l.GetName()...)
		k = append(k, 0xff)
		k = append(k, l.GetValue()...)
	}
	c.key = k
	e := c.entries[string(k)]
	if e != nil && sameBounds(e.bounds, m) {
		return e
	}
	fresh := c.make(mf, m)
	if e != nil {
		c.replace(e, fresh)
	}
	c.entries[string(k)] = fresh
	c.created += len(fresh.series)
	return fresh
}

// replace ends the series of old that fresh has not.
func (c *cache) replace(old, fresh *entry) {
	for _, s := range old.series {
		if !slices.ContainsFunc(fresh.series, func(f series) bool { return labels.Equal(f.labels, s.labels) }) {
			c.gone = append(c.gone, s)
		}
	}
}

func sameBounds(bounds []float64, m *dto.Metric) bool {
	i := 0
	for _, q := range m.GetSummary().GetQuantile() {
		if i >= len(bounds) || bounds[i] != q.GetQuantile() {
			return false
		}
		i++
	}
	for _, b := range m.GetHistogram().GetBucket() {
		if math.IsInf(b.GetUpperBound(), 1) {
			continue
		}
		if i >= len(bounds) || bounds[i] != b.GetUpperBound() {
			return false
		}
		i++
	}
	return i == len(bounds)
}

// make makes the series of m.
func (c *cache) make(mf *dto.MetricFamily, m *dto.Metric) *entry {
	e := &entry{}
	name := mf.GetName()
	add := func(name, label, value string) {
		e.series = append(e.series, series{labels: c.labels(name, m, label, value)})
	}
	switch mf.GetType() {
	case dto.MetricType_SUMMARY:
		for _, q := range m.GetSummary().GetQuantile() {
			e.bounds = append(e.bounds, q.GetQuantile())
			add(name, "quantile", labels.FormatOpenMetricsFloat(q.GetQuantile()))
		}
		add(name+"_sum", "", "")
		add(name+"_count", "", "")
	case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE_HISTOGRAM:
		for _, b := range m.GetHistogram().GetBucket() {
			if math.IsInf(b.GetUpperBound(), 1) {
				continue
			}
			e.bounds = append(e.bounds, b.GetUpperBound())
			add(name+"_bucket", "le", labels.FormatOpenMetricsFloat(b.GetUpperBound()))
		}
		add(name+"_bucket", "le", "+Inf")
		add(name+"_sum", "", "")
		add(name+"_count", "", "")
	default:
		add(name, "", "")
	}
	return e
}

// labels returns those of one series of m: its own, the added ones, and one
// more unless label is empty. An own label of an added one's name is exported.
func (c *cache) labels(name string, m *dto.Metric, label, value string) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	for _, l := range m.GetLabel() {
		b.Set(l.GetName(), l.GetValue())
	}
	if label != "" {
		b.Set(label, value)
	}
	own := b.Labels()
	var conflicts []labels.Label
	c.added.Range(func(l labels.Label) {
		if v := own.Get(l.Name); v != "" {
			conflicts = append(conflicts, labels.Label{Name: l.Name, Value: v})
		}
		b.Set(l.Name, l.Value)
	})
	slices.SortStableFunc(conflicts, func(x, y labels.Label) int { return len(x.Name) - len(y.Name) })
	for _, l := range conflicts {
		exported := "exported_" + l.Name
		for b.Get(exported) != "" {
			exported = "exported_" + exported
		}
		b.Set(exported, l.Value)
	}
	b.Set(metricName, name)
	return b.Labels()
}
