package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	aoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	ooption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/decision"
)

// fault is how the primary behaves.
type fault string

const (
	healthy     fault = "healthy"
	unavailable fault = "answering 503"
	resets      fault = "resetting"
	hangs       fault = "hanging"
	breaksFirst fault = "breaking before output"
	breaksLater fault = "breaking after output"
)

var faults = []fault{healthy, unavailable, resets, hangs, breaksFirst, breaksLater}

// provider is an upstream of one dialect that counts what it sees.
type provider struct {
	*httptest.Server
	dialect decision.Dialect
	name    string
	fault   atomic.Value
	seen    atomic.Int64
}

func newProvider(t *testing.T, d decision.Dialect, name string) *provider {
	p := &provider{dialect: d, name: name}
	p.fault.Store(healthy)
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.seen.Add(1)
	var q struct {
		Stream bool
		Tools  []json.RawMessage
	}
	if err := json.Unmarshal(body, &q); err != nil {
		http.Error(w, "bad json", http.StatusBadRequest)
		return
	}
	f := p.fault.Load().(fault)
	switch f {
	case unavailable:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"type":"error","error":{"type":"overloaded_error","message":"busy","param":null,"code":null}}`)
		return
	case resets:
		panic(http.ErrAbortHandler)
	case hangs:
		<-r.Context().Done()
		return
	}
	frames, whole := p.answer(r.URL.Path, len(q.Tools) > 0)
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		if f == breaksFirst || f == breaksLater {
			w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
			fmt.Fprint(w, whole[:len(whole)/2])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, whole)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i, frame := range frames {
		if (f == breaksFirst && i == 1) || (f == breaksLater && i == len(frames)-2) {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, frame)
		w.(http.Flusher).Flush()
	}
}

// answer returns a stream's frames, of which the first is no output and the
// last two end it, and the same as a whole answer.
func (p *provider) answer(path string, tools bool) (frames []string, whole string) {
	text := "answer of " + p.name
	data := func(s string) string { return "data: " + s + "\n\n" }
	event := func(name, s string) string { return "event: " + name + "\n" + data(s) }
	switch {
	case p.dialect == decision.Anthropic:
		start, delta, stop := `{"type":"text","text":""}`, fmt.Sprintf(`{"type":"text_delta","text":%q}`, text), "end_turn"
		content := fmt.Sprintf(`[{"type":"text","text":%q}]`, text)
		if tools {
			start, stop = `{"type":"tool_use","id":"t1","name":"look","input":{}}`, "tool_use"
			delta = fmt.Sprintf(`{"type":"input_json_delta","partial_json":%q}`, `{"at":"`+p.name+`"}`)
			content = fmt.Sprintf(`[{"type":"tool_use","id":"t1","name":"look","input":{"at":%q}}]`, p.name)
		}
		return []string{
				event("message_start", `{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"x","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}`),
				event("content_block_start", `{"type":"content_block_start","index":0,"content_block":`+start+`}`),
				event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":`+delta+`}`),
				event("content_block_stop", `{"type":"content_block_stop","index":0}`),
				event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"`+stop+`"},"usage":{"output_tokens":7}}`),
				event("message_stop", `{"type":"message_stop"}`),
			},
			`{"id":"m1","type":"message","role":"assistant","model":"x","content":` + content + `,"stop_reason":"` + stop + `","usage":{"input_tokens":3,"output_tokens":7}}`
	case strings.HasSuffix(path, "/responses"):
		done := fmt.Sprintf(`{"id":"resp_%s","object":"response","status":"completed","model":"x","output":[{"type":"message","id":"i","role":"assistant","status":"completed","content":[{"type":"output_text","text":%q,"annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":7,"total_tokens":10}}`, p.name, text)
		return []string{
			event("response.created", `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}`),
			event("response.output_text.delta", fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":1,"item_id":"i","output_index":0,"content_index":0,"delta":%q}`, text)),
			event("response.output_text.done", fmt.Sprintf(`{"type":"response.output_text.done","sequence_number":2,"item_id":"i","output_index":0,"content_index":0,"text":%q}`, text)),
			event("response.completed", `{"type":"response.completed","sequence_number":3,"response":`+done+`}`),
		}, done
	}
	delta, finish := fmt.Sprintf(`{"content":%q}`, text), "stop"
	message := fmt.Sprintf(`{"role":"assistant","content":%q}`, text)
	if tools {
		call := fmt.Sprintf(`[{"index":0,"id":"t1","type":"function","function":{"name":"look","arguments":%q}}]`, `{"at":"`+p.name+`"}`)
		delta, finish = `{"tool_calls":`+call+`}`, "tool_calls"
		message = `{"role":"assistant","content":null,"tool_calls":` + call + `}`
	}
	chunk := func(delta, finish string) string {
		return data(`{"id":"c1","object":"chat.completion.chunk","model":"x","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`)
	}
	return []string{
			chunk(`{"role":"assistant"}`, "null"), chunk(delta, "null"), chunk(`{}`, `"`+finish+`"`),
			data("[DONE]"),
		},
		`{"id":"c1","object":"chat.completion","model":"x","choices":[{"index":0,"message":` + message + `,"finish_reason":"` + finish + `"}],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10}}`
}

