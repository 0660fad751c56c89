package evidence

import (
	"time"

	"failback/gateway/decision"
)

// Sample is one request of an upstream's own traffic as evidence: how its last
// attempt on that upstream ended.
type Sample struct {
	OK    bool
	Valid bool // false: it says nothing about the upstream and is not counted
	Class decision.Class
	// FirstOutput is from the attempt's start; valid if HasFirstOutput.
	FirstOutput    time.Duration
	HasFirstOutput bool
	// ConnID is decision.Outcome's: failures with the same one are one piece of
	// evidence. 0 if no shared connection was lost.
	ConnID uint64
}

// Counts reports whether c is a failure as far as evidence goes: what counts
// against a bucket, and the rate, the quota and the credential, which are what
// a returning upstream runs out of first.
func Counts(c decision.Class) bool {
	switch c.Blame() {
	case decision.OfBucket, decision.OfAdmission, decision.OfCredential:
		return true
	}
	return false
}

// SampleOf reads an attempt's end. own says that the upstream is the request's
// primary, overflow that it got the request outside its share. The caller's
// mistakes, cancels, our own errors, overflow and the traffic of other
// upstreams are not valid.
func SampleOf(o decision.Outcome, own, overflow bool) Sample {
	s := Sample{
		OK: o.Class == decision.OK, Class: o.Class,
		FirstOutput: o.FirstOutput, HasFirstOutput: o.HasFirstOutput, ConnID: o.ConnID,
	}
	s.Valid = own && !overflow && (s.OK || Counts(o.Class))
	return s
}

// classIndex is where failures of a class are counted. A class that is not in
// the vocabulary counts as unknown: a failure is never lost.
var classIndex = func() map[decision.Class]int {
	m := make(map[decision.Class]int, len(decision.Classes))
	for i, c := range decision.Classes {
		m[c] = i
	}
	return m
}()

func indexOf(c decision.Class) int {
	if i, ok := classIndex[c]; ok && c != decision.OK {
		return i
	}
	return classIndex[decision.Unknown]
}
