package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// repeats is how long an id is remembered.
const repeats = 10 * time.Minute

// StreamOptions says what a stream holds and how much of it.
type StreamOptions struct {
	// Name of the stream: letters, digits, "-", "_".
	Name string
	// Version of the values written; those of a newer one are refused. Older
	// ones are read as JSON into T. 0: 1.
	Version int
	// MaxBytes and MaxAge bound what is kept; the oldest values go first.
	// 0: 64 MiB and for ever.
	MaxBytes int64
	MaxAge   time.Duration
	// Refuse makes a full stream refuse new values with a *FullError; no
	// value goes for want of room.
	Refuse bool
}

// Stream keeps values of type T in the order in which they were appended. Its
// methods may be called concurrently.
type Stream[T any] struct {
	s       *Store
	name    string
	version int
	config  jetstream.StreamConfig
	handle  handle[jetstream.Stream]
}

// Item is a value of a stream. Sequences begin with 1 and grow.
type Item[T any] struct {
	Sequence uint64
	Value    T
	Written  time.Time
}

// Bounds says what a stream holds. Without values First is Last+1.
type Bounds struct {
	Len, First, Last, Bytes uint64
}

// NewStream opens a stream and creates it if need be, as NewBucket does.
func NewStream[T any](s *Store, o StreamOptions) (*Stream[T], error) {
	if err := checkName("stream", o.Name); err != nil {
		return nil, err
	}
	if o.Name == "probe" {
		return nil, errors.New("store: the stream probe is the store's own")
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultBytes
	}
	st := &Stream[T]{s: s, name: o.Name, version: max(1, o.Version), config: jetstream.StreamConfig{
		Name:       s.o.Prefix + "_" + o.Name,
		Subjects:   []string{s.o.Prefix + "." + o.Name},
		MaxBytes:   o.MaxBytes,
		MaxAge:     o.MaxAge,
		Discard:    jetstream.DiscardOld,
		Duplicates: repeats,
		DenyDelete: true,
	}}
	if o.Refuse {
		st.config.Discard = jetstream.DiscardNew
	}
	if o.MaxAge > 0 {
		st.config.Duplicates = min(repeats, o.MaxAge)
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
	defer cancel()
	if _, err := st.stream(ctx); err != nil {
		err = s.failed("stream "+st.name, err, false)
		if _, is := errors.AsType[*UnavailableError](err); !is {
			return nil, err
		}
	}
	return st, nil
}

func (st *Stream[T]) stream(ctx context.Context) (jetstream.Stream, error) {
	return st.handle.get(ctx, st.s, func(ctx context.Context) (jetstream.Stream, error) {
		if err := st.s.ensure(ctx, st.config); err != nil {
			return nil, err
		}
		return st.s.js.Stream(ctx, st.config.Name)
	})
}

func (st *Stream[T]) where(sequence uint64) string {
	return fmt.Sprintf("stream %s: value %d", st.name, sequence)
}

// Append appends v and returns its sequence once it is on disk. With an id that
// was appended in the last ten minutes it appends nothing and returns the
// sequence of then: a write whose end is unknown is repeated with its id. An
// empty id is none.
func (st *Stream[T]) Append(ctx context.Context, id string, v T) (uint64, error) {
	data, err := encodeValue(st.version, v)
	if err != nil {
		return 0, err
	}
	opts := []jetstream.PublishOpt{jetstream.WithExpectStream(st.config.Name)}
	if id != "" {
		if id, err = encodeKey(id); err != nil {
			return 0, err
		}
		opts = append(opts, jetstream.WithMsgID(id))
	}
	var sequence uint64
	err = st.s.write(ctx, "stream "+st.name, func(ctx context.Context) error {
		if _, err := st.stream(ctx); err != nil {
			return err
		}
		ack, err := st.s.js.Publish(ctx, st.config.Subjects[0], data, opts...)
		if err != nil {
			if errors.Is(err, jetstream.ErrNoStreamResponse) {
				st.handle.forget()
			}
			return err
		}
		sequence = ack.Sequence
		return nil
	})
	return sequence, err
}

// Read returns at most limit values after the given sequence, oldest first, and
// fewer only if there are no more. With an error it returns those before it;
// that of a value which cannot be read names it, and whoever wants what follows
// reads on after that one.
func (st *Stream[T]) Read(ctx context.Context, after uint64, limit int) ([]Item[T], error) {
	var items []Item[T]
	err := st.s.read(ctx, "stream "+st.name, func(ctx context.Context) error {
		str, err := st.stream(ctx)
		if err != nil {
			return err
		}
		for len(items) < limit {
			m, err := str.GetMsg(ctx, after+1, jetstream.WithGetMsgSubject(st.config.Subjects[0]))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			i := Item[T]{Sequence: m.Sequence, Written: m.Time}
			if err := decodeValue(st.where(m.Sequence), m.Sequence, st.version, m.Data, &i.Value); err != nil {
				return err
			}
			items = append(items, i)
			after = m.Sequence
		}
		return nil
	})
	return items, err
}

// Last returns the last n values, oldest first, as Read does.
func (st *Stream[T]) Last(ctx context.Context, n int) ([]Item[T], error) {
	b, err := st.Bounds(ctx)
	if err != nil || n <= 0 || b.Len == 0 {
		return nil, err
	}
	after := b.First - 1
	if uint64(n) < b.Len {
		after = b.Last - uint64(n)
	}
	return st.Read(ctx, after, n)
}

// Bounds says what the stream holds.
func (st *Stream[T]) Bounds(ctx context.Context) (Bounds, error) {
	var b Bounds
	err := st.s.read(ctx, "stream "+st.name, func(ctx context.Context) error {
		str, err := st.stream(ctx)
		if err != nil {
			return err
		}
		info, err := str.Info(ctx)
		if err != nil {
			return err
		}
		b = Bounds{Len: info.State.Msgs, First: info.State.FirstSeq, Last: info.State.LastSeq, Bytes: info.State.Bytes}
		if b.Len == 0 {
			b.First = b.Last + 1
		}
		return nil
	})
	return b, err
}
