package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"failback/gateway/operator"
	"failback/gateway/operator/api"
	"failback/gateway/store"
	"failback/gateway/traffic"
)

const (
	sharesBucket = "shares"
	auditStream  = "audit"
	// auditBytes is how much of the audit is kept; the oldest entries go then.
	auditBytes = 1 << 30
)

// shareStorage keeps the share table in a bucket, a record per upstream. What
// another gateway wrote is never overwritten unseen: it goes to merge first.
type shareStorage struct {
	bucket *store.Bucket[traffic.Record]
	// merge is given the records of other gateways, from Save too. Set before
	// the table uses the storage for the first time.
	merge func(map[string]traffic.Record)

	// mu guards everything that follows.
	mu    sync.Mutex
	known map[string]knownRecord
}

// knownRecord is what the bucket holds of an upstream, as far as is known here.
type knownRecord struct {
	revision uint64 // of the bucket; 0: no record
	// sent is what was written last from here; the write may have failed.
	sent []byte
}

var _ traffic.Storage = (*shareStorage)(nil)

// newShareStorage opens the bucket. The table that uses the storage is to
// Merge what it hands over: see follow.
func newShareStorage(s *store.Store) (*shareStorage, error) {
	b, err := store.NewBucket[traffic.Record](s, store.BucketOptions{Name: sharesBucket, Version: traffic.RecordVersion, History: 8})
	if err != nil {
		return nil, err
	}
	return &shareStorage{bucket: b, merge: func(map[string]traffic.Record) {}, known: map[string]knownRecord{}}, nil
}

