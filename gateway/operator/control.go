package operator

import (
	"context"

	"failback/gateway/operator/api"
)

// Control is the gateway as its operators command it. All methods are called
// concurrently. State must not block. A command's context does not end when
// the operator's connection does, but after a time limit.
//
// An error that is an *api.Error is answered as it is, with the HTTP status of
// its code; LastWrite of a stale_revision is filled in if nil. Any other error
// is answered as failed, with its text.
type Control interface {
	// State describes the gateway, Sessions those of other gateways alone. The
	// server fills in APIVersion, You, its own Sessions, LastWrite, Audit, and At
	// if zero.
	State(who api.You) api.State
	// SetShare: exactly one of c.Share (0 to 100), c.Undo and c.Action, which is
	// api.ActionPlan or api.ActionManual, is set. Override comes with a Reason.
	SetShare(ctx context.Context, who Actor, upstream string, c api.Command) (api.Result, error)
	// SetState: c.State is degraded or recovering. Override comes with a Reason.
	SetState(ctx context.Context, who Actor, upstream string, c api.Command) (api.Result, error)
	// SetBreaker: bucket is a well-formed decision.Bucket, c.Action is open,
	// close or auto, c.For is a valid duration (1h if none was given) unless
	// Action is auto.
	SetBreaker(ctx context.Context, who Actor, bucket string, c api.Command) (api.Result, error)
	// Passthrough: c.Action is on, with an Order and For (30m if none was
	// given), or off.
	Passthrough(ctx context.Context, who Actor, c api.Command) (api.Result, error)
	Reload(ctx context.Context, who Actor) (api.Result, error)
	// Incidents are those that are kept, newest first. Like Incident it must not
	// block.
	Incidents() api.Incidents
	// Incident is one of them; the error of an unknown one is an *api.Error.
	Incident(id string) (api.Incident, error)
	// ChangeIncident: action is one of the ActionIncident constants, id empty of
	// ActionIncidentOpen alone, and c well-formed for it. The result holds the
	// incident.
	ChangeIncident(ctx context.Context, who Actor, action, id string, c api.Command) (api.Result, error)
}

// Actor is who gives a command.
type Actor struct {
	Name string
	Role string // api.RoleOperator, always, when it reaches a Control
	Via  string // "socket", "socket token" or "tcp token"
}
