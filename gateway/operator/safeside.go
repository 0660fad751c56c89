package operator

import "failback/gateway/operator/api"

// safeSide has, for each action that may be on the safe side, when it is. Such a
// command takes effect whatever can be written down: it takes traffic away from
// an upstream, keeps the gateway from giving it back by itself, or is the break
// glass, which must work when nothing else does. Its audit entry is written when
// that works. Of every other command the audit has to know before.
var safeSide = map[string]func(c api.Command, now current) bool{
	actionShare: func(c api.Command, now current) bool {
		return c.Action == api.ActionManual || c.Share != nil && !c.Raises() && (*c.Share == 0 || now.known && *c.Share <= now.share)
	},
	actionState:       func(c api.Command, _ current) bool { return c.State == api.Degraded },
	actionBreaker:     func(c api.Command, _ current) bool { return c.Action == "open" },
	actionPassthrough: func(api.Command, current) bool { return true }, // on and off
}

// safeSideNames says for people what safeSide lets through.
const safeSideNames = "lowering a share, degraded, manual, breaker open and passthrough"

// onSafeSide reports whether c is certainly on the safe side, now being what it
// is about to change.
func onSafeSide(action string, c api.Command, now current) bool {
	safe := safeSide[action]
	return safe != nil && safe(c, now)
}
