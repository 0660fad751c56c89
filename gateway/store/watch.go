package store

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Change is what Watch tells.
type Change[T any] struct {
	Entry[T]
	// Deleted says that the key has no value any more: deleted or expired.
	Deleted bool
	// Err is why the value cannot be read; Value is unset then.
	Err error
	// Ready is set in one call with nothing else: everything that the bucket
	// held has been told.
	Ready bool
}

// Watch calls f with every value of the bucket, once with Ready, and then with
// every change, until ctx or the store ends. Changes come in order, one at a
// time; of a key that changed twice while the connection was lost, or quicker
// than f returns, the last one may be told alone. It goes on after a lost
// connection by itself and tells then what changed meanwhile, deletions too.
//
// It returns ctx's error or ErrClosed.
func (b *Bucket[T]) Watch(ctx context.Context, f func(Change[T])) error {
	w := &watch[T]{b: b, f: f, known: map[string]uint64{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.s.ctx, cancel)()
	for {
		if err := w.follow(ctx); err != nil && ctx.Err() == nil {
			b.s.o.Log(fmt.Sprintf("store: bucket %s: watching: %v", b.name, b.s.cluster.redact(err)))
		}
		if b.s.ctx.Err() != nil {
			return ErrClosed
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b.s.pauseWatch(ctx)
	}
}

// pauseWatch waits for a new connection, or a while.
func (s *Store) pauseWatch(ctx context.Context) {
	s.mu.Lock()
	next := s.connected
	s.mu.Unlock()
	t := time.NewTimer(mendMin)
	defer t.Stop()
	select {
	case <-next:
	case <-t.C:
	case <-ctx.Done():
	}
}

// watch is a call of Watch.
type watch[T any] struct {
	b     *Bucket[T]
	f     func(Change[T])
	known map[string]uint64 // revisions of the keys that have a value
	ready bool
}

// follow watches over one connection, until it is lost.
func (w *watch[T]) follow(ctx context.Context) error {
	s := w.b.s
	s.mu.Lock()
	next := s.connected
	s.mu.Unlock()
	look, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	kv, err := w.b.kv(look)
	if err != nil {
		return err
	}
	updates, err := kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer drain(updates)
	initial := map[string]bool{}
	for {
		select {
		case e, open := <-updates.Updates():
			switch {
			case !open:
				return errWatchEnded
			case e == nil:
				w.settle(initial)
				initial = nil
			default:
				w.tell(e, initial)
			}
		case <-next:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// tell tells a change, unless it was told before.
func (w *watch[T]) tell(e jetstream.KeyValueEntry, initial map[string]bool) {
	key, ours := decodeKey(e.Key())
	if !ours {
		return
	}
	if e.Operation() != jetstream.KeyValuePut {
		if _, had := w.known[key]; had {
			delete(w.known, key)
			w.f(Change[T]{Entry: Entry[T]{Key: key, Revision: e.Revision(), Written: e.Created()}, Deleted: true})
		}
		return
	}
	if initial != nil {
		initial[key] = true
	}
	if w.known[key] == e.Revision() {
		return
	}
	w.known[key] = e.Revision()
	c := Change[T]{}
	if c.Entry, c.Err = w.b.entry(key, e); c.Err != nil {
		c.Entry = Entry[T]{Key: key, Revision: e.Revision(), Written: e.Created()}
	}
	w.f(c)
}

// settle tells that every value was told, the first time; later, which of the
// known keys are gone.
func (w *watch[T]) settle(initial map[string]bool) {
	for key, revision := range w.known {
		if !initial[key] {
			delete(w.known, key)
			w.f(Change[T]{Entry: Entry[T]{Key: key, Revision: revision}, Deleted: true})
		}
	}
	if !w.ready {
		w.ready = true
		w.f(Change[T]{Ready: true})
	}
}
