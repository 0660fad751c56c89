package config

import (
	"net/url"
	"time"

	"failback/gateway/decision"
)

// The tags that declare a key:
//
//	key        its name; "*" marks the field that takes the name of a map's entry
//	type       a narrower type than Go's, with its own check: bytes, address, path, ...
//	default    the value when the key is absent, as YAML
//	single     a second key for the same list, which takes one element
//	none       what absence means, where there is no default
//	required   "yes": it must be given, and if it is a collection not be empty
//	min, above, max   bounds of a number or duration; above excludes the bound
//	oneof      the words allowed, separated by |
//	restart    "yes": a reload cannot apply a change; "toggle": it can, unless
//	           the section comes or goes
//	overlay    the absent keys of this section are taken from the top-level one of that name
//	only       the keys of an overlay that may be given
//	effect     "none": read and checked, but nothing in this version acts on it
//	doc        what it means, one sentence

// Config is a configuration that has been loaded, defaulted and validated. It
// is not changed afterwards and may be read by many goroutines.
type Config struct {
	// Path is the file it came from, empty if it came from memory.
	Path string

	Listen           string        `key:"listen" type:"address" required:"yes" restart:"yes" doc:"Address for clients. One that is not loopback needs keys, or allow_anonymous: true."`
	AllowAnonymous   bool          `key:"allow_anonymous" default:"false" doc:"Lets clients in without a key. Needed where listen is not loopback and there are no keys."`
	TLS              *TLS          `key:"tls" none:"clients speak plain HTTP" restart:"toggle" doc:"TLS for listen."`
	Operator         Operator      `key:"operator" doc:"The operator API over TCP. The socket data_dir/failback.sock is always there."`
	DataDir          string        `key:"data_dir" type:"path" default:"./data" restart:"yes" doc:"Directory for state, audit and the operator socket; made if it is missing."`
	Environment      string        `key:"environment" type:"label" none:"no environment is shown" doc:"Shown on every screen, such as PROD."`
	Deadline         Deadline      `key:"deadline" doc:"How long a client waits at most. A client may ask for less with a header."`
	Stream           Stream        `key:"stream" doc:"Limits of a stream after its first output."`
	MaxRequestBytes  int64         `key:"max_request_bytes" type:"bytes" default:"32MiB" min:"1" doc:"Largest request body; above it the answer is 413."`
	MaxHeldBytes     int64         `key:"max_held_bytes" type:"bytes" default:"4MiB" min:"1" doc:"Largest answer held back by release: complete; above it the answer is released as it comes."`
	MaxInflight      int           `key:"max_inflight" default:"4096" min:"1" doc:"Requests at a time; above it 503 with Retry-After. One upstream holds at most a quarter of it while another admits."`
	MaxBufferedBytes int64         `key:"max_buffered_bytes" type:"bytes" default:"1GiB" min:"1" doc:"Bodies and held answers in memory, all requests together; above it 503 with Retry-After."`
	DrainDelay       time.Duration `key:"drain_delay" default:"10s" min:"0s" doc:"How long requests are still accepted after SIGTERM, while /readyz already fails. 0s closes the listener at once."`
	ShutdownGrace    time.Duration `key:"shutdown_grace" default:"30s" min:"0s" doc:"How long requests may run on once the listener is closed. 0s cuts them off."`
	OnClientGone     string        `key:"on_client_gone" default:"cancel" oneof:"cancel|drain" doc:"What becomes of the upstream's answer when the client leaves: cancel stops it, drain reads it to its end."`

	Upstreams   []Upstream `key:"upstreams" required:"yes" doc:"Provider endpoints by name."`
	Models      []Model    `key:"models" required:"yes" doc:"Models by the name clients ask for."`
	Tasks       []Task     `key:"tasks" none:"no task is known by name" doc:"Rules by the client's kind of work. A name that is not here may not fall back. A task takes nothing from default_task."`
	DefaultTask Task       `key:"default_task" doc:"Rules for requests that name no task."`

	Retry        Retry        `key:"retry" doc:"Attempts, switches and back-off."`
	FirstOutput  FirstOutput  `key:"first_output" doc:"Watchdog on the first output of a stream, while another candidate is left."`
	UnaryAttempt UnaryAttempt `key:"unary_attempt" doc:"Limit of one attempt at a whole answer, while another candidate is left."`
	Breaker      Breaker      `key:"breaker" doc:"The breaker of each upstream and capability."`
	Health       Health       `key:"health" doc:"Signals that degrade an upstream."`
	Failback     Failback     `key:"failback" doc:"The way back to an upstream that was left."`
	Limit        *Limit       `key:"limit" none:"no limit is shown, none is invented" doc:"Limits that are shown next to what is measured."`
	Errors       Errors       `key:"errors" doc:"Whether a credential's failure may be hidden behind another candidate."`

	SharedDependencies []SharedDependency `key:"shared_dependencies" none:"none is watched" doc:"What several upstreams depend on, watched by itself. One that fails is shown; only upstreams that name its domain, and fail themselves, are taken to share the fault."`
	Sources            Sources            `key:"sources" doc:"Where the console reads metrics and logs."`
	Telemetry          Telemetry          `key:"telemetry" doc:"Decision log and traces."`
	Notify             *Notify            `key:"notify" none:"nobody is notified" doc:"Who is told of what needs a person."`
	Jobs               *Jobs              `key:"jobs" none:"nobody is pinged" doc:"Who hears that the gateway's own recurring work goes on."`
	Store              *Store             `key:"store" none:"in the process, in data_dir" restart:"yes" doc:"Where shares, evidence, overrides, error budgets, incidents and the audit are kept: a store that several gateways may share, which is how they know of each other; each needs its own --instance."`
	Keys               []ClientKey        `key:"keys" none:"clients need no key" doc:"Keys of clients."`
	Accepted           map[string]string  `key:"accepted" none:"nothing" doc:"Findings of check that are taken on purpose: the finding's subject, and why."`

	meta *meta
}

