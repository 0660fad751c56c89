package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
)

type messagesRequest struct {
	Model     string `json:"model"`
	MaxTokens *int   `json:"max_tokens"`
	Stream    bool   `json:"stream"`
	System    said   `json:"system"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name        string          `json:"name"`
		InputSchema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	ToolChoice choice `json:"tool_choice"`
}

// readMessages reads the request of messages or count_tokens.
func (x *exchange) readMessages() (messagesRequest, question, error) {
	var m messagesRequest
	if err := json.Unmarshal(x.body, &m); err != nil {
		return m, question{}, badRequest("", "The request body is not valid JSON: "+err.Error())
	}
	if m.Model == "" {
		return m, question{}, badRequest("", "model: Field required")
	}
	if !x.fake.serves(m.Model) {
		return m, question{}, refusal{status: http.StatusNotFound, kind: "not_found_error", message: "model: " + m.Model}
	}
	if len(m.Messages) == 0 {
		return m, question{}, badRequest("", "messages: at least one message is required")
	}
	q := question{model: m.Model, texts: []string{string(m.System)}}
	for i, t := range m.Messages {
		var s said
		if err := json.Unmarshal(t.Content, &s); err != nil {
			return m, q, badRequest("", fmt.Sprintf("messages.%d.content: %v", i, err))
		}
		q.texts = append(q.texts, string(s))
		if t.Role == "user" {
			q.last = string(s)
		}
		if i == len(m.Messages)-1 {
			q.toolResult = holdsToolResult(t.Content)
		}
	}
	for _, t := range m.Tools {
		q.tools = append(q.tools, tool{name: t.Name, schema: t.InputSchema})
	}
	m.ToolChoice.apply(&q)
	return m, q, nil
}

func holdsToolResult(content json.RawMessage) bool {
	var parts []struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return false
	}
	for _, p := range parts {
		if p.Type == "tool_result" {
			return true
		}
	}
	return false
}

// stopReason returns stop_reason of messages.
func (r reply) stopReason() string {
	switch {
	case r.call != nil:
		return "tool_use"
	case r.cut:
		return "max_tokens"
	}
	return "end_turn"
}

func messages(x *exchange) error {
	m, q, err := x.readMessages()
	if err != nil {
		return err
	}
	if m.MaxTokens == nil {
		return badRequest("", "max_tokens: Field required")
	}
	if q.maxTokens = *m.MaxTokens; q.maxTokens < 1 {
		return badRequest("", "max_tokens: must be greater than or equal to 1")
	}
	r := x.reply(q)
	message := func(content []any, stop any, output int) map[string]any {
		return map[string]any{
			"id": x.fake.id("msg_"), "type": "message", "role": "assistant", "model": m.Model, "content": content,
			"stop_reason": stop, "stop_sequence": nil,
			"usage": map[string]any{"input_tokens": r.input, "output_tokens": output, "cache_creation_input_tokens": 0,
				"cache_read_input_tokens": 0, "service_tier": "standard"},
		}
	}
	if m.Stream {
		return x.messageStream(r, message([]any{}, nil, 1))
	}
	block := map[string]any{"type": "text", "text": r.text()}
	if r.call != nil {
		block = map[string]any{"type": "tool_use", "id": x.fake.id("toolu_"), "name": r.call.name, "input": json.RawMessage(r.call.args)}
	}
	return x.whole(r.output, message([]any{block}, r.stopReason(), r.output))
}

func (x *exchange) messageStream(r reply, start map[string]any) error {
	event := func(name string, m map[string]any) error {
		m["type"] = name
		return x.event(name, m)
	}
	if err := x.waitFirst(0.2); err != nil {
		return err
	}
	x.startStream()
	if err := event("message_start", map[string]any{"message": start}); err != nil {
		return err
	}
	block := map[string]any{"type": "text", "text": ""}
	pieces, delta := r.words, func(p string) map[string]any { return map[string]any{"type": "text_delta", "text": p} }
	if r.call != nil {
		block = map[string]any{"type": "tool_use", "id": x.fake.id("toolu_"), "name": r.call.name, "input": map[string]any{}}
		pieces, delta = r.call.pieces(), func(p string) map[string]any {
			return map[string]any{"type": "input_json_delta", "partial_json": p}
		}
	}
	if err := event("content_block_start", map[string]any{"index": 0, "content_block": block}); err != nil {
		return err
	}
	if err := event("ping", map[string]any{}); err != nil {
		return err
	}
	err := x.deltas(pieces, func(p string) error {
		return event("content_block_delta", map[string]any{"index": 0, "delta": delta(p)})
	})
	if err != nil {
		return err
	}
	if err := event("content_block_stop", map[string]any{"index": 0}); err != nil {
		return err
	}
	if err := event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": r.stopReason(), "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": r.output},
	}); err != nil {
		return err
	}
	return event("message_stop", map[string]any{})
}

func countTokens(x *exchange) error {
	_, q, err := x.readMessages()
	if err != nil {
		return err
	}
	// Nothing is generated: a tenth of a model's first token.
	if err := x.waitFirst(0.1); err != nil {
		return err
	}
	return x.sendWhole(map[string]any{"input_tokens": q.inputTokens()})
}
