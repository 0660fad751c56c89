package notify

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Bounds of the queue.
const (
	maxPending = 128         // messages that wait; the oldest goes first
	collapse   = time.Minute // one message per key in it
	giveUp     = time.Hour   // how long a message is tried
	firstPause = time.Second
	maxPause   = 2 * time.Minute
)

// key is what messages are collapsed by.
type key struct {
	kind     Kind
	upstream string
}

// recent is when a key's last message was let through, and what came after it:
// only the last is kept, since it says how things stand.
type recent struct {
	at   time.Time
	held *pending
}

// queue is what waits for its confirmation. It does no I/O and has no clock.
type queue struct {
	waiting []*pending // in the order of their coming
	recent  map[key]*recent
}

// add takes p in, or holds it back for the rest of its key's minute. It returns
// what is lost for want of room.
func (q *queue) add(p *pending, now time.Time) (lost *pending) {
	k := key{p.Kind, p.Upstream}
	if r := q.recent[k]; r != nil && now.Sub(r.at) < collapse {
		if r.held != nil {
			p.repeated, p.since = r.held.repeated+1, r.held.since
		}
		r.held = p
		return nil
	}
	if q.recent == nil {
		q.recent = map[key]*recent{}
	}
	q.recent[k] = &recent{at: now}
	return q.push(p)
}

func (q *queue) push(p *pending) (lost *pending) {
	if len(q.waiting) >= maxPending {
		lost = q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
	}
	q.waiting = append(q.waiting, p)
	return lost
}

// release lets through what was held back for its minute, and forgets the keys
// of which nothing came. It returns what is lost for want of room.
func (q *queue) release(now time.Time) (lost []*pending) {
	for k, r := range q.recent {
		switch {
		case now.Sub(r.at) < collapse:
		case r.held == nil:
			delete(q.recent, k)
		default:
			p := r.held
			r.at, r.held = now, nil
			p.next = now
			if l := q.push(p); l != nil {
				lost = append(lost, l)
			}
		}
	}
	return lost
}

// due returns the message that is to be tried at now, nil if there is none;
// then wait says for how long, 0 if there is nothing to wait for.
func (q *queue) due(now time.Time) (p *pending, wait time.Duration) {
	for _, w := range q.waiting {
		if p == nil || w.next.Before(p.next) {
			p = w
		}
	}
	if p != nil && !p.next.After(now) {
		return p, 0
	}
	sooner := func(at time.Time) {
		if d := max(at.Sub(now), time.Nanosecond); wait == 0 || d < wait {
			wait = d
		}
	}
	if p != nil {
		sooner(p.next)
	}
	for _, r := range q.recent {
		sooner(r.at.Add(collapse))
	}
	return nil, wait
}

// remove takes p out; it reports false if it is not there any more.
func (q *queue) remove(p *pending) bool {
	i := slices.Index(q.waiting, p)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// failed says when p is tried again after a failure; it reports false if that
// would be too late.
func (p *pending) failed(now time.Time) bool {
	p.failures++
	p.next = now.Add(pause(p.failures, rand.Float64()))
	return p.next.Sub(p.since) <= giveUp
}

// pause is the time after that many failures: doubled each time, of which
// chance, from 0 to 1, leaves at least half.
func pause(failures int, chance float64) time.Duration {
	d := maxPause
	if failures < 8 {
		d = min(firstPause<<(failures-1), maxPause)
	}
	return d/2 + time.Duration(chance*float64(d/2))
}

// all are the messages that are not confirmed, those held back included.
func (q *queue) all() []*pending {
	out := slices.Clone(q.waiting)
	for _, r := range q.recent {
		if r.held != nil {
			out = append(out, r.held)
		}
	}
	return out
}

// clear empties the queue and returns what was in it.
func (q *queue) clear() []*pending {
	out := q.all()
	q.waiting, q.recent = nil, nil
	slices.SortStableFunc(out, func(a, b *pending) int { return a.since.Compare(b.since) })
	return out
}
