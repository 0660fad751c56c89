package api

import "time"

// Version is the version of this API; State carries it, and a console that
// finds another one says so.
const Version = 1

// Number is a measured value. Its state keeps apart what a bare zero would
// mix up.
type Number struct {
	// State is "value"; "idle" if there was nothing to measure (0/0, no
	// requests in the window); or "none" if there is no such series.
	State string  `json:"state"`
	Value float64 `json:"value"`
	// At is when the sample was taken, by the gateway's clock.
	At time.Time `json:"at"`
}

// The states of a Number.
const (
	StateValue = "value"
	StateIdle  = "idle"
	StateNone  = "none"
)

// State is what GET /operator/v1/state answers.
type State struct {
	APIVersion  int       `json:"api_version"`
	Version     string    `json:"version"` // of the gateway's program
	Environment string    `json:"environment"`
	Instance    string    `json:"instance"`
	PID         int       `json:"pid"`
	StartedAt   time.Time `json:"started_at"`
	At          time.Time `json:"at"` // the gateway's clock when it answered
	Revision    uint64    `json:"revision"`
	Draining    bool      `json:"draining"`
	// Scope says how far a command about shares and states reaches: "this gateway
	// only", or "all gateways of the store".
	Scope string `json:"scope"`
	// Demo is a banner text of a demonstration, empty otherwise.
	Demo string `json:"demo,omitempty"`

	Upstreams   []Upstream   `json:"upstreams"` // in file order
	Models      []Model      `json:"models"`
	Tasks       []Task       `json:"tasks"`
	Sessions    []Session    `json:"sessions"`
	RetryBudget RetryBudget  `json:"retry_budget"`
	Config      Config       `json:"config"`
	Passthrough *Passthrough `json:"passthrough,omitempty"` // nil when off
	Traffic     Traffic      `json:"traffic"`
	Log         Log          `json:"log"`
	// LastWrite is the last command that took effect, or the newest revision of an
	// upstream if that came after it, whoever wrote it: the machine too. Commands about
	// incidents change no traffic and are not counted, nor is an upstream's start.
	LastWrite *Event      `json:"last_write,omitempty"`
	You       You         `json:"you"`
	Audit     AuditStatus `json:"audit"`
	// Sources is where numbers and log lines of this gateway are kept.
	Sources Sources `json:"sources"`
	// Limit is nil where no limit is configured.
	Limit    *Limit   `json:"limit,omitempty"`
	Failback Failback `json:"failback"`
	// Settings are the scalar settings with where each came from.
	Settings []Setting `json:"settings,omitempty"`

	// SharedFault is nil unless several upstreams fail for a reason they share.
	SharedFault  *SharedFault `json:"shared_fault,omitempty"`
	Dependencies []Dependency `json:"dependencies,omitempty"`
	Jobs         []Job        `json:"jobs,omitempty"`
	Ping         Ping         `json:"ping"`
	Notify       Notify       `json:"notify"`
	Store        Store        `json:"store"`
	// Gateways are those of the store, this one among them; empty if the store
	// is this gateway's own.
	Gateways []Peer `json:"gateways,omitempty"`
	// Incidents are those that are open, oldest first, without their timeline.
	Incidents []IncidentHead `json:"incidents,omitempty"`
	Traces    Traces         `json:"traces"`
}

// Peer is a gateway that shares the store.
type Peer struct {
	Instance string    `json:"instance"`
	Version  string    `json:"version"`
	Since    time.Time `json:"since"`
	// LastSeen is when it last said so, by the clock of the gateway that answers.
	LastSeen time.Time `json:"last_seen"`
	// Answers is false for one that has been silent for three periods.
	Answers bool `json:"answers"`
	You     bool `json:"you,omitempty"` // it is the one that answers
}

// Traces is the state of the export of traces.
type Traces struct {
	Configured bool   `json:"configured"`
	Exported   uint64 `json:"exported"` // spans the collector confirmed
	Dropped    uint64 `json:"dropped"`  // spans that were given up
	// LastOK is when the collector last took some; Error why it took none since,
	// empty if it did.
	LastOK  time.Time `json:"last_ok,omitzero"`
	Error   string    `json:"error,omitempty"`
	ErrorAt time.Time `json:"error_at,omitzero"`
}

