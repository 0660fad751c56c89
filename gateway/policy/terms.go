package policy

import (
	"net/http"
	"time"

	"failback/gateway/decision"
)

// Fallback says which other candidates a task may be given to.
type Fallback string

const (
	Never     Fallback = "never"
	SameModel Fallback = "same_model"
	Any       Fallback = "any"
)

// OnUnavailable says what a task's request comes to when nobody may answer it.
type OnUnavailable string

const (
	Fail  OnUnavailable = "fail"
	Queue OnUnavailable = "queue"
	Human OnUnavailable = "human"
)

// Task is what the configuration says of one kind of work.
type Task struct {
	// Name is the configured name, or decision.TaskUnnamed or decision.TaskOther.
	Name          string
	Fallback      Fallback
	OnUnavailable OnUnavailable
	// SideEffects: a request that may have been processed is not sent again
	// unless it carries an operation id.
	SideEffects bool
	// Hold: the answer is released when it is complete, not before.
	Hold bool
	// Zones restricts candidates to upstreams that declare one of them; nil does not restrict.
	Zones []string
	// Deadline shortens the gateway's own; 0 does not.
	Deadline time.Duration
}

// Terms are the task's rules as they hold for one request.
type Terms struct {
	Task Task
	// OperationID: the request carries an id under which a repetition has no second effect.
	OperationID bool
	// Embeddings of another model are not comparable: they never go to a substitute.
	Embeddings bool
	// Bound: the request names something that only its upstream knows (a
	// stored response, a file); it is never switched.
	Bound bool
	// SwitchOnCredential and SwitchOnQuota: a dead key or an empty account of
	// the primary is passed by instead of failing closed.
	SwitchOnCredential bool
	SwitchOnQuota      bool
}

// Stage says how far a request had come when something stood in its way.
type Stage uint8

const (
	Unsent  Stage = iota // a candidate was skipped, nothing was sent to it
	Refused              // sent, and certainly not processed (see Unprocessed)
	Sent                 // sent, and perhaps processed; nothing was relayed
	Relayed              // output reached the client
)

// Candidate is what the rules must know of one.
type Candidate struct {
	// Primary with Substitute is where a bound request belongs that a
	// substitute answered before: not the model that was asked for.
	Primary       bool
	Substitute    bool
	LargerContext bool
}

// Cause is why a candidate did not answer: a class, or a reason for skipping it.
type Cause struct {
	Reason decision.Reason
	// AtPrimary says that it happened at the primary.
	AtPrimary bool
}

// Unprocessed reports whether the upstream certainly did not act on a request
// that ended with o: the connection never stood, the stream was refused, we
// gave it up before it was sent, or the status itself says that the request
// was turned away. An error inside a 200 says no such thing, nor does a status
// that a proxy gives when it lost the answer, whatever its body says.
func Unprocessed(o decision.Outcome) bool {
	switch o.Class {
	case decision.Connect, decision.DNS, decision.TLS, decision.Refused:
		return true
	case decision.LocalRefusal:
		return o.Unprocessed
	case decision.RateLimited, decision.Overloaded, decision.QuotaExhausted,
		decision.Credential, decision.ModelGone, decision.ContextLength:
		switch o.Status {
		case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
			return false
		}
		return o.Status >= 400
	}
	return false
}

// StageOf returns how far a request had come when an attempt ended with o.
func StageOf(o decision.Outcome) Stage {
	switch {
	case o.Relayed:
		return Relayed
	case Unprocessed(o):
		return Refused
	}
	return Sent
}
