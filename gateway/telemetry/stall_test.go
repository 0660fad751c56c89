package telemetry

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
)

// TEL-07: a sink that takes nothing for a minute keeps nobody waiting and holds no
// more than the queue; every line is written or counted; then lines flow again,
// none torn, none lost any more.
func TestLogOfAReaderThatStopsForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 2000
		r := &reader{hold: make(chan struct{})}
		l := newLog(t, LogOptions{Target: ToStdout, Stdout: r})
		n := 0
		second := func() {
			for range rate / 20 {
				for range 20 {
					l.Decision(numbered(n))
					n++
				}
				pass(time.Second / (rate / 20))
			}
		}
		began := time.Now()
		for range 60 {
			second()
			if s := l.Stats(); s.Queued >= defaultQueue || s.Written != 0 {
				t.Fatalf("while nobody reads: %+v", s)
			}
		}
		l.Event(decision.Event{Kind: decision.KindBreakerTransition})
		if waited := time.Since(began) - time.Minute; waited != 0 {
			t.Errorf("requests waited %v", waited)
		}
		close(r.hold)
		synctest.Wait()
		stalled := l.Stats().Dropped
		if stalled < 60*rate-defaultQueue-1000 {
			t.Errorf("%d of %d are dropped", stalled, n)
		}
		for range 5 {
			second()
		}
		pass(2 * batchEvery)
		synctest.Wait()
		s := l.Stats()
		if s.Dropped != stalled || s.Queued != 0 {
			t.Errorf("after it reads again: %+v, %d were dropped before", s, stalled)
		}
		if s.Written+s.Dropped != uint64(n)+1 {
			t.Errorf("%d written and %d dropped of %d", s.Written, s.Dropped, n+1)
		}
		got := r.ids(t) // fails on a torn line
		if len(got) != int(s.Written) || !slices.Contains(got, string(decision.KindBreakerTransition)) {
			t.Errorf("%d lines, %d written; the event is among them: %v", len(got), s.Written, slices.Contains(got, string(decision.KindBreakerTransition)))
		}
		if last := got[len(got)-5*rate:]; !slices.Equal(last, upTo(n-5*rate, n-1)) {
			t.Errorf("of those since then the first is %s and the last %s", last[0], last[len(last)-1])
		}
		closeLog(t, l)
	})
}
