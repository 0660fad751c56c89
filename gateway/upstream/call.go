package upstream

import (
	"net/http"
	"time"

	"failback/gateway/wire"
)

// DefaultMaxHeld is how much of an answer is held back where a Call does not
// say.
const DefaultMaxHeld = 4 << 20

// MaxFrame bounds one frame of an event stream.
const MaxFrame = 32 << 20

// Call is one attempt to be made. It belongs to that attempt alone; its
// functions are called from the goroutine of Attempt.
type Call struct {
	Endpoint wire.Endpoint
	// Header is what the upstream may see of the client's headers
	// (wire.ForwardHeaders). It is not changed. Credentials and hop-by-hop
	// headers in it are left out all the same.
	Header http.Header
	// Body is the client's, Model the upstream's name for the model, which
	// stands in for Body[ModelStart:ModelEnd]. Body is not changed, nor read
	// after Attempt has returned.
	Body                 []byte
	ModelStart, ModelEnd int
	Model                string
	Stream               bool // the request asks for an event stream
	Choices              int  // wire.Facts.Choices
	// Hold keeps a stream back until it is whole. A unary answer always is.
	Hold bool
	// MaxHeld bounds what is held of an answer; above it the answer is
	// released as it comes. 0: DefaultMaxHeld.
	MaxHeld int64
	// MaxFrame bounds one frame of an event stream; what is longer is no
	// answer. 0: the constant of that name.
	MaxFrame int
	// Key is of PickKey, from the upstream that makes the attempt.
	Key Key
	// Fresh asks for a connection of its own: for an attempt after one that
	// ended as refused.
	Fresh bool

	// Traceparent and Tracestate tell the upstream which trace the attempt is part
	// of; empty: they are not sent.
	Traceparent, Tracestate string

	FirstOutput time.Duration // longest wait for output of a stream; 0: none
	// Whole bounds the attempt until its answer is released; 0: no limit.
	Whole time.Duration

	// Begin starts the client's answer. It is called at most once, before any
	// Write, when something will certainly be written. h is the upstream's own
	// header with lengths and encodings that fit what follows. An error of
	// Begin or Write means that the client is gone.
	Begin func(status int, h http.Header) error
	// Write sends p and flushes it. p is valid during the call only. Of a
	// stream it gets whole frames; frames that arrived together may come in
	// one call.
	Write func(p []byte) error
	// OnOutput, which may be nil, is called once when the first output was
	// seen, held or not; and before anything is released without that. From
	// then on the first-output watchdog is off. A unary answer that is held
	// does not call it.
	OnOutput func()
	// Buffers, which may be nil, accounts for what is held beyond the first
	// 32 KiB. Where it grants nothing, the answer is released as it comes.
	Buffers Buffers

	// ErrorAnswer is set by Attempt where the outcome is the caller's own
	// affair (invalid_request, context_length, content_filter) and nothing was
	// relayed: the upstream's answer as it should go back.
	ErrorAnswer *Answer
}

// Buffers accounts for memory shared by all requests. It is safe for
// concurrent use.
type Buffers interface {
	// Grow takes n bytes more, or reports false and takes none.
	Grow(n int) bool
	// Shrink gives n bytes back.
	Shrink(n int)
}

// Answer is a whole answer of an upstream. Its header fits the body; it is the
// upstream's own, for the router to filter.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}
