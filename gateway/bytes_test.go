package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"failback/gateway/wire"
)

// mirror keeps what it was asked last and answers with what it is told to.
type mirror struct {
	*httptest.Server

	mu     sync.Mutex // guards everything that follows
	n      int
	header http.Header
	path   string
	body   []byte
	answer string
	kind   string
	more   http.Header
}

func newMirror(t *testing.T) *mirror {
	m := &mirror{kind: "application/json"}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		body = []byte(err.Error())
	}
	m.n++
	m.header, m.path, m.body = r.Header.Clone(), r.URL.RequestURI(), body
	for name, values := range m.more {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", m.kind)
	_, _ = io.WriteString(w, m.answer)
}

func (m *mirror) answers(kind, answer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kind, m.answer = kind, answer
}

func (m *mirror) saw() (n int, path string, h http.Header, body []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n, m.path, m.header, m.body
}

// serveMirror starts a gateway before m, as model "m" in both dialects.
func serveMirror(t *testing.T, m *mirror, more string) string {
	t.Helper()
	return serve(t, fmt.Sprintf(`upstreams:
  o: {dialect: openai, base_url: "%[1]s/v1", api_key: key-of-o}
  a: {dialect: anthropic, base_url: "%[1]s", api_key: key-of-a}
models:
  m: {candidates: [{upstream: o, model: their/name-1}, {upstream: a, model: their/name-1}]}
  ft:m/x: {candidates: [{upstream: o, model: "y"}, {upstream: a, model: "y"}]}
%[2]s`, m.URL, more))
}

// wholeAnswer is an answer of ep whose bytes no encoder would write.
func wholeAnswer(ep wire.Endpoint) string {
	path := strings.TrimPrefix(ep.ClientPath(), "/v1/")
	return " \n" + strings.ReplaceAll(replyOf(path, "one", false).whole, `,"`, " ,\t\r\n \"") + "\n\n"
}

// What the upstream gets is the client's bytes but for the model's name, and
// what the client gets is the upstream's, at every endpoint.
func TestBytesAreRelayed(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	base := serveMirror(t, m, "")
	const name, other = `"their/name-1"`, `"y"`
	for _, c := range []struct{ what, before, model, after, want string }{
		{"odd white space", "\r\n\t {  \"messages\" :\n[ {\"role\":\"user\" , \"content\":\"hi\"} ]\t,\"model\"\n:\n", `"m"`, " ,\"max_tokens\":16 }\n\n", name},
		{"numbers", `{"temperature":1e2,"top_p":0.10000,"seed":-0,"n":1E+0,"big":123456789012345678901234567890,"model":`, `"m"`, `,"max_tokens":1,"messages":[]}`, name},
		{"escapes", `{"messages":[{"role":"user","content":"\u00e9\/\ud83d\ude00\u0000 \" é"}],"m\u006fre":1,"model":`, `"\u006d"`, `,"x":"\u2028"}`, name},
		{"an escaped key", `{"messages":[],"mod\u0065l":`, `"m"`, `}`, name},
		{"an escaped slash", `{"messages":[],"model":`, `"ft:m\/x"`, `}`, other},
		{"unknown fields", `{"x_unknown":{"deep":[null,true,{"model":"m","a":{}}]},"model":`, `"m"`, `,"messages":[],"zz":"","input":{"model":"m"}}`, name},
		{"5 MiB before", `{"messages":[{"role":"user","content":"` + strings.Repeat("abcdefgh", 5<<17) + `"}],"model":`, `"m"`, `}`, name},
		{"5 MiB after", `{"model":`, `"m"`, `,"messages":[{"role":"user","content":"` + strings.Repeat("abcdefgh", 5<<17) + `"}]}`, name},
	} {
		for _, ep := range wire.Endpoints {
			m.answers("application/json", wholeAnswer(ep))
			body := c.before + c.model + c.after
			for _, length := range []int64{int64(len(body)), -1} {
				resp, answer := postLength(t, base+ep.ClientPath(), body, length)
				_, path, _, got := m.saw()
				if resp.StatusCode != 200 || answer != wholeAnswer(ep) || resp.ContentLength != int64(len(answer)) {
					t.Errorf("%s, %s: %d %q, announced as %d bytes", ep, c.what, resp.StatusCode, answer, resp.ContentLength)
				}
				if want := c.before + c.want + c.after; !bytes.Equal(got, []byte(want)) {
					t.Errorf("%s, %s: the upstream got %d bytes, want %d", ep, c.what, len(got), len(want))
				}
				if path != ep.ClientPath() {
					t.Errorf("%s was sent to %s", ep, path)
				}
			}
		}
	}
}

