package runbooks

import (
	"slices"
	"strings"
)

// Cause is what a Condition looks at, the gravest first.
type Cause uint8

const (
	Violation Cause = iota
	SharedFault
	OpenBreaker
	CoolingKeys
	RedSignal
	GoneModel
	FiringAlert
	Troubled
	BadHealth
	BurningBudget
	OverLimit
	FailedDependency
	BoundRate
	LoweredShare
	OpenIncident
)

// conditionKeys are the keys of the causes in front matter.
var conditionKeys = []string{
	Violation:        "violations",
	SharedFault:      "shared_fault",
	OpenBreaker:      "breaker",
	CoolingKeys:      "credential",
	RedSignal:        "signal",
	GoneModel:        "model",
	FiringAlert:      "alerts",
	Troubled:         "gateway",
	BadHealth:        "health",
	BurningBudget:    "budget",
	OverLimit:        "ratio",
	FailedDependency: "dependency",
	BoundRate:        "rate",
	LoweredShare:     "share",
	OpenIncident:     "incident",
}

// whenKeys are those below when; alerts stand beside it.
var whenKeys = slices.DeleteFunc(slices.Clone(conditionKeys), func(k string) bool { return k == "alerts" })

// literals are the only values of conditions that have one.
var literals = map[Cause]string{
	Violation:        "above 0",
	SharedFault:      "holds",
	GoneModel:        "gone",
	OverLimit:        "over limit",
	FailedDependency: "failed",
	BoundRate:        "bound",
	LoweredShare:     "below 100",
}

// The words that conditions may name: the gateway's own.
var (
	Reasons = []string{"failure_rate", "consecutive", "slow", "weight", "retry_budget", "rate_limited", "forced"}
	Classes = []string{"connect", "dns", "tls", "reset", "first_output_timeout", "attempt_timeout", "idle_timeout",
		"server_error", "overloaded", "rate_limited", "bad_response", "interrupted"}
	CredentialClasses = []string{"credential", "quota_exhausted"}
	HealthWords       = []string{"suspect", "degraded", "recovering"}
	SignalNames       = []string{"credential", "certificate"}
	Objectives        = []string{"availability", "first_output"}
	IncidentWords     = []string{"open", "traffic_back"}
)

// The words of the gateway's own troubles, the gravest first.
const (
	TroublePassthrough = "passthrough" // a fixed order holds
	TroubleDraining    = "draining"    // this gateway stops
	TroubleOverride    = "override"    // somebody holds a breaker open or closed
	TroubleStore       = "store"       // writes of the store fail
	TroubleUnsynced    = "unsynced"    // a share or a record is in force and not written down
	TroublePeer        = "peer"        // another gateway of the store is silent
	TroubleJob         = "job"         // a job is late
	TroubleNotify      = "notify"      // people who were to be told have not been
	TroublePing        = "ping"        // the dead man's switch is not held
	TroubleConfig      = "config"      // a reload was refused
	TroubleAudit       = "audit"       // entries of the audit wait, or are lost
	TroubleLog         = "log"         // lines of the decision log are dropped
	TroubleTraces      = "traces"      // the collector takes no spans
)

// Troubles lists them all.
var Troubles = append([]string{TroublePassthrough, TroubleDraining, TroubleOverride, TroubleStore, TroubleUnsynced, TroublePeer, TroubleJob}, unhurried...)

// unhurried are those that traffic does not care for, and that may stand for
// days: alone they propose a runbook behind those of a lowered share.
var unhurried = []string{TroubleNotify, TroublePing, TroubleConfig, TroubleAudit, TroubleLog, TroubleTraces}

// words are the lists that conditions choose from.
var words = map[Cause][]string{
	CoolingKeys:   CredentialClasses,
	RedSignal:     SignalNames,
	Troubled:      Troubles,
	BadHealth:     HealthWords,
	BurningBudget: Objectives,
	OpenIncident:  IncidentWords,
}

// Condition is one reason to propose a runbook.
type Condition struct {
	Kind Cause
	// Words are the words of Kind's list, or the names of alerts, of which any
	// will do; none: any at all.
	Words []string
	// Classes are of OpenBreaker: what attempts may have failed with most. None: any.
	Classes []string
}

// String says what holds when the condition does.
func (c Condition) String() string {
	or := strings.Join(c.Words, " or ")
	switch c.Kind {
	case Violation:
		return "a task fell back that may not"
	case SharedFault:
		return "several upstreams fail for a reason they share"
	case OpenBreaker:
		s := "a breaker opens"
		if len(c.Words) > 0 {
			s += " for " + or
		}
		if len(c.Classes) > 0 {
			s += ", most attempts having ended with " + strings.Join(c.Classes, " or ")
		}
		return s
	case CoolingKeys:
		return "the keys of an upstream cool for " + or
	case RedSignal:
		return "the signal " + or + " of an upstream is red"
	case GoneModel:
		return "an upstream does not know a configured model"
	case FiringAlert:
		return "the alert " + or + " fires"
	case Troubled:
		return "the gateway itself has trouble: " + or
	case BadHealth:
		return "the health of an upstream is " + or
	case BurningBudget:
		return "the error budget of " + or + " burns fast"
	case OverLimit:
		return "the fallback ratio is over its limit"
	case FailedDependency:
		return "a declared dependency fails"
	case BoundRate:
		return "429s bind the rate of an upstream"
	case LoweredShare:
		return "a share is below 100%"
	}
	if slices.Equal(c.Words, []string{"traffic_back"}) {
		return "the traffic of an open incident is back"
	}
	return "an incident is open"
}
