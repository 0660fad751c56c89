package text

import (
	"math"
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
)

// Measured reports whether the gateway says how its upstreams are: one of a
// version that does not says nothing of any.
func Measured(s *api.State) bool {
	if s == nil {
		return false
	}
	for i := range s.Upstreams {
		if s.Upstreams[i].Health != "" {
			return true
		}
	}
	return false
}

// Health writes the health of an upstream in one word, in capitals: none if
// the gateway does not measure it, ?? if it says nothing of the upstream.
func Health(u *api.Upstream) string {
	switch {
	case u.Health == "" && !u.Stated():
		return "??"
	case u.Health == "":
		return "none"
	}
	return Visible(strings.ToUpper(u.Health))
}

// HealthShort is Health in at most eight characters for the words there are.
func HealthShort(u *api.Upstream) string {
	if u.Health == api.Recovering {
		return "RECOVER"
	}
	return Health(u)
}

// HealthFor is Health with how long it lasts, of all but a healthy one; now is
// the gateway's clock.
func HealthFor(u *api.Upstream, now time.Time) string {
	if u.Health == "" || u.Health == api.Healthy || u.HealthSince.IsZero() {
		return Health(u)
	}
	return Health(u) + " " + Age(now.Sub(u.HealthSince))
}

// HealthWhole says all that is known of a health: the word, since when, who set
// it and why.
func HealthWhole(u *api.Upstream, now time.Time) string {
	s := Health(u)
	if !u.HealthSince.IsZero() {
		s += " for " + Age(now.Sub(u.HealthSince))
	}
	if u.HealthBy != "" {
		s += " by " + Visible(u.HealthBy)
	}
	if u.HealthReason != "" {
		s += ": " + Visible(u.HealthReason)
	}
	return s
}

// HealthSeverity orders healths from good to bad: 0 healthy or not measured, 1
// recovering, 2 suspect or a word not known here, 3 degraded.
func HealthSeverity(u *api.Upstream) int {
	switch u.Health {
	case "", api.Healthy:
		return 0
	case api.Recovering:
		return 1
	case api.Degraded:
		return 3
	}
	return 2
}

// EvidenceName writes what a row of evidence is about.
func EvidenceName(row string) string {
	switch row {
	case "first_output":
		return "first output"
	case "classes":
		return "new classes"
	}
	return Visible(row)
}

// EvidenceHead is the verdict, of which share, and how much there is of it.
func EvidenceHead(e *api.Evidence, now time.Time) string {
	s := Verdict(e) + " at " + strconv.Itoa(e.Share) + "%"
	if enough := Enough(e); enough != "" {
		s += ", " + enough
	}
	if old := now.Sub(e.At); !e.At.IsZero() && old > 2*time.Second {
		s += ", " + Age(old) + " old"
	}
	return s
}

// Verdict writes the verdict: before its window is over a pass is one so far.
func Verdict(e *api.Evidence) string {
	if e.Verdict == api.Pass && e.ServedSeconds < e.ObserveSeconds {
		return "so far pass"
	}
	return Visible(e.Verdict)
}

// Enough says when there will be enough to tell, empty if there is or nobody
// can tell.
func Enough(e *api.Evidence) string {
	if e.EnoughInSeconds <= 0 || math.IsInf(e.EnoughInSeconds, 0) {
		return ""
	}
	return "enough in ~" + about(e.EnoughInSeconds)
}

// about writes an estimate: not more exact than it is.
func about(seconds float64) string {
	switch {
	case seconds < 60:
		return strconv.FormatFloat(math.Ceil(seconds), 'f', 0, 64) + "s"
	case seconds < 90*60:
		return strconv.FormatFloat(math.Ceil(seconds/60), 'f', 0, 64) + " min"
	}
	return strconv.FormatFloat(math.Ceil(seconds/3600), 'f', 0, 64) + " h"
}

// WindowLeft says how much of the window is left to be served.
func WindowLeft(e *api.Evidence) string {
	switch left := e.ObserveSeconds - e.ServedSeconds; {
	case e.ObserveSeconds <= 0:
		return "hold"
	case left <= 0:
		return span(e.ObserveSeconds) + " done"
	default:
		return span(e.ObserveSeconds) + " " + span(math.Ceil(left)) + " left"
	}
}

func span(seconds float64) string { return Age(time.Duration(seconds * float64(time.Second))) }

