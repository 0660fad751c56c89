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

// ring is a set of the newest keys, with a mark each. The zero value is ready.
type ring struct {
	has  map[uint64]mark
	keys []uint64
	next int
}

func (r *ring) add(key uint64, m mark) {
	if r.has == nil {
		r.has = map[uint64]mark{}
	}
	if _, ok := r.has[key]; ok {
		r.has[key] = m
		return
	}
	if len(r.keys) < recentMost {
		r.keys = append(r.keys, key)
	} else {
		delete(r.has, r.keys[r.next])
		r.keys[r.next] = key
		r.next = (r.next + 1) % recentMost
	}
	r.has[key] = m
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
	delete(other.has, key)
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
	Route    decision.Route // none: the request is not known, or not any more
	Repeated bool           // the same key judged the same layer of it before
	// Refused says that it is not this key's to judge: the workflow of a request of
	// another key, or one verdict more than is counted of a layer.
	Refused bool
	Known   bool
	WasGood bool  // how the request's workflow was counted
	Epoch   Epoch // in which the request ended
}

// Judge takes o, which is well-formed. The first report of a key and layer stands;
// who else o says has judged is for people alone.
func (r *Recent) Judge(o Outcome) Judged {
	request, by := maphash.String(r.seed, o.RequestID), verdict{o.Layer, r.keyHash(o.Key)}
	r.mu.Lock()
	defer r.mu.Unlock()
	route, ended := decision.RouteFallback, &r.degraded
	m, known := ended.has[request]
	if !known {
		route, ended = decision.RoutePrimary, &r.primary
		m, known = ended.has[request]
	}
	if !known {
		report := maphash.Comparable(r.seed, [...]string{o.RequestID, o.Layer, o.Key})
		_, repeated := r.unknown.has[report]
		r.unknown.add(report, mark{})
		return Judged{Route: decision.RouteNone, Repeated: repeated}
	}
	j := Judged{Route: route, Known: true, WasGood: m.good, Epoch: m.epoch}
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
		ended.has[request] = m
	}
	return j
}
