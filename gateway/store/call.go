package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// suspicious is how long a write waits for its answer before the store itself
// is suspected; a caller who waits less says nothing about it.
const suspicious = time.Second

// read does a call that changes nothing.
func (s *Store) read(ctx context.Context, where string, f func(context.Context) error) error {
	ctx, cancel := s.bound(ctx, s.ctx)
	defer cancel()
	return s.failed(where, f(ctx), false)
}

// write does a call that changes something. While writes fail it fails at once.
func (s *Store) write(ctx context.Context, where string, f func(context.Context) error) error {
	s.mu.Lock()
	healthy, bad := s.healthy, s.status.Err
	s.mu.Unlock()
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	if bad != nil {
		return &UnavailableError{Where: where, Err: bad}
	}
	began := time.Now()
	c, cancel := s.bound(ctx, healthy)
	defer cancel()
	err := f(c)
	if err == nil {
		return nil
	}
	if cause := context.Cause(healthy); cause != nil && s.ctx.Err() == nil && c.Err() != nil {
		return &UnavailableError{Where: where, Unknown: true, Err: cause}
	}
	err = s.failed(where, err, true)
	if u, is := errors.AsType[*UnavailableError](err); is && (!u.Unknown || time.Since(began) >= suspicious) && !errors.Is(ctx.Err(), context.Canceled) {
		s.broke(u.Err)
	}
	return err
}

// bound returns a context that ends with ctx, with end, or after the timeout.
func (s *Store) bound(ctx, end context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	stop := context.AfterFunc(end, cancel)
	return ctx, func() { stop(); cancel() }
}

// failed turns an error of the library into one of this package.
func (s *Store) failed(where string, err error, write bool) error {
	if err == nil {
		return nil
	}
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	switch err.(type) {
	case *DecodeError, *VersionError:
		return err
	}
	err = s.cluster.redact(err)
	for _, away := range []error{nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting, nats.ErrDisconnected} {
		if errors.Is(err, away) {
			return &UnavailableError{Where: where, Err: s.unconnected()}
		}
	}
	for _, never := range []error{
		nats.ErrNoResponders,
		jetstream.ErrNoStreamResponse, jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount,
	} {
		if errors.Is(err, never) {
			return &UnavailableError{Where: where, Err: err}
		}
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		return &FullError{Where: where, Err: errors.New("the value is larger than a value may be")}
	}
	if api, is := errors.AsType[*jetstream.APIError](err); is {
		switch {
		case api.ErrorCode == codeStoreFailed || api.ErrorCode == codeTooLarge || api.ErrorCode == codeNoReserve:
			return &FullError{Where: where, Err: err}
		case api.Code >= 500:
			return &UnavailableError{Where: where, Err: err}
		}
		return fmt.Errorf("store: %s: %w", where, err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer in time: %w", err)
	}
	return &UnavailableError{Where: where, Unknown: write, Err: err}
}
