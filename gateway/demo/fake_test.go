package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicopt "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaiopt "github.com/openai/openai-go/v3/option"
	sdkresponses "github.com/openai/openai-go/v3/responses"

	"failback/gateway/decision"
)

// noWait makes tests quick.
var noWait = Latency{FirstMax: -1, Word: -1}

func startFake(t *testing.T, o FakeOptions) *Fake {
	t.Helper()
	if o.Name == "" {
		o.Name = "fake-" + string(o.Dialect)
	}
	if o.Latency == (Latency{}) {
		o.Latency = noWait
	}
	f, err := StartFake(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// settle waits until nothing is in flight and returns what was seen. A count
// is booked just after the answer's last byte.
func settle(t *testing.T, f *Fake) Counts {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if c := f.Total(); c.InFlight() == 0 {
			return c
		}
		<-time.After(time.Millisecond)
	}
	t.Fatalf("%s: still in flight: %+v", f.Name(), f.Counts())
	return Counts{}
}

// What a gateway asks for itself is answered like all else, and is no client's.
func TestProbesAreCountedApart(t *testing.T) {
	f := startFake(t, FakeOptions{Dialect: decision.OpenAI, Models: []string{"m"}})
	ask := func(agent string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.BaseURL()+"/chat/completions", strings.NewReader(chat))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", agent)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	ask("client/1")
	ask("failback")
	f.SetFault(Fault{Kind: Unavailable})
	ask("failback")
	for end := time.Now().Add(10 * time.Second); f.Probes().InFlight() > 0 && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
	if got, want := settle(t, f), (Counts{Requests: 1, Completed: 1}); got != want {
		t.Errorf("of clients %+v", got)
	}
	if got, want := f.Probes(), (Counts{Requests: 2, Completed: 1, Faulted: 1}); got != want {
		t.Errorf("of probes %+v", got)
	}
}

func openAIClient(f *Fake) openai.Client {
	return openai.NewClient(openaiopt.WithBaseURL(f.BaseURL()), openaiopt.WithAPIKey(f.Key()), openaiopt.WithMaxRetries(0))
}

func anthropicClient(f *Fake) anthropic.Client {
	return anthropic.NewClient(anthropicopt.WithBaseURL(f.BaseURL()), anthropicopt.WithAPIKey(f.Key()), anthropicopt.WithMaxRetries(0))
}

var orderSchema = map[string]any{
	"type": "object",
	"properties": map[string]any{
		"order":  map[string]any{"type": "string"},
		"amount": map[string]any{"type": "number"},
		"reason": map[string]any{"type": "string", "enum": []string{"late", "broken"}},
		"note":   map[string]any{"type": "string"},
	},
	"required": []string{"order", "amount", "reason"},
}

// fitsOrder checks arguments against orderSchema.
func fitsOrder(t *testing.T, args string) {
	t.Helper()
	var a struct {
		Order  string  `json:"order"`
		Amount float64 `json:"amount"`
		Reason string  `json:"reason"`
		Note   *string `json:"note"`
	}
	if err := json.Unmarshal([]byte(args), &a); err != nil {
		t.Fatalf("arguments %q: %v", args, err)
	}
	if a.Order == "" || a.Amount <= 0 || (a.Reason != "late" && a.Reason != "broken") || a.Note != nil {
		t.Errorf("arguments %q do not fit the schema", args)
	}
}

func TestChatCompletionsBySDK(t *testing.T) {
	f := startFake(t, FakeOptions{Dialect: decision.OpenAI, Key: "fake-key", Models: []string{"gpt-5-mini"}})
	c, ctx := openAIClient(f), t.Context()
	p := openai.ChatCompletionNewParams{
		Model:    "gpt-5-mini",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("be brief"), openai.UserMessage("hello")},
	}

	whole, err := c.Chat.Completions.New(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if m := whole.Choices[0]; !strings.Contains(m.Message.Content, f.Name()) || m.FinishReason != "stop" {
		t.Errorf("unary answer: %s", whole.RawJSON())
	}
	words := len(strings.Fields(whole.Choices[0].Message.Content))
	if u := whole.Usage; u.CompletionTokens != int64(words) || u.PromptTokens == 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		t.Errorf("usage %+v of %d words", u, words)
	}

	p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	s := c.Chat.Completions.NewStreaming(ctx, p)
	var acc openai.ChatCompletionAccumulator
	chunks := 0
	for s.Next() {
		chunks++
		if !acc.AddChunk(s.Current()) {
			t.Fatalf("chunk does not follow: %s", s.Current().RawJSON())
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	text := acc.Choices[0].Message.Content
	if n := len(strings.Fields(text)); acc.Usage.CompletionTokens != int64(n) || chunks != n+3 || acc.Choices[0].FinishReason != "stop" {
		t.Errorf("%d chunks of %d words, usage %+v, finish %q", chunks, n, acc.Usage, acc.Choices[0].FinishReason)
	}
	if acc.Usage.PromptTokens != whole.Usage.PromptTokens {
		t.Errorf("prompt tokens %d streamed, %d whole", acc.Usage.PromptTokens, whole.Usage.PromptTokens)
	}

	if got := settle(t, f); got != (Counts{Requests: 2, Streams: 1, Completed: 2}) {
		t.Errorf("counts %+v", got)
	}
}

func TestChatToolCallBySDK(t *testing.T) {
	f := startFake(t, FakeOptions{Dialect: decision.OpenAI})
	c, ctx := openAIClient(f), t.Context()
	tools := []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: "issue_refund", Parameters: openai.FunctionParameters(orderSchema),
	})}
	ask := func(text string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: "m", Tools: tools, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
	}

	whole, err := c.Chat.Completions.New(ctx, ask("please issue refund for order 7"))
	if err != nil {
		t.Fatal(err)
	}
	if m := whole.Choices[0]; m.FinishReason != "tool_calls" || len(m.Message.ToolCalls) != 1 || m.Message.ToolCalls[0].Function.Name != "issue_refund" {
		t.Fatalf("no tool call: %s", whole.RawJSON())
	}
	fitsOrder(t, whole.Choices[0].Message.ToolCalls[0].Function.Arguments)

	s := c.Chat.Completions.NewStreaming(ctx, ask("use issue_refund"))
	var acc openai.ChatCompletionAccumulator
	for s.Next() {
		acc.AddChunk(s.Current())
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	calls := acc.Choices[0].Message.ToolCalls
	if len(calls) != 1 || calls[0].ID == "" || calls[0].Function.Name != "issue_refund" || acc.Choices[0].FinishReason != "tool_calls" {
		t.Fatalf("no streamed tool call: %+v", acc.Choices)
	}
	fitsOrder(t, calls[0].Function.Arguments)

	// Not asked for, forbidden, or already answered: text.
	for name, p := range map[string]openai.ChatCompletionNewParams{
		"not asked": ask("hello"),
		"forbidden": {Model: "m", Tools: tools, ToolChoice: openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("none")},
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("use issue_refund")}},
		"answered": {Model: "m", Tools: tools, Messages: []openai.ChatCompletionMessageParamUnion{
			openai.UserMessage("use issue_refund"), openai.ToolMessage("done", "call_1")}},
	} {
		r, err := c.Chat.Completions.New(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		if m := r.Choices[0]; len(m.Message.ToolCalls) != 0 || m.Message.Content == "" {
			t.Errorf("%s: %s", name, r.RawJSON())
		}
	}
	forced := ask("hello")
	forced.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	r, err := c.Chat.Completions.New(ctx, forced)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Choices[0].Message.ToolCalls) != 1 {
		t.Errorf("tool_choice required: %s", r.RawJSON())
	}
}