// SharedFault is a fault that switching cannot escape: requests end at once,
// but for one probe at a time.
type SharedFault struct {
	Since time.Time `json:"since"`
	// Reason is path (several upstreams cannot be reached) or the name of the
	// dependency that fails.
	Reason      string    `json:"reason"`
	Detail      string    `json:"detail"`
	Upstreams   []string  `json:"upstreams"`
	NextProbeAt time.Time `json:"next_probe_at,omitzero"`
}

// Dependency is a declared dependency that several upstreams share, and its
// last check.
type Dependency struct {
	Name   string `json:"name"`
	Domain string `json:"domain"` // dns/corp
	Kind   string `json:"kind"`   // dns, tcp, tls, http or file
	// Result is ok, failed, or unknown: before the first check, and when checks
	// do not take place.
	Result string    `json:"result"`
	Detail string    `json:"detail,omitempty"`
	At     time.Time `json:"at,omitzero"`    // of the last check
	Since  time.Time `json:"since,omitzero"` // of the result
	// Upstreams are those that name the domain.
	Upstreams []string `json:"upstreams"`
}

// Job is work that the gateway does by itself and over again.
type Job struct {
	Name         string    `json:"name"`
	EverySeconds float64   `json:"every_seconds"`
	LastSuccess  time.Time `json:"last_success,omitzero"` // zero: never yet
	Late         bool      `json:"late"`                  // it should have succeeded since
	Error        string    `json:"error,omitempty"`       // of the last run, empty if it succeeded
}

// Ping says whether the dead man's switch is being held: it is asked for while
// every job is in time.
type Ping struct {
	Configured bool `json:"configured"`
	// Held says why nobody is pinged: the jobs that are late. Empty if they are.
	Held        string    `json:"held,omitempty"`
	LastOK      time.Time `json:"last_ok,omitzero"`     // of the last that was confirmed
	LastError   string    `json:"last_error,omitempty"` // of the last, empty if it was confirmed
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
}

// Notify says whether those who were to be told have been.
type Notify struct {
	Configured bool `json:"configured"`
	// Pending are messages whose delivery is not confirmed yet.
	Pending     int       `json:"pending"`
	Oldest      time.Time `json:"oldest,omitzero"` // of the pending
	LastOK      time.Time `json:"last_ok,omitzero"`
	LastError   string    `json:"last_error,omitempty"` // of the last attempt, empty if it succeeded
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
	// Lost counts messages that were given up.
	Lost uint64 `json:"lost"`
}

// Store is the state of what must survive.
type Store struct {
	Kind  string    `json:"kind"`            // embedded or nats
	Error string    `json:"error,omitempty"` // why writes fail, empty if they do not
	Since time.Time `json:"since,omitzero"`  // of the error
}

// Paths below which the operator API serves what the gateway keeps itself, to
// viewers.
const (
	PrometheusPath = "/prometheus" // Prometheus's HTTP API: /prometheus/api/v1/query, ...
	LokiPath       = "/loki"       // Loki's HTTP API: /loki/api/v1/query_range, ...
)

// ServiceName is what a gateway calls itself where it labels what it keeps: the
// job of its metrics and the service_name of its lines.
const ServiceName = "failback"

// Sources is where numbers and log lines are to be asked for.
type Sources struct {
	Prometheus Source `json:"prometheus"`
	Loki       Source `json:"loki"`
}

// Source is one server.
type Source struct {
	// URL is the configured server's; empty: the gateway's own, under
	// PrometheusPath or LokiPath of the operator API.
	URL string `json:"url,omitempty"`
	// Selector selects this gateway's series (job="failback") or streams
	// ({service_name="failback"}); empty: all of them.
	Selector string `json:"selector"`
	// EverySeconds is how often the server takes samples; 0 for logs.
	EverySeconds float64 `json:"every_seconds,omitempty"`
	// Method is auto, get or post, of numbers alone; TimeoutSeconds how long an
	// answer is waited for, 0: as long as the client likes; Tenant is sent as
	// X-Scope-OrgID, empty: none. All three are of a configured server alone.
	Method         string  `json:"method,omitempty"`
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
	Tenant         string  `json:"tenant,omitempty"`
	// Error is what is wrong now with the gateway's own, empty if nothing is.
	Error string `json:"error,omitempty"`
}

// Limit holds limits that are shown next to what is measured.
type Limit struct {
	FallbackRatio float64 `json:"fallback_ratio"` // 0 to 1
}

