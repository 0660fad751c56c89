package api

import "time"

// ClosingQuestions are the ids of the questions that are asked before an
// incident is closed, in their order.
var ClosingQuestions = []string{QuestionWindow, QuestionSampled, QuestionForbidden, QuestionUsers, QuestionPrimary, QuestionRunbook}

// The ids of ClosingQuestions.
const (
	QuestionWindow    = "window"
	QuestionSampled   = "sampled"
	QuestionForbidden = "forbidden"
	QuestionUsers     = "users"
	QuestionPrimary   = "primary"
	QuestionRunbook   = "runbook"
)

// The kinds of an IncidentEntry.
const (
	EntryEvent     = "event"
	EntryNote      = "note"
	EntryTick      = "tick"
	EntryAnswer    = "answer"
	EntryMilestone = "milestone"
	EntryOpened    = "opened"
	EntryClosed    = "closed"
	EntryReopened  = "reopened"
)

// The names of a Layer.
const (
	LayerTechnical = "technical"
	LayerWorkflow  = "workflow"
	LayerSemantic  = "semantic"
	LayerTask      = "task"
)

// Incidents answers GET /operator/v1/incidents, newest first.
type Incidents struct {
	Incidents []IncidentHead `json:"incidents"`
	At        time.Time      `json:"at"`
}

// IncidentHead is an incident without its timeline.
type IncidentHead struct {
	ID    string `json:"id"`
	Title string `json:"title"` // for people, of the gateway's own words
	// State is open or closed.
	State string `json:"state"`
	// Cause is why it was opened: degraded, shared_fault, ratio or operator.
	Cause      string     `json:"cause"`
	Upstreams  []string   `json:"upstreams,omitempty"` // those it is about
	OpenedAt   time.Time  `json:"opened_at"`
	OpenedBy   string     `json:"opened_by"` // an operator, or auto
	ClosedAt   time.Time  `json:"closed_at,omitzero"`
	ClosedBy   string     `json:"closed_by,omitempty"`
	Milestones Milestones `json:"milestones"`
	// Unanswered are the ids of the closing questions without an answer.
	Unanswered []string `json:"unanswered,omitempty"`
	Revision   uint64   `json:"revision"`
	// Entries counts the timeline; Lost those left out of it for its bound.
	Entries int `json:"entries"`
	Lost    int `json:"lost,omitempty"`
	// Unsynced: the record's newest part is in memory alone.
	Unsynced bool `json:"unsynced,omitempty"`
}

// The states and causes of an IncidentHead.
const (
	IncidentOpen   = "open"
	IncidentClosed = "closed"

	CauseDegraded    = "degraded"
	CauseSharedFault = "shared_fault"
	CauseRatio       = "ratio"
	CauseOperator    = "operator"
)

// Milestones are the times by which an incident is told; zero: not yet.
type Milestones struct {
	FirstFailure time.Time `json:"first_failure,omitzero"`
	FirstSwitch  time.Time `json:"first_switch,omitzero"`
	// Recovered is when the cause was technically gone: probes pass, the shared
	// fault is over, the ratio is below its limit.
	Recovered time.Time `json:"recovered,omitzero"`
	// TrafficBack is when the share of all its upstreams was 100 again.
	TrafficBack time.Time `json:"traffic_back,omitzero"`
	Closed      time.Time `json:"closed,omitzero"`
}

// Incident answers GET /operator/v1/incidents/{id}.
type Incident struct {
	IncidentHead
	Timeline []IncidentEntry   `json:"timeline"` // oldest first
	Closing  []ClosingQuestion `json:"closing"`
	Layers   []Layer           `json:"layers"`
	// Requests counts requests by what they came to.
	Requests IncidentRequests `json:"requests"`
	At       time.Time        `json:"at"`
}

// IncidentEntry is one line of a timeline.
type IncidentEntry struct {
	At time.Time `json:"at"`
	// Kind is event (a transition or a command, see Event), note, tick, answer,
	// milestone, opened, closed or reopened.
	Kind  string `json:"kind"`
	By    string `json:"by"` // an operator, or auto
	Text  string `json:"text"`
	Event *Event `json:"event,omitempty"`
	// Instance is, of an event, the gateway that it happened at.
	Instance string `json:"instance,omitempty"`
	// Runbook and Step are of a tick; Done is false where it was taken back.
	Runbook string `json:"runbook,omitempty"`
	Step    int    `json:"step,omitempty"`
	Done    bool   `json:"done,omitempty"`
	// Last is of a run: the tries of an open breaker that failed one after the
	// other. It is when its last change was, At when the first, Event is the newest
	// that failed, Count how many did. Zero: it is one event.
	Count int       `json:"count,omitempty"`
	Last  time.Time `json:"last,omitzero"`
	// Refused is of an answer that came after another one, which its author had not
	// seen: that one stands.
	Refused bool `json:"refused,omitempty"`
}

// ClosingQuestion is asked before an incident is closed.
type ClosingQuestion struct {
	// ID is window, sampled, forbidden, users, primary or runbook.
	ID   string `json:"id"`
	Text string `json:"text"`
	// Fact is what the gateway itself knows of it, empty if it knows nothing.
	Fact   string    `json:"fact,omitempty"`
	Answer string    `json:"answer,omitempty"` // empty: not yet
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// Layer is success as one layer sees it, of degraded answers beside the
// primary's: technical (an answer came), workflow (the client's workflow went
// on), semantic (the answer was right), task (the user's task was done).
type Layer struct {
	Name     string `json:"name"`
	Degraded Tally  `json:"degraded"`
	Primary  Tally  `json:"primary"`
	// Nothing says for people what it means that a Tally of it is zero.
	Nothing string `json:"nothing"`
}

// Tally counts outcomes. Both zero: there is none, see Layer.Nothing.
type Tally struct {
	Good uint64 `json:"good"`
	Bad  uint64 `json:"bad"`
}

// IncidentRequests counts requests. It counts since the same time as Incident.Layers
// and the facts of the closing questions.
type IncidentRequests struct {
	Since time.Time `json:"since"`
	// Counted says Since for people, and what it is: the first failure, or the
	// opening.
	Counted   string `json:"counted"`
	Primary   uint64 `json:"primary"`  // answered by their primary
	Degraded  uint64 `json:"degraded"` // answered by another candidate
	Failed    uint64 `json:"failed"`   // bad for availability
	Forbidden uint64 `json:"forbidden"`
	// Kept are the request ids of degraded and failed ones, a bounded sample.
	Kept []string `json:"kept,omitempty"`
}
