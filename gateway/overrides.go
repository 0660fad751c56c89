package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/decision"
	"failback/gateway/router"
	"failback/gateway/store"
)

// overrides keeps what operators put in force for a time, so that a restart
// does not end it and every gateway of the store has it.
type overrides struct {
	bucket *store.Bucket[override]

	mu      sync.Mutex          // guards everything that follows
	inForce map[string]override // here, by key
}

// override is one of them: of a breaker, or of everything.
type override struct {
	Action string    `json:"action"` // open, close or passthrough
	Order  []string  `json:"order,omitempty"`
	Until  time.Time `json:"until"`
	By     string    `json:"by"`
	Why    string    `json:"why,omitempty"`
}

// passthroughKey is no bucket: those have a colon.
const passthroughKey = "passthrough"

func newOverrides(s *store.Store) (*overrides, error) {
	b, err := store.NewBucket[override](s, store.BucketOptions{Name: "overrides"})
	if err != nil {
		return nil, err
	}
	return &overrides{bucket: b, inForce: map[string]override{}}, nil
}

// note records what is in force under key here, nil for nothing, and reports
// whether that is news.
func (k *overrides) note(key string, o *override) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was, had := k.inForce[key]
	if o == nil {
		delete(k.inForce, key)
		return had
	}
	k.inForce[key] = *o
	return !had || !was.Until.Equal(o.Until) || was.Action != o.Action || was.By != o.By || !slices.Equal(was.Order, o.Order)
}

// keep writes that o is in force under key; nil: nothing is any more. A nil
// overrides keeps nothing.
func (k *overrides) keep(ctx context.Context, key string, o *override) error {
	if k == nil {
		return nil
	}
	k.note(key, o)
	if o == nil {
		return k.bucket.Delete(ctx, key)
	}
	_, err := k.bucket.Put(ctx, key, *o)
	return err
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
			if err := g.overrides.bucket.Delete(ctx, key); err != nil {
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
	err := g.overrides.bucket.Watch(ctx, func(c store.Change[override]) {
		switch {
		case c.Ready:
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

// override puts o in force under key, nil for nothing, unless it is already.
func (g *Gateway) override(key string, o *override) {
	if !g.overrides.note(key, o) {
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
		err = g.breakers.Force(b, action, left, by)
	}
	if err != nil {
		g.alarm(fmt.Sprintf("override of %s: %v", key, err))
	}
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
// it: message says so if it would not survive a restart.
func (g *Gateway) keepOverride(ctx context.Context, key string, o *override, message string) string {
	if err := g.overrides.keep(ctx, key, o); err != nil {
		g.alarm(fmt.Sprintf("override of %s: %v", key, err))
		return message + "; not written down: a restart would lose it"
	}
	return message
}
