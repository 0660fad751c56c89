package gateway_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"failback/gateway"
	"failback/gateway/config"
)

// serve runs a gateway on yaml, to which an address and a data_dir are added.
func serve(t *testing.T, yaml string) string {
	t.Helper()
	full := fmt.Sprintf("listen: 127.0.0.1:0\ndata_dir: %q\ndrain_delay: 0s\ntelemetry: {decision_log: none}\n%s", t.TempDir(), yaml)
	g := gateway.New(gateway.Options{Load: func(ctx context.Context) (*config.Config, error) {
		return config.Load(ctx, config.Source{Data: []byte(full)})
	}})
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return "http://" + g.ClientAddr()
}

func post(t *testing.T, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
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

const plainAnswer = `{"id":"c","object":"chat.completion","model":"x","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`

// What the upstream gets is the client's bytes, but for the model's name and
// the credential; and the client gets the upstream's.
func TestBytesAreRelayed(t *testing.T) {
	var got atomic.Pointer[[]byte]
	var headers atomic.Pointer[http.Header]
	stub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		h := r.Header.Clone()
		got.Store(&b)
		headers.Store(&h)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, plainAnswer)
	}))
	defer stub.Close()
	base := serve(t, fmt.Sprintf("upstreams: {a: {dialect: openai, base_url: %s/v1, api_key: key-of-a}}\nmodels: {m: {candidates: [{upstream: a, model: their-name}]}}\n", stub.URL))
	for name, body := range map[string]string{
		"odd white space": "\r\n\t {  \"messages\" :\n[ {\"role\":\"user\" , \"content\":\"hi\"} ]\t,\"model\"\n:\n\"m\" ,\"max_tokens\":16 }\n\n",
		"numbers":         `{"temperature":1e2,"top_p":0.10000,"seed":-0,"model":"m","n":1E+0,"messages":[]}`,
		"escapes":         `{"model":"\u006d","messages":[{"role":"user","content":"\u00e9\/\ud83d\ude00 \" é"}]}`,
		"unknown fields":  `{"x_unknown":{"deep":[null,true,{"a":{}}]},"model":"m","messages":[],"zz":""}`,
		"5 MiB":           `{"messages":[{"role":"user","content":"` + strings.Repeat("abcdefgh", 5<<17) + `"}],"model":"m"}`,
	} {
		resp, answer := post(t, base+"/v1/chat/completions", body, "Authorization", "Bearer client-key", "Cookie", "secret=1", "X-Forwarded-For", "10.0.0.1")
		if resp.StatusCode != 200 || answer != plainAnswer {
			t.Errorf("%s: %d %q", name, resp.StatusCode, answer)
			continue
		}
		want := strings.Replace(strings.Replace(body, `"\u006d"`, `"m"`, 1), `"m"`, `"their-name"`, 1)
		if !bytes.Equal(*got.Load(), []byte(want)) {
			t.Errorf("%s: the upstream got other bytes (%d, want %d)", name, len(*got.Load()), len(want))
		}
		if h := *headers.Load(); h.Get("Authorization") != "Bearer key-of-a" || h.Get("Cookie") != "" || h.Get("X-Forwarded-For") != "" {
			t.Errorf("%s: headers %v", name, h)
		}
	}
}

func TestAmbiguousBodiesAreRefused(t *testing.T) {
	var seen atomic.Int64
	stub := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	defer stub.Close()
	base := serve(t, fmt.Sprintf("max_request_bytes: 1MiB\nupstreams: {a: {dialect: openai, base_url: %s/v1, api_key: k}}\nmodels: {m: {candidates: [{upstream: a}]}}\n", stub.URL))
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"model twice", `{"model":"m","messages":[],"model":"other"}`, 400},
		{"model twice, escaped", `{"model":"m","\u006dodel":"other","messages":[]}`, 400},
		{"not JSON", `{"model":"m",}`, 400},
		{"no model", `{"messages":[]}`, 400},
		{"trailing bytes", `{"model":"m"} {}`, 400},
		{"unknown model", `{"model":"nobody","messages":[]}`, 404},
		{"too large", `{"model":"m","x":"` + strings.Repeat("x", 1<<20) + `"}`, 413},
	} {
		resp, body := post(t, base+"/v1/chat/completions", c.body)
		if resp.StatusCode != c.status || !strings.Contains(body, `"error"`) || resp.Header.Get("Failback-Status") != "rejected" {
			t.Errorf("%s: %d %s %s", c.name, resp.StatusCode, resp.Header.Get("Failback-Status"), body)
		}
	}
	if seen.Load() != 0 {
		t.Errorf("the upstream saw %d of them", seen.Load())
	}
}

