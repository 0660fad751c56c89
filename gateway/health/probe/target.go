package probe

import (
	"time"

	"failback/gateway/decision"
)

// DefaultEvery is the time between two probes of a target that names none.
const DefaultEvery = 90 * time.Second

// Target is one thing to be probed: a candidate (an upstream's model) and a
// capability of it. Upstream, Model and Capability name it.
type Target struct {
	Upstream   string
	Model      string // by the upstream's own name
	Capability decision.Capability
	// Every is the time between the begins of two probes; not positive:
	// DefaultEvery.
	Every time.Duration
	// MaxCostPerDay is in USD, for all targets of the candidate together, per
	// UTC day. 0 allows only free probes.
	MaxCostPerDay float64
	// Cost is what so many tokens cost, in USD. Nil: unknown. Then nothing is
	// counted and MaxCostPerDay binds nobody, which Status.Uncapped says.
	Cost func(input, output int) float64
	// Expect is about what one probe costs, in USD: none begins that would go
	// over the cap, and it stands for the cost of an answer that names no usage.
	Expect float64
	// Memo is for Attempt alone: what its last result of this target had there,
	// 0 before. Configure leaves it alone.
	Memo int
}

// id names a target.
type id struct {
	upstream, model string
	capability      decision.Capability
}

func (t *Target) id() id { return id{t.Upstream, t.Model, t.Capability} }

// candidate is who shares a daily cost.
type candidate struct{ upstream, model string }

func (i id) candidate() candidate { return candidate{i.upstream, i.model} }

// Verdict is what a result says of its target.
type Verdict uint8

const (
	// Unknown: it was not sent, or its end was our own affair.
	Unknown Verdict = iota
	Passed
	Failed
)

// Result is the end of one probe, or of the try to send one.
type Result struct {
	// Outcome is the attempt's, as for a client's request.
	Outcome decision.Outcome
	// Held says why nothing was sent: a reason of package decision. Empty if it
	// was. RetryIn is then when it might be, 0 if nobody knows.
	Held    string
	RetryIn time.Duration
	// Memo comes back as the Target's, next time.
	Memo int

	// The prober sets the rest.

	Target         Target
	At             time.Time // when it began
	Took           time.Duration
	CostUSD        float64 // 0 where prices are not known
	Passed, Failed int     // in a row, this one included
}

// Verdict is passed for a success, failed where the upstream, its model or a
// credential of ours is to blame: clients would fare the same.
func (r *Result) Verdict() Verdict {
	switch {
	case r.Held != "":
		return Unknown
	case r.Outcome.Class == decision.OK:
		return Passed
	}
	switch r.Outcome.Class.Blame() {
	case decision.OfBucket, decision.OfAdmission, decision.OfCredential, decision.OfUpstreamModel:
		return Failed
	}
	return Unknown
}

// Status is a target at one moment.
type Status struct {
	Target Target
	// Every is what is kept to now, before jitter.
	Every time.Duration
	// Last is the last result of a probe that was sent; valid if HasLast.
	Last    Result
	HasLast bool
	// Next is when it is probed next, if nothing holds it; past if it waits for
	// others to end.
	Next    time.Time
	Running bool
	// Passed and Failed count in a row; both are 0 after one that says nothing.
	Passed, Failed int
	// SpentUSD is what the candidate's probes cost today (UTC), all its
	// capabilities together. Without prices it is 0 and Uncapped is set: the
	// cost is unknown, and no cap can bind.
	SpentUSD float64
	Uncapped bool
	// Held says why there is no probe: HeldCost, or the Held of the last try.
	Held string
}

// HeldCost is the Held of a target whose daily cost is used up.
const HeldCost = "daily cost used up"
