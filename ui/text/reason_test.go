package text

import (
	"testing"

	"failback/gateway/decision"
)

// Every reason and class that the gateway knows has a meaning here, and nothing
// else has.
func TestEveryReasonHasAMeaning(t *testing.T) {
	known := make(map[string]bool)
	for _, r := range decision.Reasons {
		known[string(r)] = true
	}
	for _, c := range decision.Classes {
		known[string(c)] = true
	}
	for r := range known {
		if Meaning(r) == "" {
			t.Errorf("%s has no meaning", r)
		}
	}
	for r := range reasons {
		if !known[r] {
			t.Errorf("%s is no reason of the gateway", r)
		}
	}
}
