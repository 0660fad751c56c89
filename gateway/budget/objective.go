package budget

import "time"

// The names of objectives.
const (
	Availability = "availability"
	FirstOutput  = "first_output"
)

// Objective is what a model is held against.
type Objective struct {
	Model string
	Name  string // Availability or FirstOutput
	// Target is the part of the requests that is to be good, above 0, at most 1.
	Target float64
	Under  time.Duration // limit of a FirstOutput; 0 otherwise
	Window time.Duration // the time that the budget is for, at most MaxWindow
}

// MaxWindow is the longest window of an objective.
const MaxWindow = 90 * 24 * time.Hour

// Key names the counts of one objective: they stay when its target changes.
type Key struct{ Model, Objective string }

func (o Objective) key() Key { return Key{o.Model, o.Name} }

// Spender is who and what a bad request is booked on.
type Spender struct {
	Provider string // who failed first, or none
	Reason   string
}

// Tally counts requests.
type Tally struct{ Good, Bad uint64 }

func (t *Tally) add(o Tally) { t.Good += o.Good; t.Bad += o.Bad }

// Instant is one moment by both clocks.
type Instant struct {
	Wall time.Time
	Up   time.Duration // since the start of the Set, by the monotonic clock
}