// postLength posts a body that is announced with its length, or with none.
func postLength(t *testing.T, url, body string, length int64) (*http.Response, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.ContentLength = length
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// Frames come out as they went in, whatever they are made of.
func TestStreamsAreRelayedByteForByte(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	base := serveMirror(t, m, "")
	for _, c := range []struct{ what, path, stream string }{
		{"chat", "/v1/chat/completions", "\ufeff: hello\n\nretry: 10\nid: 1\r\ndata: {\"choices\":[]}\r\n\r\n" +
			"data: {\"id\":\"c\",\ndata:  \"choices\": [{\"index\":0,\"delta\":{\"content\":\"h\\u0069\"}}]}\n\n:\n\n" +
			"event: x_unknown\ndata: {\"n\": 1e2 }\n\nfoo: bar\ndata:{\"choices\":null}\r\r" +
			"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n: after\n\n"},
		{"one large frame", "/v1/chat/completions", frame(`{"choices":[{"index":0,"delta":{"content":"`+strings.Repeat("x", 1<<20)+`"},"finish_reason":"stop"}]}`) + "data: [DONE]"},
		{"messages", "/v1/messages", event(`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1e0}}}`) +
			"event: ping\r\ndata: {\"type\": \"ping\"}\r\n\r\n" + event(`{"type":"x_unknown","y":[1.50]}`) +
			event(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`) +
			event(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"a\/b"}}`) +
			event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`) + event(`{"type":"message_stop"}`)},
		{"responses", "/v1/responses", replyOf("responses", "one", true).preamble + replyOf("responses", "one", true).first + replyOf("responses", "one", true).rest},
	} {
		m.answers("text/event-stream; charset=utf-8", c.stream)
		resp, got := post(t, base+c.path, `{"model":"m","stream":true,"messages":[]}`)
		if got != c.stream || resp.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" || resp.ContentLength >= 0 {
			t.Errorf("%s: %v\n got %q\nwant %q", c.what, resp.Header, got, c.stream)
		}
	}
}

// Headers pass by name only, in both directions.
func TestOnlyListedHeadersPass(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	m.more = http.Header{
		"X-Ratelimit-Remaining-Requests": {"7"}, "Anthropic-Ratelimit-Requests-Limit": {"9"}, "Openai-Processing-Ms": {"12"},
		"Set-Cookie": {"a=b"}, "Server": {"theirs"}, "X-Request-Id": {"theirs"}, "Request-Id": {"theirs"}, "Openai-Organization": {"org"},
		"Retry-After": {"9"}, "X-Should-Retry": {"true"}, "Failback-Route": {"theirs"}, "Location": {"http://theirs"},
	}
	base := serveMirror(t, m, "")
	secrets := []string{
		"Authorization", "Bearer client-key", "X-Api-Key", "client-key", "Api-Key", "client-key", "Cookie", "s=1", "X-Forwarded-For", "10.0.0.1", "Forwarded", "for=10.0.0.1",
		"OpenAI-Organization", "org", "OpenAI-Project", "p", "Idempotency-Key", "i-1", "Failback-Task", "secret-task", "Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"X-Stainless-Os", "Linux", "Referer", "http://intranet", "X-Request-Id", "ours-1",
		"Anthropic-Version", "2023-06-01", "Anthropic-Beta", "b1", "OpenAI-Beta", "b2",
	}
	for _, ep := range wire.Endpoints {
		m.answers("application/json", wholeAnswer(ep))
		resp, body := post(t, base+ep.ClientPath(), `{"model":"m","messages":[]}`, secrets...)
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %d %s", ep, resp.StatusCode, body)
		}
		_, _, h, _ := m.saw()
		allowed := map[string]string{
			"Content-Type": "application/json", "Content-Length": fmt.Sprint(len(`{"model":"their/name-1","messages":[]}`)),
			"User-Agent": h.Get("User-Agent"), "Accept": h.Get("Accept"), "Accept-Encoding": h.Get("Accept-Encoding"),
			"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", // as it came: nothing is traced here
		}
		if ep == wire.Messages || ep == wire.CountTokens {
			allowed["X-Api-Key"], allowed["Anthropic-Version"], allowed["Anthropic-Beta"] = "key-of-a", "2023-06-01", "b1"
		} else {
			allowed["Authorization"], allowed["Openai-Beta"] = "Bearer key-of-o", "b2"
		}
		for name, values := range h {
			if want, ok := allowed[name]; !ok || len(values) != 1 || values[0] != want {
				t.Errorf("%s: the upstream got %s: %q, want %q", ep, name, values, want)
			}
			delete(allowed, name)
		}
		for name, want := range allowed {
			if want != "" {
				t.Errorf("%s: the upstream did not get %s: %s", ep, name, want)
			}
		}
		for name, want := range map[string]string{
			"X-Ratelimit-Remaining-Requests": "7", "Anthropic-Ratelimit-Requests-Limit": "9", "Openai-Processing-Ms": "12",
			"Set-Cookie": "", "Server": "", "X-Request-Id": "ours-1", "Request-Id": "", "Openai-Organization": "", "Retry-After": "",
			"X-Should-Retry": "", "Failback-Route": "primary", "Location": "",
		} {
			if got := strings.Join(resp.Header.Values(name), ","); got != want {
				t.Errorf("%s: the client got %s: %q, want %q", ep, name, got, want)
			}
		}
	}
}