func TestCompletionsBySDK(t *testing.T) {
	f := startFake(t, FakeOptions{Dialect: decision.OpenAI})
	c, ctx := openAIClient(f), t.Context()
	p := openai.CompletionNewParams{Model: "m", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("once")}, MaxTokens: openai.Int(4)}
	whole, err := c.Completions.New(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if m := whole.Choices[0]; len(strings.Fields(m.Text)) != 4 || m.FinishReason != "length" || whole.Usage.CompletionTokens != 4 {
		t.Errorf("max_tokens 4: %s", whole.RawJSON())
	}
	s := c.Completions.NewStreaming(ctx, p)
	var text, finish string
	for s.Next() {
		text += s.Current().Choices[0].Text
		finish = string(s.Current().Choices[0].FinishReason)
	}
	if s.Err() != nil || len(strings.Fields(text)) != 4 || finish != "length" {
		t.Errorf("streamed %q, finish %q, error %v", text, finish, s.Err())
	}
}

func TestEmbeddingsBySDK(t *testing.T) {
	f := startFake(t, FakeOptions{Dialect: decision.OpenAI})
	c, ctx := openAIClient(f), t.Context()
	embed := func(p openai.EmbeddingNewParams) *openai.CreateEmbeddingResponse {
		t.Helper()
		p.Model = "text-embedding-3-small"
		r, err := c.Embeddings.New(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	two := embed(openai.EmbeddingNewParams{Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}}, Dimensions: openai.Int(8)})
	if len(two.Data) != 2 || len(two.Data[0].Embedding) != 8 || two.Data[1].Index != 1 || two.Usage.PromptTokens != 2 {
		t.Errorf("two texts: %s", two.RawJSON())
	}
	one := embed(openai.EmbeddingNewParams{Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("a")}, Dimensions: openai.Int(8)})
	for i, v := range one.Data[0].Embedding {
		if v != two.Data[0].Embedding[i] {
			t.Fatalf("the same text gave two vectors")
		}
	}
	if tokens := embed(openai.EmbeddingNewParams{Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfTokens: []int64{1, 2}}}); len(tokens.Data) != 1 || len(tokens.Data[0].Embedding) != defaultDimensions {
		t.Errorf("tokens: %d vectors", len(tokens.Data))
	}
}

