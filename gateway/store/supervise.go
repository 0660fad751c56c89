package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	mendMin = 100 * time.Millisecond
	mendMax = 3 * time.Second
	// settled is how long writes must have gone well before the next failure
	// is mended at once.
	settled = 30 * time.Second
)

// broke takes note that writes fail. Those under way end.
func (s *Store) broke(err error) {
	s.mu.Lock()
	s.trips++
	s.note(err)
	s.mu.Unlock()
	s.poke()
}

// note requires mu.
func (s *Store) note(err error) {
	if s.status.Err == nil {
		s.status.Since = time.Now()
	}
	s.status.Err = err
	s.unhealthy(err)
}

// well takes note that writes work, unless one failed after the given trips.
func (s *Store) well(trips uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trips != trips || s.ctx.Err() != nil {
		return false
	}
	s.status = Status{}
	s.unhealthy(nil)
	s.healthy, s.unhealthy = context.WithCancelCause(s.ctx)
	return true
}

// supervise mends the store whenever writes fail, and tells OnState.
func (s *Store) supervise() {
	told := ""
	tell := func() {
		err := s.Status().Err
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text == told {
			return
		}
		told = text
		if s.o.OnState != nil {
			s.o.OnState(err)
		}
	}
	var wait time.Duration
	var mended time.Time
	for {
		tell()
		if s.Status().Err == nil {
			select {
			case <-s.wake:
				continue
			case <-s.ctx.Done():
				return
			}
		}
		if !mended.IsZero() && time.Since(mended) > settled {
			wait = 0
		}
		if !s.pause(wait) {
			return
		}
		wait = min(max(mendMin, 2*wait), mendMax)
		if trips, err := s.mend(); err != nil {
			s.mu.Lock()
			s.note(err)
			s.mu.Unlock()
			mended = time.Time{}
		} else if s.well(trips) {
			mended = time.Now()
		}
	}
}

// pause waits d, or less if a connection comes. It reports false once the
// store closes.
func (s *Store) pause(d time.Duration) bool {
	s.mu.Lock()
	next := s.connected
	s.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-next:
	case <-s.ctx.Done():
	}
	return s.ctx.Err() == nil
}

// mend makes the store one that can be written, if that is possible now. It
// returns how many trips there were before it tried.
func (s *Store) mend() (uint64, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
	defer cancel()
	if s.server != nil {
		if err := probeDisk(s.o.Dir); err != nil {
			return 0, diskError(s.o.Dir, err)
		}
		// What failed once fails for the life of the server's streams.
		s.mu.Lock()
		before := s.generation
		s.mu.Unlock()
		s.server.stop()
		if err := s.server.start(); err != nil {
			return 0, fmt.Errorf("%s: %w", s.o.Dir, err)
		}
		if err := s.await(ctx, before); err != nil {
			return 0, fmt.Errorf("%s: the server in the process does not answer: %w", s.o.Dir, err)
		}
		if err := s.examine(ctx); err != nil {
			return 0, err
		}
	} else if !s.nc.IsConnected() {
		return 0, s.noConnection(s.refusal())
	}
	s.mu.Lock()
	trips := s.trips
	s.mu.Unlock()
	return trips, s.probe(ctx)
}

// probe writes to a stream of its own, which keeps the last write only.
func (s *Store) probe(ctx context.Context) error {
	where := s.o.Prefix + "_probe"
	c := jetstream.StreamConfig{
		Name: where, Subjects: []string{s.o.Prefix + ".probe"},
		MaxMsgs: 1, MaxBytes: 64 << 10, Discard: jetstream.DiscardOld,
	}
	if err := s.ensure(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", s.Place(), s.cluster.redact(err))
	}
	if _, err := s.js.Publish(ctx, c.Subjects[0], []byte("{}"), jetstream.WithExpectStream(where)); err != nil {
		return fmt.Errorf("%s does not write: %w", s.Place(), s.cluster.redact(err))
	}
	return nil
}

// ensure makes a stream exist as c says. It writes only if it has to.
func (s *Store) ensure(ctx context.Context, c jetstream.StreamConfig) error {
	c.Storage = jetstream.FileStorage
	st, err := s.js.Stream(ctx, c.Name)
	if err == nil {
		is := st.CachedInfo().Config
		c.Replicas = is.Replicas
		if is.MaxBytes == c.MaxBytes && is.MaxAge == c.MaxAge && is.Discard == c.Discard &&
			(c.MaxMsgsPerSubject == 0 || is.MaxMsgsPerSubject == c.MaxMsgsPerSubject) && slices.Equal(is.Subjects, c.Subjects) {
			return nil
		}
		_, err = s.js.UpdateStream(ctx, c)
		return err
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	if s.kind == NATS {
		// Three copies where the cluster has three servers.
		c.Replicas = 3
		_, err = s.js.CreateStream(ctx, c)
		if api, is := errors.AsType[*jetstream.APIError](err); err == nil || !is || api.ErrorCode != codeNoPeers && api.ErrorCode != codeNoReplicas {
			return err
		}
		c.Replicas = 1
	}
	_, err = s.js.CreateStream(ctx, c)
	return err
}

// Codes of the server that the client has no name for.
const (
	codeNoPeers     jetstream.ErrorCode = 10005
	codeNoReplicas  jetstream.ErrorCode = 10074
	codeStoreFailed jetstream.ErrorCode = 10077
	codeTooLarge    jetstream.ErrorCode = 10054
	codeNoReserve   jetstream.ErrorCode = 10047
)

// examine asks the server in the process for each stream that its directory
// holds: it leaves out those whose description it cannot read, and what was
// left out would look as if it had never been.
func (s *Store) examine(ctx context.Context) error {
	if !s.nc.IsConnected() {
		return nil // it could not be started: mend does this then
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	names, err := streamNames(s.o.Dir)
	for _, name := range names {
		if _, err = s.js.Stream(ctx, name); err != nil {
			break
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound) && probeDisk(s.o.Dir) == nil:
		return &DamagedError{Dir: s.o.Dir, Detail: streamPath(s.o.Dir, "") + " holds one that the server cannot read: the log names it"}
	default:
		return fmt.Errorf("%s: %w", s.o.Dir, err)
	}
}
