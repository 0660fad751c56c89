package metrics

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// The engine cannot be told to rest, but what it reads comes from here: it rests
// while it asks for the next series or sample. What it does with what it holds is
// bounded by limits and guard.

const (
	// stretch is for how long a query may work before it rests.
	stretch = 10 * time.Millisecond
	// checked is how many samples are read between two looks at the clock, and slow
	// how long that may take for the next one not to come sooner.
	checked = 16
	slow    = 500 * time.Microsecond
	// maxRest is for how long the next query waits at most because the one before
	// worked longer than a stretch.
	maxRest = time.Second
)

// workers is how many queries may work at the same time: one on a small machine,
// otherwise half of what there is. The rest is for the requests that the gateway
// is there for.
func workers() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// pacer lets queries work in turn. Who begins goes before who has worked for a
// stretch: a short query need not wait for the end of long ones.
type pacer struct {
	mu            sync.Mutex // guards everything that follows
	free          int
	debt          time.Duration   // work of short queries, one after the other, for which nobody rested
	gave          time.Time       // when the last place was given back
	fresh, rested []chan struct{} // each is closed when it gets a place
}

func newPacer(places int) *pacer { return &pacer{free: places} }

// take waits for a place. The error is that of ctx.
func (p *pacer) take(ctx context.Context, fresh bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	if p.free > 0 {
		p.free--
		p.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	queue := &p.rested
	if fresh {
		queue = &p.fresh
	}
	*queue = append(*queue, mine)
	p.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range *queue {
		if c == mine {
			*queue = append((*queue)[:i], (*queue)[i+1:]...)
			return ctx.Err()
		}
	}
	p.next() // it was given meanwhile
	return ctx.Err()
}

// give gives a place back.
func (p *pacer) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next()
}

// next gives a place to who waits. The mutex must be held.
func (p *pacer) next() {
	p.gave = time.Now()
	for _, queue := range []*[]chan struct{}{&p.fresh, &p.rested} {
		if len(*queue) > 0 {
			close((*queue)[0])
			*queue = (*queue)[1:]
			return
		}
	}
	p.free++
}

// turn is the work of one query. It belongs to one goroutine.
type turn struct {
	p       *pacer
	ctx     context.Context
	err     error         // that of ctx, once there is no place any more
	began   time.Time     // when the place that is held was got
	worked  time.Duration // since the last rest, before since
	since   time.Time     // of the place that is held, or of the last look at the clock
	samples int           // since then
	every   int           // how many samples to the next look; 0: one
}

// begin waits for a place. Whoever has one calls end.
func (p *pacer) begin(ctx context.Context) (*turn, error) {
	if err := p.take(ctx, true); err != nil {
		return nil, err
	}
	now := time.Now()
	return &turn{p: p, ctx: ctx, began: now, since: now}, nil
}

// end gives the place back, after a rest if there was more work than a stretch,
// that of short queries right before included: nobody waits for that but the next
// one.
func (t *turn) end() {
	if t.err != nil {
		return
	}
	t.look()
	p := t.p
	p.mu.Lock()
	p.debt = max(0, p.debt-t.began.Sub(p.gave)) + t.worked
	rest := min(p.debt, maxRest)
	if p.debt >= stretch {
		p.debt = 0
	}
	p.mu.Unlock()
	if rest < stretch {
		p.give()
		return
	}
	time.AfterFunc(rest, p.give)
}

func (t *turn) look() {
	now := time.Now()
	d := now.Sub(t.since)
	t.worked += d
	t.since, t.samples, t.every = now, 0, checked
	if d > slow {
		t.every = 1
	}
}

// sample counts one that is read, and reports whether the query may go on.
func (t *turn) sample() bool {
	if t.err != nil {
		return false
	}
	if t.samples++; t.samples < t.every {
		return true
	}
	return t.rest()
}

// rest rests after a stretch as long as that took, in its place, so that nobody
// else works meanwhile, and then lets others work.
func (t *turn) rest() bool {
	if t.err != nil {
		return false
	}
	if t.look(); t.worked < stretch {
		return true
	}
	timer := time.NewTimer(min(t.worked, maxRest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
	}
	t.p.give()
	t.worked = 0
	if t.err = t.p.take(t.ctx, false); t.err != nil {
		return false
	}
	t.began = time.Now()
	t.since = t.began
	return true
}

type turnKey struct{}

// paced is what a query of this turn reads.
func paced(ctx context.Context, q storage.Queryable) storage.Queryable {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok {
		return pacedQueryable{q, t}
	}
	return q
}

type pacedQueryable struct {
	storage.Queryable
	t *turn
}

// Querier implements storage.Queryable.
func (p pacedQueryable) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := p.Queryable.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	return pacedQuerier{q, p.t}, nil
}

type pacedQuerier struct {
	storage.Querier
	t *turn
}

// Select implements storage.Querier.
func (p pacedQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	if !p.t.rest() {
		return storage.ErrSeriesSet(p.t.err)
	}
	return &pacedSet{p.Querier.Select(ctx, sorted, hints, ms...), p.t}
}

type pacedSet struct {
	storage.SeriesSet
	t *turn
}

// Next implements storage.SeriesSet.
func (p *pacedSet) Next() bool { return p.t.rest() && p.SeriesSet.Next() }

// At implements storage.SeriesSet.
func (p *pacedSet) At() storage.Series { return pacedSeries{p.SeriesSet.At(), p.t} }

// Err implements storage.SeriesSet.
func (p *pacedSet) Err() error {
	if p.t.err != nil {
		return p.t.err
	}
	return p.SeriesSet.Err()
}

// Warnings implements storage.SeriesSet.
func (p *pacedSet) Warnings() annotations.Annotations { return p.SeriesSet.Warnings() }

type pacedSeries struct {
	storage.Series
	t *turn
}

// Iterator implements storage.Series.
func (p pacedSeries) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	p.t.rest()
	if old, ok := it.(*pacedIterator); ok {
		old.Iterator = p.Series.Iterator(old.Iterator)
		return old
	}
	return &pacedIterator{p.Series.Iterator(it), p.t}
}

type pacedIterator struct {
	chunkenc.Iterator
	t *turn
}

// Next implements chunkenc.Iterator.
func (p *pacedIterator) Next() chunkenc.ValueType {
	if !p.t.sample() {
		return chunkenc.ValNone
	}
	return p.Iterator.Next()
}

// millis has a name since Seek is not io.Seeker's, which go vet would have it be.
type millis = int64

// Seek implements chunkenc.Iterator.
func (p *pacedIterator) Seek(at millis) chunkenc.ValueType {
	if !p.t.sample() {
		return chunkenc.ValNone
	}
	return p.Iterator.Seek(at)
}

// Err implements chunkenc.Iterator.
func (p *pacedIterator) Err() error {
	if p.t.err != nil {
		return p.t.err
	}
	return p.Iterator.Err()
}