// TLS names a certificate and its key. Both files are read again when they change.
type TLS struct {
	Cert string `key:"cert" type:"path" required:"yes" doc:"Certificate chain, PEM."`
	Key  string `key:"key" type:"path" required:"yes" doc:"Private key, PEM."`
}

// Operator is the operator API over TCP.
type Operator struct {
	Listen string  `key:"listen" type:"address" none:"the socket only" restart:"yes" doc:"TCP address of the operator API. /metrics and /healthz are open there, all else needs a token and, off loopback, TLS."`
	TLS    *TLS    `key:"tls" none:"plain HTTP, on loopback only" restart:"toggle" doc:"TLS for operator.listen."`
	Tokens []Token `key:"tokens" none:"over TCP only /metrics and /healthz answer" doc:"Who may use the operator API over TCP."`
}

// Token lets one person or program use the operator API.
type Token struct {
	Name string `key:"name" type:"name" required:"yes" doc:"Who it is, as it appears in the audit. auto, which is the gateway itself, is refused."`
	Role string `key:"role" required:"yes" oneof:"viewer|operator" doc:"viewer reads, operator also gives commands."`
	Hash string `key:"hash" type:"hash" required:"yes" doc:"sha256: and 64 hexadecimal digits, of a random token; failback token makes one."`
}

// Deadline bounds a client's wait.
type Deadline struct {
	FirstOutput time.Duration `key:"first_output" default:"60s" min:"1ms" doc:"Of a stream, up to its first output."`
	Unary       time.Duration `key:"unary" default:"10m" min:"1ms" doc:"Of a unary or held answer, as a whole."`
}

// Stream bounds a stream after its first output.
type Stream struct {
	Idle time.Duration `key:"idle" default:"30s" min:"1ms" doc:"Longest silence of the upstream; any byte ends it."`
	Max  time.Duration `key:"max" default:"15m" min:"1ms" doc:"Longest stream in all."`
}

