package main

import (
	"os"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 400}, {1 << 20, 400}, {12 << 20, 400}, {16 << 20, 300}, {20 << 20, 220}, {31 << 20, 106}, {32 << 20, 100}, {33 << 20, 100}, {1 << 40, 100},
	} {
		if got := percentFor(c.live); got != c.want {
			t.Errorf("%d MB live: %d %%, want %d", c.live>>20, got, c.want)
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
	stop := collectLater()
	becomes("small", func(p int) bool { return p > 150 })
	ballast := make([]byte, smallHeap)
	becomes("large", func(p int) bool { return p == 100 })
	runtime.KeepAlive(ballast)
	becomes("small again", func(p int) bool { return p > 150 })
	stop()
	becomes("stopped", func(p int) bool { return p == 100 })

	t.Setenv("GOGC", "100")
	collectLater()()
	runtime.GC()
	if p := now(); p != 100 {
		t.Errorf("GOGC is set, and it is %d", p)
	}
}