// Missing and unknown keys are the same to the caller, in its dialect.
func TestClientKeys(t *testing.T) {
	stub := httptest.NewServer(chatStub(10))
	defer stub.Close()
	sum := sha256.Sum256([]byte("good"))
	base := serve(t, fmt.Sprintf("keys: [{name: web, hash: \"sha256:%x\", models: [m]}]\nupstreams:\n  a: {dialect: openai, base_url: %s/v1, api_key: k}\n  c: {dialect: anthropic, base_url: %s, api_key: k}\nmodels:\n  m: {candidates: [{upstream: a}]}\n  second: {candidates: [{upstream: a}, {upstream: c}]}\n", sum, stub.URL, stub.URL))
	const chat, messages = "/v1/chat/completions", "/v1/messages"
	body := func(model string) string { return `{"model":"` + model + `","max_tokens":1,"messages":[]}` }
	var bodies []string
	for _, h := range [][]string{nil, {"Authorization", "Bearer bad"}, {"X-Api-Key", "bad"}} {
		resp, b := post(t, base+chat, body("m"), append([]string{"X-Request-Id", "r"}, h...)...)
		if resp.StatusCode != 401 {
			t.Errorf("%v: %d", h, resp.StatusCode)
		}
		bodies = append(bodies, b)
	}
	if bodies[0] != bodies[1] || bodies[1] != bodies[2] {
		t.Errorf("a caller can tell them apart: %q", bodies)
	}
	if resp, b := post(t, base+messages, body("second"), "X-Api-Key", "bad"); resp.StatusCode != 401 || !strings.Contains(b, "authentication_error") {
		t.Errorf("messages: %d %s", resp.StatusCode, b)
	}
	if resp, b := post(t, base+chat, body("m"), "Authorization", "Bearer good"); resp.StatusCode != 200 {
		t.Errorf("a good key: %d %s", resp.StatusCode, b)
	}
	if resp, b := post(t, base+chat, body("second"), "Authorization", "Bearer good"); resp.StatusCode != 403 {
		t.Errorf("a model that is not the key's: %d %s", resp.StatusCode, b)
	}
	resp, err := http.Get(base + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 401 {
		t.Errorf("models without a key: %d", resp.StatusCode)
	}
}

// The client's error names attempts by alias and class, and no host, key or
// word of the upstream's.
func TestErrorsTellNoSecrets(t *testing.T) {
	stub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(503)
		fmt.Fprint(w, `{"error":{"message":"CANARY-PROSE","type":"CANARY-TYPE","code":"CANARY-CODE"}}`)
	}))
	defer stub.Close()
	base := serve(t, fmt.Sprintf("retry: {base: 1ms, cap: 1ms}\nupstreams:\n  a: {dialect: openai, base_url: %s/v1, api_key: CANARY-KEY}\n  b: {dialect: openai, base_url: \"http://127.0.0.1:1/v1\", api_key: CANARY-KEY}\nmodels: {m: {candidates: [{upstream: a}, {upstream: b, weight: 1}]}}\ntasks: {person: {fallback: never, on_unavailable: human}}\n", stub.URL))
	resp, body := post(t, base+"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"CANARY-PROMPT"}]}`)
	if resp.StatusCode < 500 || resp.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d, x-should-retry %q", resp.StatusCode, resp.Header.Get("X-Should-Retry"))
	}
	for _, want := range []string{`"a"`, `"b"`, "overloaded", "connect"} {
		if !strings.Contains(body, want) {
			t.Errorf("the error lacks %s: %s", want, body)
		}
	}
	all := body + fmt.Sprint(resp.Header)
	for _, secret := range []string{"CANARY", "127.0.0.1", stub.URL} {
		if strings.Contains(all, secret) {
			t.Errorf("the client was told %q: %s", secret, all)
		}
	}
	resp, body = post(t, base+"/v1/chat/completions", `{"model":"m","messages":[]}`, "Failback-Task", "person")
	if resp.StatusCode != 503 || !strings.Contains(body, "human_not_available") || resp.Header.Get("Failback-Status") != "unavailable" || resp.Header.Get("Failback-Reason") != "overloaded" {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
}

