package health

import (
	"time"

	"failback/gateway/decision"
)

// Condition is what the share table says of an upstream. It is derived from the
// share and the failback under way, so the two cannot contradict each other.
type Condition uint8

// The conditions.
const (
	Whole        Condition = iota // no failback under way: healthy or suspect
	IsDegraded                    // share 0
	IsRecovering                  // a failback at a share above 0
)

// Verdict is what the evidence of the step in force says.
type Verdict uint8

// The verdicts.
const (
	NoData Verdict = iota // hold
	Pass
	Fail
)

// Advance says who takes the steps up.
type Advance uint8

// The ways to advance.
const (
	Manual Advance = iota // an operator each
	Plan                  // an operator once for the whole table, then the evidence
	Auto                  // the evidence alone
)

// Openings counts, by capability, how often a breaker of one upstream went from
// closed to open since the gateway began. Only its growth matters, so the
// counters may start anywhere.
type Openings [capabilities]uint64

const capabilities = 4

// Count adds an opening of the bucket of c.
func (o *Openings) Count(c decision.Capability) {
	for i, known := range decision.Capabilities {
		if c == known {
			o[i]++
		}
	}
}

// Facts is all that Step is told of one upstream.
type Facts struct {
	Settings Settings
	Upstream string
	Signals  []Signal
	Openings Openings

	// From the share table.
	Condition Condition
	Share     int
	Next      int // share of the next step up, 0 if there is none
	// Passed are the shares whose window passed in this failback.
	Passed   []int
	Retreats int  // of this failback
	Machine  bool // degraded by the machine, not by an operator
	// HeldFull is how long the gateway served since 100 % was reached, 0 below it.
	HeldFull time.Duration
	// Reason is the condition's, for people.
	Reason string

	// Last says that no other candidate that is not degraded can serve some
	// endpoint of some model.
	Last bool
	// OtherAdmits says that another candidate takes its requests now.
	OtherAdmits bool
	// SharedFault says that it fails for a reason others share: see Fault.Spares.
	SharedFault bool

	Evidence Verdict // of the step in force
	// EvidenceText says for people what the verdict rests on.
	EvidenceText string
	// Probed says that the last two probes of each candidate and capability passed.
	Probed bool

	Advance Advance
	Plan    bool // an operator approved the whole table
}

// full is the share of an upstream that is not held back.
const full = 100

// climbs reports whether the machine may raise the share without asking again.
func (f *Facts) climbs() bool {
	return f.Plan || f.Advance == Auto && f.Retreats < MaxRetreats
}

// back returns the share that a retreat comes to, 0 being degraded.
func (f *Facts) back() int {
	to := 0
	for _, share := range f.Passed {
		if share < f.Share && share > to {
			to = share
		}
	}
	return to
}
