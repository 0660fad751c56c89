package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// maxChunk is how much is written at once, at most.
	maxChunk = 256 << 10

	pauseFirst = 100 * time.Millisecond
	pauseMost  = 5 * time.Second
	// lookEvery is how often the writer looks for what only time brings: lines
	// that get too old, a file that somebody deleted.
	lookEvery = time.Minute
)

// writer stores the lines of the queue. All of it belongs to one goroutine.
type writer struct {
	s *Store

	seg   *segment // being written to; nil if there is none
	f     file
	b     *builder
	begun time.Time // when seg got its first line

	out    []byte // what the file has not taken yet, of lines that b has
	staged int    // lines in out
	size   int64  // of the file with out
	pause  time.Duration
	failed uint64 // lines lost when the trouble with the disk began
	last   uint64 // the highest number a segment had
	over   bool   // the store is closed and the disk takes nothing more
}

// resume goes on with the newest segment, if it is whole and has room.
func (w *writer) resume() {
	if len(w.s.segs) == 0 {
		return
	}
	g := w.s.segs[len(w.s.segs)-1]
	w.last = g.number
	f, err := w.s.o.files(g.path)
	if err != nil {
		return // it stays to be read, and writing says what is wrong
	}
	b, err := w.reopen(g, f)
	if err != nil || b.x.size >= w.s.o.segmentSize() || !b.setStream(w.s.o.Labels) {
		_ = f.Close()
		return
	}
	w.seg, w.f, w.b, w.size, w.begun = g, f, b, b.x.size, time.Now()
	if len(b.x.ts) > 0 && b.x.ts[0] < w.begun.UnixNano() {
		w.begun = time.Unix(0, b.x.ts[0])
	}
	g.size, g.live, g.holes = b.x.size, b.view(), b.x.holes
	w.out = appendStream(nil, w.s.o.Labels)
	w.size += int64(len(w.out))
}

// reopen makes the end of g's file a whole line and returns its index.
func (w *writer) reopen(g *segment, f file) (*builder, error) {
	size, err := wholeLines(f, g.size)
	if err != nil {
		return nil, err
	}
	if size != g.size {
		if err := f.Truncate(size); err != nil {
			return nil, err
		}
	}
	if x, err := readSide(g.side(), f, size, w.s.o.Indexed); err == nil {
		return resume(x), nil
	}
	b, err := w.s.scan(g, f, size)
	if err == nil && b.x.damaged() > 0 {
		w.s.o.Log(fmt.Sprintf("embedded log: %s: %s", filepath.Base(g.path), damage(b.x.damaged())))
	}
	return b, err
}

func (w *writer) run() {
	defer close(w.s.done)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	w.resume()
	close(w.s.ready)
	w.s.index.Go(w.s.makeMissing)
	w.look()
	for {
		select {
		case <-w.s.queue.wake:
			w.store(w.s.queue.take())
		case <-look.C:
			w.look()
		case <-w.s.closing:
			w.store(w.s.queue.take())
			w.finish()
			return
		}
	}
}

// look does what only time brings.
func (w *writer) look() {
	now := time.Now()
	if w.seg != nil {
		switch info, err := os.Stat(w.seg.path); {
		case errors.Is(err, fs.ErrNotExist):
			w.abandon()
		case err == nil && w.changed(info.Size()):
			w.giveUp()
		case len(w.b.x.ts) > 0 && now.Sub(w.begun) > w.s.o.MaxAge/segments:
			w.finish() // so that its lines can go when they are too old
		}
	}
	w.s.retain(now, w.room())
}

// room is how much may be written before retain is called again: lines, and
// what the side file of the segment will take.
func (w *writer) room() int64 {
	n := int64(w.chunk() + summarySize)
	if w.b != nil {
		n += int64(18*len(w.b.x.ts) + 4*len(w.b.x.shapes))
		for _, v := range w.b.x.values {
			n += int64(len(v)) * 3 / 2
		}
	}
	return n
}

// chunk is how many bytes are written at once.
func (w *writer) chunk() int { return int(min(maxChunk, w.s.o.segmentSize()/4)) }

// store writes lines to the disk, however long it takes.
func (w *writer) store(lines []byte) {
	now := time.Now()
	for len(lines) > 0 {
		i := bytes.IndexByte(lines, '\n')
		line := lines[:i]
		lines = lines[i+1:]
		if !w.begin(now, len(line)) {
			w.lose(1)
			continue
		}
		ts := w.b.scan.line(line)
		if needsTime(line, ts, w.b.scan.whole) {
			if ts == noTime {
				ts = now.UnixNano()
			}
			was := len(w.out)
			w.out = appendTime(w.out, ts, len(line))
			w.size += int64(len(w.out) - was)
		}
		w.b.add(ts, w.size, line)
		w.out = append(append(w.out, line...), '\n')
		w.size += int64(len(line)) + 1
		w.staged++
		if len(w.out) >= w.chunk() {
			w.flush()
		}
	}
	w.flush()
}

