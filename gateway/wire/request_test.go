package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

func scan(t *testing.T, ep Endpoint, body string) Facts {
	t.Helper()
	f, err := ScanRequest(ep, []byte(body))
	if err != nil {
		t.Fatalf("ScanRequest(%s): %v", body, err)
	}
	return f
}

func TestScanRequestFindsTheModel(t *testing.T) {
	for _, tc := range []struct{ body, model, span string }{
		{`{"model":"m"}`, "m", `"m"`},
		{" \t\r\n{ \"messages\" : [ ] ,\n\"model\"\t:\r\n \"gpt-5-mini\" } \n", "gpt-5-mini", `"gpt-5-mini"`},
		{`{"\u006dodel":"a\u002fb\n"}`, "a/b\n", `"a\u002fb\n"`},
		{`{"messages":[{"role":"user","content":"\"model\":\"no\""}],"model":"yes"}`, "yes", `"yes"`},
		{`{"metadata":{"model":"no"},"model":"yes","x":{"model":"no"}}`, "yes", `"yes"`},
		{`{"model":"\ud83d\ude00é"}`, "😀é", `"\ud83d\ude00é"`},
		{`{"model":"\ud83dx"}`, "\ufffdx", `"\ud83dx"`},
		{"{\"model\":\"a\xffb\"}", "a\ufffdb", "\"a\xffb\""},
	} {
		f := scan(t, ChatCompletions, tc.body)
		if f.Model != tc.model || tc.body[f.ModelStart:f.ModelEnd] != tc.span {
			t.Errorf("%s: model %q at %q, want %q at %q", tc.body, f.Model, tc.body[f.ModelStart:f.ModelEnd], tc.model, tc.span)
		}
	}
}

func TestScanRequestRefuses(t *testing.T) {
	many := func(last string) string {
		var b strings.Builder
		b.WriteString(`{"model":"m"`)
		for i := range 200 {
			b.WriteString(`,"k` + strings.Repeat("x", i) + `":1`)
		}
		return b.String() + `,"` + last + `":1}`
	}
	for _, tc := range []struct{ body, param, says string }{
		{``, "", "unexpected end"},
		{`[]`, "", "JSON object"},
		{`"model"`, "", "JSON object"},
		{`[`, "", "unexpected end"},
		{`{}`, "model", "missing"},
		{`{"Model":"m"}`, "model", "missing"},
		{`{"model":""}`, "model", "non-empty"},
		{`{"model":null}`, "model", "non-empty"},
		{`{"model":["m"]}`, "model", "non-empty"},
		{`{"model":"m","stream":"true"}`, "stream", "true or false"},
		{`{"model":"m","stream":1}`, "stream", "true or false"},
		{`{"model":"m","model":"n"}`, "model", "duplicate"},
		{`{"model":"m","mod\u0065l":"n"}`, "model", "duplicate"},
		{`{"mod\u0065l":"m","\u006dodel":"n"}`, "model", "duplicate"},
		{`{"model":"m","Model":"n"}`, "Model", "duplicate"},
		{`{"\u004dodel":"m","model":"n"}`, "model", "duplicate"},
		{`{"model":"m","stream":true,"ſtream":false}`, "ſtream", "duplicate"},
		{`{"model":"m","a":1,"b":2,"a":1}`, "a", "duplicate"},
		{"{\"model\":\"m\",\"\xff\":1,\"\xfe\":2}", "\xfe", "duplicate"},
		{many("kxx"), "kxx", "duplicate"},
		{many("KXX"), "KXX", "duplicate"},
		{`{"model":"m"} {}`, "", "more text"},
		{`{"model":"m"}x`, "", "more text"},
		{"{\"model\":\"m\"}\x00", "", "more text"},
		{`{"model":"m",}`, "", "expected a name"},
		{`{"model":"m"`, "", "unexpected end"},
		{`{"model":"m","a":[1,]}`, "", "expected a value"},
		{`{"model":"m","a":01}`, "", "expected , or }"},
		{`{"model":"m","a":1.}`, "", "digit"},
		{`{"model":"m","a":"\x"}`, "", "bad escape"},
		{`{"model":"m","a":"\u12g4"}`, "", "bad \\u"},
		{"{\"model\":\"m\",\"a\":\"\n\"}", "", "control character"},
		{`{"model":"m","a":{"b":nul}}`, "", "expected a value"},
		{`{"model":"m","a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`, "", "nested"},
		{"\ufeff" + `{"model":"m"}`, "", "expected a value"},
	} {
		_, err := ScanRequest(ChatCompletions, []byte(tc.body))
		e, ok := errors.AsType[*RequestError](err)
		shown := tc.body[:min(len(tc.body), 80)]
		if !ok {
			t.Errorf("%s: error %v, want a RequestError", shown, err)
			continue
		}
		if e.Param != tc.param || !strings.Contains(e.Message, tc.says) {
			t.Errorf("%s: param %q, message %q; want %q, %q", shown, e.Param, e.Message, tc.param, tc.says)
		}
		if e.Offset < 0 || e.Offset > len(tc.body) {
			t.Errorf("%s: offset %d outside the body", shown, e.Offset)
		}
	}
}

