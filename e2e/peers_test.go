package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"failback/gateway/operator/api"
)

// Two gateways of one store name each other, each other's consoles and who wrote
// last. One that is killed has been silent for 30 s before it is said not to
// answer; started again it is the same one; one that stops takes leave.
func TestGatewaysKnowEachOther(t *testing.T) {
	if testing.Short() {
		t.Skip("requires a minute in which a gateway is silent")
	}
	t.Parallel()
	server := natsServer(t, t.TempDir(), natsserver.RANDOM_PORT)
	a, b := newStub(t), newStub(t)
	more := fmt.Sprintf("store: {nats: %q}\n", server.ClientURL())
	named := func(name string) func(*exec.Cmd) {
		return func(c *exec.Cmd) { c.Args = append(c.Args, "--instance", name) }
	}
	one := startAs(t, configure(t, t.TempDir(), a, b, more), named("gw-1"))
	path := configure(t, t.TempDir(), a, b, more)
	two := startAs(t, path, named("gw-2"))
	seen := func(r *running) string {
		var l []string
		for _, g := range r.state(t).Gateways {
			text := g.Instance
			if g.You {
				text += " here"
			}
			if !g.Answers {
				text += " silent"
			}
			l = append(l, text)
		}
		return strings.Join(l, ", ")
	}
	until(t, "both know both", func() bool { return seen(one) == "gw-1 here, gw-2" && seen(two) == "gw-1, gw-2 here" })

	if _, err := two.client.SetShare(t.Context(), "b", api.Command{Share: new(25), Reason: "it is slow"}); err != nil {
		t.Fatal(err)
	}
	until(t, "the one says who wrote last at the other", func() bool {
		w := one.state(t).LastWrite
		return w != nil && w.Provider == "b" && w.To == "25" && w.Why == "it is slow"
	})
	console, err := api.NewClient("unix:"+filepath.Join(two.dir, "failback.sock"), api.Options{Session: "c0ns0le"})
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	if _, err := console.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the console of the other is told", func() bool {
		for _, s := range one.state(t).Sessions {
			if s.Instance == "gw-2" && !s.You {
				return true
			}
		}
		return false
	})

	two.kill()
	killed := time.Now()
	gone := time.NewTimer(time.Minute)
	defer gone.Stop()
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for seen(one) != "gw-1 here, gw-2 silent" {
		select {
		case <-poll.C:
		case <-gone.C:
			t.Fatalf("a minute after it was killed: %s", seen(one))
		}
	}
	// It may have spoken up to 10 s before it was killed.
	if after := time.Since(killed); after < 20*time.Second {
		t.Errorf("said to be silent %s after it was killed", after)
	}
	for _, s := range one.state(t).Sessions {
		if s.Instance == "gw-2" {
			t.Errorf("a console of the killed gateway: %+v", s)
		}
	}
	out, _, _ := cli(t, one.dir, "status")
	if !strings.Contains(out, "gw-1 (this one), gw-2 SILENT for") {
		t.Errorf("status shows\n%s", out)
	}
	again := startAs(t, path, named("gw-2"))
	until(t, "it is back", func() bool { return seen(one) == "gw-1 here, gw-2" && seen(again) == "gw-1, gw-2 here" })
	if err := again.term(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
	until(t, "it has taken leave", func() bool { return seen(one) == "gw-1 here" })
}
