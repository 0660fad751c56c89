package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"failback/gateway/config"
	"failback/gateway/operator/api"
)

// The state says whether the dead man's switch is held, and nothing of its
// address.
func TestStateSaysWhetherThePingIsHeld(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer far.Close()
	yaml := fmt.Sprintf(`listen: 127.0.0.1:0
data_dir: %q
drain_delay: 0s
telemetry: {decision_log: none}
jobs: {ping: %q}
upstreams: {a: {dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: k}}
models: {m: {candidates: [{upstream: a, model: x}]}}
`, t.TempDir(), far.URL+"/secret-of-the-switch")
	g := New(Options{Load: func(ctx context.Context) (*config.Config, error) {
		return config.Load(ctx, config.Source{Data: []byte(yaml)})
	}})
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	tick, end := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		p := (*control)(g).State(api.You{}).Ping
		if p.LastError != "" {
			if !p.Configured || p.LastErrorAt.IsZero() || !p.LastOK.IsZero() || !strings.Contains(p.LastError, "500") || strings.Contains(fmt.Sprint(p), "secret") {
				t.Errorf("%+v", p)
			}
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%+v", p)
		}
	}
}
