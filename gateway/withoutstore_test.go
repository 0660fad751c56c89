package gateway

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"failback/gateway/config"
	"failback/gateway/operator/api"
)

// A lowering that the store could not take is in force again after an orderly stop
// and a start, and then in the store.
func TestUnsyncedLoweringOutlivesAStop(t *testing.T) {
	stored := t.TempDir()
	server := onNATS(t, stored, 0)
	url := server.ClientURL()
	var port int
	if _, err := fmt.Sscanf(url[strings.LastIndexByte(url, ':')+1:], "%d", &port); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	yaml := fmt.Sprintf(`listen: 127.0.0.1:0
data_dir: %q
drain_delay: 0s
telemetry: {decision_log: none}
upstreams: {a: {dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: k}}
models: {m: {candidates: [{upstream: a, model: x}]}}
store: {nats: %q}
`, dir, url)
	begin := func() *Gateway {
		g := New(Options{Instance: "g", Load: func(ctx context.Context) (*config.Config, error) {
			return config.Load(ctx, config.Source{Data: []byte(yaml)})
		}})
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return g
	}
	end := func(g *Gateway) error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return g.Stop(ctx)
	}
	share := func(g *Gateway) (int, bool) {
		s, _ := g.traffic.Get("a")
		return s.Share, s.Unsynced
	}

	g := begin()
	server.Shutdown()
	server.WaitForShutdown()
	r, err := commands(t, dir).SetShare(t.Context(), "a", api.Command{Share: new(0), Reason: "it answers nonsense"})
	if err != nil {
		t.Fatal(err)
	}
	if s, unsynced := share(g); s != 0 || !unsynced {
		t.Fatalf("share %d, unsynced %v: %+v", s, unsynced, r)
	}
	if err := end(g); err == nil || !strings.Contains(err.Error(), "a (0%)") || !strings.Contains(err.Error(), "for the next start") {
		t.Errorf("stopped: %v", err)
	}

	onNATS(t, stored, port)
	g = begin()
	if s, _ := share(g); s != 0 {
		t.Errorf("after the restart the share is %d%%", s)
	}
	eventually(t, "it is written", func() bool {
		s, unsynced := share(g)
		_, err := os.Stat(filepath.Join(dir, "shares.unsynced"))
		return s == 0 && !unsynced && os.IsNotExist(err)
	})
	if err := end(g); err != nil {
		t.Error(err)
	}
	g = begin()
	if s, unsynced := share(g); s != 0 || unsynced {
		t.Errorf("after another restart: share %d, unsynced %v", s, unsynced)
	}
	if err := end(g); err != nil {
		t.Error(err)
	}
}

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