// Upstream is one provider endpoint in one region with one credential.
type Upstream struct {
	Name    string           `key:"*" type:"upstream"`
	Dialect decision.Dialect `key:"dialect" required:"yes" oneof:"openai|anthropic" doc:"Wire format."`
	BaseURL *url.URL         `key:"base_url" type:"base URL" required:"yes" doc:"As the SDKs have it: with /v1 for openai, without for anthropic."`
	Region  string           `key:"region" type:"label" default:"global" doc:"Label of metrics and screens."`
	// Keys has at least one credential.
	Keys          []Secret          `key:"api_keys" single:"api_key" none:"api_key is given" doc:"Several credentials, instead of api_key; each is tried at most once per request." singledoc:"The credential: env:NAME, file:PATH (read again when it changes) or exec:COMMAND. The key itself is accepted and warned of."`
	Auth          string            `key:"auth" none:"x-api-key for anthropic, bearer for openai" oneof:"bearer|x-api-key|api-key" doc:"Header that carries the credential."`
	APIKeyExpires time.Time         `key:"api_key_expires" none:"unknown" doc:"Day on which the credential ends, a health signal."`
	Limits        Limits            `key:"limits" doc:"Held before a request is sent, per gateway."`
	FaultDomains  map[string]string `key:"fault_domains" type:"name" none:"every domain is unknown" doc:"What it depends on, by kind: dns, egress, identity, billing, gateway, state, quota, cloud. Upstreams with the same billing share an exhausted quota."`
	Owner         string            `key:"owner" type:"label" none:"reported as unnamed" doc:"Who is responsible for it."`
	Signal        string            `key:"signal" type:"label" none:"not said" doc:"By what its failure is noticed."`
	StateBoundary string            `key:"state_boundary" type:"label" none:"not said" doc:"Which state does not leave it."`
	DataZones     []string          `key:"data_zones" type:"name" none:"no zone" doc:"Zones it counts for; tasks with data_zones use only such upstreams."`
	Prices        []Price           `key:"prices" none:"unknown" doc:"Prices by the upstream's model name, in USD per million tokens: what its probes cost. A model without one is probed whatever it costs."`
	Probe         Probe             `key:"probe" doc:"Probes per candidate and capability."`

	// The following are resolved: what the upstream does not set itself is what
	// holds for all.
	Breaker      Breaker      `key:"breaker" overlay:"breaker" doc:"Instead of the breaker section, for this upstream."`
	FirstOutput  FirstOutput  `key:"first_output" overlay:"first_output" doc:"Instead of the first_output section, for this upstream."`
	UnaryAttempt UnaryAttempt `key:"unary_attempt" overlay:"unary_attempt" doc:"Instead of the unary_attempt section, for this upstream."`
	Stream       Stream       `key:"stream" overlay:"stream" doc:"Instead of the stream section, for this upstream."`
	Retry        Retry        `key:"retry" overlay:"retry" only:"base,cap,patience" doc:"Instead of the retry section, for this upstream: base, cap and patience."`
}

// Limits are held before a request is sent. 0 is no limit.
type Limits struct {
	Concurrency int     `key:"concurrency" none:"no limit" min:"1" doc:"Requests at a time."`
	RPS         float64 `key:"rps" none:"no limit" above:"0" doc:"Requests a second."`
	TPM         int     `key:"tpm" none:"no limit" min:"1" doc:"Tokens a minute."`
}

// Price is what one model costs, in USD per million tokens.
type Price struct {
	Model  string  `key:"*" type:"model"`
	Input  float64 `key:"input" required:"yes" min:"0" doc:"USD per million input tokens."`
	Output float64 `key:"output" required:"yes" min:"0" doc:"USD per million output tokens."`
}

// Probe is how an upstream is probed.
type Probe struct {
	Every            time.Duration `key:"every" default:"90s" min:"1s" doc:"Time between probes of a candidate's capability. While the upstream is suspect or degraded it is breaker.cooldown."`
	MaxCostUSDPerDay float64       `key:"max_cost_usd_per_day" default:"1" min:"0" doc:"Above it, probes wait for the next day. 0 allows only free ones."`
}

// Model is a name clients ask for, with who can answer.
type Model struct {
	Name string `key:"*" type:"model"`
	SLO  *SLO   `key:"slo" none:"no objective" doc:"Objective. A step on the way back is compared with it as long as its upstream has no history."`
	// Candidates are in file order, which breaks ties of weight.
	Candidates []Candidate `key:"candidates" required:"yes" doc:"Who can answer, highest weight first; ties go by file order."`
}

