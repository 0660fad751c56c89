package incident

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// OpKind says what an Op does.
type OpKind string

// The kinds of Op.
const (
	OpOpen    OpKind = "open"
	OpTrouble OpKind = "trouble" // something is wrong, or its end came further
	OpSwitch  OpKind = "switch"  // the first request went to another candidate
	OpEvent   OpKind = "event"
	OpNote    OpKind = "note"
	OpTick    OpKind = "tick"
	OpAnswer  OpKind = "answer"
	OpClose   OpKind = "close"
	OpReopen  OpKind = "reopen"
	OpCount   OpKind = "count"
)

// Op is one change of a record. Fields that do not apply are empty.
type Op struct {
	Kind OpKind
	// Writer is the process that made it, Instance its gateway. Seq grows with
	// every op of a writer.
	Writer, Instance string
	Seq              uint64
	At               time.Time
	By               string // an operator, or decision.Auto

	ID, Cause, Title string // OpOpen; Cause of OpTrouble, too
	Text             string // note, answer, reason; of a trouble what it is
	Event            *api.Event

	Key      string // OpTrouble
	Upstream string
	Phase    Phase
	Shared   bool // every gateway of the store sees it alike
	// FirstFailure and FirstSwitch are of a trouble that begins, as far as they
	// are known; FirstSwitch of OpSwitch, too.
	FirstFailure, FirstSwitch time.Time

	Runbook string
	Step    int
	Done    bool

	Question string
	Seen     time.Time         // OpAnswer: of the answer that it replaces; zero: none was seen
	Facts    map[string]string // OpClose: by question

	Counts Counts // OpCount; of any other those of one that had no room
	Lost   int    // what had no room before it
}

// Apply is r after op. What r took already, and what comes too late for one that is
// closed, changes nothing.
func (r Record) Apply(op Op) Record {
	if w, ok := r.Writers[op.Writer]; ok && op.Seq <= w.Seq {
		return r
	}
	if r.ID == "" && op.Kind != OpOpen {
		return r
	}
	late := r.State == api.IncidentClosed
	r = r.clone()
	r.Revision++
	r.wrote(op)
	r.Lost += op.Lost
	if !late {
		r.Counts = r.Counts.Plus(op.Counts)
	}
	switch op.Kind {
	case OpNote:
		r.add(api.IncidentEntry{At: op.At, Kind: api.EntryNote, By: op.By, Text: op.Text})
	case OpTick:
		r.tick(op)
	case OpAnswer:
		r.answer(op)
	case OpReopen:
		if late {
			r.reopen(op)
		}
	default:
		if !late {
			r.applyOpen(op)
		}
	}
	r.bound()
	return r
}

// applyOpen is Apply for what a closed record does not take.
func (r *Record) applyOpen(op Op) {
	switch op.Kind {
	case OpOpen:
		if r.ID != "" {
			return // another gateway was first
		}
		r.ID, r.Title, r.Cause, r.State = op.ID, cut(op.Title), op.Cause, api.IncidentOpen
		r.OpenedAt, r.OpenedBy = op.At, op.By
		r.add(api.IncidentEntry{At: op.At, Kind: api.EntryOpened, By: op.By, Text: op.Title})
	case OpTrouble:
		r.trouble(op)
	case OpSwitch:
		r.firstSwitch(op.FirstSwitch, op.Upstream)
	case OpEvent:
		r.event(op)
	case OpClose:
		r.close(op)
	}
}

