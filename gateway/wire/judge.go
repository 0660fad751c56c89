package wire

import (
	"net/http"
	"time"

	"failback/gateway/decision"
)

// Verdict is what an answer, or a part of one, was.
type Verdict struct {
	Class         decision.Class
	RetryAfter    time.Duration // valid if HasRetryAfter; clamped
	HasRetryAfter bool
	ShouldRetry   decision.Advice
	// NamesModel says that the error was about the model, not the upstream.
	NamesModel bool
	// Code is the upstream's error code or type, cut to 64 visible characters.
	Code string
	// Detail says in our own fixed words what was wrong with a bad answer. It
	// is for operators and holds nothing of the answer.
	Detail string

	ResponseModel string // the model the answer names
	ResponseID    string // id of a stored response (Responses API), else empty
	InputTokens   int    // as reported, cached ones included; 0 if not
	OutputTokens  int
}

// Kind says what a frame is good for.
type Kind uint8

const (
	// Preamble: nothing of the answer yet. Hold it back.
	Preamble Kind = iota
	// Output: the frame carries content, reasoning or a tool call.
	Output
	// Other: a frame without output after the first output.
	Other
	// Terminal: the provider's own end of the stream. What follows it, if
	// anything, is relayed too.
	Terminal
	// Error: an error inside the stream, or a frame that is none. It is the
	// end of the attempt.
	Error
)

// Mark is the judgement of one frame.
type Mark struct {
	Kind Kind
	// Verdict is set for Terminal and Error only.
	Verdict Verdict
}

// StreamJudge judges the frames of one attempt's stream in their order. It is
// not safe for concurrent use.
type StreamJudge struct {
	ep Endpoint
}

// NewStreamJudge returns a judge of one stream that answers ep.
func NewStreamJudge(ep Endpoint) *StreamJudge { return &StreamJudge{ep: ep} }

// Judge says what frame is. It keeps nothing of it.
func (j *StreamJudge) Judge(frame []byte) Mark { return Mark{} }

// Finished reports whether the provider has said that the answer is whole: its
// terminal event, or a finish or stop reason, was seen. A stream that breaks
// after that is a success.
func (j *StreamJudge) Finished() bool { return false }

// End is the verdict if the stream ends here, cleanly or not: ok if it was
// finished, bad_response if nothing came, else interrupted. It always carries
// the model, id and usage seen so far.
func (j *StreamJudge) End() Verdict { return Verdict{} }

// JudgeUnary judges the whole body of a 2xx answer that is no event stream.
func JudgeUnary(ep Endpoint, body []byte) Verdict { return Verdict{} }

// JudgeError classifies an answer with a status other than 2xx. The body may
// be cut.
func JudgeError(d decision.Dialect, status int, h http.Header, body []byte) Verdict {
	return Verdict{}
}

// NamesModel reports whether an error body mentions model by name, outside
// longer words. JudgeError does not know the model that was asked for; who
// does can tell better whether a 404, 429, 503 or 529 was about the model only.
func NamesModel(body []byte, model string) bool { return false }
