package decision

// Status is workflow_status: what a client request came to.
type Status string

const (
	Completed         Status = "completed"          // the primary answered
	DegradedCompleted Status = "degraded_completed" // another candidate did
	Queued            Status = "queued"
	Human             Status = "human"
	Unavailable       Status = "unavailable"
	Incomplete        Status = "incomplete" // the stream broke after output was relayed
	Cancelled         Status = "cancelled"  // the client left
	Rejected          Status = "rejected"   // the caller's mistake
	RefusedByUs       Status = "refused"    // rate, budget, draining, over capacity
)

// Statuses lists every workflow status.
var Statuses = []Status{Completed, DegradedCompleted, Queued, Human, Unavailable, Incomplete, Cancelled, Rejected, RefusedByUs}

// Route says which way an answer came.
type Route string

const (
	RoutePrimary  Route = "primary"
	RouteFallback Route = "fallback"
	RouteNone     Route = "none"
)

// Routes lists every route.
var Routes = []Route{RoutePrimary, RouteFallback, RouteNone}

// NoProvider is the provider label of a request nobody answered.
const NoProvider = "none"

// Reason says why the primary did not answer, or that it did. A Class is a
// reason too (ReasonOf). The same values say why a candidate was skipped.
type Reason string

const (
	PrimaryCompleted Reason = "primary_completed"
	Overflow         Reason = "overflow" // answered outside its share, nobody else could
	BreakerOpen      Reason = "breaker_open"
	Weight           Reason = "weight"
	Slow             Reason = "slow"
	Capacity         Reason = "capacity"
	NoCapability     Reason = "capability"
	Passthrough      Reason = "passthrough"
	UpstreamDegraded Reason = "upstream_degraded"
	TrafficShare     Reason = "traffic_share"
	SharedFault      Reason = "shared_fault"
	NotAllowed       Reason = "not_allowed"
	DataZone         Reason = "data_zone"
	CostCeiling      Reason = "cost_ceiling"
	RetryBudget      Reason = "retry_budget"
	Deadline         Reason = "deadline"
	QueueFull        Reason = "queue_full"
	Draining         Reason = "draining"
	Store            Reason = "store"
)

// Reasons lists every reason that is not a class.
var Reasons = []Reason{
	PrimaryCompleted, Overflow, BreakerOpen, Weight, Slow, Capacity, NoCapability, Passthrough,
	UpstreamDegraded, TrafficShare, SharedFault, NotAllowed, DataZone, CostCeiling, RetryBudget,
	Deadline, QueueFull, Draining, Store,
}

// ReasonOf returns the reason that is c.
func ReasonOf(c Class) Reason { return Reason(c) }

// Tasks that no configuration names.
const (
	TaskUnnamed = "unnamed" // the client gave none
	TaskOther   = "other"   // the client gave one that is not configured
)
