package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/decision"
	"failback/gateway/router"
	"failback/gateway/store"
)

const (
	// overrideWait bounds how long a command waits for its override to be written.
	overrideWait = 2 * time.Second
	// overrideRetry is how often what could not be written is tried again.
	overrideRetry = 5 * time.Second
)

// overrides keeps what operators put in force for a time, so that a restart
// does not end it and every gateway of the store has it. What the store does not
// take is in force here all the same, and is written when it does, unless
// another gateway wrote of the same meanwhile.
type overrides struct {
	bucket *store.Bucket[override]
	boot   string // of this process

	writing sync.Mutex // one write at a time, each of what is in force then

	// mu guards everything that follows.
	mu        sync.Mutex
	inForce   map[string]override // here, by key
	unwritten map[string]bool     // keys of which the store has something else
}

// override is one of them: of a breaker, or of everything.
type override struct {
	Action string    `json:"action"` // open, close or passthrough
	Order  []string  `json:"order,omitempty"`
	Until  time.Time `json:"until"`
	By     string    `json:"by"`
	Why    string    `json:"why,omitempty"`
	Boot   string    `json:"boot,omitempty"` // of the process that was commanded
}

// passthroughKey is no bucket: those have a colon.
const passthroughKey = "passthrough"

func newOverrides(s *store.Store) (*overrides, error) {
	b, err := store.NewBucket[override](s, store.BucketOptions{Name: "overrides"})
	if err != nil {
		return nil, err
	}
	return &overrides{bucket: b, boot: rand.Text(), inForce: map[string]override{}, unwritten: map[string]bool{}}, nil
}

// note records what is in force under key here, nil for nothing. It requires mu.
func (k *overrides) note(key string, o *override) {
	if o == nil {
		delete(k.inForce, key)
	} else {
		k.inForce[key] = *o
	}
}

// heard takes in what the store says of key, nil for nothing, and reports
// whether that is news. What this process wrote itself is none while a command
// to it waits to be written: that one came last.
func (k *overrides) heard(key string, o *override) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o != nil && o.Boot == k.boot && k.unwritten[key] {
		return false
	}
	delete(k.unwritten, key)
	was, had := k.inForce[key]
	k.note(key, o)
	if o == nil {
		return had
	}
	return !had || !was.Until.Equal(o.Until) || was.Action != o.Action || was.By != o.By || !slices.Equal(was.Order, o.Order)
}

// keep writes that o is in force under key; nil: nothing is any more. After an
// error that is in force all the same, and written later. A nil overrides keeps
// nothing.
func (k *overrides) keep(ctx context.Context, key string, o *override) error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	if o != nil {
		o.Boot = k.boot
	}
	k.note(key, o)
	k.unwritten[key] = true
	k.mu.Unlock()
	k.writing.Lock()
	defer k.writing.Unlock()
	return k.write(ctx, key, o)
}

// write writes o, which was in force under key when it was called. It requires
// writing.
func (k *overrides) write(ctx context.Context, key string, o *override) error {
	ctx, cancel := context.WithTimeout(ctx, overrideWait)
	defer cancel()
	var err error
	if o != nil && time.Until(o.Until) > 0 {
		_, err = k.bucket.Put(ctx, key, *o)
	} else {
		err = k.bucket.Delete(ctx, key)
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// Else another command came meanwhile, and writes its own.
	if now, is := k.inForce[key]; is == (o != nil) && (!is || now.Until.Equal(o.Until)) {
		delete(k.unwritten, key)
	}
	return nil
}

// waiting are the keys that are to be written.
func (k *overrides) waiting() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.unwritten))
}

// written are the keys of what is in force here and was written.
func (k *overrides) written() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var keys []string
	for key := range k.inForce {
		if !k.unwritten[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// unsynced reports whether what is in force under key is not written yet. Of a
// nil overrides everything is as it should be.
func (k *overrides) unsynced(key string) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unwritten[key]
}

// rewrite writes what the store did not take, over and over until ctx ends, and
// then once more. That the store cannot be written is its own status.
func (k *overrides) rewrite(ctx context.Context) error {
	tick := time.NewTicker(overrideRetry)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		for _, key := range k.waiting() {
			k.writeAgain(context.WithoutCancel(ctx), key)
		}
	}
	return nil
}

func (k *overrides) writeAgain(ctx context.Context, key string) {
	k.writing.Lock()
	defer k.writing.Unlock()
	k.mu.Lock()
	waits := k.unwritten[key]
	var o *override
	if v, is := k.inForce[key]; is {
		o = &v
	}
	k.mu.Unlock()
	if waits {
		_ = k.write(ctx, key, o)
	}
}

