package decision

import "time"

// Decision is the record of one client request. It is written once, at the
// request's end, and not changed afterwards.
type Decision struct {
	Time         time.Time // when the request was accepted
	RequestID    string
	TraceID      string
	Conversation string // the client's own id, or a hash; never user data
	Turn         string
	OperationID  string
	StateVersion string
	Key          string // name of the client key, empty without

	Task     string // configured name, TaskUnnamed or TaskOther
	Model    string // the name the client asked for, empty if not configured
	Endpoint string
	Stream   bool

	Primary       string // provider names; empty where there is none
	Selected      string // who answered; empty if nobody did
	SelectedModel string
	ResponseModel string
	Substitute    bool
	Route         Route
	Fallback      bool // a candidate other than the primary was attempted or answered
	Status        Status
	Reason        Reason
	Failed        string // provider of the first attempt that failed
	// Violation says that another candidate answered although policy did not
	// allow it. It must never be true; it is counted so that this can be checked.
	Violation bool

	Candidates []Candidate
	Attempts   []Attempt

	FirstOutput       time.Duration // from acceptance to the first output relayed; valid if HasFirstOutput
	HasFirstOutput    bool
	Duration          time.Duration
	RemainingDeadline time.Duration
	RetryTokens       float64
	HTTPStatus        int // what the client was given
	ClientRetry       int // the client's own retry count, 0 if it did not say
	Overflow          bool
}

// Candidate is one line of a decision: who could have answered, with what
// weight and share at that moment, and why it was skipped if it was.
type Candidate struct {
	Provider   string
	Model      string
	Weight     float64 // effective
	Share      int     // percent
	Substitute bool
	Skipped    Reason // empty if it was attempted, or never came to its turn
}

// Attempt is one exchange with one upstream.
type Attempt struct {
	Provider   string
	Region     string
	Model      string
	Capability Capability // the most specific of the request's set
	Outcome    Outcome
	// Hurried: it was cut because the caller's or the task's own deadline left
	// it less than is usual. What Outcome is then says nothing of the upstream.
	Hurried bool
}
