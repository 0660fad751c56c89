package decision

// Class says how one attempt against an upstream ended: whose fault it was
// follows from it (Blame), and so does what may happen next (package policy).
// The zero value means "not ended yet" and is never recorded.
type Class string

// The classes. Their values are metric labels and log fields.
const (
	OK                 Class = "ok" // the provider's own terminal event was seen
	Connect            Class = "connect"
	DNS                Class = "dns"
	TLS                Class = "tls"
	Reset              Class = "reset"   // EOF or RST before output
	Refused            Class = "refused" // HTTP/2 REFUSED_STREAM, or GOAWAY above the last stream id
	FirstOutputTimeout Class = "first_output_timeout"
	AttemptTimeout     Class = "attempt_timeout"
	IdleTimeout        Class = "idle_timeout"
	ServerError        Class = "server_error"
	Overloaded         Class = "overloaded"
	RateLimited        Class = "rate_limited"
	QuotaExhausted     Class = "quota_exhausted"
	Credential         Class = "credential"
	ModelGone          Class = "model_gone"
	BadResponse        Class = "bad_response"
	Interrupted        Class = "interrupted"
	ContextLength      Class = "context_length"
	InvalidRequest     Class = "invalid_request"
	ContentFilter      Class = "content_filter"
	CallerDeadline     Class = "caller_deadline"
	ClientGone         Class = "client_gone"
	LocalRefusal       Class = "local_refusal"
	Internal           Class = "internal"
	Unknown            Class = "unknown"
)

// Classes lists every class, in the order of the class table.
var Classes = []Class{
	OK, Connect, DNS, TLS, Reset, Refused, FirstOutputTimeout, AttemptTimeout, IdleTimeout,
	ServerError, Overloaded, RateLimited, QuotaExhausted, Credential, ModelGone, BadResponse,
	Interrupted, ContextLength, InvalidRequest, ContentFilter, CallerDeadline, ClientGone,
	LocalRefusal, Internal, Unknown,
}

// Blame is what an outcome counts against.
type Blame uint8

const (
	Nobody          Blame = iota // neutral: permits come back, nothing is counted
	OfBucket                     // the breaker's failure rate, run and weight
	OfAdmission                  // the bucket's admitted rate, never its failure rate
	OfCredential                 // the key, or for quota the billing account
	OfUpstreamModel              // this upstream's model only
	OfCaller                     // the caller's mistake
	OfUs                         // ours, alarmed
)

// Blame says what c counts against. OK counts for the bucket, not against it:
// its blame is Nobody.
func (c Class) Blame() Blame {
	switch c {
	case Connect, DNS, TLS, Reset, FirstOutputTimeout, AttemptTimeout, IdleTimeout,
		ServerError, Overloaded, BadResponse, Interrupted:
		return OfBucket
	case RateLimited:
		return OfAdmission
	case QuotaExhausted, Credential:
		return OfCredential
	case ModelGone:
		return OfUpstreamModel
	case InvalidRequest:
		return OfCaller
	case Internal, Unknown:
		return OfUs
	}
	return Nobody
}

// Path reports whether c says that the way to the upstream failed, before any
// byte of an answer: evidence that may point at us rather than at the provider.
func (c Class) Path() bool {
	switch c {
	case Connect, DNS, TLS, Reset:
		return true
	}
	return false
}
