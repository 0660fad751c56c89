package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"failback/gateway"
	"failback/gateway/config"
)

// BenchmarkProxied is one whole proxied request, through the gateway with all
// checks on and through a bare httputil.ReverseProxy, on the same stub. Memory
// and allocations are those of client and stub too.
func BenchmarkProxied(b *testing.B) {
	for _, load := range []struct {
		name, stream string
		size         int
	}{{"1KB", "", 1 << 10}, {"100KB", "", 100 << 10}, {"1024KB", "", 1 << 20}, {"stream", `,"stream":true`, 1 << 10}} {
		answer := chatStub(load.size)
		if load.stream != "" {
			answer = streamStub
		}
		stub := httptest.NewServer(answer)
		defer stub.Close()
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"max_tokens":16%s}`, strings.Repeat("hello ", load.size/6), load.stream)
		b.Run("failback/"+load.name, func(b *testing.B) {
			benchClient(b, startGateway(b, stub.URL)+"/v1/chat/completions", body)
		})
		b.Run("ReverseProxy/"+load.name, func(b *testing.B) {
			to, err := url.Parse(stub.URL)
			if err != nil {
				b.Fatal(err)
			}
			reverse := &httputil.ReverseProxy{
				Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
				Transport: &http.Transport{MaxIdleConnsPerHost: 256},
			}
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				// Without it a large body and its answer get in each other's way.
				if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
					b.Error(err)
				}
				reverse.ServeHTTP(w, r)
			}))
			defer proxy.Close()
			benchClient(b, proxy.URL+"/v1/chat/completions", body)
		})
	}
}

func chatStub(size int) http.HandlerFunc {
	answer := fmt.Appendf(nil, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, strings.Repeat("word ", size/5))
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}
}

// streamStub answers with 60 frames, each flushed by itself.
func streamStub(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for range 59 {
		_, _ = io.WriteString(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"},\"finish_reason\":null}]}\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = io.WriteString(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

func benchClient(b *testing.B, target, body string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		resp, err := client.Post(target, "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || n < 100 {
			b.Fatalf("%d, %d bytes, %v", resp.StatusCode, n, err)
		}
	}
}

// startGateway serves one upstream at stubURL as model m and returns its URL.
func startGateway(tb testing.TB, stubURL string) string {
	tb.Helper()
	yaml := fmt.Sprintf("listen: 127.0.0.1:0\ndata_dir: %s\ndrain_delay: 0s\ntelemetry: {decision_log: none}\nupstreams:\n  a: {dialect: openai, base_url: %s/v1, api_key: key}\nmodels:\n  m: {candidates: [{upstream: a}]}\n", tb.TempDir(), stubURL)
	g := gateway.New(gateway.Options{Load: func(ctx context.Context) (*config.Config, error) {
		return config.Load(ctx, config.Source{Data: []byte(yaml)})
	}})
	if err := g.Start(context.Background()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			tb.Error(err)
		}
	})
	return "http://" + g.ClientAddr()
}
