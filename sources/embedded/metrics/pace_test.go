package metrics

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"failback/internal/bubble"
)

// slowly is an iterator that takes so long for each sample.
type slowly struct {
	chunkenc.Iterator
	each time.Duration
	left int
}

func (s *slowly) Next() chunkenc.ValueType {
	if s.left--; s.left < 0 {
		return chunkenc.ValNone
	}
	bubble.Sleep(s.each)
	return chunkenc.ValFloat
}

func TestQueriesRestAsLongAsTheyWorked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(1)
		began := time.Now()
		work, err := p.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		it := &pacedIterator{&slowly{chunkenc.NewNopIterator(), time.Millisecond, 100}, work}
		n := 0
		for it.Next() != chunkenc.ValNone {
			n++
		}
		work.end()
		if took := time.Since(began); n != 100 || took < 180*time.Millisecond || took > 220*time.Millisecond {
			t.Errorf("%d samples of 1 ms in %v", n, took)
		}
		if it.Err() != nil {
			t.Error(it.Err())
		}
	})
}

// One that could not rest keeps its place until it would have.
func TestTheNextWaitsForTheRestOfTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(1)
		work, err := p.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		bubble.Sleep(200 * time.Millisecond)
		work.end()
		ended := time.Now()
		next, err := p.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(ended); waited != 200*time.Millisecond {
			t.Errorf("it waited %v", waited)
		}
		next.end()
		if p.free != 1 {
			t.Errorf("%d places are free", p.free)
		}
	})
}

// Many short ones rest as one long one does, if there is no pause between them.
func TestShortQueriesRestTogether(t *testing.T) {
	for pause, want := range map[time.Duration]time.Duration{0: 200 * time.Millisecond, 3 * time.Millisecond: 400 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p := newPacer(1)
			began := time.Now()
			for range 100 {
				work, err := p.begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				bubble.Sleep(time.Millisecond)
				work.end()
				bubble.Sleep(pause)
			}
			if took := time.Since(began); took > want || took < want*9/10 {
				t.Errorf("with pauses of %v it took %v, want %v", pause, took, want)
			}
		})
	}
}

// A short query goes before long ones, and who is gone leaves no place taken.
func TestShortQueriesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 4)
		for range 4 {
			go func() {
				work, err := p.begin(ctx)
				if err != nil {
					ended <- err
					return
				}
				it := &pacedIterator{&slowly{chunkenc.NewNopIterator(), time.Millisecond, 1_000_000}, work}
				for it.Next() != chunkenc.ValNone {
				}
				work.end()
				ended <- it.Err()
			}()
		}
		bubble.Sleep(time.Second)
		began := time.Now()
		work, err := p.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited > 50*time.Millisecond {
			t.Errorf("it waited %v", waited)
		}
		work.end()
		cancel()
		for range 4 {
			if err := <-ended; err != context.Canceled {
				t.Error(err)
			}
		}
		bubble.Sleep(time.Minute)
		if p.free != 1 || len(p.fresh)+len(p.rested) != 0 {
			t.Errorf("%d places are free, %d wait", p.free, len(p.fresh)+len(p.rested))
		}
	})
}

func TestQuick(t *testing.T) {
	for _, c := range []struct {
		params []string
		want   bool
	}{
		{[]string{"query", ratioQuery}, true},
		{[]string{"query", "up"}, true},
		{[]string{"match[]", "up"}, true},
		{[]string{"query", "sum(rate(up[5m]))", "start", "0", "end", "500", "step", "1"}, true},
		{[]string{"query", "sum(rate(up[5m]))", "start", "0", "end", "502", "step", "1"}, false},
		{[]string{"query", "sum(rate(up[5m]))", "start", "0", "end", "502", "step", "x"}, false},
		{[]string{"query", "rate(up[16m])"}, false},
		{[]string{"query", "rate(up[3600])"}, false},
		{[]string{"query", "max_over_time(up[1m:])"}, false},
		{[]string{"query", "up" + strings.Repeat("+up", 100)}, false},
	} {
		r := httptest.NewRequest("GET", base+"query?"+form(c.params...), nil)
		if err := r.ParseForm(); err != nil {
			t.Fatal(err)
		}
		if got := quick(r); got != c.want {
			t.Errorf("%s: %t", c.params, got)
		}
	}
}
