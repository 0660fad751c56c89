package demo

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOutageScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var now atomic.Pointer[Fault]
		done := make(chan struct{})
		go func() { defer close(done); run(ctx, Outage.stages(), func(f Fault) { now.Store(&f) }) }()

		start := time.Now()
		for _, want := range []struct {
			at    time.Duration
			fault Fault
			phase string
		}{
			{1 * time.Second, Fault{}, "fail in 19 s"},
			{19 * time.Second, Fault{}, "fail in 1 s"},
			{21 * time.Second, Fault{Kind: Unavailable}, "answers 503"},
			{41 * time.Second, Fault{Kind: Unavailable}, "degraded by itself"},
			{43 * time.Second, Fault{Kind: Hang}, "hangs"},
			{55 * time.Second, Fault{Kind: Hang}, "hangs"},
			{57 * time.Second, Fault{Kind: Unavailable, Ratio: 0.4}, "4 of 10"},
			{63 * time.Second, Fault{}, "its probes pass"},
			{119 * time.Second, Fault{}, "well again: W, "},
			{24 * time.Hour, Fault{}, "well again: W, "},
		} {
			<-time.After(want.at - time.Since(start))
			synctest.Wait()
			if got := *now.Load(); got != want.fault {
				t.Errorf("at %s: fault %+v, want %+v", want.at, got, want.fault)
			}
			st, left := at(Outage.stages(), want.at)
			if got := st.say(left); !strings.Contains(got, want.phase) {
				t.Errorf("at %s: %q, want %q", want.at, got, want.phase)
			}
			if st.fault != want.fault {
				t.Errorf("at %s: the phase speaks of %+v", want.at, st.fault)
			}
		}
		cancel()
		<-done
	})
}

func TestQuietScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			run(ctx, Quiet.stages(), func(f Fault) {
				calls++
				if f != (Fault{}) {
					t.Errorf("fault %+v", f)
				}
			})
		}()
		<-time.After(time.Hour)
		cancel()
		<-done
		if calls != 1 {
			t.Errorf("%d changes", calls)
		}
	})
}

// The windows are not what a real gateway has; whoever watches must know.
func TestTheScreenSaysThatWindowsAreShortened(t *testing.T) {
	st, left := at(Outage.stages(), 0)
	if p := st.say(left); !strings.Contains(p, "windows cut to 10 s") {
		t.Errorf("the first phase says %q", p)
	}
}

// The outage lasts until the primary is degraded, with time to see it.
func TestTheOutageOutlastsTheSuspectWindow(t *testing.T) {
	var broken time.Duration
	for _, st := range Outage.stages() {
		if st.fault == (Fault{Kind: Unavailable}) {
			broken += st.lasts
		}
	}
	if broken < suspectWindow+10*time.Second {
		t.Errorf("it answers 503 for %s, it is suspect for %s", broken, suspectWindow)
	}
}

// The console shows a phase in one row, also on 80 columns.
func TestPhasesFitARow(t *testing.T) {
	for _, s := range Scripts {
		for _, st := range s.stages() {
			for _, p := range []string{st.say(st.lasts), st.held, st.back, st.over} {
				if len(p) > 76 || strings.ContainsAny(p, "\n\t") {
					t.Errorf("%d columns: %q", len(p), p)
				}
			}
		}
	}
}

// What is done is not asked for again, and while it fails nobody says that it is
// over: its share is whole then, too.
func TestPhaseOfWhatIsDone(t *testing.T) {
	stages := Outage.stages()
	first, last := stages[1], stages[len(stages)-1]
	for now, want := range map[Standing]string{Away: "well again: W, choose " + East, Held: "not now: wait", Back: "x there closes it", Over: "it is over"} {
		if got := last.phase(0, now); !strings.Contains(got, want) {
			t.Errorf("standing %d: %q", now, got)
		}
		if got := first.phase(0, now); !strings.Contains(got, "503") {
			t.Errorf("standing %d while it fails: %q", now, got)
		}
	}
}
