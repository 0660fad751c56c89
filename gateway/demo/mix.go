package demo

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
)

// The models that the demo's configuration offers and its clients ask for.
const (
	modelSonnet = "sonnet"
	modelGPT    = "gpt"
	modelEmbed  = "embed"
)

// conversationsPerKind is how many conversations each kind of client leads.
// None of them carries a hundredth of the traffic.
const conversationsPerKind = 600

// kind is one kind of client: what it works on and how it calls.
type kind struct {
	weight int    // relative frequency
	task   string // Failback-Task; empty: none is sent
	path   string
	model  string
	stream bool
	tool   *clientTool // offered, and asked for
	system string
	ask    string // a format with the conversation's number
}

type clientTool struct {
	name, description string
	properties        map[string]any
	required          []string
}

var refundTool = &clientTool{
	name: "issue_refund", description: "Pay an order back.",
	properties: map[string]any{
		"order":  map[string]any{"type": "string"},
		"amount": map[string]any{"type": "number"},
		"reason": map[string]any{"type": "string", "enum": []string{"late", "broken", "paid_twice"}},
	},
	required: []string{"order", "amount", "reason"},
}

var permissionTool = &clientTool{
	name: "set_permission", description: "Change what an account may do.",
	properties: map[string]any{
		"account": map[string]any{"type": "string"},
		"role":    map[string]any{"type": "string", "enum": []string{"viewer", "editor", "owner"}},
	},
	required: []string{"account", "role"},
}

const (
	pathMessages    = "/v1/messages"
	pathCountTokens = "/v1/messages/count_tokens"
	pathChat        = "/v1/chat/completions"
	pathCompletions = "/v1/completions"
	pathResponses   = "/v1/responses"
	pathEmbeddings  = "/v1/embeddings"
)

const (
	policySystem  = "You answer questions about the company's rules, briefly and with the section."
	summarySystem = "You summarise documents in three sentences."
	refundSystem  = "You handle refunds. Check the order before you pay."
	accessSystem  = "You change permissions exactly as asked, never more."
)

// kinds is the mix. Two thirds of it ask for the model whose primary the
// script lets fail.
var kinds = []kind{
	{weight: 18, task: "policy_question", path: pathMessages, model: modelSonnet, stream: true, system: policySystem, ask: "Question %d: may I book the earlier train?"},
	{weight: 6, task: "policy_question", path: pathMessages, model: modelSonnet, system: policySystem, ask: "Question %d: who signs a purchase over 500?"},
	{weight: 14, task: "document_summary", path: pathMessages, model: modelSonnet, stream: true, system: summarySystem, ask: "Summarise document %d."},
	{weight: 8, task: "refund", path: pathMessages, model: modelSonnet, stream: true, tool: refundTool, system: refundSystem, ask: "Order %d arrived broken, please issue refund."},
	{weight: 4, task: "refund", path: pathMessages, model: modelSonnet, tool: refundTool, system: refundSystem, ask: "Order %d was paid twice, please issue refund."},
	{weight: 5, task: "permission_change", path: pathMessages, model: modelSonnet, tool: permissionTool, system: accessSystem, ask: "Ticket %d: please set permission editor for the new colleague."},
	{weight: 9, path: pathMessages, model: modelSonnet, stream: true, ask: "Note %d: rewrite this so that it is friendlier."},
	{weight: 4, path: pathMessages, model: modelSonnet, ask: "Note %d: is this polite?"},
	{weight: 2, path: pathCountTokens, model: modelSonnet, ask: "Draft %d: how long is this?"},

	{weight: 9, task: "policy_question", path: pathChat, model: modelGPT, stream: true, system: policySystem, ask: "Question %d: how many days of leave carry over?"},
	{weight: 4, task: "document_summary", path: pathChat, model: modelGPT, system: summarySystem, ask: "Summarise memo %d."},
	{weight: 5, path: pathChat, model: modelGPT, stream: true, ask: "Idea %d: give me three titles."},
	{weight: 3, path: pathChat, model: modelGPT, tool: refundTool, ask: "Order %d: which refund would that be? Use issue_refund."},
	{weight: 4, path: pathResponses, model: modelGPT, stream: true, system: "You are brief.", ask: "Task %d: what comes first?"},
	{weight: 2, path: pathCompletions, model: modelGPT, ask: "Line %d of the report reads"},
	{weight: 3, path: pathEmbeddings, model: modelEmbed, ask: "Paragraph %d of the handbook."},
}

