package operator

import (
	"sync"
	"time"

	"failback/gateway/operator/api"
)

// keptEvents is how many events the ring holds.
const keptEvents = 4096

// events is the ring of the last events and the way streams follow it. A
// stream keeps a position, not a queue: nothing is lost to it before it leaves
// the ring, and a slow one costs the others nothing.
//
// Sequence numbers are dense and begin at the microsecond of the process's
// start, so those of an earlier process are below all of this one's.
type events struct {
	base uint64 // the number before the first event's

	// mu guards everything that follows.
	mu      sync.Mutex
	ring    []api.Event // the event with number n is at (n-base-1) % keptEvents
	last    uint64      // number of the newest event, base without any
	waiting map[chan struct{}]struct{}
}

func newEvents(start time.Time) *events {
	base := uint64(start.UnixMicro())
	return &events{base: base, last: base, waiting: make(map[chan struct{}]struct{})}
}

// add numbers e, keeps it and wakes the streams.
func (v *events) add(e api.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last++
	e.Seq = v.last
	if len(v.ring) < keptEvents {
		v.ring = append(v.ring, e)
	} else {
		v.ring[(e.Seq-v.base-1)%keptEvents] = e
	}
	for c := range v.waiting {
		select {
		case c <- struct{}{}:
		default: // it is awake already
		}
	}
}

// since returns up to limit events after a number, oldest first, and how many
// more there had been between that number and the first returned. A number
// that is not of this process counts as 0, everything; known is false then.
func (v *events) since(after uint64, limit int) (found []api.Event, dropped uint64, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known = after == 0 || after >= v.base && after <= v.last
	if after == 0 || !known {
		after = v.base
	}
	oldest := v.last - uint64(len(v.ring)) // the number before the oldest kept
	if after < oldest {
		dropped = oldest - after
		after = oldest
	}
	n := min(int(v.last-after), limit)
	found = make([]api.Event, n)
	for i := range found {
		found[i] = v.ring[(after+uint64(i)-v.base)%keptEvents]
	}
	return found, dropped, known
}

// revision finds the newest event of what became revision of upstream: of its share,
// else of its state.
func (v *events) revision(upstream string, revision uint64) (found api.Event, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for n := v.last; n > v.last-uint64(len(v.ring)); n-- {
		e := &v.ring[(n-v.base-1)%keptEvents]
		if e.Provider != upstream || e.Revision != revision {
			continue
		}
		if e.IsStep() {
			return *e, true
		}
		if e.Event == api.KindHealth && !ok {
			found, ok = *e, true
		}
	}
	return found, ok
}

// newest is the number of the newest event.
func (v *events) newest() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}

// follow returns a channel that receives after events were added, and the
// function that ends this.
func (v *events) follow() (woken <-chan struct{}, end func()) {
	c := make(chan struct{}, 1)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waiting[c] = struct{}{}
	return c, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.waiting, c)
	}
}
