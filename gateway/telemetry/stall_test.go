package telemetry

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

// A named pipe that nobody reads yet, or no more, is as good as a slow file.
func TestLogToAFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("requires named pipes: %v", err)
	}
	l := newLog(t, LogOptions{Target: path, Queue: 64})
	n := 0
	until(t, func() bool { // the pipe and the queue are full
		l.Decision(numbered(n))
		n++
		return l.Stats().Dropped > 100
	})
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var text strings.Builder
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in := bufio.NewReader(f)
		for {
			line, err := in.ReadString('\n')
			text.WriteString(line)
			if err != nil {
				return
			}
		}
	}()
	until(t, func() bool { return l.Stats().Queued == 0 })
	l.Decision(numbered(n))
	n++
	until(t, func() bool { s := l.Stats(); return s.Written+s.Dropped == uint64(n) })
	closeLog(t, l)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the pipe has no end")
	}
	got := ids(t, text.String())
	if s := l.Stats(); len(got) != int(s.Written) || got[len(got)-1] != numbered(n-1).RequestID {
		t.Errorf("%d lines, the last %s; %+v", len(got), got[len(got)-1], s)
	}
}
