package breaker

import "time"

// Why says for people what keeps the group shut now: which bucket is open or
// half-open, since when, and what opened it. Empty if none is.
func (g *Group) Why() string {
	if g == nil || g.u == nil {
		return ""
	}
	u := g.u
	u.mu.Lock()
	now := u.set.now()
	defer u.unlock(now)
	for _, b := range g.buckets {
		if b.state == &b.open || b.state == &b.half {
			return b.whyShut(now)
		}
	}
	return ""
}

// whyShut is made once for each state, since every request may ask.
func (b *bucket) whyShut(now time.Duration) string {
	if b.why != "" {
		return b.why
	}
	since := time.Now().Add(b.since - now).UTC().Format("15:04:05Z")
	b.why = string(b.name.Capability) + " " + b.state.name() + " since " + since
	switch {
	case b.reason == Forced:
		b.why += ": forced " + b.detail
	case b.detail != "":
		b.why += ": " + b.detail
	case b.reason != "":
		b.why += ": " + b.reason
	}
	return b.why
}
