package upstream

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/internal/bubble"
)

func settings(name string, keys ...string) Settings {
	return Settings{
		Name: name, Region: "r1", Dialect: decision.OpenAI, Keys: keys,
		BaseURL: &url.URL{Scheme: "http", Host: name + ".test", Path: "/v1"},
	}
}

// events collects a book's events.
type events struct {
	mu sync.Mutex
	l  []decision.Event
}

func (e *events) add(ev decision.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.l = append(e.l, ev)
}

func (e *events) take() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var s []string
	for _, ev := range e.l {
		s = append(s, strings.TrimSpace(fmt.Sprintf("%s %s→%s %s", ev.Provider, ev.From, ev.To, ev.Reason)))
	}
	e.l = nil
	return strings.Join(s, "; ")
}

// mustPick returns a key that may be used.
func mustPick(t *testing.T, u *Upstream, used uint64) Key {
	t.Helper()
	k, why := u.PickKey(used)
	if why != "" {
		t.Fatalf("PickKey(%b): %s", used, why)
	}
	return k
}

func refuses(t *testing.T, u *Upstream, used uint64, want decision.Class) {
	t.Helper()
	if k, why := u.PickKey(used); why != decision.ReasonOf(want) || k.Bit() != 0 {
		t.Fatalf("PickKey(%b) = %v, %q; want none, %q", used, k, why, want)
	}
}

func TestCredentialCoolsAndDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ev events
		b := NewBook(ev.add)
		u := New(settings("a", "k1"), b)
		defer u.Close()
		for _, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
			k := mustPick(t, u, 0)
			b.Failed(u, k, decision.Credential)
			b.Failed(u, k, decision.Credential) // sent before: the same evidence
			if class, until := u.Cooling(); class != decision.Credential || time.Until(until) != want*time.Minute {
				t.Fatalf("cools for %q %v, want %v min", class, time.Until(until), want)
			}
			bubble.Sleep(want*time.Minute - time.Second)
			refuses(t, u, 0, decision.Credential)
			bubble.Sleep(time.Second)
		}
		if got := ev.take(); strings.Count(got, "a ok→cooling credential") != 6 {
			t.Fatalf("events %q", got)
		}
		b.OK(u, mustPick(t, u, 0))
		if got := ev.take(); got != "a cooling→ok success" {
			t.Fatalf("events %q", got)
		}
		// A success starts the doubling over.
		b.Failed(u, mustPick(t, u, 0), decision.Credential)
		if _, until := u.Cooling(); time.Until(until) != coolFirst {
			t.Fatalf("cools for %v", time.Until(until))
		}
	})
}

func TestOneAttemptTriesACooledKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBook(nil)
		u := New(settings("a", "k1"), b)
		defer u.Close()
		b.Failed(u, mustPick(t, u, 0), decision.Credential)
		bubble.Sleep(coolFirst)
		k := mustPick(t, u, 0)
		mustPick(t, u, 0) // asking takes nothing
		b.try(k.entries[0])
		refuses(t, u, 0, decision.Credential)
		bubble.Sleep(trialFor)
		mustPick(t, u, 0)
	})
}

func TestLateSuccessProvesNothing(t *testing.T) {
	b := NewBook(nil)
	u := New(settings("a", "k1"), b)
	defer u.Close()
	early := mustPick(t, u, 0)
	b.Failed(u, mustPick(t, u, 0), decision.Credential)
	b.OK(u, early) // a stream that began before the key was revoked
	refuses(t, u, 0, decision.Credential)
}

func TestSharedValueAndBilling(t *testing.T) {
	var ev events
	b := NewBook(ev.add)
	with := func(name, billing string, keys ...string) *Upstream {
		s := settings(name, keys...)
		s.Billing = billing
		u := New(s, b)
		t.Cleanup(u.Close)
		return u
	}
	a, same, billed, other := with("a", "org-1", "k1"), with("b", "", "k1"), with("c", "org-1", "k2"), with("d", "", "k3")

	b.Failed(a, mustPick(t, a, 0), decision.Credential)
	refuses(t, a, 0, decision.Credential)
	refuses(t, same, 0, decision.Credential) // the same value
	mustPick(t, billed, 0)
	mustPick(t, other, 0)
	b.Clear("b") // also for a, which shares it
	mustPick(t, a, 0)

	b.Failed(a, mustPick(t, a, 0), decision.QuotaExhausted)
	refuses(t, a, 0, decision.QuotaExhausted)
	refuses(t, billed, 0, decision.QuotaExhausted) // the same account
	mustPick(t, same, 0)
	b.ClearAll()
	mustPick(t, billed, 0)

	b.Failed(other, mustPick(t, other, 0), decision.RateLimited) // no credential's fault
	b.Failed(other, Key{}, decision.Credential)
	b.OK(other, Key{})
	mustPick(t, other, 0)
	if got := ev.take(); got != "a ok→cooling credential; b cooling→ok cleared; a ok→cooling quota_exhausted; a cooling→ok cleared" {
		t.Fatalf("events %q", got)
	}
}

