package demo

import "time"

// FaultKind is a way in which a Fake misbehaves.
type FaultKind uint8

// The kinds of fault. Except for Break they end a request before its first
// output.
const (
	None        FaultKind = iota
	Unavailable           // 503 in the dialect's error format
	Overloaded            // 529, Anthropic's "everybody is throttled"
	RateLimited           // 429 with Retry-After
	Hang                  // the request is read and never answered
	Reset                 // the request is read and the connection reset
	Break                 // the answer begins and the connection breaks in its middle
)

// String returns the kind in words for people.
func (k FaultKind) String() string {
	switch k {
	case Unavailable:
		return "answers 503"
	case Overloaded:
		return "answers 529"
	case RateLimited:
		return "answers 429"
	case Hang:
		return "hangs"
	case Reset:
		return "resets connections"
	case Break:
		return "breaks answers midway"
	}
	return "is healthy"
}

// Fault says how a Fake misbehaves from now on. The zero Fault is a healthy
// server. It decides about requests when they arrive: those under way end as
// they began.
type Fault struct {
	Kind FaultKind
	// Ratio is the part of the requests that Kind hits, 0 to 1; 0 means all.
	Ratio float64
	// RetryAfter is the header of RateLimited, in whole seconds rounded up;
	// 0 means one second.
	RetryAfter time.Duration
	// Slow multiplies every latency, also of requests that Kind spares; 0 means 1.
	Slow float64
}

// hits says whether the fault takes a request that drew u from [0, 1).
func (f Fault) hits(u float64) bool {
	return f.Kind != None && (f.Ratio <= 0 || u < f.Ratio)
}

// slow returns the factor on latencies.
func (f Fault) slow() float64 {
	if f.Slow <= 0 {
		return 1
	}
	return f.Slow
}

// retryAfter returns the seconds of the Retry-After header.
func (f Fault) retryAfter() int {
	s := int((f.RetryAfter + time.Second - 1) / time.Second)
	return max(s, 1)
}
