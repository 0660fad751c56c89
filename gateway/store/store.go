package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"failback/gateway/internal/filelock"
)

const (
	defaultTimeout = 5 * time.Second
	defaultPrefix  = "failback"
)

// Kind is where a store keeps what it keeps.
type Kind string

const (
	Embedded Kind = "embedded" // in the process
	NATS     Kind = "nats"     // in a cluster
)

// Options says where a store is.
type Options struct {
	// Dir is where the server in the process keeps its files. It is created
	// if its parent exists. Unused with URL.
	Dir string
	// URL is of an existing cluster; several with commas between them. Empty:
	// in the process.
	URL string
	// Prefix begins the name of everything in a cluster, so that
	// installations can share one. Empty: failback. Letters, digits, "-", "_".
	Prefix string
	// Timeout bounds every call whose context has no earlier end. 0: 5 s.
	Timeout time.Duration
	// Log is told what the server says, a line at a time. Nil: nobody is.
	Log func(string)
	// OnState is told when Status().Err changes, in order, by one goroutine.
	// It must not block and must not call Close. Nil: nobody is.
	OnState func(error)
}

// Status says whether a store can be written.
type Status struct {
	Kind  Kind
	Err   error     // why writes fail; nil if they do not
	Since time.Time // of the error; zero without one
}

// Store is an open store. Its methods may be called concurrently.
type Store struct {
	o       Options
	kind    Kind
	cluster cluster
	server  *embedded // nil with a cluster
	lock    *os.File  // nil with a cluster
	nc      *nats.Conn
	js      jetstream.JetStream

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wake   chan struct{} // has room for one: the state, or the connection, changed
	closed chan struct{} // closed when the connection is

	running sync.WaitGroup
	closing sync.Once
	gone    chan struct{} // closed when everything ended

	// mu guards everything that follows.
	mu     sync.Mutex
	status Status
	// healthy ends, with the reason as its cause, when writes begin to fail.
	healthy   context.Context
	unhealthy context.CancelCauseFunc
	// trips counts reports that writes fail; generation connections to a
	// server: what is known of the server's streams holds for one.
	trips      uint64
	generation uint64
	connected  chan struct{} // closed with the next generation
	refused    error         // why the last attempt to connect failed
}

// Open opens a store and starts the server in the process, if that is where it
// is. A disk that is full or a cluster that does not answer is no error: Status
// has it, and calls fail until it is over. What waiting does not mend is one: a
// *DamagedError, a directory that may not be used or that another process uses,
// an unreadable URL. Errors hold no password.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if err := checkName("prefix", o.Prefix); err != nil {
		return nil, err
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	s := &Store{
		o: o, kind: Embedded,
		wake:      make(chan struct{}, 1),
		closed:    make(chan struct{}),
		gone:      make(chan struct{}),
		connected: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.healthy, s.unhealthy = context.WithCancelCause(s.ctx)
	var err error
	if o.URL == "" {
		err = s.openServer()
	} else {
		s.kind = NATS
		s.cluster, err = parseURL(o.URL)
	}
	if err == nil {
		err = s.connect(ctx)
	}
	if err == nil && s.server != nil {
		err = s.examine(ctx)
	}
	if err != nil {
		s.end()
		return nil, err
	}
	s.running.Go(s.supervise)
	return s, nil
}

// openServer claims the directory and starts the server on it.
func (s *Store) openServer() error {
	dir := s.o.Dir
	if dir == "" {
		return errors.New("store: neither a directory nor a URL is given")
	}
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("store %s: %w", dir, err)
	}
	s.lock, err = filelock.Lock(filepath.Join(dir, "lock"))
	if held, ok := errors.AsType[*filelock.HeldError](err); ok {
		return fmt.Errorf("store %s: another process (%s) uses it: stop that one, or choose another directory", dir, held.PID)
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", dir, err)
	}
	s.server = &embedded{dir: dir, log: s.o.Log, broken: s.broke}
	if err := s.server.start(); err != nil {
		if _, damaged := errors.AsType[*DamagedError](err); damaged {
			return err
		}
		if disk := probeDisk(dir); disk != nil && isDiskFull(disk) {
			s.broke(diskError(dir, disk))
			return nil
		}
		return fmt.Errorf("store %s: %w", dir, err)
	}
	return nil
}