// SLO is a model's objective.
type SLO struct {
	Availability float64         `key:"availability" none:"no objective" above:"0" max:"1" doc:"Part of the requests that get an answer."`
	FirstOutput  *SLOFirstOutput `key:"first_output" none:"no objective" doc:"Objective for the first output."`
	Window       time.Duration   `key:"window" default:"720h" min:"1h" max:"2160h" doc:"Time over which the error budget is spent."`
}

// SLOFirstOutput is an objective for the first output of streams.
type SLOFirstOutput struct {
	Under time.Duration `key:"under" required:"yes" min:"1ms" doc:"Time to the first output."`
	Ratio float64       `key:"ratio" required:"yes" above:"0" max:"1" doc:"Part of the streams that keep it."`
}

// Candidate is an upstream that can serve a model.
type Candidate struct {
	Upstream      string                 `key:"upstream" required:"yes" type:"upstream" doc:"Name of an upstream."`
	Model         string                 `key:"model" type:"model" none:"the model's own name" doc:"The upstream's name for the model."`
	Weight        float64                `key:"weight" default:"100" above:"0" max:"1000000" doc:"The highest that admits is taken first."`
	Substitute    bool                   `key:"substitute" default:"false" doc:"It is not the same model; only tasks with fallback: any use it, and it is never the primary."`
	LargerContext bool                   `key:"larger_context" default:"false" doc:"A request too long for another candidate may go to it."`
	ContextTokens int                    `key:"context_tokens" none:"unknown" min:"1" doc:"Size of its context."`
	Capabilities  decision.CapabilitySet `key:"capabilities" default:"[tools, stream, text, embeddings]" doc:"What it can do: text, stream, tools, embeddings."`
}

// Task is what is allowed for one kind of work.
type Task struct {
	// Name is the configured name, or decision.TaskUnnamed for DefaultTask.
	Name          string        `key:"*" type:"task"`
	Fallback      string        `key:"fallback" default:"same_model" oneof:"never|same_model|any" doc:"Which other candidates may answer: never none, same_model no substitute, any all."`
	OnUnavailable string        `key:"on_unavailable" default:"fail" oneof:"fail|queue|human" doc:"What becomes of a request without an answer. There is no queue in this version: queue and human answer 503."`
	Release       string        `key:"release" none:"the answer is released as it comes" oneof:"complete" doc:"complete holds the answer until it is whole, so that a break midway can fail over."`
	SideEffects   bool          `key:"side_effects" default:"false" doc:"A request that may have been processed is not sent again, unless it carries an operation id."`
	Deadline      time.Duration `key:"deadline" none:"deadline.first_output and deadline.unary" min:"1ms" doc:"Shortens the deadlines for this task."`
	MaxCostUSD    float64       `key:"max_cost_usd" none:"no ceiling" above:"0" effect:"none" doc:"Cost ceiling of one request."`
	UserSees      string        `key:"user_sees" type:"label" none:"reported" doc:"What the user sees when the primary does not answer, in your words."`
	DataZones     []string      `key:"data_zones" type:"name" none:"any upstream" doc:"Only upstreams that declare one of these zones."`
}

// Retry bounds attempts, switches and back-off.
type Retry struct {
	Attempts    int           `key:"attempts" default:"4" min:"1" doc:"Attempts per request, the first included."`
	MaxSwitches int           `key:"max_switches" default:"2" min:"0" doc:"Changes of candidate per request. 0 forbids any."`
	Base        time.Duration `key:"base" default:"250ms" min:"0s" doc:"Back-off before the second attempt is a random part of it, doubled each time."`
	Cap         time.Duration `key:"cap" default:"4s" min:"0s" doc:"Largest back-off."`
	Patience    time.Duration `key:"patience" default:"2s" min:"0s" doc:"How long a request waits for the same candidate, as that asked, while only a substitute is left."`
	MaxWait     time.Duration `key:"max_wait" default:"30s" min:"0s" doc:"Longest wait of one request in all. 0s never waits."`
	Budget      Budget        `key:"budget" doc:"One budget of repeated attempts, shared by all requests and providers."`
}

