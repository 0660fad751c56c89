package breaker

import (
	"testing"

	"failback/gateway/decision"
)

func TestOneLostConnectionIsOnePieceOfEvidence(t *testing.T) {
	bubble(t, defaults(), func(r *rig) {
		var permits []*Permit
		for range 50 {
			permits = append(permits, r.get(ask()))
		}
		for i, p := range permits {
			o := ended(decision.Reset)
			o.ConnID = 7
			report := p.Done(o)
			p.Left()
			if !report.FirstFailure || report.Open {
				t.Errorf("attempt %d: %+v", i, report)
				return
			}
		}
		r.wantState(Closed)
		for i := range 4 { // with the first, five in a row
			o := ended(decision.Reset)
			o.ConnID = uint64(100 + i)
			p := r.get(ask())
			p.Done(o)
			p.Left()
		}
		r.wantState(Open)
	})
}