// Failback is the configured way back: the steps of every upstream and what
// each asks for.
type Failback struct {
	Steps       []FailbackStep `json:"steps"`
	Advance     string         `json:"advance"` // manual, plan or auto
	MinRequests int            `json:"min_requests"`
	// SuccessTolerance is how much lower the success ratio may be than the
	// baseline, FirstOutputTolerance by which factor the p95 may be higher.
	SuccessTolerance     float64 `json:"success_tolerance"`
	FirstOutputTolerance float64 `json:"first_output_tolerance"`
	Owner                string  `json:"owner"` // who may call traffic fully back
}

// FailbackStep is one share on the way back.
type FailbackStep struct {
	Share          int     `json:"share"`
	ObserveSeconds float64 `json:"observe_seconds"` // 0: it is held, not watched for a next one
}

// You is who the gateway takes the caller for.
type You struct {
	Name string `json:"name"`
	Role string `json:"role"` // viewer or operator
	// ReadOnlyWhy says why writes of this caller would be refused, empty if they would not.
	ReadOnlyWhy string `json:"read_only_why,omitempty"`
}

// Upstream is the live state of one upstream.
type Upstream struct {
	Name     string `json:"name"`
	Region   string `json:"region"`
	Dialect  string `json:"dialect"`
	Revision uint64 `json:"revision"` // of its traffic state; a command names the one it was based on
	// RevisedBy and RevisedAt are of that revision, whatever it changed; absent from
	// a gateway of a version that does not keep them.
	RevisedBy string    `json:"revised_by,omitempty"`
	RevisedAt time.Time `json:"revised_at,omitzero"`
	// Share is the percent of its own traffic it may get; Live the part of its
	// own traffic (0 to 1) that it answered in the last minute, idle without
	// any, none if it is primary of nothing.
	Share    int       `json:"share"`
	Live     Number    `json:"live"`
	Since    time.Time `json:"since"`    // of the share
	StateBy  string    `json:"state_by"` // who set it; "auto", "plan:NAME": the gateway
	StateWhy string    `json:"state_why,omitempty"`
	Unsynced bool      `json:"unsynced,omitempty"` // in force here, not yet written down
	// FailbackID salts membership while the share is below 100.
	FailbackID string   `json:"failback_id,omitempty"`
	PrimaryOf  []string `json:"primary_of"`
	// Health is healthy, suspect, degraded or recovering; empty if the gateway
	// is of a version that does not measure it.
	Health       string    `json:"health,omitempty"`
	HealthSince  time.Time `json:"health_since,omitzero"`
	HealthBy     string    `json:"health_by,omitempty"`     // who set it, as StateBy
	HealthReason string    `json:"health_reason,omitempty"` // for people
	Signals      []Signal  `json:"signals,omitempty"`
	Probes       []Probe   `json:"probes,omitempty"`
	// Evidence is that of the step in force; nil unless the upstream recovers, and
	// until its step was judged.
	Evidence *Evidence `json:"evidence,omitempty"`
	// Plan is set while an operator's approval of the whole table lasts.
	Plan *Plan `json:"plan,omitempty"`
	// Steps are those of the failback under way, empty if there is none.
	Steps []FailbackStep `json:"steps,omitempty"`
	// Retreats counts those of the failback under way.
	Retreats       int      `json:"retreats,omitempty"`
	RPS            Number   `json:"rps"`              // attempts a second, last 10 s
	OwnRPS         Number   `json:"own_rps"`          // requests a second of which it is the primary
	ErrorRatio     Number   `json:"error_ratio"`      // 0 to 1, over the breaker's window
	FirstOutputP95 Number   `json:"first_output_p95"` // seconds
	InFlight       int      `json:"in_flight"`
	NextStep       NextStep `json:"next_step"`
	// Undo is set while the last lowering can be put back in one move.
	Undo     *Undo     `json:"undo,omitempty"`
	Breakers []Breaker `json:"breakers"`
	// Credential is empty, or the class for which its keys cool.
	Credential      string    `json:"credential,omitempty"`
	CredentialUntil time.Time `json:"credential_until,omitzero"`
	// Stranded are the requests a second of its own traffic that no other
	// candidate may take, per task, last minute.
	Stranded []TaskRate `json:"stranded,omitempty"`
	// Elsewhere names who takes its own traffic when it does not.
	Elsewhere []string `json:"elsewhere,omitempty"`
	// FaultDomains is what it depends on, by kind (dns, egress, identity, ...), as
	// declared; a kind that is missing is unknown.
	FaultDomains map[string]string `json:"fault_domains,omitempty"`
	Owner        string            `json:"owner,omitempty"` // who is responsible; empty: unnamed
}

