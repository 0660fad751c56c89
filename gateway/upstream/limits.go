package upstream

import (
	"math"
	"sync"
	"time"
)

// limits holds an upstream's own limits before a request is sent: how many at
// once, how many a second, how many tokens a minute. A rate admits one
// second's (for tokens one minute's) worth at once and refills evenly.
type limits struct {
	mu sync.Mutex
	// mu guards everything that follows.
	concurrency int // 0: no limit
	inflight    int
	requests    bucket
	tokens      bucket
}

// bucket is a token bucket. Its level may fall below zero when more was used
// than was reserved.
type bucket struct {
	size  float64 // 0: no limit
	rate  float64 // a second
	level float64
	at    time.Time
}

// set changes the limits in place: who is under way stays counted, and what
// was used up stays used up.
func (l *limits) set(concurrency int, rps float64, tpm int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.concurrency = max(concurrency, 0)
	l.requests.set(math.Max(rps, 0), math.Max(rps, 1), now)
	l.tokens.set(math.Max(float64(tpm), 0)/60, float64(tpm), now)
}

func (b *bucket) set(rate, size float64, now time.Time) {
	if rate == 0 {
		*b = bucket{}
		return
	}
	if b.rate == 0 {
		*b = bucket{size: size, rate: rate, level: size, at: now}
		return
	}
	b.refill(now)
	b.size, b.rate, b.level = size, rate, math.Min(b.level, size)
}

func (b *bucket) refill(now time.Time) {
	b.level = math.Min(b.size, b.level+now.Sub(b.at).Seconds()*b.rate)
	b.at = now
}

// wait returns how long until n are there; 0 if they are. More than the bucket
// holds is admitted when it is full: it could never be otherwise.
func (b *bucket) wait(n float64, now time.Time) time.Duration {
	if b.rate == 0 {
		return 0
	}
	b.refill(now)
	missing := math.Min(n, b.size) - b.level
	if missing <= 1e-9 { // refilling is arithmetic on floats
		return 0
	}
	return time.Duration(math.Ceil(missing / b.rate * float64(time.Second)))
}

func (b *bucket) take(n float64) {
	if b.rate > 0 {
		b.level -= n
	}
}

// nothing is the release of a request that no limit counted.
func nothing(int) {}

// acquire requires a positive wait to be refused.
func (l *limits) acquire(tokens int) (release func(actual int), wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.concurrency == 0 && l.requests.rate == 0 && l.tokens.rate == 0 {
		return nothing, 0, true
	}
	if wait, ok := l.wait(tokens); !ok {
		return nothing, wait, false
	}
	l.inflight++
	l.requests.take(1)
	l.tokens.take(float64(tokens))
	released := false
	return func(actual int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if released {
			return
		}
		released = true
		l.inflight--
		if actual >= 0 && l.tokens.rate > 0 {
			l.tokens.refill(time.Now())
			l.tokens.level = math.Min(l.tokens.size, l.tokens.level+float64(tokens-actual))
		}
	}, 0, true
}

// wait requires mu. It reports whether a request could be sent now, and else
// after how long the rates would admit it; 0 if only a place is missing.
func (l *limits) wait(tokens int) (time.Duration, bool) {
	now := time.Now()
	wait := max(l.requests.wait(1, now), l.tokens.wait(float64(tokens), now))
	return wait, wait == 0 && (l.concurrency == 0 || l.inflight < l.concurrency)
}

// Limit takes a place under u's limits for a request that will use about
// tokens tokens, or reports false and takes nothing. release gives the place
// back and settles the estimate with what was really used; a negative number
// says that nobody knows, and the estimate stands; 0 gives all of it back. It
// must be called once; later calls do nothing. It is never nil.
func (u *Upstream) Limit(tokens int) (release func(actual int), ok bool) {
	release, _, ok = u.limits.acquire(max(tokens, 0))
	return release, ok
}

// LimitWait returns after how long Limit would admit such a request as far as
// the rates say; 0 if they would now, also if a place in flight is missing,
// for which nobody can tell.
func (u *Upstream) LimitWait(tokens int) time.Duration {
	u.limits.mu.Lock()
	defer u.limits.mu.Unlock()
	wait, _ := u.limits.wait(max(tokens, 0))
	return wait
}
