package demo

import (
	"encoding/json"
	"maps"
	"time"
)

type responsesRequest struct {
	Model              string          `json:"model"`
	Input              json.RawMessage `json:"input"`
	Instructions       string          `json:"instructions"`
	Stream             bool            `json:"stream"`
	MaxOutputTokens    int             `json:"max_output_tokens"`
	PreviousResponseID string          `json:"previous_response_id"`
	Tools              []openAITool    `json:"tools"`
	ToolChoice         choice          `json:"tool_choice"`
}

func (c responsesRequest) question() (question, bool) {
	q := question{model: c.Model, maxTokens: c.MaxOutputTokens, texts: []string{c.Instructions}}
	var text string
	if json.Unmarshal(c.Input, &text) == nil {
		q.texts, q.last = append(q.texts, text), text
	} else {
		var items []struct {
			Type    string `json:"type"`
			Role    string `json:"role"`
			Content said   `json:"content"`
			Output  string `json:"output"`
		}
		if json.Unmarshal(c.Input, &items) != nil || len(items) == 0 {
			return q, false
		}
		for i, it := range items {
			q.texts = append(q.texts, string(it.Content)+it.Output)
			if it.Role == "user" {
				q.last = string(it.Content)
			}
			q.toolResult = i == len(items)-1 && it.Type == "function_call_output"
		}
	}
	for _, t := range c.Tools {
		if t, ok := t.tool(); ok {
			q.tools = append(q.tools, t)
		}
	}
	c.ToolChoice.apply(&q)
	return q, true
}

func responses(x *exchange) error {
	var c responsesRequest
	if err := x.read(&c, func() string { return c.Model }); err != nil {
		return err
	}
	q, ok := c.question()
	if !ok {
		return badRequest("input", "'input' must be text or a list of items")
	}
	const prefix = "resp_"
	if p := c.PreviousResponseID; p != "" && !x.fake.knows(prefix, p) {
		return refusal{status: 400, kind: "invalid_request_error", code: "previous_response_not_found", param: "previous_response_id",
			message: "Previous response with id '" + p + "' not found."}
	}
	r := x.reply(q)
	id, created := x.fake.id(prefix), time.Now().Unix()

	// response renders the object in the given state.
	response := func(status string, output []any, usage any) map[string]any {
		var incomplete any
		if status == "incomplete" {
			incomplete = map[string]any{"reason": "max_output_tokens"}
		}
		return map[string]any{
			"id": id, "object": "response", "created_at": created, "status": status, "model": c.Model,
			"output": output, "usage": usage, "error": nil, "incomplete_details": incomplete,
			"instructions": orNull(c.Instructions), "previous_response_id": orNull(c.PreviousResponseID),
			"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "metadata": map[string]any{},
			"temperature": 1.0, "top_p": 1.0, "store": true,
		}
	}
	usage := map[string]any{
		"input_tokens": r.input, "output_tokens": r.output, "total_tokens": r.input + r.output,
		"input_tokens_details":  map[string]any{"cached_tokens": 0},
		"output_tokens_details": map[string]any{"reasoning_tokens": 0},
	}
	final := "completed"
	if r.cut {
		final = "incomplete"
	}
	item := x.outputItem(r)
	if !c.Stream {
		return x.whole(r.output, response(final, []any{item("completed", r.text(), r.args())}, usage))
	}

	sequence := 0
	event := func(name string, m map[string]any) error {
		m = maps.Clone(m)
		m["type"], m["sequence_number"] = name, sequence
		sequence++
		return x.event(name, m)
	}
	if err := x.waitFirst(0.2); err != nil {
		return err
	}
	x.startStream()
	for _, name := range []string{"response.created", "response.in_progress"} {
		if err := event(name, map[string]any{"response": response("in_progress", []any{}, nil)}); err != nil {
			return err
		}
	}
	started, done := item("in_progress", "", ""), item("completed", r.text(), r.args())
	if err := event("response.output_item.added", map[string]any{"output_index": 0, "item": started}); err != nil {
		return err
	}
	at := map[string]any{"output_index": 0, "item_id": started["id"]}
	with := func(more map[string]any) map[string]any {
		m := maps.Clone(at)
		maps.Copy(m, more)
		return m
	}
	var err error
	if r.call != nil {
		err = x.deltas(r.call.pieces(), func(p string) error {
			return event("response.function_call_arguments.delta", with(map[string]any{"delta": p}))
		})
		if err == nil {
			err = event("response.function_call_arguments.done", with(map[string]any{"name": r.call.name, "arguments": r.call.args}))
		}
	} else {
		at["content_index"] = 0
		if err = event("response.content_part.added", with(map[string]any{"part": textPart("")})); err != nil {
			return err
		}
		err = x.deltas(r.words, func(w string) error {
			return event("response.output_text.delta", with(map[string]any{"delta": w, "logprobs": []any{}}))
		})
		if err == nil {
			err = event("response.output_text.done", with(map[string]any{"text": r.text(), "logprobs": []any{}}))
		}
		if err == nil {
			err = event("response.content_part.done", with(map[string]any{"part": textPart(r.text())}))
		}
	}
	if err != nil {
		return err
	}
	if err := event("response.output_item.done", map[string]any{"output_index": 0, "item": done}); err != nil {
		return err
	}
	return event("response."+final, map[string]any{"response": response(final, []any{done}, usage)})
}

func textPart(s string) map[string]any {
	return map[string]any{"type": "output_text", "text": s, "annotations": []any{}, "logprobs": []any{}}
}

// args returns the arguments of the call, empty without one.
func (r reply) args() string {
	if r.call == nil {
		return ""
	}
	return r.call.args
}

// outputItem returns a renderer of the one item of a response: the same ids
// each time, in different states.
func (x *exchange) outputItem(r reply) func(status, text, args string) map[string]any {
	if r.call != nil {
		id, call := x.fake.id("fc_"), x.fake.id("call_")
		return func(status, _, args string) map[string]any {
			return map[string]any{"type": "function_call", "id": id, "call_id": call, "name": r.call.name, "arguments": args, "status": status}
		}
	}
	id := x.fake.id("msg_")
	return func(status, text, _ string) map[string]any {
		content := []any{}
		if status == "completed" {
			content = append(content, textPart(text))
		}
		return map[string]any{"type": "message", "id": id, "role": "assistant", "status": status, "content": content}
	}
}
