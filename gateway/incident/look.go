package incident

import (
	"sync"
	"time"
)

const (
	lookBucket  = 5 * time.Second
	lookBuckets = 120
	// failingPart of the attempts of a bucket makes it one of the outage; goodRun
	// such in a row that are none end the look back.
	failingPart = 0.2
	goodRun     = 2
)

// Look remembers for ten minutes how attempts ended, so that an incident begins
// with its first failure and not when it was noticed. Its methods may be called
// from any goroutine; the zero value is ready.
type Look struct {
	mu sync.Mutex // guards everything that follows
	of map[string]*lookRing
}

type lookRing [lookBuckets]lookSlot

type lookSlot struct {
	number     int64 // of the bucket, in time
	ok, failed uint32
	failedAt   time.Time // the first
	switchedAt time.Time // the first
}

// at is where the bucket of a number has its place, which an older one may hold. A
// clock that is far off gives numbers below zero.
func (r *lookRing) at(n int64) *lookSlot { return &r[uint64(n)%lookBuckets] }

// slot requires mu.
func (l *Look) slot(upstream string, at time.Time) *lookSlot {
	if l.of == nil {
		l.of = map[string]*lookRing{}
	}
	r := l.of[upstream]
	if r == nil {
		r = new(lookRing)
		l.of[upstream] = r
	}
	n := at.UnixNano() / int64(lookBucket)
	s := r.at(n)
	if s.number != n {
		*s = lookSlot{number: n}
	}
	return s
}

// Attempt takes the end of an attempt that says something of the upstream.
func (l *Look) Attempt(upstream string, ok bool, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slot(upstream, at)
	if ok {
		s.ok++
		return
	}
	if s.failed == 0 {
		s.failedAt = at
	}
	s.failed++
}

// Switched takes a request of which upstream is the primary and that another
// candidate was asked for at a time. It may be told late, as a long answer is; too
// late, and it is forgotten already.
func (l *Look) Switched(upstream string, at, now time.Time) {
	if now.Sub(at) >= (lookBuckets-1)*lookBucket {
		return // its place may be a newer one's
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.slot(upstream, at); s.switchedAt.IsZero() {
		s.switchedAt = at
	}
}

// FirstFailure is when the failures began that go on until now: the first of them
// after the last time that upstream did well. Zero if it is not failing.
func (l *Look) FirstFailure(upstream string, now time.Time) (first time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of[upstream]
	if r == nil {
		return time.Time{}
	}
	good := 0
	last := now.UnixNano() / int64(lookBucket)
	for n := last; n > last-lookBuckets && good < goodRun; n-- {
		s := r.at(n)
		switch {
		case s.number != n || s.ok+s.failed == 0:
		case float64(s.failed) >= failingPart*float64(s.ok+s.failed):
			first, good = s.failedAt, 0
		default:
			good++
		}
	}
	return first
}

// switchBefore is by how much a switch may seem to be before the failure that it
// followed: their times are read one after the other, and in another order.
const switchBefore = time.Second

// FirstSwitch is the first one of upstream's requests after a failure at since; zero
// if none is remembered.
func (l *Look) FirstSwitch(upstream string, since, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of[upstream]
	if r == nil {
		return time.Time{}
	}
	since = since.Add(-switchBefore)
	last := now.UnixNano() / int64(lookBucket)
	for n := max(last-lookBuckets+1, since.UnixNano()/int64(lookBucket)); n <= last; n++ {
		if s := r.at(n); s.number == n && !s.switchedAt.IsZero() && !s.switchedAt.Before(since) {
			return s.switchedAt
		}
	}
	return time.Time{}
}

// FirstFailureOf is the first FirstFailure of upstreams; zero if none is failing.
func (l *Look) FirstFailureOf(upstreams []string, now time.Time) time.Time {
	first, _ := earliest(upstreams, func(name string) time.Time { return l.FirstFailure(name, now) })
	return first
}

// FirstSwitchOf is the first FirstSwitch of upstreams, and whose it is; zero if none
// is remembered.
func (l *Look) FirstSwitchOf(upstreams []string, since, now time.Time) (time.Time, string) {
	return earliest(upstreams, func(name string) time.Time { return l.FirstSwitch(name, since, now) })
}

// earliest is the first of the times that are not zero, and of whom.
func earliest(names []string, of func(string) time.Time) (first time.Time, whose string) {
	for _, name := range names {
		if at := of(name); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first, whose = at, name
		}
	}
	return first, whose
}
