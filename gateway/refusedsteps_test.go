package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"failback/gateway/config"
	"failback/gateway/operator"
	"failback/gateway/operator/api"
)

// A refusal tells of the override where one helps, and nowhere else.
func TestRefusedStepsSayWhatHelps(t *testing.T) {
	yaml := fmt.Sprintf(`listen: 127.0.0.1:0
data_dir: %q
drain_delay: 0s
telemetry: {decision_log: none}
upstreams:
  a: {dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: k, probe: {every: 1h}}
  b: {dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: k2, probe: {every: 1h}}
models: {m: {candidates: [{upstream: a, model: x}, {upstream: b, model: x}]}}
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
	c, ana := (*control)(g), operator.Actor{Name: "ana", Role: api.RoleOperator}
	refused := func(what string, helps bool, err error) {
		t.Helper()
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != api.CodeBlocked || e.Upstream == nil || strings.Contains(e.Hint, "--override") != helps {
			t.Errorf("%s: %#v", what, err)
		}
	}
	revision := func() *uint64 {
		s, _ := g.traffic.Get("a")
		return &s.Revision
	}
	share := func(n int) *int { return &n }

	_, err := c.SetShare(t.Context(), ana, "a", api.Command{Action: api.ActionPlan, Revision: revision()})
	refused("a plan without a failback", false, err)
	_, err = c.SetShare(t.Context(), ana, "a", api.Command{Undo: true})
	refused("nothing to put back", false, err)
	_, err = c.SetState(t.Context(), ana, "a", api.Command{State: api.Recovering, Revision: revision()})
	refused("nothing to recover from", false, err)
	if _, err := c.SetState(t.Context(), ana, "a", api.Command{State: api.Degraded}); err != nil {
		t.Fatal(err)
	}
	_, err = c.SetState(t.Context(), ana, "a", api.Command{State: api.Recovering, Revision: revision()})
	refused("recovering without evidence", true, err)
	_, err = c.SetShare(t.Context(), ana, "a", api.Command{Share: share(25), Revision: revision()})
	refused("over a step", true, err)
	res, err := c.SetState(t.Context(), ana, "a", api.Command{State: api.Recovering, Revision: revision(), Override: true, Reason: "sure"})
	if err != nil || res.Upstream.Share != 5 || res.Upstream.Health != api.Recovering {
		t.Errorf("the override: %+v, %v", res, err)
	}
}
