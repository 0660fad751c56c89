package decision

import "time"

// Advice is a yes or no that may not have been given. The zero value is
// "not given".
type Advice uint8

const (
	NotGiven Advice = iota
	Yes
	No
)

// Outcome is the classified end of one attempt.
type Outcome struct {
	Class Class
	// Status is the upstream's HTTP status, 0 if no answer came. An error
	// inside a 200 stream keeps 200 here; its class tells the truth.
	Status int
	// RetryAfter is how long the upstream asked to be left alone; HasRetryAfter
	// tells zero from absent. It is clamped where it is parsed.
	RetryAfter    time.Duration
	HasRetryAfter bool
	// ShouldRetry is the upstream's x-should-retry. It speaks of the same
	// candidate, never of others.
	ShouldRetry Advice
	// NamesModel says that a 404, 429 or 529 was about the model and not about
	// the upstream.
	NamesModel bool
	// Relayed says that output reached the client: nothing may replace it now.
	Relayed bool
	// Begun says that bytes of an answer went to the client, be it only a
	// keep-alive or a header.
	Begun bool
	// Unprocessed says that the upstream certainly did not act on the request.
	Unprocessed bool
	// FirstOutput is from the attempt's start to its first output; valid if HasFirstOutput.
	FirstOutput    time.Duration
	HasFirstOutput bool
	Duration       time.Duration

	UpstreamRequestID string
	ResponseModel     string // the model the answer names
	ResponseID        string // id of a stored response, to which later requests may be bound
	InputTokens       int    // as reported, 0 if not
	OutputTokens      int

	// ConnID is set if the attempt ended because a connection that carries
	// many requests (HTTP/2) was lost: attempts of one upstream with the same
	// ConnID are one piece of evidence, however many they are. 0 otherwise.
	ConnID uint64

	// Code is the upstream's machine-readable error code or type, cut to 64
	// visible characters. It is for operators.
	Code string
	// Detail is the operator's text: what failed, without hosts, keys or
	// anything of the request. Never sent to a client.
	Detail string
}
