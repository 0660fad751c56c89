package incident

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"failback/gateway/operator/api"
)

// Version is that of the format of records.
const Version = 1

// Bounds of a record. It must stay well below what a store takes as one value.
const (
	maxEntries   = 500
	maxBytes     = 384 << 10 // of the entries as JSON
	firstEntries = 100       // go last of the events
	maxText      = 1000      // bytes of a text
	maxUpstreams = 64
	maxWriters   = 64
)

// Of what people write notes and ticks leave room for answers in the place of others,
// and those for six first answers, for closing and for what other gateways take
// meanwhile.
const (
	maxNoted         = 350
	maxNotedBytes    = 256 << 10
	maxReplaced      = 400
	maxReplacedBytes = 304 << 10
)

// MaxKept is how many request ids a record keeps.
const MaxKept = 20

// Record is one incident as it is kept. A Record that is given away is not
// changed any more: Apply returns another one.
type Record struct {
	ID        string    `json:"id"`
	Title     string    `json:"title"`
	State     string    `json:"state"`
	Cause     string    `json:"cause"`
	OpenedAt  time.Time `json:"opened_at"`
	OpenedBy  string    `json:"opened_by"`
	ClosedAt  time.Time `json:"closed_at,omitzero"`
	ClosedBy  string    `json:"closed_by,omitempty"`
	Upstreams []string  `json:"upstreams,omitempty"`
	// Troubles are what is wrong, or was, by their key.
	Troubles   map[string]Trouble `json:"troubles,omitempty"`
	Milestones api.Milestones     `json:"milestones"`
	Entries    []Entry            `json:"entries"` // oldest first
	Lost       int                `json:"lost,omitempty"`
	Answers    map[string]Answer  `json:"answers,omitempty"` // by question
	Counts     Counts             `json:"counts"`
	Revision   uint64             `json:"revision"` // counts the ops it took
	// Writers are those who wrote to it lately.
	Writers map[string]Writer `json:"writers,omitempty"`
}

// Entry is one line of the timeline.
type Entry struct {
	api.IncidentEntry
	Bytes int `json:"-"`
}

// Phase is how far the end of a trouble has come.
type Phase string

// The phases, in their order.
const (
	Ill       Phase = "ill"
	Recovered Phase = "recovered" // technically: nothing is wrong any more
	Back      Phase = "back"      // and traffic is where it was
)

func (p Phase) before(q Phase) bool { return rank(p) < rank(q) }

func rank(p Phase) int { return slices.Index([]Phase{Ill, Recovered, Back}, p) }

// Trouble is one thing that is wrong.
type Trouble struct {
	Cause    string    `json:"cause"`
	Upstream string    `json:"upstream,omitempty"`
	Instance string    `json:"instance,omitempty"` // who sees it, where others may not
	Phase    Phase     `json:"phase"`
	Since    time.Time `json:"since"` // of the phase
}

// Answer is what a closing question was answered, and what the gateway knew of it
// when the incident was closed.
type Answer struct {
	Text string    `json:"text,omitempty"`
	By   string    `json:"by,omitempty"`
	At   time.Time `json:"at,omitzero"`
	Fact string    `json:"fact,omitempty"`
}

// Writer is the last that a record took of a process.
type Writer struct {
	Instance string `json:"instance"`
	Seq      uint64 `json:"seq"`
	// Revision is the record's with it: who wrote last is told by no clock.
	Revision uint64 `json:"revision"`
}

// Counts are what requests came to. They add up.
type Counts struct {
	// Since is when they begin; zero: with the incident's opening.
	Since     time.Time `json:"since,omitzero"`
	Primary   uint64    `json:"primary,omitempty"`
	Degraded  uint64    `json:"degraded,omitempty"`
	Failed    uint64    `json:"failed,omitempty"`
	Forbidden uint64    `json:"forbidden,omitempty"`
	Kept      []string  `json:"kept,omitempty"`

	Technical Sides `json:"technical"`
	Workflow  Sides `json:"workflow"`
	Semantic  Sides `json:"semantic"`
	Task      Sides `json:"task"`
}

// Sides are the outcomes of degraded answers beside those of the primary's. They
// are signed: what is reported takes back what was assumed.
type Sides struct {
	Degraded Tally `json:"degraded"`
	Primary  Tally `json:"primary"`
}

// Tally counts outcomes, or the change of such a count.
type Tally struct {
	Good int64 `json:"good"`
	Bad  int64 `json:"bad"`
}

// Layer returns the sides of an api.Layer by its name, nil for no layer.
func (c *Counts) Layer(name string) *Sides {
	switch name {
	case api.LayerTechnical:
		return &c.Technical
	case api.LayerWorkflow:
		return &c.Workflow
	case api.LayerSemantic:
		return &c.Semantic
	case api.LayerTask:
		return &c.Task
	}
	return nil
}

