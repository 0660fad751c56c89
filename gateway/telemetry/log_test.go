package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
)

// reader is a sink that tests steer.
type reader struct {
	mu   sync.Mutex // guards everything that follows
	got  bytes.Buffer
	fail error         // of every write, if set
	room int           // bytes taken before fail, used up
	hold chan struct{} // writes wait until it is closed, if set
}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		<-hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail == nil {
		return r.got.Write(p)
	}
	n := min(r.room, len(p))
	r.room -= n
	r.got.Write(p[:n])
	return n, r.fail
}

func (r *reader) set(fail error, room int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail, r.room = fail, room
}

// ids returns the request ids and event names of whole lines, in order, and
// fails on anything else.
func ids(t *testing.T, text string) []string {
	t.Helper()
	var l []string
	for line := range strings.Lines(text) {
		var v struct {
			Event     string `json:"event"`
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("broken line %q: %v", line, err)
		}
		if v.Event == string(decision.KindDecision) {
			l = append(l, v.RequestID)
		} else {
			l = append(l, v.Event)
		}
	}
	return l
}

func (r *reader) ids(t *testing.T) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	return ids(t, r.got.String())
}

func numbered(n int) *decision.Decision {
	d := fellOver()
	d.RequestID = fmt.Sprint(n)
	return d
}

func upTo(from, to int) []string {
	var l []string
	for n := from; n <= to; n++ {
		l = append(l, fmt.Sprint(n))
	}
	return l
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("lines %v, want %v", got, want)
	}
}

func newLog(t *testing.T, o LogOptions) *Log {
	t.Helper()
	l, err := NewLog(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closeLog(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestLogWritesWhatItIsGiven(t *testing.T) {
	r := new(reader)
	l := newLog(t, LogOptions{Target: ToStdout, Version: "1.2.3", Instance: "gw-1", Stdout: r})
	for n := range 1000 {
		l.Decision(numbered(n))
	}
	l.Event(decision.Event{
		Kind: decision.KindTrafficStep, Time: time.Date(2026, 11, 30, 4, 31, 2, 0, time.UTC),
		Provider: "a", From: "5", To: "25", By: "ana", Why: "probe <ok>", Action: "share", Result: "ok", Revision: 7,
	})
	closeLog(t, l)
	equal(t, r.ids(t), append(upTo(0, 999), "traffic_step"))
	lines := strings.Split(strings.TrimSpace(r.got.String()), "\n")
	const want = `{"event":"traffic_step","time":"2026-11-30T04:31:02Z","provider":"a","from":"5","to":"25","by":"ana","why":"probe <ok>","action":"share","result":"ok","revision":7,"service_version":"1.2.3","instance":"gw-1"}`
	if got := lines[1000]; got != want {
		t.Errorf("event\n%s\nwant\n%s", got, want)
	}
	if !strings.HasSuffix(lines[0], `"service_version":"1.2.3","instance":"gw-1"}`) {
		t.Errorf("line %s", lines[0])
	}
	if s := l.Stats(); s.Written != 1001 || s.Dropped != 0 || s.Failures != 0 || s.Error != "" || s.Target != "stdout" {
		t.Errorf("stats %+v", s)
	}
	l.Decision(numbered(1))
	l.Event(decision.Event{})
	if s := l.Stats(); s.Written != 1001 || s.Dropped != 2 {
		t.Errorf("after Close: %+v", s)
	}
	closeLog(t, l)
}

// A slow reader keeps nobody waiting; what does not fit is dropped and counted,
// and decisions leave room for events.
func TestLogNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{hold: make(chan struct{})}
		l := newLog(t, LogOptions{Target: ToStdout, Stdout: r, Queue: 80})
		l.Decision(numbered(0))
		synctest.Wait() // the writer has it and hangs
		before := time.Now()
		for n := range 200 {
			l.Decision(numbered(1 + n))
		}
		for range 20 {
			l.Event(decision.Event{Kind: decision.KindBreakerTransition})
		}
		if waited := time.Since(before); waited != 0 {
			t.Errorf("waited %v", waited)
		}
		if s := l.Stats(); s.Dropped != 200-70+20-10 || s.Queued != 80 || s.Written != 0 {
			t.Errorf("stats %+v", s)
		}
		close(r.hold)
		closeLog(t, l)
		want := upTo(0, 70)
		for range 10 {
			want = append(want, string(decision.KindBreakerTransition))
		}
		equal(t, r.ids(t), want)
		if s := l.Stats(); s.Written != 81 || s.Written+s.Dropped != 221 {
			t.Errorf("stats %+v", s)
		}
	})
}