// trouble takes the phase of one trouble, and what follows for the milestones.
func (r *Record) trouble(op Op) {
	was, known := r.Troubles[op.Key]
	if known && was.Phase == op.Phase {
		return
	}
	t := Trouble{Cause: op.Cause, Upstream: op.Upstream, Phase: op.Phase, Since: op.At}
	if !op.Shared {
		t.Instance = op.Instance
	}
	r.Troubles[op.Key] = t
	if op.Upstream != "" && !slices.Contains(r.Upstreams, op.Upstream) && len(r.Upstreams) < maxUpstreams {
		r.Upstreams = append(r.Upstreams, op.Upstream)
	}
	if !known && r.Milestones.FirstFailure.IsZero() && !op.FirstFailure.IsZero() {
		// Before the opening, whatever clock it was read from.
		r.Milestones.FirstFailure = earlier(op.FirstFailure, r.OpenedAt)
		r.milestone(r.Milestones.FirstFailure, strings.TrimSpace("first failure "+of(op.Upstream)))
	}
	if !known && !op.FirstSwitch.IsZero() {
		r.firstSwitch(op.FirstSwitch, op.Upstream)
	}
	r.settle(op, known)
}

// settle sets what holds for all troubles together, or takes it back.
func (r *Record) settle(op Op, known bool) {
	least := Back
	for _, t := range r.telling() {
		if t.Phase.before(least) {
			least = t.Phase
		}
	}
	m := &r.Milestones
	// The end of one trouble is told where it is not that of all of them.
	part := op.Phase != Ill && len(r.Troubles) > 1 && !(least != Ill && m.Recovered.IsZero()) && !(least == Back && m.TrafficBack.IsZero())
	var undone []string
	if least == Ill && !m.Recovered.IsZero() {
		undone = append(undone, "recovered at "+Clock(m.Recovered))
		m.Recovered = time.Time{}
	}
	if least != Back && !m.TrafficBack.IsZero() {
		undone = append(undone, "traffic back at "+Clock(m.TrafficBack))
		m.TrafficBack = time.Time{}
	}
	switch {
	case len(undone) > 0:
		r.milestone(op.At, fmt.Sprintf("relapse: %s; no longer holds: %s", op.Text, strings.Join(undone, ", ")))
	case op.Phase == Ill && known:
		r.milestone(op.At, "relapse: "+op.Text)
	case op.Phase == Ill && len(r.Troubles) > 1:
		r.milestone(op.At, "joined by: "+op.Text)
	case part:
		r.milestone(op.At, string(op.Phase)+": "+op.Text)
	}
	if least != Ill && m.Recovered.IsZero() {
		m.Recovered = later(op.At, r.OpenedAt)
		r.milestone(m.Recovered, "technically recovered: "+op.Text)
	}
	if least == Back && m.TrafficBack.IsZero() {
		m.TrafficBack = later(op.At, m.Recovered)
		r.milestone(m.TrafficBack, "traffic back: "+op.Text)
	}
}

// telling are the troubles that the milestones are told by. A ratio over its
// limit beside a trouble of another cause is what that brings about: it comes
// minutes later and goes minutes later, and neither makes a relapse.
func (r *Record) telling() map[string]Trouble {
	causes := maps.Clone(r.Troubles)
	maps.DeleteFunc(causes, func(_ string, t Trouble) bool { return t.Cause == api.CauseRatio })
	if len(causes) == 0 {
		return r.Troubles
	}
	return causes
}

func (r *Record) firstSwitch(at time.Time, upstream string) {
	if !r.Milestones.FirstSwitch.IsZero() {
		return
	}
	r.Milestones.FirstSwitch = later(at, r.Milestones.FirstFailure)
	r.milestone(r.Milestones.FirstSwitch, strings.TrimSpace("first switch to another candidate "+from(upstream)))
}

// event adds a change, unless another gateway told the same one.
func (r *Record) event(op Op) {
	if op.Event == nil {
		return
	}
	e := *op.Event
	if e.Event == string(decision.KindOperatorCommand) && e.Action == "share" && e.Result == api.ResultOK && e.From != e.To {
		return // its step tells it
	}
	if i := r.toldBy(&e, op.Instance); i >= 0 {
		if r.Entries[i].Event.Reason != heardOf || e.Reason == heardOf {
			return
		}
		// Who did it knows more of it than who was faster to hear of it.
		r.Entries = slices.Delete(r.Entries, i, i+1)
	}
	e.Detail, e.Why, e.Seq = cut(e.Detail), cut(e.Why), 0 // its number means nothing in a record
	entry := api.IncidentEntry{At: op.At, Kind: api.EntryEvent, By: op.By, Text: e.Text(), Instance: op.Instance, Event: &e}
	if !r.fold(entry) {
		r.add(entry)
	}
}

