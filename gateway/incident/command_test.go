package incident

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// asks has somebody ask for op as a gateway does: it is judged, done and judged
// again.
func asks(b *Book, op Op, anyway bool) (said string, err error) {
	r, _, _ := b.Get("x")
	does, said, err := r.Weigh(op, anyway)
	if err != nil || !does {
		return said, err
	}
	b.Do("x", op, false)
	r, _, _ = b.Get("x")
	return r.Became(op, said)
}

func refusal(t *testing.T, err error) *api.Error {
	t.Helper()
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != api.CodeStaleRevision || e.Question == nil {
		t.Fatalf("%v is no refusal of what was not seen", err)
	}
	return e
}

func answer(by, text string, at, seen time.Time) Op {
	return Op{Kind: OpAnswer, By: by, Text: text, Question: api.QuestionUsers, At: at, Seen: seen}
}

// An answer takes the place of one that its author saw, and of no other.
func TestAnAnswerReplacesWhatWasSeen(t *testing.T) {
	b := opened()
	first, second := at(10), at(20).Add(123456789)
	said, err := asks(b, answer("ana", "nobody", first, time.Time{}), false)
	if err != nil || !strings.Contains(said, "5 of 6 left") || strings.Contains(said, "left: users") {
		t.Fatal(said, err)
	}
	if said, err := asks(b, answer("ana", "nobody", at(11), time.Time{}), false); err != nil || !strings.Contains(said, "already") {
		t.Errorf("the same again: %q %v", said, err)
	}
	for _, seen := range []time.Time{{}, at(9)} {
		_, err = asks(b, answer("ben", "all", second, seen), false)
		e := refusal(t, err)
		for _, want := range []string{"ana", "2026-11-30 04:00:10Z", "nobody", e.Question.At.Format(time.RFC3339Nano)} {
			if !strings.Contains(e.Error(), want) {
				t.Errorf("%q is not said by %q", want, e)
			}
		}
	}
	r, _, _ := b.Get("x")
	if r.Answers[api.QuestionUsers].By != "ana" || len(r.Entries) != 2 {
		t.Fatalf("%+v", r)
	}
	// The time comes from what was read: as JSON has it.
	var seen time.Time
	if j, err := json.Marshal(r.Answers[api.QuestionUsers].At); err != nil || json.Unmarshal(j, &seen) != nil {
		t.Fatal(err)
	}
	if _, err = asks(b, answer("ben", "all", second, seen), false); err != nil {
		t.Fatal(err)
	}
	if r, _, _ = b.Get("x"); r.Answers[api.QuestionUsers].Text != "all" || !r.Answers[api.QuestionUsers].At.Equal(second) || len(r.Entries) != 3 {
		t.Errorf("%+v", r)
	}
}

// A long answer that its author gives again is the same one, as the record has it.
func TestALongAnswerAgain(t *testing.T) {
	b := opened()
	long := strings.Repeat("x", 2*maxText)
	for i, want := range []string{"is answered; ", "already"} {
		if said, err := asks(b, answer("ana", long, at(float64(i)), time.Time{}), false); err != nil || !strings.Contains(said, want) {
			t.Errorf("%q %v, want %q", said, err, want)
		}
	}
}