// connect connects. A cluster that does not answer is tried again for ever.
func (s *Store) connect(ctx context.Context) error {
	opts := []nats.Option{
		nats.Name("failback"),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(true),
		// What is written while the connection is lost fails at once. Kept,
		// it would be written after its caller had been told that it failed.
		nats.ReconnectBufSize(-1),
		nats.Timeout(s.o.Timeout),
		nats.CustomReconnectDelay(func(n int) time.Duration {
			return min(20*time.Millisecond*time.Duration(n), 500*time.Millisecond)
		}),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { s.lost(err) }),
		nats.ConnectHandler(func(*nats.Conn) { s.joined() }),
		nats.ReconnectHandler(func(*nats.Conn) { s.joined() }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { s.lost(err) }),
		nats.ClosedHandler(func(*nats.Conn) { close(s.closed) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.o.Log("store: " + s.cluster.redact(err).Error())
		}),
	}
	if s.server != nil {
		opts = append(opts, nats.InProcessServer(s.server))
	}
	nc, err := nats.Connect(s.cluster.urls, opts...)
	if err != nil {
		return fmt.Errorf("store %s: %w", s.Place(), s.cluster.redact(err))
	}
	s.nc = nc
	if s.js, err = jetstream.New(nc); err != nil {
		return fmt.Errorf("store %s: %w", s.Place(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	if s.await(ctx, 0) != nil {
		s.broke(s.noConnection(s.refusal()))
	}
	return nil
}

// Place names the store in messages: the cluster's hosts, or the directory.
func (s *Store) Place() string {
	if s.kind == NATS {
		return s.cluster.hosts
	}
	return s.o.Dir
}

func (s *Store) noConnection(err error) error {
	text := "no connection to " + s.Place() + ": it is tried again by itself"
	if err == nil {
		return errors.New(text)
	}
	return fmt.Errorf("%s: %w", text, s.cluster.redact(err))
}

// unconnected is why a call fails while there is no connection.
func (s *Store) unconnected() error {
	text := "no connection to " + s.Place()
	if err := s.refusal(); err != nil {
		return fmt.Errorf("%s: %w", text, s.cluster.redact(err))
	}
	return errors.New(text)
}

// refusal is why the last attempt to connect failed, nil if that is not known.
func (s *Store) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// joined is called when a server answers.
func (s *Store) joined() {
	s.mu.Lock()
	s.generation++
	s.refused = nil
	close(s.connected)
	s.connected = make(chan struct{})
	s.mu.Unlock()
	s.poke()
}

// lost is called when the connection is lost, and when it could not be had
// again. A server that the store itself stopped is not lost.
func (s *Store) lost(err error) {
	s.mu.Lock()
	s.refused = cmp.Or(err, s.refused)
	s.mu.Unlock()
	if s.ctx.Err() == nil && s.kind == NATS {
		s.broke(s.noConnection(err))
	}
}

// await waits for a generation after the given one.
func (s *Store) await(ctx context.Context, after uint64) error {
	for {
		s.mu.Lock()
		g, next := s.generation, s.connected
		s.mu.Unlock()
		if g > after {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Store) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Status says whether the store can be written.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Kind = s.kind
	return st
}

// Close ends every call and watch, flushes, and waits until everything that
// Open started has ended, at most until ctx does. It may be called again.
func (s *Store) Close(ctx context.Context) error {
	s.closing.Do(func() {
		s.cancel()
		go s.end()
	})
	select {
	case <-s.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("store %s: it does not stop: %w", s.Place(), context.Cause(ctx))
	}
}

// end stops everything.
func (s *Store) end() {
	s.cancel()
	s.running.Wait()
	if s.nc != nil {
		s.nc.Close()
		<-s.closed
	}
	if s.server != nil {
		if s.server.stop() {
			if err := s.server.check(); err != nil {
				s.o.Log("store: closing: " + err.Error())
			}
		}
	}
	if s.lock != nil {
		_ = s.lock.Close()
	}
	close(s.gone)
}

// checkName refuses what cannot be part of the name of a stream.
func checkName(what, name string) error {
	if name == "" || len(name) > 64 {
		return fmt.Errorf("store: the %s %q must have 1 to 64 characters", what, name)
	}
	for i := range len(name) {
		if c := name[i]; !plainKeyByte(c) || c == '/' {
			return fmt.Errorf("store: the %s %q may have letters, digits, - and _ only", what, name)
		}
	}
	return nil
}