func TestResponsesBySDK(t *testing.T) {
	f := startFake(t, FakeOptions{Dialect: decision.OpenAI})
	c, ctx := openAIClient(f), t.Context()
	p := sdkresponses.ResponseNewParams{Model: "m", Input: sdkresponses.ResponseNewParamsInputUnion{OfString: openai.String("hello")}}
	whole, err := c.Responses.New(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Status != "completed" || !strings.Contains(whole.OutputText(), f.Name()) || whole.Usage.OutputTokens == 0 {
		t.Errorf("unary: %s", whole.RawJSON())
	}

	p.PreviousResponseID = openai.String(whole.ID)
	s := c.Responses.NewStreaming(ctx, p)
	var deltas, final, status string
	var last int64 = -1
	for s.Next() {
		e := s.Current()
		if e.SequenceNumber != last+1 {
			t.Fatalf("sequence %d after %d", e.SequenceNumber, last)
		}
		last = e.SequenceNumber
		switch e.Type {
		case "response.output_text.delta":
			deltas += e.Delta
		case "response.completed":
			final, status = e.Response.OutputText(), string(e.Response.Status)
		}
	}
	if s.Err() != nil || deltas == "" || deltas != final || status != "completed" {
		t.Errorf("streamed %q, final %q (%s), error %v", deltas, final, status, s.Err())
	}

	// A response of another upstream is not known here.
	p.PreviousResponseID = openai.String("resp_elsewhere")
	_, err = c.Responses.New(ctx, p)
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 400 || e.Code != "previous_response_not_found" {
		t.Errorf("foreign id: %v", err)
	}

	tooled := sdkresponses.ResponseNewParams{
		Model: "m", Input: sdkresponses.ResponseNewParamsInputUnion{OfString: openai.String("issue refund")},
		Tools: []sdkresponses.ToolUnionParam{{OfFunction: &sdkresponses.FunctionToolParam{Name: "issue_refund", Parameters: orderSchema}}},
	}
	s = c.Responses.NewStreaming(ctx, tooled)
	var args, done string
	for s.Next() {
		switch e := s.Current(); e.Type {
		case "response.function_call_arguments.delta":
			args += e.Delta
		case "response.completed":
			done = e.Response.Output[0].AsFunctionCall().Arguments
		}
	}
	if s.Err() != nil || args != done {
		t.Errorf("arguments %q, final %q, error %v", args, done, s.Err())
	}
	fitsOrder(t, args)
}

func TestMessagesBySDK(t *testing.T) {
	f := startFake(t, FakeOptions{Dialect: decision.Anthropic, Key: "fake-key", Models: []string{"claude-sonnet-4-5"}})
	c, ctx := anthropicClient(f), t.Context()
	p := anthropic.MessageNewParams{
		Model: "claude-sonnet-4-5", MaxTokens: 500,
		System:   []anthropic.TextBlockParam{{Text: "be brief"}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
	}
	whole, err := c.Messages.New(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	words := len(strings.Fields(whole.Content[0].Text))
	if whole.StopReason != "end_turn" || !strings.Contains(whole.Content[0].Text, f.Name()) || whole.Usage.OutputTokens != int64(words) {
		t.Errorf("unary: %s", whole.RawJSON())
	}

	stream := func(p anthropic.MessageNewParams) anthropic.Message {
		t.Helper()
		s := c.Messages.NewStreaming(ctx, p)
		var m anthropic.Message
		for s.Next() {
			if err := m.Accumulate(s.Current()); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := stream(p)
	if n := len(strings.Fields(m.Content[0].Text)); n == 0 || m.Usage.OutputTokens != int64(n) || m.Usage.InputTokens != whole.Usage.InputTokens || m.StopReason != "end_turn" {
		t.Errorf("streamed %d words, usage %+v, stop %q", n, m.Usage, m.StopReason)
	}

	p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "issue_refund",
		InputSchema: anthropic.ToolInputSchemaParam{Properties: orderSchema["properties"], Required: orderSchema["required"].([]string)}}}}
	p.Messages = []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("use issue_refund"))}
	m = stream(p)
	if m.StopReason != "tool_use" || m.Content[0].Name != "issue_refund" {
		t.Fatalf("streamed tool: stop %q, %+v", m.StopReason, m.Content)
	}
	fitsOrder(t, string(m.Content[0].Input))
	whole, err = c.Messages.New(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	fitsOrder(t, string(whole.Content[0].Input))

	p.Messages = append(p.Messages, whole.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(whole.Content[0].ID, "use issue_refund again?", false)))
	whole, err = c.Messages.New(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if whole.StopReason != "end_turn" {
		t.Errorf("after a tool result: %s", whole.RawJSON())
	}

	p.Tools, p.MaxTokens = nil, 3
	if m = stream(p); m.StopReason != "max_tokens" || m.Usage.OutputTokens != 3 {
		t.Errorf("max_tokens 3: stop %q, usage %+v", m.StopReason, m.Usage)
	}

	n, err := c.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{Model: p.Model, Messages: p.Messages})
	if err != nil || n.InputTokens == 0 {
		t.Errorf("count_tokens: %v, %v", n, err)
	}

	settle(t, f)
	if got := f.Counts(); got["/v1/messages"] != (Counts{Requests: 6, Streams: 3, Completed: 6}) || got["/v1/messages/count_tokens"] != (Counts{Requests: 1, Completed: 1}) {
		t.Errorf("counts %+v", got)
	}
}

