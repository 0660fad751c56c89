package router

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"failback/gateway/decision"
)

// retryWindow is how long first attempts fill the budget and draws empty it.
const retryWindow = 10 * time.Second

// RetryBudget bounds the attempts after the first of all requests together:
// burst plus ratio × the first attempts of the last 10 s, less what was drawn
// in that time. So a single failing provider is failed over freely, and a
// retry storm is not. Its methods may be called concurrently.
type RetryBudget struct {
	epoch time.Time // what slots are counted from

	mu sync.Mutex // guards everything that follows

	ratio, burst float64
	slots        [retrySlots]retrySlot
	refused      uint64
}

const (
	retrySlots   = 20
	retrySlotLen = retryWindow / retrySlots
)

type retrySlot struct {
	n      int64 // which slot of time since start this is
	firsts int
	draws  int
	by     map[decision.Bucket]int
}

// NewRetryBudget returns a full budget.
func NewRetryBudget(ratio, burst float64) *RetryBudget {
	return &RetryBudget{epoch: time.Now(), ratio: ratio, burst: burst}
}

// Configure changes its size; what was drawn stays drawn.
func (b *RetryBudget) Configure(ratio, burst float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ratio, b.burst = ratio, burst
}

// First notes the first attempt of a request. What it returns is for Rejected.
func (b *RetryBudget) First() (at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at = b.now()
	b.slot(at).firsts++
	return at
}

// Rejected takes back the First that returned at: the request was its caller's
// mistake, and those do not fill the budget.
func (b *RetryBudget) Rejected(at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := &b.slots[at%retrySlots]; s.n == at && s.firsts > 0 {
		s.firsts--
	}
}

// Draw takes one attempt, made necessary by a failure of cause; counts says
// whether that failure counts against the bucket. It reports whether there
// was one to take.
func (b *RetryBudget) Draw(cause decision.Bucket, counts bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.now()
	if available, _ := b.available(n); available < 1 {
		b.refused++
		return false
	}
	s := b.slot(n)
	s.draws++
	if counts {
		if s.by == nil {
			s.by = make(map[decision.Bucket]int)
		}
		s.by[cause]++
	}
	return true
}

// Available returns what is left, and the size it is left of.
func (b *RetryBudget) Available() (available, size float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.available(b.now())
}

// Refused is how many draws there was nothing left for, since the start.
func (b *RetryBudget) Refused() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// Drawn is how often the failures of a bucket drew.
type Drawn struct {
	Bucket decision.Bucket
	Times  int
}

// Drawn returns the buckets whose failures drew in the last 10 s, those that
// drew most first.
func (b *RetryBudget) Drawn() []Drawn {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.now()
	sum := make(map[decision.Bucket]int)
	for i := range b.slots {
		if b.slots[i].n > n-retrySlots {
			for k, v := range b.slots[i].by {
				sum[k] += v
			}
		}
	}
	l := make([]Drawn, 0, len(sum))
	for k, v := range sum {
		l = append(l, Drawn{k, v})
	}
	slices.SortFunc(l, func(a, b Drawn) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.Bucket.String(), b.Bucket.String()))
	})
	return l
}

// available requires mu.
func (b *RetryBudget) available(n int64) (float64, float64) {
	firsts, draws := 0, 0
	for i := range b.slots {
		if s := &b.slots[i]; s.n > n-retrySlots {
			firsts += s.firsts
			draws += s.draws
		}
	}
	size := b.burst + b.ratio*float64(firsts)
	return max(size-float64(draws), 0), size
}

// slot requires mu.
func (b *RetryBudget) slot(n int64) *retrySlot {
	s := &b.slots[n%retrySlots]
	if s.n != n {
		*s = retrySlot{n: n}
	}
	return s
}

// now counts from 2·retrySlots so that a zero slot is always in the past.
func (b *RetryBudget) now() int64 { return int64(time.Since(b.epoch)/retrySlotLen) + 2*retrySlots }
