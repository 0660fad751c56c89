package traffic

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Steps are the shares there are, in percent, lowest first.
var Steps = []int{0, 5, 25, 75, 100}

// Full is the share of an upstream that is not held back.
const Full = 100

// Auto is State.By of what nobody typed: a start.
const Auto = "auto"

// UndoFor is how long one's own lowering can be put back in one move.
const UndoFor = 5 * time.Minute

// KeptFor is how long the state of a name that left the configuration is kept.
const KeptFor = 7 * 24 * time.Hour

// Next returns the step above share, or 0 if there is none.
func Next(share int) int {
	for _, s := range Steps {
		if s > share {
			return s
		}
	}
	return 0
}

// State is the traffic state of one upstream. It is a copy: changing it
// changes nothing.
type State struct {
	Upstream string
	Share    int // percent, one of Steps
	// Revision grows with every change of the share, never otherwise. The first is 1.
	Revision uint64
	Since    time.Time // of the share
	By       string    // who set it, Auto for a start
	Why      string
	// FailbackID salts membership while the share is below Full: the UTC date
	// and hour of the first lowering, "2026-11-30T04". Empty at Full.
	FailbackID string
	// Unsynced says that the share is in force here but not in the file.
	Unsynced bool
	// Undo is set while the last lowering can be put back in one move by the
	// one who did it. It may lie in the past: see Undo.Until.
	Undo *Undo
}

// Undo says what Command.Undo would restore, for whom and until when.
type Undo struct {
	Share int
	By    string
	Until time.Time
}

// Command asks for a share.
type Command struct {
	Upstream string
	Share    int // one of Steps; ignored with Undo
	// Revision is the one the caller saw. Raising needs it; lowering ignores it.
	Revision *uint64
	By       string // who asks; never empty
	Why      string // what they typed
	// Override raises by more than one step or against BlockedBy. It needs Why.
	Override bool
	// Undo puts back the share before the caller's own last lowering. Share and
	// BlockedBy are ignored, and Revision only has to match if it is given.
	Undo bool
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

func isStep(share int) bool { return slices.Contains(Steps, share) }

func stepList() string {
	s := make([]string, len(Steps))
	for i, v := range Steps {
		s[i] = strconv.Itoa(v)
	}
	return strings.Join(s, ", ")
}
