package traffic

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RecordVersion is Record.Version of what this program writes.
const RecordVersion = 1

// Record is the state of one upstream as it is stored: share and condition
// together, so that they cannot contradict each other.
type Record struct {
	Version  int    `json:"version"`
	Share    int    `json:"share"`
	Revision uint64 `json:"revision"`
	// RevisedBy and RevisedAt are of the revision; empty in a record that was
	// stored without: see revised.
	RevisedBy  string    `json:"revised_by,omitempty"`
	RevisedAt  time.Time `json:"revised_at,omitzero"`
	Since      time.Time `json:"since"`
	By         string    `json:"by"`
	Why        string    `json:"why,omitempty"`
	FailbackID string    `json:"failback_id,omitempty"`
	// LastID is the id of the failback before, so that the next gets another.
	LastID     string        `json:"last_failback_id,omitempty"`
	Machine    bool          `json:"machine,omitempty"`
	Steps      []Step        `json:"steps,omitempty"`
	Passed     []int         `json:"passed,omitempty"`
	Retreats   int           `json:"retreats,omitempty"`
	Plan       *Plan         `json:"plan,omitempty"`
	Served     time.Duration `json:"served_ns,omitempty"`
	StateSince time.Time     `json:"state_since"`
	StateBy    string        `json:"state_by"`
	Reason     string        `json:"reason,omitempty"`
	Epoch      string        `json:"epoch,omitempty"`
	// Split are the conversations that are placed by request.
	Split []Key       `json:"split_by_request,omitempty"`
	Undo  *UndoRecord `json:"undo,omitempty"`
	// Removed is when the name left the configuration, zero while it is there.
	// A record KeptFor after it is as good as none and may be dropped.
	Removed time.Time `json:"removed,omitzero"`
}

// UndoRecord is what putting back the last lowering restores.
type UndoRecord struct {
	Share  int       `json:"share"`
	Whole  bool      `json:"whole,omitempty"` // the lowering began the failback
	Reason string    `json:"reason,omitempty"`
	LastID string    `json:"last_failback_id,omitempty"`
	By     string    `json:"by"`
	Until  time.Time `json:"until"`
}

// Key names a conversation without its text. It is written in hexadecimal:
// JSON numbers lose bits.
type Key uint64

// MarshalText writes k in hexadecimal.
func (k Key) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(k), 16), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *Key) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil {
		return fmt.Errorf("split_by_request: %w", err)
	}
	*k = Key(n)
	return nil
}

// ParseRecord reads a record that was written as JSON. One of another version,
// or one that contradicts itself, is an error.
func ParseRecord(data []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("not readable: %w", err)
	}
	if err := r.Validate(); err != nil {
		return Record{}, err
	}
	return r, nil
}

