package text

import (
	"failback/gateway/operator/api"
)

// IncidentCause says what an incident was opened for; a cause that is not known
// is said as it is.
func IncidentCause(cause string) string {
	switch cause {
	case api.CauseDegraded:
		return "for degraded"
	case api.CauseSharedFault:
		return "for a shared fault"
	case api.CauseRatio:
		return "for the fallback ratio"
	case api.CauseOperator:
		return "by hand"
	}
	return "for " + api.Words(Visible(cause))
}