// A line that comes alone is written at once; those that come fast are written
// together, before they are too many.
func TestLogWritesInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(reader)
		w := &countingWriter{to: r}
		l := newLog(t, LogOptions{Target: ToStdout, Stdout: w, Queue: 800})
		for n := range 3 {
			l.Decision(numbered(n))
			synctest.Wait()
			equal(t, r.ids(t), upTo(0, n))
			pass(2 * batchEvery)
		}
		for n := 3; n < 1003; n++ {
			l.Decision(numbered(n))
			pass(time.Millisecond)
		}
		pass(batchEvery)
		synctest.Wait()
		equal(t, r.ids(t), upTo(0, 1002))
		if n := w.n.Load(); n > 110 {
			t.Errorf("%d writes in a second", n)
		}
		for n := 1003; n < 3003; n++ { // all at once: as many as wait are written
			l.Decision(numbered(n))
			if n%100 == 0 {
				synctest.Wait()
			}
		}
		if s := l.Stats(); s.Dropped != 0 {
			t.Errorf("%d lines were lost", s.Dropped)
		}
		closeLog(t, l)
		equal(t, r.ids(t), upTo(0, 3002))
	})
}

// A queue that is half full wakes the writer, also where those who filled it
// were beside each other and none of them saw just that many; and once.
func TestLogWritesWhenCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(reader)
		w := &countingWriter{to: r}
		l := newLog(t, LogOptions{Target: ToStdout, Stdout: w, Queue: 80})
		for n := range 2 { // after the second, lines are collected
			l.Decision(numbered(n))
			synctest.Wait()
		}
		for n := 2; n < 60; n++ {
			l.queue <- item{d: numbered(n)}
		}
		l.Decision(numbered(60))
		synctest.Wait()
		equal(t, r.ids(t), upTo(0, 60))
		pass(2 * batchEvery)

		hold := make(chan struct{})
		r.mu.Lock()
		r.hold = hold
		r.mu.Unlock()
		for n := 61; n < 121; n++ { // the writer is in the middle of the first
			l.Decision(numbered(n))
			synctest.Wait()
		}
		close(hold)
		synctest.Wait()
		before := w.n.Load()
		for n := 121; n < 124; n++ {
			l.Decision(numbered(n))
			synctest.Wait()
		}
		if n := w.n.Load() - before; n > 0 {
			t.Errorf("%d writes of three lines that came fast", n)
		}
		pass(batchEvery)
		synctest.Wait()
		equal(t, r.ids(t), upTo(0, 123))
		closeLog(t, l)
	})
}

type countingWriter struct {
	to io.Writer
	n  atomic.Int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.n.Add(1)
	return w.to.Write(p)
}

