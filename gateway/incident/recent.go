package incident

import (
	"hash/maphash"
	"slices"
	"sync"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

const (
	// recentMost is how many answered requests of each route are remembered, and
	// how many reports of requests that are not.
	recentMost = 1 << 17
	// mostVerdicts are counted of one request and layer, each of another key.
	mostVerdicts = 4
)

// Recent remembers by which route the latest requests were answered, and what was
// reported of them, so that each outcome is counted once and for the right route.
// It keeps hashes alone, no id. Its methods may be called from any goroutine.
type Recent struct {
	seed maphash.Seed

	mu       sync.Mutex // guards everything that follows
	primary  ring
	degraded ring
	unknown  ring // reports of requests that are not remembered
}

// NewRecent returns a Recent that knows nothing.
func NewRecent() *Recent { return &Recent{seed: maphash.MakeSeed()} }

// mark is what is remembered of a request: in which Epoch it ended, whether its
// workflow was counted as good, whose it was, and who judged it.
type mark struct {
	epoch  Epoch
	good   bool
	owner  uint32 // hash of its client key's name
	judged []verdict
}

// verdict is that a key judged a layer.
type verdict struct {
	layer string
	by    uint32 // hash of the key's name
}

// ring is a set of the recentMost keys that were added last, with a mark each. The
// zero value is ready.
type ring struct {
	at    map[uint64]int32 // where in slots a key is
	slots []slot           // linked from the newest to the oldest, in a circle; none is free
	first int32            // the newest; its prev is the oldest
}

// slot is a key of a ring.
type slot struct {
	key        uint64
	mark       mark
	prev, next int32
}

// get returns what is remembered of key until the ring is changed, nil for nothing.
func (r *ring) get(key uint64) *mark {
	i, ok := r.at[key]
	if !ok {
		return nil
	}
	return &r.slots[i].mark
}

// add makes key the newest one, with m. Where there is no room the oldest goes.
func (r *ring) add(key uint64, m mark) {
	if r.at == nil {
		r.at = map[uint64]int32{}
	}
	r.remove(key)
	if len(r.slots) == recentMost {
		r.remove(r.slots[r.slots[r.first].prev].key)
	}
	i := int32(len(r.slots))
	s := slot{key: key, mark: m, prev: i, next: i}
	if i > 0 {
		s.prev, s.next = r.slots[r.first].prev, r.first
	}
	r.slots = append(r.slots, s)
	r.link(i)
	r.first = i
}

// link has the neighbours of slot i, and at, know where it is.
func (r *ring) link(i int32) {
	s := r.slots[i]
	r.slots[s.prev].next, r.slots[s.next].prev = i, i
	r.at[s.key] = i
}

// remove forgets key. The last slot takes the place of its own.
func (r *ring) remove(key uint64) {
	i, ok := r.at[key]
	if !ok {
		return
	}
	delete(r.at, key)
	s := r.slots[i]
	r.slots[s.prev].next, r.slots[s.next].prev = s.next, s.prev
	if r.first == i {
		r.first = s.next
	}
	last := int32(len(r.slots) - 1)
	if i != last {
		s := r.slots[last]
		if s.next == last { // it is the only one
			s.prev, s.next = i, i
		}
		r.slots[i] = s
		r.link(i)
		if r.first == last {
			r.first = i
		}
	}
	r.slots[last] = slot{}
	r.slots = r.slots[:last]
}

// Add takes the end of a request of the client key that is so named, empty without
// one: whether another candidate than the primary answered it, whether its workflow
// counts as good, and when it ended. Of two requests with one id the later one is
// remembered.
func (r *Recent) Add(requestID, owner string, degraded, good bool, e Epoch) {
	key := maphash.String(r.seed, requestID)
	to, other := &r.primary, &r.degraded
	if degraded {
		to, other = other, to
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	other.remove(key)
	to.add(key, mark{epoch: e, good: good, owner: r.keyHash(owner)})
}

func (r *Recent) keyHash(name string) uint32 { return uint32(maphash.String(r.seed, name)) }

// Outcome is what a client or an evaluator says of a request.
type Outcome struct {
	RequestID string `json:"request_id"`
	Layer     string `json:"layer"` // workflow, semantic or task
	Good      *bool  `json:"good"`
	By        string `json:"by"`
	Note      string `json:"note,omitempty"`
	// Key is the name of the client key that reports it, empty without one.
	Key string `json:"-"`
}

// Judged is what became of an Outcome.
type Judged struct {
	Known    bool           // else nothing of what follows holds
	Route    decision.Route // by which the request was answered; none if it is not known
	Repeated bool           // the same key judged the same layer of it before
	// Refused says that it is not this key's to judge: the workflow of a request of
	// another key, or one verdict more than is counted of a layer.
	Refused bool
	WasGood bool  // how the request's workflow was counted
	Epoch   Epoch // in which the request ended
}

// Judge takes o, which is well-formed, if its request is remembered. The first report
// of a key and layer stands; who else o says has judged is for people alone.
func (r *Recent) Judge(o Outcome) Judged {
	request, by := maphash.String(r.seed, o.RequestID), verdict{o.Layer, r.keyHash(o.Key)}
	r.mu.Lock()
	defer r.mu.Unlock()
	route, m := decision.RouteFallback, r.degraded.get(request)
	if m == nil {
		route, m = decision.RoutePrimary, r.primary.get(request)
	}
	if m == nil {
		return Judged{Route: decision.RouteNone}
	}
	j := Judged{Known: true, Route: route, WasGood: m.good, Epoch: m.epoch}
	of := 0
	for _, v := range m.judged {
		if v.layer == o.Layer {
			of++
		}
	}
	switch {
	case slices.Contains(m.judged, by):
		j.Repeated = true
	case o.Layer == api.LayerWorkflow && m.owner != by.by, of >= mostVerdicts:
		j.Refused = true
	default:
		m.judged = append(m.judged, by)
	}
	return j
}

// Unknown takes o, whose request nobody remembers, and reports whether it was taken
// before.
func (r *Recent) Unknown(o Outcome) (repeated bool) {
	report := maphash.Comparable(r.seed, [...]string{o.RequestID, o.Layer, o.Key})
	r.mu.Lock()
	defer r.mu.Unlock()
	repeated = r.unknown.get(report) != nil
	r.unknown.add(report, mark{})
	return repeated
}