// call is one kind of call of an official client. It returns the text or the
// tool's argument it got.
type call struct {
	name    string
	dialect decision.Dialect
	stream  bool
	do      func(ctx context.Context, base string, hc *http.Client) (string, error)
}

func openAI(base string, hc *http.Client) openai.Client {
	return openai.NewClient(ooption.WithBaseURL(base+"/v1"), ooption.WithAPIKey("client"), ooption.WithHTTPClient(hc))
}

func anthropicClient(base string, hc *http.Client) anthropic.Client {
	return anthropic.NewClient(aoption.WithBaseURL(base), aoption.WithAPIKey("client"), aoption.WithHTTPClient(hc))
}

func chatParams(tools bool) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: "gpt", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	if tools {
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "look"})}
	}
	return p
}

func messageParams(tools bool) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{
		Model: "claude", MaxTokens: 64,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
	}
	if tools {
		p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "look", InputSchema: anthropic.ToolInputSchemaParam{}}}}
	}
	return p
}

var calls = []call{
	{"openai chat", decision.OpenAI, false, func(ctx context.Context, base string, hc *http.Client) (string, error) {
		c := openAI(base, hc)
		r, err := c.Chat.Completions.New(ctx, chatParams(false))
		if err != nil {
			return "", err
		}
		return r.Choices[0].Message.Content, nil
	}},
	{"openai chat tool", decision.OpenAI, false, func(ctx context.Context, base string, hc *http.Client) (string, error) {
		c := openAI(base, hc)
		r, err := c.Chat.Completions.New(ctx, chatParams(true))
		if err != nil {
			return "", err
		}
		return r.Choices[0].Message.ToolCalls[0].Function.Arguments, nil
	}},
	{"openai chat stream", decision.OpenAI, true, func(ctx context.Context, base string, hc *http.Client) (string, error) {
		c := openAI(base, hc)
		s := c.Chat.Completions.NewStreaming(ctx, chatParams(false))
		defer s.Close()
		var text string
		for s.Next() {
			for _, ch := range s.Current().Choices {
				text += ch.Delta.Content
			}
		}
		return text, s.Err()
	}},
	{"openai chat tool stream", decision.OpenAI, true, func(ctx context.Context, base string, hc *http.Client) (string, error) {
		c := openAI(base, hc)
		s := c.Chat.Completions.NewStreaming(ctx, chatParams(true))
		defer s.Close()
		var args string
		for s.Next() {
			for _, ch := range s.Current().Choices {
				for _, tc := range ch.Delta.ToolCalls {
					args += tc.Function.Arguments
				}
			}
		}
		return args, s.Err()
	}},
	{"openai responses", decision.OpenAI, false, func(ctx context.Context, base string, hc *http.Client) (string, error) {
		c := openAI(base, hc)
		r, err := c.Responses.New(ctx, responses.ResponseNewParams{Model: "gpt", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}})
		if err != nil {
			return "", err
		}
		return r.OutputText(), nil
	}},
	{"openai responses stream", decision.OpenAI, true, func(ctx context.Context, base string, hc *http.Client) (string, error) {
		c := openAI(base, hc)
		s := c.Responses.NewStreaming(ctx, responses.ResponseNewParams{Model: "gpt", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}})
		defer s.Close()
		var text string
		for s.Next() {
			if e := s.Current(); e.Type == "response.output_text.delta" {
				text += e.Delta
			}
		}
		return text, s.Err()
	}},
	{"anthropic messages", decision.Anthropic, false, func(ctx context.Context, base string, hc *http.Client) (string, error) {
		c := anthropicClient(base, hc)
		r, err := c.Messages.New(ctx, messageParams(false))
		if err != nil {
			return "", err
		}
		return r.Content[0].Text, nil
	}},
	{"anthropic messages tool", decision.Anthropic, false, func(ctx context.Context, base string, hc *http.Client) (string, error) {
		c := anthropicClient(base, hc)
		r, err := c.Messages.New(ctx, messageParams(true))
		if err != nil {
			return "", err
		}
		return string(r.Content[0].Input), nil
	}},
	{"anthropic messages stream", decision.Anthropic, true, func(ctx context.Context, base string, hc *http.Client) (string, error) {
		return anthropicStream(ctx, base, hc, false)
	}},
	{"anthropic messages tool stream", decision.Anthropic, true, func(ctx context.Context, base string, hc *http.Client) (string, error) {
		return anthropicStream(ctx, base, hc, true)
	}},
}

func anthropicStream(ctx context.Context, base string, hc *http.Client, tools bool) (string, error) {
	c := anthropicClient(base, hc)
	s := c.Messages.NewStreaming(ctx, messageParams(tools))
	defer s.Close()
	var text string
	for s.Next() {
		if e, ok := s.Current().AsAny().(anthropic.ContentBlockDeltaEvent); ok {
			text += e.Delta.Text + e.Delta.PartialJSON
		}
	}
	return text, s.Err()
}