// A full disk is named and tried again; lines go on where they stopped, in the
// middle of one if need be, none twice.
func TestLogGoesOnAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(reader)
		l := newLog(t, LogOptions{Target: ToStdout, Stdout: r})
		l.Decision(numbered(0))
		synctest.Wait()
		whole := r.got.Len()

		r.set(syscall.ENOSPC, whole+whole/2)
		for n := 1; n <= 5; n++ {
			l.Decision(numbered(n))
		}
		synctest.Wait()
		s := l.Stats()
		if s.Written != 2 || s.Failures != 1 || !strings.Contains(s.Error, "no space left") || s.Dropped != 0 {
			t.Errorf("stats %+v", s)
		}
		pass(time.Minute)
		synctest.Wait()
		if again := l.Stats().Failures; again < 10 || again > 30 {
			t.Errorf("%d failures in a minute", again)
		}
		r.set(nil, 0)
		pass(pauseMost)
		synctest.Wait()
		equal(t, r.ids(t), upTo(0, 5))
		// The next failure is a new one: tried again soon.
		r.set(syscall.ENOSPC, 0)
		l.Decision(numbered(6))
		synctest.Wait()
		r.set(nil, 0)
		pass(pauseFirst)
		synctest.Wait()
		equal(t, r.ids(t), upTo(0, 6))
		if s := l.Stats(); s.Written != 7 || s.Error != "" || s.Dropped != 0 {
			t.Errorf("stats %+v", s)
		}
		closeLog(t, l)
	})
}

func TestLogCloseGivesUpOnDeadSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(reader)
		r.set(syscall.EIO, 0)
		l := newLog(t, LogOptions{Target: ToStdout, Stdout: r, Queue: 8})
		l.Decision(numbered(0))
		synctest.Wait()
		l.Decision(numbered(1))
		l.Decision(numbered(2))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := l.Close(ctx)
		if err == nil || !strings.Contains(err.Error(), syscall.EIO.Error()) {
			t.Errorf("Close: %v", err)
		}
		if s := l.Stats(); s.Dropped != 3 || s.Written != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestLogCloseLeavesSinkThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{hold: make(chan struct{})}
		l := newLog(t, LogOptions{Target: ToStdout, Stdout: r})
		l.Decision(numbered(0))
		synctest.Wait()
		l.Decision(numbered(1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		before := time.Now()
		if err := l.Close(ctx); err == nil || !strings.Contains(err.Error(), "1 lines wait") {
			t.Errorf("Close: %v", err)
		}
		if waited := time.Since(before); waited > 2*time.Second {
			t.Errorf("waited %v", waited)
		}
		close(r.hold)
	})
}

// The sink comes back while Close waits for it: nothing is lost.
func TestLogCloseWaitsForSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(reader)
		r.set(syscall.ENOSPC, 0)
		l := newLog(t, LogOptions{Target: ToStdout, Stdout: r})
		l.Decision(numbered(0))
		pass(time.Minute)
		ended := make(chan error)
		go func() { ended <- l.Close(t.Context()) }()
		pass(time.Second)
		r.set(nil, 0)
		before := time.Now()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if waited := time.Since(before); waited > pauseFirst {
			t.Errorf("waited %v", waited)
		}
		equal(t, r.ids(t), upTo(0, 0))
	})
}

// A sink that is well again by then does not keep Close waiting.
func TestLogCloseTriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(reader)
		r.set(syscall.ENOSPC, 0)
		l := newLog(t, LogOptions{Target: ToStdout, Stdout: r})
		l.Decision(numbered(0))
		pass(time.Minute + time.Second)
		r.set(nil, 0)
		before := time.Now()
		closeLog(t, l)
		if waited := time.Since(before); waited != 0 {
			t.Errorf("waited %v", waited)
		}
		equal(t, r.ids(t), upTo(0, 0))
	})
}

