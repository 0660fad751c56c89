package wire

import "failback/gateway/decision"

// Endpoint is one operation of a dialect. The zero value is none.
type Endpoint uint8

const (
	ChatCompletions Endpoint = iota + 1
	Completions
	Embeddings
	Responses
	Messages
	CountTokens
)

// Endpoints lists every endpoint.
var Endpoints = []Endpoint{ChatCompletions, Completions, Embeddings, Responses, Messages, CountTokens}

var endpoints = [...]struct {
	name, client, upstream string
	dialect                decision.Dialect
	streams                bool
}{
	ChatCompletions: {"chat_completions", "/v1/chat/completions", "/chat/completions", decision.OpenAI, true},
	Completions:     {"completions", "/v1/completions", "/completions", decision.OpenAI, true},
	Embeddings:      {"embeddings", "/v1/embeddings", "/embeddings", decision.OpenAI, false},
	Responses:       {"responses", "/v1/responses", "/responses", decision.OpenAI, true},
	Messages:        {"messages", "/v1/messages", "/v1/messages", decision.Anthropic, true},
	CountTokens:     {"count_tokens", "/v1/messages/count_tokens", "/v1/messages/count_tokens", decision.Anthropic, false},
}

// EndpointFor returns the endpoint clients reach under path, which is compared
// exactly.
func EndpointFor(path string) (Endpoint, bool) {
	for _, e := range Endpoints {
		if endpoints[e].client == path {
			return e, true
		}
	}
	return 0, false
}

// Dialect returns the dialect e belongs to.
func (e Endpoint) Dialect() decision.Dialect { return endpoints[e].dialect }

// ClientPath is the path under which clients reach e.
func (e Endpoint) ClientPath() string { return endpoints[e].client }

// UpstreamPath is what is appended to an upstream's base URL, which by custom
// of the vendors' SDKs ends in /v1 for OpenAI and has no /v1 for Anthropic.
func (e Endpoint) UpstreamPath() string { return endpoints[e].upstream }

// Streams reports whether e can answer as an event stream at all.
func (e Endpoint) Streams() bool { return endpoints[e].streams }

// String returns e's name as it stands in logs.
func (e Endpoint) String() string {
	if int(e) >= len(endpoints) {
		return ""
	}
	return endpoints[e].name
}
