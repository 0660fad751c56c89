package metrics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// scraper knows what the last scrape stored.
type scraper struct {
	// mu guards everything that follows: one scrape at a time.
	mu     sync.Mutex
	cache  *cache
	report [len(reportNames)]series
	// last is the newest time of a scrape in milliseconds, 0 before the first.
	last int64
	// torn is set when a scrape could not be written.
	torn bool
	// orphans are series of an earlier process, until the first scrape shows
	// whether they go on.
	orphans []labels.Labels

	metaMu sync.RWMutex
	meta   []metadata // guarded by metaMu
}

// metadata describes a metric family.
type metadata struct{ name, kind, help, unit string }

// Names of the series that tell of the scrape itself, as Prometheus has them.
var reportNames = [...]string{"up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling", "scrape_series_added"}

func (c *scraper) init(added map[string]string) {
	c.cache = newCache(labels.FromMap(added))
	for i, name := range reportNames {
		b := labels.NewBuilder(c.cache.added)
		b.Set(metricName, name)
		c.report[i].labels = b.Labels()
	}
}

// Run scrapes, now and then at every Every, until ctx ends or the store is
// closed. It is to be called once.
func (s *Store) Run(ctx context.Context) {
	if s.o.Gatherer == nil {
		return
	}
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	start := time.Now().Round(0)
	for {
		if ctx.Err() != nil || s.ctx.Err() != nil {
			return
		}
		s.scrape(align(start, time.Now().Round(0), s.o.Every))
		select {
		case <-ctx.Done():
			return
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// jitter is how late a scrape may be and still bear the time at which it was
// due: even distances take the fewest bytes.
const jitter = 2 * time.Millisecond

// align returns the time to give to a scrape at now, of scrapes that are due
// every so often from start.
func align(start, now time.Time, every time.Duration) time.Time {
	late := now.Sub(start) % every
	if late < 0 { // the clock went back
		late += every
	}
	if late <= jitter && every >= 100*jitter {
		return now.Add(-late)
	}
	return now
}

// scrape gathers and stores. What goes wrong is logged: the next one may be
// better.
func (s *Store) scrape(at time.Time) {
	begin := time.Now()
	mfs, err := s.o.Gatherer.Gather()
	if err != nil {
		s.log.say("gather", "metrics scrape: not all metrics could be gathered: "+err.Error())
	}
	up := 1.0
	if err != nil && len(mfs) == 0 {
		up = 0
	}
	stored := s.store(at, mfs, up, time.Since(begin))
	if stored != nil && s.ctx.Err() == nil {
		s.log.say("scrape", "metrics scrape: "+stored.Error()+"; tried again with the next one")
	}
	if s.o.OnScrape != nil {
		s.o.OnScrape(errors.Join(err, stored))
	}
}

// Append stores mfs as the successful scrape of the time at, which must be
// later than the last one's. Series that the last scrape had and mfs has not
// end at that time.
func (s *Store) Append(at time.Time, mfs []*dto.MetricFamily) error {
	return s.store(at, mfs, 1, 0)
}

func (s *Store) store(at time.Time, mfs []*dto.MetricFamily, up float64, took time.Duration) error {
	c := &s.scraper
	c.mu.Lock()
	defer c.mu.Unlock()
	c.describe(mfs)
	if c.torn {
		if err := s.reopen(at); err != nil {
			return fmt.Errorf("not stored: %w", err)
		}
		c.torn = false
	}
	err := s.write(at, mfs, up, took)
	if errors.Is(err, errAhead) {
		c.torn = true
		if err := s.reopen(at); err != nil {
			return fmt.Errorf("not stored: %w", err)
		}
		c.torn, c.last = false, 0
		err = s.write(at, mfs, up, took)
	}
	return err
}

// write stores one scrape. The error is errAhead, and nothing is stored, where
// the newest sample is too far ahead for samples of the time at. The scraper's
// mutex must be held.
func (s *Store) write(at time.Time, mfs []*dto.MetricFamily, up float64, took time.Duration) error {
	c := &s.scraper
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()

	w := &writer{app: s.db.AppenderV2(context.Background()), t: at.UnixMilli()}
	first := c.last == 0
	c.cache.begin()
	for _, mf := range mfs {
		for _, m := range mf.GetMetric() {
			c.cache.put(w, mf, m)
		}
	}
	scraped, refused := w.samples, w.refused
	c.cache.end(w)
	for i, v := range [...]float64{up, took.Seconds(), float64(scraped), float64(scraped - refused), float64(c.cache.created)} {
		w.put(&c.report[i], v)
	}
	if w.refused > 0 && s.aheadOf(at) > ahead {
		return errors.Join(errAhead, w.app.Rollback())
	}
	if first {
		c.endOrphans(w)
	}
	if err := w.app.Commit(); err != nil {
		c.torn = true
		return fmt.Errorf("not stored: %w", err)
	}
	c.last = max(c.last, w.t)
	switch far := s.aheadOf(at); {
	case w.refused == 0:
		s.backTo.Store(0)
		return nil
	case far > 0:
		s.backTo.CompareAndSwap(0, w.t)
		return fmt.Errorf("%d of %d samples refused: the clock went back, the newest is %s ahead", w.refused, w.samples, far.Round(time.Second))
	}
	return fmt.Errorf("%d of %d samples refused: %w", w.refused, w.samples, w.refusal)
}

// endOrphans ends the series of an earlier process that this one has not.
func (c *scraper) endOrphans(w *writer) {
	if len(c.orphans) == 0 {
		return
	}
	here := map[uint64]bool{}
	for s := range c.each() {
		here[s.labels.Hash()] = true
	}
	for _, l := range c.orphans {
		if !here[l.Hash()] {
			w.end(&series{labels: l})
		}
	}
	c.orphans = nil
}

// each yields every series of the last scrape.
func (c *scraper) each() func(yield func(*series) bool) {
	return func(yield func(*series) bool) {
		for _, e := range c.cache.entries {
			for i := range e.series {
				if !yield(&e.series[i]) {
					return
				}
			}
		}
		for i := range c.report {
			if !yield(&c.report[i]) {
				return
			}
		}
	}
}

// forgetRefs is for another database, in which they mean other series.
func (c *scraper) forgetRefs() {
	for s := range c.each() {
		s.ref = 0
	}
}

// markAllEnded ends every series of the last scrape. The scraper's mutex must
// be held.
func (s *Store) markAllEnded(now time.Time) error {
	c := &s.scraper
	if c.last == 0 {
		return nil
	}
	w := &writer{app: s.db.AppenderV2(context.Background()), t: max(now.UnixMilli(), c.last+1)}
	for s := range c.each() {
		w.end(s)
	}
	return w.app.Commit()
}

// recentSeries returns the series in db that an instant query would still
// find now.
func recentSeries(ctx context.Context, db *tsdb.DB) []labels.Labels {
	now := time.Now()
	q, err := db.Querier(now.Add(-lookback).UnixMilli(), now.Add(ahead).UnixMilli())
	if err != nil {
		return nil // nothing to end, at worst they are seen for five minutes
	}
	defer q.Close()
	var found []labels.Labels
	set := q.Select(ctx, false, nil, labels.MustNewMatcher(labels.MatchNotEqual, metricName, ""))
	var it chunkenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		v, some := 0.0, false
		for it.Next() == chunkenc.ValFloat {
			_, v = it.At()
			some = true
		}
		if some && !value.IsStaleNaN(v) {
			found = append(found, set.At().Labels())
		}
	}
	return found
}

// writer appends the samples of one scrape.
type writer struct {
	app     storage.AppenderV2
	t       int64
	samples int
	refused int
	refusal error // the first one
}

// put appends v at the time of the scrape.
func (w *writer) put(s *series, v float64) { w.putAt(s, w.t, v) }

func (w *writer) putAt(s *series, t int64, v float64) {
	if math.IsNaN(v) {
		v = math.Float64frombits(value.NormalNaN) // no metric may look like an end
	}
	w.samples++
	w.add(s, t, v)
}

// end says that s has no further samples for now. Where the series has a later
// one already there is nothing to end.
func (w *writer) end(s *series) {
	_, _ = w.app.Append(s.ref, s.labels, 0, w.t, math.Float64frombits(value.StaleNaN), nil, nil, storage.AppendV2Options{})
}

func (w *writer) add(s *series, t int64, v float64) {
	ref, err := w.app.Append(s.ref, s.labels, 0, t, v, nil, nil, storage.AppendV2Options{})
	if err != nil {
		w.refused++
		if w.refusal == nil {
			w.refusal = err
		}
		return
	}
	s.ref = ref
}

// describe keeps what mfs say of themselves.
func (c *scraper) describe(mfs []*dto.MetricFamily) {
	if len(mfs) == 0 {
		return // the last description is better than none
	}
	c.metaMu.Lock()
	defer c.metaMu.Unlock()
	c.meta = c.meta[:0]
	for _, mf := range mfs {
		c.meta = append(c.meta, metadata{mf.GetName(), kindOf(mf.GetType()), mf.GetHelp(), mf.GetUnit()})
	}
}

func kindOf(t dto.MetricType) string {
	switch t {
	case dto.MetricType_COUNTER:
		return "counter"
	case dto.MetricType_GAUGE:
		return "gauge"
	case dto.MetricType_SUMMARY:
		return "summary"
	case dto.MetricType_HISTOGRAM:
		return "histogram"
	case dto.MetricType_GAUGE_HISTOGRAM:
		return "gaugehistogram"
	}
	return "unknown"
}
