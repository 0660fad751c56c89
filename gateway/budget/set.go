package budget

import (
	"maps"
	"sync"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
	"failback/gateway/telemetry"
)

// Widths of what counts are kept by: hours for the budget, and fives for how
// fast it burns.
const (
	hourWidth = time.Hour
	fiveWidth = 5 * time.Minute
)

// fivesFor is how long fives are kept.
var fivesFor = api.SlowBurn.Long + fiveWidth

// maxSpenders bounds the spenders of one hour; what comes on top is booked on
// other.
const maxSpenders = 16

// Set counts. Its methods may be called from any goroutine; Observe waits for
// none of the others.
type Set struct {
	// start is the wall time at Up 0. It dates what is counted here: see steps.
	start time.Duration

	// reading guards everything that follows up to mu.
	reading    sync.Mutex
	objectives []Objective
	counts     map[Key]*counts // of this process, those without an objective any more included
	booked     time.Duration   // up to which Up serving is booked
	earlier    map[Key]Record  // of earlier processes of this gateway
	earlierAt  time.Duration   // Up when they were restored
	others     []Record        // of other gateways
	changes    uint64          // of objectives, earlier and others

	// mu guards everything that follows, and what is fresh in counts. Whoever
	// holds reading may take it, for a moment.
	mu      sync.Mutex
	watched map[string]*watched // by model
}

// watched are the counts that one model's requests go into.
type watched struct {
	availability, firstOutput *counts // nil: no objective
	under                     time.Duration
}

// counts are those of one objective.
type counts struct {
	fresh slots // what was observed since the last look at the whole
	kept  slots
	past  *past // nil: not summed up yet
}

// slots are numbered by the time since 1970 that start and the monotonic clock
// make, in their width.
type slots struct {
	hours map[int64]*hour
	fives map[int64]*Tally
}

func newSlots() slots { return slots{map[int64]*hour{}, map[int64]*Tally{}} }

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
	s.reading.Lock()
	defer s.reading.Unlock()
	s.serve(up)
	s.objectives = objectives
	s.changes++
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched = map[string]*watched{}
	for _, o := range objectives {
		w := s.watched[o.Model]
		if w == nil {
			w = &watched{}
			s.watched[o.Model] = w
		}
		c := s.counts[o.key()]
		if c == nil {
			c = &counts{fresh: newSlots(), kept: newSlots()}
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
	slotOf(c.fresh.hours, s.slot(up, hourWidth)).Good++
	slotOf(c.fresh.fives, s.slot(up, fiveWidth)).Good++
}

func (s *Set) bad(c *counts, up time.Duration, by Spender) {
	h := slotOf(c.fresh.hours, s.slot(up, hourWidth))
	h.Bad++
	h.spend(by, 1)
	slotOf(c.fresh.fives, s.slot(up, fiveWidth)).Bad++
}

func (h *hour) spend(by Spender, n uint64) {
	if h.by == nil {
		h.by = map[Spender]uint64{}
	}
	if _, known := h.by[by]; !known && len(h.by) >= maxSpenders-1 {
		by = Spender{other, other}
	}
	h.by[by] += n
}

// add adds what o counted.
func (h *hour) add(o *hour) {
	h.Tally.add(o.Tally)
	h.served += o.served
	for by, n := range o.by {
		h.spend(by, n)
	}
}

func slotOf[T any](slots map[int64]*T, at int64) *T {
	t := slots[at]
	if t == nil {
		t = new(T)
		slots[at] = t
	}
	return t
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

// look brings counts up to now: what is fresh is kept, and the time since the
// last look was served. Slots beyond what a Record holds go.
func (s *Set) look(up time.Duration) {
	s.serve(up)
	s.mu.Lock()
	defer s.mu.Unlock()
	hourNow, fiveNow := s.slot(up, hourWidth), s.slot(up, fiveWidth)
	for _, c := range s.counts {
		for n, h := range c.fresh.hours {
			if n != hourNow {
				c.past = nil
			}
			slotOf(c.kept.hours, n).add(h)
		}
		for n, f := range c.fresh.fives {
			slotOf(c.kept.fives, n).add(*f)
		}
		clear(c.fresh.hours)
		clear(c.fresh.fives)
		drop(c.kept.hours, hourNow, maxHours)
		drop(c.kept.fives, fiveNow, maxFives)
	}
}

// drop removes slots older than most if there are more.
func drop[T any](slots map[int64]T, now, most int64) {
	if int64(len(slots)) > most {
		maps.DeleteFunc(slots, func(n int64, _ T) bool { return n <= now-most })
	}
}

// serve books the time up to up as served, on every objective there is.
func (s *Set) serve(up time.Duration) {
	for from := s.booked; from < up; {
		n := s.slot(from, hourWidth)
		to := min(up, time.Duration(n+1)*hourWidth-s.start)
		for _, o := range s.objectives {
			slotOf(s.counts[o.key()].kept.hours, n).served += to - from
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
