package operator

import (
	"sync"
	"time"

	"failback/gateway/decision"
)

// keptDecisions is how many decisions the ring holds.
const keptDecisions = 4096

// decisions is the ring of the last decisions. Recording one is on every
// request's path: it copies the record, so that nothing else of the request is
// kept with it, and renders nothing.
type decisions struct {
	// mu guards everything that follows.
	mu     sync.Mutex
	ring   [keptDecisions]decision.Decision // decision number n is at n % keptDecisions
	total  uint64
	perSec [60]struct {
		sec int64
		n   int
	}
}

func newDecisions() *decisions { return new(decisions) }

func (v *decisions) add(d *decision.Decision, now time.Time) {
	sec := now.Unix()
	v.mu.Lock()
	v.ring[v.total%keptDecisions] = *d
	v.total++
	b := &v.perSec[sec%60]
	if b.sec != sec {
		b.sec, b.n = sec, 0
	}
	b.n++
	v.mu.Unlock()
}

// counts returns how many decisions there were, in all and in the last minute.
func (v *decisions) counts(now time.Time) (total uint64, perMinute int) {
	sec := now.Unix()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, b := range v.perSec {
		if b.sec > sec-60 && b.sec <= sec {
			perMinute += b.n
		}
	}
	return v.total, perMinute
}

// newest returns up to limit kept decisions that f matches, newest first.
func (v *decisions) newest(f *filter, limit int) []decision.Decision {
	var found []decision.Decision
	next := v.count() // one above the number to look at next
	for more := true; more && len(found) < limit; {
		found, next, more = v.look(f, limit, found, next)
	}
	return found
}

// look goes through a few decisions below next: requests wait for the ring no
// longer than that takes.
func (v *decisions) look(f *filter, limit int, found []decision.Decision, next uint64) (_ []decision.Decision, _ uint64, more bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for range 64 {
		if next == 0 || v.total-next >= keptDecisions || len(found) == limit {
			return found, next, false
		}
		next--
		if d := &v.ring[next%keptDecisions]; f.matches(d) {
			found = append(found, *d)
		}
	}
	return found, next, true
}

// since returns the newest decisions, at most limit, after the first n of all,
// oldest first, with how many were left out and where to go on.
func (v *decisions) since(n uint64, limit int) (found []decision.Decision, left, next uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n >= v.total {
		return nil, 0, v.total
	}
	from := n
	if most := uint64(min(limit, keptDecisions)); v.total-from > most {
		from = v.total - most
	}
	found = make([]decision.Decision, 0, v.total-from)
	for i := from; i < v.total; i++ {
		found = append(found, v.ring[i%keptDecisions])
	}
	return found, from - n, v.total
}

// count is how many decisions there were.
func (v *decisions) count() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.total
}

// filter is what GET /operator/v1/decisions can ask for. Empty fields match
// everything.
type filter struct {
	task, provider, requestID string
	status                    decision.Status
	since                     time.Time
}

func (f *filter) matches(d *decision.Decision) bool {
	return (f.task == "" || d.Task == f.task) &&
		(f.status == "" || d.Status == f.status) &&
		(f.requestID == "" || d.RequestID == f.requestID) &&
		(f.provider == "" || tookPart(d, f.provider)) &&
		(f.since.IsZero() || !d.Time.Before(f.since))
}

// tookPart reports whether provider was d's primary, was attempted or answered.
func tookPart(d *decision.Decision, provider string) bool {
	if d.Primary == provider || d.Selected == provider {
		return true
	}
	for i := range d.Attempts {
		if d.Attempts[i].Provider == provider {
			return true
		}
	}
	return false
}