// heardOf is the reason of a change that was made at another gateway.
const heardOf = "merged"

// toldBy is where another gateway than instance told e; -1: nowhere.
func (r *Record) toldBy(e *api.Event, instance string) int {
	if e.Revision == 0 {
		return -1
	}
	return slices.IndexFunc(r.Entries, func(there Entry) bool {
		o := there.Event
		return o != nil && there.Instance != instance && o.Revision == e.Revision && o.Event == e.Event && o.Provider == e.Provider && o.From == e.From && o.To == e.To
	})
}

// answer takes an answer in the place of one that its author saw. Any other
// stands: what comes after it is told, and not in force.
func (r *Record) answer(op Op) {
	e := api.IncidentEntry{At: op.At, Kind: api.EntryAnswer, By: op.By, Text: op.Question + ": " + op.Text}
	a := r.Answers[op.Question]
	switch {
	case a.repeats(op):
		return
	case !a.replaceable(op):
		e.Refused = true
		e.Text = fmt.Sprintf("%s, not in force, as the answer by %s at %s had not been seen: %s", op.Question, a.By, Clock(a.At), op.Text)
	default:
		r.Answers[op.Question] = Answer{Text: cut(op.Text), By: op.By, At: op.At, Fact: a.Fact}
	}
	r.add(e)
}

// repeats reports whether op answers what its author answered already.
func (a Answer) repeats(op Op) bool { return a.Text != "" && a.Text == cut(op.Text) && a.By == op.By }

// replaceable reports whether the author of op has seen a, or there is none to see.
func (a Answer) replaceable(op Op) bool { return a.Text == "" || a.At.Equal(op.Seen) }

func (r *Record) tick(op Op) {
	if was := r.ticked(op.Runbook, op.Step); was.Done == op.Done {
		return // two did it at once
	}
	text := fmt.Sprintf("%s, step %d", op.Runbook, op.Step)
	if !op.Done {
		text += " taken back"
	}
	if op.Text != "" {
		text += ": " + op.Text
	}
	r.add(api.IncidentEntry{
		At: op.At, Kind: api.EntryTick, By: op.By, Text: text, Runbook: op.Runbook, Step: op.Step, Done: op.Done,
	})
}

func (r *Record) close(op Op) {
	at := later(op.At, r.OpenedAt, r.Milestones.FirstSwitch, r.Milestones.TrafficBack, r.Milestones.Recovered)
	r.State, r.ClosedAt, r.ClosedBy, r.Milestones.Closed = api.IncidentClosed, at, op.By, at
	text := "closed"
	if open := r.Unanswered(); len(open) > 0 {
		text += ", unanswered: " + strings.Join(open, ", ")
	}
	if op.Text != "" {
		text += ": " + op.Text
	}
	for id, fact := range op.Facts {
		a := r.Answers[id]
		a.Fact = cut(fact)
		r.Answers[id] = a
	}
	r.add(api.IncidentEntry{At: at, Kind: api.EntryClosed, By: op.By, Text: text})
}

func (r *Record) reopen(op Op) {
	text := "reopened; it was closed by " + r.ClosedBy + " at " + Clock(r.ClosedAt)
	if op.Text != "" {
		text += ": " + op.Text
	}
	r.State, r.ClosedAt, r.ClosedBy, r.Milestones.Closed = api.IncidentOpen, time.Time{}, "", time.Time{}
	r.add(api.IncidentEntry{At: op.At, Kind: api.EntryReopened, By: op.By, Text: text})
}

