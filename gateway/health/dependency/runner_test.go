package dependency

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"failback/internal/bubble"
)

// network answers by address: nil accepts, an error refuses, absence hangs. It
// keeps when it was asked.
type network struct {
	mu     sync.Mutex
	answer map[string]error
	asked  map[string][]time.Duration
	since  time.Time
}

func newNetwork() *network {
	return &network{answer: map[string]error{}, asked: map[string][]time.Duration{}, since: time.Now()}
}

func (n *network) set(address string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer[address] = err
}

func (n *network) times(address string) []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked[address])
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	err, known := n.answer[address]
	n.asked[address] = append(n.asked[address], time.Since(n.since))
	n.mu.Unlock()
	if !known {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	c, peer := net.Pipe()
	_ = peer.Close()
	return c, nil
}

// started runs r until the bubble's test function returns.
func started(t *testing.T, r *Runner) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestRunnerKeepsEachPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.set("a:1", nil)
		n.set("c:1", syscall.ECONNREFUSED)
		var told atomic.Int64
		r := New(Options{Dial: n.dial, OnResult: func(Result) { told.Add(1) }, Checks: []Check{
			{Name: "a", Domain: "dns/corp", Kind: TCP, Target: "a:1", Every: 10 * time.Second},
			{Name: "hangs", Kind: TCP, Target: "b:1"},
			{Name: "c", Kind: TCP, Target: "c:1", Every: 24 * time.Hour},
		}})
		for _, x := range r.Snapshot() {
			if x.State != Unknown || !x.At.IsZero() || !x.Since.IsZero() {
				t.Errorf("before the first check: %+v", x)
			}
		}
		stop := started(t, r)
		defer stop()
		bubble.Sleep(31 * time.Second)
		synctest.Wait()

		if got := n.times("a:1"); !slices.Equal(got, []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}) {
			t.Errorf("a is checked at %v", got)
		}
		if got := n.times("b:1"); !slices.Equal(got, []time.Duration{0, 30 * time.Second}) {
			t.Errorf("what hangs is checked at %v", got)
		}
		s := r.Snapshot()
		if s[0].State != OK || time.Since(s[0].Since) != 31*time.Second || time.Since(s[0].At) != time.Second || s[0].Domain != "dns/corp" {
			t.Errorf("a: %+v", s[0])
		}
		if s[1].State != Failed || s[1].Detail != "no answer in time" || time.Since(s[1].Since) != 26*time.Second {
			t.Errorf("what hangs: %+v", s[1])
		}
		if told.Load() != 6 {
			t.Errorf("%d results were told", told.Load())
		}

		// What is checked once a day is checked again soon where it failed.
		n.set("c:1", nil)
		bubble.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := r.Snapshot()[2]; got.State != OK || len(n.times("c:1")) != 2 {
			t.Errorf("c: %+v at %v", got, n.times("c:1"))
		}
	})
}

func TestConfigureKeepsWhatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		for _, address := range []string{"a:1", "b:1", "b:2"} {
			n.set(address, nil)
		}
		a := Check{Name: "a", Kind: TCP, Target: "a:1", Every: time.Minute}
		b := Check{Name: "b", Kind: TCP, Target: "b:1", Every: time.Minute}
		gone := Check{Name: "gone", Kind: TCP, Target: "hangs:1", Every: time.Minute}
		r := New(Options{Dial: n.dial, Checks: []Check{a, b, gone}})
		stop := started(t, r)
		defer stop()
		bubble.Sleep(10 * time.Second)
		b2 := b
		b2.Target = "b:2"
		again := b2
		again.Target = "twice:1"
		r.Configure([]Check{b2, a, again})
		if got := r.Snapshot(); len(got) != 2 || got[0].State != Unknown || got[1].State != OK || time.Since(got[1].At) != 10*time.Second {
			t.Errorf("right after: %+v", got)
		}
		bubble.Sleep(time.Minute)
		synctest.Wait()
		if got := n.times("a:1"); !slices.Equal(got, []time.Duration{0, time.Minute}) {
			t.Errorf("a lost its pace: %v", got)
		}
		if got := n.times("b:1"); len(got) != 1 {
			t.Errorf("b is still checked where it was: %v", got)
		}
		if got := n.times("b:2"); !slices.Equal(got, []time.Duration{10 * time.Second, 70 * time.Second}) {
			t.Errorf("b is checked at %v", got)
		}
		if got := n.times("hangs:1"); len(got) != 1 || len(n.times("twice:1")) != 0 {
			t.Errorf("what is gone is checked: %v", got)
		}
	})
}

// Run ends with a check under way, whose end then says nothing, and may begin
// again.
func TestRunEndsAndBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		r := New(Options{Dial: n.dial, Checks: []Check{{Name: "a", Kind: TCP, Target: "a:1", Every: time.Minute}}})
		started(t, r)()
		if got := r.Snapshot()[0]; got.State != Unknown {
			t.Errorf("a check that was broken off: %+v", got)
		}
		n.set("a:1", errors.New("s3cret"))
		stop := started(t, r)
		if got := r.Snapshot()[0]; got.State != Failed || got.Detail != "it does not answer as it should" {
			t.Errorf("after it began again: %+v", got)
		}
		stop()

		// What nobody checks any more is unknown after a while.
		bubble.Sleep(3*time.Minute + maxTimeout)
		if got := r.Snapshot()[0]; got.State != Failed {
			t.Errorf("three checks may fail to take place: %+v", got)
		}
		bubble.Sleep(time.Second)
		if got := r.Snapshot()[0]; got.State != Unknown || got.Detail != "last checked 3 min ago: failed" {
			t.Errorf("stale: %+v", got)
		}
	})
}
