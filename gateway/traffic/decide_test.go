package traffic

import (
	"errors"
	"testing"
	"time"
)

func rev(n uint64) *uint64 { return &n }

func TestDecide(t *testing.T) {
	now := time.Date(2026, 11, 30, 4, 31, 0, 0, time.UTC)
	at := func(share int) Record {
		return Record{Version: RecordVersion, Share: share, Revision: 7, By: "ben", StateBy: "ben", FailbackID: "2026-11-30T04", Steps: DefaultSteps()}
	}
	lowered := at(25)
	lowered.Undo = &UndoRecord{Share: 75, By: "ana", Until: now}
	decide := func(c Command, r Record, now time.Time) (int, error) {
		t.Helper()
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		if c.By == "" {
			c.By = "ana"
		}
		out, err := decide(c, r, r.state("a"), DefaultSteps(), now)
		if err == nil && (out.next.Revision == 7) != (out.next.Share == r.Share) {
			t.Errorf("revision %d at %d%% after %d%%", out.next.Revision, out.next.Share, r.Share)
		}
		if err == nil && out.next.Validate() != nil {
			t.Errorf("comes to a record that cannot be: %v", out.next.Validate())
		}
		return out.next.Share, err
	}

	tests := []struct {
		name    string
		state   Record
		command Command
		want    int
		refused string // type of the error, empty for none
	}{
		{"down one step", at(75), Command{Share: 25}, 25, ""},
		{"down all the way", at(100), Command{Share: 0}, 0, ""},
		{"down ignores the revision", at(75), Command{Share: 5, Revision: rev(3)}, 5, ""},
		{"down ignores the gate", at(75), Command{Share: 5, BlockedBy: "breaker open"}, 5, ""},
		{"meant as a raise, and somebody went further", at(75), Command{Share: 25, Revision: rev(6), Raise: true}, 0, "stale"},
		{"meant as a raise, and somebody went as far", at(25), Command{Share: 25, Revision: rev(6), Raise: true}, 0, "stale"},
		{"meant as a raise with an override, and somebody went further", at(75), Command{Share: 25, Revision: rev(6), Raise: true, Override: true, Why: "probe ok"}, 0, "stale"},
		{"meant as a raise from another share than it is at", at(75), Command{Share: 25, Revision: rev(7), Raise: true}, 0, "stale"},
		{"meant as a raise, and it is one", at(5), Command{Share: 25, Revision: rev(7), Raise: true}, 25, ""},
		{"the same share is no step, whatever it was based on", at(25), Command{Share: 25, Revision: rev(3), BlockedBy: "breaker open"}, 25, ""},
		{"up one step", at(5), Command{Share: 25, Revision: rev(7)}, 25, ""},
		{"up from nothing", at(0), Command{Share: 5, Revision: rev(7)}, 5, ""},
		{"up to all", at(75), Command{Share: 100, Revision: rev(7)}, 100, ""},
		{"up without a revision", at(5), Command{Share: 25}, 0, "invalid"},
		{"up on an old revision", at(5), Command{Share: 25, Revision: rev(6)}, 0, "stale"},
		{"up on an old revision with an override", at(5), Command{Share: 25, Revision: rev(6), Override: true, Why: "probe ok"}, 0, "stale"},
		{"up two steps", at(5), Command{Share: 75, Revision: rev(7)}, 0, "blocked"},
		{"up two steps with an override", at(5), Command{Share: 75, Revision: rev(7), Override: true, Why: "vendor confirmed"}, 75, ""},
		{"an override without a reason", at(5), Command{Share: 75, Revision: rev(7), Override: true, Why: " \t"}, 0, "invalid"},
		// TRF-04: a side that is not ready gets no more.
		{"up against the gate", at(5), Command{Share: 25, Revision: rev(7), BlockedBy: "breaker half_open"}, 0, "blocked"},
		// TRF-09: the gate of this step, at this revision, can be passed on purpose.
		{"up against the gate with an override", at(5), Command{Share: 25, Revision: rev(7), BlockedBy: "no data", Override: true, Why: "no traffic at night"}, 25, ""},
		{"undo one's own", lowered, Command{Undo: true, By: "ana"}, 75, ""},
		{"undo is no step: the gate does not hold it", lowered, Command{Undo: true, By: "ana", Revision: rev(7), BlockedBy: "no data"}, 75, ""},
		{"undo somebody else's", lowered, Command{Undo: true, By: "ben"}, 0, "blocked"},
		{"undo what is no lowering", at(25), Command{Undo: true, By: "ana"}, 0, "blocked"},
		{"undo on an old revision", lowered, Command{Undo: true, By: "ana", Revision: rev(6)}, 0, "stale"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decide(tt.command, tt.state, now)
			if kind := kindOf(err); kind != tt.refused {
				t.Fatalf("decide: %q error %v, want %q", kind, err, tt.refused)
			}
			if got != tt.want {
				t.Errorf("share %d, want %d", got, tt.want)
			}
		})
	}
	if _, err := decide(Command{Undo: true, By: "ana"}, lowered, now.Add(time.Nanosecond)); kindOf(err) != "blocked" {
		t.Errorf("undo after its time: %v", err)
	}
}

func kindOf(err error) string {
	var (
		stale   *StaleError
		blocked *BlockedError
		bad     *InvalidError
		write   *WriteError
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &stale):
		return "stale"
	case errors.As(err, &blocked):
		return "blocked"
	case errors.As(err, &bad):
		return "invalid"
	case errors.As(err, &write):
		return "write"
	}
	return "other"
}

func TestNext(t *testing.T) {
	for from, to := range map[int]int{0: 5, 5: 25, 25: 75, 75: 100, 100: 0, 50: 75} {
		if got := (State{Share: from, Steps: DefaultSteps()}).Next(); got != to {
			t.Errorf("Next of %d = %d, want %d", from, got, to)
		}
	}
	if got := (State{Share: Full}).Next(); got != 0 {
		t.Errorf("Next of a whole upstream = %d", got)
	}
}
