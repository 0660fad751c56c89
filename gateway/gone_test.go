package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"failback/gateway"
	"failback/gateway/config"
)

// A client that left before anything was sent got nothing: the decision says
// so in the one way that access logs have for it, wherever the request was.
func TestAClientThatLeftIsRecordedAs499(t *testing.T) {
	reached := make(chan struct{}, 1)
	stub := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		reached <- struct{}{}
		<-r.Context().Done()
	}))
	defer stub.Close()
	yaml := fmt.Sprintf("listen: 127.0.0.1:0\ndata_dir: %q\ndrain_delay: 0s\nupstreams: {a: {dialect: openai, base_url: %s/v1, api_key: k}}\nmodels: {m: {candidates: [{upstream: a}]}}\n", t.TempDir(), stub.URL)
	var lines bytes.Buffer // complete once the gateway has stopped
	g := gateway.New(gateway.Options{Stdout: &lines, Load: func(ctx context.Context) (*config.Config, error) {
		return config.Load(ctx, config.Source{Data: []byte(yaml)})
	}})
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"model":"m","messages":[]}`, `{"model":"m","stream":true,"messages":[]}`} {
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.ClientAddr()+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		go func() { <-reached; leave() }()
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
			t.Errorf("an answer, %d, where none was", resp.StatusCode)
		}
		leave()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range bytes.Lines(lines.Bytes()) {
		var d struct {
			Event  string `json:"event"`
			Status string `json:"workflow_status"`
			HTTP   int    `json:"http_status"`
		}
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		if d.Event != "model_route_selected" {
			continue
		}
		seen++
		if d.Status != "cancelled" || d.HTTP != 499 {
			t.Errorf("recorded as %s with %d", d.Status, d.HTTP)
		}
	}
	if seen != 2 {
		t.Errorf("%d decisions, want 2", seen)
	}
}
