package breaker

import (
	"fmt"
	"time"
)

// kind is what an attempt waits for.
type kind uint8

const (
	unary  kind = iota // its whole answer
	stream             // its first output
)

const (
	stallAnswers = 10              // a stall is measured by the time of so many
	stallLeast   = 2 * time.Second // and is no shorter
	limitsAge    = time.Second     // how long limits are kept before they are found again
)

// pace is how fast a bucket answers: who waits, and how long they usually do.
type pace struct {
	fresh [2]permits // of this era, not slow yet, by kind
	late  permits    // of this era, slow
	gone  permits    // of former eras
	// probers are no clients: how long they wait tells only a half-open bucket.
	probers permits
	days    [2]daily // how long answers took, by kind
	// limits are SlowOver or twice the p99 of 24 h; usual is the median of 24 h,
	// 0 while unknown. Both by kind.
	limits [2]time.Duration
	usual  [2]time.Duration
	found  time.Duration
	// answers are the last times at which an attempt stopped waiting because
	// the upstream answered, be it with an error; a ring.
	answers  [stallAnswers + 1]time.Duration
	answered int
}

// part makes those that wait strangers.
func (w *pace) part() {
	for _, l := range []*permits{&w.fresh[unary], &w.fresh[stream], &w.late} {
		for l.first != nil {
			p := l.first
			l.remove(p)
			w.gone.push(p)
		}
	}
}

// lists returns all lists of those that wait.
func (w *pace) lists() [5]*permits {
	return [5]*permits{&w.fresh[unary], &w.fresh[stream], &w.late, &w.gone, &w.probers}
}

func (w *pace) answer(now time.Duration) {
	w.answers[w.answered%len(w.answers)] = now
	w.answered++
}

// lately returns when the last attempt was answered, and in what time the last
// ten were; false if there were not so many yet.
func (w *pace) lately() (last, ten time.Duration, ok bool) {
	if w.answered < stallAnswers {
		return 0, 0, false
	}
	last = w.answers[(w.answered-1)%len(w.answers)]
	before := max(w.answered-len(w.answers), 0)
	return last, last - w.answers[before%len(w.answers)], true
}

// find brings limits and usual up to date.
func (b *bucket) findPace(now time.Duration) {
	w := &b.pace
	if w.found != 0 && now-w.found < limitsAge {
		return
	}
	w.found = now
	for k := range w.days {
		p99, _ := w.days[k].quantile(now, 0.99)
		w.limits[k] = max(b.u.settings.SlowOver, 2*p99)
		w.usual[k], _ = w.days[k].quantile(now, 0.5)
	}
}

// slowLimit is how long an attempt may wait before it is slow.
func (b *bucket) slowLimit(now time.Duration, k kind) time.Duration {
	b.findPace(now)
	return b.pace.limits[k]
}

// paced judges an attempt that stops waiting after that time because it was
// answered well.
func (b *bucket) paced(now time.Duration, p *Permit, waited time.Duration) {
	if p.slow || !b.u.settings.slowRule() {
		return
	}
	p.slow = waited >= b.slowLimit(now, p.kind())
	if !b.rules() {
		return
	}
	b.win.addPace(now, p.slow)
	if p.slow {
		b.judgePace(now, b.slowLimit(now, p.kind()))
	}
}

// watch finds, without waiting for their end, the attempts that became slow,
// and the bucket that answers nobody.
func (b *bucket) watch(now time.Duration) {
	if !b.rules() {
		return
	}
	b.findPace(now)
	if b.u.settings.slowRule() {
		for k := range b.pace.fresh {
			b.watchSlow(now, kind(k))
		}
	}
	if b.rules() { // still
		b.watchStall(now)
	}
}

func (b *bucket) watchSlow(now time.Duration, k kind) {
	w := &b.pace
	l := w.limits[k]
	found := false
	for p := w.fresh[k].first; p != nil && now-p.start >= l; p = w.fresh[k].first {
		w.fresh[k].remove(p)
		w.late.push(p)
		p.slow, found = true, true
		b.win.addPace(now, true)
	}
	if found {
		b.judgePace(now, l)
	}
}

func (b *bucket) judgePace(now, limit time.Duration) {
	s, c := &b.u.settings, &b.win.sum
	if n := c.slow + c.fast; n >= s.minSamples() && reaches(c.slow, n, s.SlowRate) {
		b.trip(now, ForSlow, fmt.Sprintf("%d/%d slower than %s", c.slow, n, short(limit)))
	}
}

// watchStall opens a bucket in which enough attempts have waited for the time
// in which it lately answered ten, and it answered none. Those that have not
// waited for half as long again as is usual are no sign: a burst after a pause
// begins so too.
func (b *bucket) watchStall(now time.Duration) {
	w := &b.pace
	last, ten, ok := w.lately()
	if !ok {
		return
	}
	silent := max(ten, stallLeast)
	if now-last < silent {
		return
	}
	least := int(b.u.settings.minSamples())
	n := 0
	for k := range w.fresh {
		due := max(silent, w.usual[k]*3/2)
		for p := w.fresh[k].first; p != nil && n < least && now-p.start >= due; p = p.next {
			n++
		}
	}
	for p := w.late.first; p != nil && n < least && now-p.start >= silent; p = p.next {
		n++
	}
	if n >= least {
		waiting := w.fresh[unary].n + w.fresh[stream].n + w.late.n
		b.trip(now, ForSlow, fmt.Sprintf("%d waiting, none answered for %s", waiting, short(now-last)))
	}
}