// A reader that has gone (EPIPE) is a counted failure, nothing else.
func TestLogWithoutReader(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	l := newLog(t, LogOptions{Target: ToStdout, Stdout: in})
	l.Decision(numbered(0))
	until(t, func() bool { return l.Stats().Failures > 0 })
	if s := l.Stats(); !strings.Contains(s.Error, "broken pipe") {
		t.Errorf("stats %+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(ctx); err == nil {
		t.Error("Close lost a line without a word")
	}
	if s := l.Stats(); s.Dropped != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestLogOnFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("requires /dev/full")
	}
	l := newLog(t, LogOptions{Target: "/dev/full"})
	l.Decision(numbered(0))
	until(t, func() bool { return l.Stats().Failures > 0 })
	if s := l.Stats(); !strings.Contains(s.Error, "/dev/full") || !strings.Contains(s.Error, "no space left") {
		t.Errorf("stats %+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(ctx); err == nil {
		t.Error("Close lost a line without a word")
	}
}

// until waits for a condition outside of a bubble.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("waited 10 s in vain")
		}
		runtime.Gosched()
	}
}

func TestLogToFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "decisions.log")
		// A process before us died within a line.
		if err := os.WriteFile(path, []byte(`{"event":"model_route_selected","request_id":"0"}`+"\n"+`{"event":"mod`), 0o640); err != nil {
			t.Fatal(err)
		}
		l := newLog(t, LogOptions{Target: path})
		l.Decision(numbered(1))
		synctest.Wait()
		text := read(t, path)
		first, rest, _ := strings.Cut(text, "\n")
		torn, rest, _ := strings.Cut(rest, "\n")
		if ids(t, first+"\n")[0] != "0" || torn != `{"event":"mod` {
			t.Errorf("what was there became %q, %q", first, torn)
		}
		equal(t, ids(t, rest), upTo(1, 1))

		// Rotated by hand: the old name goes on within a second, at once if asked.
		rotated := path + ".1"
		rename(t, path, rotated)
		before := l.sink.(*fileSink).file
		l.Reopen()
		synctest.Wait()
		if err := before.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("the file that was rotated is still open, and keeps its room on the disk: %v", err)
		}
		l.Decision(numbered(2))
		synctest.Wait()
		equal(t, ids(t, read(t, path)), upTo(2, 2))
		rename(t, path, path+".2")
		pass(lookEvery)
		l.Decision(numbered(3))
		synctest.Wait()
		equal(t, ids(t, read(t, path)), upTo(3, 3))
		// Deleted to make room.
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		pass(lookEvery)
		l.Decision(numbered(4))
		synctest.Wait()
		equal(t, ids(t, read(t, path)), upTo(4, 4))
		// Its directory is gone: named, kept, written when there is one again.
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		pass(lookEvery)
		l.Decision(numbered(5))
		synctest.Wait()
		if s := l.Stats(); !strings.Contains(s.Error, path) || s.Written != 4 {
			t.Errorf("stats %+v", s)
		}
		if err := os.Mkdir(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		pass(pauseMost)
		synctest.Wait()
		equal(t, ids(t, read(t, path)), upTo(5, 5))
		closeLog(t, l)
		if s := l.Stats(); s.Written != 5 || s.Dropped != 0 || s.Error != "" {
			t.Errorf("stats %+v", s)
		}
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// moving is a sink whose place changes after it failed, as when a full disk's
// log is deleted.
type moving struct {
	places [2]reader
	at     int
}

func (m *moving) Write(p []byte) (int, error) { return m.places[m.at].Write(p) }
func (m *moving) Close() error                { return nil }
func (m *moving) fresh(_ time.Time, force bool) (bool, error) {
	if force && m.at == 0 {
		m.at = 1
		return true, nil
	}
	return false, nil
}

// A line that the old place has half is whole in the new one.
func TestLogTornLineIsWrittenWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(moving)
		m.places[0].set(syscall.ENOSPC, 10)
		l := newLog(t, LogOptions{Target: ToNone})
		l.target, l.sink, l.done = "moving", m, make(chan struct{})
		l.start(0)
		l.Decision(numbered(0))
		l.Decision(numbered(1))
		pass(pauseFirst)
		synctest.Wait()
		equal(t, m.places[1].ids(t), upTo(0, 1))
		closeLog(t, l)
		if s := l.Stats(); s.Written != 2 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestLogSample(t *testing.T) {
	r := new(reader)
	l := newLog(t, LogOptions{Target: ToStdout, Stdout: r, Queue: 1 << 16, Sample: map[string]float64{"primary_completed": 0.25}})
	const n = 20_000
	for range n {
		l.Decision(answered())
	}
	for i := range 100 {
		l.Decision(numbered(i))
	}
	left := answered()
	left.RequestID, left.Status = "left", decision.Cancelled
	l.Decision(left)
	closeLog(t, l)

	kept, others := 0, 0
	for line := range strings.Lines(r.got.String()) {
		switch strings.Contains(line, `"sample":0.25,`) {
		case true:
			kept++
			if !strings.Contains(line, `"reason":"primary_completed"`) {
				t.Errorf("thinned: %s", line)
			}
		default:
			others++
		}
	}
	if others != 101 {
		t.Errorf("%d of 101 lines that must not be thinned", others)
	}
	if kept < 4700 || kept > 5300 {
		t.Errorf("%d of %d kept at 0.25", kept, n)
	}
	if s := l.Stats(); s.Thinned != uint64(n-kept) || s.Dropped != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestLogOptionsAreChecked(t *testing.T) {
	for _, o := range []LogOptions{
		{},
		{Target: ToStdout, Sample: map[string]float64{"server_error": 0.5}},
		{Target: ToStdout, Sample: map[string]float64{"primary_completed": 1.5}},
		{Target: ToStdout, Sample: map[string]float64{"primary_completed": -0.1}},
		{Target: filepath.Join(t.TempDir(), "missing", "x.log")},
		{Target: t.TempDir()},
	} {
		l, err := NewLog(o)
		if err == nil {
			closeLog(t, l)
			t.Errorf("%+v was taken", o)
		} else if !strings.Contains(err.Error(), "decision log") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	l := newLog(t, LogOptions{Target: ToStdout, Stdout: io.Discard, Sample: map[string]float64{"primary_completed": 0}})
	l.Decision(answered())
	closeLog(t, l)
	if s := l.Stats(); s.Written != 0 || s.Thinned != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestLogToNone(t *testing.T) {
	l := newLog(t, LogOptions{Target: ToNone})
	l.Decision(numbered(0))
	l.Event(decision.Event{})
	l.Reopen()
	closeLog(t, l)
	if s := l.Stats(); s.Written != 0 || s.Dropped != 0 || s.Target != ToNone {
		t.Errorf("stats %+v", s)
	}
}

func TestLogConcurrently(t *testing.T) {
	r := new(reader)
	l := newLog(t, LogOptions{Target: ToStdout, Stdout: r, Queue: 64})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range 1000 {
				l.Decision(numbered(n))
				l.Event(decision.Event{Kind: decision.KindTrafficStep})
				l.Stats()
			}
		})
	}
	wg.Wait()
	closeLog(t, l)
	s := l.Stats()
	if s.Written+s.Dropped != 8000 || len(r.ids(t)) != int(s.Written) {
		t.Errorf("stats %+v, %d lines", s, len(r.ids(t)))
	}
}

func TestLogCostsTheRequestNothing(t *testing.T) {
	r := &reader{hold: make(chan struct{})}
	l := newLog(t, LogOptions{Target: ToStdout, Stdout: r, Queue: 4096})
	d := numbered(0)
	if n := testing.AllocsPerRun(1000, func() { l.Decision(d) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	close(r.hold)
	closeLog(t, l)
}

func TestErrorsOfLogAreErrors(t *testing.T) {
	_, err := NewLog(LogOptions{Target: filepath.Join(t.TempDir(), "missing", "x.log")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func BenchmarkLog(b *testing.B) {
	l, err := NewLog(LogOptions{Target: ToStdout, Stdout: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	d := fellOver()
	b.ReportAllocs()
	for b.Loop() {
		l.Decision(d)
	}
	if err := l.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}
