package text

import (
	"testing"

	"failback/gateway/operator/api"
)

func TestIncidentCause(t *testing.T) {
	for cause, want := range map[string]string{
		api.CauseDegraded: "for degraded", api.CauseSharedFault: "for a shared fault", api.CauseRatio: "for the fallback ratio",
		api.CauseOperator: "by hand", "new_cause\x1b": `for new cause\x1b`,
	} {
		if got := IncidentCause(cause); got != want {
			t.Errorf("%q is %q, want %q", cause, got, want)
		}
	}
}
