package wire

import (
	"fmt"
	"strings"
	"testing"

	"failback/gateway/decision"
)

// kinds are the kinds of a stream's frames, as a string for short tables.
var kindNames = map[Kind]string{Preamble: "P", Output: "O", Other: "x", Terminal: "T", Error: "E"}

// judge judges a stream up to its first error and returns the kinds of its
// frames and the verdict on it: the error's, else the end's.
func judge(t *testing.T, ep Endpoint, stream string) (kinds string, v Verdict) {
	t.Helper()
	j := NewStreamJudge(ep)
	r := NewFrameReader(strings.NewReader(stream), 1<<20)
	defer r.Close()
	for {
		frame, err := r.Next()
		if err != nil {
			return kinds, j.End()
		}
		m := j.Judge(frame)
		kinds += kindNames[m.Kind]
		switch m.Kind {
		case Error:
			return kinds, m.Verdict
		case Terminal:
			if m.Verdict.Class != decision.OK || !j.Finished() {
				t.Errorf("terminal frame: class %s, finished %t", m.Verdict.Class, j.Finished())
			}
		default:
			if m.Verdict != (Verdict{}) {
				t.Errorf("verdict %+v on a frame of kind %s", m.Verdict, kindNames[m.Kind])
			}
		}
	}
}

// data makes a stream of frames with data alone.
func data(frames ...string) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "data: %s\n\n", f)
	}
	return b.String()
}

// named makes a stream of events; each frame's name is its data's type.
func named(frames ...string) string {
	var b strings.Builder
	for _, f := range frames {
		_, rest, _ := strings.Cut(f, `"type":"`)
		name, _, _ := strings.Cut(rest, `"`)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, f)
	}
	return b.String()
}

func chunk(delta string) string {
	return `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}],"usage":null}`
}