// Load returns all records.
func (s *shareStorage) Load(ctx context.Context) (map[string]traffic.Record, error) {
	all, err := s.bucket.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("share table: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	records := make(map[string]traffic.Record, len(all))
	for name, e := range all {
		records[name] = e.Value
		s.known[name] = knownRecord{revision: e.Revision}
	}
	return records, nil
}

// Save writes records one by one. One that another gateway changed meanwhile is
// not written: its record goes to merge, and the error says so.
func (s *shareStorage) Save(ctx context.Context, records map[string]traffic.Record) error {
	var failed []error
	theirs := map[string]traffic.Record{}
	for _, name := range slices.Sorted(maps.Keys(records)) {
		other, err := s.save(ctx, name, records[name])
		if other != nil {
			theirs[name] = *other
		}
		if err != nil {
			failed = append(failed, err)
			if _, is := errors.AsType[*store.UnavailableError](err); is {
				break // the others would fail as well, each after its time
			}
		}
	}
	if len(theirs) > 0 {
		s.merge(theirs)
	}
	return errors.Join(failed...)
}

// save writes the record of name, based on the newest that is known here. If
// there is a newer one of another gateway, it returns that and an error.
func (s *shareStorage) save(ctx context.Context, name string, r traffic.Record) (other *traffic.Record, err error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	for {
		s.mu.Lock()
		k := s.known[name]
		before := k.sent
		k.sent = data
		s.known[name] = k
		s.mu.Unlock()

		revision, err := s.write(ctx, name, r, k.revision)
		if err == nil {
			s.learn(name, revision)
			return nil, nil
		}
		if _, is := errors.AsType[*store.ConflictError](err); !is {
			return nil, err
		}
		there, err := s.bucket.Get(ctx, name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			s.learn(name, 0)
			continue
		case err != nil:
			return nil, err
		}
		if there.Revision == k.revision {
			return nil, fmt.Errorf("share table: upstream %q: the store refuses revision %d, which it has", name, k.revision)
		}
		s.learn(name, there.Revision)
		now, err := json.Marshal(there.Value)
		if err != nil {
			return nil, err
		}
		if string(now) == string(data) {
			return nil, nil
		}
		if string(now) == string(before) {
			continue // a write from here whose end was unknown
		}
		return &there.Value, fmt.Errorf("share table: another gateway changed upstream %q: its change is taken in first", name)
	}
}

// write writes or, if it is as good as none, removes a record.
func (s *shareStorage) write(ctx context.Context, name string, r traffic.Record, based uint64) (uint64, error) {
	if r.Gone(time.Now()) {
		if based == 0 {
			return 0, nil
		}
		return 0, s.bucket.DeleteRevision(ctx, name, based)
	}
	return s.bucket.Update(ctx, name, r, based)
}

func (s *shareStorage) learn(name string, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[name]
	k.revision = revision
	s.known[name] = k
}

// follow gives merge what other gateways write, until ctx or the store ends.
// With a record that cannot be read it goes on: the gateway keeps its own, and
// unreadable is told why.
func (s *shareStorage) follow(ctx context.Context, unreadable func(error)) error {
	return s.bucket.Watch(ctx, func(c store.Change[traffic.Record]) {
		switch {
		case c.Ready || c.Deleted:
		case c.Err != nil:
			unreadable(c.Err)
		case s.foreign(c):
			s.merge(map[string]traffic.Record{c.Key: c.Value})
			// Not before: what is based on this revision overwrites it.
			s.mu.Lock()
			k := s.known[c.Key]
			k.revision = max(k.revision, c.Revision)
			s.known[c.Key] = k
			s.mu.Unlock()
		}
	})
}

// foreign reports whether c is news, and not written from here.
func (s *shareStorage) foreign(c store.Change[traffic.Record]) bool {
	data, err := json.Marshal(c.Value)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[c.Key]
	return c.Revision > k.revision && (err != nil || string(data) != string(k.sent))
}

// importShares puts the records of the share table's file at path into the
// storage, in the place of older ones, and renames the file, which stays.
// Without a file it does nothing.
func importShares(ctx context.Context, path string, s *shareStorage) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	records, err := traffic.NewFile(path).Load(ctx)
	if err != nil {
		return err
	}
	there, err := s.Load(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(records, func(name string, r traffic.Record) bool {
		have, is := there[name]
		return is && !newer(r, have)
	})
	if err := s.Save(ctx, records); err != nil {
		return fmt.Errorf("importing %s: %w", path, err)
	}
	if err := os.Rename(path, path+".imported"); err != nil {
		return fmt.Errorf("importing %s: %w", path, err)
	}
	return nil
}

// newer reports whether a was changed after b.
func newer(a, b traffic.Record) bool {
	last := func(r traffic.Record) time.Time {
		if r.StateSince.After(r.Since) {
			return r.StateSince
		}
		return r.Since
	}
	return last(a).After(last(b))
}

// storedAudit keeps the operator's audit in a stream.
type storedAudit struct {
	stream *store.Stream[api.AuditEntry]
	kind   store.Kind
	// told is the sequence of the last entry that news told of; only news uses it.
	told uint64
}

var _ operator.AuditStore = (*storedAudit)(nil)

func newStoredAudit(s *store.Store) (*storedAudit, error) {
	st, err := store.NewStream[api.AuditEntry](s, store.StreamOptions{Name: auditStream, MaxBytes: auditBytes})
	if err != nil {
		return nil, err
	}
	return &storedAudit{stream: st, kind: s.Status().Kind}, nil
}

// news returns what was appended since the last call, by any gateway, oldest
// first and not more than auditBatch entries; the first call begins with a few
// that were there before. What cannot be read is left out.
func (a *storedAudit) news(ctx context.Context) ([]api.AuditEntry, error) {
	if a.told == 0 {
		b, err := a.stream.Bounds(ctx)
		if err != nil || b.Last == 0 {
			return nil, err
		}
		a.told = b.Last - min(b.Last, auditAgain)
	}
	items, err := a.stream.Read(ctx, a.told, auditBatch)
	var entries []api.AuditEntry
	for _, item := range items {
		entries = append(entries, item.Value)
		a.told = item.Sequence
	}
	if bad := unreadableAt(err); bad != 0 {
		a.told = bad
		return entries, nil
	}
	return entries, err
}

// Recent returns the newest entries. In the place of one that cannot be read
// stands one that says so.
func (a *storedAudit) Recent(ctx context.Context, n int) ([]api.AuditEntry, error) {
	items, err := a.stream.Last(ctx, n)
	var entries []api.AuditEntry
	for {
		for _, item := range items {
			entries = append(entries, item.Value)
		}
		sequence := unreadableAt(err)
		if sequence == 0 {
			return entries, err
		}
		entries = append(entries, api.AuditEntry{
			ID: strconv.FormatUint(sequence, 10), Phase: api.PhaseMended, Message: err.Error(),
		})
		items, err = a.stream.Read(ctx, sequence, n-len(entries))
	}
}

// unreadableAt returns the sequence of the value that err is about, 0 if it is
// about something else.
func unreadableAt(err error) uint64 {
	if e, is := errors.AsType[*store.VersionError](err); is {
		return e.Sequence
	}
	if e, is := errors.AsType[*store.DecodeError](err); is {
		return e.Sequence
	}
	return 0
}

// Append appends e; an entry that is there already is not appended again.
func (a *storedAudit) Append(ctx context.Context, e api.AuditEntry) error {
	_, err := a.stream.Append(ctx, operator.AuditID(e), e)
	return err
}

// Shared reports whether other gateways may append, too.
func (a *storedAudit) Shared() bool { return a.kind == store.NATS }

func (a *storedAudit) String() string { return "audit in the store" }
