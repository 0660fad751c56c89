package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"failback/gateway/operator/api"
)

// An upstream taken to 0 while it fails is probed as fast as its breaker would
// be. The way back is barred until it proved itself, needs no override then, and
// no client was asked to prove it.
func TestProbesOpenTheWayBack(t *testing.T) {
	a, b := newStub(t), newStub(t)
	g := start(t, configure(t, t.TempDir(), a, b, "breaker: {cooldown: 1s, cooldown_max: 1s}\n"))
	state := func() string { return bucket(t, g, "a:text").State }
	a.broken.Store(true)
	until(t, "the breaker opens", func() bool {
		chatAll(t, g.url, []string{"u1", "u2", "u3"})
		return state() == "open"
	})
	g.step(t, "a", 0)
	clients, probes := a.seen.Load(), a.probes.Load()
	until(t, "it is probed", func() bool { return a.probes.Load() >= probes+3 })
	if next := g.upstream(t, "a").NextStep; next.Share != 5 || next.BlockedBy == "" {
		t.Errorf("the way back is open while it fails: %+v", next)
	}
	u := g.upstream(t, "a")
	first := 5
	if _, err := g.client.SetShare(t.Context(), "a", api.Command{Share: &first, Revision: &u.Revision}); err == nil {
		t.Error("it was sent traffic while its probes fail")
	}
	a.broken.Store(false)
	until(t, "the way back is open", func() bool {
		chatAll(t, g.url, []string{"u1", "u2", "u3"})
		return g.upstream(t, "a").NextStep.BlockedBy == ""
	})
	if n := a.seen.Load() - clients; n > 0 {
		t.Errorf("%d requests of clients proved that it is back", n)
	}
	if got := state(); got != "closed" {
		t.Errorf("its breaker is %s", got)
	}
	u = g.upstream(t, "a")
	if _, err := g.client.SetShare(t.Context(), "a", api.Command{Share: &first, Revision: &u.Revision}); err != nil {
		t.Error(err)
	}
	if u := g.upstream(t, "a"); u.Share != 5 || u.Health != api.Recovering || u.NextStep.BlockedBy == "" {
		t.Errorf("at the first step, without evidence: %+v", u)
	}
}

// A file that is broken in the middle of an incident bars no command.
func TestABrokenFileBarsNoCommand(t *testing.T) {
	path := configure(t, t.TempDir(), newStub(t), newStub(t), "")
	g := start(t, path)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(b, "models: {\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := cli(t, filepath.Dir(path), "step", "a", "0", "--config", path); code != 0 {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if got := g.upstream(t, "a").Share; got != 0 {
		t.Errorf("share %d%%", got)
	}
}
