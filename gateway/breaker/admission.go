package breaker

import "time"

// admission is the rate a bucket admits after 429s. While it is off it admits
// everything.
type admission struct {
	on   bool
	base float64 // per second, before the first 429: a tenth of it comes back each second
	rate float64 // per second, admitted now
	// tokens are the attempts that may pass at once; at is when they and rate
	// were brought up to date.
	tokens float64
	at     time.Duration
	halved time.Duration // last
	bound  time.Duration // last attempt that was one too many
}

const unboundAfter = 2 * time.Second // a limit that bound nobody for so long is lifted

// limited takes note of a 429. recent is the rate of the last 10 s.
func (a *admission) limited(now time.Duration, recent float64) {
	a.update(now)
	if now-a.halved < time.Second {
		return
	}
	if a.on {
		recent = min(recent, a.rate)
	} else {
		*a = admission{on: true, base: max(recent, 1), at: now}
	}
	a.rate = max(recent/2, 1)
	a.tokens = min(a.tokens, a.burst())
	a.halved, a.bound = now, now
}

func (a *admission) burst() float64 { return max(a.rate/4, 1) }

// update brings a up to date, and lifts it when the former rate is back and
// nobody was refused of late.
func (a *admission) update(now time.Duration) {
	if !a.on {
		return
	}
	if dt := (now - a.at).Seconds(); dt > 0 {
		a.tokens += dt * (a.rate + dt*a.base/20) // the mean rate of a growing one
		a.rate += dt * a.base / 10
		a.tokens = min(a.tokens, a.burst())
		a.at = now
	}
	if a.rate >= a.base && now-a.bound >= unboundAfter {
		a.on = false
	}
}

// admits says whether one more may pass, and takes nothing.
func (a *admission) admits(now time.Duration) bool {
	a.update(now)
	return !a.on || a.tokens >= 1
}

// take counts one that passes, be it one too many.
func (a *admission) take() {
	if a.on {
		a.tokens = max(a.tokens-1, 0)
	}
}
