package breaker

import "failback/gateway/decision"

// Permit is one attempt's leave. Its zero value is ready for Acquire; it must
// not be copied after that.
type Permit struct{}

// Report is what the end of an attempt means for its request.
type Report struct {
	FirstFailure bool // the outcome counts against the bucket and is its first failure in 10 s
	Open         bool // a bucket of the group is open now
}

// Output says that the first output was seen: the attempt no longer waits.
func (p *Permit) Output() {}

// Done returns the permit with the attempt's end. Only the first call counts.
func (p *Permit) Done(o decision.Outcome) Report { return Report{} }

// Left says, after a Done with a failure, that the request leaves the bucket:
// it was its last attempt there, and counts in the run of failed requests. It
// reports whether a bucket of the group is open now.
func (p *Permit) Left() bool { return false }

// Release returns the permit with nothing learned. It may be called any number
// of times, also after Done.
func (p *Permit) Release() {}
