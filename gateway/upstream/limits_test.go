package upstream

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/internal/bubble"
)

func limited(t *testing.T, concurrency int, rps float64, tpm int) *Upstream {
	s := settings("a")
	s.Concurrency, s.RPS, s.TPM = concurrency, rps, tpm
	u := New(s, NewBook(nil))
	t.Cleanup(u.Close)
	return u
}

// take counts how many of n requests of so many tokens are admitted.
func take(u *Upstream, n, tokens int) (admitted int, release []func(int)) {
	for range n {
		if r, ok := u.Limit(tokens); ok {
			admitted++
			release = append(release, r)
		}
	}
	return admitted, release
}

func TestNoLimits(t *testing.T) {
	u := limited(t, 0, 0, 0)
	if n, release := take(u, 1000, 1<<20); n != 1000 || release[0] == nil {
		t.Fatalf("%d admitted", n)
	}
	if allocs := testing.AllocsPerRun(100, func() { r, _ := u.Limit(10); r(10) }); allocs != 0 {
		t.Errorf("%v allocations without a limit", allocs)
	}
}

func TestConcurrencyLimit(t *testing.T) {
	u := limited(t, 3, 0, 0)
	n, release := take(u, 5, 0)
	if n != 3 {
		t.Fatalf("%d admitted", n)
	}
	release[0](0)
	release[0](0) // once only
	if n, _ := take(u, 5, 0); n != 1 {
		t.Fatalf("%d admitted after one release", n)
	}
	if u.LimitWait(0) != 0 {
		t.Fatal("a missing place has no time")
	}
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := limited(t, 0, 4, 0)
		if n, _ := take(u, 10, 0); n != 4 {
			t.Fatalf("%d at once", n)
		}
		if d := u.LimitWait(0); d != 250*time.Millisecond {
			t.Fatalf("wait %v", d)
		}
		bubble.Sleep(250 * time.Millisecond)
		if n, _ := take(u, 10, 0); n != 1 {
			t.Fatalf("%d after 250 ms", n)
		}
		bubble.Sleep(time.Hour)
		if n, _ := take(u, 10, 0); n != 4 {
			t.Fatalf("%d after an hour", n)
		}
		// RTY-08: one request in ten seconds.
		slow := limited(t, 0, 0.1, 0)
		if n, _ := take(slow, 3, 0); n != 1 {
			t.Fatalf("%d at once", n)
		}
		if d := slow.LimitWait(0); d != 10*time.Second {
			t.Fatalf("wait %v", d)
		}
		bubble.Sleep(10 * time.Second)
		if n, _ := take(slow, 3, 0); n != 1 {
			t.Fatalf("%d after 10 s", n)
		}
	})
}

func TestTokenLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := limited(t, 0, 0, 6000)
		n, release := take(u, 10, 1000)
		if n != 6 {
			t.Fatalf("%d at once", n)
		}
		release[0](0)    // nothing was used: all of it comes back
		release[1](-1)   // nobody knows: the estimate stands
		release[2](1500) // more than was thought
		if n, _ := take(u, 10, 500); n != 1 {
			t.Fatalf("%d after settling", n)
		}
		bubble.Sleep(10 * time.Second) // refills 1000
		if n, _ := take(u, 10, 500); n != 2 {
			t.Fatalf("%d after 10 s", n)
		}
		// More than fits is admitted when nothing else was.
		if _, ok := u.Limit(1 << 20); ok {
			t.Fatal("admitted into an empty bucket")
		}
		bubble.Sleep(time.Minute)
		if _, ok := u.Limit(1 << 20); !ok {
			t.Fatal("a large request can never be sent")
		}
	})
}

func TestLimitsChangeInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := limited(t, 2, 10, 0)
		_, release := take(u, 2, 0)
		s := settings("a")
		s.Concurrency, s.RPS = 3, 2
		u.Update(s)
		if n, _ := take(u, 5, 0); n != 1 { // two are under way
			t.Fatalf("%d admitted", n)
		}
		release[0](0)
		if n, _ := take(u, 5, 0); n != 1 { // the second of the two a second
			t.Fatalf("%d admitted", n)
		}
		u.Update(settings("a"))
		if n, _ := take(u, 50, 0); n != 50 {
			t.Fatalf("%d admitted without limits", n)
		}
	})
}

func TestLimitIsNeverOverrun(t *testing.T) {
	u := limited(t, 7, 0, 0)
	var now, most atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				release, ok := u.Limit(1)
				if !ok {
					continue
				}
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				now.Add(-1)
				release(1)
			}
		})
	}
	wg.Wait()
	if most.Load() > 7 {
		t.Fatalf("%d at once", most.Load())
	}
	if n, _ := take(u, 10, 0); n != 7 {
		t.Fatalf("%d places left", n)
	}
}

func TestModelCooling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ev events
		u := New(settings("a"), NewBook(ev.add))
		defer u.Close()
		cools := func(model string, want decision.Class) {
			t.Helper()
			if class, ok := u.ModelCooling(model); class != want || ok != (want != "") {
				t.Fatalf("%s cools as %q, want %q", model, class, want)
			}
		}
		cools("m", "")
		u.CoolModel("m", decision.ModelGone, 0)
		u.CoolModel("m", decision.ModelGone, 0)
		u.CoolModel("n", decision.RateLimited, 40*time.Second)
		u.CoolModel("n", decision.RateLimited, 0) // shorter: changes nothing
		u.CoolModel("o", decision.Overloaded, 0)
		cools("m", decision.ModelGone)
		cools("p", "")
		bubble.Sleep(modelBusy)
		cools("o", "")
		bubble.Sleep(25*time.Second - time.Nanosecond)
		cools("n", decision.RateLimited)
		bubble.Sleep(time.Nanosecond)
		cools("n", "")
		bubble.Sleep(coolFirst)
		cools("m", "")
		u.CoolModel("m", decision.ModelGone, 0) // soon again: twice as long
		bubble.Sleep(2*coolFirst - time.Nanosecond)
		cools("m", decision.ModelGone)
		bubble.Sleep(time.Nanosecond)
		cools("m", "")
		bubble.Sleep(time.Hour)
		u.CoolModel("m", decision.ModelGone, 0) // long after: starts over
		bubble.Sleep(coolFirst)
		cools("m", "")
		u.CoolModel("m", decision.ModelGone, 0)
		u.CoolModel("n", decision.RateLimited, time.Minute)
		u.ModelWorks("m", "n", "p")
		u.ModelWorks("m")
		cools("m", "")
		cools("n", decision.RateLimited)
		bubble.Sleep(time.Second)
		u.CoolModel("m", decision.ModelGone, 0) // not soon forgotten
		bubble.Sleep(4*coolFirst - time.Nanosecond)
		cools("m", decision.ModelGone)
		u.Update(settings("a"))
		cools("m", "")
		if got := ev.take(); got != "a ok→cooling model_gone; a ok→cooling rate_limited; a ok→cooling overloaded; "+
			"a ok→cooling model_gone; a ok→cooling model_gone; a ok→cooling model_gone; "+
			"a ok→cooling rate_limited; a cooling→ok success; a ok→cooling model_gone" {
			t.Fatalf("events %q", got)
		}
	})
}
