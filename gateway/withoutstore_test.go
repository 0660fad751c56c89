package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"failback/gateway/config"
)

// A gateway whose store is away at its start says where the store is, why it
// does not start without it, and what can be done.
func TestStartWithoutTheStore(t *testing.T) {
	server := onNATS(t, t.TempDir(), 0)
	address := strings.TrimPrefix(server.ClientURL(), "nats://")
	server.Shutdown()
	server.WaitForShutdown()
	yaml := fmt.Sprintf(`listen: 127.0.0.1:0
data_dir: %q
upstreams: {a: {dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: k}}
models: {m: {candidates: [{upstream: a, model: x}]}}
store: {nats: "nats://me:s3cret@%s"}
`, t.TempDir(), address)
	g := New(Options{Load: func(ctx context.Context) (*config.Config, error) {
		return config.Load(ctx, config.Source{Data: []byte(yaml)})
	}})
	err := g.Start(t.Context())
	if err == nil {
		t.Fatal("it started")
	}
	text := err.Error()
	for _, want := range []string{
		address, "store.nats", "tried for 5s", "refused", "does not start", "share table", "from which upstreams operators took traffic",
		"take store out of the configuration", "data_dir/store",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q: %s", want, text)
		}
	}
	for _, not := range []string{"outbound buffer", "s3cret", "it is tried again by itself", "bucket"} {
		if strings.Contains(text, not) {
			t.Errorf("it says %q: %s", not, text)
		}
	}
}