// pick draws a kind by weight and one of its conversations. Numbers of
// conversations are distinct over all kinds.
func pick(rng *rand.Rand) (k kind, conversation int) {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := rng.IntN(total)
	for i, k := range kinds {
		if n -= k.weight; n < 0 {
			return k, i*conversationsPerKind + rng.IntN(conversationsPerKind)
		}
	}
	panic("weights do not add up")
}

// identities are the ways in which clients say which conversation a request
// belongs to, the last being not at all.
const identities = 4

// call renders a request of conversation n in its given turn, from 0: earlier
// turns are part of it, so that the first message of a conversation stays.
func (k kind) call(n, turn int) (h http.Header, body []byte) {
	h = http.Header{
		"Content-Type": {"application/json"},
		"User-Agent":   {"failback-demo-traffic/1"},
		// SDKs send the count of their own retries; these clients have none.
		"X-Stainless-Retry-Count": {"0"},
	}
	if k.task != "" {
		h.Set("Failback-Task", k.task)
	}
	anthropic := k.path == pathMessages || k.path == pathCountTokens
	if anthropic {
		h.Set("X-Api-Key", "fake-client-key")
		h.Set("Anthropic-Version", "2023-06-01")
	} else {
		h.Set("Authorization", "Bearer fake-client-key")
	}

	q := map[string]any{"model": k.model}
	if k.stream {
		q["stream"] = true
	}
	name := fmt.Sprintf("demo-conversation-%d", n)
	switch id := n % identities; {
	case id == 0:
		h.Set("Failback-Conversation", name)
	case anthropic && id < 3 && k.path == pathMessages:
		q["metadata"] = map[string]any{"user_id": name}
	case !anthropic && id == 1:
		q["user"] = name
	case !anthropic && id == 2 && (k.path == pathChat || k.path == pathResponses):
		q["prompt_cache_key"] = name
	}

	text := fmt.Sprintf(k.ask, n)
	switch k.path {
	case pathMessages, pathCountTokens:
		q["messages"] = turns(text, turn)
		if k.system != "" {
			q["system"] = k.system
		}
		if k.path == pathMessages {
			q["max_tokens"] = 400
		}
		if k.tool != nil {
			q["tools"] = []any{map[string]any{"name": k.tool.name, "description": k.tool.description, "input_schema": k.tool.schema()}}
		}
	case pathChat:
		m := turns(text, turn)
		if k.system != "" {
			m = append([]any{map[string]any{"role": "system", "content": k.system}}, m...)
		}
		q["messages"] = m
		if k.stream {
			q["stream_options"] = map[string]any{"include_usage": true}
		}
		if k.tool != nil {
			q["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{
				"name": k.tool.name, "description": k.tool.description, "parameters": k.tool.schema()}}}
		}
	case pathResponses:
		q["input"], q["instructions"] = turns(text, turn), k.system
	case pathCompletions:
		q["prompt"], q["max_tokens"] = text, 40
	case pathEmbeddings:
		q["input"], q["dimensions"] = text, 64
	}
	body, err := json.Marshal(q)
	if err != nil {
		panic(err) // only values built here are written
	}
	return h, body
}

func (t *clientTool) schema() map[string]any {
	return map[string]any{"type": "object", "properties": t.properties, "required": t.required}
}

// turns renders a conversation whose user asked first and then went on turn
// times.
func turns(first string, turn int) []any {
	m := []any{map[string]any{"role": "user", "content": first}}
	for i := range turn {
		m = append(m,
			map[string]any{"role": "assistant", "content": "Here is what I found so far."},
			map[string]any{"role": "user", "content": fmt.Sprintf("Thank you. Once more, please, in other words (%d): %s", i+1, first)})
	}
	return m
}
