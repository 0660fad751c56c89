package breaker

import (
	"time"

	"failback/gateway/decision"
)

// Snapshot is one bucket at one moment.
type Snapshot struct {
	Bucket decision.Bucket
	Region string
	State  string    // closed, open, half_open or ramping
	Reason string    // of the last opening while not closed
	Detail string    // of the last opening while not closed
	Since  time.Time // of the state
	// NextProbeAt is when an open bucket lets a probe through; ProbeDue says
	// that it would now and waits for traffic.
	NextProbeAt time.Time
	ProbeDue    bool
	Probes      int // allowed at once in half-open, and successes needed
	ProbesOut   int
	ProbesOK    int
	RampLimit   int // admitted in flight while ramping
	InFlight    int
	Samples     int // in the window: ended well or failed
	Failures    int
	Run         int // failed requests in a row
	// Forced is open or closed while an operator's override lasts.
	Forced      string
	ForcedBy    string
	ForcedUntil time.Time
	Mode        string  // enforce or shadow
	AdmittedRPS float64 // admitted after 429s, 0 when not bound
	Weights     []ModelWeight
	// Blocked counts refusals by this bucket; ShadowBlocked those that did not bind.
	Blocked, ShadowBlocked uint64
}

// ModelWeight is what a bucket makes of the weight of one model.
type ModelWeight struct {
	Model    string
	Ratio    float64 // effective weight ÷ configured weight
	Attempts int     // it was measured over; below 20 the ratio is 1
	Failed   int
}
