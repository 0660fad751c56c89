package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Store is the log. Its methods are safe for concurrent use.
type Store struct {
	o     Options
	queue *queue
	pace  *pacer
	// what each question may take; see maxMade and maxWork
	maxMade int64
	maxWork time.Duration
	api     http.Handler

	written, lost atomic.Uint64
	problem       atomic.Pointer[error] // of the disk, now

	ready   chan struct{} // the newest segment's end is known
	closing chan struct{} // Close was called: store what is queued and end
	done    chan struct{} // the writer has ended
	once    sync.Once
	index   sync.WaitGroup // of the goroutine that makes missing indexes; the writer starts it

	// mu guards everything that follows, and what segments say it does.
	mu   sync.Mutex
	segs []*segment // in order of arrival; the last may be written to
	over bool       // Close was called: nobody may begin to follow

	followers sync.WaitGroup // added to while over is false only
}

// Open continues the log in o.Dir or begins one. A line that was torn by a
// crash is dropped; an index that is missing or wrong is made again from the
// lines. A full disk is no error: Stats names it. No other process may have
// the directory open. The caller ends the store with Close.
func Open(o Options) (*Store, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("embedded log: %w", err)
	}
	s := &Store{
		o: o, pace: newPacer(), maxMade: maxMade, maxWork: maxWork, queue: newQueue(int(min(maxLine, o.segmentSize()))),
		ready: make(chan struct{}), closing: make(chan struct{}), done: make(chan struct{}),
	}
	if err := s.list(); err != nil {
		return nil, fmt.Errorf("embedded log: %w", err)
	}
	s.api = newAPI(s).routes()
	w := &writer{s: s}
	go w.run()
	return s, nil
}

// list finds the segments in the directory.
func (s *Store) list() error {
	entries, err := os.ReadDir(s.o.Dir)
	if err != nil {
		return err
	}
	sides := map[string]int64{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") {
			_ = os.Remove(filepath.Join(s.o.Dir, e.Name())) // of a side file that was being written
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if strings.HasSuffix(e.Name(), sideSuffix) {
			sides[e.Name()] = info.Size()
		}
		if n, ok := segmentNumber(e.Name()); ok {
			g := &segment{number: n, path: filepath.Join(s.o.Dir, e.Name()), size: info.Size()}
			s.segs = append(s.segs, g)
		}
	}
	slices.SortFunc(s.segs, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	for _, g := range s.segs {
		name := filepath.Base(g.side())
		g.sideSize = sides[name]
		delete(sides, name)
		g.sum = summaryOf(g)
	}
	for name := range sides {
		_ = os.Remove(filepath.Join(s.o.Dir, name)) // its segment is gone
	}
	return nil
}

// summaryOf returns what the side file of g says of it, or nil.
func summaryOf(g *segment) *summary {
	if g.sideSize == 0 {
		return nil
	}
	f, err := os.Open(g.path)
	if err != nil {
		return nil
	}
	defer f.Close()
	sum, err := readSummary(g.side(), f, g.size)
	if err != nil {
		return nil
	}
	return &sum
}

// missing returns the segments whose index must be made.
func (s *Store) missing() []*segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	var m []*segment
	for _, g := range s.segs {
		if g.sum == nil && g.live == nil {
			m = append(m, g)
		}
	}
	return m
}

// makeMissing makes the indexes that are missing, until the store is closed.
func (s *Store) makeMissing() {
	for _, g := range s.missing() {
		select {
		case <-s.closing:
			return
		default:
		}
		if !s.hold(g) {
			continue
		}
		if _, err := s.load(g); err != nil {
			s.o.Log(fmt.Sprintf("embedded log: %s cannot be read: %v", filepath.Base(g.path), err))
		}
		s.release(g)
	}
}

// Write takes whole lines of JSON, one or more, to be stored soon. It never
// waits: what finds no room is dropped and counted in Stats. The error is
// os.ErrClosed after Close, else nil, also for what was dropped.
func (s *Store) Write(lines []byte) (int, error) {
	lost, ok := s.queue.put(lines)
	s.lost.Add(uint64(lost))
	if !ok {
		return 0, os.ErrClosed
	}
	return len(lines), nil
}

// Stats say how many lines were stored and how many were lost since Open, and
// what is wrong with the disk right now, nil if nothing is.
func (s *Store) Stats() (written, dropped uint64, err error) {
	if p := s.problem.Load(); p != nil {
		err = *p
	}
	return s.written.Load(), s.lost.Load(), err
}

// Close stores what was written before it, ends the store and waits for those
// who follow it to be gone. What the disk refuses now is dropped and counted.
// Where the disk, or who follows, does not answer at all, Close returns when ctx
// ends, and the store ends when they answer. Questions that are being answered
// are answered.
func (s *Store) Close(ctx context.Context) error {
	s.once.Do(func() {
		s.queue.close()
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
		close(s.closing)
	})
	gone := make(chan struct{})
	go func() {
		s.followers.Wait()
		close(gone)
	}()
	select {
	case <-s.done:
	case <-ctx.Done():
		select {
		case <-s.done:
		default:
			return fmt.Errorf("embedded log: lines were left unwritten: %w", ctx.Err())
		}
	}
	s.index.Wait()
	select {
	case <-gone:
	case <-ctx.Done():
	}
	if _, _, err := s.Stats(); err != nil {
		return fmt.Errorf("embedded log: %w", err)
	}
	return nil
}

// follower counts one who follows the store until end; false if it is closed.
func (s *Store) follower() (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, false
	}
	s.followers.Add(1)
	return s.followers.Done, true
}

var errClosed = errors.New("the embedded log is closed")
