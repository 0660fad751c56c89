package evidence

import (
	"time"

	"failback/gateway/decision"
)

// The sources of a Baseline.
const (
	FromMinutes = "history"
	FromSLO     = "slo"
	FromDefault = "default"
)

const (
	// enoughRequests is what a history needs to be a baseline: of so many, a
	// class that is a part newClassRatio of the requests shows at least once
	// with 95 % confidence (0.998^1498 < 0.05). With fewer, what is usual would
	// look new. The success ratio is then known to about a quarter of the
	// default tolerance.
	enoughRequests = 1500
	// enoughMinutes keeps one busy moment from speaking for a day.
	enoughMinutes = 60
	// defaultSuccess is asked for where there is neither history nor slo.
	defaultSuccess = 0.99
	// Quantile is that of the first output.
	Quantile = 0.95
)

// Baseline is what a step is compared with.
type Baseline struct {
	Source   string  // history, slo or default
	Requests int     // of the history; 0 for the others
	Success  float64 // ratio
	// FirstOutput is not exceeded by a part Quantile of the first outputs.
	// HasFirstOutput is false for a history without any: then nothing of that
	// upstream streams and there is nothing to compare.
	FirstOutput    time.Duration
	HasFirstOutput bool
	Quantile       float64

	// assumed says that FirstOutput is neither promised nor from a history: it
	// may be that nothing streams.
	assumed bool
	// known is the history it was made of; nil for the others.
	known *tally
}

// Objective is a model's slo. Zero parts are not promised.
type Objective struct {
	Availability float64 // ratio
	// Ratio of the first outputs come under Under.
	Under time.Duration
	Ratio float64
}

// fromHistory makes a baseline of h; false if it has less than enoughRequests
// or enoughMinutes that are younger than historyAge.
func fromHistory(h *History, now time.Time) (Baseline, bool) {
	minutes, t := h.sum(now)
	if t.valid() < enoughRequests || minutes < enoughMinutes {
		return Baseline{}, false
	}
	b := Baseline{
		Source: FromMinutes, Requests: int(t.valid()), Quantile: Quantile,
		Success: float64(t.ok) / float64(t.valid()), known: &t,
	}
	b.FirstOutput, b.HasFirstOutput = t.first.Quantile(Quantile)
	return b, true
}

// FromObjective makes a baseline where no history does: of the model's slo and,
// for what that leaves open, of defaultSuccess and a p95 of ceiling
// (first_output.ceiling).
func FromObjective(o Objective, ceiling time.Duration) Baseline {
	b := Baseline{
		Source: FromDefault, Success: defaultSuccess,
		FirstOutput: ceiling, HasFirstOutput: true, Quantile: Quantile, assumed: true,
	}
	if o.Availability > 0 {
		b.Source, b.Success = FromSLO, o.Availability
	}
	if o.Under > 0 && o.Ratio > 0 {
		b.Source, b.FirstOutput, b.Quantile, b.assumed = FromSLO, o.Under, o.Ratio, false
	}
	return b
}

// knows reports whether failures of class c are nothing new. Without a history
// nobody can tell what is new: then the success ratio alone judges failures.
func (b Baseline) knows(c decision.Class) bool {
	return b.known == nil || b.known.failed[indexOf(c)] > 0
}

// beyond is the part of the baseline's own first outputs above limit, negative
// if it has none to ask.
func (b Baseline) beyond(limit time.Duration) float64 {
	if b.known == nil || b.known.first.n == 0 {
		return -1
	}
	return float64(b.known.first.Above(limit)) / float64(b.known.first.n)
}
