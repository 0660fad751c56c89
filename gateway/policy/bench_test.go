package policy

import (
	"testing"

	"failback/gateway/decision"
)

var benchTerms = Terms{Task: Task{Name: "chat", Fallback: SameModel, OnUnavailable: Fail, SideEffects: true}, OperationID: true}

// One decision is what a request asks after a failure: may it go elsewhere, and
// if it may not, what does it come to.
func BenchmarkDecision(b *testing.B) {
	b.Run("fallback", func(b *testing.B) {
		cause := Cause{Reason: decision.ReasonOf(decision.ServerError), AtPrimary: true}
		b.ReportAllocs()
		for b.Loop() {
			if !MayFallback(benchTerms, cause, Sent, Candidate{}).Allowed {
				b.Fatal("not allowed")
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		o := decision.Outcome{Class: decision.ServerError, Status: 503}
		b.ReportAllocs()
		for b.Loop() {
			if !SameAgain(benchTerms, o, benchSituation).OK {
				b.Fatal("not again")
			}
		}
	})
	b.Run("end", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if End(benchTerms, Finish{Last: decision.BreakerOpen}).Status == "" {
				b.Fatal("no end")
			}
		}
	})
}

var benchSituation = Situation{FirstFailure: true, Next: NoNext, Patience: 1e9, MaxWait: 1e9}

func TestDecisionsAllocateNothing(t *testing.T) {
	o := decision.Outcome{Class: decision.ServerError, Status: 503}
	cause := Cause{Reason: decision.ReasonOf(decision.ServerError), AtPrimary: true}
	if n := testing.AllocsPerRun(100, func() {
		MayFallback(benchTerms, cause, Sent, Candidate{})
		MayServe(benchTerms, Candidate{})
		SameAgain(benchTerms, o, benchSituation)
		End(benchTerms, Finish{Last: decision.BreakerOpen})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
