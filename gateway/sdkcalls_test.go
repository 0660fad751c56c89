package gateway_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	aoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	ooption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"failback/gateway/decision"
)

// call is one kind of call of an official client, as its users write it.
type call struct {
	name    string // also the model that is asked for
	dialect decision.Dialect
	stream  bool
	// want is the answer of the upstream who.
	want func(who string) answer
	do   func(ctx context.Context, base string, hc *http.Client, model string) (answer, error)
}

// answer is what the program that uses the client has in the end.
type answer struct {
	text, arguments string
	in, out         int64
	finish          string
}

func wantText(finish string) func(string) answer {
	return func(who string) answer {
		in, out := tokens(who)
		return answer{text: firstPiece + secondPiece(who), in: in, out: out, finish: finish}
	}
}

func wantTool(finish string) func(string) answer {
	return func(who string) answer {
		in, out := tokens(who)
		return answer{arguments: firstArguments + secondArguments(who), in: in, out: out, finish: finish}
	}
}

func openAI(base string, hc *http.Client) openai.Client {
	return openai.NewClient(ooption.WithBaseURL(base+"/v1"), ooption.WithAPIKey("client"), ooption.WithHTTPClient(hc))
}

func anthropicClient(base string, hc *http.Client) anthropic.Client {
	return anthropic.NewClient(aoption.WithBaseURL(base), aoption.WithAPIKey("client"), aoption.WithHTTPClient(hc))
}

type do = func(ctx context.Context, base string, hc *http.Client, model string) (answer, error)

var calls = []call{
	{"chat", decision.OpenAI, false, wantText("stop"), chat(false)},
	{"chat-tool", decision.OpenAI, false, wantTool("tool_calls"), chat(true)},
	{"chat-stream", decision.OpenAI, true, wantText("stop"), chatStream(false)},
	{"chat-tool-stream", decision.OpenAI, true, wantTool("tool_calls"), chatStream(true)},
	{"responses", decision.OpenAI, false, wantText("completed"), response(false)},
	{"responses-tool", decision.OpenAI, false, wantTool("completed"), response(true)},
	{"responses-stream", decision.OpenAI, true, wantText("completed"), responseStream(false)},
	{"responses-tool-stream", decision.OpenAI, true, wantTool("completed"), responseStream(true)},
	{"completion", decision.OpenAI, false, wantText("stop"), completion},
	{"completion-stream", decision.OpenAI, true, wantText("stop"), completionStream},
	{"embedding", decision.OpenAI, false, func(who string) answer {
		in, _ := tokens(who)
		return answer{text: fmt.Sprint([]float64{float64(in), -2.5e-3}), in: in}
	}, embedding},
	{"messages", decision.Anthropic, false, wantText("end_turn"), message(false)},
	{"messages-tool", decision.Anthropic, false, wantTool("tool_use"), message(true)},
	{"messages-stream", decision.Anthropic, true, wantText("end_turn"), messageStream(false)},
	{"messages-tool-stream", decision.Anthropic, true, wantTool("tool_use"), messageStream(true)},
	{"count-tokens", decision.Anthropic, false, func(who string) answer {
		in, _ := tokens(who)
		return answer{in: in}
	}, countTokens},
}

func chatParams(model string, tools bool) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	if tools {
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "look"})}
	}
	return p
}

func chatAnswer(r *openai.ChatCompletion) answer {
	a := answer{in: r.Usage.PromptTokens, out: r.Usage.CompletionTokens}
	if len(r.Choices) > 0 {
		c := r.Choices[0]
		a.text, a.finish = c.Message.Content, c.FinishReason
		for _, t := range c.Message.ToolCalls {
			a.arguments += t.Function.Arguments
		}
	}
	return a
}

func chat(tools bool) do {
	return func(ctx context.Context, base string, hc *http.Client, model string) (answer, error) {
		c := openAI(base, hc)
		r, err := c.Chat.Completions.New(ctx, chatParams(model, tools))
		if err != nil {
			return answer{}, err
		}
		return chatAnswer(r), nil
	}
}

func chatStream(tools bool) do {
	return func(ctx context.Context, base string, hc *http.Client, model string) (answer, error) {
		c := openAI(base, hc)
		p := chatParams(model, tools)
		p.StreamOptions.IncludeUsage = openai.Bool(true)
		s := c.Chat.Completions.NewStreaming(ctx, p)
		defer s.Close()
		var all openai.ChatCompletionAccumulator
		for s.Next() {
			all.AddChunk(s.Current())
		}
		return chatAnswer(&all.ChatCompletion), s.Err()
	}
}

