package evidence

import (
	"testing"
	"time"

	"failback/gateway/decision"
)

// A request that failed long ago does not take the way back from an upstream of
// which nothing streams: success judges it, and probes settle the rest.
func TestNothingStreamsAndOneFailed(t *testing.T) {
	w := Window{Served: terms.Observe}
	times(&w, 2000, Sample{OK: true, Valid: true, Class: decision.OK})
	times(&w, 1, Sample{Valid: true, Class: decision.ServerError})
	for _, o := range []struct {
		objective Objective
		verdict   string
	}{{Objective{}, Pass}, {Objective{Under: time.Second, Ratio: 0.95}, NoData}} {
		b := FromObjective(o.objective, 12*time.Second)
		before := w.Clone()
		for range standInProbes - 1 {
			before.Probe("m", true)
		}
		if v := Judge(before, nil, b, terms, 3); v.Verdict != NoData {
			t.Errorf("%+v: with too few probes %s: %v", o, v.Verdict, v.Rows)
		}
		before.Probe("m", true)
		if v := Judge(before, nil, b, terms, 3); v.Verdict != o.verdict {
			t.Errorf("%+v: %s: %v", o, v.Verdict, v.Rows)
		}
	}
}