// Above max_inflight the answer is 503 with Retry-After, and the slot comes back.
func TestInFlightIsBounded(t *testing.T) {
	release := make(chan struct{})
	var waiting atomic.Int64
	stub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		waiting.Add(1)
		<-release
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, plainAnswer)
	}))
	defer stub.Close()
	base := serve(t, fmt.Sprintf("max_inflight: 2\nupstreams: {a: {dialect: openai, base_url: %s/v1, api_key: k}}\nmodels: {m: {candidates: [{upstream: a}]}}\n", stub.URL))
	const body = `{"model":"m","messages":[]}`
	done := make(chan int, 2)
	for range 2 {
		go func() {
			resp, err := http.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				done <- 0
				return
			}
			_ = resp.Body.Close()
			done <- resp.StatusCode
		}()
	}
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for waiting.Load() < 2 {
		select {
		case <-deadline:
			t.Fatal("the first two never arrived")
		case <-tick.C:
		}
	}
	resp, text := post(t, base+"/v1/chat/completions", body)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Failback-Status") != "refused" {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, text)
	}
	close(release)
	for range 2 {
		if status := <-done; status != 200 {
			t.Errorf("one of the first got %d", status)
		}
	}
	if resp, text := post(t, base+"/v1/chat/completions", body); resp.StatusCode != 200 {
		t.Errorf("afterwards: %d %s", resp.StatusCode, text)
	}
}

// A held answer that takes long: signs of life first, then the whole answer,
// and in trailers what the head could not say. Where it fails after a sign of
// life, one error event and a broken connection.
func TestAHeldAnswerKeepsItsClientAlive(t *testing.T) {
	t.Parallel()
	stub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		select {
		case <-time.After(10500 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
		if strings.Contains(string(b), "fail") {
			w.WriteHeader(503)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer stub.Close()
	base := serve(t, fmt.Sprintf("upstreams: {a: {dialect: openai, base_url: %s/v1, api_key: k}}\nmodels: {m: {candidates: [{upstream: a}]}}\nretry: {attempts: 1}\ntasks: {held: {fallback: any, release: complete}}\n", stub.URL))
	send := func(content string) (*http.Response, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/chat/completions",
			strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"`+content+`"}]}`))
		if err != nil {
			return nil, "", err
		}
		req.Header.Set("Failback-Task", "held")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp, string(b), err
	}
	failed := make(chan string, 1)
	go func() {
		_, body, err := send("fail")
		if err == nil {
			body = "no error at all: " + body
		}
		failed <- body
	}()
	resp, body, err := send("hi")
	if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(body, ":") || !strings.HasSuffix(body, "data: [DONE]\n\n") || !strings.Contains(body, `"hi"`) {
		t.Errorf("%v %q", err, body)
	}
	if resp.Trailer.Get("Failback-Status") != "completed" || resp.Trailer.Get("Failback-Upstream") != "a" {
		t.Errorf("trailers %v", resp.Trailer)
	}
	if body := <-failed; strings.Count(body, `"error"`) != 1 || strings.Contains(body, "[DONE]") || !strings.HasPrefix(body, ":") {
		t.Errorf("a failure after a sign of life: %q", body)
	}
}
