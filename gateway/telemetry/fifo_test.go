//go:build linux || darwin

package telemetry

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

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
