package wire

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicstream "github.com/anthropics/anthropic-sdk-go/packages/ssestream"
	"github.com/openai/openai-go/v3"
	openaistream "github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"failback/gateway/decision"
)

var failure = Failure{
	Status: 502, Code: "all_failed", Message: "no upstream could answer: it's \"down\"", RequestID: "req-1",
	Attempts: []FailedAttempt{{"a", "overloaded"}, {"b", "connect"}},
}

func TestErrorBody(t *testing.T) {
	for _, tc := range []struct {
		d    decision.Dialect
		f    Failure
		want string
	}{
		{decision.OpenAI, failure, `{"error":{"message":"no upstream could answer: it's \"down\"","type":"upstream_error","param":null,"code":"all_failed","attempts":[{"upstream":"a","class":"overloaded"},{"upstream":"b","class":"connect"}]},"request_id":"req-1"}`},
		{decision.OpenAI, Failure{Status: 400, Message: "m", Param: "model"}, `{"error":{"message":"m","type":"invalid_request_error","param":"model","code":null}}`},
		{decision.OpenAI, Failure{Status: 429, Type: "t", Message: "m"}, `{"error":{"message":"m","type":"t","param":null,"code":null}}`},
		{decision.Anthropic, failure, `{"type":"error","error":{"type":"api_error","message":"no upstream could answer: it's \"down\"","details":{"error_code":"all_failed"},"attempts":[{"upstream":"a","class":"overloaded"},{"upstream":"b","class":"connect"}]},"request_id":"req-1"}`},
		{decision.Anthropic, Failure{Status: 503, Message: "m"}, `{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":null}`},
	} {
		var got, want any
		if err := json.Unmarshal(ErrorBody(tc.d, tc.f), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s\nwant %s", tc.d, ErrorBody(tc.d, tc.f), tc.want)
		}
	}
}

func answer(stream string) *http.Response {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(strings.NewReader(stream)),
	}
}

