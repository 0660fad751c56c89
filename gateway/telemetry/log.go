package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// Targets of the log that are no file.
const (
	ToStdout = "stdout"
	ToNone   = "none"
)

const (
	defaultQueue = 8192
	batchBytes   = 128 << 10
	// batchEvery is how often the sink is written to where lines come faster
	// than that: waking the writer and a system call for each of them cost more
	// than the lines. One that comes alone is written at once.
	batchEvery = 50 * time.Millisecond
	pauseFirst = 100 * time.Millisecond
	pauseMost  = 5 * time.Second
)

// LogOptions say where the decision log goes.
type LogOptions struct {
	Target   string // ToStdout, ToNone, or the path of a file to append to
	Version  string // of the program, in every line
	Instance string // in every line
	// Sample is the part (0 to 1) of the lines that is kept, by reason. Only
	// decision.PrimaryCompleted may be thinned; what is not named is kept whole.
	Sample map[string]float64
	// Queue is how many lines may wait for the sink; 0 means 8192. The last
	// eighth is for events.
	Queue int
	// Stdout is what ToStdout means; nil means os.Stdout.
	Stdout io.Writer
}

// Log writes the decision log: one goroutine, one line each, from a queue that
// never keeps a request waiting. A sink that fails is tried again and again
// with what it did not take; what does not fit into the queue meanwhile is
// dropped and counted.
//
// A process whose stdout is the target must ignore SIGPIPE, or the end of the
// reader is the end of the process.
type Log struct {
	target string
	meta   Meta
	keep   float64 // part of the primary_completed lines
	queue  chan item
	room   int // what decisions may take of the queue

	written, dropped, thinned, failures atomic.Uint64
	problem                             atomic.Pointer[string]

	reopen  chan struct{}
	crowded chan struct{} // half of the queue is full: write now
	closing chan struct{} // Close was called: write what is queued and end
	giveUp  chan struct{} // Close waits no longer: end
	done    chan struct{}
	once    sync.Once

	// What follows belongs to the writer.

	sink  sink
	buf   []byte       // whole lines that the sink has not taken whole
	taken int          // bytes of the first of them that it has
	lines int          // in buf
	line  api.Decision // that is being rendered
}

// item is a line to come: a decision or an event.
type item struct {
	d      *decision.Decision
	sample float64
	e      *decision.Event
}

// LogStats say how the log is doing.
type LogStats struct {
	api.Log
	Thinned  uint64 // lines left out on purpose, by LogOptions.Sample
	Failures uint64 // writes that failed
	Queued   int
}

// NewLog opens the target and starts to write. The caller ends it with Close.
// An error says what about the options is wrong, or names the file.
func NewLog(o LogOptions) (*Log, error) {
	l := &Log{
		target: o.Target, meta: Meta{Version: o.Version, Instance: o.Instance}, keep: 1,
		reopen: make(chan struct{}, 1), crowded: make(chan struct{}, 1), closing: make(chan struct{}), giveUp: make(chan struct{}), done: make(chan struct{}),
	}
	for reason, part := range o.Sample {
		if reason != string(decision.PrimaryCompleted) {
			return nil, fmt.Errorf("decision log: only %s lines can be thinned, not %q", decision.PrimaryCompleted, reason)
		}
		if !(part >= 0 && part <= 1) {
			return nil, fmt.Errorf("decision log: sample %s: %v is not between 0 and 1", reason, part)
		}
		l.keep = part
	}
	switch o.Target {
	case ToNone:
		close(l.done)
		return l, nil
	case ToStdout:
		l.sink = streamSink{os.Stdout}
		if o.Stdout != nil {
			l.sink = streamSink{o.Stdout}
		}
	case "":
		return nil, errors.New("decision log: no target; give stdout, none or a path")
	default:
		f, err := openFile(o.Target)
		if err != nil {
			return nil, fmt.Errorf("decision log: %w", err)
		}
		l.sink = f
	}
	l.start(o.Queue)
	return l, nil
}

// start begins to write to l.sink.
func (l *Log) start(queue int) {
	if queue <= 0 {
		queue = defaultQueue
	}
	l.queue = make(chan item, queue)
	l.room = queue - queue/8
	go l.run()
}

// Decision logs d, which must not be changed any more. It never blocks.
func (l *Log) Decision(d *decision.Decision) {
	if l.queue == nil {
		return
	}
	it := item{d: d}
	if l.keep < 1 && d.Status == decision.Completed && d.Reason == decision.PrimaryCompleted {
		if rand.Float64() >= l.keep {
			l.thinned.Add(1)
			return
		}
		it.sample = l.keep
	}
	if len(l.queue) >= l.room {
		l.dropped.Add(1)
		return
	}
	l.put(it)
}

// Event logs e. It never blocks.
func (l *Log) Event(e decision.Event) {
	if l.queue != nil {
		l.put(item{e: &e})
	}
}

