package gateway

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// eventually waits until is says that something came about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline:
			t.Fatal("it did not come about: ", what)
		case <-tick.C:
		}
	}
}

// commands is a client of g, by the socket in dir.
func commands(t *testing.T, dir string) *api.Client {
	t.Helper()
	c, err := api.NewClient("unix:"+filepath.Join(dir, SocketName), api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func passthroughAt(g *Gateway) *api.Passthrough { return (*control)(g).State(api.You{}).Passthrough }

// A forced breaker, and a passthrough, is in force at every gateway of the store
// whole: what cools is asked at once at each of them. The answer says where.
func TestOverridesHoldAtEveryGatewayOfTheStore(t *testing.T) {
	u := newSpentUpstream(t)
	shared := fmt.Sprintf("store: {nats: %q}\n", onNATS(t, t.TempDir(), 0).ClientURL())
	dirs := []string{t.TempDir(), t.TempDir()}
	gs := make([]*Gateway, 2)
	for i, dir := range dirs {
		gs[i] = spending(t, dir, fmt.Sprint("g", i), u.URL, bothObjectives, shared)
	}
	cools := func(g *Gateway) string {
		c := g.setup.Load().upstreams["a"].Client
		class, _ := c.Cooling()
		model, _ := c.ModelCooling("m")
		return string(class) + " " + string(model)
	}
	for i, g := range gs {
		c := g.setup.Load().upstreams["a"].Client
		key, _ := c.PickKey(0)
		g.book.Failed(c, key, decision.Credential)
		c.CoolModel("m", decision.ModelGone, 0)
		if got := cools(g); got != "credential model_gone" {
			t.Fatalf("gateway %d cools %q", i, got)
		}
	}
	one := commands(t, dirs[0])
	r, err := one.SetBreaker(t.Context(), "a:text", api.Command{Action: "close", For: "1h", Reason: "the key is paid"})
	if err != nil || r.AuditPending || !strings.Contains(r.Message, "forced close for 1h at all gateways of the store") {
		t.Errorf("%+v %v", r, err)
	}
	for i, g := range gs {
		eventually(t, fmt.Sprint("nothing cools at gateway ", i), func() bool { return cools(g) == " " })
	}

	r, err = one.Passthrough(t.Context(), api.Command{Action: "on", Order: []string{"a"}, For: "1h"})
	if err != nil || !strings.HasPrefix(r.Message, "passthrough is on at all gateways of the store until ") {
		t.Errorf("%+v %v", r, err)
	}
	eventually(t, "passthrough at the other", func() bool { p := passthroughAt(gs[1]); return p != nil && !p.Unsynced && p.Order[0] == "a" })
	// Off at whichever ends it at both.
	r, err = commands(t, dirs[1]).Passthrough(t.Context(), api.Command{Action: "off"})
	if err != nil || !strings.HasPrefix(r.Message, "passthrough is off at all gateways of the store") {
		t.Errorf("%+v %v", r, err)
	}
	eventually(t, "no passthrough at the first", func() bool { return passthroughAt(gs[0]) == nil })
}

// What another gateway ended before this one listened to the store ends here, too.
func TestOverrideEndedBeforeAnybodyListened(t *testing.T) {
	u := newSpentUpstream(t)
	dir := t.TempDir()
	g := spending(t, dir, "g0", u.URL, bothObjectives, fmt.Sprintf("store: {nats: %q}\n", onNATS(t, t.TempDir(), 0).ClientURL()))
	o := override{Action: "passthrough", Order: []string{"a"}, Until: time.Now().Add(time.Hour), By: "ana"}
	g.override(passthroughKey, &o) // as it was read at the start
	if passthroughAt(g) == nil {
		t.Fatal("no passthrough")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.followOverrides(ctx) }()
	eventually(t, "no passthrough", func() bool { return passthroughAt(g) == nil })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Without the store, break glass takes effect where it is commanded, says so, and
// is written with its audit entry when the store is back; so is its end.
func TestBreakGlassWithoutTheStore(t *testing.T) {
	u := newSpentUpstream(t)
	dir := t.TempDir()
	server := onNATS(t, dir, 0)
	url := server.ClientURL()
	var port int
	if _, err := fmt.Sscanf(url[strings.LastIndexByte(url, ':')+1:], "%d", &port); err != nil {
		t.Fatal(err)
	}
	shared := fmt.Sprintf("store: {nats: %q}\n", url)
	dirs := []string{t.TempDir(), t.TempDir()}
	gs := make([]*Gateway, 2)
	for i, dir := range dirs {
		gs[i] = spending(t, dir, fmt.Sprint("g", i), u.URL, bothObjectives, shared)
	}
	one, two := commands(t, dirs[0]), commands(t, dirs[1])
	if _, err := two.Passthrough(t.Context(), api.Command{Action: "on", Order: []string{"a"}, For: "2h"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are in passthrough", func() bool { return passthroughAt(gs[0]) != nil && passthroughAt(gs[1]) != nil })

	server.Shutdown()
	server.WaitForShutdown()
	safe := func(what string, r *api.Result, err error) {
		t.Helper()
		if err != nil || !r.AuditPending {
			t.Errorf("%s: %+v %v", what, r, err)
		}
	}
	unsynced := func(what string, r *api.Result, err error) {
		t.Helper()
		safe(what, r, err)
		if err == nil && !strings.Contains(r.Message, "UNSYNCED: in force here") {
			t.Errorf("%s: %s", what, r.Message)
		}
	}
	r, err := one.Passthrough(t.Context(), api.Command{Action: "off", Reason: "it was long enough"})
	unsynced("off", r, err)
	if passthroughAt(gs[0]) != nil {
		t.Error("off did not take effect")
	}
	r, err = one.SetBreaker(t.Context(), "a:text", api.Command{Action: "open", For: "1h"})
	unsynced("open", r, err)
	r, err = one.Plan(t.Context(), "a", api.Command{Action: api.ActionManual})
	safe("manual", r, err)
	r, err = two.Passthrough(t.Context(), api.Command{Action: "on", Order: []string{"a"}, For: "3h"})
	unsynced("on", r, err)
	if p := passthroughAt(gs[1]); p == nil || !p.Unsynced || time.Until(p.Until) < 2*time.Hour+time.Minute {
		t.Errorf("on did not take effect: %+v", p)
	}
	r, err = two.Passthrough(t.Context(), api.Command{Action: "off"})
	unsynced("off again", r, err)

	onNATS(t, dir, port)
	t.Cleanup(func() { // while the store is there
		for _, g := range gs {
			stopSpending(t, g)
		}
	})
	forced := func(g *Gateway) string {
		for _, b := range (*control)(g).State(api.You{}).Upstreams[0].Breakers {
			if b.Bucket == "a:text" {
				return b.Forced
			}
		}
		return "no such bucket"
	}
	eventually(t, "the breaker is forced open at both", func() bool { return forced(gs[0]) == "open" && forced(gs[1]) == "open" })
	eventually(t, "all is written", func() bool {
		for i, c := range []*api.Client{one, two} {
			s, err := c.State(t.Context())
			gs[i].overrides.mu.Lock()
			waits := len(gs[i].overrides.unwritten)
			gs[i].overrides.mu.Unlock()
			if err != nil || s.Audit.Pending != 0 || waits != 0 {
				return false
			}
		}
		return true
	})
	all, err := gs[0].overrides.bucket.All(t.Context())
	if err != nil || len(all) != 1 || all["a:text"].Value.Action != "open" {
		t.Errorf("the store has %+v %v", all, err)
	}
	for i, g := range gs {
		if p := passthroughAt(g); p != nil {
			t.Errorf("gateway %d is in passthrough again: %+v", i, p)
		}
	}
	trail, err := one.Audit(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, e := range trail.Entries {
		found = found || e.Action == "passthrough" && e.To == "off" && e.Why == "it was long enough" && e.Result == api.ResultOK
	}
	if !found {
		t.Errorf("the audit has no passthrough off: %+v", trail.Entries)
	}
}

// What this process wrote is no news while a later command to it waits; what
// another one wrote is, and is the last word.
func TestOverridesHeardWhileOneWaits(t *testing.T) {
	now := time.Now()
	on := func(boot string, d time.Duration) *override {
		return &override{Action: "passthrough", Order: []string{"a"}, Until: now.Add(d), By: "ana", Boot: boot}
	}
	k := &overrides{boot: "here", inForce: map[string]override{}, unwritten: map[string]bool{}}
	if !k.heard("p", on("there", time.Hour)) || k.heard("p", on("there", time.Hour)) {
		t.Error("of another one: news once")
	}
	k.note("p", nil)
	k.unwritten["p"] = true
	if k.heard("p", on("here", time.Hour)) || !k.unwritten["p"] {
		t.Error("its own of before is in force again, although it was ended")
	}
	if !k.heard("p", on("there", 2*time.Hour)) || k.unwritten["p"] {
		t.Error("another gateway's last word is not heard")
	}
	if !k.heard("p", on("here", 3*time.Hour)) {
		t.Error("its own, which the store has after another's, is not in force")
	}
	if !k.heard("p", nil) || k.heard("p", nil) {
		t.Error("an end is news once")
	}
	var none *overrides
	if none.unsynced("p") || none.keep(context.Background(), "p", nil) != nil {
		t.Error("without a store something waits")
	}
}