// As long as one question is left an incident is not closed, unless anyway.
func TestOneQuestionIsLeft(t *testing.T) {
	b := opened()
	end := Op{Kind: OpClose, By: "ana", At: at(9)}
	for _, id := range api.ClosingQuestions {
		_, err := asks(b, end, false)
		e, refused := errors.AsType[*api.Error](err)
		if !refused || e.Code != api.CodeBlocked || !strings.Contains(e.Message, id) {
			t.Errorf("%s is left: %v", id, err)
		}
		if _, err := asks(b, Op{Kind: OpAnswer, By: "ana", Text: "yes", Question: id, At: at(5)}, false); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := asks(b, end, false); said != "closed" || err != nil {
		t.Errorf("%q %v", said, err)
	}
}

// Two gateways that share a store take an answer each before they hear of each
// other: the first one written stands, the other is told, and its author hears so.
func TestAnswersAtTwoGateways(t *testing.T) {
	here := opened()
	w, _ := here.Work("x")
	here.Wrote(w, 1)
	there := NewBook("v", "gw-2")
	there.Learn("x", w.Record, 1)

	for b, op := range map[*Book]Op{here: answer("ana", "nobody", at(10), time.Time{}), there: answer("ben", "all", at(9), time.Time{})} {
		if _, err := asks(b, op, false); err != nil {
			t.Fatal(err)
		}
	}
	w, _ = here.Work("x")
	here.Wrote(w, 2)
	there.Learn("x", w.Record, 2) // ben's is still to be written
	r, _, _ := there.Get("x")
	_, err := r.Became(answer("ben", "all", at(9), time.Time{}), "answered")
	if e := refusal(t, err); e.Question.By != "ana" || e.Question.Answer != "nobody" {
		t.Errorf("%+v", e.Question)
	}
	if r.Answers[api.QuestionUsers].By != "ana" || !slices.ContainsFunc(r.Entries, func(e Entry) bool {
		return e.By == "ben" && e.Refused && strings.Contains(e.Text, "not in force") && strings.HasSuffix(e.Text, ": all")
	}) {
		t.Errorf("%+v", r)
	}
	if said, err := r.Became(answer("ana", "nobody", at(10), time.Time{}), "answered"); said != "answered" || err != nil {
		t.Errorf("the one that stands: %q %v", said, err)
	}
}

// What somebody else did already is said, and done once.
func TestWhatIsDoneAlready(t *testing.T) {
	tick := func(by string, done bool) Op {
		return Op{Kind: OpTick, By: by, At: at(5), Runbook: "provider-5xx", Step: 2, Done: done}
	}
	b := opened()
	for _, c := range []struct {
		op     Op
		anyway bool
		want   string
		more   int // entries
	}{
		{tick("ben", false), false, "step 2 of provider-5xx is not ticked", 0},
		{tick("ana", true), false, "step 2 of provider-5xx is ticked", 1},
		{tick("ben", true), false, "step 2 of provider-5xx is ticked already, by ana at 2026-11-30 04:00:05Z", 0},
		{tick("ben", false), false, "the tick of step 2 of provider-5xx by ana at 2026-11-30 04:00:05Z is taken back", 1},
		{Op{Kind: OpReopen, By: "ben", At: at(6)}, false, "open already, by ana at 2026-11-30 04:00:00Z", 0},
		{Op{Kind: OpClose, By: "ana", At: at(7), Text: "a drill"}, true, "closed", 1},
		{Op{Kind: OpClose, By: "ben", At: at(8), Text: "over"}, true, "closed already, by ana at 2026-11-30 04:00:07Z", 0},
		{Op{Kind: OpReopen, By: "ben", At: at(9)}, false, "open again; it was closed by ana at 2026-11-30 04:00:07Z", 1},
		{Op{Kind: OpReopen, By: "ana", At: at(10)}, false, "open already, by ben at 2026-11-30 04:00:09Z", 0},
	} {
		before, _, _ := b.Get("x")
		said, err := asks(b, c.op, c.anyway)
		after, _, _ := b.Get("x")
		if said != c.want || err != nil || len(after.Entries)-len(before.Entries) != c.more {
			t.Errorf("%s by %s: %q %v, %d entries; want %q", c.op.Kind, c.op.By, said, err, len(after.Entries)-len(before.Entries), c.want)
		}
	}
	// Two at once: each gateway did not know of the other's.
	r, _, _ := b.Get("x")
	for seq, by := range []string{"ana", "ben"} {
		r = r.Apply(Op{Kind: OpTick, Writer: by, Seq: uint64(seq + 1), By: by, At: at(20), Runbook: "b", Step: 1, Done: true})
		r = r.Apply(Op{Kind: OpClose, Writer: by, Seq: uint64(seq + 2), By: by, At: at(21)})
	}
	if n := len(slices.DeleteFunc(slices.Clone(r.Entries), func(e Entry) bool { return e.Runbook != "b" })); n != 1 {
		t.Errorf("one step is ticked %d times", n)
	}
	if said, err := r.Became(Op{Kind: OpClose, By: "ben", At: at(21)}, "closed"); err != nil || said != "closed already, by ana at 2026-11-30 04:00:21Z" {
		t.Errorf("%q %v", said, err)
	}
}

// A record says in words what was ticked: the runbook may be another by the time
// that somebody reads it.
func TestATickHasTheWordsOfItsStep(t *testing.T) {
	b := opened()
	tick := Op{Kind: OpTick, At: at(1), By: "ana", Runbook: "own", Step: 3, Done: true, Text: "look at the probes"}
	b.Do("x", tick, false)
	tick.At, tick.Done = at(2), false
	b.Do("x", tick, false)
	r, _, _ := b.Get("x")
	var got []string
	for _, e := range r.Entries[1:] {
		got = append(got, e.Text)
	}
	if want := []string{"own, step 3: look at the probes", "own, step 3 taken back: look at the probes"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
