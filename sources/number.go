package sources

import (
	"math"
	"time"

	"failback/gateway/operator/api"
)

// State is what may be believed of a number. No data, zero, idle, stale and
// unknown are different things.
type State uint8

const (
	Waiting State = iota // the first answer is not there yet
	Value                // measured, the sample is younger than two periods
	Ageing               // two to three periods old, or its source does not answer
	Unknown              // older than three periods, or a source that never answered
	None                 // the source answered: there is no such series
	Idle                 // 0/0: nothing to measure
)

func (s State) String() string {
	switch s {
	case Waiting:
		return "waiting"
	case Value:
		return "value"
	case Ageing:
		return "ageing"
	case Unknown:
		return "unknown"
	case None:
		return "none"
	case Idle:
		return "idle"
	}
	return "?"
}

// Number is one number as it may be shown now.
type Number struct {
	State State
	Value float64 // the last one known; also of an unknown number, NaN if there never was one
	// Over says that the true value is over Value.
	Over bool
	// Age is how old the sample is; of a number that never was, 0.
	Age time.Duration
	// At is when the sample was taken, by the source's clock.
	At time.Time
	// Dim says that it is not as young as it should be: of Ageing always, of
	// None and Idle when their sample is.
	Dim bool
}

// Judge says what may be believed at our time now of a sample n that came with
// the exchange c. A source is expected to have a new sample every period;
// failing says that its last answer was an error. A source never heard of is c
// zero and n zero.
//
// The age is that of the sample, not of the exchange: queries may go on
// succeeding while what they ask about stands still.
func Judge(n api.Number, c Clock, now time.Time, period time.Duration, failing bool) Number {
	if c.At.IsZero() {
		if failing {
			return Number{State: Unknown, Value: math.NaN()}
		}
		return Number{State: Waiting, Value: math.NaN()}
	}
	at := n.At
	if at.IsZero() {
		at = c.At
	}
	v := Number{Value: n.Value, At: at, Age: max(c.Now(now).Sub(at), 0)}
	switch {
	case n.State == StateWaiting:
		v.State = Waiting
	case n.State == api.StateNone:
		v.State = None
	case n.State == api.StateIdle, n.State == api.StateValue && math.IsNaN(n.Value):
		v.State = Idle
	case n.State == api.StateValue && !math.IsInf(n.Value, 0):
		v.State = Value
	default:
		v.State = Unknown // a state of a version to come
		return v
	}
	switch {
	case v.Age >= 3*period:
		v.State, v.Dim = Unknown, true
	case v.Age >= 2*period || failing:
		v.Dim = true
		if v.State == Value {
			v.State = Ageing
		}
	}
	return v
}
