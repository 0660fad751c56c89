package breaker

import (
	"errors"
	"fmt"
	"time"

	"failback/gateway/decision"
)

// What an operator may ask of a bucket.
const (
	ActionOpen  = "open"
	ActionClose = "close"
	ActionAuto  = "auto"
)

// ForceDefault is how long an override lasts if its operator does not say.
const ForceDefault = time.Hour

// Errors of Force, for errors.Is.
var (
	ErrNoBucket = errors.New("no such bucket")
	ErrAction   = errors.New("no such action")
)

// override is what an operator holds a bucket to.
type override struct {
	to    string // Open or Closed; empty: nothing
	by    string
	until time.Duration
}

// Force overrides b for d, or for an hour if d is not positive: "open" refuses
// everything, also in shadow mode and to last resorts; "close" admits
// everything and lets no rule open the bucket; "auto" ends either. What was
// open comes back through a probe and a ramp. The errors are ErrNoBucket and
// ErrAction.
func (s *Set) Force(b decision.Bucket, action string, d time.Duration, by string) error {
	u := s.find(b.Upstream)
	if u == nil {
		return fmt.Errorf("breaker %s: %w: no upstream is called %q", b, ErrNoBucket, b.Upstream)
	}
	if d <= 0 {
		d = ForceDefault
	}
	u.mu.Lock()
	now := s.now()
	defer u.unlock(now)
	o := u.bucket(b.Capability)
	if o == nil {
		return fmt.Errorf("breaker %s: %w: %s has no bucket for %q", b, ErrNoBucket, b.Upstream, b.Capability)
	}
	o.settle(now)
	switch action {
	case ActionOpen:
		o.forceOpen(now, d, by)
	case ActionClose:
		o.forceClosed(now, d, by)
	case ActionAuto:
		o.release(now)
	default:
		return fmt.Errorf("breaker %s: %w %q: use %s, %s or %s", b, ErrAction, action, ActionOpen, ActionClose, ActionAuto)
	}
	return nil
}

func (b *bucket) forceOpen(now, d time.Duration, by string) {
	b.forced = override{to: Open, by: by, until: now + d}
	b.toOpen(now, now+d, opening{reason: Forced, detail: "for " + d.String() + " by " + by, by: by})
}

func (b *bucket) forceClosed(now, d time.Duration, by string) {
	b.forced = override{to: Closed, by: by, until: now + d}
	if b.state == &b.closed {
		return
	}
	b.retryAt = 0
	b.newEra()
	b.toClosed(now, Forced, by)
}

// release gives the bucket back to its rules: what was held open may be probed
// at once, unless the upstream asked to be left alone for longer.
func (b *bucket) release(now time.Duration) {
	if b.forced.to == Open {
		b.open.until = max(now, b.retryAt)
	}
	b.forced = override{}
}

// endOverride gives the bucket back because the time is over.
func (b *bucket) endOverride(now time.Duration) {
	b.release(now)
	b.post(b.state.name(), OverrideOver, "")
}
