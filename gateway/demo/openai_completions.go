package demo

import "time"

func completions(x *exchange) error {
	var c struct {
		Model         string        `json:"model"`
		Prompt        said          `json:"prompt"`
		MaxTokens     int           `json:"max_tokens"`
		Stream        bool          `json:"stream"`
		StreamOptions streamOptions `json:"stream_options"`
	}
	if err := x.read(&c, func() string { return c.Model }); err != nil {
		return err
	}
	r := x.reply(question{model: c.Model, texts: []string{string(c.Prompt)}, last: string(c.Prompt), maxTokens: c.MaxTokens})
	id, created := x.fake.id("cmpl-"), time.Now().Unix()
	body := func(choices []any, usage any) map[string]any {
		m := map[string]any{"id": id, "object": "text_completion", "created": created, "model": c.Model, "choices": choices}
		if usage != nil {
			m["usage"] = usage
		}
		return m
	}
	choice := func(text string, finish any) []any {
		return []any{map[string]any{"index": 0, "text": text, "logprobs": nil, "finish_reason": finish}}
	}
	if !c.Stream {
		return x.whole(r.output, body(choice(r.text(), r.finish()), r.usage()))
	}

	if err := x.waitFirst(0.2); err != nil {
		return err
	}
	x.startStream()
	if err := x.deltas(r.words, func(w string) error { return x.event("", body(choice(w, nil), nil)) }); err != nil {
		return err
	}
	if err := x.event("", body(choice("", r.finish()), nil)); err != nil {
		return err
	}
	if c.StreamOptions.IncludeUsage {
		if err := x.event("", body([]any{}, r.usage())); err != nil {
			return err
		}
	}
	return x.frame("", []byte("[DONE]"))
}
