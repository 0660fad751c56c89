package incident

import (
	"fmt"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// opened is a book of writer w with the record x.
func opened() *Book {
	b := NewBook("w", "gw")
	b.Do("x", Op{Kind: OpOpen, ID: "x", At: day, Title: "t", By: "ana"}, false)
	return b
}

// A gateway that restarts again and again while an incident is open leaves many
// writers. Whoever writes now is known as one all the same, whatever its clock says,
// and what it wrote is written once.
func TestWhoWritesIsNotForgotten(t *testing.T) {
	var r Record
	for i := range 2 * maxWriters {
		r = r.Apply(Op{Writer: fmt.Sprint("old", i), Seq: 1, At: day.Add(time.Hour), Kind: OpOpen, ID: "x"})
	}
	b := NewBook("w", "gw")
	b.Learn("x", r, 1)
	b.Do("x", Op{Kind: OpNote, At: day, Text: "once", By: "ana"}, false) // its clock is an hour behind
	w, _ := b.Work("x")
	if len(w.Record.Writers) > maxWriters {
		t.Errorf("%d writers", len(w.Record.Writers))
	}
	b.Learn("x", w.Record, 2) // it is heard of before the write is confirmed
	if p := b.Pending(); len(p) > 0 {
		t.Errorf("what is written waits: %v", p)
	}
	b.Wrote(w, 2)
	r, _, _ = b.Get("x")
	if n := len(r.Entries); n != 2 {
		t.Errorf("%d entries: %+v", n, r.Entries)
	}
}

// So many others wrote between a write and its confirmation that the record knows
// nothing of it any more: it is not written again.
func TestAConfirmedWriteIsNotRepeated(t *testing.T) {
	b := opened()
	b.Do("x", Op{Kind: OpNote, At: day, Text: "once", By: "ana"}, false)
	w, _ := b.Work("x")
	r := w.Record
	for i := range maxWriters {
		r = r.Apply(Op{Writer: fmt.Sprint("other", i), Seq: 1, At: day, Kind: OpCount})
	}
	b.Learn("x", r, 2+maxWriters)
	b.Wrote(w, 1)
	r, _, _ = b.Get("x")
	if len(r.Entries) != 2 || len(b.Pending()) > 0 {
		t.Errorf("%d entries, waiting %v", len(r.Entries), b.Pending())
	}
}

// While the store takes nothing, what waits is bounded: transitions give way first,
// counts are added up, and what people said stays longest.
func TestWhatWaitsIsBounded(t *testing.T) {
	b := opened()
	for i := range 400 {
		b.Do("x", Op{Kind: OpNote, At: at(float64(i)), Text: fmt.Sprint("note ", i), By: "ana"}, false)
		b.Do("x", Op{Kind: OpEvent, At: at(float64(i)), Event: &api.Event{Event: "breaker_transition"}}, false)
		for range 3 {
			b.Do("x", Op{Kind: OpCount, At: at(float64(i)), Counts: Counts{Primary: 1}}, false)
		}
	}
	for i := range 2 * maxPending {
		b.Do("x", Op{Kind: OpEvent, At: at(float64(1000 + i)), Event: &api.Event{Event: "breaker_transition"}}, false)
	}
	b.Do("x", Op{Kind: OpClose, At: at(9000), By: "ana"}, false)
	w, _ := b.Work("x")
	if r := w.Record; r.Counts.Primary != 1200 || len(r.Entries)+r.Lost != 400+400+2*maxPending+2 {
		t.Errorf("shown: %d counted, %d entries and %d lost", r.Counts.Primary, len(r.Entries), r.Lost)
	}
	b.Learn("x", Record{}, 1) // what waits is all there is
	r, _, ok := b.Get("x")
	if !ok || len(b.kept["x"].pending) > maxPending || r.Counts.Primary != 1200 || r.State != api.IncidentClosed {
		t.Errorf("%d wait, %d counted, %s", len(b.kept["x"].pending), r.Counts.Primary, r.State)
	}
	notes := 0
	for _, e := range r.Entries {
		if e.Kind == api.EntryNote {
			notes++
		}
	}
	if all := 400 + 400 + 2*maxPending + 2; notes != 400 || len(r.Entries)+r.Lost != all {
		t.Errorf("%d notes; %d entries and %d lost of %d", notes, len(r.Entries), r.Lost, all)
	}
	if w.Record.State != api.IncidentClosed {
		t.Error(w.Record.State)
	}
}
