package incident

import (
	"hash/maphash"
	"sync"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// recentMost is how many answered requests of each route are remembered, and how
// many reports of them.
const recentMost = 1 << 17

// Recent remembers by which route the latest requests were answered, and what was
// reported of them, so that each outcome is counted once and for the right route.
// It keeps hashes alone, no id. Its methods may be called from any goroutine.
type Recent struct {
	seed maphash.Seed

	mu       sync.Mutex // guards everything that follows
	primary  ring
	degraded ring
	reported ring
}

// NewRecent returns a Recent that knows nothing.
func NewRecent() *Recent { return &Recent{seed: maphash.MakeSeed()} }

// mark is what is remembered of a request: whether its workflow was counted as
// good, and the Epoch in which it ended.
type mark uint32

func markOf(good bool, e Epoch) mark {
	m := mark(e) << 1
	if good {
		m |= 1
	}
	return m
}

func (m mark) good() bool   { return m&1 != 0 }
func (m mark) epoch() Epoch { return Epoch(m >> 1) }

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

// Add takes the end of a request: whether another candidate than the primary
// answered it, whether its workflow counts as good, and when it ended. Of two
// requests with one id the later one is remembered.
func (r *Recent) Add(requestID string, degraded, good bool, e Epoch) {
	key := maphash.String(r.seed, requestID)
	to, other := &r.primary, &r.degraded
	if degraded {
		to, other = other, to
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(other.has, key)
	to.add(key, markOf(good, e))
}

// Outcome is what a client or an evaluator says of a request.
type Outcome struct {
	RequestID string `json:"request_id"`
	Layer     string `json:"layer"` // workflow, semantic or task
	Good      *bool  `json:"good"`
	By        string `json:"by"`
	Note      string `json:"note,omitempty"`
}

// Judged is what became of an Outcome.
type Judged struct {
	Route    decision.Route // none: the request is not known, or not any more
	Repeated bool           // it was reported before by the same for the same layer
	Known    bool
	WasGood  bool  // how the request's workflow was counted
	Epoch    Epoch // in which the request ended
}

// Judge takes o, which is well-formed. The first report of a layer and reporter
// stands.
func (r *Recent) Judge(o Outcome) Judged {
	var h maphash.Hash
	h.SetSeed(r.seed)
	for _, s := range []string{o.RequestID, o.Layer, o.By} {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	report := h.Sum64()
	key := maphash.String(r.seed, o.RequestID)
	// What corrects the request's own count is told once, whoever tells it.
	corrected := key ^ 1
	r.mu.Lock()
	defer r.mu.Unlock()
	j := Judged{Route: decision.RouteNone}
	m, known := r.degraded.has[key]
	if known {
		j.Route = decision.RouteFallback
	} else if m, known = r.primary.has[key]; known {
		j.Route = decision.RoutePrimary
	}
	j.Known, j.WasGood, j.Epoch = known, m.good(), m.epoch()
	_, j.Repeated = r.reported.has[report]
	if !j.Repeated && o.Layer == api.LayerWorkflow {
		_, j.Repeated = r.reported.has[corrected]
		r.reported.add(corrected, 0)
	}
	r.reported.add(report, 0)
	return j
}
