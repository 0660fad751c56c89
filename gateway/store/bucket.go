package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	defaultBytes = 64 << 20
	// markers is how long a deleted key leaves a trace for those who watch.
	markers = time.Hour
)

// BucketOptions says what a bucket holds and how much of it.
type BucketOptions struct {
	// Name of the bucket: letters, digits, "-", "_".
	Name string
	// Version of the values written; those of a newer one are refused. Older
	// ones are read as JSON into T. 0: 1.
	Version int
	// MaxBytes of all values together; a write beyond it is a *FullError.
	// 0: 64 MiB.
	MaxBytes int64
	// TTL is how long a value is kept. 0: for ever.
	TTL time.Duration
	// History is how many values of a key are kept, at most 64; the older
	// ones are for people. 0: 1.
	History int
}

// Bucket keeps one value of type T per key. Its methods may be called
// concurrently.
type Bucket[T any] struct {
	s       *Store
	name    string
	version int
	config  jetstream.StreamConfig
	handle  handle[jetstream.KeyValue]
}

// Entry is a value of a bucket. Revisions grow with every write to the bucket.
type Entry[T any] struct {
	Key      string
	Value    T
	Revision uint64
	Written  time.Time
}

// handle is something of the server's, looked up once per generation. Nobody
// waits for another's look: each has its own end.
type handle[H any] struct {
	// mu guards everything that follows.
	mu         sync.Mutex
	known      bool
	generation uint64
	h          H
}

func (h *handle[H]) get(ctx context.Context, s *Store, look func(context.Context) (H, error)) (H, error) {
	s.mu.Lock()
	g := s.generation
	s.mu.Unlock()
	h.mu.Lock()
	found, known := h.h, h.known && h.generation == g
	h.mu.Unlock()
	if known {
		return found, nil
	}
	found, err := look(ctx)
	if err == nil {
		h.mu.Lock()
		h.h, h.generation, h.known = found, g, true
		h.mu.Unlock()
	}
	return found, err
}

func (h *handle[H]) forget() {
	h.mu.Lock()
	h.known = false
	h.mu.Unlock()
}

// NewBucket opens a bucket and creates it if need be. If the store does not
// answer, that is done with the first call that reaches it: the error is about
// the options alone, or about a store that refuses them.
func NewBucket[T any](s *Store, o BucketOptions) (*Bucket[T], error) {
	if err := checkName("bucket", o.Name); err != nil {
		return nil, err
	}
	if o.History < 0 || o.History > jetstream.KeyValueMaxHistory {
		return nil, fmt.Errorf("store: bucket %s: history %d is not 0 to %d", o.Name, o.History, jetstream.KeyValueMaxHistory)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultBytes
	}
	name := s.o.Prefix + "_" + o.Name
	b := &Bucket[T]{s: s, name: o.Name, version: max(1, o.Version), config: jetstream.StreamConfig{
		Name:              "KV_" + name,
		Subjects:          []string{"$KV." + name + ".>"},
		MaxMsgsPerSubject: int64(max(1, o.History)),
		MaxBytes:          o.MaxBytes,
		MaxAge:            o.TTL,
		Discard:           jetstream.DiscardNew,
		DenyDelete:        true,
		AllowRollup:       true,
		AllowMsgTTL:       true,
		// AllowDirect is off: any copy would answer then, and a value just
		// written might not be found.
	}}
	if o.TTL > 0 { // whoever watches is told what expired
		b.config.SubjectDeleteMarkerTTL = min(markers, max(o.TTL, time.Second))
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
	defer cancel()
	if _, err := b.kv(ctx); err != nil {
		err = s.failed("bucket "+b.name, err, false)
		if _, is := errors.AsType[*UnavailableError](err); !is {
			return nil, err
		}
	}
	return b, nil
}

func (b *Bucket[T]) kv(ctx context.Context) (jetstream.KeyValue, error) {
	return b.handle.get(ctx, b.s, func(ctx context.Context) (jetstream.KeyValue, error) {
		if err := b.s.ensure(ctx, b.config); err != nil {
			return nil, err
		}
		return b.s.js.KeyValue(ctx, b.s.o.Prefix+"_"+b.name)
	})
}

func (b *Bucket[T]) where(key string) string { return fmt.Sprintf("bucket %s: key %q", b.name, key) }

// Get returns the value of key, or ErrNotFound.
func (b *Bucket[T]) Get(ctx context.Context, key string) (Entry[T], error) {
	token, err := encodeKey(key)
	if err != nil {
		return Entry[T]{}, err
	}
	var found jetstream.KeyValueEntry
	err = b.s.read(ctx, b.where(key), func(ctx context.Context) error {
		kv, err := b.kv(ctx)
		if err != nil {
			return err
		}
		found, err = kv.Get(ctx, token)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			found, err = nil, nil
		}
		return err
	})
	if err != nil {
		return Entry[T]{}, err
	}
	if found == nil {
		return Entry[T]{}, ErrNotFound
	}
	return b.entry(key, found)
}