// Signal is one thing that health is judged by.
type Signal struct {
	Group string `json:"group"` // traffic, probe or expiry
	Name  string `json:"name"`  // error_rate, success, breaker, probe, credential, certificate
	// Colour is green, red or unknown.
	Colour string    `json:"colour"`
	Value  string    `json:"value"`          // for people: "12/20 failed"
	At     time.Time `json:"at,omitzero"`    // of the measurement
	Since  time.Time `json:"since,omitzero"` // of the colour
	// BlindSpot is what it cannot see.
	BlindSpot string `json:"blind_spot"`
}

// The colours of a Signal.
const (
	Green   = "green"
	Red     = "red"
	Unknown = "unknown"
)

// The healths of an Upstream.
const (
	Healthy    = "healthy"
	Suspect    = "suspect"
	Degraded   = "degraded"
	Recovering = "recovering"
)

// Probe is the probing of one candidate and capability.
type Probe struct {
	Model      string `json:"model"` // the upstream's name of it
	Capability string `json:"capability"`
	// Result is ok, a class, or empty before the first probe.
	Result string    `json:"result"`
	Detail string    `json:"detail,omitempty"`
	At     time.Time `json:"at,omitzero"`
	NextAt time.Time `json:"next_at,omitzero"`
	Passed int       `json:"passed"` // in a row
	Failed int       `json:"failed"` // in a row
	// SpentUSD is what the probes of the candidate cost today (UTC), all its
	// capabilities together; none if the price is not configured.
	SpentUSD Number `json:"spent_usd"`
	// Held says why there is none now: its daily cost is used up, or a reason such
	// as breaker_open or capacity. Empty if there is.
	Held string `json:"held,omitempty"`
}

// The verdicts of Evidence and of its rows.
const (
	Pass   = "pass"
	Fail   = "fail"
	NoData = "no data"
)

// Evidence is what speaks for and against the next step up.
type Evidence struct {
	Verdict string        `json:"verdict"` // pass, fail or no data
	Rows    []EvidenceRow `json:"rows"`
	At      time.Time     `json:"at"`
	Share   int           `json:"share"` // the step that is watched
	// ObserveSeconds are asked for, ServedSeconds the gateway served of them.
	ObserveSeconds float64 `json:"observe_seconds"`
	ServedSeconds  float64 `json:"served_seconds"`
	Requests       int     `json:"requests"` // valid ones of its own traffic
	Failed         int     `json:"failed"`
	Success        Number  `json:"success"`          // ratio
	FirstOutputP95 Number  `json:"first_output_p95"` // seconds
	// BaselineSource is history, slo or default.
	BaselineSource         string  `json:"baseline_source"`
	BaselineRequests       int     `json:"baseline_requests"`
	BaselineSuccess        float64 `json:"baseline_success"`
	BaselineFirstOutputP95 float64 `json:"baseline_first_output_p95"` // seconds
	// EnoughInSeconds is when there will be enough at the present rate; 0: there
	// is, or nobody can tell.
	EnoughInSeconds float64 `json:"enough_in_seconds,omitempty"`
}

// EvidenceRow is one condition of the gate.
type EvidenceRow struct {
	Name    string `json:"name"` // window, requests, success, first_output, classes, breaker, probes
	Verdict string `json:"verdict"`
	Text    string `json:"text"` // for people: "99.1% of 412, at least 98.5% asked"
}

// Plan is an operator's approval of the whole table of steps.
type Plan struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// TaskRate is a rate of one task's requests.
type TaskRate struct {
	Task string  `json:"task"`
	RPS  float64 `json:"rps"`
	Why  string  `json:"why"` // a reason: not_allowed, breaker_open, ...
}

// NextStep is the next share up. BlockedBy says what speaks against taking it
// now, empty if nothing does; Share is 0 when there is none.
type NextStep struct {
	Share     int    `json:"share"`
	BlockedBy string `json:"blocked_by,omitempty"`
}

// Undo is what putting back the last lowering would restore.
type Undo struct {
	Share int       `json:"share"`
	By    string    `json:"by"`
	Until time.Time `json:"until"`
}

