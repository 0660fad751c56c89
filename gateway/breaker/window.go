package breaker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"failback/gateway/decision"
)

// failureClasses are the classes that count against a bucket; a count of them
// is kept by their place here.
var failureClasses = [...]decision.Class{
	decision.Connect, decision.DNS, decision.TLS, decision.Reset, decision.FirstOutputTimeout,
	decision.AttemptTimeout, decision.IdleTimeout, decision.ServerError, decision.Overloaded,
	decision.BadResponse, decision.Interrupted,
}

// classCounts counts failures by class.
type classCounts [len(failureClasses)]uint32

func (c *classCounts) add(class decision.Class) {
	if i := slices.Index(failureClasses[:], class); i >= 0 {
		c[i]++
	}
}

// String lists the classes met, the most frequent first: "server_error x11, reset x1".
func (c *classCounts) String() string {
	var met []int
	for i, n := range c {
		if n > 0 {
			met = append(met, i)
		}
	}
	slices.SortStableFunc(met, func(a, b int) int { return int(c[b]) - int(c[a]) })
	var s strings.Builder
	for i, m := range met {
		if i > 0 {
			s.WriteString(", ")
		}
		fmt.Fprintf(&s, "%s x%d", failureClasses[m], c[m])
	}
	return s.String()
}

// counts is what a window knows of the attempts in it.
type counts struct {
	ok, failed, limited uint32
	// slow and fast judge the wait for the first output, or for a whole unary
	// answer; an attempt that failed first was neither.
	slow, fast uint32
	classes    classCounts
}

func (c *counts) sub(o *counts) {
	c.ok -= o.ok
	c.failed -= o.failed
	c.limited -= o.limited
	c.slow -= o.slow
	c.fast -= o.fast
	if o.failed > 0 {
		for i := range c.classes {
			c.classes[i] -= o.classes[i]
		}
	}
}

const windowSlots = 30

// window sums counts over a sliding time in a ring of slots: adding and reading
// cost the same however many attempts there were. Nothing in it is older than
// the window; the oldest thirtieth of it may already be gone.
type window struct {
	width time.Duration // of a slot
	end   time.Duration // of the current slot
	index int64         // of the current slot, counted from time 0
	slots [windowSlots]counts
	sum   counts
}

// resize empties w and gives it a new length.
func (w *window) resize(length time.Duration) {
	*w = window{width: max(length, time.Second) / windowSlots}
}

func (w *window) reset() { *w = window{width: w.width} }

// advance drops what is too old.
func (w *window) advance(now time.Duration) {
	if now < w.end {
		return
	}
	index := int64(now / w.width)
	if index-w.index >= windowSlots {
		w.reset()
	} else {
		for i := w.index + 1; i <= index; i++ {
			s := &w.slots[i%windowSlots]
			w.sum.sub(s)
			*s = counts{}
		}
	}
	w.index = index
	w.end = time.Duration(index+1) * w.width
}

func (w *window) current() *counts { return &w.slots[w.index%windowSlots] }

func (w *window) addOK(now time.Duration) {
	w.advance(now)
	w.current().ok++
	w.sum.ok++
}

func (w *window) addFailed(now time.Duration, class decision.Class) {
	w.advance(now)
	c := w.current()
	c.failed++
	c.classes.add(class)
	w.sum.failed++
	w.sum.classes.add(class)
}

func (w *window) addLimited(now time.Duration) {
	w.advance(now)
	w.current().limited++
	w.sum.limited++
}

func (w *window) addPace(now time.Duration, slow bool) {
	w.advance(now)
	c := w.current()
	if slow {
		c.slow++
		w.sum.slow++
	} else {
		c.fast++
		w.sum.fast++
	}
}

const rateSeconds = 10

// rate counts events over the last 10 s, by the second.
type rate struct {
	slots [rateSeconds + 1]uint32 // the current second and the ten before it
	sum   uint32
	pos   int
	sec   int64
	end   time.Duration // of the current second
	first time.Duration // of the events counted without a pause of 10 s
}

func (r *rate) advance(now time.Duration) {
	if now < r.end {
		return
	}
	sec := int64(now / time.Second)
	if sec-r.sec >= int64(len(r.slots)) {
		*r = rate{}
	} else {
		for i := r.sec; i < sec; i++ {
			if r.pos++; r.pos == len(r.slots) {
				r.pos = 0
			}
			r.sum -= r.slots[r.pos]
			r.slots[r.pos] = 0
		}
	}
	r.sec = sec
	r.end = time.Duration(sec+1) * time.Second
}

func (r *rate) add(now time.Duration) {
	r.advance(now)
	if r.sum == 0 {
		r.first = now
	}
	r.slots[r.pos]++
	r.sum++
}

// count is the number of events in the last 10 s. Of the second that is only
// partly among them, it takes that part.
func (r *rate) count(now time.Duration) float64 {
	r.advance(now)
	oldest := r.slots[(r.pos+1)%len(r.slots)]
	gone := float64(now-time.Duration(r.sec)*time.Second) / float64(time.Second)
	return float64(r.sum) - gone*float64(oldest)
}

// perSecond is the mean rate of the last 10 s.
func (r *rate) perSecond(now time.Duration) float64 { return r.count(now) / rateSeconds }
