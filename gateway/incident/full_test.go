package incident

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// filler writes into a record as people do: what Weigh refuses is not applied.
type filler struct {
	*testing.T
	r   Record
	seq uint64
}

func (f *filler) apply(op Op) {
	f.seq++
	op.Writer, op.Seq, op.At = "w", f.seq, at(float64(f.seq))
	f.r = f.r.Apply(op)
}

// asks reports whether op is taken. That the record is full is all that may refuse it.
func (f *filler) asks(op Op) bool {
	f.Helper()
	does, _, err := f.r.Weigh(op, true)
	if refused, is := errors.AsType[*api.Error](err); is && strings.Contains(refused.Message, "the record is full: ") {
		return false
	}
	if err != nil || !does {
		f.Fatalf("%s: %v %v", op.Kind, does, err)
	}
	f.apply(op)
	return true
}

// What people wrote and were told is taken never leaves the record, whatever else
// happens. Once it fills the record more of it is refused, and the rest goes on.
func TestWhatPeopleWroteStays(t *testing.T) {
	for name, text := range map[string]string{"short": "n", "long": strings.Repeat("<", 1000)} {
		t.Run(name, func(t *testing.T) {
			f := &filler{T: t}
			f.apply(Op{Kind: OpOpen, ID: "x", Title: "t", Cause: api.CauseOperator, By: "ana"})
			var taken []string
			refused := 0
			note := func() {
				n := fmt.Sprintf("%03d ", len(taken)+refused)
				if !f.asks(Op{Kind: OpNote, Text: n + text, By: "ana"}) {
					refused++
					return
				}
				taken = append(taken, n)
			}
			for i := range 700 {
				note()
				f.apply(Op{Kind: OpEvent, Event: &api.Event{Event: "breaker_transition", From: "closed", To: "open", Detail: fmt.Sprint(i)}})
				f.apply(Op{Kind: OpTrouble, Key: fmt.Sprint("degraded/", i%3), Cause: api.CauseDegraded, Phase: []Phase{Ill, Back}[i/3%2], Text: "flaps"})
			}
			if refused == 0 || len(taken) < 30 {
				t.Fatalf("%d taken, %d refused", len(taken), refused)
			}
			if _, _, err := f.r.Weigh(Op{Kind: OpNote, Text: "x"}, false); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the record is full: %d entries by people; close it and open another", len(taken))) {
				t.Errorf("%v", err)
			}
			if f.asks(Op{Kind: OpTick, Runbook: "r", Step: 1, Done: true, By: "ana"}) {
				t.Error("a tick is taken")
			}
			answers := 0
			answer := func(id, text string) bool {
				if !f.asks(Op{Kind: OpAnswer, Question: id, Text: text, By: "ana", Seen: f.r.Answers[id].At}) {
					return false
				}
				answers++
				return true
			}
			for i := range 100 { // until no place is left but for the first ones
				answer("users", fmt.Sprint(i, text))
			}
			if answer("users", text) {
				t.Error("an answer is replaced without end")
			}
			for _, id := range api.ClosingQuestions {
				if id != "users" && !answer(id, text) {
					t.Errorf("%s is not answered", id)
				}
			}
			for range 100 {
				if !f.asks(Op{Kind: OpClose, By: "ana", Text: text}) || f.r.Open() || !f.asks(Op{Kind: OpReopen, By: "ben", Text: text}) || !f.r.Open() {
					t.Fatal("it is not closed and reopened")
				}
			}
			i, have := 0, 0
			for _, e := range f.r.Entries {
				switch {
				case e.Kind == api.EntryNote && i < len(taken) && strings.HasPrefix(e.Text, taken[i]):
					i++
				case e.Kind == api.EntryAnswer:
					have++
				}
			}
			if i != len(taken) || have != answers || len(f.r.Entries) > maxEntries {
				t.Errorf("%d of %d notes, %d of %d answers, in %d entries", i, len(taken), have, answers, len(f.r.Entries))
			}
			if last := f.r.Entries[len(f.r.Entries)-1]; last.Kind != api.EntryReopened {
				t.Errorf("the last is %+v", last.Kind)
			}
		})
	}
}