// begin sees to it that there is a segment for a line of n bytes. It reports
// false when there is none and the store ends.
func (w *writer) begin(now time.Time, n int) bool {
	if w.seg != nil && len(w.b.x.ts) > 0 && w.size+int64(n) > w.s.o.segmentSize() {
		w.finish()
	}
	for w.seg == nil {
		if w.over {
			return false
		}
		err := w.create()
		if err == nil {
			break
		}
		w.trouble(err)
	}
	if w.staged == 0 {
		w.s.retain(now, w.room())
	}
	return true
}

// create begins a segment.
func (w *writer) create() error {
	g := newSegment(w.s.o.Dir, w.last+1)
	if err := os.MkdirAll(w.s.o.Dir, 0o750); err != nil {
		return err
	}
	f, err := w.s.o.files(g.path)
	if err != nil {
		return err
	}
	w.b = newBuilder(w.s.o.Indexed)
	w.b.setStream(w.s.o.Labels)
	w.seg, w.f, w.begun, w.last = g, f, time.Now(), g.number
	w.out = appendStream(w.out[:0], w.s.o.Labels)
	w.size = int64(len(w.out))
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	g.live = w.b.view()
	w.s.segs = append(w.s.segs, g)
	return nil
}

// flush writes out, again and again if need be, and shows it to readers. When
// the store ends it tries once more and then drops what is left.
func (w *writer) flush() {
	for w.staged > 0 {
		n, err := w.f.Write(w.out)
		w.out = w.out[:copy(w.out, w.out[n:])]
		if len(w.out) == 0 {
			w.publish()
			return
		}
		if err == nil {
			err = io.ErrShortWrite
		}
		if w.over {
			w.lose(w.staged)
			w.abandonLines()
			return
		}
		w.trouble(err)
		if _, err := os.Stat(w.seg.path); errors.Is(err, fs.ErrNotExist) {
			w.lose(w.staged)
			w.abandon()
			return
		}
	}
}

// publish shows readers what the file has taken.
func (w *writer) publish() {
	w.s.written.Add(uint64(w.staged))
	w.staged = 0
	w.b.x.size = w.size
	x := w.b.view()
	w.s.mu.Lock()
	w.seg.size, w.seg.live = w.size, x
	w.s.mu.Unlock()
	if w.pause > 0 {
		w.pause = 0
		w.s.problem.Store(nil)
		w.s.o.Log(fmt.Sprintf("embedded log: writing again; %d lines were lost", w.s.lost.Load()-w.failed))
	}
}

// trouble names what is wrong and waits before the next try. At the end of the
// store it does not wait, and there is one more try.
func (w *writer) trouble(err error) {
	err = fmt.Errorf("writing: %w", err)
	w.s.problem.Store(&err)
	if w.pause == 0 {
		w.failed = w.s.lost.Load()
		w.s.o.Log(fmt.Sprintf("embedded log: %v; lines wait for room, and more than %d KiB of them are lost", err, queueBytes>>10))
		w.pause = pauseFirst
	}
	t := time.NewTimer(w.pause)
	defer t.Stop()
	w.pause = min(2*w.pause, pauseMost)
	select {
	case <-t.C:
		w.s.retain(time.Now(), w.room()) // what is too old by now may make room
	case <-w.s.closing:
		w.over = true
	}
}

func (w *writer) lose(n int) { w.s.lost.Add(uint64(n)) }

// finish closes the segment and keeps its index in a side file.
func (w *writer) finish() {
	w.flush()
	if w.seg == nil {
		return
	}
	g, x := w.seg, w.b.view()
	x.size = g.size
	n, err := writeSide(g.side(), x, w.f)
	if err != nil && !w.over {
		w.s.o.Log(fmt.Sprintf("embedded log: the index of %s is not kept and will be made again: %v", filepath.Base(g.path), err))
	}
	w.s.mu.Lock()
	g.sideSize = n
	g.sum = x.summary()
	g.live = nil
	w.s.mu.Unlock()
	w.drop()
}

// abandon forgets a segment whose file is gone.
func (w *writer) abandon() {
	w.s.o.Log(fmt.Sprintf("embedded log: %s was deleted; going on with a new one", filepath.Base(w.seg.path)))
	w.s.mu.Lock()
	w.s.segs = w.s.segs[:len(w.s.segs)-1]
	w.seg.dropped = true
	w.s.mu.Unlock()
	w.drop()
}

// abandonLines leaves the segment as the file has it, with lines that it did
// not take whole: the next start finds out where they end.
func (w *writer) abandonLines() {
	w.s.mu.Lock()
	w.seg.live = nil
	w.seg.sum = nil
	w.s.mu.Unlock()
	w.drop()
}

func (w *writer) drop() {
	_ = w.f.Close()
	w.seg, w.f, w.b, w.out, w.staged, w.size = nil, nil, nil, w.out[:0], 0, 0
}
