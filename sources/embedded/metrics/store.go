package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"

	"failback/sources/embedded/gate"
)

// Options say what a Store keeps and where. Dir is required.
type Options struct {
	// Dir is the data directory, made if it is not there. It belongs to one
	// Store of one process at a time.
	Dir string
	// Gatherer is asked for all metrics at each scrape; nil means that only
	// Append brings any.
	Gatherer prometheus.Gatherer
	// Every is the time from one scrape to the next; 0 means 15 s.
	Every time.Duration
	// Labels are added to every series, job and instance as a rule. Where a
	// metric has one of these labels itself, its own becomes exported_NAME, as
	// Prometheus does it.
	Labels map[string]string
	// Retention is how long samples are kept; 0 means 7 days. They stay some
	// hours longer, since only whole blocks are deleted.
	Retention time.Duration
	// MaxBytes bounds the bytes on disk, the write-ahead log included; 0 means
	// 512 MiB. What is beyond goes with the next block, oldest first; the last
	// two to three hours stay in any case.
	MaxBytes int64
	// Log gets one line of text for everything an operator should know; nil
	// means nobody does. It is called from several goroutines, and must return
	// soon.
	Log func(string)
	// OnScrape is told how each scrape ended; nil means nobody is.
	OnScrape func(error)
}

const (
	defaultEvery     = 15 * time.Second
	defaultRetention = 7 * 24 * time.Hour
	defaultMaxBytes  = 512 << 20
)

