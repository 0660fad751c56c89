package demo

import (
	"maps"
	"sync"
)

// Counts is what a Fake saw. Once nothing is in flight,
// Requests = Completed + Faulted + Refused + Gone.
type Counts struct {
	Requests  int64 // requests whose body arrived, or broke off on the way
	Streams   int64 // of these: asked for a stream
	Completed int64 // answered in full
	Faulted   int64 // ended by the Fault in force
	Refused   int64 // the caller's mistake: wrong key, bad JSON, unknown model
	Gone      int64 // the caller left before the end
}

// InFlight returns the number of requests that have not ended.
func (c Counts) InFlight() int64 {
	return c.Requests - c.Completed - c.Faulted - c.Refused - c.Gone
}

func (c Counts) plus(o Counts) Counts {
	return Counts{
		Requests:  c.Requests + o.Requests,
		Streams:   c.Streams + o.Streams,
		Completed: c.Completed + o.Completed,
		Faulted:   c.Faulted + o.Faulted,
		Refused:   c.Refused + o.Refused,
		Gone:      c.Gone + o.Gone,
	}
}

// ledger counts per endpoint.
type ledger struct {
	mu sync.Mutex // guards everything that follows

	by map[string]Counts
}

func (l *ledger) add(endpoint string, c Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[string]Counts{}
	}
	l.by[endpoint] = l.by[endpoint].plus(c)
}

func (l *ledger) all() map[string]Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.by)
}

func (l *ledger) total() Counts {
	var t Counts
	for _, c := range l.all() {
		t = t.plus(c)
	}
	return t
}