// Breaker is the state of one bucket.
type Breaker struct {
	Bucket     string `json:"bucket"` // upstream:capability
	Capability string `json:"capability"`
	// State is closed, open, half_open or ramping.
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"` // of the last opening while not closed
	Detail string    `json:"detail,omitempty"`
	Since  time.Time `json:"since"`
	// NextProbeAt is when an open bucket becomes half-open. ProbeDue says that
	// it is due and waits for traffic.
	NextProbeAt time.Time `json:"next_probe_at,omitzero"`
	ProbeDue    bool      `json:"probe_due,omitempty"`
	Probes      int       `json:"probes"` // allowed at once in half-open
	ProbesOut   int       `json:"probes_out"`
	ProbesOK    int       `json:"probes_ok"`            // of Probes, ended well so far
	RampLimit   int       `json:"ramp_limit,omitempty"` // admitted in flight while ramping
	InFlight    int       `json:"in_flight"`
	Samples     int       `json:"samples"`
	Failures    int       `json:"failures"`
	Run         int       `json:"run"` // consecutive failed requests
	// Forced is open or closed while an operator's override lasts, until ForcedUntil.
	Forced      string    `json:"forced,omitempty"`
	ForcedBy    string    `json:"forced_by,omitempty"`
	ForcedUntil time.Time `json:"forced_until,omitzero"`
	// Mode is enforce or shadow.
	Mode string `json:"mode"`
	// AdmittedRPS is the rate admitted after 429s, 0 when not bound.
	AdmittedRPS float64  `json:"admitted_rps,omitempty"`
	Weights     []Weight `json:"weights,omitempty"`
}

// Weight is the effective weight of a candidate of one model in one bucket.
type Weight struct {
	Model     string  `json:"model"`
	Weight    float64 `json:"weight"`
	Effective float64 `json:"effective"`
}

// Model is a configured model with its candidates in order.
type Model struct {
	Name       string      `json:"name"`
	Candidates []Candidate `json:"candidates"`
	// Domains is what its upstreams share; empty with one upstream.
	Domains []Domain `json:"domains,omitempty"`
	// Budgets are those of its objectives; empty without any.
	Budgets []Budget `json:"budgets,omitempty"`
}

// Domain is one kind of fault domain of a model's upstreams.
type Domain struct {
	Kind   string        `json:"kind"` // dns, egress, ..., host or credential
	Groups []DomainGroup `json:"groups"`
	// Unknown are the upstreams that do not declare it.
	Unknown []string `json:"unknown,omitempty"`
	// Accepted is why it is accepted that some share it, empty if it is not.
	Accepted string `json:"accepted,omitempty"`
}

// DomainGroup are the upstreams of one fault domain: one failure takes them
// together.
type DomainGroup struct {
	Value     string   `json:"value,omitempty"` // empty for host and credential
	Upstreams []string `json:"upstreams"`
}

// Budget is an error budget: what an objective allows to go wrong, and what did.
type Budget struct {
	Objective string  `json:"objective"` // availability or first_output
	Target    float64 `json:"target"`    // ratio of good, 0 to 1
	// UnderSeconds is the limit that first_output is held against; 0 otherwise.
	UnderSeconds float64 `json:"under_seconds,omitempty"`
	// WindowSeconds is the time that the budget is for; CoveredSeconds how much of
	// it was counted, in seconds in which the gateway served.
	WindowSeconds  float64 `json:"window_seconds"`
	CoveredSeconds float64 `json:"covered_seconds"`
	Good           uint64  `json:"good"`
	Bad            uint64  `json:"bad"`
	// Spent is the part of the budget that is used up, over 1 when it is exceeded;
	// idle without any request.
	Spent Number `json:"spent"`
	// BurnFast and BurnSlow are how many times faster than the budget allows it
	// was spent in the last hour and the last six hours; 1 spends it exactly by
	// the window's end.
	BurnFast Number `json:"burn_fast"`
	BurnSlow Number `json:"burn_slow"`
	// Burning is BurningFast or BurningSlow while the budget burns faster than
	// FastBurn or SlowBurn, also over the short time of those; else empty.
	Burning string `json:"burning,omitempty"`
	// By is who and what it was spent on, the most first.
	By []BudgetSpend `json:"by,omitempty"`
}

// Unbounded is the value of a Budget's numbers, and their highest, where there
// is no bound: a target of 1 allows nothing, so that one bad request exceeds it
// by any factor.
const Unbounded = 1e9

