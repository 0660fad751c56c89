package decision

// Next is what followed an attempt.
type Next string

const (
	NextAnswered Next = "answered"   // its answer is the request's
	NextSame     Next = "same_again" // the same candidate was asked again
	NextSwitch   Next = "switch"     // another candidate was asked
	NextEnd      Next = "end"        // nobody was asked after it
)

// Why names what decided what followed an attempt: a Reason, a Class, or one of
// the rules below.
type Why string

// WhyOf returns the word that is r.
func WhyOf(r Reason) Why { return Why(r) }

// Rules that are no reason by which a request is counted.
const (
	WhyRelayed      Why = "relayed"       // output had reached the client: nothing may replace it
	WhyFirstFailure Why = "first_failure" // the bucket's first in 10 s is tried again once, where it is cheap
	WhyRepeated     Why = "repeated"      // not the bucket's first in 10 s, or this request's second there
	WhyNowhereElse  Why = "nowhere_else"  // nobody else may take it: waiting is better than failing
	WhyPatience     Why = "patience"      // a short wait is better than the substitute that comes next
	WhyRetryAfter   Why = "retry_after"   // the upstream asks for a longer wait than a request makes
	WhyShouldRetry  Why = "should_retry"  // the upstream's x-should-retry said so
	WhyAnotherKey   Why = "another_key"   // one of the upstream's keys failed, and it has another
	WhySideEffects  Why = "side_effects"  // it may have been processed, and must not be twice
	WhyBound        Why = "bound"         // it names what only its own upstream knows
	WhyAttempts     Why = "attempts"      // retry.attempts
	WhyMaxSwitches  Why = "max_switches"  // retry.max_switches
	WhyMaxWait      Why = "max_wait"      // retry.max_wait
	WhyNoCandidate  Why = "no_candidate"  // all had been asked
)

// Rules lists every Why that is neither a Reason nor a Class.
var Rules = []Why{
	WhyRelayed, WhyFirstFailure, WhyRepeated, WhyNowhereElse, WhyPatience, WhyRetryAfter, WhyShouldRetry,
	WhyAnotherKey, WhySideEffects, WhyBound, WhyAttempts, WhyMaxSwitches, WhyMaxWait, WhyNoCandidate,
}
