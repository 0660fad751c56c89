package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"failback/gateway/decision"
	"failback/gateway/internal/panicsite"
	"failback/gateway/policy"
	"failback/gateway/router"
	"failback/gateway/tracecontext"
	"failback/gateway/wire"
)

// exchange is one client request to an API endpoint, from its head to its record.
type exchange struct {
	g    *Gateway
	s    *setup
	ep   wire.Endpoint
	w    http.ResponseWriter
	r    *http.Request
	id   string
	key  *clientKey // nil: anonymous
	body heldBody
	// d is apart from the exchange: whoever keeps a decision must not keep the
	// request's body with it.
	d *decision.Decision
	// parent is the trace that the request is part of, if it is part of one.
	parent tracecontext.Parent
}

func (x *exchange) serve() {
	x.d = &decision.Decision{
		Time:        time.Now(),
		RequestID:   x.id,
		Endpoint:    x.ep.String(),
		Route:       decision.RouteNone,
		Task:        decision.TaskUnnamed,
		ClientRetry: clientRetry(x.r.Header),
	}
	x.place()
	// Counted until it is recorded: Stop waits for that.
	n := x.g.inflight.Add(1)
	defer x.g.inflight.Add(-1)
	abort := false
	defer func() {
		if p := recover(); p != nil {
			x.g.alarm(fmt.Sprintf("panic while serving a request: %v at %s", p, panicsite.Name()))
			x.d.Status, x.d.Reason, x.d.Route = decision.Unavailable, decision.ReasonOf(decision.Internal), decision.RouteNone
			abort = true
			x.body.block = nil // whoever looks at it still may go on
		}
		x.body.free(&x.g.memory)
		if x.d.Duration == 0 {
			x.d.Duration = time.Since(x.d.Time)
		}
		x.g.recordDecision(x.d)
		if abort {
			// The only way to tell a client that its answer is not whole.
			panic(http.ErrAbortHandler)
		}
	}()
	if n > x.s.maxInflight || x.g.closing.Load() {
		x.refuseLoad()
		return
	}
	if q := x.accept(); q != nil {
		abort = x.route(q)
	}
}

// accept reads and checks the request. It returns nil if it answered itself.
func (x *exchange) accept() *router.Request {
	key, ok := x.s.keys.find(x.r.Header)
	if !ok {
		x.reject(unknownKey(x.id))
		return nil
	}
	x.key = key
	if key != nil {
		x.d.Key = key.name
	}
	if !x.read() {
		return nil
	}
	facts, err := wire.ScanRequest(x.ep, x.body.bytes)
	if err != nil {
		f := wire.Failure{Status: http.StatusBadRequest, Code: "invalid_request", Message: err.Error()}
		if e, ok := errors.AsType[*wire.RequestError](err); ok {
			f.Message, f.Param = e.Message, e.Param
		}
		x.reject(f)
		return nil
	}
	x.d.Stream = facts.Stream
	model := x.s.plan.Models[facts.Model]
	if model == nil || model.Lineup(x.ep.Dialect()) == nil {
		x.reject(wire.Failure{
			Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
			Message: "this gateway has no such model on this endpoint; /v1/models lists what it has",
		})
		return nil
	}
	x.d.Model = model.Name
	if !key.mayUse(model.Name) {
		x.reject(wire.Failure{
			Status: http.StatusForbidden, Code: "model_not_allowed", Param: "model",
			Message: "this API key may not use this model",
		})
		return nil
	}
	return x.request(facts, model)
}

// read reads the body; false if it answered itself.
func (x *exchange) read() bool {
	rc := http.NewResponseController(x.w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyStall)) // best effort: the bounds below hold without it
	body, err := readBody(x.r, x.s.maxRequestBytes, &x.g.memory)
	_ = rc.SetReadDeadline(time.Time{})
	x.body = body
	switch {
	case err == nil:
		return true
	case errors.Is(err, errTooLarge):
		x.w.Header().Set("Connection", "close")
		x.reject(wire.Failure{
			Status: http.StatusRequestEntityTooLarge, Code: "request_too_large",
			Message: fmt.Sprintf("the request body is larger than the %d bytes this gateway takes", x.s.maxRequestBytes),
		})
	case errors.Is(err, errNoMemory):
		x.refuseLoad()
	case x.r.Context().Err() != nil:
		x.d.Status, x.d.Reason = decision.Cancelled, decision.ReasonOf(decision.ClientGone)
		x.d.HTTPStatus = policy.StatusClientGone
	default:
		x.w.Header().Set("Connection", "close")
		x.reject(wire.Failure{
			Status: http.StatusBadRequest, Code: "body_incomplete",
			Message: "the request body ended early or came too slowly",
		})
	}
	return false
}

