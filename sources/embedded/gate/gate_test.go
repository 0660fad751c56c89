package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(2, 1)
		var leaves []func()
		for range 2 {
			leave, err := g.Enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		entered := make(chan error, 1)
		go func() {
			leave, err := g.Enter(t.Context())
			if err == nil {
				leave()
			}
			entered <- err
		}()
		synctest.Wait()
		if _, err := g.Enter(t.Context()); !errors.Is(err, ErrBusy) {
			t.Errorf("one too many: %v", err)
		}
		leaves[0]()
		if err := <-entered; err != nil {
			t.Errorf("the one that waited: %v", err)
		}
		leave, err := g.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.Enter(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("one that does not wait any more: %v", err)
		}
		leave()
		leaves[1]()
		if len(g.running) != 0 || g.waiting.Load() != 0 {
			t.Errorf("%d inside, %d wait", len(g.running), g.waiting.Load())
		}
	})
}
