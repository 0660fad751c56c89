package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// openAITool is a tool of chat completions (under "function") or of responses
// (flat).
type openAITool struct {
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
	Function   struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

func (t openAITool) tool() (tool, bool) {
	if t.Type != "function" {
		return tool{}, false
	}
	if t.Function.Name != "" {
		return tool{name: t.Function.Name, schema: t.Function.Parameters}, true
	}
	return tool{name: t.Name, schema: t.Parameters}, t.Name != ""
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// read parses the body into q and checks the model.
func (x *exchange) read(q any, model func() string) error {
	if err := json.Unmarshal(x.body, q); err != nil {
		return badRequest("", "We could not parse the JSON body of your request: "+err.Error())
	}
	m := model()
	if m == "" {
		return badRequest("model", "you must provide a model parameter")
	}
	if !x.fake.serves(m) {
		return refusal{status: http.StatusNotFound, kind: "not_found_error", openAI: "invalid_request_error", code: "model_not_found",
			message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", m)}
	}
	return nil
}

type chatRequest struct {
	Model               string        `json:"model"`
	Stream              bool          `json:"stream"`
	StreamOptions       streamOptions `json:"stream_options"`
	MaxTokens           int           `json:"max_tokens"`
	MaxCompletionTokens int           `json:"max_completion_tokens"`
	Messages            []struct {
		Role    string `json:"role"`
		Content said   `json:"content"`
	} `json:"messages"`
	Tools      []openAITool `json:"tools"`
	ToolChoice choice       `json:"tool_choice"`
}

func (c chatRequest) question() question {
	q := question{model: c.Model, maxTokens: max(c.MaxTokens, c.MaxCompletionTokens)}
	for i, m := range c.Messages {
		q.texts = append(q.texts, string(m.Content))
		if m.Role == "user" {
			q.last = string(m.Content)
		}
		q.toolResult = i == len(c.Messages)-1 && m.Role == "tool"
	}
	for _, t := range c.Tools {
		if t, ok := t.tool(); ok {
			q.tools = append(q.tools, t)
		}
	}
	c.ToolChoice.apply(&q)
	return q
}

type openAIUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

func (r reply) usage() *openAIUsage {
	return &openAIUsage{Prompt: r.input, Completion: r.output, Total: r.input + r.output}
}

// finish returns finish_reason of chat completions.
func (r reply) finish() string {
	switch {
	case r.call != nil:
		return "tool_calls"
	case r.cut:
		return "length"
	}
	return "stop"
}

type chatChunk struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	// Usage is absent, null, or what was used: in streams that asked for it all
	// chunks but the last carry null.
	Usage json.RawMessage `json:"usage,omitempty"`
}

type chatChoice struct {
	Index        int       `json:"index"`
	Delta        chatDelta `json:"delta"`
	FinishReason *string   `json:"finish_reason"`
}

type chatDelta struct {
	Role      string         `json:"role,omitempty"`
	Content   *string        `json:"content,omitempty"`
	ToolCalls []chatToolCall `json:"tool_calls,omitempty"`
}

type chatToolCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func chatCompletions(x *exchange) error {
	var c chatRequest
	if err := x.read(&c, func() string { return c.Model }); err != nil {
		return err
	}
	if len(c.Messages) == 0 {
		return badRequest("messages", "[] is too short - 'messages'")
	}
	r := x.reply(c.question())
	id, created := x.fake.id("chatcmpl-"), time.Now().Unix()
	if c.Stream {
		return x.chatStream(c, r, id, created)
	}

	message := map[string]any{"role": "assistant", "content": r.text(), "refusal": nil}
	if r.call != nil {
		t := chatToolCall{ID: x.fake.id("call_"), Type: "function"}
		t.Function.Name, t.Function.Arguments = r.call.name, r.call.args
		message["content"], message["tool_calls"] = nil, []chatToolCall{t}
	}
	return x.whole(r.output, map[string]any{
		"id": id, "object": "chat.completion", "created": created, "model": c.Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "logprobs": nil, "finish_reason": r.finish()}},
		"usage":   r.usage(),
	})
}

func (x *exchange) chatStream(c chatRequest, r reply, id string, created int64) error {
	chunk := func(choices []chatChoice, usage *openAIUsage) error {
		k := chatChunk{ID: id, Object: "chat.completion.chunk", Created: created, Model: c.Model, Choices: choices}
		if c.StreamOptions.IncludeUsage {
			b, err := json.Marshal(usage)
			if err != nil {
				panic(err) // three integers
			}
			k.Usage = b
		}
		return x.event("", k)
	}
	delta := func(d chatDelta) error { return chunk([]chatChoice{{Delta: d}}, nil) }

	if err := x.waitFirst(0.2); err != nil {
		return err
	}
	x.startStream()
	empty, zero := "", 0
	var err error
	if r.call == nil {
		if err = delta(chatDelta{Role: "assistant", Content: &empty}); err != nil {
			return err
		}
		err = x.deltas(r.words, func(w string) error { return delta(chatDelta{Content: &w}) })
	} else {
		if err = delta(chatDelta{Role: "assistant"}); err != nil {
			return err
		}
		begun := false
		err = x.deltas(r.call.pieces(), func(p string) error {
			t := chatToolCall{Index: &zero}
			if !begun {
				begun = true
				t.ID, t.Type, t.Function.Name = x.fake.id("call_"), "function", r.call.name
			}
			t.Function.Arguments = p
			return delta(chatDelta{ToolCalls: []chatToolCall{t}})
		})
	}
	if err != nil {
		return err
	}
	reason := r.finish()
	if err := chunk([]chatChoice{{FinishReason: &reason}}, nil); err != nil {
		return err
	}
	if c.StreamOptions.IncludeUsage {
		if err := chunk([]chatChoice{}, r.usage()); err != nil {
			return err
		}
	}
	return x.frame("", []byte("[DONE]"))
}