func (o Options) withDefaults() Options {
	if o.Every <= 0 {
		o.Every = defaultEvery
	}
	if o.Retention <= 0 {
		o.Retention = defaultRetention
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	return o
}

// Store is a TSDB with its engine. Its methods may be called from any
// goroutine.
type Store struct {
	o      Options
	log    *journal
	engine *promql.Engine
	parser parser.Parser
	limits limits
	gate   *gate.Gate // for whom quick has no place
	quick  *gate.Gate
	pace   *pacer
	mux    http.Handler

	// backTo is the time to which the clock went back while samples are ahead of
	// it, in milliseconds, else 0.
	backTo atomic.Int64

	// ctx ends when Close begins.
	ctx  context.Context
	stop context.CancelFunc
	// scraper's mutex is taken before life.
	scraper scraper

	// life is held for reading by whoever uses db. It guards everything that
	// follows.
	life   sync.RWMutex
	closed bool
	db     *tsdb.DB // nil while it could not be opened again
}

var (
	errClosed  = errors.New("the metrics store is closed")
	errNotOpen = errors.New("the metrics store could not be opened again")
)

// Open opens the store in o.Dir, with what an earlier process left there, also
// one that was killed. What is damaged is moved into a directory of its own
// below o.Dir, said in o.Log, and the store goes on without it. An error means
// that there is no store, for example because the directory cannot be written
// or another process has it open; a gateway serves on without.
func Open(o Options) (*Store, error) { return open(o, defaultLimits) }

func open(o Options, l limits) (*Store, error) {
	if o.Dir == "" {
		return nil, errors.New("metrics store: no directory given")
	}
	o = o.withDefaults()
	s := &Store{o: o, log: newJournal(o.Log), limits: l}
	s.gate = gate.New(s.limits.running, s.limits.waiting)
	s.quick = gate.New(s.limits.quick, s.limits.waiting)
	s.pace = newPacer(workers())
	s.parser = parser.NewParser(parser.Options{})
	s.engine = promql.NewEngine(promql.EngineOpts{
		Logger:                   s.log.slog("engine"),
		MaxSamples:               s.limits.samples,
		Timeout:                  s.limits.timeout,
		LookbackDelta:            lookback,
		NoStepSubqueryIntervalFn: func(int64) int64 { return o.Every.Milliseconds() },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		Parser:                   s.parser,
	})
	now := time.Now()
	db, err := openOrSetAside(o, now, s.log)
	if err != nil {
		return nil, fmt.Errorf("metrics store in %s: %w", o.Dir, err)
	}
	s.db = db
	if s.aheadOf(now) > 0 {
		s.backTo.Store(now.UnixMilli())
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.scraper.init(o.Labels)
	s.scraper.orphans = recentSeries(s.ctx, db)
	s.mux = s.routes()
	return s, nil
}

// lookback is how far an instant query looks back for a sample, Prometheus's
// own default.
const lookback = 5 * time.Minute

// tsdbOptions are chosen for some thousand series in a process that does
// something else: small buffers, small hash map, nothing preallocated.
func tsdbOptions(o Options) *tsdb.Options {
	t := tsdb.DefaultOptions()
	t.RetentionDuration = o.Retention.Milliseconds()
	t.MaxBytes = o.MaxBytes
	t.WALCompression = walCompression
	t.WALSegmentSize = 16 << 20
	t.WALReplayConcurrency = 1
	// The default of 512 MiB is allocated at each compaction before a byte of
	// it is written: a small disk would be full.
	t.MaxBlockChunkSegmentSize = 32 << 20
	t.StripeSize = 512
	t.HeadChunksWriteBufferSize = 64 << 10
	t.HeadChunksWriteQueueSize = 0
	t.EnableExemplarStorage = false
	// As Prometheus does it: blocks grow to a tenth of the retention.
	t.MaxBlockDuration = max(t.MinBlockDuration, t.RetentionDuration/10)
	return t
}

// use keeps the store open until the function that it returns is called.
func (s *Store) use() (done func(), err error) {
	if s.ctx.Err() != nil { // Close has life, or waits for it
		return nil, errClosed
	}
	s.life.RLock()
	switch {
	case s.closed:
		err = errClosed
	case s.db == nil:
		err = errNotOpen
	}
	if err != nil {
		s.life.RUnlock()
		return nil, err
	}
	return s.life.RUnlock, nil
}

// reopen closes and opens the database. After a write that failed, on a full
// disk for example, the write-ahead log has half a record at its end, and
// what came behind it would be lost with the next start; and what is ahead of a
// clock that went back to now keeps out what comes. The scraper's mutex must be
// held.
func (s *Store) reopen(now time.Time) error {
	if err := roomIn(s.o.Dir); err != nil {
		return err
	}
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return errClosed
	}
	if s.db != nil {
		if err := s.db.Close(); err != nil {
			s.log.say("close", "metrics store: closing to open it again: "+err.Error())
		}
		s.db = nil
	}
	db, err := openOrSetAside(s.o, now, s.log)
	if err != nil {
		return fmt.Errorf("opening again: %w", err)
	}
	s.db = db
	s.backTo.Store(0)
	s.scraper.forgetRefs()
	return nil
}

// room is what must be free to try again: a log segment may be rewritten.
const room = 256 << 10

// roomIn tries to write room bytes in dir.
func roomIn(dir string) error {
	f, err := os.CreateTemp(dir, "room-*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, room))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

var errInUse = errors.New("a query has not ended, so the store is left as a process that was killed leaves it")

// Close ends running queries, marks every series as ended, so that after a
// start nothing old is taken for new, and closes the store. Answers that are
// being written then get a second more for each part. Closing again does
// nothing. Where a query does not end within the patience of
// the limits the error says so, and the store
// is closed once it does, if the process is still there.
func (s *Store) Close() error {
	s.stop()
	done := make(chan error, 1)
	go func() { done <- s.closeUnused() }()
	timer := time.NewTimer(s.limits.patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("metrics store in %s: close: %w", s.o.Dir, errInUse)
	}
}

// closeUnused closes the store when nobody uses it any more.
func (s *Store) closeUnused() error {
	s.scraper.mu.Lock()
	defer s.scraper.mu.Unlock()
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	errs := []error{s.engine.Close()}
	if s.db == nil {
		return errors.Join(errs...)
	}
	if err := s.markAllEnded(time.Now()); err != nil {
		errs = append(errs, fmt.Errorf("metrics store in %s: marking the series as ended: %w", s.o.Dir, err))
	}
	if err := s.db.Close(); err != nil {
		errs = append(errs, fmt.Errorf("metrics store in %s: close: %w", s.o.Dir, err))
	}
	return errors.Join(errs...)
}