// request puts together what the loop must know.
func (x *exchange) request(facts wire.Facts, model *router.Model) *router.Request {
	c := x.controls(facts)
	if len(c.ignored) > 0 {
		x.w.Header().Set("Failback-Warning", "without effect: "+strings.Join(c.ignored, ", "))
	}
	task := x.s.task(c.task)
	x.d.Task, x.d.Conversation, x.d.Turn = task.Name, c.conversationShown(), c.turn
	x.d.OperationID, x.d.StateVersion = c.operationID, c.stateVersion
	embeddings := x.ep == wire.Embeddings
	q := &router.Request{
		Endpoint: x.ep,
		Facts:    facts,
		Header:   make(http.Header, 8),
		Body:     x.body.bytes,
		Model:    model,
		Terms: policy.Terms{
			Task:               task,
			OperationID:        c.operationID != "",
			Embeddings:         embeddings,
			SwitchOnCredential: x.s.plan.SwitchOnCredential,
			SwitchOnQuota:      x.s.plan.SwitchOnQuota,
		},
		Needs:        decision.Needed(embeddings, facts.Stream, facts.Tools),
		Conversation: c.conversation,
		ID:           x.id,
		Accepted:     x.d.Time,
		Deadline:     c.deadline,
		Buffers:      &x.g.memory,
		Tracestate:   x.parent.State,
		TraceFlags:   x.parent.Flags,
	}
	if x.d.Span.IsZero() && x.parent.TraceID != "" {
		q.Traceparent = tracecontext.Format(x.parent.TraceID, x.parent.Span, x.parent.Flags)
	}
	if facts.Bound() {
		q.BoundTo = append([]string{facts.PreviousResponseID}, facts.BoundIDs...)
	}
	if c.silence > 0 && !q.Held() && (q.Deadline == 0 || c.silence < q.Deadline) {
		// Up to the first output, or to the whole answer, there is not one
		// byte; a held answer has its keep-alives.
		q.Deadline = c.silence
	}
	wire.ForwardHeaders(q.Header, x.r.Header, x.ep.Dialect())
	return q
}

// route lets the loop answer, and renders what it leaves to be said. It
// reports whether the connection must be broken off.
func (x *exchange) route(q *router.Request) (abort bool) {
	a := newAnswer(x.w, x.r, x.ep, x.id, q.Held())
	defer a.end(x.d)
	end := x.g.router.Route(x.r.Context(), x.s.plan, q, x.d, a)
	defer func() {
		x.d.HTTPStatus = a.Status()
		if x.d.HTTPStatus == 0 && x.d.Status == decision.Cancelled {
			x.d.HTTPStatus = policy.StatusClientGone
		}
	}()
	if end.Ending.Status == "" {
		return false
	}
	if x.d.Status == decision.Cancelled && x.r.Context().Err() != nil {
		return a.Begun() // nobody is there to be told
	}
	f := wire.Failure{
		Status: end.Ending.HTTPStatus, Code: end.Ending.Code, Message: end.Ending.Message, RequestID: x.id,
	}
	for _, attempt := range x.d.Attempts {
		f.Attempts = append(f.Attempts, wire.FailedAttempt{Upstream: attempt.Provider, Class: string(attempt.Outcome.Class)})
	}
	return a.fail(end, f, x.d)
}

// reject answers a mistake of the caller's that no upstream has seen.
func (x *exchange) reject(f wire.Failure) {
	x.d.Status, x.d.Reason = decision.Rejected, decision.ReasonOf(decision.InvalidRequest)
	x.w.Header().Set("X-Should-Retry", "false")
	x.refuse(f)
}

// refuseLoad answers a request for which there is no room, or no time before
// the listener closes.
func (x *exchange) refuseLoad() {
	x.d.Status, x.d.Reason = decision.RefusedByUs, decision.Capacity
	f := wire.Failure{
		Status: http.StatusServiceUnavailable, Code: "over_capacity",
		Message: "the gateway holds as many requests as it may; send the request again later",
	}
	h := x.w.Header()
	if x.g.closing.Load() {
		x.d.Reason, f.Code = decision.Draining, "draining"
		f.Message = "the gateway is shutting down; send the request again"
		h.Set("X-Should-Retry", "true")
	}
	h.Set("Retry-After", "1")
	h.Set("Connection", "close")
	x.refuse(f)
}

func (x *exchange) refuse(f wire.Failure) {
	f.RequestID = x.id
	x.d.HTTPStatus = f.Status
	h := x.w.Header()
	routeHeaders(h, "", x.d)
	h.Set("Content-Type", "application/json")
	x.w.WriteHeader(f.Status)
	_, _ = x.w.Write(wire.ErrorBody(x.ep.Dialect(), f))
}
