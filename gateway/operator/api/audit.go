package api

import "time"

// AuditEntry is one entry of the audit. A command that reached the gateway
// leaves two with the same ID: "asked" before it takes effect and "done" with
// its result. One that was refused before that leaves one, "refused". Lowering
// a share leaves only "done": it waits for no file.
type AuditEntry struct {
	Time time.Time `json:"time"`
	ID   string    `json:"id"`
	// Phase is asked, done, refused or mended (a torn last line was found at
	// start and put into Message).
	Phase string `json:"phase"`
	// By is the name of who asked, "unknown" without a valid token; Via is how
	// the gateway knows: "socket" (peer credentials), "socket token", "tcp
	// token" or "none".
	By      string `json:"by,omitempty"`
	Role    string `json:"role,omitempty"`
	Via     string `json:"via,omitempty"`
	Session string `json:"session,omitempty"`
	// Action is share, state, breaker, passthrough, reload, one of an incident
	// (incident_open, incident_note, ...), or unknown; Target the upstream, bucket
	// or incident.
	Action   string   `json:"action,omitempty"`
	Target   string   `json:"target,omitempty"`
	From     string   `json:"from,omitempty"`
	To       string   `json:"to,omitempty"`
	For      string   `json:"for,omitempty"`
	Order    []string `json:"order,omitempty"`
	Why      string   `json:"why,omitempty"`
	Revision *uint64  `json:"revision,omitempty"` // the one the command named
	Override bool     `json:"override,omitempty"`
	Undo     bool     `json:"undo,omitempty"`
	// Result is ok, refused, stale, failed, or unknown (the gateway stopped
	// before the result was written); of phases done and refused.
	Result  string `json:"result,omitempty"`
	Code    string `json:"code,omitempty"` // of the Error, if any
	Status  int    `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	// NewRevision is the target's revision afterwards.
	NewRevision uint64 `json:"new_revision,omitempty"`
	// Suppressed counts refusals of callers without a valid token that were not
	// written since the last such entry.
	Suppressed int `json:"suppressed,omitempty"`
}

// The phases of an AuditEntry.
const (
	PhaseAsked   = "asked"
	PhaseDone    = "done"
	PhaseRefused = "refused"
	PhaseMended  = "mended"
)

// The results of an AuditEntry and of an operator_command Event.
const (
	ResultOK      = "ok"
	ResultRefused = "refused"
	ResultStale   = "stale"
	ResultFailed  = "failed"
	ResultUnknown = "unknown"
)

// AuditStatus says whether the audit is being written.
type AuditStatus struct {
	// Pending counts entries that wait in memory because the file cannot be
	// written; Lost those for which there was no room.
	Pending int    `json:"pending"`
	Lost    uint64 `json:"lost,omitempty"`
	Error   string `json:"error,omitempty"` // of the last attempt, empty if it succeeded
}

// AuditTrail answers GET /operator/v1/audit, newest entry first.
type AuditTrail struct {
	Entries []AuditEntry `json:"entries"`
	AuditStatus
	At time.Time `json:"at"`
}