func (r *Record) milestone(at time.Time, text string) {
	r.add(api.IncidentEntry{At: at, Kind: api.EntryMilestone, By: "auto", Text: text})
}

// add puts e into its place by time.
func (r *Record) add(e api.IncidentEntry) {
	e.Text = cut(e.Text)
	i, _ := slices.BinarySearchFunc(r.Entries, e.At, func(there Entry, at time.Time) int {
		if there.At.After(at) {
			return 1
		}
		return -1 // after those of the same time
	})
	r.Entries = slices.Insert(r.Entries, i, Entry{IncidentEntry: e})
}

// bound leaves out what there is no room for; see leastNeeded.
func (r *Record) bound() {
	size := 0
	for i := range r.Entries {
		size += r.Entries[i].size()
	}
	for len(r.Entries) > maxEntries || size > maxBytes {
		i := r.leastNeeded()
		size -= r.Entries[i].size()
		r.Entries = slices.Delete(r.Entries, i, i+1)
		r.Lost++
	}
}

// leastNeeded is the entry that gives way next: of the events after the first
// entries the oldest, then of the milestones; then of those among the first, and at
// last of what says that it was closed and reopened. What people wrote does not give
// way: Weigh refuses more of it before there is nothing else left.
func (r *Record) leastNeeded() int {
	first := min(firstEntries, len(r.Entries)/4)
	standing := []string{api.EntryOpened, api.EntryClosed, api.EntryReopened}
	told := append([]string{api.EntryMilestone}, standing...)
	for _, pass := range []struct {
		from   int
		needed []string
	}{{first, told}, {first, standing}, {0, told}, {0, standing}, {1, nil}} {
		for i := pass.from; i < len(r.Entries); i++ {
			if e := &r.Entries[i]; !e.written() && !slices.Contains(pass.needed, e.Kind) {
				return i
			}
		}
	}
	return len(r.Entries) / 2
}

// written reports whether a person wrote e.
func (e *Entry) written() bool {
	return e.Kind == api.EntryNote || e.Kind == api.EntryTick || e.Kind == api.EntryAnswer
}

// fullAt refuses one more entry by a person where there are as many of them, or as
// many bytes.
func (r Record) fullAt(entries, bytes int) error {
	n, size := 0, 0
	for _, e := range r.Entries { // copies: r may be others' too
		if e.written() {
			n++
			size += e.size()
		}
	}
	if n < entries && size < bytes {
		return nil
	}
	return &api.Error{
		Code:    api.CodeFailed,
		Message: fmt.Sprintf("incident %s: the record is full: %d entries by people; close it and open another", r.ID, n),
		Hint:    "it can still be answered, closed and reopened",
	}
}

// size is how many bytes e takes as JSON.
func (e *Entry) size() int {
	if e.Bytes == 0 {
		b, _ := json.Marshal(e.IncidentEntry) // of plain values
		e.Bytes = len(b)
	}
	return e.Bytes
}

// wrote notes that op is taken. Who wrote longest ago is forgotten, never who
// writes.
func (r *Record) wrote(op Op) {
	r.Writers[op.Writer] = Writer{Instance: op.Instance, Seq: op.Seq, Revision: r.Revision}
	for len(r.Writers) > maxWriters {
		oldest := op.Writer
		for name, w := range r.Writers {
			if o := r.Writers[oldest]; w.Revision < o.Revision || w.Revision == o.Revision && name < oldest {
				oldest = name
			}
		}
		delete(r.Writers, oldest)
	}
}

func later(ts ...time.Time) (last time.Time) {
	for _, t := range ts {
		if t.After(last) {
			last = t
		}
	}
	return last
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// cut is s, or as much of it as a text may have, as valid UTF-8.
func cut(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxText {
		return s
	}
	i := maxText - len("…")
	for i > 0 && !utf8.RuneStart(s[i]) {
		i--
	}
	return s[:i] + "…"
}