// Budget is the retry budget.
type Budget struct {
	Ratio float64 `key:"ratio" default:"0.2" min:"0" max:"1" doc:"Part of the first attempts of the last 10 s that may be repeated."`
	Burst float64 `key:"burst" default:"10" min:"0" doc:"Repeated attempts allowed on top of it."`
}

// FirstOutput is the watchdog on a stream's first output.
type FirstOutput struct {
	Mode    string        `key:"mode" default:"auto" oneof:"auto|off" doc:"auto follows what is measured (p99 × 1.5) between floor and ceiling; off leaves only the deadline."`
	Floor   time.Duration `key:"floor" default:"1s" min:"1ms" doc:"Shortest limit."`
	Ceiling time.Duration `key:"ceiling" default:"12s" min:"1ms" doc:"Longest limit, and the one before there are measurements."`
}

// UnaryAttempt limits one attempt at a whole answer.
type UnaryAttempt struct {
	Floor time.Duration `key:"floor" default:"120s" min:"1ms" doc:"The limit is this, or p99 × 1.5 if that is more."`
}

// Breaker is how one bucket opens and closes.
type Breaker struct {
	FailureRate    float64       `key:"failure_rate" default:"0.5" above:"0" max:"1" doc:"Part of failed attempts in the window at which it opens."`
	MinSamples     int           `key:"min_samples" default:"10" min:"1" doc:"Attempts in the window below which the rate says nothing."`
	Window         time.Duration `key:"window" default:"30s" min:"1s" doc:"Window of the failure rate."`
	Consecutive    int           `key:"consecutive" default:"5" min:"1" doc:"Failed requests in a row at which it opens, or as many as complete in a second if that is more."`
	Slow           Slow          `key:"slow" doc:"Opening because of slow answers."`
	Cooldown       time.Duration `key:"cooldown" default:"15s" min:"1ms" doc:"Time from opening to the first probe."`
	CooldownMax    time.Duration `key:"cooldown_max" default:"2m" min:"1ms" doc:"Bound of the cooldown, which doubles with each opening within 10 minutes."`
	Probes         int           `key:"probes" default:"1" min:"1" doc:"Requests let through at a time while half-open. So many must succeed; one that fails opens it again."`
	Mode           string        `key:"mode" default:"enforce" oneof:"enforce|shadow" doc:"shadow records what would have been done and does not do it."`
	EnforcePercent int           `key:"enforce_percent" default:"100" min:"0" max:"100" doc:"Percent of the requests an open breaker stops. 0 stops none."`
}

// Slow is when answers count as slow.
type Slow struct {
	Over time.Duration `key:"over" default:"20s" min:"1ms" doc:"First output of a stream later than this is slow."`
	Rate float64       `key:"rate" default:"0.8" above:"0" max:"1" doc:"Part of slow attempts in the window at which it opens."`
}

// Health is when an upstream is suspected, degraded and trusted again.
type Health struct {
	SuspectWindow  time.Duration `key:"suspect_window" default:"60s" min:"1s" doc:"How long two groups of signals must be red until a suspect upstream is degraded."`
	RecoveryWindow time.Duration `key:"recovery_window" default:"120s" min:"1s" doc:"How long 100 percent must hold until it is healthy."`
	ErrorRate      float64       `key:"error_rate" default:"0.2" above:"0" max:"1" doc:"Part of failed attempts in breaker.window from which on the signal is red."`
	MinTraffic     int           `key:"min_traffic" default:"20" min:"1" doc:"Attempts in breaker.window below which the error rate is unknown."`
	ExpiryMargin   time.Duration `key:"expiry_margin" default:"168h" min:"0s" doc:"How long before its end a credential or certificate is a red signal."`
	ProbeMaxAge    time.Duration `key:"probe_max_age" default:"5m" min:"1s" doc:"Age at which a probe's result is unknown."`
	Mode           string        `key:"mode" default:"enforce" oneof:"enforce|shadow" doc:"shadow records what would have been done to shares and does not do it."`
}