// Side is the tally of degraded answers, or of the primary's.
func (s *Sides) Side(degraded bool) *Tally {
	if degraded {
		return &s.Degraded
	}
	return &s.Primary
}

// Add counts one outcome, or takes n back if it is negative.
func (t *Tally) Add(good bool, n int64) {
	if good {
		t.Good += n
	} else {
		t.Bad += n
	}
}

// IsZero reports whether nothing was counted, since whenever.
func (c *Counts) IsZero() bool {
	return c.Primary|c.Degraded|c.Failed|c.Forbidden == 0 && len(c.Kept) == 0 &&
		c.Technical == Sides{} && c.Workflow == Sides{} && c.Semantic == Sides{} && c.Task == Sides{}
}

// Plus is c and d together.
func (c Counts) Plus(d Counts) Counts {
	if c.Since.IsZero() || !d.Since.IsZero() && d.Since.Before(c.Since) {
		c.Since = d.Since
	}
	c.Primary += d.Primary
	c.Degraded += d.Degraded
	c.Failed += d.Failed
	c.Forbidden += d.Forbidden
	if len(d.Kept) > 0 && len(c.Kept) < MaxKept {
		c.Kept = slices.Concat(c.Kept, d.Kept)
		c.Kept = c.Kept[:min(len(c.Kept), MaxKept)]
	}
	for _, name := range layers {
		to, from := c.Layer(name), d.Layer(name)
		to.Degraded.Good += from.Degraded.Good
		to.Degraded.Bad += from.Degraded.Bad
		to.Primary.Good += from.Primary.Good
		to.Primary.Bad += from.Primary.Bad
	}
	return c
}

var layers = []string{api.LayerTechnical, api.LayerWorkflow, api.LayerSemantic, api.LayerTask}

// clone is r with all that an op changes copied.
func (r Record) clone() Record {
	r.Upstreams = slices.Clone(r.Upstreams)
	r.Entries = slices.Clone(r.Entries)
	r.Troubles = maps.Clone(r.Troubles)
	r.Answers = maps.Clone(r.Answers)
	r.Writers = maps.Clone(r.Writers)
	if r.Troubles == nil {
		r.Troubles = map[string]Trouble{}
	}
	if r.Answers == nil {
		r.Answers = map[string]Answer{}
	}
	if r.Writers == nil {
		r.Writers = map[string]Writer{}
	}
	return r
}

// CountsFrom is when the counts of r, which is open, are to begin: with the first
// failure if it is known, or where it was opened again, then.
func (r Record) CountsFrom() time.Time {
	from := cmp.Or(r.Milestones.FirstFailure, r.OpenedAt)
	for _, e := range r.Entries {
		if e.Kind == api.EntryReopened {
			from = e.At
		}
	}
	return from
}

// CountsSince is when the counts of r began.
func (r Record) CountsSince() time.Time {
	if since := r.Counts.Since; !since.IsZero() && since.Before(r.OpenedAt) {
		return since
	}
	return r.OpenedAt
}

// Open reports whether r is.
func (r Record) Open() bool { return r.State == api.IncidentOpen }

// NotesBy is how many notes in r are by somebody.
func (r Record) NotesBy(by string) (n int) {
	for _, e := range r.Entries {
		if e.Kind == api.EntryNote && e.By == by {
			n++
		}
	}
	return n
}

// Unanswered are the closing questions without an answer.
func (r Record) Unanswered() (ids []string) {
	for _, id := range api.ClosingQuestions {
		if r.Answers[id].Text == "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// How long after its end what happens still belongs to an incident that nobody
// closed: after that it is another outage.
const (
	joinsAfterBack = time.Hour
	joinsByHand    = 12 * time.Hour // of one that is about nothing that is measured
)

// MaxOpen is how many incidents can be open at a time. Trouble that begins while
// so many are belongs to the newest.
const MaxOpen = 20

// Joins reports whether trouble that begins now belongs to r.
func (r Record) Joins(now time.Time) bool {
	switch {
	case !r.Open():
		return false
	case len(r.Troubles) == 0:
		return now.Sub(r.OpenedAt) < joinsByHand
	}
	back := r.Milestones.TrafficBack
	return back.IsZero() || now.Sub(back) < joinsAfterBack
}

// How many closed incidents are kept, and how long.
const (
	keptClosed = 200
	keptFor    = 90 * 24 * time.Hour
)

// Stale are the ids of those of all that are not to be kept any longer. One that
// is open is never among them.
func Stale(all []Record, now time.Time) (ids []string) {
	closed := slices.DeleteFunc(slices.Clone(all), func(r Record) bool { return r.State != api.IncidentClosed })
	slices.SortFunc(closed, func(a, b Record) int { return b.ClosedAt.Compare(a.ClosedAt) })
	for i, r := range closed {
		if i >= keptClosed || now.Sub(r.ClosedAt) > keptFor {
			ids = append(ids, r.ID)
		}
	}
	return ids
}