// post sends body as it is and returns the answer and its whole body, with the
// error that ended the reading.
func post(t *testing.T, f *Fake, path, body string) (*http.Response, string, error) {
	t.Helper()
	return postCtx(t.Context(), t, f, path, body)
}

func postCtx(ctx context.Context, t *testing.T, f *Fake, path, body string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(f.BaseURL(), "/v1")+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.GetBody = nil
	r.Header.Set("Authorization", "Bearer "+f.Key())
	r.Header.Set("X-Api-Key", f.Key())
	r.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

const (
	chat    = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	chatS   = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	message = `{"model":"m","max_tokens":99,"messages":[{"role":"user","content":"hello"}]}`
	messagS = `{"model":"m","max_tokens":99,"stream":true,"messages":[{"role":"user","content":"hello"}]}`
)

func TestCallersMistakesAreRefusedInTheDialect(t *testing.T) {
	oa := startFake(t, FakeOptions{Dialect: decision.OpenAI, Key: "k", Models: []string{"m"}})
	an := startFake(t, FakeOptions{Dialect: decision.Anthropic, Key: "k", Models: []string{"m"}})
	for _, tc := range []struct {
		f      *Fake
		path   string
		body   string
		status int
		has    string
	}{
		{oa, "/v1/chat/completions", `{"model":`, 400, `"type":"invalid_request_error"`},
		{oa, "/v1/chat/completions", `{"messages":[]}`, 400, `"param":"model"`},
		{oa, "/v1/chat/completions", strings.Replace(chat, `"m"`, `"other"`, 1), 404, `"code":"model_not_found"`},
		{oa, "/v1/embeddings", `{"model":"m"}`, 400, `"param":"input"`},
		{an, "/v1/messages", `[`, 400, `"type":"error"`},
		{an, "/v1/messages", strings.Replace(message, `"max_tokens":99,`, "", 1), 400, "max_tokens: Field required"},
		{an, "/v1/messages", strings.Replace(message, `"m"`, `"other"`, 1), 404, `"type":"not_found_error"`},
		{an, "/v1/messages", `{"model":"m","max_tokens":9,"messages":[]}`, 400, `"request_id":"req_`},
	} {
		resp, body, err := post(t, tc.f, tc.path, tc.body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != tc.status || !strings.Contains(body, tc.has) {
			t.Errorf("%s %s: %d %s, want %d with %s", tc.path, tc.body, resp.StatusCode, body, tc.status, tc.has)
		}
	}
	for _, f := range []*Fake{oa, an} {
		f.opts.Key = "another"
		path, body := "/v1/chat/completions", chat
		if f == an {
			path, body = "/v1/messages", message
		}
		r, _ := http.NewRequest(http.MethodPost, strings.TrimSuffix(f.BaseURL(), "/v1")+path, strings.NewReader(body))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 401 {
			t.Errorf("%s without a key: %d", f.Name(), resp.StatusCode)
		}
		if c := settle(t, f); c.Refused != c.Requests || c.Completed != 0 {
			t.Errorf("%s: %+v", f.Name(), c)
		}
	}
}

func TestHeadersAreTheProviders(t *testing.T) {
	oa := startFake(t, FakeOptions{Dialect: decision.OpenAI})
	an := startFake(t, FakeOptions{Dialect: decision.Anthropic})
	seen := map[string]bool{}
	for _, tc := range []struct {
		f          *Fake
		path, body string
		id, other  string
	}{
		{oa, "/v1/chat/completions", chat, "X-Request-Id", "Request-Id"},
		{oa, "/v1/chat/completions", chatS, "X-Request-Id", "Request-Id"},
		{an, "/v1/messages", message, "Request-Id", "X-Request-Id"},
		{an, "/v1/messages", messagS, "Request-Id", "X-Request-Id"},
	} {
		resp, body, err := post(t, tc.f, tc.path, tc.body)
		if err != nil {
			t.Fatal(err)
		}
		id := resp.Header.Get(tc.id)
		if !strings.HasPrefix(id, "req_") || seen[id] || resp.Header.Get(tc.other) != "" {
			t.Errorf("%s: %s %q, %s %q", tc.path, tc.id, id, tc.other, resp.Header.Get(tc.other))
		}
		seen[id] = true
		stream := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
		if stream != strings.Contains(tc.body, "stream") {
			t.Errorf("%s: %s", tc.body, resp.Header.Get("Content-Type"))
		}
		if done := strings.HasSuffix(body, "data: [DONE]\n\n"); done != (stream && tc.f == oa) {
			t.Errorf("%s: [DONE] %v in %q", tc.path, done, body)
		}
		if stop := strings.Contains(body, "event: message_stop\n"); stop != (stream && tc.f == an) {
			t.Errorf("%s: message_stop %v in %q", tc.path, stop, body)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, d := range []decision.Dialect{decision.OpenAI, decision.Anthropic} {
		path, bodies := "/v1/chat/completions", []string{chat, chatS}
		if d == decision.Anthropic {
			path, bodies = "/v1/messages", []string{message, messagS}
		}
		for _, body := range bodies {
			name := "unary"
			if strings.Contains(body, "stream") {
				name = "stream"
			}
			t.Run(string(d)+"/"+name, func(t *testing.T) {
				f := startFake(t, FakeOptions{Dialect: d})

				for _, tc := range []struct {
					fault  Fault
					status int
					retry  string
					has    map[decision.Dialect]string
				}{
					{Fault{Kind: Unavailable}, 503, "", map[decision.Dialect]string{decision.OpenAI: "server_is_overloaded", decision.Anthropic: "overloaded_error"}},
					{Fault{Kind: Overloaded}, 529, "", map[decision.Dialect]string{decision.OpenAI: "server_is_overloaded", decision.Anthropic: "overloaded_error"}},
					{Fault{Kind: RateLimited, RetryAfter: 1500 * time.Millisecond}, 429, "2", map[decision.Dialect]string{decision.OpenAI: "rate_limit_exceeded", decision.Anthropic: "rate_limit_error"}},
				} {
					f.SetFault(tc.fault)
					resp, got, err := post(t, f, path, body)
					if err != nil {
						t.Fatal(err)
					}
					if resp.StatusCode != tc.status || resp.Header.Get("Retry-After") != tc.retry || !strings.Contains(got, tc.has[d]) {
						t.Errorf("%s: %d, Retry-After %q, %s", tc.fault.Kind, resp.StatusCode, resp.Header.Get("Retry-After"), got)
					}
				}

				f.SetFault(Fault{Kind: Reset})
				if resp, _, err := post(t, f, path, body); err == nil {
					t.Errorf("reset: got %s", resp.Status)
				}

				f.SetFault(Fault{Kind: Break})
				resp, got, err := post(t, f, path, body)
				if err == nil || resp == nil || resp.StatusCode != 200 || got == "" {
					t.Errorf("break: error %v after %q", err, got)
				}
				if strings.Contains(body, "stream") {
					if strings.Contains(got, "[DONE]") || strings.Contains(got, "message_stop") || strings.Contains(got, "finish_reason\":\"") {
						t.Errorf("break: the stream ended all the same: %q", got)
					}
					if !strings.Contains(got, "Made") {
						t.Errorf("break: no output before it: %q", got)
					}
				} else if json.Valid([]byte(got)) {
					t.Errorf("break: the answer is whole: %q", got)
				}

				f.SetFault(Fault{Kind: Hang})
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if resp, _, err := postCtx(ctx, t, f, path, body); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("hang: %v, %v", resp, err)
				}

				f.SetFault(Fault{})
				if resp, _, err := post(t, f, path, body); err != nil || resp.StatusCode != 200 {
					t.Errorf("healthy again: %v, %v", resp, err)
				}
				if c := settle(t, f); c.Requests != 7 || c.Faulted != 6 || c.Completed != 1 {
					t.Errorf("counts %+v", c)
				}
			})
		}
	}
}

func TestRatioHitsItsPart(t *testing.T) {
	f := startFake(t, FakeOptions{Dialect: decision.OpenAI, Seed: 7})
	f.SetFault(Fault{Kind: Unavailable, Ratio: 0.4})
	const n = 300
	for range n {
		if _, _, err := post(t, f, "/v1/chat/completions", chat); err != nil {
			t.Fatal(err)
		}
	}
	c := settle(t, f)
	if c.Completed+c.Faulted != n || c.Faulted < n*30/100 || c.Faulted > n*50/100 {
		t.Errorf("40%% of %d: %+v", n, c)
	}
}

func TestSlowMultipliesLatency(t *testing.T) {
	f := startFake(t, FakeOptions{Dialect: decision.OpenAI, Latency: Latency{FirstMin: 20 * time.Millisecond, FirstMax: 20 * time.Millisecond, Word: -1}})
	took := func() time.Duration {
		start := time.Now()
		if _, _, err := post(t, f, "/v1/chat/completions", chat); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	if d := took(); d < 20*time.Millisecond {
		t.Errorf("answered after %s", d)
	}
	f.SetFault(Fault{Slow: 3})
	if d := took(); d < 60*time.Millisecond {
		t.Errorf("three times as slow: answered after %s", d)
	}
}

func TestClientThatLeavesIsCounted(t *testing.T) {
	f := startFake(t, FakeOptions{Dialect: decision.OpenAI, Latency: Latency{FirstMin: time.Hour, FirstMax: time.Hour}})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, _, err := postCtx(ctx, t, f, "/v1/chat/completions", chat); err == nil {
		t.Fatal("answered")
	}
	if c := settle(t, f); c != (Counts{Requests: 1, Gone: 1}) {
		t.Errorf("counts %+v", c)
	}
}

func TestCloseEndsWhatHangs(t *testing.T) {
	f := startFake(t, FakeOptions{Dialect: decision.OpenAI})
	f.SetFault(Fault{Kind: Hang})
	done := make(chan error, 1)
	go func() {
		_, _, err := post(t, f, "/v1/chat/completions", chat)
		done <- err
	}()
	for f.Total().Requests == 0 {
		<-time.After(time.Millisecond)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("the hanging request was answered")
	}
	if c := f.Total(); c.InFlight() != 0 {
		t.Errorf("counts %+v", c)
	}
}
