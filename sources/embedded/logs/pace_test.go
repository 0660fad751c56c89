package logs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"failback/internal/bubble"
)

// work is so much work on lines, up to the next look at the clock.
func (t *turn) work(ctx context.Context, d time.Duration) error {
	bubble.Sleep(d) // of the test's own clock
	for range checked {
		if err := t.line(ctx); err != nil {
			return err
		}
	}
	return nil
}

func TestQuestionsRestAndTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pacer{make(chan struct{}, 1)}
		began := time.Now()
		one, other := turn{p: p}, turn{p: p}
		if err := one.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		var came time.Duration
		go func() {
			if err := other.begin(t.Context()); err != nil {
				t.Error(err)
			}
			came = time.Since(began)
			other.end(t.Context())
		}()
		if err := one.work(t.Context(), stretch/2); err != nil || time.Since(began) != stretch/2 {
			t.Errorf("%v after %v: a short stretch needs no rest", err, time.Since(began))
		}
		if err := one.work(t.Context(), stretch); err != nil || time.Since(began) != 3*stretch {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		synctest.Wait()
		if came != 3*stretch {
			t.Errorf("the other came after %v", came)
		}
		one.end(t.Context())

		// Many short stretches are a long one.
		began = time.Now()
		for range 4 {
			if err := one.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := one.work(t.Context(), stretch/4); err != nil {
				t.Fatal(err)
			}
			one.end(t.Context())
		}
		if took := time.Since(began); took != 2*stretch {
			t.Errorf("four quarters took %v", took)
		}
	})
}

func TestARestEndsWithTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pacer{make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		own := turn{p: p}
		if err := own.begin(ctx); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.AfterFunc(stretch+time.Millisecond, cancel)
		if err := own.work(ctx, stretch); !errors.Is(err, context.Canceled) || time.Since(began) != stretch+time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if len(p.places) != 0 {
			t.Error("the place is still held")
		}
	})
}
