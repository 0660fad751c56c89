package breaker

import (
	"sync"

	"failback/gateway/decision"
)

// events hands over transitions in the order in which they were posted, with no
// lock of the breaker held. Whoever finds none handing over does it for all, so
// a handler may call back into the Set.
type events struct {
	handle func(decision.Event) // nil drops them

	mu sync.Mutex
	// mu guards everything that follows.
	queue []decision.Event
	busy  bool
}

func (e *events) post(ev decision.Event) {
	if e.handle == nil {
		return
	}
	e.mu.Lock()
	e.queue = append(e.queue, ev)
	e.mu.Unlock()
}

// drain hands over all that was posted, unless somebody else is doing it.
func (e *events) drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy {
		return
	}
	e.busy = true
	defer func() { e.busy = false }()
	for len(e.queue) > 0 {
		ev := e.queue[0]
		e.queue = e.queue[1:]
		e.mu.Unlock()
		func() {
			defer e.mu.Lock()
			e.handle(ev)
		}()
	}
	e.queue = nil
}
