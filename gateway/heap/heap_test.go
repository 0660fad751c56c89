package heap

import (
	"os"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live, roots uint64
		want        int
	}{
		{0, 0, 400}, {mb, 0, 400}, {12 * mb, 0, 400}, {16 * mb, 0, 300}, {20 * mb, 0, 220}, {31 * mb, 0, 106}, {32 * mb, 0, 100}, {33 * mb, 0, 100}, {1 << 40, 0, 100},
		{12 * mb, mb, 400}, {12 * mb, 14 * mb, 200}, {16 * mb, 16 * mb, 150}, {16 * mb, 32 * mb, 100}, {16 * mb, 64 * mb, 100}, {0, 64 * mb, 100}, {64 * mb, mb, 100},
	} {
		got := percentFor(c.live, c.roots)
		if got != c.want {
			t.Errorf("%d MB live, %d MB of roots: %d %%, want %d", c.live>>20, c.roots>>20, got, c.want)
		}
		if goal := c.live + (c.live+c.roots)*uint64(got)/100; got > usualPercent && goal > small {
			t.Errorf("%d MB live, %d MB of roots: it may grow to %d MB", c.live>>20, c.roots>>20, goal>>20)
		}
	}
}

// The heap may grow while it is small, and as it always may when it is not.
func TestCollectLater(t *testing.T) {
	// Read and nothing else: to set it for a moment would undo what is set
	// meanwhile.
	now := func() int {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return int(s[0].Value.Uint64())
	}
	if os.Getenv("GOGC") != "" {
		t.Skip("requires that GOGC is not set: then the collector does as it is told")
	}
	becomes := func(what string, ok func(int) bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !ok(now()); runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("%s: %d %%", what, now())
			}
			runtime.GC()
		}
	}
	stop := CollectLater()
	becomes("small", func(p int) bool { return p > 150 })
	ballast := make([]byte, small)
	becomes("large", func(p int) bool { return p == 100 })
	runtime.KeepAlive(ballast)
	becomes("small again", func(p int) bool { return p > 150 })
	leave := stacks(2000)
	becomes("with large stacks", func(p int) bool {
		live, roots := lastCollection()
		return roots > 8<<20 && p > 100 && live+(live+roots)*uint64(p)/100 <= small+small/8
	})
	leave()
	becomes("small once more", func(p int) bool { return p > 150 })
	stop()
	becomes("stopped", func(p int) bool { return p == 100 })

	t.Setenv("GOGC", "100")
	CollectLater()()
	runtime.GC()
	if p := now(); p != 100 {
		t.Errorf("GOGC is set, and it is %d", p)
	}
}

// stacks starts n goroutines with large stacks, which go when leave is called.
func stacks(n int) (leave func()) {
	hold := make(chan struct{})
	var ready, gone sync.WaitGroup
	ready.Add(n)
	for range n {
		gone.Go(func() {
			deep(64, func() {
				ready.Done()
				<-hold
			})
		})
	}
	ready.Wait()
	return func() {
		close(hold)
		gone.Wait()
	}
}

//go:noinline
func deep(n int, f func()) byte {
	var frame [128]byte
	if n == 0 {
		f()
		return frame[0]
	}
	frame[n] = deep(n-1, f)
	return frame[n]
}
