package decision

import "time"

// Decision is the record of one client request. It is written once, at the
// request's end, and not changed afterwards.
type Decision struct {
	Time      time.Time // when the request was accepted
	RequestID string
	// TraceID is that of the W3C trace context, in lower-case hexadecimal; empty
	// without one. Span is the request's own span, ParentSpan its caller's, both
	// none where the gateway makes no spans; Sampled says that they are exported.
	TraceID      string
	Span         SpanID
	ParentSpan   SpanID
	Sampled      bool
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
	Primary    bool
	Skipped    Reason // empty if it was attempted, or never came to its turn
	// SkippedWhy says more, for operators; empty where Skipped says it all.
	SkippedWhy string
	// Blocked says that an open breaker passed it by, SkippedAt when it was
	// passed by first for what Skipped says, from acceptance.
	Blocked   bool
	SkippedAt time.Duration
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

	Primary bool          // it went to the request's primary
	Started time.Duration // from acceptance
	// Share and Weight are its candidate's when it began, in percent and effective.
	Share  int
	Weight float64
	// Remaining is what was left of the deadline at its end, RetryTokens of the
	// shared retry budget.
	Remaining   time.Duration
	RetryTokens float64
	// Next is what followed, Why what decided so, and Wait how long the request
	// rested in between.
	Next Next
	Why  Why
	Wait time.Duration
	// Span is what its upstream was told as its parent; none without spans.
	Span SpanID
}
