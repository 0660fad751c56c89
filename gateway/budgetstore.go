package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"failback/gateway/budget"
	"failback/gateway/store"
)

// budgetStore keeps error budgets: one record for each objective, and of each
// gateway its own. No gateway writes another's.
type budgetStore struct {
	bucket  *store.Bucket[keptBudget]
	gateway string // whose records this one's are
	shared  bool   // others may write theirs
	boot    string // this process

	// mu guards everything that follows; it is held while the store is asked, so
	// that one writing follows the other.
	mu        sync.Mutex
	loaded    bool
	wrote     bool
	revisions map[budget.Key]uint64
	sums      map[budget.Key][sha256.Size]byte // of what was written last
}

// keptBudget is a record of one objective.
type keptBudget struct {
	Boot   string        `json:"boot"` // the process that wrote it
	Record budget.Record `json:"record"`
}

const (
	// budgetsBytes bounds all records together, and is enough for a thousand
	// objectives of the longest window.
	budgetsBytes = 256 << 20
	// budgetsTTL is how long a record is of use that nobody writes any more.
	budgetsTTL = budget.MaxWindow + 48*time.Hour
)

// newBudgetStore opens the bucket. gateway tells this one apart from others of
// the store, also when it starts anew; empty: there are no others.
func newBudgetStore(s *store.Store, gateway string) (*budgetStore, error) {
	b := &budgetStore{gateway: gateway, shared: gateway != "", boot: rand.Text(), revisions: map[budget.Key]uint64{}, sums: map[budget.Key][sha256.Size]byte{}}
	var err error
	b.bucket, err = store.NewBucket[keptBudget](s, store.BucketOptions{Name: "budgets", MaxBytes: budgetsBytes, TTL: budgetsTTL})
	return b, err
}

// key is where the record of an objective is. No name has a NUL.
func (b *budgetStore) key(k budget.Key) string {
	return b.gateway + "\x00" + k.Model + "\x00" + k.Objective
}

// load gives set what the store has. With an error it is not everything: what
// cannot be read begins anew, and a store that does not answer is asked again
// before the first writing.
func (b *budgetStore) load(ctx context.Context, set *budget.Set, now budget.Instant) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read(ctx, set, now)
}

func (b *budgetStore) read(ctx context.Context, set *budget.Set, now budget.Instant) error {
	all, err := b.bucket.All(ctx)
	if _, is := errors.AsType[*store.UnavailableError](err); is {
		return err
	}
	var own, others []budget.Record
	for key, e := range all {
		switch r := e.Value.Record; {
		case r.Gateway != b.gateway:
			others = append(others, r)
		case key == b.key(r.Key()):
			own = append(own, r)
			if !b.wrote {
				b.revisions[r.Key()] = e.Revision
			}
		}
	}
	if !b.wrote { // afterwards the set knows better
		set.Restore(own, now.Up)
		b.loaded = true
	}
	set.Others(others)
	return err
}

// turn writes the records of set and reads those of others.
func (b *budgetStore) turn(ctx context.Context, set *budget.Set, now budget.Instant) error {
	err := b.save(ctx, set, now)
	if !b.shared {
		return err
	}
	return errors.Join(err, b.load(ctx, set, now))
}

// save writes the records of set.
func (b *budgetStore) save(ctx context.Context, set *budget.Set, now budget.Instant) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.loaded {
		// What it cannot read it must not overwrite.
		if err := b.read(ctx, set, now); !b.loaded {
			return err
		}
	}
	var errs []error
	for _, r := range set.Records(b.gateway, now) {
		err := b.write(ctx, r)
		if errors.Is(err, errAnotherBoot) && !b.wrote {
			// An earlier process's last writing came after we had read it.
			if err = b.read(ctx, set, now); err == nil {
				err = b.writeNewest(ctx, set, r.Key(), now)
			}
		}
		errs = append(errs, err)
		if err == nil {
			b.wrote = true
		}
		if _, is := errors.AsType[*store.UnavailableError](err); is {
			break // the others would fail as well, each after its time
		}
	}
	return errors.Join(errs...)
}

func (b *budgetStore) writeNewest(ctx context.Context, set *budget.Set, k budget.Key, now budget.Instant) error {
	for _, r := range set.Records(b.gateway, now) {
		if r.Key() == k {
			return b.write(ctx, r)
		}
	}
	return nil
}

var errAnotherBoot = errors.New("another process wrote it")

// write writes one record, unless another process did since ours, or nothing
// changed.
func (b *budgetStore) write(ctx context.Context, r budget.Record) error {
	k := r.Key()
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	if b.sums[k] == sum {
		return nil
	}
	for range 2 {
		revision, err := b.bucket.Update(ctx, b.key(k), keptBudget{b.boot, r}, b.revisions[k])
		if err == nil {
			b.revisions[k], b.sums[k] = revision, sum
			return nil
		}
		if _, is := errors.AsType[*store.ConflictError](err); !is {
			return err
		}
		there, err := b.bucket.Get(ctx, b.key(k))
		switch {
		case errors.Is(err, store.ErrNotFound):
			b.revisions[k] = 0
		case err != nil:
			return err
		case there.Value.Boot != b.boot:
			return fmt.Errorf("error budget of %s, %s: %w: give each gateway of the store an instance name of its own", k.Model, k.Objective, errAnotherBoot)
		default: // ours, of whose end we were not told
			b.revisions[k] = there.Revision
		}
	}
	return fmt.Errorf("error budget of %s, %s: the store refuses revision %d, which it has", k.Model, k.Objective, b.revisions[k])
}
