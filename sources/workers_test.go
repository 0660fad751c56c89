package sources

import (
	"strings"
	"sync/atomic"
	"testing"
)

// A panic beside whoever asked is raised where it is waited for, once, when all
// others are done.
func TestWorkersPanicWhereTheyAreWaitedFor(t *testing.T) {
	var done atomic.Int32
	told := make(chan struct{})
	w := workers{failed: func() { close(told) }}
	w.Go(func() { panic("of one") })
	for range 3 {
		w.Go(func() { <-told; done.Add(1) })
	}
	defer func() {
		p, ok := recover().(*WorkerPanic)
		if !ok || p.Value != "of one" || !strings.Contains(string(p.Stack), "TestWorkersPanicWhereTheyAreWaitedFor") {
			t.Errorf("raised %+v", p)
		}
		if done.Load() != 3 {
			t.Errorf("%d others were waited for", done.Load())
		}
		(&workers{}).Wait() // none, and nothing is raised
	}()
	w.Wait()
	t.Error("nothing is raised")
}
