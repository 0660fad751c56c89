package gateway

import (
	"testing"

	"failback/gateway/decision"
	"failback/gateway/traffic"
)

// What the share table calls itself is what no operator may be called.
func TestTheMachinesNames(t *testing.T) {
	for by, want := range map[string]bool{traffic.Auto: true, traffic.ByPlan("ana"): true, "ana": false, "user " + traffic.Auto: false} {
		if decision.ByMachine(by) != want {
			t.Errorf("%q is taken for the machine: %v", by, !want)
		}
	}
}
