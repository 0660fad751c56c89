package wire

import "failback/gateway/decision"

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

// ErrorBody returns f as a whole JSON answer in dialect d.
func ErrorBody(d decision.Dialect, f Failure) []byte { return nil }

// ErrorFrame returns f as the one error event that ends a stream of ep.
func ErrorFrame(ep Endpoint, f Failure) []byte { return nil }

// KeepAlive returns a frame that means nothing to a client of ep's stream but
// that the connection lives.
func KeepAlive(ep Endpoint) []byte { return nil }

// ErrorType returns the dialect's error type for an HTTP status.
func ErrorType(d decision.Dialect, status int) string { return "" }

// ModelList returns the answer to a request for the list of models.
func ModelList(d decision.Dialect, names []string) []byte { return nil }