func TestJudgeStreams(t *testing.T) {
	const (
		role   = `{"id":"c1","object":"chat.completion.chunk","model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
		finish = `{"id":"c1","object":"chat.completion.chunk","model":"gpt-x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		usage  = `{"id":"c1","object":"chat.completion.chunk","model":"gpt-x","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16}}`
		start  = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-x","stop_reason":null,"usage":{"input_tokens":25,"cache_read_input_tokens":100,"output_tokens":1}}}`
		block  = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
		text   = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`
		stop   = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}`
		ping   = `{"type":"ping"}`
		made   = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","error":null,"model":"gpt-x","output":[],"usage":null}}`
		item   = `{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}`
		said   = `{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hi","obfuscation":"abc"}`
		whole  = `{"type":"response.completed","response":{"id":"resp_1","object":"response","status":"completed","error":null,"model":"gpt-x","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}],"usage":{"input_tokens":3,"output_tokens":4}}}`
	)
	for _, tc := range []struct {
		name   string
		ep     Endpoint
		stream string
		kinds  string
		class  decision.Class
	}{
		{"chat", ChatCompletions, data(role, chunk(`{"content":"a"}`), chunk(`{"content":"b"}`), finish, usage, "[DONE]"), "POOxxT", decision.OK},
		{"chat without DONE", ChatCompletions, data(role, chunk(`{"content":"a"}`), finish), "POx", decision.OK},
		{"finish reason with the last content", ChatCompletions, data(role, `{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}`), "PO", decision.OK},
		{"finish reason before delta", ChatCompletions, data(`{"choices":[{"finish_reason":"stop","delta":{"content":"a"},"index":0}]}`), "O", decision.OK},
		{"DONE without finish reason", ChatCompletions, data(chunk(`{"content":"a"}`), "[DONE]"), "OT", decision.OK},
		{"STR-01: cut after output", ChatCompletions, data(role, chunk(`{"content":"a"}`)), "PO", decision.Interrupted},
		{"cut inside a frame", ChatCompletions, data(role, chunk(`{"content":"a"}`)) + `data: {"choices":[{"del`, "POE", decision.Interrupted},
		{"cut after a whole frame's data", ChatCompletions, strings.TrimRight(data(role, chunk(`{"content":"a"}`), finish), "\n"), "POx", decision.OK},
		{"nothing", ChatCompletions, "", "", decision.BadResponse},
		{"only comments", ChatCompletions, ": hi\n\n: hi\n\n", "PP", decision.BadResponse},
		{"only DONE", ChatCompletions, data("[DONE]"), "E", decision.BadResponse},
		{"after DONE nothing counts", ChatCompletions, data(finish, "[DONE]", `{"error":{"message":"x"}}`, "{"), "PTxx", decision.OK},
		{"STR-10: role only", ChatCompletions, data(role), "P", decision.Interrupted},
		{"usage only chunk first", ChatCompletions, data(usage, chunk(`{"content":"a"}`), finish, "[DONE]"), "POxT", decision.OK},
		{"choices null", ChatCompletions, data(`{"choices":null,"object":"chat.completion.chunk"}`, chunk(`{"content":"a"}`), finish), "POx", decision.OK},
		{"Azure's first chunk", ChatCompletions, data(`{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}`, chunk(`{"content":"a"}`), finish), "POx", decision.OK},
		{"two choices, one finished", ChatCompletions, data(`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`), "Ox", decision.Interrupted},
		{"two choices, both finished", ChatCompletions, data(`{"choices":[{"index":0,"delta":{"content":"a"}},{"delta":{"content":"b"},"index":1}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `{"choices":[{"delta":{},"finish_reason":"stop","index":1}]}`), "Oxx", decision.OK},
		{"error null", ChatCompletions, data(`{"error":null,"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`), "O", decision.OK},
		{"error of nulls", ChatCompletions, data(`{"error":{"message":null,"code":null},"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`), "O", decision.OK},
		{"error null, nothing else", ChatCompletions, data(`null`, chunk(`{"content":"a"}`), finish), "POx", decision.OK},
		{"reasoning_content", ChatCompletions, data(role, chunk(`{"reasoning_content":"hm"}`), finish), "POx", decision.OK},
		{"reasoning", ChatCompletions, data(chunk(`{"content":"","reasoning":"hm"}`), finish), "Ox", decision.OK},
		{"reasoning_details", ChatCompletions, data(chunk(`{"reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]}`), finish), "Ox", decision.OK},
		{"empty reasoning_details", ChatCompletions, data(chunk(`{"reasoning_details":[{"type":"reasoning.text","text":"","index":0}],"reasoning":null}`), finish), "PP", decision.OK},
		{"refusal", ChatCompletions, data(chunk(`{"refusal":"no"}`), finish), "Ox", decision.OK},
		{"audio", ChatCompletions, data(chunk(`{"audio":{"id":"audio_1","transcript":""}}`), chunk(`{"audio":{"data":"AAAA"}}`), finish), "POx", decision.OK},
		{"tool call", ChatCompletions, data(role, chunk(`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]}`), finish), "POx", decision.OK},
		{"tool call, arguments only", ChatCompletions, data(chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}`), finish), "Ox", decision.OK},
		{"empty tool calls", ChatCompletions, data(chunk(`{"tool_calls":[],"function_call":null}`), finish), "PP", decision.OK},
		{"content in parts", ChatCompletions, data(chunk(`{"content":[{"type":"text","text":""}]}`), chunk(`{"content":[{"type":"text","text":"a"}]}`), finish), "POx", decision.OK},
		{"multi-line data, names before values of any order", ChatCompletions, "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"a\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n", "O", decision.OK},
		{"carriage returns, byte order mark", ChatCompletions, "\ufeff" + strings.ReplaceAll(data(role, chunk(`{"content":"a"}`), finish, "[DONE]"), "\n", "\r\n"), "POxT", decision.OK},
		{"no space after the colon, padded", ChatCompletions, "data:" + chunk(`{"content":"a"}`) + "  \n\ndata:[DONE] \n\n", "OT", decision.OK},
		{"empty data", ChatCompletions, "data:\n\n" + data(chunk(`{"content":"a"}`), "[DONE]"), "POT", decision.OK},
		{"unknown fields", ChatCompletions, "id: 4\nretry: 10\nfoo: bar\n\n" + data(chunk(`{"content":"a"}`), "[DONE]"), "POT", decision.OK},
		{"malformed JSON", ChatCompletions, data(role, `{"choices":[{"delta":{"content":"a"}`), "PE", decision.BadResponse},
		{"no JSON", ChatCompletions, data("hello"), "E", decision.BadResponse},
		{"a string", ChatCompletions, data(`"hello"`), "E", decision.BadResponse},
		{"HTML", ChatCompletions, "<html><body>502</body></html>\n\n", "E", decision.BadResponse},
		{"a JSON answer", ChatCompletions, `{"choices":[{"message":{"content":"a"}}]}`, "E", decision.BadResponse},
		{"finish reason error", ChatCompletions, data(role, `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"Provider disconnected"}}]}`), "PE", decision.ServerError},
		{"finish reason error alone", ChatCompletions, data(role, `{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`), "PE", decision.ServerError},
		{"out of resources", ChatCompletions, data(role, `{"choices":[{"index":0,"delta":{},"finish_reason":"insufficient_system_resource"}]}`), "PE", decision.Overloaded},

		{"text completion", Completions, data(`{"object":"text_completion","choices":[{"text":"","index":0,"finish_reason":null}]}`, `{"choices":[{"text":"a","index":0,"finish_reason":null}]}`, `{"choices":[{"text":"","index":0,"finish_reason":"stop"}]}`, "[DONE]"), "POxT", decision.OK},

		{"messages", Messages, named(start, block, ping, text, `{"type":"content_block_stop","index":0}`, ping, stop, `{"type":"message_stop"}`), "PPPOxxxT", decision.OK},
		{"messages, cut", Messages, named(start, block, text), "PPO", decision.Interrupted},
		{"messages, cut after the stop reason", Messages, named(start, block, text, stop), "PPOx", decision.OK},
		{"messages, type only in the event's name", Messages, "event: message_start\ndata: {\"message\":{}}\n\nevent: content_block_delta\ndata: {\"delta\":{\"text\":\"a\"}}\n\nevent: message_stop\ndata: {}\n\n", "POT", decision.OK},
		{"messages, type last", Messages, data(`{"delta":{"text":"a","type":"text_delta"},"index":0,"type":"content_block_delta"}`, `{"usage":{},"delta":{"stop_reason":"end_turn"},"type":"message_delta"}`), "Ox", decision.OK},
		{"messages, empty text", Messages, named(start, block, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}`), "PPP", decision.Interrupted},
		{"thinking", Messages, named(start, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`), "PPO", decision.Interrupted},
		{"signature", Messages, named(start, `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}`), "PO", decision.Interrupted},
		{"tool use", Messages, named(start, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}`), "PO", decision.Interrupted},
		{"tool input", Messages, named(start, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`), "PPO", decision.Interrupted},
		{"container in a message_delta", Messages, named(start, `{"type":"message_delta","delta":{"stop_reason":null,"container":{"id":"c","expires_at":"2026"}},"usage":{}}`), "PP", decision.Interrupted},
		{"unknown events", Messages, named(start, `{"type":"new_thing","text":"a"}`, text), "PPO", decision.Interrupted},
		{"DONE from a gateway", Messages, named(start, text) + data("[DONE]"), "POx", decision.Interrupted},
		{"STR-03: overloaded first", Messages, named(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), "E", decision.Overloaded},
		{"STR-03: invalid first", Messages, named(`{"type":"error","error":{"type":"invalid_request_error","message":"messages: bad"}}`), "E", decision.InvalidRequest},
		{"STR-06: overloaded after output", Messages, named(start, text, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), "POE", decision.Overloaded},
		{"error without JSON", Messages, "event: error\ndata: upstream went away\n\n", "E", decision.BadResponse},
		{"error without data", Messages, "event: error\n\n", "E", decision.BadResponse},

		{"responses", Responses, named(made, `{"type":"response.in_progress","response":{"id":"resp_1","error":null}}`, item, `{"type":"response.content_part.added","part":{"type":"output_text","text":"","annotations":[]}}`, said, `{"type":"response.output_text.done","text":"Hi"}`, whole), "PPPPOOT", decision.OK},
		{"responses, cut", Responses, named(made, item, said), "PPO", decision.Interrupted},
		{"responses, incomplete", Responses, named(made, said, `{"type":"response.incomplete","response":{"id":"resp_1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`), "POT", decision.OK},
		{"CLS-06: failed", Responses, named(made, said, `{"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"sorry"}}}`), "POE", decision.ServerError},
		{"failed, rate", Responses, named(made, `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}`), "PE", decision.RateLimited},
		{"failed, nothing said", Responses, named(made, `{"type":"response.failed","response":{"status":"failed","error":null}}`), "PE", decision.ServerError},
		{"error event, flat", Responses, named(made, `{"type":"error","code":"server_error","message":"sorry","param":null,"sequence_number":3}`), "PE", decision.ServerError},
		{"error event, nested", Responses, named(made, `{"type":"error","sequence_number":3,"error":{"type":"too_many_requests","code":"too_many_requests","message":"slow","param":null}}`), "PE", decision.RateLimited},
		{"reasoning summary", Responses, named(made, `{"type":"response.output_item.added","item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gA"}}`, `{"type":"response.reasoning_summary_text.delta","delta":"hm"}`), "PPO", decision.Interrupted},
		{"reasoning text", Responses, named(made, `{"type":"response.reasoning_text.delta","delta":"hm"}`), "PO", decision.Interrupted},
		{"function call", Responses, named(made, `{"type":"response.output_item.added","item":{"id":"fc_1","type":"function_call","status":"in_progress","call_id":"call_1","name":"f","arguments":""}}`, `{"type":"response.function_call_arguments.delta","delta":""}`, `{"type":"response.function_call_arguments.delta","delta":"{"}`), "POxO", decision.Interrupted},
		{"arguments only", Responses, named(made, `{"delta":"{","type":"response.function_call_arguments.delta"}`), "PO", decision.Interrupted},
		{"a search of the provider", Responses, named(made, `{"type":"response.output_item.added","item":{"id":"ws_1","type":"web_search_call","status":"in_progress"}}`), "PO", decision.Interrupted},
		{"refusal delta", Responses, named(made, `{"type":"response.refusal.delta","delta":"no"}`), "PO", decision.Interrupted},
		{"empty delta", Responses, named(made, `{"type":"response.output_text.delta","delta":"","obfuscation":"abc"}`), "PP", decision.Interrupted},
		{"an image", Responses, named(made, `{"type":"response.image_generation_call.partial_image","partial_image_b64":"AAAA"}`), "PO", decision.Interrupted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kinds, v := judge(t, tc.ep, tc.stream)
			if kinds != tc.kinds || v.Class != tc.class {
				t.Errorf("%s, %s; want %s, %s (%s)", kinds, v.Class, tc.kinds, tc.class, v.Detail)
			}
		})
	}

	for _, tc := range []struct {
		ep      Endpoint
		stream  string
		in, out int
		model   string
		id      string
	}{
		{ChatCompletions, data(role, chunk(`{"content":"a"}`), finish, usage, "[DONE]"), 7, 9, "gpt-x", ""},
		{Messages, named(start, text, stop, `{"type":"message_stop"}`), 125, 15, "claude-x", ""},
		{Messages, named(start, text), 125, 0, "claude-x", ""}, // BUD-06: 1 is a placeholder
		{Responses, named(made, said, whole), 3, 4, "gpt-x", "resp_1"},
		{Responses, named(made, `{"type":"error","code":"server_error","message":"x"}`), 0, 0, "gpt-x", "resp_1"},
	} {
		_, v := judge(t, tc.ep, tc.stream)
		if v.InputTokens != tc.in || v.OutputTokens != tc.out || v.ResponseModel != tc.model || v.ResponseID != tc.id {
			t.Errorf("%s: %d in, %d out, model %q, id %q; want %d, %d, %q, %q", tc.stream,
				v.InputTokens, v.OutputTokens, v.ResponseModel, v.ResponseID, tc.in, tc.out, tc.model, tc.id)
		}
	}
}

// Every error inside a 200 has the class it would have as a status, whatever
// frame carries it.
// A stream is settled when all choices that were asked for have come and ended.
func TestSettled(t *testing.T) {
	say := func(i, end string) string {
		return data(`{"choices":[{"index":` + i + `,"delta":{"content":"a"},"finish_reason":` + end + `}]}`)
	}
	for _, tc := range []struct {
		stream  string
		choices int
		want    bool
	}{
		{say("0", "null"), 0, false},
		{say("0", `"stop"`), 0, true},
		{say("0", `"stop"`), 1, true},
		{say("0", `"stop"`), 2, false},
		{say("0", `"stop"`) + say("1", "null"), 0, false},
		{say("0", `"stop"`) + say("1", `"stop"`), 2, true},
	} {
		j := NewStreamJudge(ChatCompletions)
		for frame := range strings.SplitAfterSeq(tc.stream, "\n\n") {
			if frame != "" {
				j.Judge([]byte(frame))
			}
		}
		if got := j.Settled(tc.choices); got != tc.want {
			t.Errorf("%d choices of %q: %t", tc.choices, tc.stream, got)
		}
	}
}

func TestErrorInsideStreamIsClassedAsItsStatus(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
	}{
		{400, `{"error":{"message":"bad","type":"invalid_request_error","param":null,"code":null}}`},
		{400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`},
		{401, `{"error":{"message":"Incorrect API key provided: sk-x.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`},
		{429, `{"error":{"message":"slow","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`},
		{429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`},
		{404, `{"error":{"message":"The model x does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}`},
		{500, `{"error":{"message":"sorry","type":"server_error","param":null,"code":null}}`},
		{503, `{"error":{"message":"busy","type":"service_unavailable_error","param":null,"code":"server_is_overloaded"}}`},
		{502, `{"error":{"code":502,"message":"Provider returned error"}}`},
		{429, `{"object":"error","message":"slow","type":"RateLimitError","param":null,"code":429}`},
		{400, `{"object":"error","message":"bad","type":"BadRequestError","param":null,"code":400}`},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"bad"}}`},
		{401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`},
		{402, `{"type":"error","error":{"type":"billing_error","message":"pay"}}`},
		{403, `{"type":"error","error":{"type":"permission_error","message":"no"}}`},
		{404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}`},
		{413, `{"type":"error","error":{"type":"request_too_large","message":"large"}}`},
		{429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`},
		{500, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`},
		{504, `{"type":"error","error":{"type":"timeout_error","message":"late"}}`},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
	} {
		want := JudgeError(decision.OpenAI, tc.status, nil, []byte(tc.body))
		for _, ep := range []Endpoint{ChatCompletions, Completions, Responses, Messages} {
			for _, stream := range []string{data(tc.body), "event: error\ndata: " + tc.body + "\n\n", tc.body} {
				kinds, got := judge(t, ep, stream)
				if kinds != "E" && (ep == ChatCompletions || strings.HasPrefix(stream, "event")) || kinds == "E" && (got.Class != want.Class || got.NamesModel != want.NamesModel || got.Code != want.Code) {
					t.Errorf("%s: %q: %s, %+v; want %+v", ep, stream, kinds, got, want)
				}
			}
			if got := JudgeUnary(ep, []byte(tc.body)); got.Class != want.Class {
				t.Errorf("%s: whole answer %s: %s, want %s", ep, tc.body, got.Class, want.Class)
			}
		}
	}
}

func TestJudgeUnary(t *testing.T) {
	const chat = `{"id":"c1","object":"chat.completion","model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`
	for _, tc := range []struct {
		ep    Endpoint
		body  string
		class decision.Class
	}{
		{ChatCompletions, chat, decision.OK},
		{ChatCompletions, "\n" + chat + "\n", decision.OK},
		{ChatCompletions, `{"usage":{},"error":null,"choices":[{"message":{"content":null,"tool_calls":[{}]}}]}`, decision.OK},
		{ChatCompletions, `{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}`, decision.OK},
		{ChatCompletions, `{"choices":[]}`, decision.BadResponse},
		{ChatCompletions, `{"choices":null}`, decision.BadResponse},
		{ChatCompletions, `{"choices":[null]}`, decision.BadResponse},
		{ChatCompletions, `{}`, decision.BadResponse},
		{ChatCompletions, ``, decision.BadResponse},
		{ChatCompletions, " \n", decision.BadResponse},
		{ChatCompletions, "\x00", decision.BadResponse},
		{ChatCompletions, `[]`, decision.BadResponse},
		{ChatCompletions, `"ok"`, decision.BadResponse},
		{ChatCompletions, `<!doctype html><p>sign in`, decision.BadResponse},
		{ChatCompletions, `Bad gateway`, decision.BadResponse},
		{ChatCompletions, chat[:len(chat)-10], decision.BadResponse},
		{ChatCompletions, chat + "x", decision.BadResponse},
		{ChatCompletions, `{"error":{"message":"who knows"}}`, decision.BadResponse},
		{ChatCompletions, `{"error":"rate limit exceeded"}`, decision.RateLimited},
		{ChatCompletions, `{"message":"Internal","code":500}`, decision.ServerError},
		{ChatCompletions, `{"choices":[{"message":{"content":""},"finish_reason":"error"}]}`, decision.ServerError},
		{ChatCompletions, `{"choices":[{"error":{"code":429,"message":"slow"},"message":{"content":""},"finish_reason":"error"}]}`, decision.RateLimited},
		{ChatCompletions, `[{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}]`, decision.RateLimited},
		{Completions, `{"choices":[{"text":"a","index":0}]}`, decision.OK},
		{Completions, `{"choices":[{"index":0}]}`, decision.BadResponse},
		{Embeddings, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,-2e-3]}],"model":"e","usage":{"prompt_tokens":2}}`, decision.OK},
		{Embeddings, `{"object":"list","data":[]}`, decision.BadResponse},
		{Responses, `{"id":"resp_1","object":"response","status":"completed","error":null,"output":[],"usage":{"input_tokens":3,"output_tokens":4}}`, decision.OK},
		{Responses, `{"id":"resp_1","object":"response","status":"queued","output":[]}`, decision.OK},
		{Responses, `{"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"error":null}`, decision.OK},
		{Responses, `{"object":"response","status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}`, decision.RateLimited},
		{Responses, `{"object":"response","status":"failed","error":null}`, decision.ServerError},
		{Responses, `{"choices":[]}`, decision.BadResponse},
		{Messages, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":"end_turn","usage":{"input_tokens":2,"output_tokens":1}}`, decision.OK},
		{Messages, `{"type":"message"}`, decision.BadResponse},
		{Messages, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, decision.Overloaded},
		{CountTokens, `{"input_tokens":14}`, decision.OK},
		{CountTokens, `{"tokens":14}`, decision.BadResponse},
	} {
		v := JudgeUnary(tc.ep, []byte(tc.body))
		if v.Class != tc.class || (v.Class == decision.BadResponse) != (v.Detail != "") && v.Class == decision.BadResponse {
			t.Errorf("%s %s: %s (%s), want %s", tc.ep, tc.body, v.Class, v.Detail, tc.class)
		}
	}
	if v := JudgeUnary(ChatCompletions, []byte(chat)); v.ResponseModel != "gpt-x" || v.InputTokens != 3 || v.OutputTokens != 1 || v.ResponseID != "" {
		t.Errorf("facts: %+v", v)
	}
	if v := JudgeUnary(Responses, []byte(`{"output":[],"model":"m","id":"resp_1","usage":{"output_tokens":1e1,"input_tokens":99999999999}}`)); v.ResponseID != "resp_1" || v.OutputTokens != 10 || v.InputTokens != 1<<31-1 {
		t.Errorf("facts: %+v", v)
	}
}

// A judge keeps nothing of a frame: its buffer is used again.
func TestJudgeKeepsNothingOfAFrame(t *testing.T) {
	j := NewStreamJudge(ChatCompletions)
	buf := []byte(data(chunk(`{"content":"a"}`)))
	j.Judge(buf)
	for i := range buf {
		buf[i] = 'x'
	}
	if v := j.End(); v.ResponseModel != "gpt-x" {
		t.Errorf("model %q after the frame's buffer was used again", v.ResponseModel)
	}
}

func BenchmarkJudge(b *testing.B) {
	long := strings.Repeat("word ", 20000)
	for _, bc := range []struct {
		name  string
		ep    Endpoint
		frame string
	}{
		{"chat", ChatCompletions, data(chunk(`{"content":" word"}`))},
		{"messages", Messages, named(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}`)},
		{"responses", Responses, named(`{"type":"response.output_text.delta","sequence_number":9,"item_id":"msg_68","output_index":0,"content_index":0,"delta":" word","logprobs":[],"obfuscation":"8sG2kd"}`)},
		{"100KB", ChatCompletions, data(chunk(`{"content":"` + long + `"}`))},
		{"two lines", ChatCompletions, "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"a\"}}]}\n\n"},
	} {
		b.Run(bc.name, func(b *testing.B) {
			j := NewStreamJudge(bc.ep)
			frame := []byte(bc.frame)
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				if j.Judge(frame).Kind != Output {
					b.Fatal("no output")
				}
			}
		})
	}
}

func BenchmarkJudgeUnary(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			body := []byte(`{"id":"c1","object":"chat.completion","model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"` +
				strings.Repeat(`It says \"no\" and goes on for a while.\n`, size/40) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if JudgeUnary(ChatCompletions, body).Class != decision.OK {
					b.Fatal("not ok")
				}
			}
		})
	}
}