func (b *Bucket[T]) entry(key string, found jetstream.KeyValueEntry) (Entry[T], error) {
	e := Entry[T]{Key: key, Revision: found.Revision(), Written: found.Created()}
	if err := decodeValue(b.where(key), e.Revision, b.version, found.Value(), &e.Value); err != nil {
		return Entry[T]{}, err
	}
	return e, nil
}

// Put writes the value of key, whatever it was, and returns its revision.
func (b *Bucket[T]) Put(ctx context.Context, key string, v T) (uint64, error) {
	return b.put(ctx, key, v, 0, func(ctx context.Context, kv jetstream.KeyValue, token string, data []byte) (uint64, error) {
		return kv.Put(ctx, token, data)
	})
}

// Create writes the value of a key that has none, else it returns a
// *ConflictError.
func (b *Bucket[T]) Create(ctx context.Context, key string, v T) (uint64, error) {
	return b.put(ctx, key, v, 0, func(ctx context.Context, kv jetstream.KeyValue, token string, data []byte) (uint64, error) {
		return kv.Create(ctx, token, data)
	})
}

// Update writes the value of a key that has the given revision, else it
// returns a *ConflictError. Revision 0 is that of a key without a value.
func (b *Bucket[T]) Update(ctx context.Context, key string, v T, revision uint64) (uint64, error) {
	if revision == 0 {
		return b.Create(ctx, key, v)
	}
	return b.put(ctx, key, v, revision, func(ctx context.Context, kv jetstream.KeyValue, token string, data []byte) (uint64, error) {
		return kv.Update(ctx, token, data, revision)
	})
}

func (b *Bucket[T]) put(ctx context.Context, key string, v T, based uint64,
	f func(context.Context, jetstream.KeyValue, string, []byte) (uint64, error)) (uint64, error) {
	token, err := encodeKey(key)
	if err != nil {
		return 0, err
	}
	data, err := encodeValue(b.version, v)
	if err != nil {
		return 0, err
	}
	var revision uint64
	err = b.change(ctx, key, based, func(ctx context.Context, kv jetstream.KeyValue) (err error) {
		revision, err = f(ctx, kv, token, data)
		return err
	})
	return revision, err
}

// change does f, which a conflict with revision based may refuse.
func (b *Bucket[T]) change(ctx context.Context, key string, based uint64, f func(context.Context, jetstream.KeyValue) error) error {
	conflict := false
	err := b.s.write(ctx, b.where(key), func(ctx context.Context) error {
		kv, err := b.kv(ctx)
		if err != nil {
			return err
		}
		if err = f(ctx, kv); errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			conflict = true
			return nil
		}
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			b.handle.forget()
		}
		return err
	})
	if conflict {
		return &ConflictError{Bucket: b.name, Key: key, Revision: based}
	}
	return err
}

// Delete removes key and its history. A key that is not there is no error.
func (b *Bucket[T]) Delete(ctx context.Context, key string) error {
	return b.remove(ctx, key, 0, jetstream.PurgeTTL(markers))
}

// DeleteRevision removes key if it has the given revision, else it returns a
// *ConflictError.
func (b *Bucket[T]) DeleteRevision(ctx context.Context, key string, revision uint64) error {
	return b.remove(ctx, key, revision, jetstream.PurgeTTL(markers), jetstream.LastRevision(revision))
}

func (b *Bucket[T]) remove(ctx context.Context, key string, revision uint64, opts ...jetstream.KVDeleteOpt) error {
	token, err := encodeKey(key)
	if err != nil {
		return err
	}
	return b.change(ctx, key, revision, func(ctx context.Context, kv jetstream.KeyValue) error {
		return kv.Purge(ctx, token, opts...)
	})
}

// All returns every value by its key. Values that cannot be read are left out
// and joined into the error: with an error the map is not everything.
func (b *Bucket[T]) All(ctx context.Context) (map[string]Entry[T], error) {
	all := map[string]Entry[T]{}
	var bad []error
	err := b.s.read(ctx, "bucket "+b.name, func(ctx context.Context) error {
		kv, err := b.kv(ctx)
		if err != nil {
			return err
		}
		w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
		if err != nil {
			return err
		}
		defer drain(w)
		for {
			select {
			case e, open := <-w.Updates():
				if !open {
					return errWatchEnded
				}
				if e == nil {
					return nil
				}
				key, ours := decodeKey(e.Key())
				if !ours {
					continue
				}
				entry, err := b.entry(key, e)
				if err != nil {
					bad = append(bad, err)
					continue
				}
				all[key] = entry
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return all, errors.Join(append(bad, err)...)
}

var errWatchEnded = errors.New("the connection was lost")

// drain stops w and waits until nothing is delivered to it any more. The
// library delivers without asking whether anybody takes it.
func drain(w jetstream.KeyWatcher) {
	_ = w.Stop()
	for range w.Updates() {
	}
}
