package gateway

import (
	"context"
	"fmt"
	"testing"
	"time"

	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/traffic"
)

// Who would take an upstream's traffic is told by the rules that the loop
// itself goes by.
func TestWhoTakesAnUpstreamsTraffic(t *testing.T) {
	yaml := fmt.Sprintf(`listen: 127.0.0.1:0
data_dir: %q
drain_delay: 0s
telemetry: {decision_log: none}
upstreams:
  a: {dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: k, data_zones: [eu]}
  b: {dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: k2, data_zones: [us]}
models: {m: {candidates: [{upstream: a, model: x}, {upstream: b, model: x}]}}
tasks:
  anywhere: {fallback: any}
  at_home: {fallback: any, data_zones: [eu]}
  alone: {fallback: never}
`, t.TempDir())
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
	check := func(task, to string, because decision.Reason) {
		t.Helper()
		c, why := g.view().otherFor("a", "m", task)
		got := ""
		if c != nil {
			got = c.Upstream.Name
		}
		if got != to || why != because {
			t.Errorf("%s: %q %q, want %q %q", task, got, why, to, because)
		}
	}
	check("anywhere", "b", "")
	check("at_home", "", decision.DataZone)
	check("alone", "", decision.NotAllowed)
	key, _ := g.setup.Load().upstreams["b"].Client.PickKey(0)
	g.book.Failed(g.setup.Load().upstreams["b"].Client, key, decision.Credential)
	check("anywhere", "", decision.ReasonOf(decision.Credential))
	g.book.ClearAll()
	if _, err := g.traffic.Set(traffic.Command{Upstream: "b", Share: 0, By: "test"}); err != nil {
		t.Fatal(err)
	}
	check("anywhere", "", decision.UpstreamDegraded)
}
