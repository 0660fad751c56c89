package text

// reasons says what each reason and class means, to somebody who has it on the
// screen. It has every value that a decision, an attempt or a skipped candidate
// can have; a test holds it against the gateway's own list.
var reasons = map[string]string{
	// Why the primary answered, or another did.
	"primary_completed": "the primary answered",
	"overflow":          "it answered outside its share, because nobody else could take the request",

	// Why a candidate was passed by.
	"breaker_open":      "the breaker of its bucket is open: too many requests failed there lately",
	"weight":            "its bucket is open because it failed more often than the next candidate",
	"slow":              "its bucket is open because its answers took too long",
	"capacity":          "it admits no more now: its limits are reached, or it is coming back step by step",
	"capability":        "it cannot do what the request needs: streaming, tools or embeddings",
	"passthrough":       "break glass is on: a fixed order holds, and it is not in it or came later",
	"upstream_degraded": "it is degraded: its share is 0% until it comes back by steps",
	"traffic_share":     "the conversation is not in the share that it may have now",
	"shared_fault":      "what several upstreams have in common is broken: another would not help",
	"not_allowed":       "the task's policy does not allow it to answer",
	"data_zone":         "it is not in a zone that this task's data may go to",
	"cost_ceiling":      "it would have cost more than the task may",
	"retry_budget":      "the budget of second attempts, shared by all requests, was used up",
	"deadline":          "the time for an answer had run out",
	"queue_full":        "the queue for waiting work was full",
	"draining":          "this gateway was stopping",
	"store":             "what must be written down could not be",

	// How an attempt ended.
	"ok":                   "it answered, and its answer was seen to its end",
	"connect":              "no connection to it could be made",
	"dns":                  "its name could not be resolved",
	"tls":                  "the TLS handshake with it failed",
	"reset":                "the connection broke before any output",
	"refused":              "it refused the stream before it looked at it: nothing was processed",
	"first_output_timeout": "its stream gave no output in time",
	"attempt_timeout":      "its part of the time ran out before it had answered",
	"idle_timeout":         "its stream fell silent",
	"server_error":         "it failed on its side (5xx)",
	"overloaded":           "it is over capacity (503, 529)",
	"rate_limited":         "it wants fewer requests (429)",
	"quota_exhausted":      "its quota or credit is used up",
	"credential":           "it does not take our key",
	"model_gone":           "it does not have the configured model",
	"bad_response":         "what it sent is no answer",
	"interrupted":          "its stream broke off before its end",
	"context_length":       "the request is larger than the model's context",
	"invalid_request":      "it says that the request itself is wrong",
	"content_filter":       "its content policy refused the request",
	"caller_deadline":      "the client's own time limit passed",
	"client_gone":          "the client left",
	"local_refusal":        "this gateway did not let it go out: a limit, a budget or a breaker",
	"internal":             "this gateway itself failed",
	"unknown":              "nothing that is known fits what it answered",
}

// rules says what each rule of the loop means that decided what followed an
// attempt; a test holds it against the gateway's own list.
var rules = map[string]string{
	"relayed":       "output had been given to the client, and two models' texts are never joined",
	"first_failure": "it was its first failure in 10s, and a second try there was cheap",
	"repeated":      "it had failed there just before, so that a second try was not worth it",
	"nowhere_else":  "nobody else might take it, and waiting was better than failing",
	"patience":      "a short wait for it was better than another model",
	"retry_after":   "it asked for a longer wait than a request makes",
	"should_retry":  "the upstream itself said so (x-should-retry)",
	"another_key":   "one of its keys failed, and it has another",
	"side_effects":  "it may have been processed, and must not be twice (side_effects)",
	"bound":         "the request names what only this upstream has",
	"attempts":      "the attempts of one request were used up (retry.attempts)",
	"max_switches":  "it had changed candidates often enough (retry.max_switches)",
	"max_wait":      "it had waited long enough in all (retry.max_wait)",
	"no_candidate":  "every candidate that might had been asked",
}

// Meaning says what a reason or a class means; empty for one that this program
// does not know.
func Meaning(reason string) string { return reasons[reason] }

// Ruled says what decided what followed an attempt: a rule, a reason or a class;
// a word that is not known is said as it is.
func Ruled(why string) string {
	if s := rules[why]; s != "" {
		return s
	}
	if s := reasons[why]; s != "" {
		return why + ", " + s
	}
	return why
}
