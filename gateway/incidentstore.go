package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"failback/gateway/incident"
	"failback/gateway/store"
)

// incidentStore keeps incidents in the store: one record each, which the gateways
// of the store write in turns.
type incidentStore struct {
	book    *incident.Book
	records *store.Bucket[incident.Record]
	// newest names the incident that gateways join; nil where there is one gateway.
	newest  *store.Bucket[newestIncident]
	alarm   func(string)
	loaded  atomic.Bool
	started time.Time
	woken   chan struct{}

	writing chan struct{} // holds one while a record is written
}

// newestIncident is the last that a gateway opened by itself.
type newestIncident struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

const (
	newestKey = "newest"
	// incidentWait is how long a gateway that cannot read the store waits before it
	// opens incidents all the same.
	incidentWait = 30 * time.Second
	// incidentRetry is between two tries of what could not be written.
	incidentRetry = 5 * time.Second
	// incidentTurns is how often a write is tried that other gateways were faster
	// with.
	incidentTurns = 16
	// pruneEvery is how often old incidents are dropped.
	pruneEvery = time.Hour
	// newestTime is how long one that was named and is not there may still come.
	newestTime = time.Minute
	// incidentBytes bounds all of them together.
	incidentBytes = 256 << 20
)

func newIncidentStore(s *store.Store, book *incident.Book, alarm func(string)) (*incidentStore, error) {
	k := &incidentStore{book: book, alarm: alarm, started: time.Now(), woken: make(chan struct{}, 1), writing: make(chan struct{}, 1)}
	var err error
	if k.records, err = store.NewBucket[incident.Record](s, store.BucketOptions{
		Name: "incidents", Version: incident.Version, MaxBytes: incidentBytes,
	}); err != nil {
		return nil, err
	}
	if s.Status().Kind == store.NATS {
		k.newest, err = store.NewBucket[newestIncident](s, store.BucketOptions{Name: "incident_newest"})
	}
	return k, err
}

// load reads all incidents. Those that cannot be read are part of the error, and
// stay where they are.
func (k *incidentStore) load(ctx context.Context) error {
	all, err := k.records.All(ctx)
	for id, e := range all {
		k.book.Learn(id, e.Value, e.Revision)
	}
	if _, down := errors.AsType[*store.UnavailableError](err); !down {
		k.loaded.Store(true)
	}
	return err
}

// ready reports whether it is known what is open, as far as it can be.
func (k *incidentStore) ready(now time.Time) bool {
	return k.loaded.Load() || now.Sub(k.started) >= incidentWait
}

// follow takes what other gateways write, until ctx ends.
func (k *incidentStore) follow(ctx context.Context) error {
	err := k.records.Watch(ctx, func(c store.Change[incident.Record]) {
		switch {
		case c.Ready:
			k.loaded.Store(true)
		case c.Err != nil:
			k.alarm(fmt.Sprintf("incident %s: %v", c.Key, c.Err))
		case c.Deleted:
			k.book.Gone(c.Key)
		default:
			k.book.Learn(c.Key, c.Value, c.Revision)
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// wake has what waits be written now.
func (k *incidentStore) wake() {
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

// keep writes what waits, and drops what is old, until ctx ends.
func (k *incidentStore) keep(ctx context.Context) error {
	var pruned, failed time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.woken:
		}
		now := time.Now()
		if now.Sub(failed) < incidentRetry {
			continue
		}
		err := k.writeAll(ctx)
		if err == nil && now.Sub(pruned) >= pruneEvery {
			pruned = now
			err = k.prune(ctx, now)
		}
		if err != nil && ctx.Err() == nil {
			failed = time.Now()
			k.alarm("incidents: " + err.Error())
		}
	}
}

// writeAll writes all that waits. One that cannot be written is none of the others'
// business, unless the store does not answer.
func (k *incidentStore) writeAll(ctx context.Context) error {
	var errs []error
	for _, id := range k.book.Pending() {
		err := k.write(ctx, id)
		errs = append(errs, err)
		if _, down := errors.AsType[*store.UnavailableError](err); down || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// write writes what waits of id. What another gateway wrote meanwhile is taken in
// first.
func (k *incidentStore) write(ctx context.Context, id string) error {
	select {
	case k.writing <- struct{}{}:
		defer func() { <-k.writing }()
	case <-ctx.Done():
		k.book.Failed(id)
		return fmt.Errorf("incident %s: %w", id, ctx.Err())
	}
	for range incidentTurns {
		w, ok := k.book.Work(id)
		if !ok {
			return nil
		}
		if w.Claim && k.newest != nil {
			if err := k.claim(ctx, w); err != nil {
				k.book.Failed(id)
				return err
			}
			continue
		}
		if w.Record.ID == "" {
			// It was dropped by another gateway: there is nothing to write it into.
			k.book.Forget(w.ID)
			return nil
		}
		revision, err := k.records.Update(ctx, w.ID, w.Record, w.Revision)
		if err == nil {
			k.book.Wrote(w, revision)
			return nil
		}
		if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
			var e store.Entry[incident.Record]
			if e, err = k.records.Get(ctx, w.ID); err == nil {
				k.book.Learn(w.ID, e.Value, e.Revision)
				continue
			}
			if errors.Is(err, store.ErrNotFound) {
				k.book.Gone(w.ID)
				continue
			}
		}
		k.book.Failed(id)
		return fmt.Errorf("incident %s: %w", id, err)
	}
	k.book.Failed(id)
	return fmt.Errorf("incident %s: other gateways were faster %d times", id, incidentTurns)
}

// claim agrees with the other gateways on the one incident that all of them write
// into: w, or one that another gateway was faster to open.
func (k *incidentStore) claim(ctx context.Context, w incident.Work) error {
	for range incidentTurns {
		var based uint64
		e, err := k.newest.Get(ctx, newestKey)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		default:
			based = e.Revision
			joined, err := k.join(ctx, w, e.Value)
			if joined || err != nil {
				return err
			}
		}
		_, err = k.newest.Update(ctx, newestKey, newestIncident{ID: w.ID, At: w.Record.OpenedAt}, based)
		if err == nil {
			k.book.Claimed(w.ID)
			return nil
		}
		if _, conflict := errors.AsType[*store.ConflictError](err); !conflict {
			return err
		}
	}
	return fmt.Errorf("incident %s: other gateways were faster %d times", w.ID, incidentTurns)
}

// join has w become the incident that n names, if that goes on.
func (k *incidentStore) join(ctx context.Context, w incident.Work, n newestIncident) (bool, error) {
	if n.ID == w.ID {
		k.book.Claimed(w.ID)
		return true, nil
	}
	e, err := k.records.Get(ctx, n.ID)
	switch {
	case err == nil:
		k.book.Learn(n.ID, e.Value, e.Revision)
		if !e.Value.Joins(w.Record.OpenedAt) {
			return false, nil
		}
	case !errors.Is(err, store.ErrNotFound):
		return false, err
	case w.Record.OpenedAt.Sub(n.At).Abs() > newestTime:
		return false, nil // whoever named it never wrote it
	}
	k.book.Move(w.ID, n.ID)
	return true, nil
}

// prune drops closed incidents that are not to be kept.
func (k *incidentStore) prune(ctx context.Context, now time.Time) error {
	for _, id := range incident.Stale(k.book.Records(), now) {
		// One that was opened again elsewhere stays.
		err := k.records.DeleteRevision(ctx, id, k.book.Revision(id))
		if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
			continue
		}
		if err != nil {
			return err
		}
		k.book.Forget(id)
	}
	return nil
}
