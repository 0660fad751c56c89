package upstream

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Why an attempt was ended by its own watch.
var (
	errFirstOutput = errors.New("no output in time")
	errWhole       = errors.New("no whole answer in time")
	errIdle        = errors.New("stream silent")
	errMax         = errors.New("stream too long")
	errSlowClient  = errors.New("client does not read")
	errEnough      = errors.New("enough was read")
)

// slowClient is how long one Write to the client may still take when the
// stream's time is up, before the client is held to be the cause.
const slowClient = 5 * time.Second

// watch ends an attempt that takes too long by cancelling its context with the
// reason. It is one timer and no goroutine: the limits are looked at when it
// fires, and what happens per read is one store.
type watch struct {
	cancel context.CancelCauseFunc
	start  time.Time

	// waiting is one more than when the read under way began, since start; 0
	// while nothing is read, as when the client is written to: its slowness is
	// not the upstream's silence. reads counts them.
	waiting atomic.Int64
	reads   atomic.Uint32

	mu sync.Mutex
	// mu guards everything that follows. Times are since start; 0: none.
	timer  *time.Timer
	due    time.Duration // when timer fires
	ended  bool          // the attempt is over, or was cancelled here
	first  time.Duration
	whole  time.Duration
	idle   time.Duration // longest read
	conn   *conn         // of this attempt alone, nil if it is shared
	end    time.Duration // of the stream
	enough time.Duration // when what is read at the end is enough
	late   uint32        // reads when end passed during a Write
	isLate bool
}

// begin starts watching. It is called before anything else.
func (w *watch) begin(cancel context.CancelCauseFunc, first, whole time.Duration) {
	w.cancel = cancel
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first, w.whole = first, whole
	w.arm(0)
}

// output says that the first output was seen: the stream's limits hold from
// now. What comes on own, if it is not nil, is a sign of life. It reports false
// if the watch has ended the attempt before.
func (w *watch) output(idle, longest time.Duration, own *conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Since(w.start)
	w.first, w.idle, w.conn = 0, idle, own
	if longest > 0 {
		w.end = now + longest
	}
	if !w.ended {
		w.arm(now)
	}
	return !w.ended
}

// silence changes how long nothing may come; 0: for ever.
func (w *watch) silence(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = d
	if !w.ended {
		w.arm(time.Since(w.start))
	}
}

// release says that the answer is given out as it comes: no other can replace
// it, so the limits that were there to try another are lifted.
func (w *watch) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first, w.whole = 0, 0
}

// atMost bounds what is still read, when the outcome is known already: only
// the connection's reuse depends on it.
func (w *watch) atMost(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Since(w.start)
	w.first, w.whole, w.idle, w.end = 0, 0, 0, 0
	w.enough = now + d
	if !w.ended {
		w.arm(now)
	}
}

// stop ends the watching.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// reading and read surround each read of the answer.
func (w *watch) reading() { w.waiting.Store(int64(time.Since(w.start)) + 1) }

func (w *watch) read() {
	w.waiting.Store(0)
	w.reads.Add(1)
}

// arm sets the timer to the next limit. It requires mu.
func (w *watch) arm(now time.Duration) {
	due := time.Duration(math.MaxInt64)
	for _, limit := range [...]time.Duration{w.first, w.whole, w.end, w.enough} {
		if limit > 0 {
			due = min(due, limit)
		}
	}
	if w.idle > 0 {
		since, waiting := w.silentSince()
		if !waiting {
			since = now
		}
		due = min(due, since+w.idle)
	}
	switch {
	case due == math.MaxInt64:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(due-now, w.fire)
	case due < w.due || w.due <= now:
		// A later limit is seen when the timer fires for the earlier one.
		w.timer.Reset(due - now)
	default:
		return
	}
	w.due = due
}

// silentSince returns since when nothing came, and whether something is waited
// for at all. A read may take several arrivals together, as net/http's of a
// chunk does; the connection knows of the last one. It requires mu.
func (w *watch) silentSince() (since time.Duration, waiting bool) {
	at := time.Duration(w.waiting.Load())
	if at == 0 {
		return 0, false
	}
	since = at - 1
	if w.conn != nil {
		since = max(since, w.conn.lastRead().Sub(w.start))
	}
	return since, true
}

// fire looks which limit passed, and waits for the next one if none did.
func (w *watch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	now := time.Since(w.start)
	since, waiting := w.silentSince()
	past := func(limit time.Duration) bool { return limit > 0 && now >= limit }
	var cause error
	switch {
	case past(w.first):
		cause = errFirstOutput
	case past(w.whole):
		cause = errWhole
	case past(w.enough):
		cause = errEnough
	case past(w.end) && waiting:
		cause = errMax
	case past(w.end):
		// The client is being written to. A moment later it is clear whether
		// that is what takes so long.
		reads := w.reads.Load()
		if w.isLate {
			cause = errMax
			if reads == w.late {
				cause = errSlowClient
			}
			break
		}
		w.late, w.isLate = reads, true
		w.end = now + slowClient
	case w.idle > 0 && waiting && now >= since+w.idle:
		cause = errIdle
	}
	if cause == nil {
		w.arm(now)
		return
	}
	w.ended = true
	w.cancel(cause)
}