// Failback is the way back to an upstream that was left.
type Failback struct {
	Steps       []Step    `key:"steps" default:"[{share: 5, observe: 10m}, {share: 25, observe: 15m}, {share: 75, observe: 15m}, {share: 100}]" doc:"Shares on the way back, rising to 100."`
	Advance     string    `key:"advance" default:"manual" oneof:"manual|plan|auto" doc:"Who takes the next step: manual an operator each time, plan an operator once for the whole table, auto the evidence alone. An operator may approve the whole table under any of them."`
	MinRequests int       `key:"min_requests" default:"50" min:"1" doc:"Requests of its own traffic that a step's evidence needs."`
	Tolerance   Tolerance `key:"tolerance" doc:"How much worse than its baseline a step may be."`
	Owner       string    `key:"owner" type:"label" default:"undecided" doc:"Who may call traffic fully back. Shown and checked, never enforced."`
}

// Step is one share on the way back.
type Step struct {
	Share   int           `key:"share" required:"yes" min:"1" max:"100" doc:"Percent of its own traffic."`
	Observe time.Duration `key:"observe" none:"the last step needs none" min:"1s" doc:"How long it is watched before the next step."`
}

// Tolerance is how much worse than its baseline a step may be.
type Tolerance struct {
	Success     float64 `key:"success" default:"0.01" min:"0" max:"1" doc:"Difference of the success ratio."`
	FirstOutput float64 `key:"first_output" default:"1.5" min:"1" doc:"Factor of the first output's p95."`
}

// Limit holds limits that are shown next to what is measured.
type Limit struct {
	FallbackRatio float64 `key:"fallback_ratio" required:"yes" min:"0" max:"1" doc:"Part of the requests answered by fallback."`
}

// Errors says whether a failed credential may be hidden behind another candidate.
type Errors struct {
	Credential     string `key:"credential" default:"fail" oneof:"fail|switch" doc:"A dead key of the primary: fail ends the request, switch goes on to the next candidate."`
	QuotaExhausted string `key:"quota_exhausted" default:"switch" oneof:"fail|switch" doc:"The same for an exhausted quota."`
}

// SharedDependency is something several upstreams depend on.
type SharedDependency struct {
	Name   string `key:"name" type:"name" required:"yes" doc:"Its name."`
	Domain string `key:"domain" type:"domain" required:"yes" doc:"The fault domain it is, as kind/value."`
	// Exactly one of the following five says how it is checked.
	DNS  string   `key:"dns" type:"host" none:"checked otherwise" doc:"A host name that must resolve."`
	TCP  string   `key:"tcp" type:"endpoint" none:"checked otherwise" doc:"A port that must accept a connection."`
	TLS  string   `key:"tls" type:"endpoint" none:"checked otherwise" doc:"A port whose certificate must be trusted and not end within health.expiry_margin."`
	HTTP *url.URL `key:"http" type:"URL" none:"checked otherwise" doc:"A URL that must answer a GET with a status below 500; redirects are not followed."`
	File string   `key:"file" type:"path" none:"checked otherwise" doc:"A file that must be there."`

	MaxAge time.Duration `key:"max_age" none:"any age" min:"1s" doc:"With file: how long ago it may have been written at most."`
	Every  time.Duration `key:"every" default:"30s" min:"1s" doc:"Time between checks. A check has 5s, or as long if that is less."`
}

// Sources is where the console finds numbers and log lines.
type Sources struct {
	Prometheus *Prometheus   `key:"prometheus" none:"the gateway keeps its own" restart:"toggle" doc:"Prometheus that scrapes this gateway. The console asks it directly."`
	Loki       *Loki         `key:"loki" none:"the gateway keeps its own" restart:"toggle" doc:"Loki that gets the decision log. The console asks it directly."`
	Every      time.Duration `key:"every" default:"15s" min:"1s" restart:"yes" doc:"How often the gateway samples its own metrics, or the configured Prometheus scrapes it: numbers twice as old are shown as ageing."`
	Embedded   Embedded      `key:"embedded" doc:"What the gateway keeps itself, in data_dir."`
}

