package health

import (
	"strconv"
	"time"

	"failback/gateway/decision"
)

// Move is what the machine wishes to be done in the share table.
type Move uint8

// The moves.
const (
	Stay    Move = iota
	Degrade      // whole → share 0
	Recover      // degraded → the first step
	Climb        // recovering → the next step
	Retreat      // recovering → the highest lower share whose window passed, else degraded
	Settle       // recovering at 100 % → whole
)

var moves = [...]string{Stay: "stay", Degrade: "degrade", Recover: "recover", Climb: "advance", Retreat: "retreat", Settle: "settle"}

// String returns the word for logs.
func (m Move) String() string { return moves[m] }

// Wish is a move that is due.
type Wish struct {
	Move Move
	To   int // share that the move comes to
	// Reason is the machine's word for why, a Reason…; Detail says it to people.
	Reason, Detail string
	// Would says that the move is to be told and not done.
	Would bool
	// New says that it was not wished in the step before: tell it now. A wish
	// stands until it is done or its reason is gone.
	New bool
}

// Reasons of wishes and transitions, besides the names of signals.
const (
	ReasonClear     = "clear"             // suspect → healthy
	ReasonTwoGroups = "two_groups"        // two independent groups red
	ReasonOneGroup  = "one_group"         // one group red for long
	ReasonOpenings  = "openings"          // a breaker opened again and again
	ReasonProbed    = "recovery_evidence" // probes passed
	ReasonEvidence  = "evidence"          // of the step in force
	ReasonHeld      = "held"              // 100 % held
)

// Transition is a change between healthy and suspect. Those of conditions
// belong to the share table, which tells them.
type Transition struct {
	At             time.Time
	From, To       State
	Reason, Detail string
}

// Event renders t for the log.
func (t *Transition) Event(upstream, region string) decision.Event {
	return decision.Event{
		Kind: decision.KindHealthTransition, Time: t.At, Provider: upstream, Region: region,
		From: string(t.From), To: string(t.To), Reason: t.Reason, Detail: t.Detail, By: decision.Auto, Result: "ok",
	}
}

// detail says to people why w is due.
func (m *Machine) detail(f *Facts, w Wish) string {
	switch w.Move {
	case Degrade:
		one, two := m.reddest()
		_, values := m.reds(true)
		switch w.Reason {
		case ReasonTwoGroups:
			return "two independent groups red for " + span(two) + ": " + values
		case ReasonOneGroup:
			return "red for " + span(one) + ": " + values
		}
		return "opened " + strconv.Itoa(MaxOpenings) + " times in " + span(OpeningsWindow) + ": " + values
	case Recover:
		return "the last two probes of each candidate and capability passed"
	case Climb, Retreat:
		return f.EvidenceText
	case Settle:
		return "100% held for " + span(f.HeldFull)
	}
	return ""
}