// The vendors' own clients must see the answer so far, pass over keep-alives,
// and take our error event for an error and never for an end.
func TestClientsUnderstandOurFrames(t *testing.T) {
	chat := openaistream.NewStream[openai.ChatCompletionChunk](openaistream.NewDecoder(answer(
		string(KeepAlive(ChatCompletions))+data(chunk(`{"content":"a"}`))+string(KeepAlive(ChatCompletions))+string(ErrorFrame(ChatCompletions, failure)))), nil)
	text := ""
	for chat.Next() {
		text += chat.Current().Choices[0].Delta.Content
	}
	if err := chat.Err(); text != "a" || err == nil || !strings.Contains(err.Error(), "all_failed") {
		t.Errorf("chat: %q, %v", text, err)
	}

	resp := openaistream.NewStream[responses.ResponseStreamEventUnion](openaistream.NewDecoder(answer(
		named(`{"type":"response.output_text.delta","delta":"a"}`)+string(KeepAlive(Responses))+string(ErrorFrame(Responses, failure)))), nil)
	text = ""
	for resp.Next() {
		text += resp.Current().Delta
	}
	if err := resp.Err(); text != "a" || err == nil || !strings.Contains(err.Error(), "all_failed") {
		t.Errorf("responses: %q, %v", text, err)
	}
	// Clients that go by the API's reference find the fields at the top.
	_, body, _ := strings.Cut(string(ErrorFrame(Responses, failure)), "data: ")
	var event responses.ResponseErrorEvent
	if err := json.Unmarshal([]byte(body), &event); err != nil || event.Type != "error" || event.Code != failure.Code || event.Message != failure.Message {
		t.Errorf("responses error event: %+v, %v", event, err)
	}

	msg := anthropicstream.NewStream[anthropic.MessageStreamEventUnion](anthropicstream.NewDecoder(answer(
		string(KeepAlive(Messages))+named(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`)+string(ErrorFrame(Messages, failure)))), nil)
	text = ""
	for msg.Next() {
		text += msg.Current().Delta.Text
	}
	err := msg.Err()
	if text != "a" || err == nil || !strings.Contains(err.Error(), failure.RequestID) {
		t.Errorf("messages: %q, %v", text, err)
	}
	if _, ok := errors.AsType[*anthropic.Error](err); !ok && !strings.Contains(err.Error(), "api_error") {
		t.Errorf("messages: %T %v", err, err)
	}
}

// What we send is, to another gateway of ours, an error before any output.
func TestOurFramesJudged(t *testing.T) {
	for _, ep := range Endpoints {
		if !ep.Streams() {
			continue
		}
		if kinds, _ := judge(t, ep, string(KeepAlive(ep))); kinds != "P" {
			t.Errorf("%s: keep-alive judged %s", ep, kinds)
		}
		for status, class := range map[int]decision.Class{400: decision.InvalidRequest, 429: decision.RateLimited, 500: decision.ServerError, 502: decision.ServerError, 503: decision.Overloaded, 504: decision.ServerError} {
			kinds, v := judge(t, ep, string(ErrorFrame(ep, Failure{Status: status, Message: "m"})))
			if kinds != "E" || v.Class != class {
				t.Errorf("%s: error frame of %d judged %s, %s", ep, status, kinds, v.Class)
			}
			if v := JudgeUnary(ep, ErrorBody(ep.Dialect(), Failure{Status: status, Message: "m"})); v.Class != class {
				t.Errorf("%s: error body of %d judged %s", ep, status, v.Class)
			}
		}
	}
}

func TestErrorTypeOfEveryStatus(t *testing.T) {
	known := map[string]bool{}
	for _, typ := range []anthropic.ErrorType{
		anthropic.ErrorTypeInvalidRequestError, anthropic.ErrorTypeAuthenticationError, anthropic.ErrorTypePermissionError,
		anthropic.ErrorTypeNotFoundError, anthropic.ErrorTypeRateLimitError, anthropic.ErrorTypeTimeoutError,
		anthropic.ErrorTypeOverloadedError, anthropic.ErrorTypeAPIError, anthropic.ErrorTypeBillingError, "conflict_error", "request_too_large",
	} {
		known[string(typ)] = true
	}
	for status := 400; status < 600; status++ {
		if typ := ErrorType(decision.Anthropic, status); !known[typ] {
			t.Errorf("anthropic %d: %q", status, typ)
		}
		if typ := ErrorType(decision.OpenAI, status); typ == "" {
			t.Errorf("openai %d: no type", status)
		}
	}
}

func TestModelList(t *testing.T) {
	var page openaiPage
	if err := json.Unmarshal(ModelList(decision.OpenAI, []string{"a", "b"}), &page); err != nil || page.Object != "list" || len(page.Data) != 2 || page.Data[1].ID != "b" || page.Data[0].Object != "model" {
		t.Errorf("openai: %+v, %v", page, err)
	}
	var list struct {
		Data    []anthropic.ModelInfo `json:"data"`
		HasMore *bool                 `json:"has_more"`
		FirstID string                `json:"first_id"`
		LastID  string                `json:"last_id"`
	}
	if err := json.Unmarshal(ModelList(decision.Anthropic, []string{"a", "b"}), &list); err != nil || len(list.Data) != 2 || list.Data[0].ID != "a" ||
		list.HasMore == nil || *list.HasMore || list.FirstID != "a" || list.LastID != "b" || list.Data[0].CreatedAt.IsZero() {
		t.Errorf("anthropic: %+v, %v", list, err)
	}
	for d, want := range map[decision.Dialect]string{
		decision.OpenAI: `{"object":"list","data":[]}`, decision.Anthropic: `{"data":[],"has_more":false,"first_id":null,"last_id":null}`,
	} {
		if got := string(ModelList(d, nil)); got != want {
			t.Errorf("no models: %s, want %s", got, want)
		}
	}
}

type openaiPage struct {
	Object string         `json:"object"`
	Data   []openai.Model `json:"data"`
}

func TestForwardHeaders(t *testing.T) {
	src := http.Header{
		"Authorization": {"Bearer k"}, "X-Api-Key": {"k"}, "Api-Key": {"k"}, "Cookie": {"c"}, "X-Forwarded-For": {"1.2.3.4"},
		"Idempotency-Key": {"i"}, "X-Idempotency-Key": {"i"}, "Openai-Organization": {"o"}, "Openai-Project": {"p"}, "Traceparent": {"t"},
		"Connection": {"close"}, "Accept-Encoding": {"gzip"}, "Failback-Task": {"t"}, "X-Stainless-Retry-Count": {"1"}, "X-Request-Id": {"r"},
		"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"text/event-stream"}, "User-Agent": {"ua"},
		"Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"a", "b"}, "Openai-Beta": {"x"},
	}
	for d, want := range map[decision.Dialect]http.Header{
		decision.OpenAI:    {"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "User-Agent": {"ua"}, "Openai-Beta": {"x"}},
		decision.Anthropic: {"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "User-Agent": {"ua"}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"a", "b"}},
	} {
		dst := http.Header{}
		ForwardHeaders(dst, src, d)
		if !reflect.DeepEqual(dst, want) {
			t.Errorf("%s: %v, want %v", d, dst, want)
		}
		dst["Accept"][0] = "changed"
		if src["Accept"][0] != "text/event-stream" {
			t.Error("the client's header is shared")
		}
	}
}

func TestReturnHeaders(t *testing.T) {
	src := http.Header{
		"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}, "Content-Length": {"5"}, "Connection": {"X-Ratelimit-Limit-Tokens, close"}, "Keep-Alive": {"1"},
		"X-Request-Id": {"r"}, "Request-Id": {"r"}, "Server": {"s"}, "Set-Cookie": {"c"}, "Openai-Organization": {"o"}, "Anthropic-Organization-Id": {"o"},
		"Openai-Processing-Ms": {"4"}, "Openai-Version": {"v"}, "X-Ratelimit-Remaining-Tokens": {"9"}, "X-Ratelimit-Limit-Tokens": {"10"},
		"Anthropic-Ratelimit-Requests-Remaining": {"3"}, "Retry-After": {"4"}, "Retry-After-Ms": {"4"}, "X-Should-Retry": {"true"}, "Cf-Ray": {"x"}, "Via": {"v"},
	}
	always := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}, "Openai-Processing-Ms": {"4"}, "Openai-Version": {"v"}}
	dst := http.Header{}
	ReturnHeaders(dst, src, true)
	if !reflect.DeepEqual(dst, always) {
		t.Errorf("after a failover: %v", dst)
	}
	ReturnHeaders(dst, src, false)
	always["X-Ratelimit-Remaining-Tokens"], always["Anthropic-Ratelimit-Requests-Remaining"] = []string{"9"}, []string{"3"}
	if !reflect.DeepEqual(dst, always) {
		t.Errorf("from the primary: %v", dst)
	}
}

func TestEndpoints(t *testing.T) {
	for _, e := range Endpoints {
		if got, ok := EndpointFor(e.ClientPath()); !ok || got != e {
			t.Errorf("%s: found as %s, %t", e, got, ok)
		}
		if !strings.HasSuffix(e.ClientPath(), e.UpstreamPath()) || e.Dialect() == "" || e.String() == "" {
			t.Errorf("%s: %q, %q, %q", e, e.ClientPath(), e.UpstreamPath(), e.Dialect())
		}
	}
	for _, path := range []string{"", "/", "/v1/models", "/v1/chat/completions/", "/v1//chat/completions", "/chat/completions"} {
		if e, ok := EndpointFor(path); ok {
			t.Errorf("%q is %s", path, e)
		}
	}
	if Endpoint(0).String() != "" || Endpoint(99).String() != "" {
		t.Error("a name for no endpoint")
	}
}
