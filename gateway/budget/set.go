package budget

import (
	"sync"
	"time"

	"failback/gateway/decision"
	"failback/gateway/telemetry"
)

// Widths of what counts are kept by: hours for the budget, and fives for how
// fast it burns.
const (
	hourWidth = time.Hour
	fiveWidth = 5 * time.Minute
)

// fivesFor is how long fives are kept.
const fivesFor = SlowBurn + fiveWidth

// maxSpenders bounds the spenders of one hour; what comes on top is booked on
// other.
const maxSpenders = 16

// Set counts. Its methods may be called from any goroutine.
type Set struct {
	// start is the wall time at Up 0. It dates what is counted here: see steps.
	start time.Duration

	// mu guards everything that follows.
	mu         sync.Mutex
	objectives []Objective
	watched    map[string]*watched // by model
	counts     map[Key]*counts     // of this process, those without an objective any more included
	booked     time.Duration       // up to which Up serving is booked
	earlier    map[Key]Record      // of earlier processes of this gateway
	earlierAt  time.Duration       // Up when they were restored
	others     []Record            // of other gateways
}

// watched are the counts that one model's requests go into.
type watched struct {
	availability, firstOutput *counts // nil: no objective
	under                     time.Duration
}

// counts are those of one objective. Slots are numbered by the time since 1970
// that start and the monotonic clock make, in their width.
type counts struct {
	hours map[int64]*hour
	fives map[int64]*Tally
}

type hour struct {
	Tally
	served time.Duration
	by     map[Spender]uint64 // nil while nothing is bad
}

// New returns a set without objectives, whose Up is 0 at that wall time.
func New(start time.Time) *Set {
	return &Set{start: sinceEpoch(start), watched: map[string]*watched{}, counts: map[Key]*counts{}, earlier: map[Key]Record{}}
}

func sinceEpoch(t time.Time) time.Duration { return time.Duration(t.Unix()) * time.Second }

// Configure makes objectives those that are counted and reported from now on. What was
// counted of an objective stays under its name, judged as it was then, and goes
// on if the objective comes back.
func (s *Set) Configure(objectives []Objective, up time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve(up)
	s.objectives = objectives
	s.watched = map[string]*watched{}
	for _, o := range objectives {
		w := s.watched[o.Model]
		if w == nil {
			w = &watched{}
			s.watched[o.Model] = w
		}
		c := s.counts[o.key()]
		if c == nil {
			c = &counts{hours: map[int64]*hour{}, fives: map[int64]*Tally{}}
			s.counts[o.key()] = c
		}
		if o.Name == FirstOutput {
			w.firstOutput, w.under = c, o.Under
		} else {
			w.availability = c
		}
	}
}

// Observe counts d, which ended at up. A model without an objective is not
// counted.
func (s *Set) Observe(d *decision.Decision, up time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watched[d.Model]
	if w == nil {
		return
	}
	if w.availability != nil {
		switch telemetry.VerdictOf(d.Status, d.Reason) {
		case telemetry.Good:
			s.good(w.availability, up)
		case telemetry.Bad:
			s.bad(w.availability, up, blame(d))
		}
	}
	if w.firstOutput != nil {
		switch telemetry.FirstOutputVerdictOf(d, w.under) {
		case telemetry.Good:
			s.good(w.firstOutput, up)
		case telemetry.Bad:
			s.bad(w.firstOutput, up, blameLate(d))
		}
	}
}

func (s *Set) good(c *counts, up time.Duration) {
	s.hour(c, up).Good++
	s.five(c, up).Good++
}

func (s *Set) bad(c *counts, up time.Duration, by Spender) {
	h := s.hour(c, up)
	h.Bad++
	s.five(c, up).Bad++
	if h.by == nil {
		h.by = map[Spender]uint64{}
	}
	if _, known := h.by[by]; !known && len(h.by) >= maxSpenders-1 {
		by = Spender{other, other}
	}
	h.by[by]++
}

// slot is the number of the slot that up is in.
func (s *Set) slot(up, width time.Duration) int64 { return floorDiv(s.start+up, width) }

func floorDiv(a, width time.Duration) int64 {
	n := int64(a / width)
	if a%width < 0 {
		n--
	}
	return n
}

// hour returns the hour of up. A new one has those go that no window reaches.
func (s *Set) hour(c *counts, up time.Duration) *hour {
	n := s.slot(up, hourWidth)
	h := c.hours[n]
	if h == nil {
		h = &hour{}
		c.hours[n] = h
		for old := range c.hours {
			if n-old > maxHours {
				delete(c.hours, old)
			}
		}
	}
	return h
}

func (s *Set) five(c *counts, up time.Duration) *Tally {
	n := s.slot(up, fiveWidth)
	f := c.fives[n]
	if f == nil {
		f = &Tally{}
		c.fives[n] = f
		for old := range c.fives {
			if n-old > maxFives {
				delete(c.fives, old)
			}
		}
	}
	return f
}

// serve books the time up to up as served, on every objective there is.
func (s *Set) serve(up time.Duration) {
	for from := s.booked; from < up; {
		next := time.Duration(s.slot(from, hourWidth)+1)*hourWidth - s.start
		to := min(up, next)
		for _, o := range s.objectives {
			s.hour(s.counts[o.key()], from).served += to - from
		}
		from = to
	}
	s.booked = max(s.booked, up)
}

// steps is how far the wall clock was moved since the start, other than by time
// passing.
func (s *Set) steps(now Instant) time.Duration {
	return sinceEpoch(now.Wall) - s.start - now.Up.Truncate(time.Second)
}

// label is the number that slot n of this process has by the wall clock of now:
// the nearest, so that slots have labels of their own whatever the clock did.
func (s *Set) label(n int64, width time.Duration, now Instant) int64 {
	return n + floorDiv(s.steps(now)+width/2, width)
}