func TestScanRequestDeepestNesting(t *testing.T) {
	// The body itself is the first level.
	open, closing := strings.Repeat("[", maxDepth-1), strings.Repeat("]", maxDepth-1)
	for _, key := range []string{"x", "messages", "tools", "system"} {
		body := `{"model":"m","` + key + `":` + open + closing + `}`
		if !json.Valid([]byte(body)) {
			t.Fatal("encoding/json refuses this depth")
		}
		scan(t, ChatCompletions, body)
	}
}

func TestScanRequestMixedNestingIsTracked(t *testing.T) {
	// Past 64 and 128 levels each bracket must still match its own kind.
	var open, closing string
	for i := range 150 {
		if i%3 == 0 {
			open, closing = open+`{"a":`, "}"+closing
		} else {
			open, closing = open+"[", "]"+closing
		}
	}
	scan(t, ChatCompletions, `{"model":"m","x":`+open+"1"+closing+`}`)
	for i := range closing {
		bad := []byte(closing)
		bad[i] ^= '}' ^ ']'
		if _, err := ScanRequest(ChatCompletions, []byte(`{"model":"m","x":`+open+"1"+string(bad)+`}`)); err == nil {
			t.Fatalf("bracket %d of the wrong kind was accepted", i)
		}
	}
}