// Window writes how long a step is observed.
func Window(f *api.FailbackStep) string {
	if f.ObserveSeconds <= 0 {
		return "hold"
	}
	return span(f.ObserveSeconds)
}

// Baseline says what the evidence is compared with, and where that is from.
func Baseline(e *api.Evidence) string {
	s := Percent(e.BaselineSuccess) + " ok"
	if e.BaselineFirstOutputP95 > 0 {
		s += ", first output p95 " + Seconds(e.BaselineFirstOutputP95)
	}
	switch e.BaselineSource {
	case "history":
		return "24h before it, healthy minutes: " + s + ", of " + Counted(max(e.BaselineRequests, 0), "request")
	case "slo":
		return "the model's slo, since there is no history: " + s
	case "default":
		return "the default, since there is no history and no slo: " + s
	}
	return Visible(e.BaselineSource) + ": " + s
}

// RetreatIf says what the evidence of a step fails for.
func RetreatIf(e *api.Evidence, f *api.Failback) string {
	s := "ok < " + Percent(max(e.BaselineSuccess-f.SuccessTolerance, 0))
	if e.BaselineFirstOutputP95 > 0 {
		s += ", p95 > " + Seconds(e.BaselineFirstOutputP95*f.FirstOutputTolerance)
	}
	return s + ", a new class (>= 5), breaker trip, 2 failed probes"
}

// PlanText says who approved the whole table of u and what the plan takes, or
// that nobody did; advance is that of the configuration, now the gateway's clock.
func PlanText(u *api.Upstream, advance string, now time.Time) string {
	p := u.Plan
	if p == nil {
		return "none: each step by an operator"
	}
	return "approved by " + Visible(p.By) + " " + Clock(p.At, now) + " (" + Age(now.Sub(p.At)) + " ago): " + u.PlanTakes(advance)
}

// ProbesAsked is how many probes in a row must have passed, of each candidate
// and capability, before a degraded upstream may recover.
const ProbesAsked = 2

// ProbeStanding says how the probing of one candidate and capability speaks for
// leaving degraded: pass, fail or no data, and why.
func ProbeStanding(p *api.Probe, now time.Time) (verdict, why string) {
	what := Visible(p.Capability + " of " + p.Model)
	ago := ""
	if !p.At.IsZero() {
		ago = ", " + Age(now.Sub(p.At)) + " ago"
	}
	held := heldBy(p)
	switch {
	case p.Passed >= ProbesAsked:
		return api.Pass, what + ": the last " + strconv.Itoa(ProbesAsked) + " passed" + ago + held
	case p.Failed > 0:
		s := what + ": " + Visible(p.Result) + ", " + strconv.Itoa(p.Failed) + " failed in a row" + ago
		if p.Detail != "" {
			s += ": " + Visible(p.Detail)
		}
		return api.Fail, s + held
	case p.Passed > 0:
		return api.NoData, what + ": " + strconv.Itoa(p.Passed) + " of " + strconv.Itoa(ProbesAsked) + " passed" + ago + held
	}
	return api.NoData, what + ": not probed yet" + held
}

// heldBy says why no probe is sent now. A breaker that is open holds each one
// for its cooldown: that passes, and is nothing to do about.
func heldBy(p *api.Probe) string {
	switch {
	case p.Held == "" || p.Held == "breaker_open" && p.Passed >= ProbesAsked:
		return ""
	case p.Held == "breaker_open":
		return "; next when its breaker lets one through"
	}
	return "; held: " + Visible(p.Held)
}

// Recovery says how the probes of an upstream speak for leaving degraded; it is
// no data where nothing is probed.
func Recovery(u *api.Upstream, now time.Time) (verdict, why string) {
	passed, failed := 0, 0
	for i := range u.Probes {
		switch v, _ := ProbeStanding(&u.Probes[i], now); v {
		case api.Pass:
			passed++
		case api.Fail:
			failed++
		}
	}
	n := len(u.Probes)
	asked := "probes passed " + strconv.Itoa(ProbesAsked) + "/" + strconv.Itoa(ProbesAsked)
	switch {
	case n == 0:
		return api.NoData, "nothing is probed"
	case passed == n:
		return api.Pass, asked
	case failed > 0:
		return api.Fail, "probes fail: " + strconv.Itoa(failed) + " of " + strconv.Itoa(n)
	}
	return api.NoData, asked + " for " + strconv.Itoa(passed) + " of " + strconv.Itoa(n)
}
