package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"failback/gateway/operator/api"
	"failback/sources/embedded/logs"
	"failback/sources/embedded/metrics"
)

// Options say what is kept, of whom, and where.
type Options struct {
	// Dir is the gateway's data directory.
	Dir string
	// Metrics and Logs say which of the two are kept here.
	Metrics, Logs bool
	// Gatherer gathers the gateway's metrics. Every is how often it is asked.
	Gatherer prometheus.Gatherer
	Every    time.Duration
	// Instance names the gateway in labels.
	Instance string
	// MaxAge and MaxBytes bound each store.
	MaxAge   time.Duration
	MaxBytes int64
	// Lost is how many lines of the log were lost on the way to Lines; nil: none.
	// It is called from several goroutines and must not block.
	Lost func() uint64
	// Log gets one line of text for everything an operator should know. It is
	// called from several goroutines and must not block.
	Log func(string)
	// OnScrape is told how each scrape of the metrics ended; nil: nobody is.
	OnScrape func(error)
}

// Store is both stores. Its methods may be called from any goroutine.
type Store struct {
	o    Options
	logs *logs.Store // nil: none, or it could not be opened
	open func(metrics.Options) (*metrics.Store, error)
	gaps gaps // of logs

	// mu guards everything that follows.
	mu      sync.Mutex
	metrics *metrics.Store // nil until it has been opened
	opening chan struct{}  // closed when opening it has ended; nil: not begun
	closed  bool
	// why what is missing is missing
	metricsWhy, logsWhy string
}

// Open opens the store of lines, so that none is missed. That of numbers opens
// in Run: reading its journal may take seconds.
func Open(o Options) *Store {
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.Lost == nil {
		o.Lost = func() uint64 { return 0 }
	}
	s := &Store{o: o, open: metrics.Open, metricsWhy: "none are kept here", logsWhy: "none are kept here"}
	if o.Metrics {
		s.metricsWhy = "the store of numbers is being opened"
	}
	if o.Logs {
		store, err := logs.Open(logs.Options{
			Dir:    filepath.Join(o.Dir, "lines"),
			Labels: map[string]string{"service_name": api.ServiceName, "instance": o.Instance},
			MaxAge: o.MaxAge, MaxBytes: o.MaxBytes, Log: o.Log,
			Lacks: func(start, end time.Time) string {
				s.look()
				return s.gaps.between(start, end)
			},
		})
		if err != nil {
			s.logsWhy = err.Error()
			o.Log("log lines are not kept: " + err.Error())
		} else {
			s.logs, s.logsWhy = store, ""
		}
	}
	return s
}

// Run opens the store of numbers and takes them until ctx ends, once. It does
// not wait for a journal that is still being read then: Close does.
func (s *Store) Run(ctx context.Context) error {
	if !s.o.Metrics {
		return nil
	}
	opening := make(chan struct{})
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.opening = opening
	s.mu.Unlock()
	var store *metrics.Store
	var err error
	go func() {
		defer close(opening)
		store, err = s.openNumbers()
	}()
	select {
	case <-opening:
	case <-ctx.Done():
		return nil
	}
	if err != nil {
		return fmt.Errorf("numbers are not kept: %w", err)
	}
	if store != nil {
		store.Run(ctx)
	}
	return nil
}

// openNumbers opens the store of numbers, and closes it again if it comes too
// late: then it is nil.
func (s *Store) openNumbers() (*metrics.Store, error) {
	store, err := s.open(metrics.Options{
		Dir: filepath.Join(s.o.Dir, "metrics"), Gatherer: s.o.Gatherer, Every: s.o.Every,
		Labels:    map[string]string{"job": api.ServiceName, "instance": s.o.Instance},
		Retention: s.o.MaxAge, MaxBytes: s.o.MaxBytes, Log: s.o.Log, OnScrape: s.o.OnScrape,
	})
	s.mu.Lock()
	closed := s.closed
	switch {
	case err != nil:
		s.metricsWhy = err.Error()
	case !closed:
		s.metrics, s.metricsWhy = store, ""
	}
	s.mu.Unlock()
	if err == nil && closed {
		return nil, store.Close()
	}
	return store, err
}

// Lines takes lines of the decision log, whole ones; nil if none are kept. It
// never blocks.
func (s *Store) Lines() io.Writer {
	if s.logs == nil {
		return nil
	}
	return feed{s}
}

// feed is where lines go in.
type feed struct{ s *Store }

func (f feed) Write(lines []byte) (int, error) {
	n, err := f.s.logs.Write(lines)
	f.s.look()
	return n, err
}

// look takes note of lines that were lost.
func (s *Store) look() {
	s.gaps.look(s.Dropped()+s.o.Lost(), time.Now())
}

// Dropped is how many lines were taken and lost since the start: the disk did
// not take them in time.
func (s *Store) Dropped() uint64 {
	if s.logs == nil {
		return 0
	}
	_, dropped, _ := s.logs.Stats()
	return dropped
}

// Handler serves what is below path, api.PrometheusPath or api.LokiPath; nil
// if that is not kept here.
func (s *Store) Handler(path string) http.Handler {
	switch {
	case path == api.PrometheusPath && s.o.Metrics:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.metrics == nil {
			return unavailable(s.metricsWhy)
		}
		return s.metrics.Handler()
	case path == api.LokiPath && s.o.Logs:
		if s.logs == nil {
			return unavailable(s.logsWhy)
		}
		return s.logs.Handler()
	}
	return nil
}

// unavailable answers 503 with why, as Prometheus writes an error and as Loki
// may: it reads any text.
func unavailable(why string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "unavailable", "error": why})
	})
}

// Problem is why what is kept under path cannot be asked for, or does not get
// all there is; empty if all is well now. It stays the same while it goes on.
// Lines that were lost before are told with the answers that lack them.
func (s *Store) Problem(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch path {
	case api.PrometheusPath:
		return s.metricsWhy
	case api.LokiPath:
		if s.logs == nil {
			return s.logsWhy
		}
		s.look()
		if _, _, err := s.logs.Stats(); err != nil {
			return err.Error()
		}
		if s.gaps.now(time.Now()) {
			return "lines are being lost: they are not written in time"
		}
		if s.logs.Damaged() > 0 {
			return "stored lines are damaged on the disk: answers over their time leave them out"
		}
	}
	return ""
}

// Close ends both, with what they were given written down: the lines at the
// latest when ctx ends, the numbers some seconds later at most. A store of
// numbers that is still being opened is waited for until ctx ends; it closes
// itself then, if the process lasts. Run must have been told to end.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	numbers, opening := s.metrics, s.opening
	s.mu.Unlock()
	var errs []error
	if s.logs != nil { // first: of these nothing may be lost
		errs = append(errs, s.logs.Close(ctx))
	}
	switch {
	case numbers != nil:
		errs = append(errs, numbers.Close())
	case opening != nil:
		select {
		case <-opening:
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("the store of numbers was still being opened: %w", ctx.Err()))
		}
	}
	return errors.Join(errs...)
}
