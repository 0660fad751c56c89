package decision

import "testing"

// What the gateway calls itself is what no operator may be called.
func TestTheMachinesNames(t *testing.T) {
	for by, want := range map[string]bool{Auto: true, ByPlan("ana"): true, "ana": false, "user " + Auto: false, "": false} {
		if ByMachine(by) != want {
			t.Errorf("%q is taken for the machine: %v", by, !want)
		}
	}
	if name, ok := PlanOf(ByPlan("ana")); name != "ana" || !ok {
		t.Errorf("a plan of ana's is %q's, %v", name, ok)
	}
	if name, ok := PlanOf("ana"); ok {
		t.Errorf("ana is a plan of %q's", name)
	}
}