func (l *Log) put(it item) {
	select {
	case <-l.closing:
		l.dropped.Add(1)
		return
	default:
	}
	select {
	case l.queue <- it:
	default:
		l.dropped.Add(1)
		return
	}
	if len(l.queue) >= cap(l.queue)/2 { // not only at it: others log beside this
		select {
		case l.crowded <- struct{}{}:
		default:
		}
	}
}

// Reopen makes the writer open its file anew, as after a rotation. A file that
// was moved or deleted is noticed without it, within a second of the next line.
func (l *Log) Reopen() {
	select {
	case l.reopen <- struct{}{}:
	default:
	}
}

// Close writes what is queued, at the latest until ctx ends, and closes the
// file. Lines that come later are dropped. An error says how many lines were
// lost and why.
func (l *Log) Close(ctx context.Context) error {
	l.once.Do(func() {
		close(l.closing)
		go func() {
			select {
			case <-ctx.Done():
				close(l.giveUp)
			case <-l.done:
			}
		}()
	})
	select {
	case <-l.done:
	case <-ctx.Done():
		timer := time.NewTimer(pauseFirst)
		defer timer.Stop()
		select {
		case <-l.done:
		case <-timer.C: // the writer sits in a write that may never end
			return fmt.Errorf("decision log: %s takes no more; %d lines wait", l.target, len(l.queue))
		}
	}
	if p := l.problem.Load(); p != nil {
		return errors.New(*p)
	}
	return nil
}

// Stats says how the log is doing.
func (l *Log) Stats() LogStats {
	s := LogStats{
		Log:     api.Log{Target: l.target, Written: l.written.Load(), Dropped: l.dropped.Load()},
		Thinned: l.thinned.Load(), Failures: l.failures.Load(), Queued: len(l.queue),
	}
	if p := l.problem.Load(); p != nil {
		s.Error = *p
	}
	return s
}

// run is the writer.
func (l *Log) run() {
	defer close(l.done)
	pause := pauseFirst
	force := false
	var last time.Time // when the sink was written to, or the wait after that ended
	for l.gather(&force) {
		lines, more := len(l.buf) > 0, len(l.buf) >= batchBytes
		err := l.flush(force)
		force = false
		if err == nil {
			pause = pauseFirst
			l.problem.Store(nil)
			if lines {
				if time.Since(last) < batchEvery && !more {
					l.collect(&force)
				}
				last = time.Now()
			}
			continue
		}
		text := fmt.Sprintf("decision log: %v; trying again", err)
		l.problem.Store(&text)
		l.failures.Add(1)
		if !l.rest(pause, &force) {
			break
		}
		pause = min(2*pause, pauseMost)
	}
	l.dropped.Add(uint64(l.lines + len(l.queue)))
	if err := l.sink.Close(); err != nil && l.problem.Load() == nil {
		text := fmt.Sprintf("decision log: %v", err)
		l.problem.Store(&text)
	}
}

// collect waits while lines come together in the queue.
func (l *Log) collect(force *bool) {
	select {
	case <-l.crowded: // by lines that were taken since, or are counted now
	default:
	}
	if len(l.queue) >= cap(l.queue)/2 {
		return
	}
	timer := time.NewTimer(batchEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.crowded:
	case <-l.reopen:
		*force = true
	case <-l.closing:
	}
}

// gather fills the buffer with what is queued, and waits if there is nothing.
// It reports whether there is anything to do; not so after Close.
func (l *Log) gather(force *bool) bool {
	if len(l.buf) == 0 {
		select {
		case it := <-l.queue:
			l.add(it)
		case <-l.reopen:
			*force = true
		case <-l.closing:
			select {
			case it := <-l.queue:
				l.add(it)
			default:
				return false
			}
		}
	}
	for len(l.buf) < batchBytes {
		select {
		case it := <-l.queue:
			l.add(it)
		default:
			return true
		}
	}
	return true
}

func (l *Log) add(it item) {
	if it.d != nil {
		render(&l.line, it.d, l.meta)
		l.line.Sample = it.sample
		l.buf = appendDecision(l.buf, &l.line)
	} else {
		l.buf = appendEvent(l.buf, *it.e, l.meta)
	}
	l.lines++
}

// flush hands the buffer to the sink.
func (l *Log) flush(force bool) error {
	moved, err := l.sink.fresh(time.Now(), force)
	if moved {
		l.taken = 0 // a line that was torn is written whole in the new place
	}
	if err != nil {
		return err
	}
	for len(l.buf) > 0 {
		n, err := l.sink.Write(l.buf[l.taken:])
		l.taken += n
		if end := bytes.LastIndexByte(l.buf[:l.taken], '\n') + 1; end > 0 {
			whole := bytes.Count(l.buf[:end], []byte{'\n'})
			l.written.Add(uint64(whole))
			l.lines -= whole
			l.buf = l.buf[:copy(l.buf, l.buf[end:])]
			l.taken -= end
		}
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rest waits before the next attempt. It reports false when there must be none.
func (l *Log) rest(d time.Duration, force *bool) bool {
	closing := l.closing
	select {
	case <-closing:
		closing, d = nil, pauseFirst
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.reopen:
	case <-closing:
	case <-l.giveUp:
		return false
	}
	*force = true
	return true
}
