package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is a pipe that nobody reads until free is closed.
type stuck struct {
	free chan struct{}
	got  bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.free
	return s.got.Write(p)
}

func TestLogNeverWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &stuck{free: make(chan struct{})}
		l := newLogger(w)
		const lines = 3 * logLines
		for i := range lines {
			l.print(fmt.Sprintf("line %d", i))
		}
		began := time.Now()
		l.close()
		if took := time.Since(began); took != logFlush {
			t.Errorf("close with a stuck reader took %s, want %s", took, logFlush)
		}
		close(w.free)
		<-l.done
		got := strings.Split(strings.TrimSpace(w.got.String()), "\n")
		lost := 0
		for _, line := range got {
			var n int
			if _, text, _ := strings.Cut(line, " "); strings.HasSuffix(text, "in time") {
				if _, err := fmt.Sscanf(text, "%d lines were lost", &n); err != nil {
					t.Errorf("%q: %v", line, err)
				}
				lost += n
			}
		}
		if written := len(got) - 1; written < logLines || written+lost != lines {
			t.Errorf("%d lines written and %d said to be lost, want %d together", written, lost, lines)
		}
	})
}

func TestLogIsWholeAtTheEnd(t *testing.T) {
	var w bytes.Buffer
	l := newLogger(&w)
	for i := range 100 {
		l.print(fmt.Sprintf("line %d", i))
	}
	l.close()
	if n := strings.Count(w.String(), "\n"); n != 100 || !strings.HasSuffix(w.String(), " line 99\n") {
		t.Errorf("%d lines, ending in %q", n, w.String()[max(0, w.Len()-40):])
	}
	l.print("after the end")
}