// idForm is that of FailbackID.
var idForm = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d)(?:\.([2-9]|[1-9]\d{1,5}))?$`)

const idLayout = "2006-01-02T15"

// Validate reports what is wrong with r, nil if it can be put in force.
func (r Record) Validate() error {
	switch {
	case r.Version != RecordVersion:
		return fmt.Errorf("version %d, this program knows %d", r.Version, RecordVersion)
	case r.Share < 0 || r.Share > Full:
		return fmt.Errorf("share %d is not between 0 and %d", r.Share, Full)
	case r.Revision == 0:
		return errors.New("revision missing")
	case r.By == "" || r.StateBy == "":
		return errors.New("it does not say who set it")
	case r.Machine && (r.FailbackID == "" || r.Share > 0):
		return errors.New("degraded by the machine, and not degraded")
	case r.Retreats < 0 || r.Served < 0:
		return errors.New("retreats or served below 0")
	case r.Plan != nil && r.Plan.By == "":
		return errors.New("a plan that nobody approved")
	}
	if u := r.Undo; u != nil && (u.Share <= r.Share || u.Share > Full || u.Whole && u.Share != Full || u.By == "") {
		return fmt.Errorf("undo to share %d from %d", u.Share, r.Share)
	}
	if r.FailbackID == "" {
		if r.Share != Full || len(r.Steps) > 0 || len(r.Passed) > 0 || r.Retreats > 0 || r.Plan != nil || r.Undo != nil {
			return errors.New("no failback_id, and a failback under way")
		}
		return nil
	}
	m := idForm.FindStringSubmatch(r.FailbackID)
	if m == nil {
		return fmt.Errorf("failback_id %q", r.FailbackID)
	}
	if _, err := time.Parse(idLayout, m[1]); err != nil {
		return fmt.Errorf("failback_id: %w", err)
	}
	for _, share := range r.Passed {
		if share <= 0 || share > Full {
			return fmt.Errorf("passed share %d", share)
		}
	}
	return validSteps(r.Steps)
}

// validSteps reports why steps are no way from 0 to Full.
func validSteps(steps []Step) error {
	last := 0
	for _, s := range steps {
		if s.Share <= last || s.Observe < 0 {
			return fmt.Errorf("steps do not rise at %d%%", s.Share)
		}
		last = s.Share
	}
	if last != Full {
		return fmt.Errorf("steps end at %d%%, not at %d%%", last, Full)
	}
	return nil
}

// Gone reports whether r is as good as none at now.
func (r Record) Gone(now time.Time) bool { return !r.Removed.IsZero() && now.Sub(r.Removed) >= KeptFor }

func (r Record) condition() Condition { return condition(r.FailbackID, r.Share) }

// clone shares nothing that could be changed with r.
func (r Record) clone() Record {
	r.Steps, r.Passed, r.Split = slices.Clone(r.Steps), slices.Clone(r.Passed), slices.Clone(r.Split)
	r.Plan, r.Undo = copyOf(r.Plan), copyOf(r.Undo)
	return r
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// state shows r, the record of name.
func (r Record) state(name string) State {
	s := State{
		Upstream: name, Share: r.Share, Revision: r.Revision, Since: r.Since, By: r.By, Why: r.Why,
		FailbackID: r.FailbackID, Machine: r.Machine, Steps: r.Steps, Passed: r.Passed, Retreats: r.Retreats,
		Plan: r.Plan, Served: r.Served, StateSince: r.StateSince, StateBy: r.StateBy, Reason: r.Reason, Epoch: r.Epoch,
	}
	s.RevisedBy, s.RevisedAt = r.revised()
	if u := r.Undo; u != nil {
		s.Undo = &Undo{Share: u.Share, Condition: Recovering, By: u.By, Until: u.Until}
		if u.Whole {
			s.Undo.Condition = Whole
		}
	}
	return s
}

// revised is who wrote the revision and when; of a record that does not say so,
// the newest of what it says.
func (r Record) revised() (by string, at time.Time) {
	if r.RevisedBy != "" {
		return r.RevisedBy, r.RevisedAt
	}
	by, at = r.By, r.Since
	if r.StateSince.After(at) {
		by, at = r.StateBy, r.StateSince
	}
	if r.Plan != nil && r.Plan.At.After(at) {
		by, at = r.Plan.By, r.Plan.At
	}
	return by, at
}

// nextID is the id of a failback that begins at now after that of last.
func nextID(last string, now time.Time) string {
	hour := now.UTC().Format(idLayout)
	m := idForm.FindStringSubmatch(last)
	if m == nil || m[1] != hour {
		return hour
	}
	n, err := strconv.Atoi(m[2])
	if err != nil {
		n = 1
	}
	return hour + "." + strconv.Itoa(n+1)
}

// isShare reports whether share may be asked for under any of the steps.
func isShare(share int, steps ...[]Step) bool {
	return share == 0 || slices.ContainsFunc(slices.Concat(steps...), func(s Step) bool { return s.Share == share })
}

func shareList(steps []Step) string {
	l := []string{"0"}
	for _, s := range steps {
		l = append(l, strconv.Itoa(s.Share))
	}
	return strings.Join(l, ", ")
}