// BudgetSpend is a part of what a budget was spent on.
type BudgetSpend struct {
	Provider string `json:"provider"` // who failed first, or none
	Reason   string `json:"reason"`
	Bad      uint64 `json:"bad"`
}

// Candidate is one candidate of a model.
type Candidate struct {
	Upstream   string  `json:"upstream"`
	Model      string  `json:"model"`
	Weight     float64 `json:"weight"`
	Substitute bool    `json:"substitute,omitempty"`
}

// Task is a configured task, or one of the names unnamed and other.
type Task struct {
	Name          string `json:"name"`
	Fallback      string `json:"fallback"`
	OnUnavailable string `json:"on_unavailable"`
	UserSees      string `json:"user_sees,omitempty"`
	RPS           Number `json:"rps"`
}

// Session is a console that asked within the last minutes.
type Session struct {
	Name     string    `json:"name"`
	Instance string    `json:"instance"`
	LastSeen time.Time `json:"last_seen"` // when it last asked
	// Active is when its operator last pressed a key or, of a console that does
	// not say, when it last asked; zero: the gateway does not know.
	Active time.Time `json:"active,omitzero"`
	Since  time.Time `json:"since"`
	// Writes is when it last wrote, zero if never.
	Writes time.Time `json:"writes,omitzero"`
	You    bool      `json:"you,omitempty"`
}

// RetryBudget is the budget shared by all requests and providers.
type RetryBudget struct {
	Available float64   `json:"available"`
	Size      float64   `json:"size"`
	At        time.Time `json:"at"`
}

// Config says which configuration is in force.
type Config struct {
	Path      string    `json:"path"`
	Hash      string    `json:"hash"`
	LoadedAt  time.Time `json:"loaded_at"`
	LastError string    `json:"last_error,omitempty"`
	// LastErrorAt is when a reload was last refused.
	LastErrorAt  time.Time `json:"last_error_at,omitzero"`
	NeedsRestart []string  `json:"needs_restart,omitempty"`
}

// Setting is an effective scalar setting and its origin.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // flag, environment, file or default
}

// Passthrough is the break glass: a fixed order that ignores share and breakers.
// State.Scope says where.
type Passthrough struct {
	Order    []string  `json:"order"`
	Until    time.Time `json:"until"`
	By       string    `json:"by"`
	Why      string    `json:"why,omitempty"`
	Unsynced bool      `json:"unsynced,omitempty"` // in force here, not yet written down
}

// Traffic is what clients get, over the last minute.
type Traffic struct {
	RPS            Number `json:"rps"`
	FailedRatio    Number `json:"failed_ratio"`   // bad of (good + bad)
	FallbackRatio  Number `json:"fallback_ratio"` // fallback_triggered of all
	FallbackRPS    Number `json:"fallback_rps"`
	FirstOutputP95 Number `json:"first_output_p95"` // seconds
	InFlight       int    `json:"in_flight"`
	ClientRetries  Number `json:"client_retries"` // a second
}

// Log is the state of the decision log.
type Log struct {
	Target  string `json:"target"`
	Written uint64 `json:"written"`
	Dropped uint64 `json:"dropped"`
	Error   string `json:"error,omitempty"`
}

// Decision is a decision as the log line has it; see docs of the decision log.
type Decision struct {
	Event               string              `json:"event"`
	Time                time.Time           `json:"time"`
	RequestID           string              `json:"request_id"`
	TraceID             string              `json:"trace_id"`
	Conversation        string              `json:"conversation"`
	Turn                string              `json:"turn"`
	OperationID         string              `json:"operation_id"`
	StateVersion        string              `json:"state_version"`
	TaskType            string              `json:"task_type"`
	Model               string              `json:"model"`
	Endpoint            string              `json:"endpoint"`
	Stream              bool                `json:"stream"`
	PrimaryProvider     string              `json:"primary_provider"`
	SelectedProvider    string              `json:"selected_provider"`
	SelectedModel       string              `json:"selected_model"`
	ResponseModel       string              `json:"response_model"`
	Substitute          bool                `json:"substitute"`
	Route               string              `json:"route"`
	FallbackTriggered   bool                `json:"fallback_triggered"`
	WorkflowStatus      string              `json:"workflow_status"`
	Reason              string              `json:"reason"`
	FailedProvider      string              `json:"failed_provider"`
	Candidates          []DecisionCandidate `json:"candidates"`
	Attempts            []DecisionAttempt   `json:"attempts"`
	FirstOutputMS       *float64            `json:"first_output_ms"` // null: none was relayed
	DurationMS          float64             `json:"duration_ms"`
	RemainingDeadlineMS float64             `json:"remaining_deadline_ms"`
	RetryTokens         float64             `json:"retry_tokens"`
	CostUSD             *float64            `json:"cost_usd"` // null: unknown
	HTTPStatus          int                 `json:"http_status"`
	ClientRetry         int                 `json:"client_retry,omitempty"`
	Sample              float64             `json:"sample,omitempty"` // rate at which such lines are kept, if thinned
	ServiceVersion      string              `json:"service_version"`
	Instance            string              `json:"instance"`
}