// Prometheus is a Prometheus that scrapes this gateway.
type Prometheus struct {
	URL      *url.URL      `key:"url" type:"URL" required:"yes" doc:"Where it is, without /api/v1."`
	Selector string        `key:"selector" type:"label" none:"everything there" doc:"Label matchers that select this gateway's series, such as job=\"failback\"."`
	Method   string        `key:"method" default:"auto" oneof:"auto|get|post" doc:"How questions go: auto asks by GET where they fit and by the other where one is refused."`
	Timeout  time.Duration `key:"timeout" default:"10s" min:"1s" max:"5m" doc:"How long an answer is waited for."`
	Tenant   string        `key:"tenant" type:"label" none:"no tenant" doc:"X-Scope-OrgID, which Mimir and Thanos want; PROMETHEUS_ORG_ID wins."`
}

// Loki is a Loki that gets the decision log.
type Loki struct {
	URL      *url.URL      `key:"url" type:"URL" required:"yes" doc:"Where it is, without /loki/api/v1."`
	Selector string        `key:"selector" type:"label" default:"{service_name=\"failback\"}" doc:"Stream selector of the decision log."`
	Timeout  time.Duration `key:"timeout" default:"30s" min:"1s" max:"5m" doc:"How long an answer is waited for."`
	Tenant   string        `key:"tenant" type:"label" none:"no tenant" doc:"X-Scope-OrgID; LOKI_ORG_ID wins."`
}

// Embedded bounds each of the two stores in data_dir.
type Embedded struct {
	MaxAge   time.Duration `key:"max_age" default:"168h" min:"1h" restart:"yes" doc:"Older samples and lines are dropped."`
	MaxBytes int64         `key:"max_bytes" type:"bytes" default:"1GiB" min:"16777216" restart:"yes" doc:"Of each store; the oldest are dropped above it."`
}

// Telemetry is the decision log and traces.
type Telemetry struct {
	DecisionLog string             `key:"decision_log" type:"log target" default:"stdout" restart:"yes" doc:"stdout, none, or a file's path."`
	Sample      map[string]float64 `key:"sample" type:"ratio" default:"{primary_completed: 1}" restart:"yes" doc:"Part of the lines that decision_log gets, by reason. Only primary_completed can be thinned; the gateway's own log has all lines."`
	OTLP        *OTLP              `key:"otlp" none:"no traces" restart:"yes" doc:"Traces."`
}

// OTLP is where traces go.
type OTLP struct {
	Endpoint *url.URL `key:"endpoint" type:"URL" required:"yes" restart:"yes" doc:"The collector: http://HOST:4318, or with protocol: grpc http://HOST:4317; https for TLS. OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE are honoured."`
	Protocol string   `key:"protocol" default:"http" oneof:"http|grpc" restart:"yes" doc:"OTLP over HTTP with protobuf, or over gRPC."`
	Sample   float64  `key:"sample" default:"1" min:"0" max:"1" restart:"yes" doc:"Part of the requests without a sampled trace context of their own that are traced. One that comes with a context follows its sampled flag."`
}

// Notify is who is told of what needs a person.
type Notify struct {
	Webhook *url.URL `key:"webhook" type:"secret URL" required:"yes" doc:"Posted to; its path is treated as a secret."`
}

// Jobs is who hears that the gateway's own recurring work goes on.
type Jobs struct {
	Ping *url.URL `key:"ping" type:"secret URL" required:"yes" doc:"Asked for with GET once a minute while every job is in time: a dead man's switch, whose silence is the alarm. Its path is treated as a secret."`
}

// Store is a store shared by several gateways.
type Store struct {
	NATS *url.URL `key:"nats" type:"NATS URL" required:"yes" doc:"NATS JetStream."`
}

// ClientKey lets one client in.
type ClientKey struct {
	Name            string   `key:"name" type:"name" required:"yes" doc:"Whose it is."`
	Hash            string   `key:"hash" type:"hash" required:"yes" doc:"sha256: and 64 hexadecimal digits, of the key."`
	Models          []string `key:"models" type:"model" none:"all" doc:"Models it may ask for."`
	BudgetUSDPerDay float64  `key:"budget_usd_per_day" none:"no budget" above:"0" effect:"none" doc:"Budget."`
}
