package gateway_test

import (
	"context"
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