// DecisionCandidate is one candidate of a Decision.
type DecisionCandidate struct {
	Provider string  `json:"provider"`
	Model    string  `json:"model"`
	Weight   float64 `json:"weight"`
	Share    int     `json:"share"`
	Skipped  string  `json:"skipped"`
	// SkippedWhy says more, for operators ("open since 03:48:10Z: 12/20 failed");
	// empty where Skipped says it all.
	SkippedWhy string `json:"skipped_why,omitempty"`
}

// DecisionAttempt is one attempt of a Decision.
type DecisionAttempt struct {
	Provider          string   `json:"provider"`
	Region            string   `json:"region"`
	Capability        string   `json:"capability"`
	Class             string   `json:"class"`
	Status            int      `json:"status"`
	FirstOutputMS     *float64 `json:"first_output_ms"`
	DurationMS        float64  `json:"duration_ms"`
	UpstreamRequestID string   `json:"upstream_request_id"`
	Code              string   `json:"code,omitempty"`
	Detail            string   `json:"detail,omitempty"`
	// StartedMS is when it began after the request was accepted;
	// RemainingDeadlineMS and RetryTokens are what was left at its end; Share and
	// Weight its candidate's when it began. Absent in lines of older versions.
	StartedMS           *float64 `json:"started_ms,omitempty"`
	RemainingDeadlineMS *float64 `json:"remaining_deadline_ms,omitempty"`
	RetryTokens         *float64 `json:"retry_tokens,omitempty"`
	Share               *int     `json:"share,omitempty"`
	Weight              *float64 `json:"weight,omitempty"`
	// Next is what followed and Why what decided so: answered, same_again (the
	// same candidate), switch (another) or end; Why is a word such as a reason, a
	// class or a rule's name. WaitMS is the back-off before what followed.
	Next   string   `json:"next,omitempty"`
	Why    string   `json:"why,omitempty"`
	WaitMS *float64 `json:"wait_ms,omitempty"`
	SpanID string   `json:"span_id,omitempty"`
}

