package wire

import (
	"encoding/json"

	"failback/gateway/decision"
)

// Failure is an error of ours as a client sees it. None of its texts may hold
// hosts, keys or upstream prose.
type Failure struct {
	Status    int    // HTTP status it would have; chooses Type if that is empty
	Code      string // machine-readable, may be empty
	Type      string // the dialect's error type; empty: ErrorType(dialect, Status)
	Message   string
	Param     string // request field at fault, may be empty
	RequestID string
	Attempts  []FailedAttempt
}

// FailedAttempt is one attempt as a client may know it: by alias and class.
type FailedAttempt struct {
	Upstream string `json:"upstream"`
	Class    string `json:"class"`
}

type openAIError struct {
	Message  string          `json:"message"`
	Type     string          `json:"type"`
	Param    *string         `json:"param"` // the SDKs require the key, also for null
	Code     *string         `json:"code"`
	Attempts []FailedAttempt `json:"attempts,omitempty"`
}

type openAIBody struct {
	Error     openAIError `json:"error"`
	RequestID string      `json:"request_id,omitempty"`
}

// responsesError is the error event of a Responses stream. The API's reference
// has its fields flat, the API sends them under "error", and SDKs look for
// either: so both.
type responsesError struct {
	Type           string      `json:"type"`
	Code           *string     `json:"code"`
	Message        string      `json:"message"`
	Param          *string     `json:"param"`
	SequenceNumber int         `json:"sequence_number"`
	Error          openAIError `json:"error"`
	RequestID      string      `json:"request_id,omitempty"`
}

type anthropicError struct {
	Type     string            `json:"type"`
	Message  string            `json:"message"`
	Details  *anthropicDetails `json:"details,omitempty"`
	Attempts []FailedAttempt   `json:"attempts,omitempty"`
}

type anthropicDetails struct {
	ErrorCode string `json:"error_code"`
}

type anthropicBody struct {
	Type      string         `json:"type"`
	Error     anthropicError `json:"error"`
	RequestID *string        `json:"request_id"`
}

func (f *Failure) openAI() openAIBody {
	return openAIBody{RequestID: f.RequestID, Error: openAIError{
		Message: f.Message, Type: f.kind(decision.OpenAI), Param: orNull(f.Param), Code: orNull(f.Code), Attempts: f.Attempts,
	}}
}

func (f *Failure) anthropic() anthropicBody {
	b := anthropicBody{Type: "error", RequestID: orNull(f.RequestID), Error: anthropicError{
		Type: f.kind(decision.Anthropic), Message: f.Message, Attempts: f.Attempts,
	}}
	if f.Code != "" {
		b.Error.Details = &anthropicDetails{ErrorCode: f.Code}
	}
	return b
}

func (f *Failure) kind(d decision.Dialect) string {
	if f.Type != "" {
		return f.Type
	}
	return ErrorType(d, f.Status)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// encode marshals one of the types of this file, which cannot fail.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("wire: " + err.Error())
	}
	return b
}

// ErrorBody returns f as a whole JSON answer in dialect d.
func ErrorBody(d decision.Dialect, f Failure) []byte {
	if d == decision.Anthropic {
		return encode(f.anthropic())
	}
	return encode(f.openAI())
}

// ErrorFrame returns f as the one error event that ends a stream of ep. SDKs
// take an OpenAI stream that just ends for a whole answer: after this event
// nothing may follow, and the connection has to be broken off.
func ErrorFrame(ep Endpoint, f Failure) []byte {
	switch {
	case ep.Dialect() == decision.Anthropic:
		return frame("error", encode(f.anthropic()))
	case ep == Responses:
		b := f.openAI()
		e := b.Error
		return frame("error", encode(responsesError{
			Type: "error", Code: e.Code, Message: e.Message, Param: e.Param, Error: e, RequestID: b.RequestID,
		}))
	}
	return frame("", encode(f.openAI()))
}

func frame(name string, data []byte) []byte {
	b := make([]byte, 0, len(name)+len(data)+20)
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	b = append(append(b, "data: "...), data...)
	return append(b, "\n\n"...)
}

// KeepAlive returns a frame that says nothing to a client of ep's stream but
// that the connection lives: Anthropic has an event for it, OpenAI's clients
// pass over comments.
func KeepAlive(ep Endpoint) []byte {
	if ep.Dialect() == decision.Anthropic {
		return []byte("event: ping\ndata: {\"type\": \"ping\"}\n\n")
	}
	return []byte(": keep-alive\n\n")
}

// ErrorType returns the dialect's error type for an HTTP status.
func ErrorType(d decision.Dialect, status int) string {
	if d == decision.Anthropic {
		switch status {
		case 401:
			return "authentication_error"
		case 402:
			return "billing_error"
		case 403:
			return "permission_error"
		case 404, 410:
			return "not_found_error"
		case 409:
			return "conflict_error"
		case 413:
			return "request_too_large"
		case 429:
			return "rate_limit_error"
		case 503, 529:
			return "overloaded_error"
		case 408, 504:
			return "timeout_error"
		}
		if status >= 400 && status <= 499 {
			return "invalid_request_error"
		}
		return "api_error"
	}
	switch status {
	case 401:
		return "authentication_error"
	case 402:
		return "insufficient_quota"
	case 403:
		return "permission_error"
	case 429:
		return "rate_limit_error"
	case 502:
		return "upstream_error"
	case 503, 529:
		return "service_unavailable_error"
	case 408, 504:
		return "timeout_error"
	}
	if status >= 400 && status <= 499 {
		return "invalid_request_error"
	}
	return "server_error"
}
