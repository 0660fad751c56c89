package telemetry

import (
	"slices"

	"failback/gateway/decision"
)

// Which label values can meet: the series that exist at 0 before anything
// happened. What is not listed here and happens all the same is counted all the
// same; a test holds the lists against what the gateway can decide.

// providedOutcomes are what a request can come to that somebody answered.
func providedOutcomes(route decision.Route) []decision.Status {
	answered := decision.Completed
	if route == decision.RouteFallback {
		answered = decision.DegradedCompleted
	}
	return []decision.Status{answered, decision.Incomplete, decision.Cancelled}
}

// noneOutcomes are what a request can come to that nobody answered.
var noneOutcomes = []decision.Status{decision.Unavailable, decision.Cancelled, decision.Rejected, decision.RefusedByUs}

// passedReasons are why a primary was left, or passed by, for another candidate.
var passedReasons = []decision.Reason{
	decision.ReasonOf(decision.Connect), decision.ReasonOf(decision.DNS), decision.ReasonOf(decision.TLS),
	decision.ReasonOf(decision.Reset), decision.ReasonOf(decision.Refused),
	decision.ReasonOf(decision.FirstOutputTimeout), decision.ReasonOf(decision.AttemptTimeout),
	decision.ReasonOf(decision.IdleTimeout), decision.ReasonOf(decision.ServerError),
	decision.ReasonOf(decision.Overloaded), decision.ReasonOf(decision.RateLimited),
	decision.ReasonOf(decision.QuotaExhausted), decision.ReasonOf(decision.Credential),
	decision.ReasonOf(decision.ModelGone), decision.ReasonOf(decision.BadResponse),
	decision.ReasonOf(decision.Interrupted), decision.ReasonOf(decision.ContextLength),
	decision.BreakerOpen, decision.Weight, decision.Slow, decision.RetryBudget, decision.Capacity,
	decision.NoCapability, decision.Passthrough, decision.UpstreamDegraded, decision.TrafficShare,
	decision.SharedFault, decision.DataZone,
}

// stoppedReasons are further causes that end a request without an answer.
var stoppedReasons = []decision.Reason{
	decision.ReasonOf(decision.Internal), decision.ReasonOf(decision.Unknown),
	decision.NotAllowed, decision.Deadline,
}

// callersReasons are causes that are the caller's.
var callersReasons = []decision.Reason{
	decision.ReasonOf(decision.InvalidRequest), decision.ReasonOf(decision.ContentFilter),
	decision.ReasonOf(decision.ContextLength), decision.ReasonOf(decision.ClientGone),
	decision.ReasonOf(decision.CallerDeadline),
}

// brokenReasons are why an answer of the primary broke off after output.
var brokenReasons = []decision.Reason{
	decision.ReasonOf(decision.Reset), decision.ReasonOf(decision.AttemptTimeout),
	decision.ReasonOf(decision.IdleTimeout), decision.ReasonOf(decision.ServerError),
	decision.ReasonOf(decision.Overloaded), decision.ReasonOf(decision.RateLimited),
	decision.ReasonOf(decision.BadResponse), decision.ReasonOf(decision.Interrupted),
	decision.ReasonOf(decision.Internal), decision.ReasonOf(decision.Unknown),
}

// leftReasons are those of an answer whose client left before its end.
var leftReasons = []decision.Reason{
	decision.ReasonOf(decision.ClientGone), decision.ReasonOf(decision.CallerDeadline),
	decision.PrimaryCompleted,
}

// triggeredReasons are those of a request that left its primary, whatever it
// came to.
var triggeredReasons = slices.Concat(passedReasons, stoppedReasons, []decision.Reason{
	decision.ReasonOf(decision.ContentFilter), decision.ReasonOf(decision.InvalidRequest),
	decision.ReasonOf(decision.ClientGone), decision.ReasonOf(decision.CallerDeadline),
})

// Who took a traffic step. Names of people are in the log, never in a metric.
const (
	byOperator = "operator"
	byPlan     = "plan" // that an operator approved
	byAuto     = decision.Auto
)

// whoLabel is by without a name.
func whoLabel(by string) string {
	switch {
	case by == decision.Auto:
		return byAuto
	case decision.ByMachine(by):
		return byPlan
	}
	return byOperator
}

// healthStates are the states of an upstream.
var healthStates = []string{"healthy", "suspect", "degraded", "recovering"}

func healthLabel(s string) string {
	if slices.Contains(healthStates, s) {
		return s
	}
	return Other
}

// breakerStates are the states of a bucket.
var breakerStates = []string{"closed", "open", "half_open", "ramping"}

var knownReasons = func() map[decision.Reason]bool {
	m := map[decision.Reason]bool{}
	for _, r := range decision.Reasons {
		m[r] = true
	}
	for _, c := range decision.Classes {
		m[decision.ReasonOf(c)] = true
	}
	return m
}()

// reasonLabel is r, or Other if it is no word of the vocabulary.
func reasonLabel(r decision.Reason) string {
	if knownReasons[r] {
		return string(r)
	}
	return Other
}
