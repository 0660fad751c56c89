package policy

import (
	"net/http"

	"failback/gateway/decision"
)

// Ending is what a request without an answer comes to.
type Ending struct {
	Status decision.Status
	// HTTPStatus is the client's; 0 means that the upstream's own status and
	// body go back unchanged.
	HTTPStatus int
	// Code is the machine-readable error code in the client's dialect.
	Code string
	// Message is the client's text.
	Message string
	// Retryable: a client may usefully try again after Retry-After, because
	// nothing was attempted and policy did not refuse.
	Retryable bool
}

// Finish is how a request without an answer stopped.
type Finish struct {
	// Last is the last cause: why the last candidate that could have answered did not.
	Last decision.Reason
	// Attempted: something was sent to an upstream.
	Attempted bool
	// PolicyRefused: a candidate stood by whom policy did not allow.
	PolicyRefused bool
}

// End says what a request that stopped as f came to.
func End(t Terms, f Finish) Ending {
	if f.Attempted && CallersMistake(decision.Class(f.Last)) {
		return Ending{Status: decision.Rejected}
	}
	switch decision.Class(f.Last) {
	case decision.ContextLength:
		return Ending{
			Status: decision.Rejected, HTTPStatus: http.StatusBadRequest, Code: "context_length_exceeded",
			Message: "the request is larger than the context of every model that may answer it; shorten it",
		}
	case decision.ClientGone:
		return Ending{Status: decision.Cancelled, HTTPStatus: StatusClientGone, Code: "client_gone", Message: "the client closed the request"}
	case decision.CallerDeadline:
		return Ending{
			Status: decision.Cancelled, HTTPStatus: http.StatusGatewayTimeout, Code: "caller_deadline",
			Message: "the request's own deadline passed before an answer was complete",
		}
	case decision.Internal:
		return Ending{
			Status: decision.Unavailable, HTTPStatus: http.StatusInternalServerError, Code: "internal_error",
			Message: "the gateway failed to handle the request",
		}
	}
	if f.Last == decision.Draining {
		return Ending{
			Status: decision.RefusedByUs, HTTPStatus: http.StatusServiceUnavailable, Code: "draining",
			Message: "the gateway is shutting down; send the request again", Retryable: true,
		}
	}
	e := unavailable(f)
	switch t.Task.OnUnavailable {
	case Queue:
		e.HTTPStatus, e.Code = http.StatusServiceUnavailable, "queue_not_available"
		e.Message, e.Retryable = "no upstream could answer this request now, and it could not be queued", false
	case Human:
		e.HTTPStatus, e.Code = http.StatusServiceUnavailable, "human_not_available"
		e.Message, e.Retryable = "no upstream may answer this request now; it needs a person, and none could be assigned", false
	}
	return e
}

// Unread is what a caller's mistake of class c comes to where the upstream's own
// answer, which had that status, cannot go back: it broke off, or is of a shape
// that no client reads. The status still says whose fault it is.
func Unread(c decision.Class, status int) Ending {
	e := Ending{
		Status: decision.Rejected, HTTPStatus: status, Code: string(c),
		Message: "the upstream refused the request, and its answer could not be read",
	}
	if c == decision.ContextLength {
		e.Code = "context_length_exceeded"
	}
	if status < 400 || status > 499 {
		e.HTTPStatus = http.StatusBadRequest
	}
	return e
}

// CallersMistake reports whether an answer of this class is about the request
// itself, so that its status and body go back to the caller unchanged.
func CallersMistake(c decision.Class) bool {
	switch c {
	case decision.InvalidRequest, decision.ContentFilter, decision.ContextLength:
		return true
	}
	return false
}

// Broken is what an answer comes to that broke off after output was relayed:
// all that can still be said is one error event.
func Broken(s decision.Status) Ending {
	return Ending{
		Status: s, HTTPStatus: http.StatusBadGateway, Code: "stream_interrupted",
		Message: "the upstream's answer ended early; what was received is incomplete",
	}
}

// StatusClientGone is what is recorded for a client that left; nobody receives it.
const StatusClientGone = 499

func unavailable(f Finish) Ending {
	e := Ending{Status: decision.Unavailable, HTTPStatus: statusOf(f.Last), Retryable: !f.Attempted && !f.PolicyRefused}
	switch e.HTTPStatus {
	case http.StatusTooManyRequests:
		e.Code, e.Message = "upstream_rate_limited", "every upstream that may answer this request is rate limited"
	case http.StatusGatewayTimeout:
		e.Code, e.Message = "upstream_timeout", "no upstream answered in time"
	case http.StatusServiceUnavailable:
		e.Code, e.Message = "upstream_unavailable", "every upstream that may answer this request is out of rotation"
	default:
		e.Code, e.Message = "upstream_failed", "no upstream could answer this request"
	}
	if f.Last == decision.SharedFault {
		e.Message = "the upstreams that may answer this request fail for a reason they share"
	}
	if f.PolicyRefused {
		e.Code, e.Message = "fallback_not_allowed", "the upstream for this request is unavailable, and policy allows no other"
	}
	return e
}

// statusOf returns the client's status for a total failure: one that blames
// the upstreams, and never 401, which would blame the caller's key.
func statusOf(last decision.Reason) int {
	switch decision.Class(last) {
	case decision.RateLimited:
		return http.StatusTooManyRequests
	case decision.FirstOutputTimeout, decision.AttemptTimeout, decision.IdleTimeout:
		return http.StatusGatewayTimeout
	case decision.Overloaded:
		return http.StatusServiceUnavailable
	}
	switch last {
	case decision.Deadline:
		return http.StatusGatewayTimeout
	case decision.BreakerOpen, decision.Weight, decision.Slow, decision.RetryBudget, decision.Capacity,
		decision.TrafficShare, decision.UpstreamDegraded, decision.SharedFault, decision.Overflow,
		decision.Passthrough, decision.NotAllowed, decision.DataZone, decision.NoCapability:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}