// TestOfficialClients runs every kind of call over HTTP/1.1 and HTTP/2, with
// the primary in every state. What each provider saw is counted, so a hidden
// retry of anybody's shows.
func TestOfficialClients(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "TLS with HTTP/2"} {
		for _, f := range faults {
			for _, c := range calls {
				t.Run(protocol+"/"+string(f)+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					one, two := newProvider(t, c.dialect, "one"), newProvider(t, c.dialect, "two")
					one.fault.Store(f)
					base, hc := serveProviders(t, c.dialect, one, two, protocol != "HTTP/1.1")
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					got, err := c.do(ctx, base, hc)

					// By rule: a break after output is an error and never
					// another's text; a healthy primary answers; every other
					// fault ends at the second provider.
					wantOne, wantTwo, wantErr, from := int64(1), int64(1), false, "two"
					switch {
					case f == healthy:
						wantTwo, from = 0, "one"
					case f == breaksLater && c.stream:
						wantTwo, wantErr = 0, true
					case f == resets, f == breaksFirst && c.stream:
						wantOne = 2 // a connection that ends before output is tried again once
					}
					if wantErr {
						if err == nil {
							t.Errorf("the stream broke and the client was told %q", got)
						}
						if strings.Contains(got, "two") {
							t.Errorf("two answers were spliced: %q", got)
						}
					} else if err != nil || !strings.Contains(got, from) {
						t.Errorf("got %q, %v; want the answer of %s", got, err, from)
					}
					if a, b := one.seen.Load(), two.seen.Load(); a != wantOne || b != wantTwo {
						t.Errorf("the providers saw %d and %d requests, want %d and %d", a, b, wantOne, wantTwo)
					}
				})
			}
		}
	}
}

// When everybody fails the SDK must not multiply what the gateway tried.
func TestOfficialClientsDoNotRetryWhatWasTried(t *testing.T) {
	for _, c := range calls {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			one, two := newProvider(t, c.dialect, "one"), newProvider(t, c.dialect, "two")
			one.fault.Store(unavailable)
			two.fault.Store(unavailable)
			base, hc := serveProviders(t, c.dialect, one, two, false)
			if got, err := c.do(t.Context(), base, hc); err == nil {
				t.Errorf("no error: %q", got)
			}
			// One is left for two, which with nowhere else to go is asked up to
			// the cap of four attempts.
			if a, b := one.seen.Load(), two.seen.Load(); a != 1 || b != 3 {
				t.Errorf("the providers saw %d and %d requests, want 1 and 3", a, b)
			}
		})
	}
}

// serveProviders starts a gateway with two upstreams of one dialect and a client for it.
func serveProviders(t *testing.T, d decision.Dialect, one, two *provider, secure bool) (string, *http.Client) {
	t.Helper()
	dir := t.TempDir()
	v1, model, more := "/v1", "gpt", ""
	if d == decision.Anthropic {
		v1, model = "", "claude"
	}
	transport := &http.Transport{}
	if secure {
		ca := httptest.NewUnstartedServer(nil)
		ca.StartTLS()
		cert := ca.TLS.Certificates[0]
		ca.Close()
		key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, filepath.Join(dir, "cert.pem"), "CERTIFICATE", cert.Certificate[0])
		writePEM(t, filepath.Join(dir, "key.pem"), "PRIVATE KEY", key)
		more = fmt.Sprintf("tls: {cert: %q, key: %q}\n", filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(leaf)
		transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"}, ForceAttemptHTTP2: true}
	}
	yaml := fmt.Sprintf(`listen: 127.0.0.1:0
data_dir: %q
drain_delay: 0s
telemetry: {decision_log: none}
first_output: {ceiling: 1s}
unary_attempt: {floor: 1s}
retry: {base: 1ms, cap: 2ms}
upstreams:
  one: {dialect: %s, base_url: "%s%s", api_key: key-one}
  two: {dialect: %s, base_url: "%s%s", api_key: key-two}
models:
  %s: {candidates: [{upstream: one, weight: 100}, {upstream: two, weight: 50}]}
%s`, dir, d, one.URL, v1, d, two.URL, v1, model, more)
	g := gateway.New(gateway.Options{Load: func(ctx context.Context) (*config.Config, error) {
		return config.Load(ctx, config.Source{Data: []byte(yaml)})
	}})
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	hc := &http.Client{Transport: transport}
	if secure {
		hc.Transport = http2Only{t, transport}
		return "https://" + g.ClientAddr(), hc
	}
	return "http://" + g.ClientAddr(), hc
}

// http2Only fails the test if an answer came over anything else.
type http2Only struct {
	t    *testing.T
	next http.RoundTripper
}

func (h http2Only) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.next.RoundTrip(r)
	if err == nil && resp.ProtoMajor != 2 {
		h.t.Errorf("answered over %s", resp.Proto)
	}
	return resp, err
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
