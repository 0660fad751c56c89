package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	// logLines is how many lines wait for a slow reader; more are dropped.
	logLines = 1024
	// logFlush is how long the end of the process waits for them.
	logFlush = time.Second
)

// logger writes texts for the operator of the process, one line each. Requests
// print too, so that it never waits for whoever reads: what does not fit is
// dropped, and the number of lost lines is written as soon as there is room.
type logger struct {
	w       io.Writer
	lines   chan string
	dropped atomic.Int64
	stop    chan struct{}
	done    chan struct{}
}

// newLogger returns a logger on w, which must be closed.
func newLogger(w io.Writer) *logger {
	l := &logger{w: w, lines: make(chan string, logLines), stop: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

// print is safe for concurrent use, also after close, and never blocks.
func (l *logger) print(s string) {
	select {
	case l.lines <- time.Now().UTC().Format(time.RFC3339) + " " + s:
	default:
		l.dropped.Add(1)
	}
}

// close writes what is left. It gives up after logFlush: a reader that is
// stuck must not keep the process, and its goroutine ends with that.
func (l *logger) close() {
	close(l.stop)
	t := time.NewTimer(logFlush)
	defer t.Stop()
	select {
	case <-l.done:
	case <-t.C:
	}
}

func (l *logger) run() {
	defer close(l.done)
	for {
		select {
		case s := <-l.lines:
			l.write(s)
		case <-l.stop:
			for {
				select {
				case s := <-l.lines:
					l.write(s)
				default:
					return
				}
			}
		}
	}
}

func (l *logger) write(s string) {
	fmt.Fprintln(l.w, s)
	if n := l.dropped.Swap(0); n > 0 {
		fmt.Fprintf(l.w, "%s %d lines were lost: nobody read them in time\n", time.Now().UTC().Format(time.RFC3339), n)
	}
}
