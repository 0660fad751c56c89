package e2e

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"failback/gateway/operator/api"
)

// natsServer runs a NATS server with JetStream on loopback.
func natsServer(t *testing.T, dir string, port int) *natsserver.Server {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server does not take connections")
	}
	return s
}

// anyNATSServer is a natsServer on a port that is free, and where it is.
func anyNATSServer(t *testing.T, dir string) (server *natsserver.Server, address string, port int) {
	t.Helper()
	server = natsServer(t, dir, natsserver.RANDOM_PORT)
	port = server.Addr().(*net.TCPAddr).Port
	return server, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), port
}

// Two gateways on one store have one share per upstream: what an operator does
// at one is in force at the other, who is inside a share is so at both, a stale
// command is refused at either, and both serve on while the store is away.
func TestGatewaysShareAStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, address, port := anyNATSServer(t, dir)
	a, b := newStub(t), newStub(t)
	more := fmt.Sprintf("store: {nats: %q}\n", "nats://"+address)
	one := start(t, configure(t, t.TempDir(), a, b, more))
	two := start(t, configure(t, t.TempDir(), a, b, more))
	if s := two.state(t); s.Store.Kind != "nats" || s.Scope == "this gateway only" {
		t.Errorf("store %+v, scope %q", s.Store, s.Scope)
	}

	share := func(r *running, to int) api.Upstream {
		t.Helper()
		until(t, fmt.Sprintf("the share is %d%%", to), func() bool { return r.upstream(t, "a").Share == to })
		return r.upstream(t, "a")
	}
	lower := func(r *running, to int) {
		t.Helper()
		if _, err := r.client.SetShare(t.Context(), "a", api.Command{Share: &to, Reason: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	lower(one, 25)
	u, v := share(one, 25), share(two, 25)
	if u.FailbackID != v.FailbackID || u.Revision != v.Revision || v.Health != api.Recovering {
		t.Errorf("one has %s rev %d, the other %s rev %d %s", u.FailbackID, u.Revision, v.FailbackID, v.Revision, v.Health)
	}
	users := make([]string, 200)
	for i := range users {
		users[i] = fmt.Sprintf("user-%d", i)
	}
	a.members()
	chatAll(t, one.url, users)
	inside := a.members()
	chatAll(t, two.url, users)
	again := a.members()
	if len(inside) == 0 || len(inside) != len(again) {
		t.Errorf("%d are inside at one, %d at the other", len(inside), len(again))
	}
	for who := range inside {
		if again[who] == 0 {
			t.Errorf("%s is inside at one gateway alone", who)
		}
	}

	seventyFive := 75
	if _, err := two.client.SetShare(t.Context(), "a", api.Command{Share: &seventyFive, Revision: &v.Revision, Override: true, Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	share(one, 75)
	if _, err := one.client.SetShare(t.Context(), "a", api.Command{Share: new(100), Revision: &u.Revision, Override: true, Reason: "stale"}); err == nil {
		t.Error("a command based on the revision before the other gateway's was taken")
	}

	// So are a forced breaker and a passthrough, and their ends.
	forced := func(r *running) string {
		for _, b := range r.upstream(t, "b").Breakers {
			if b.Bucket == "b:tools" {
				return b.Forced
			}
		}
		return "no such bucket"
	}
	for _, action := range []string{"open", "auto"} {
		if _, err := one.client.SetBreaker(t.Context(), "b:tools", api.Command{Action: action, Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		want := strings.TrimPrefix(action, "auto")
		until(t, "the breaker is forced at both: "+action, func() bool { return forced(one) == want && forced(two) == want })
	}
	for _, action := range []string{"on", "off"} {
		cmd := api.Command{Action: action, Reason: "test"}
		if action == "on" {
			cmd.Order = []string{"b", "a"}
		}
		if _, err := two.client.Passthrough(t.Context(), cmd); err != nil {
			t.Fatal(err)
		}
		until(t, "passthrough is "+action+" at both", func() bool {
			return (one.state(t).Passthrough != nil) == (action == "on") && (two.state(t).Passthrough != nil) == (action == "on")
		})
	}

	// The store goes away: both serve on, a lowering works and is written when
	// it is back, and the other gateway follows then.
	server.Shutdown()
	server.WaitForShutdown()
	until(t, "the loss is said", func() bool { return one.state(t).Store.Error != "" && two.state(t).Store.Error != "" })
	chatAll(t, one.url, users)
	chatAll(t, two.url, users)
	lower(one, 5)
	if u := share(one, 5); !u.Unsynced {
		t.Error("a lowering that nobody could write is not called unsynced")
	}
	if got := two.upstream(t, "a").Share; got != 75 {
		t.Errorf("the other gateway has %d%% without having heard of it", got)
	}
	natsServer(t, dir, port)
	share(two, 5)
	until(t, "it is synced", func() bool { return !one.upstream(t, "a").Unsynced && one.state(t).Store.Error == "" })
}
