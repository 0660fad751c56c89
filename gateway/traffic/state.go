package traffic

import (
	"fmt"
	"strconv"
	"time"
)

// Full is the share of an upstream that is not held back.
const Full = 100

// UndoFor is how long one's own lowering can be put back in one move.
const UndoFor = 5 * time.Minute

// KeptFor is how long the state of a name that left the configuration is kept.
const KeptFor = 7 * 24 * time.Hour

// retreatsMost is how many retreats end a plan and every step nobody typed.
const retreatsMost = 2

// Step is one share on the way back.
type Step struct {
	Share int `json:"share"` // percent, above 0
	// Observe is how long the share is watched before the next; 0 for Full,
	// which must hold for the recovery window instead.
	Observe time.Duration `json:"observe_ns,omitempty"`
}

// DefaultSteps are those of failbacks that begin before Configure was called,
// and of those that a program without configurable steps has stored.
func DefaultSteps() []Step {
	return []Step{
		{Share: 5, Observe: 10 * time.Minute},
		{Share: 25, Observe: 15 * time.Minute},
		{Share: 75, Observe: 15 * time.Minute},
		{Share: Full},
	}
}

// Condition is what the share table knows of an upstream's health: how far its
// failback is.
type Condition uint8

// The conditions.
const (
	// Whole: no failback is under way. Whether it is healthy or suspect is
	// known to gateway/health alone.
	Whole Condition = iota
	// Degraded: a failback is under way and the share is 0.
	Degraded
	// Recovering: a failback is under way and the share is above 0. At Full it
	// admits everybody and lasts until Settle.
	Recovering
)

// String returns the word of the operator API; Whole is "healthy".
func (c Condition) String() string {
	switch c {
	case Degraded:
		return "degraded"
	case Recovering:
		return "recovering"
	}
	return "healthy"
}

// State is the traffic state of one upstream. It is a copy: changing it
// changes nothing.
type State struct {
	Upstream string
	Share    int // percent
	// Revision grows with every change of the share, the condition or the plan,
	// never otherwise. The first is 1.
	Revision uint64
	// RevisedBy and RevisedAt say who wrote the revision, and when: they are of
	// the last change, whether it moved the share, the condition or the plan.
	RevisedBy string
	RevisedAt time.Time
	Since     time.Time // of the share
	By        string    // who set it, decision.Auto for a start or the machine, decision.ByPlan for a plan
	Why       string
	// FailbackID is set while a failback is under way, and salts membership:
	// the UTC date and hour of the first lowering, "2026-11-30T04"; a second
	// failback of that hour has ".2" after it.
	FailbackID string
	// Machine says that the machine degraded it, not an operator. Only while
	// Degraded.
	Machine bool
	// Steps are those that the failback under way began with.
	Steps []Step
	// Passed are the shares whose window passed in this failback, lowest first.
	Passed []int
	// Retreats counts those of this failback.
	Retreats int
	// Plan is the approval of the remaining steps, nil if there is none.
	Plan *Plan
	// Served is how long the gateway was up since the step began.
	Served time.Duration
	// StateSince, StateBy and Reason are of the condition: since when, who
	// brought it about, and for people why the failback began or what degraded
	// it last; Reason is empty while Whole.
	StateSince time.Time
	StateBy    string
	Reason     string
	// Epoch names what the upstream is primary of. It changes with that, and
	// evidence of another epoch counts for nothing.
	Epoch string
	// Unsynced says that the state is in force here but not stored.
	Unsynced bool
	// Undo is set while the last lowering can be put back in one move by the
	// one who did it. It may lie in the past: see Undo.Until.
	Undo *Undo
}

// Condition derives how far the failback is.
func (s State) Condition() Condition { return condition(s.FailbackID, s.Share) }

func condition(id string, share int) Condition {
	switch {
	case id == "":
		return Whole
	case share == 0:
		return Degraded
	}
	return Recovering
}

// Next returns the step above the share, or 0 if there is none.
func (s State) Next() int {
	for _, step := range s.Steps {
		if step.Share > s.Share {
			return step.Share
		}
	}
	return 0
}

// Plan is an approval of all remaining steps of one failback. It ends with the
// failback, when a person lowers the share, when the upstream becomes degraded or
// a person degrades one that is, at the second retreat, and when somebody
// withdraws it. A person's raise and the first retreat leave it.
type Plan struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// Undo says what Command.Undo would restore, for whom and until when.
type Undo struct {
	Share     int
	Condition Condition
	By        string
	Until     time.Time
}

// Command asks for a share.
type Command struct {
	Upstream string
	Share    int // 0, or a step of the failback or of the configuration; ignored with Undo
	// Revision is the one the caller saw. Raising needs it; lowering ignores it.
	Revision *uint64
	// Raise says that it is meant as a raise. It is refused as stale where it
	// would be none by now, so that no old sight of the share lowers it.
	Raise bool
	// By is who asks, never empty: a name, decision.Auto, or decision.ByPlan of
	// who approved.
	By  string
	Why string // what they typed
	// Override raises by more than one step or against BlockedBy. It needs Why.
	Override bool
	// Undo puts back share and condition before the caller's own last lowering.
	// Share and BlockedBy are ignored, and Revision only has to match if it is
	// given.
	Undo bool
	// Collapse says that the upstream is primary of nothing: nothing can be
	// learned at a step, so the next one is Full.
	Collapse bool
	// BlockedBy is the objection to going up, empty if there is none.
	BlockedBy string
}

// StaleError refuses a raise based on another revision than the current one.
type StaleError struct{ Current State }

func (e *StaleError) Error() string {
	return fmt.Sprintf("%s changed meanwhile: it is at %d%% since revision %d by %s; look again and repeat the step",
		e.Current.Upstream, e.Current.Share, e.Current.Revision, e.Current.By)
}

// BlockedError refuses a raise that something speaks against. By says what.
type BlockedError struct {
	By      string
	Current State
}

func (e *BlockedError) Error() string {
	return fmt.Sprintf("%s stays at %d%%: %s", e.Current.Upstream, e.Current.Share, e.By)
}

// InvalidError refuses a command that makes no sense in any state.
type InvalidError struct{ Message string }

func (e *InvalidError) Error() string { return e.Message }

func invalid(format string, args ...any) error {
	return &InvalidError{Message: fmt.Sprintf(format, args...)}
}

// WriteError refuses a raise because it could not be written down; the share
// is unchanged. Err is the cause.
type WriteError struct {
	Current State
	Err     error
}

func (e *WriteError) Error() string {
	return fmt.Sprintf("%s stays at %d%%: the share table could not be written: %v", e.Current.Upstream, e.Current.Share, e.Err)
}

func (e *WriteError) Unwrap() error { return e.Err }

func percent(share int) string { return strconv.Itoa(share) + "%" }
