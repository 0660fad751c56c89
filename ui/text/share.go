package text

import (
	"slices"
	"strconv"

	"failback/gateway/operator/api"
)

// Share writes the share of an upstream: ?? if the gateway does not say it.
func Share(u *api.Upstream) string {
	if !u.Stated() {
		return "??"
	}
	return strconv.Itoa(u.Share) + "%"
}

// AtZero says what an upstream gets whose share is 0%. One that the machine
// degraded answers, once its probes pass, what nobody else can; one from which
// an operator took its traffic answers nothing. Where a probe of it is too old to
// count, the gateway is stricter than this.
func AtZero(u *api.Upstream) string {
	untried := func(p api.Probe) bool { return p.Passed < ProbesAsked }
	if u.HealthBy != "auto" || len(u.Probes) == 0 || slices.ContainsFunc(u.Probes, untried) {
		return "gets nothing"
	}
	return "overflow only"
}