func TestScanRequestFacts(t *testing.T) {
	for _, tc := range []struct {
		ep   Endpoint
		body string
		want Facts
	}{
		{ChatCompletions, `{"model":"m","stream":true,"max_tokens":16,"user":"u","prompt_cache_key":"k"}`,
			Facts{Stream: true, MaxTokens: 16, User: "u", PromptCacheKey: "k"}},
		{ChatCompletions, `{"model":"m","stream":null,"max_completion_tokens":1e2,"max_tokens":5}`, Facts{MaxTokens: 100}},
		{ChatCompletions, `{"model":"m","max_tokens":5,"max_completion_tokens":7}`, Facts{MaxTokens: 7}},
		{ChatCompletions, `{"model":"m","n":2}`, Facts{MaxTokens: -1, Choices: 2}},
		{ChatCompletions, `{"model":"m","n":null}`, Facts{MaxTokens: -1}},
		{ChatCompletions, `{"model":"m","max_tokens":1.5}`, Facts{MaxTokens: -1}},
		{ChatCompletions, `{"model":"m","max_tokens":-3}`, Facts{MaxTokens: -1}},
		{ChatCompletions, `{"model":"m","max_tokens":"8"}`, Facts{MaxTokens: -1}},
		{ChatCompletions, `{"model":"m","max_tokens":null}`, Facts{MaxTokens: -1}},
		{ChatCompletions, `{"model":"m","max_tokens":1e400}`, Facts{MaxTokens: math.MaxInt32}},
		{Responses, `{"model":"m","max_output_tokens":9,"previous_response_id":"resp_1"}`, Facts{MaxTokens: 9, PreviousResponseID: "resp_1"}},
		{Responses, `{"model":"m","previous_response_id":null,"input":"hi"}`, Facts{MaxTokens: -1}},
		{Embeddings, `{"model":"m","stream":true,"input":[1,2,3]}`, Facts{MaxTokens: -1}},
		{CountTokens, `{"model":"m","stream":true}`, Facts{MaxTokens: -1}},
		{ChatCompletions, `{"model":"m","tools":[]}`, Facts{MaxTokens: -1}},
		{ChatCompletions, `{"model":"m","tools":null}`, Facts{MaxTokens: -1}},
		{ChatCompletions, `{"model":"m","tools":[{"type":"function"}]}`, Facts{MaxTokens: -1, Tools: true}},
		{ChatCompletions, `{"model":"m","functions":[{"name":"f"}]}`, Facts{MaxTokens: -1, Tools: true}},
		{Messages, `{"model":"m","tools":[{"name":"f","input_schema":{"properties":{"file_id":{"const":"x"}}}}],"metadata":{"user_id":"u1"}}`,
			Facts{MaxTokens: -1, Tools: true, MetadataUserID: "u1"}},
		{Messages, `{"model":"m","metadata":null}`, Facts{MaxTokens: -1}},
		{ChatCompletions, `{"model":"m","metadata":{"failback-task":"refund","FAILBACK-DEADLINE-MS":1500,"idempotency-key":"k\u0031","Failback-Turn":null,"other":"x"}}`,
			Facts{MaxTokens: -1, Meta: map[string]string{"Failback-Task": "refund", "Failback-Deadline-Ms": "1500", "Idempotency-Key": "k1"}}},
	} {
		got := scan(t, tc.ep, tc.body)
		tc.want.Model, tc.want.ModelStart, tc.want.ModelEnd = "m", 9, 12
		got.ConversationHash = 0
		if g, w := mustJSON(t, got), mustJSON(t, tc.want); g != w {
			t.Errorf("%s\n got %s\nwant %s", tc.body, g, w)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestScanRequestBoundIDs(t *testing.T) {
	for _, tc := range []struct {
		ep         Endpoint
		body, want string
	}{
		{ChatCompletions, `{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]}`, "file-1"},
		{ChatCompletions, `{"messages":[{"role":"assistant","audio":{"id":"audio_1"}}],"audio":{"voice":"alloy"}}`, "audio_1"},
		{ChatCompletions, `{"messages":[{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"file_id\":\"x\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"ok"}]}`, ""},
		{Responses, `{"input":[{"role":"user","content":[{"type":"input_file","file_id":"file_1"},{"type":"input_image","file_id":"file_2"}]},{"id":"msg_9","type":"item_reference"}]}`, "file_1 file_2 msg_9"},
		{Responses, `{"input":[{"id":"rs_1"},{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}]}`, "rs_1"},
		{Responses, `{"tools":[{"type":"file_search","vector_store_ids":["vs_1","vs_2"]},{"type":"code_interpreter","container":{"type":"auto","file_ids":["file_3"]}},{"type":"code_interpreter","container":"cntr_1"}]}`, "vs_1 vs_2 file_3 cntr_1"},
		{Responses, `{"conversation":"conv_1","prompt":{"id":"pmpt_1","version":"2"}}`, "conv_1 pmpt_1"},
		{Responses, `{"conversation":{"id":"conv_2"}}`, "conv_2"},
		{Messages, `{"container":"container_1","messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_1"}},{"type":"container_upload","file_id":"file_2"}]}]}`, "container_1 file_1 file_2"},
		{Messages, `{"container":{"id":"container_2","skills":[{"type":"anthropic","skill_id":"xlsx"},{"type":"custom","skill_id":"skill_01"}]}}`, "container_2 skill_01"},
		{Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{"file_id":"mine","container":"mine"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"x"}]}]}`, ""},
		{Messages, `{"container":null,"messages":[{"role":"user","content":"file_id"}]}`, ""},
	} {
		body := `{"model":"m",` + tc.body[1:]
		f := scan(t, tc.ep, body)
		if got := strings.Join(f.BoundIDs, " "); got != tc.want || f.Bound() != (tc.want != "") {
			t.Errorf("%s: bound to %q, want %q", tc.body, got, tc.want)
		}
	}
}

func TestConversationHash(t *testing.T) {
	hash := func(ep Endpoint, rest string) uint64 {
		return scan(t, ep, `{"model":"m",`+rest+`}`).ConversationHash
	}
	base := hash(Messages, `"system":"be brief","messages":[{"role":"user","content":"hi"}]`)
	for _, same := range []string{
		`"messages":[{"content":"hi","role":"user"}],"system":"be brief"`,
		`"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"text":"hi","type":"text"}]}]`,
		`"system":"be brief","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},{"role":"user","content":"more"}],"max_tokens":5`,
		`"system":"be brief","messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]`,
	} {
		if got := hash(Messages, same); got != base || got == 0 {
			t.Errorf("%s: hash %x, want %x", same, got, base)
		}
	}
	for _, other := range []string{
		`"system":"be brie","messages":[{"role":"user","content":"fhi"}]`,
		`"system":"be long","messages":[{"role":"user","content":"hi"}]`,
		`"system":"be brief","messages":[{"role":"user","content":"ho"}]`,
		`"messages":[{"role":"user","content":"hi"}]`,
		`"system":"hi","messages":[{"role":"user","content":"be brief"}]`,
	} {
		if hash(Messages, other) == base {
			t.Errorf("%s: hashes like another conversation", other)
		}
	}
	chat := hash(ChatCompletions, `"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]`)
	if got := hash(ChatCompletions, `"messages":[{"content":"s","role":"developer"},{"role":"user","content":"u"},{"role":"system","content":"later"}]`); got != chat || got == 0 {
		t.Errorf("chat: %x, want %x", got, chat)
	}
	if hash(ChatCompletions, `"messages":[{"role":"assistant","content":"x"}]`) != 0 {
		t.Error("a conversation without system or user has a hash")
	}
	for ep, rest := range map[Endpoint]string{
		Completions: `"prompt":"p"`, Embeddings: `"input":["a","b"]`,
		Responses: `"instructions":"i","input":"x"`, CountTokens: `"messages":[{"role":"user","content":"u"}]`,
	} {
		if hash(ep, rest) == 0 {
			t.Errorf("%s: no hash", ep)
		}
	}
	if a, b := hash(Responses, `"input":"x"`), hash(Responses, `"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]}]`); a != b {
		t.Errorf("responses: %x for a string, %x for one item", a, b)
	}
	// Who is in a share hangs on the value: it must be the same in every process
	// and from one version to the next.
	if want := uint64(0xf7471064707d0edf); base != want {
		t.Errorf("hash %#x, want %#x", base, want)
	}
}

// A body must not make us keep much more than it is itself.
func TestScanRequestKeepsLittle(t *testing.T) {
	ids := scan(t, Responses, `{"model":"m","tools":[{"type":"x","file_ids":[`+strings.Repeat(`"f",`, 100000)+`"f"]}]}`)
	if len(ids.BoundIDs) != maxBound {
		t.Errorf("%d ids kept", len(ids.BoundIDs))
	}
	var b strings.Builder
	b.WriteString(`{"model":"m"`)
	for i := range maxKeys {
		fmt.Fprintf(&b, `,"%d":0`, i)
		body := []byte(b.String() + `}`)
		if i < maxKeys-2 {
			continue
		}
		if _, err := ScanRequest(Responses, body); (err != nil) != (i+2 > maxKeys) {
			t.Errorf("%d keys: %v", i+2, err)
		}
	}
}

func TestScanRequestLargeBody(t *testing.T) {
	body := benchBody("prose", 5<<20)
	f, err := ScanRequest(ChatCompletions, body)
	if err != nil || f.Model != "gpt-5-mini" || !f.Stream || f.MaxTokens != 1024 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestAllocations(t *testing.T) {
	body := benchBody("turns", 1<<20)
	if n := testing.AllocsPerRun(5, func() { _, _ = ScanRequest(ChatCompletions, body) }); n > 2 {
		t.Errorf("ScanRequest: %v allocations", n)
	}
	j := NewStreamJudge(ChatCompletions)
	frame := []byte(data(chunk(`{"content":"a\u00e9"}`)))
	if n := testing.AllocsPerRun(100, func() { j.Judge(frame) }); n > 0 {
		t.Errorf("Judge: %v allocations", n)
	}
}

func FuzzScanRequest(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`,
		`{"model":"a\u00e9\ud83d\ude00\ud83d","max_tokens":1e2}`,
		"{\"model\":\"\xff\",\"x\":\"\\u0000\"}",
		`{"mod\u0065l":"m","metadata":{"failback-task":1},"tools":[{"a":[{}]}]}`,
		`{"model":"m","input":[{"id":"x"},[[[{"type":"item_reference","id":"y"}]]],-0.0e-1,true,false,null]}`,
		`{"model":"m","system":[{"text":"a"}],"container":{"skills":[{"skill_id":"skill_1"}]}}`,
		` {"model" : "m" , "a" : [ ] , "b" : { } , "c" : "\"\\\/\b\f\n\r\t" } `,
		`{"input":{"type":"item_reference","id":"`, `{"model":"m","model":"n"}`, `{"model":"m","MODEL":"n"}`, `{"model":"","model":"n"}`, `{"":1,"model":"m"}`, `[{"model":"m"}]`, `{`, `nul`, `-`, `{"model":"m"}}`,
	} {
		for _, ep := range Endpoints {
			f.Add(byte(ep), []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, which byte, body []byte) {
		ep := Endpoints[int(which)%len(Endpoints)]
		before := string(body)
		got, err := ScanRequest(ep, body)
		if string(body) != before {
			t.Fatal("the body was changed")
		}
		if !json.Valid(body) {
			if err == nil {
				t.Fatalf("accepted what encoding/json does not: %q", body)
			}
			return
		}
		var object map[string]json.RawMessage
		isObject := json.Unmarshal(body, &object) == nil && object != nil
		if err != nil {
			e, ok := errors.AsType[*RequestError](err)
			if !ok || e.Offset < 0 || e.Offset > len(body) {
				t.Fatalf("error %#v", err)
			}
			if strings.HasPrefix(e.Message, "invalid JSON") || isObject == strings.Contains(e.Message, "must be a JSON object") {
				t.Fatalf("refused valid JSON %q: %v", body, err)
			}
			var model string
			if keysOf(body) == len(object) && strings.Contains(e.Message, "model") && !strings.Contains(e.Message, "duplicate") &&
				object["model"] != nil && json.Unmarshal(object["model"], &model) == nil && model != "" {
				t.Fatalf("refused model %q: %v", model, err)
			}
			return
		}
		var model string
		if err := json.Unmarshal(object["model"], &model); err != nil || model != got.Model {
			t.Fatalf("model %q, encoding/json says %q (%v)", got.Model, model, err)
		}
		if string(object["model"]) != before[got.ModelStart:got.ModelEnd] {
			t.Fatalf("span %q, encoding/json says %q", before[got.ModelStart:got.ModelEnd], object["model"])
		}
		if stream := string(object["stream"]) == "true" && ep.Streams(); stream != got.Stream {
			t.Fatalf("stream %t in %q", got.Stream, body)
		}
		if n := keysOf(body); n != len(object) {
			t.Fatalf("%d keys, %d distinct, accepted", n, len(object))
		}
	})
}

// keysOf counts an object's own keys.
func keysOf(body []byte) int {
	d := json.NewDecoder(strings.NewReader(string(body)))
	n, depth := 0, 0
	key := false
	for {
		tok, err := d.Token()
		if err != nil {
			return n
		}
		if delim, ok := tok.(json.Delim); ok {
			switch delim {
			case '{', '[':
				depth++
				key = depth == 1
				continue
			default:
				depth--
			}
		} else if depth == 1 && key {
			n++
			key = false
			continue
		}
		if depth == 1 {
			key = true
		}
	}
}