// Event is a change: a transition, a step, a command. Seq orders the events of
// one gateway process and is where a replay goes on.
type Event struct {
	Seq        uint64    `json:"seq"`
	Event      string    `json:"event"` // breaker_transition, traffic_step, operator_command, ...
	Time       time.Time `json:"time"`
	Provider   string    `json:"provider,omitempty"`
	Region     string    `json:"region,omitempty"`
	Capability string    `json:"capability,omitempty"`
	Model      string    `json:"model,omitempty"`
	From       string    `json:"from,omitempty"`
	To         string    `json:"to,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Detail     string    `json:"detail,omitempty"`
	By         string    `json:"by,omitempty"`
	Why        string    `json:"why,omitempty"`
	Action     string    `json:"action,omitempty"`
	Result     string    `json:"result,omitempty"`
	Revision   uint64    `json:"revision,omitempty"`
	// Required is, of an escalation, who is needed for what; Notified where
	// delivery to them was confirmed, or none.
	Required string `json:"required,omitempty"`
	Notified string `json:"notified,omitempty"`
}

// Events answers GET /operator/v1/events as JSON (without SSE): events after
// a sequence number, oldest first. Dropped counts those that had already left
// the ring.
type Events struct {
	Events  []Event   `json:"events"`
	Dropped uint64    `json:"dropped"`
	At      time.Time `json:"at"`
}

// Decisions answers GET /operator/v1/decisions, newest first.
type Decisions struct {
	Decisions []Decision `json:"decisions"`
	// Total counts all decisions since start; PerMinute those of the last minute.
	Total     uint64    `json:"total"`
	PerMinute int       `json:"per_minute"`
	At        time.Time `json:"at"`
}

// Command is the body of every POST. Fields that do not apply are left out.
type Command struct {
	Share  *int   `json:"share,omitempty"`
	State  string `json:"state,omitempty"`  // degraded or recovering
	Action string `json:"action,omitempty"` // share: plan, manual; breaker: open, close, auto; passthrough: on, off
	// For is how long it lasts, as a Go duration ("1h").
	For   string   `json:"for,omitempty"`
	Order []string `json:"order,omitempty"` // passthrough
	// Revision is the one the caller saw. Required to raise a share.
	Revision *uint64 `json:"revision,omitempty"`
	// From is the share the caller saw: a command that asks for more is meant as
	// a raise, and is refused where it would be none by now.
	From *int `json:"from,omitempty"`
	// Reason is why; of an incident that is opened its title, of a note its text, of a
	// tick the step in words.
	Reason string `json:"reason,omitempty"`
	// Override takes a step that the gate would refuse, or closes an incident with
	// questions unanswered; needs a reason.
	Override bool `json:"override,omitempty"`
	// Undo puts back the share before the caller's own last lowering.
	Undo bool `json:"undo,omitempty"`
	// Runbook, Step and Done are of a tick in an incident: a step was done, or its
	// tick is taken back.
	Runbook string `json:"runbook,omitempty"`
	Step    int    `json:"step,omitempty"`
	Done    *bool  `json:"done,omitempty"`
	// Question is the id of a closing question, Answer what is answered.
	Question string `json:"question,omitempty"`
	Answer   string `json:"answer,omitempty"`
	// Seen is the time of the answer that was there and was read, which is to be
	// replaced; zero: none was seen. Another one is not replaced.
	Seen time.Time `json:"seen,omitzero"`
}

// Result answers a POST that took effect.
type Result struct {
	Message  string    `json:"message"`
	Upstream *Upstream `json:"upstream,omitempty"` // its state afterwards
	// Incident is the one that a command was about, as it is afterwards.
	Incident *IncidentHead `json:"incident,omitempty"`
	// Report is the outcome per key of a reload.
	Report []ReloadItem `json:"report,omitempty"`
	// AuditPending says that the command took effect and is not in the audit
	// file yet: the file cannot be written now, and the entry waits in memory.
	AuditPending bool `json:"audit_pending,omitempty"`
}

// ReloadItem is one changed key of a reload.
type ReloadItem struct {
	Key    string `json:"key"`
	Result string `json:"result"` // applied, needs restart
}

// Error is the body of every answer that is not a success.
type Error struct {
	// Code is stale_revision, blocked, forbidden, unauthorized, not_found,
	// invalid, failed.
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Upstream is the current state, on stale_revision and blocked.
	Upstream *Upstream `json:"upstream,omitempty"`
	// LastWrite is who changed it, on stale_revision.
	LastWrite *Event `json:"last_write,omitempty"`
	// Question is the closing question as it is answered, on stale_revision of an
	// answer.
	Question *ClosingQuestion `json:"question,omitempty"`
	// HTTPStatus is filled in by the client.
	HTTPStatus int `json:"-"`
}

func (e *Error) Error() string {
	if e.Hint != "" {
		return e.Message + " (" + e.Hint + ")"
	}
	return e.Message
}

// The codes of Error.
const (
	CodeStaleRevision = "stale_revision"
	CodeBlocked       = "blocked"
	CodeForbidden     = "forbidden"
	CodeUnauthorized  = "unauthorized"
	CodeNotFound      = "not_found"
	CodeInvalid       = "invalid"
	CodeFailed        = "failed"
)

// What a Command about all steps of an upstream asks for: to approve them once,
// so that passing takes the next one, or to take that back.
const (
	ActionPlan   = "plan"
	ActionManual = "manual"
)

// The roles of You.
const (
	RoleViewer   = "viewer"
	RoleOperator = "operator"
)

// SessionHeader carries the random id of a console.
const SessionHeader = "Failback-Session"

// IdleHeader says for how many whole seconds the operator of a console has
// pressed no key.
const IdleHeader = "Failback-Idle"

// ReadOnlyHeader, with whatever value, makes its sender a viewer for this
// request, whoever that is.
const ReadOnlyHeader = "Failback-Read-Only"