// RTY-05: each key at most once per request, the healthy one found at once.
func TestKeyRotation(t *testing.T) {
	b := NewBook(nil)
	u := New(settings("a", "k1", "k2", "k3"), b)
	defer u.Close()
	var used uint64
	var seen []string
	for {
		k, why := u.PickKey(used)
		if why != "" {
			if why != decision.ReasonOf(decision.Credential) {
				t.Fatalf("reason %q", why)
			}
			break
		}
		if used&k.Bit() != 0 {
			t.Fatalf("%v twice", k)
		}
		used |= k.Bit()
		seen = append(seen, k.value[0])
		b.Failed(u, k, decision.Credential)
	}
	if strings.Join(seen, ",") != "Bearer k1,Bearer k2,Bearer k3" {
		t.Fatalf("keys %q", seen)
	}
	refuses(t, u, 0, decision.Credential)
	if class, _ := u.Cooling(); class != decision.Credential {
		t.Fatalf("Cooling = %q", class)
	}
	// One key without credit among refused ones: the account is why.
	b.ClearAll()
	b.Failed(u, mustPick(t, u, 0), decision.QuotaExhausted)
	b.Failed(u, mustPick(t, u, 0), decision.Credential)
	b.Failed(u, mustPick(t, u, 0), decision.Credential)
	refuses(t, u, 0, decision.QuotaExhausted)
}

func TestChangedKeyClears(t *testing.T) {
	var ev events
	b := NewBook(ev.add)
	s := settings("a", "k1")
	s.Billing = "org-1"
	u := New(s, b)
	defer u.Close()
	old := mustPick(t, u, 0)
	b.Failed(u, old, decision.QuotaExhausted)
	u.Update(s) // nothing changed
	refuses(t, u, 0, decision.QuotaExhausted)
	ev.take()
	s.Keys = []string{"k2"}
	u.Update(s)
	k := mustPick(t, u, 0)
	if k.value[0] != "Bearer k2" {
		t.Fatal("old key")
	}
	if got := ev.take(); got != "a cooling→ok changed" {
		t.Fatalf("events %q", got)
	}
	b.Failed(u, old, decision.Credential) // an attempt under way with what is no key any more
	if got := ev.take(); got != "" {
		t.Fatalf("events %q", got)
	}
	// The old key belongs to the settings it was picked from, also after that.
	if old.version == k.version || old.value[0] != "Bearer k1" {
		t.Fatal("the old key changed")
	}
}

func TestBookForgetsUnusedCredentials(t *testing.T) {
	b := NewBook(nil)
	u, w := New(settings("a", "k1", "k1", "k2"), b), New(settings("b", "k2"), b)
	u.Update(settings("a", "k3"))
	if len(b.entries) != 4 { // k2 and k3, each as a value and as an account
		t.Fatalf("%d entries", len(b.entries))
	}
	u.Close()
	u.Close()
	u.Update(settings("a", "k4"))
	w.Close()
	if len(b.entries) != 0 {
		t.Fatalf("%d entries left", len(b.entries))
	}
}

// SEC-01: no way of printing a key prints its value.
func TestKeyNeverPrints(t *testing.T) {
	u := New(settings("a", "SECRET123"), NewBook(nil))
	defer u.Close()
	k := mustPick(t, u, 0)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		if got := fmt.Sprintf(verb, k); got != "key 1 of 1" {
			t.Errorf("%s prints %q", verb, got)
		}
	}
	if got := fmt.Sprint(Key{}); got != "no key" {
		t.Errorf("no key prints %q", got)
	}
}

func TestAuthHeaders(t *testing.T) {
	for _, tt := range []struct {
		dialect       decision.Dialect
		auth, name, v string
	}{
		{decision.OpenAI, "", "Authorization", "Bearer k"},
		{decision.Anthropic, "", "X-Api-Key", "k"},
		{decision.Anthropic, "bearer", "Authorization", "Bearer k"},
		{decision.OpenAI, "api-key", "Api-Key", "k"},
		{decision.OpenAI, "x-api-key", "X-Api-Key", "k"},
	} {
		name, v := credential(Settings{Dialect: tt.dialect, Auth: tt.auth}, "k")
		if name != tt.name || v[0] != tt.v {
			t.Errorf("%s %q: %s: %s", tt.dialect, tt.auth, name, v)
		}
	}
}

func TestBookIsSafeForConcurrentUse(t *testing.T) {
	b := NewBook(func(decision.Event) {})
	u := New(settings("a", "k1", "k2", "k3"), b)
	defer u.Close()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				k, _ := u.PickKey(0)
				b.Failed(u, k, decision.Credential)
				k, _ = u.PickKey(k.Bit())
				b.OK(u, k)
				u.Cooling()
				b.Clear("a")
			}
		})
	}
	wg.Go(func() {
		for i := range 50 {
			u.Update(settings("a", "k1", fmt.Sprint("new", i)))
		}
	})
	wg.Wait()
	b.ClearAll()
	mustPick(t, u, 0)
}
