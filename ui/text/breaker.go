package text

import (
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
)

// The values of Breaker.State and of the State-like fields of events.
const (
	closed   = "closed"
	open     = "open"
	halfOpen = "half_open"
	ramping  = "ramping"
)

// Severity orders buckets from good to bad: 0 closed, 1 ramping, 2 half-open,
// 3 open or a state not known here. A bucket in shadow mode blocks nothing and
// is at most 1.
func Severity(b *api.Breaker) int {
	s := 3
	switch b.Forced {
	case open:
		return 3
	case closed:
		return 0
	}
	switch b.State {
	case closed:
		s = 0
	case ramping:
		s = 1
	case halfOpen:
		s = 2
	}
	if b.Mode == "shadow" {
		s = min(s, 1)
	}
	return s
}

// Worst returns the worst bucket, the first of equals; nil if there is none.
func Worst(bs []api.Breaker) *api.Breaker {
	var w *api.Breaker
	for i := range bs {
		if w == nil || Severity(&bs[i]) > Severity(w) {
			w = &bs[i]
		}
	}
	return w
}

// Breaker writes the state of a bucket and what comes next, now being the
// gateway's clock.
func Breaker(b *api.Breaker, now time.Time) string {
	s := state(b.State)
	switch {
	case b.Forced != "":
		return "FORCED " + Visible(strings.ToUpper(b.Forced)) + " " + left(b.ForcedUntil, now)
	case b.State == open && b.ProbeDue:
		s += " probe due, no traffic"
	case b.State == open && !b.NextProbeAt.IsZero():
		s += " try in " + left(b.NextProbeAt, now)
	case b.State == halfOpen:
		s += " " + strconv.Itoa(b.ProbesOK) + "/" + strconv.Itoa(b.Probes) + " ok"
	case b.State == ramping && b.RampLimit > 0:
		s += " " + strconv.Itoa(b.RampLimit) + " at once"
	case b.AdmittedRPS > 0:
		s += " max " + Rate(b.AdmittedRPS) + "/s (429)"
	}
	if b.Mode == "shadow" {
		s = "SHADOW " + s
	}
	return s
}

// ForcedOpen says who forced a bucket of u open, until when and how it ends
// before; empty if none is.
func ForcedOpen(u *api.Upstream, now time.Time) string {
	for i := range u.Breakers {
		b := &u.Breakers[i]
		if b.Forced != open {
			continue
		}
		until := b.ForcedUntil.UTC()
		at := until.Format("15:04Z")
		if !now.IsZero() && until.Sub(now) > 12*time.Hour {
			at = until.Format("01-02 15:04Z")
		}
		return Visible("forced open by " + b.ForcedBy + " until " + at + ": failback breaker " + u.Name + ":" + b.Capability + " auto")
	}
	return ""
}

// BreakerShort is Breaker in at most ten characters or so.
func BreakerShort(b *api.Breaker, now time.Time) string {
	switch {
	case b.Forced != "":
		return "F-" + Visible(strings.ToUpper(b.Forced))
	case b.Mode == "shadow":
		return "S-" + state(b.State)
	case b.State == open && b.ProbeDue:
		return "OPEN due"
	case b.State == open && !b.NextProbeAt.IsZero():
		return "OPEN " + left(b.NextProbeAt, now)
	case b.State == halfOpen:
		return "HALF " + strconv.Itoa(b.ProbesOK) + "/" + strconv.Itoa(b.Probes)
	case b.State == ramping && b.RampLimit > 0:
		return "RAMP " + strconv.Itoa(b.RampLimit)
	}
	return state(b.State)
}

// state writes a breaker's state as the screens do; what is not known here
// stays as it is, in capitals.
func state(s string) string { return Visible(api.BreakerWord(s)) }

func left(t, now time.Time) string {
	// A second that has begun is a second still to wait.
	return Age(t.Sub(now) + time.Second - time.Nanosecond)
}
