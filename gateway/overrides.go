package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"failback/gateway/decision"
	"failback/gateway/router"
	"failback/gateway/store"
)

// overrides keeps what operators put in force for a time, so that a restart
// does not end it.
type overrides struct{ bucket *store.Bucket[override] }

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
	return &overrides{b}, nil
}

// keep writes that o is in force under key; nil: nothing is any more. A nil
// overrides keeps nothing.
func (k *overrides) keep(ctx context.Context, key string, o *override) error {
	switch {
	case k == nil:
		return nil
	case o == nil:
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
		o, left := e.Value, time.Until(e.Value.Until)
		var err error
		switch {
		case left <= 0:
			err = g.overrides.bucket.Delete(ctx, key)
		case key == passthroughKey:
			g.passthrough(&router.Passthrough{Order: o.Order, Until: o.Until, By: o.By, Why: o.Why})
		default:
			err = g.forceAgain(key, o, left)
		}
		if err != nil {
			g.alarm(fmt.Sprintf("override of %s: %v", key, err))
		}
	}
}

func (g *Gateway) forceAgain(key string, o override, left time.Duration) error {
	b, ok := decision.ParseBucket(key)
	if !ok {
		return errors.New("it is of no bucket")
	}
	return g.breakers.Force(b, o.Action, left, o.By)
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
