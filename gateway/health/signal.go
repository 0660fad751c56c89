package health

import (
	"slices"
	"time"
)

// Group is a set of signals that may fail for one reason. Signals of different
// groups are independent evidence.
type Group string

// The groups.
const (
	Traffic Group = "traffic"
	Probes  Group = "probe"
	Expiry  Group = "expiry"
)

// Colour is what a signal says. Its zero value is no colour: a signal always has one.
type Colour string

// The colours. Unknown is neither good nor bad; for leaving suspect it counts
// as clear.
const (
	Green   Colour = "green"
	Red     Colour = "red"
	Unknown Colour = "unknown"
)

// The names of signals, each in one group. They are reasons of the transition
// to suspect too.
const (
	SignalErrorRate   = "error_rate"
	SignalSuccess     = "success"
	SignalBreaker     = "breaker"
	SignalProbe       = "probe"
	SignalCredential  = "credential"
	SignalCertificate = "certificate"
)

// Signal is one thing that an upstream is judged by.
type Signal struct {
	Group  Group
	Name   string
	Colour Colour
	// SuspectOnly says that red is a reason to look, not to leave: a date that
	// comes nearer, or a credential whose failure is to be seen.
	SuspectOnly bool
	// Coming says that it is red for a date that is still to come.
	Coming    bool
	Value     string // for people: "12/20 failed"
	BlindSpot string // what it cannot see
	// At is when it was measured, zero if it never was.
	At time.Time
	// Since is when it got its colour. Machine.Signals fills it in.
	Since time.Time
}

// red says that s speaks for suspicion, grave that it speaks for degrading.
func (s *Signal) red() bool   { return s.Colour == Red }
func (s *Signal) grave() bool { return s.red() && !s.SuspectOnly }

// Blind reports whether no signal is green or red: nothing is known.
func Blind(signals []Signal) bool {
	return !slices.ContainsFunc(signals, func(s Signal) bool { return s.Colour != Unknown })
}

// Hurry reports whether an upstream in that state should be probed at the pace
// of the cooldown. Degraded ones are, and suspect ones; not those under
// suspicion for a date alone, about which no probe can tell anything.
func Hurry(state State, signals []Signal) bool {
	switch state {
	case Degraded:
		return true
	case Suspect:
		return !slices.ContainsFunc(signals, func(s Signal) bool { return s.red() && s.Coming }) ||
			slices.ContainsFunc(signals, func(s Signal) bool { return s.red() && !s.Coming })
	}
	return false
}
