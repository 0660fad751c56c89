package router

import (
	"bytes"
	"net/http"
	"time"

	"failback/gateway/decision"
	"failback/gateway/policy"
	"failback/gateway/upstream"
	"failback/gateway/wire"
)

// Request is one client request as the loop needs it.
type Request struct {
	Endpoint wire.Endpoint
	Facts    wire.Facts
	// Header holds what may be forwarded of the client's headers; Body is the
	// client's body, not changed and not copied.
	Header http.Header
	Body   []byte

	Model *Model
	Terms policy.Terms
	Needs decision.CapabilitySet
	// Conversation decides on which side of a share the request is; ID where
	// a conversation is too large to be one.
	Conversation string
	ID           string
	// Accepted is when the request came, and where its time is counted from.
	Accepted time.Time
	// Deadline is the caller's own limit, counted from Accepted; 0 if there is none.
	Deadline time.Duration
	// BoundTo names what ties the request to one upstream, empty if nothing does.
	BoundTo []string
	Buffers upstream.Buffers
	// Traceparent is what upstreams are told where the request has no span of its
	// own (Decision.Span): the client's, empty without one. TraceFlags are those
	// of the request's own spans. Tracestate goes with either.
	Traceparent, Tracestate string
	TraceFlags              byte
}

// Held reports whether the answer is given to the client only when it is complete.
func (q *Request) Held() bool { return q.Facts.Stream && q.Terms.Task.Hold }

// bytesPerToken is far above what any tokenizer needs for text, so that a
// request is never ruled out by an estimate that was too high.
const bytesPerToken = 16

// exceeds reports whether the request is certainly too large for a context of
// so many tokens; 0 is one of unknown size. Of a request that carries images,
// sound or files the bytes say nothing.
func (q *Request) exceeds(context int) bool {
	out := max(q.Facts.MaxTokens, 0)
	switch {
	case context <= 0:
		return false
	case out > context:
		return true
	}
	return out+len(q.Body)/bytesPerToken > context &&
		!bytes.Contains(q.Body, []byte("base64")) && !bytes.Contains(q.Body, []byte("input_audio"))
}

// Answer is where an answer goes. Its methods are called by one goroutine.
type Answer interface {
	// Begin starts the answer. d is what the decision is so far: it names the
	// upstream that answers, and may change only by a failure midway.
	Begin(status int, h http.Header, d *decision.Decision) error
	// Write gives bytes to the client at once.
	Write(p []byte) error
	// Begun reports whether anything reached the client, a keep-alive included.
	Begun() bool
}

// End is how a request ended besides what its Decision records.
type End struct {
	// Ending is the client's error, its zero value when the answer is whole.
	Ending policy.Ending
	// Upstream is the upstream's own error answer, to be returned unchanged
	// where Ending.HTTPStatus is 0.
	Upstream *upstream.Answer
	// RetryAfter is when trying again may help; valid if HasRetryAfter.
	RetryAfter    time.Duration
	HasRetryAfter bool
}

// estimatedTokens is what the request is taken to cost of a tokens-per-minute
// limit before its usage is known.
func (q *Request) estimatedTokens() int {
	const bytesPerTokenOfText = 4
	return len(q.Body)/bytesPerTokenOfText + max(q.Facts.MaxTokens, 0)
}
