package api

import (
	"math"
	"time"
)

// Burn is a pace of an error budget that somebody is to know of: Part of it goes
// within Long, and no slower within Short, so that it ends soon after its cause.
type Burn struct {
	Part        float64
	Long, Short time.Duration
}

// These are the multi-window burn rates of the SRE workbook, chapter 5: 14.4 and
// 6 times too fast for a budget of 30 days. Alert rules and Budget.Burning hold
// a budget against the same.
var (
	FastBurn = Burn{0.02, time.Hour, 5 * time.Minute}
	SlowBurn = Burn{0.05, 6 * time.Hour, 30 * time.Minute}
)

// BurnMostBad is the part of the requests from which on any budget burns too fast
// where more are bad: a low objective, or a long window, would ask for more bad
// requests than there are.
const BurnMostBad = 0.9

// Times is how many times more requests than its objective allows are bad where
// the budget of a window burns faster than b. It is at least 1: a budget that is
// shorter than Long cannot burn faster than whole.
func (b Burn) Times(window time.Duration) float64 {
	return math.Round(max(b.Part*window.Hours()/b.Long.Hours(), 1)*1e6) / 1e6
}

// Values of Budget.Burning, besides empty.
const (
	BurningFast = "fast"
	BurningSlow = "slow"
)
