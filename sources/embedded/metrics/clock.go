package metrics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/annotations"
)

// A wall clock may go back. The TSDB takes no sample that is older than the
// newest, and finds those of the time that comes a second time.

const (
	// ahead is how far in the future the newest sample may be before what is so
	// is set aside: it would keep out every sample until that time comes.
	ahead = 10 * time.Minute
	// slack is what is nothing to speak of.
	slack = 2 * time.Second
)

var errAhead = errors.New("the clock went back")

// newestSample returns when the newest sample in db is from, and whether there
// is any.
func newestSample(db *tsdb.DB) (time.Time, bool) {
	newest := int64(math.MinInt64)
	if h := db.Head(); h.NumSeries() > 0 {
		newest = h.MaxTime()
	}
	for _, b := range db.Blocks() {
		newest = max(newest, b.Meta().MaxTime-1) // which is exclusive
	}
	return time.UnixMilli(newest), newest != math.MinInt64
}

// reopenWithoutFuture closes db and opens what is left without its head and the
// blocks that reach beyond now. Others are whole, and stay.
func reopenWithoutFuture(o Options, db *tsdb.DB, newest, now time.Time, log *journal) (*tsdb.DB, error) {
	drop := map[string]bool{"wal": true, "wbl": true, "chunks_head": true}
	for _, b := range db.Blocks() {
		if b.Meta().MaxTime > now.UnixMilli() {
			drop[filepath.Base(b.Dir())] = true
		}
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	all, err := contents(o.Dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range all {
		if drop[name] {
			names = append(names, name)
		}
	}
	why := fmt.Sprintf("the newest sample is from the future: %s, and it is %s", newest.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	if err := setAside(o.Dir, names, why, log); err != nil {
		return nil, err
	}
	return openTSDB(o, log)
}

// aheadOf is how far the newest sample is ahead of now; 0: it is not. The store
// must be in use.
func (s *Store) aheadOf(now time.Time) time.Duration {
	newest, some := newestSample(s.db)
	if !some || newest.Sub(now) <= slack {
		return 0
	}
	return newest.Sub(now)
}

// untwisted is the database without what was stored of a time that is now
// there a second time: it would look like new.
type untwisted struct {
	storage.Queryable
	until int64
}

// Querier implements storage.Queryable.
func (u untwisted) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := u.Queryable.Querier(mint, min(maxt, u.until))
	return before{q, u.until}, err
}

// before is a Querier of samples that are not younger than until.
type before struct {
	storage.Querier
	until int64
}

// Select implements storage.Querier.
func (b before) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	if hints != nil { // they go before the querier's own times
		h := *hints
		h.End = min(h.End, b.until)
		if hints = &h; h.End < h.Start {
			return storage.EmptySeriesSet()
		}
	}
	return b.Querier.Select(ctx, sorted, hints, ms...)
}

// trusted is what queries up to end are asked of, and what is to be said of it.
// The store must be in use.
func (s *Store) trusted(now, end time.Time) (storage.Queryable, annotations.Annotations) {
	far := s.aheadOf(now)
	if far == 0 || end.Before(now.Add(-ahead)) {
		return s.db, nil
	}
	until := now.UnixMilli()
	if t := s.backTo.Load(); t != 0 {
		until = min(until, t)
	}
	return untwisted{s.db, until}, annotations.New().Add(fmt.Errorf("samples are ahead of this clock by %s: it went back, and none is stored before it is there again",
		far.Round(time.Second)))
}
