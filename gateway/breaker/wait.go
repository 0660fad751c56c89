package breaker

import (
	"context"
	"slices"
	"time"

	"failback/gateway/decision"
)

// waiter is an attempt that waits for capacity.
type waiter struct {
	g  *Group
	at *bucket // that has no room
	p  *Permit
	a  *Ask
	// done is closed when the wait is over; reason may be read then.
	done   chan struct{}
	reason decision.Reason
}

// Wait is Acquire that waits up to d where the only obstacle is capacity: first
// come, first served, and nobody who comes later overtakes. It ends early with
// ctx, with the reason capacity. d is at most Settings.Patience if that is set;
// not positive, it does not wait.
func (g *Group) Wait(ctx context.Context, p *Permit, a Ask, d time.Duration) decision.Reason {
	if g == nil || g.u == nil || d <= 0 || ctx.Err() != nil {
		return g.Acquire(p, a)
	}
	p.releaseFor(g.u)
	w, patience, why := g.enqueue(p, &a)
	if w == nil {
		return why
	}
	if patience > 0 {
		d = min(d, patience)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.done:
		return w.reason
	case <-timer.C:
	case <-ctx.Done():
	}
	return g.u.giveUp(w)
}

// enqueue puts p in the queue, unless it need not wait any more: then the
// waiter is nil and the reason tells.
func (g *Group) enqueue(p *Permit, a *Ask) (*waiter, time.Duration, decision.Reason) {
	u := g.u
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	if len(g.buckets) == 0 {
		return nil, 0, decision.NoCapability
	}
	if why := u.try(now, g, p, a, false); why != decision.Capacity {
		return nil, 0, why
	}
	w := &waiter{g: g, at: u.full, p: p, a: a, done: make(chan struct{})}
	w.at.queued++
	u.waiters = append(u.waiters, w)
	return w, u.settings.Patience, ""
}

// giveUp takes w out of the queue; if it was served in that moment, it was.
func (u *upstream) giveUp(w *waiter) decision.Reason {
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	if i := slices.Index(u.waiters, w); i >= 0 {
		u.dequeue(i)
		w.reason = decision.Capacity
	}
	return w.reason
}

func (u *upstream) dequeue(i int) {
	u.waiters[i].at.queued--
	u.waiters = slices.Delete(u.waiters, i, i+1)
}

// pump serves those that wait, as far as there is room, and ends the wait of
// those who find another obstacle than capacity.
func (u *upstream) pump(now time.Duration) {
	var full *Group // nobody else of this group need be tried
	for i := 0; i < len(u.waiters); {
		w := u.waiters[i]
		if w.g == full {
			i++
			continue
		}
		why := decision.NoCapability
		if len(w.g.buckets) > 0 {
			why = u.try(now, w.g, w.p, w.a, true)
		}
		if why == decision.Capacity {
			full = w.g
			w.at.queued--
			w.at = u.full
			w.at.queued++
			i++
			continue
		}
		u.dequeue(i)
		w.reason = why
		close(w.done)
	}
}
