package logs

import (
	"bytes"
	"sync"
)

const (
	// queueBytes is how much may wait for the disk.
	queueBytes = 4 << 20
	// keepBytes is how large a buffer is kept when it is empty.
	keepBytes = 256 << 10
	// maxLine is how long a line may be at most: Loki's own limit.
	maxLine = 256 << 10
)

// queue holds lines, each with its end, between those who write them and the
// goroutine that stores them.
type queue struct {
	wake    chan struct{} // has an element if there may be lines
	longest int           // how long a line may be

	// mu guards everything that follows.
	mu     sync.Mutex
	lines  []byte
	spare  []byte
	closed bool
}

func newQueue(longest int) *queue { return &queue{wake: make(chan struct{}, 1), longest: longest} }

// put adds the lines of p and says how many found no place. ok is false when
// the queue is closed.
func (q *queue) put(p []byte) (lost int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(p) > 0 {
		line := p
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			line, p = p[:i], p[i+1:]
		} else {
			p = nil
		}
		switch {
		case len(line) == 0:
		case q.closed || len(line) > q.longest || len(q.lines)+len(line) >= queueBytes:
			lost++
		default:
			q.lines = append(append(q.lines, line...), '\n')
		}
	}
	if len(q.lines) > 0 {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return lost, !q.closed
}

// take returns all lines; they are the caller's until it takes again.
func (q *queue) take() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	lines := q.lines
	q.lines, q.spare = q.spare[:0], lines
	if cap(q.spare) > keepBytes {
		q.spare = nil
	}
	return lines
}

// close lets nothing more in.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
