package decision

import "time"

// Kind names an event of the log and of the operator API.
type Kind string

const (
	KindDecision          Kind = "model_route_selected"
	KindBreakerTransition Kind = "breaker_transition"
	KindTrafficStep       Kind = "traffic_step"
	KindOperatorCommand   Kind = "operator_command"
	KindConfigReload      Kind = "config_reload"
	KindCredential        Kind = "credential"
	KindModelCooling      Kind = "model_cooling" // an upstream's model is left alone
	KindPassthrough       Kind = "passthrough"
	KindHealthTransition  Kind = "health_transition" // From and To are states of an upstream
	KindSharedFault       Kind = "shared_fault"      // To is begun, changed or ended
	KindProbe             Kind = "probe"
	KindEscalation        Kind = "escalation" // a person is needed: Required and Notified
)

// Event is a change that operators must be able to see, other than a decision.
// Fields that do not apply are empty. Nothing in it comes from a client's
// request, and it holds no secrets or hosts.
type Event struct {
	Kind       Kind
	Time       time.Time
	Provider   string
	Region     string
	Capability Capability
	Model      string
	From, To   string
	Reason     string // machine-readable: a Reason, a Class, or the kind's own word
	Detail     string // for people: "12/20 failed (server_error x11)"
	By         string // operator's name, Auto or ByPlan
	Why        string // what the operator typed
	Action     string // what was asked for: share, breaker, reload, ...
	Result     string // ok, refused, stale, failed
	Revision   uint64
	Required   string // KindEscalation: who is needed for what
	// Notified is where delivery was confirmed, NotifiedNone if nowhere: nobody
	// is said to have been told on less.
	Notified string
}

// NotifiedNone is Event.Notified of an escalation that reached nobody.
const NotifiedNone = "none"
