package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"failback/gateway/decision"
)

// Measures is what was measured of one upstream.
type Measures struct {
	// OK and Failed are attempts of the last Settings.Window that ended well or
	// counted against a bucket, and LastAttempt the end of the latest.
	OK, Failed  int
	LastAttempt time.Time
	Breakers    []Breaker
	Probes      []ProbeResult
	Credential  Credential
	Certificate Certificate
}

// Breaker is the state of one bucket.
type Breaker struct {
	Capability decision.Capability
	State      string // closed, open, half_open or ramping
	Reason     string // of its opening while not closed
	Samples    int    // in its window
	// Waiting says that it would let a probe through and none came: nobody
	// knows how the upstream is.
	Waiting bool
	// Outweighed says that it is shut because another candidate does better. It
	// takes so few failures that they say little of the upstream.
	Outweighed bool
	Forced     bool // by an operator: no measurement
}

// ProbeResult is the last probe of one candidate and capability.
type ProbeResult struct {
	Model      string
	Capability decision.Capability
	Class      decision.Class // empty before the first
	At         time.Time
	Held       bool // its daily cost is used up
}

// Credential is the state of an upstream's keys.
type Credential struct {
	// Cooling is the class for which they cool, empty if they do not.
	Cooling decision.Class
	Until   time.Time // of the cooling
	Expires time.Time // as configured, zero if it is not
}

// Certificate is the one the upstream showed last.
type Certificate struct {
	NotAfter time.Time // zero if none was seen
	Seen     time.Time
}

// certificateMaxAge is the time after which a certificate that was not seen
// again may have been replaced.
const certificateMaxAge = 24 * time.Hour

// Signals judges m at now: one signal per name, always all of them, in the
// order of the groups.
func Signals(now time.Time, m Measures, s Settings) []Signal {
	l := []Signal{
		errorRate(now, m, s),
		success(now, m, s),
		breakers(now, m.Breakers),
		probes(now, m.Probes, s),
		credential(now, m.Credential, s),
		certificate(now, m.Certificate, s),
	}
	for i := range l {
		l[i].age(now)
	}
	return l
}

// age takes the colour of what is red and was measured too long ago.
func (s *Signal) age(now time.Time) {
	if s.red() && now.Sub(s.At) > RedMaxAge {
		s.Colour, s.SuspectOnly = Unknown, false
		s.Value += ", too long ago"
	}
}

func errorRate(now time.Time, m Measures, s Settings) Signal {
	g := Signal{
		Group: Traffic, Name: SignalErrorRate, At: m.LastAttempt,
		BlindSpot: "sees requests that came: not what a request of another kind would meet",
	}
	if !enough(&g, m, s) {
		return g
	}
	n := m.OK + m.Failed
	rate := float64(m.Failed) / float64(n)
	g.Value = fmt.Sprintf("%d/%d failed", m.Failed, n)
	g.Colour = Green
	if rate >= s.ErrorRate {
		g.Colour = Red
	}
	return g
}

func success(now time.Time, m Measures, s Settings) Signal {
	g := Signal{
		Group: Traffic, Name: SignalSuccess, At: m.LastAttempt,
		BlindSpot: "one success is enough: says nothing of how many fail",
	}
	if !enough(&g, m, s) {
		return g
	}
	g.Value = fmt.Sprintf("%d succeeded in %s", m.OK, span(s.Window))
	g.Colour = Green
	if m.OK == 0 {
		g.Colour = Red
	}
	return g
}

// enough reports whether there is traffic to judge by, and says so if not.
func enough(g *Signal, m Measures, s Settings) bool {
	if n := m.OK + m.Failed; n == 0 || n < s.MinTraffic {
		g.Colour = Unknown
		g.Value = fmt.Sprintf("too little traffic: %d in %s, %d needed", n, span(s.Window), max(s.MinTraffic, 1))
		return false
	}
	return true
}

func breakers(now time.Time, l []Breaker) Signal {
	g := Signal{
		Group: Traffic, Name: SignalBreaker, Colour: Unknown, At: now,
		BlindSpot: "sees capabilities that were asked for",
	}
	var bad, good, mute []string
	for _, b := range l {
		name := string(b.Capability)
		switch {
		case b.Forced:
			mute = append(mute, name+" forced "+b.State)
		case b.State == "closed" && b.Samples == 0:
		case b.State == "closed":
			good = append(good, name+" closed")
		case b.State == "ramping":
			good = append(good, name+" ramping")
		case b.Outweighed:
			mute = append(mute, name+" "+b.State+" (another one does better)")
		case b.Waiting:
			mute = append(mute, name+" waits for a probe")
		default:
			bad = append(bad, name+" "+b.State+" ("+b.Reason+")")
		}
	}
	switch {
	case len(bad) > 0:
		g.Colour, g.Value = Red, strings.Join(bad, ", ")
	case len(good) > 0:
		g.Colour, g.Value = Green, strings.Join(append(good, mute...), ", ")
	case len(mute) > 0:
		g.Value = strings.Join(mute, ", ")
	default:
		g.Value = "no traffic"
	}
	return g
}

