package e2e

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// ask sends n requests and returns how many each of the stubs answered.
func ask(t *testing.T, g *running, a, b *stub, n int) (byA, byB int64) {
	t.Helper()
	users := make([]string, n)
	for i := range users {
		users[i] = "u"
	}
	a0, b0 := a.seen.Load(), b.seen.Load()
	chatAll(t, g.url, users)
	return a.seen.Load() - a0, b.seen.Load() - b0
}

// Break glass asks in its order whatever share and breakers say, shows itself
// while it lasts, and ends by itself.
func TestPassthroughIgnoresShareAndBreakersAndEnds(t *testing.T) {
	t.Parallel()
	a, b := newStub(t), newStub(t)
	g := start(t, configure(t, t.TempDir(), a, b, ""))
	g.step(t, "a", 0)
	if byA, byB := ask(t, g, a, b, 5); byA != 0 || byB != 5 {
		t.Fatalf("at share 0: %d by a, %d by b", byA, byB)
	}
	if _, err := g.client.SetBreaker(t.Context(), "a:text", api.Command{Action: "open", For: "1h", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []api.Command{
		{Action: "on", For: "1m"},
		{Action: "on", Order: []string{"a", "nobody"}, For: "1m"},
		{Action: "on", Order: []string{"a"}, For: "soon"},
		{Action: "on", Order: []string{"a"}, For: "-1m"},
		{Action: "sideways", Order: []string{"a"}, For: "1m"},
	} {
		if e, ok := errors.AsType[*api.Error](second(g.client.Passthrough(t.Context(), bad))); !ok {
			t.Errorf("%+v was taken: %v", bad, e)
		}
	}
	if g.state(t).Passthrough != nil {
		t.Fatal("a refused command put passthrough on")
	}
	began := time.Now()
	if _, err := g.client.Passthrough(t.Context(), api.Command{Action: "on", Order: []string{"a", "b"}, For: "2s", Reason: "glass"}); err != nil {
		t.Fatal(err)
	}
	p := g.state(t).Passthrough
	if p == nil || !slices.Equal(p.Order, []string{"a", "b"}) || p.Why != "glass" || p.By == "" || p.Until.Sub(began) > 3*time.Second {
		t.Errorf("state: %+v", p)
	}
	if byA, byB := ask(t, g, a, b, 20); byA != 20 || byB != 0 {
		t.Errorf("in passthrough: %d by a, %d by b", byA, byB)
	}
	// The next in its order takes over where the first fails.
	a.broken.Store(true)
	if byA, byB := ask(t, g, a, b, 1); byA == 0 || byB != 1 {
		t.Errorf("with a broken a: %d by a, %d by b", byA, byB)
	}
	a.broken.Store(false)
	until(t, "passthrough ends", func() bool { return g.state(t).Passthrough == nil })
	if lasted := time.Since(began); lasted < 2*time.Second {
		t.Errorf("it lasted %v, not 2 s", lasted)
	}
	if byA, byB := ask(t, g, a, b, 5); byA != 0 || byB != 5 {
		t.Errorf("after its end: %d by a, %d by b", byA, byB)
	}
	until(t, "its end is an event", func() bool {
		e := g.events(t, "passthrough")
		return len(e) == 2 && e[0].To == "on" && e[1].To == "off"
	})

	// And by command.
	if _, err := g.client.Passthrough(t.Context(), api.Command{Action: "on", Order: []string{"a"}, For: "1h"}); err != nil {
		t.Fatal(err)
	}
	if byA, _ := ask(t, g, a, b, 2); byA != 2 {
		t.Errorf("again: %d by a", byA)
	}
	if _, err := g.client.Passthrough(t.Context(), api.Command{Action: "off"}); err != nil {
		t.Fatal(err)
	}
	if byA, byB := ask(t, g, a, b, 2); byA != 0 || byB != 2 {
		t.Errorf("after off: %d by a, %d by b", byA, byB)
	}
	if n := len(g.events(t, "passthrough")); n != 4 {
		t.Errorf("%d events", n)
	}
}

func second[T any](_ T, err error) error { return err }

func bucket(t *testing.T, g *running, name string) api.Breaker {
	t.Helper()
	for _, u := range g.state(t).Upstreams {
		for _, b := range u.Breakers {
			if b.Bucket == name {
				return b
			}
		}
	}
	t.Fatalf("no bucket %s", name)
	return api.Breaker{}
}

// A breaker forced open lets nothing through, one forced closed everything; both
// end by themselves, and the first comes back through its probe.
func TestAForcedBreakerHoldsAndEnds(t *testing.T) {
	t.Parallel()
	a, b := newStub(t), newStub(t)
	g := start(t, configure(t, t.TempDir(), a, b, "breaker: {consecutive: 3, cooldown: 1s}\nretry: {base: 1ms}\n"))
	force := func(action, lasts string) {
		t.Helper()
		if _, err := g.client.SetBreaker(t.Context(), "a:text", api.Command{Action: action, For: lasts, Reason: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	force("open", "1500ms")
	if s := bucket(t, g, "a:text"); s.State != "open" || s.Forced != "open" || s.ForcedBy == "" || s.ForcedUntil.IsZero() {
		t.Errorf("forced open: %+v", s)
	}
	if byA, byB := ask(t, g, a, b, 20); byA != 0 || byB != 20 {
		t.Errorf("forced open: %d by a, %d by b", byA, byB)
	}
	until(t, "a is asked again", func() bool {
		byA, _ := ask(t, g, a, b, 1)
		return byA == 1
	})
	if lasted := time.Since(began); lasted < 1500*time.Millisecond {
		t.Errorf("it lasted %v", lasted)
	}
	until(t, "the breaker is closed", func() bool {
		ask(t, g, a, b, 2)
		s := bucket(t, g, "a:text")
		return s.State == "closed" && s.Forced == ""
	})

	// Forced closed: three failures in a row would open it.
	force("close", "1500ms")
	a.broken.Store(true)
	for range 6 {
		if status, err := chat(http.DefaultClient, g.url, "u"); err != nil || status != http.StatusOK {
			t.Errorf("%d %v", status, err)
		}
	}
	if s := bucket(t, g, "a:text"); s.State != "closed" || s.Forced != "closed" {
		t.Errorf("forced closed, after failures: %+v", s)
	}
	until(t, "the override ends and the rules open it", func() bool {
		if status, err := chat(http.DefaultClient, g.url, "u"); err != nil || status != http.StatusOK {
			t.Errorf("%d %v", status, err)
		}
		s := bucket(t, g, "a:text")
		return s.Forced == "" && s.State != "closed"
	})
	// auto gives an override back early.
	force("close", "1h")
	force("auto", "")
	if s := bucket(t, g, "a:text"); s.Forced != "" {
		t.Errorf("after auto: %+v", s)
	}
	if e, ok := errors.AsType[*api.Error](second(g.client.SetBreaker(t.Context(), "a:telepathy", api.Command{Action: "open"}))); !ok {
		t.Errorf("a bucket that is not there: %v", e)
	}
	var actions []string
	for _, e := range g.audit(t) {
		if e.Action == "breaker" && e.Phase == api.PhaseDone && e.Result == api.ResultOK {
			actions = append(actions, e.To)
		}
	}
	if want := []string{"open", "close", "close", "auto"}; !slices.Equal(actions, want) {
		t.Errorf("the audit has %v, want %v", actions, want)
	}
}