// restoreOverrides puts in force again what has not ended.
func (g *Gateway) restoreOverrides(ctx context.Context) {
	if g.overrides == nil {
		return
	}
	all, err := g.overrides.bucket.All(ctx)
	if err != nil {
		g.alarm("overrides: " + err.Error())
	}
	for key, e := range all {
		o := e.Value
		if time.Until(o.Until) <= 0 {
			// Unless another gateway has put another one there since.
			err := g.overrides.bucket.DeleteRevision(ctx, key, e.Revision)
			if _, other := errors.AsType[*store.ConflictError](err); err != nil && !other {
				g.alarm(fmt.Sprintf("override of %s: %v", key, err))
			}
			continue
		}
		g.override(key, &o)
	}
}

// followOverrides puts in force here what operators do at other gateways of the
// store, until ctx ends.
func (g *Gateway) followOverrides(ctx context.Context) error {
	there := map[string]bool{} // nil once everything that there is was told
	err := g.overrides.bucket.Watch(ctx, func(c store.Change[override]) {
		if there != nil && !c.Ready {
			there[c.Key] = true
		}
		switch {
		case c.Ready:
			g.endedBefore(ctx, there)
			there = nil
		case c.Err != nil:
			g.alarm(fmt.Sprintf("override of %s: %v", c.Key, c.Err))
		case c.Deleted:
			g.override(c.Key, nil)
		case time.Until(c.Value.Until) > 0:
			g.override(c.Key, &c.Value)
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// endedBefore ends what is in force here and no longer in the store, which holds
// the keys that are there: another gateway ended it before this one listened.
func (g *Gateway) endedBefore(ctx context.Context, there map[string]bool) {
	for _, key := range g.overrides.written() {
		if there[key] {
			continue
		}
		// It may have been written since; then it is told next.
		if _, err := g.overrides.bucket.Get(ctx, key); errors.Is(err, store.ErrNotFound) {
			g.override(key, nil)
		}
	}
}

// override puts o in force under key, nil for nothing, unless it is already.
func (g *Gateway) override(key string, o *override) {
	if !g.overrides.heard(key, o) {
		return
	}
	if key == passthroughKey {
		g.passthroughFrom(o)
		return
	}
	b, ok := decision.ParseBucket(key)
	action, by, left := breaker.ActionAuto, decision.Auto, time.Duration(0)
	if o != nil {
		action, by, left = o.Action, o.By, time.Until(o.Until)
	}
	err := errors.New("it is of no bucket")
	if ok {
		err = g.force(b, action, left, by)
	}
	if err != nil {
		g.alarm(fmt.Sprintf("override of %s: %v", key, err))
	}
}

// force forces a breaker at this gateway, whoever was commanded: see
// breaker.Set.Force. One that is forced closed is to be asked at once, so what
// cools of its upstream cools no longer.
func (g *Gateway) force(b decision.Bucket, action string, lasts time.Duration, by string) error {
	if err := g.breakers.Force(b, action, lasts, by); err != nil {
		return err
	}
	if action != breaker.ActionClose {
		return nil
	}
	g.book.Clear(b.Upstream)
	if u := g.setup.Load().upstreams[b.Upstream]; u != nil {
		u.Client.ClearModels()
	}
	return nil
}

// passthroughFrom begins or ends a passthrough that was not commanded here.
func (g *Gateway) passthroughFrom(o *override) {
	if o == nil {
		if g.router.Passthrough() != nil {
			g.router.SetPassthrough(nil)
			g.event(decision.Event{Kind: decision.KindPassthrough, From: "on", To: "off", By: decision.Auto, Detail: "ended at another gateway"})
		}
		return
	}
	g.passthrough(&router.Passthrough{Order: o.Order, Until: o.Until, By: o.By, Why: o.Why})
	g.event(decision.Event{
		Kind: decision.KindPassthrough, From: "off", To: "on", By: o.By, Why: o.Why,
		Detail: fmt.Sprintf("order %v, as it was commanded before or at another gateway", o.Order),
	})
}

// keepOverride writes an override down. That it is in force does not hang on
// it: message says so if it is not written yet.
func (g *Gateway) keepOverride(ctx context.Context, key string, o *override, message string) string {
	err := g.overrides.keep(ctx, key, o)
	if err == nil {
		return message
	}
	g.alarm(fmt.Sprintf("override of %s: %v", key, err))
	message += "; UNSYNCED: in force here, not yet written down, a restart before that would lose it"
	if g.startedWith.Store != nil {
		message += ", and the other gateways learn of it when the store answers"
	}
	return message
}