func probes(now time.Time, l []ProbeResult, s Settings) Signal {
	g := Signal{
		Group: Probes, Name: SignalProbe, Colour: Unknown,
		BlindSpot: "a small request from here: not the load, the size or the region of clients",
	}
	var bad, good, held, old int
	mild := true
	var what []string
	var badAt, goodAt, lastAt time.Time
	for _, p := range l {
		if p.At.After(lastAt) {
			lastAt = p.At
		}
		switch {
		case p.Held:
			held++
		case p.Class == "":
		case now.Sub(p.At) > s.ProbeMaxAge:
			old++
		case p.Class == decision.OK:
			good++
			if p.At.After(goodAt) {
				goodAt = p.At
			}
		case now.Sub(p.At) > RedMaxAge:
			old++
		default:
			bad++
			mild = mild && s.mild(p.Class)
			what = append(what, string(p.Capability)+" "+string(p.Class))
			if p.At.After(badAt) {
				badAt = p.At
			}
		}
	}
	switch {
	case bad > 0:
		slices.Sort(what)
		g.Colour, g.SuspectOnly, g.At = Red, mild, badAt
		g.Value = fmt.Sprintf("%d of %d failed: %s", bad, len(l), strings.Join(slices.Compact(what), ", "))
	case good > 0:
		g.Colour, g.At = Green, goodAt
		g.Value = fmt.Sprintf("%d of %d passed", good, len(l))
	case held > 0:
		g.At, g.Value = lastAt, "the daily cost of probes is used up"
	case old > 0:
		g.At, g.Value = lastAt, "the last result is too old"
	case len(l) > 0:
		g.Value = "not probed yet"
	default:
		g.Value = "nothing is probed"
	}
	return g
}

// mild reports whether a failure of that class is to be seen, not left.
func (s *Settings) mild(c decision.Class) bool {
	switch c {
	case decision.Credential:
		return !s.CredentialSwitch
	case decision.QuotaExhausted:
		return !s.QuotaSwitch
	}
	return false
}

func credential(now time.Time, c Credential, s Settings) Signal {
	g := Signal{
		Group: Expiry, Name: SignalCredential, Colour: Unknown, At: now,
		BlindSpot: "knows the configured date; a key that is withdrawn shows when it is used",
	}
	switch {
	case c.Cooling != "":
		g.Colour, g.SuspectOnly = Red, s.mild(c.Cooling)
		g.Value = string(c.Cooling) + ", cools for " + span(max(c.Until.Sub(now), 0))
	case c.Expires.IsZero():
		g.Value = "no date of expiry is configured"
	default:
		// Declared, not measured: while requests pass the date may be wrong.
		g.expiry(now, c.Expires, s.ExpiryMargin)
		g.SuspectOnly = g.red() && (g.SuspectOnly || s.mild(decision.Credential))
	}
	return g
}

func certificate(now time.Time, c Certificate, s Settings) Signal {
	g := Signal{
		Group: Expiry, Name: SignalCertificate, Colour: Unknown, At: now,
		BlindSpot: "the one of the last handshake: other servers behind the name may show another",
	}
	switch {
	case c.NotAfter.IsZero():
		g.At, g.Value = time.Time{}, "none seen"
	case now.Sub(c.Seen) > certificateMaxAge:
		g.At, g.Value = c.Seen, "not seen for "+span(now.Sub(c.Seen))
	default:
		g.expiry(now, c.NotAfter, s.ExpiryMargin)
	}
	return g
}

// expiry colours g by an end. One that is still to come breaks nothing yet.
func (g *Signal) expiry(now, end time.Time, margin time.Duration) {
	left := end.Sub(now)
	switch {
	case left <= 0:
		g.Colour, g.Value = Red, "expired "+span(-left)+" ago"
	case left <= margin:
		g.Colour, g.SuspectOnly, g.Coming, g.Value = Red, true, true, "expires in "+span(left)
	default:
		g.Colour, g.Value = Green, "expires in "+span(left)
	}
}

// span writes a duration in at most two units, days the largest.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		if s := d % time.Minute / time.Second; s > 0 {
			return fmt.Sprintf("%dm%ds", d/time.Minute, s)
		}
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