func completionParams(model string) openai.CompletionNewParams {
	return openai.CompletionNewParams{
		Model:  openai.CompletionNewParamsModel(model),
		Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("hi")},
	}
}

func completion(ctx context.Context, base string, hc *http.Client, model string) (answer, error) {
	c := openAI(base, hc)
	r, err := c.Completions.New(ctx, completionParams(model))
	if err != nil {
		return answer{}, err
	}
	return answer{text: r.Choices[0].Text, finish: string(r.Choices[0].FinishReason), in: r.Usage.PromptTokens, out: r.Usage.CompletionTokens}, nil
}

func completionStream(ctx context.Context, base string, hc *http.Client, model string) (answer, error) {
	c := openAI(base, hc)
	s := c.Completions.NewStreaming(ctx, completionParams(model))
	defer s.Close()
	var a answer
	for s.Next() {
		r := s.Current()
		for _, c := range r.Choices {
			a.text += c.Text
			a.finish += string(c.FinishReason)
		}
		a.in, a.out = max(a.in, r.Usage.PromptTokens), max(a.out, r.Usage.CompletionTokens)
	}
	return a, s.Err()
}

func responseParams(model string, tools bool) responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}}
	if tools {
		p.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("look", map[string]any{"type": "object"}, true)}
	}
	return p
}

func responseAnswer(r *responses.Response) answer {
	a := answer{text: r.OutputText(), in: r.Usage.InputTokens, out: r.Usage.OutputTokens, finish: string(r.Status)}
	for _, item := range r.Output {
		a.arguments += item.AsFunctionCall().Arguments
	}
	return a
}

func response(tools bool) do {
	return func(ctx context.Context, base string, hc *http.Client, model string) (answer, error) {
		c := openAI(base, hc)
		r, err := c.Responses.New(ctx, responseParams(model, tools))
		if err != nil {
			return answer{}, err
		}
		return responseAnswer(r), nil
	}
}

// responseStream collects what was streamed, and takes the rest of the answer
// from its last event.
func responseStream(tools bool) do {
	return func(ctx context.Context, base string, hc *http.Client, model string) (answer, error) {
		c := openAI(base, hc)
		s := c.Responses.NewStreaming(ctx, responseParams(model, tools))
		defer s.Close()
		var a answer
		for s.Next() {
			switch e := s.Current(); e.Type {
			case "response.output_text.delta":
				a.text += e.Delta
			case "response.function_call_arguments.delta":
				a.arguments += e.Delta
			case "response.completed":
				whole := responseAnswer(&e.Response)
				if whole.text != a.text || whole.arguments != a.arguments {
					return a, fmt.Errorf("the last event has another answer: %+v", whole)
				}
				a = whole
			}
		}
		return a, s.Err()
	}
}

func embedding(ctx context.Context, base string, hc *http.Client, model string) (answer, error) {
	c := openAI(base, hc)
	r, err := c.Embeddings.New(ctx, openai.EmbeddingNewParams{
		Model: model, Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("hi")},
	})
	if err != nil {
		return answer{}, err
	}
	return answer{text: fmt.Sprint(r.Data[0].Embedding), in: r.Usage.PromptTokens}, nil
}

func messageParams(model string, tools bool) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{
		Model: model, MaxTokens: 64,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
	}
	if tools {
		p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "look"}}}
	}
	return p
}

func messageAnswer(r *anthropic.Message) answer {
	a := answer{in: r.Usage.InputTokens, out: r.Usage.OutputTokens, finish: string(r.StopReason)}
	for _, b := range r.Content {
		a.text += b.Text
		if b.Type == "tool_use" {
			a.arguments += string(b.Input)
		}
	}
	return a
}

func message(tools bool) do {
	return func(ctx context.Context, base string, hc *http.Client, model string) (answer, error) {
		c := anthropicClient(base, hc)
		r, err := c.Messages.New(ctx, messageParams(model, tools))
		if err != nil {
			return answer{}, err
		}
		return messageAnswer(r), nil
	}
}

func messageStream(tools bool) do {
	return func(ctx context.Context, base string, hc *http.Client, model string) (answer, error) {
		c := anthropicClient(base, hc)
		s := c.Messages.NewStreaming(ctx, messageParams(model, tools))
		defer s.Close()
		var all anthropic.Message
		for s.Next() {
			if err := all.Accumulate(s.Current()); err != nil {
				return messageAnswer(&all), err
			}
		}
		return messageAnswer(&all), s.Err()
	}
}

func countTokens(ctx context.Context, base string, hc *http.Client, model string) (answer, error) {
	c := anthropicClient(base, hc)
	r, err := c.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{
		Model:    model,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
	})
	if err != nil {
		return answer{}, err
	}
	return answer{in: r.InputTokens}, nil
}
