package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// An upstream taken to 0 while it fails has a breaker whose probe waits for
// traffic. The first step brings it, and needs no override.
func TestTheFirstStepBringsTheProbe(t *testing.T) {
	a, b := newStub(t), newStub(t)
	g := start(t, configure(t, t.TempDir(), a, b, "breaker: {cooldown: 1s}\n"))
	state := func() string {
		for _, bucket := range g.upstream(t, "a").Breakers {
			if bucket.Capability == "text" {
				if bucket.ProbeDue {
					return "due"
				}
				return bucket.State
			}
		}
		return ""
	}
	a.broken.Store(true)
	until(t, "the breaker opens", func() bool {
		chatAll(t, g.url, []string{"u1", "u2", "u3"})
		return state() == "open"
	})
	g.step(t, "a", 0)
	a.broken.Store(false)
	until(t, "a probe is due", func() bool { return state() == "due" })
	if next := g.upstream(t, "a").NextStep; next.Share != 5 || next.BlockedBy != "" {
		t.Errorf("the way back is barred: %+v", next)
	}
	g.step(t, "a", 5)
	i := 0
	until(t, "the breaker closes", func() bool {
		i++
		chatAll(t, g.url, []string{"member" + string(rune('a'+i%26)) + string(rune('a'+i/26%26))})
		return state() == "closed"
	})
	g.step(t, "a", 25)
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
