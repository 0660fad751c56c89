//go:build linux

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

const (
	// wireFor is how long bytes are counted.
	wireFor = 20 * time.Second
	// maxWire bounds what a console writes a second: far above what it does, and
	// what a slow line still carries.
	maxWire = 10_000
	// maxFirstFrame is far above the 200 ms that a start is to take, for a machine
	// that is busy.
	maxFirstFrame = 5 * time.Second
)

// wire is a console on a pty of 100x30, and what it writes.
type wire struct {
	cmd    *exec.Cmd
	master *os.File
	began  time.Time
	end    func()

	mu     sync.Mutex // guards what follows
	count  int
	tail   []byte    // the newest bytes
	frame  time.Time // when the first word of a frame came
	values time.Time // when the first state of an upstream did
}

func newWire(t *testing.T, args ...string) *wire {
	t.Helper()
	w := &wire{cmd: exec.Command(program, args...)}
	w.cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LANG=C.UTF-8", "XDG_CACHE_HOME="+place(t))
	w.began = time.Now()
	var err error
	if w.master, err = pty.StartWithSize(w.cmd, &pty.Winsize{Cols: 100, Rows: 30}); err != nil {
		t.Fatalf("there is no pty here: %v", err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		b := make([]byte, 8192)
		for {
			n, err := w.master.Read(b)
			w.take(b[:n])
			if err != nil {
				return
			}
		}
	})
	w.end = sync.OnceFunc(func() {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
		_ = w.master.Close()
		reader.Wait()
	})
	t.Cleanup(w.end)
	return w
}

func (w *wire) take(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count += len(b)
	w.tail = append(w.tail, b...)
	if w.frame.IsZero() && bytes.Contains(w.tail, []byte("READ-ONLY")) {
		w.frame = time.Now()
	}
	if w.values.IsZero() && bytes.Contains(w.tail, []byte("CLOSED")) {
		w.values = time.Now()
	}
	if len(w.tail) > 1<<16 {
		w.tail = slices.Clone(w.tail[len(w.tail)-1<<15:])
	}
}

func (w *wire) has(word string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.tail, []byte(word))
}

func (w *wire) bytes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// demoGateway is a demo without a console, and where it listens.
func demoGateway(t *testing.T, script string) string {
	t.Helper()
	dir := place(t)
	cmd := exec.Command(program, "demo", "--headless", "--script", script, "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	socket := filepath.Join(dir, "failback.sock")
	until(t, "the demo listens", func() bool {
		_, err := os.Stat(socket)
		return err == nil
	})
	return "unix:" + socket
}

// What a console writes to its terminal in a second, in peace and in an outage.
// Over SSH this is what goes over the line.
func TestBytesOnTheWire(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ script, word string }{{"quiet", "CLOSED"}, {"outage", "DEGRADED"}} {
		t.Run(c.script, func(t *testing.T) {
			t.Parallel()
			w := newWire(t, "console", "--connect", demoGateway(t, c.script))
			until(t, "it draws an upstream", func() bool { return w.has("CLOSED") })
			over := time.Now().Add(90 * time.Second) // the outage begins by the demo's own clock
			for !w.has(c.word) {
				if time.Now().After(over) {
					t.Fatalf("it does not show %s", c.word)
				}
				<-time.After(50 * time.Millisecond)
			}
			first := w.bytes()
			from := time.Now()
			<-time.After(wireFor)
			n := w.bytes() - first
			rate := float64(n) / time.Since(from).Seconds()
			t.Logf("%s: %d bytes in %s, %.0f a second; %d for what came before", c.script, n, wireFor, rate, first)
			if n == 0 || rate > maxWire {
				t.Errorf("%d bytes, %.0f a second", n, rate)
			}
		})
	}
}

// How long it takes from the start of the process to the first frame, and to the
// first values, with a gateway and without one.
func TestStartToFirstFrame(t *testing.T) {
	up := demoGateway(t, "quiet")
	down := "unix:" + filepath.Join(place(t), "nobody.sock")
	for _, c := range []struct {
		name, target string
		values       bool
	}{{"gateway up", up, true}, {"gateway down", down, false}} {
		var frames, values []time.Duration
		for range 9 {
			w := newWire(t, "console", "--connect", c.target)
			until(t, "it has drawn a frame", func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return !w.frame.IsZero() && (!c.values || !w.values.IsZero())
			})
			w.end()
			frames = append(frames, w.frame.Sub(w.began))
			if c.values {
				values = append(values, w.values.Sub(w.began))
			}
		}
		slices.Sort(frames)
		slices.Sort(values)
		said := []string{"first frame median " + median(frames).String() + ", best " + frames[0].String()}
		if c.values {
			said = append(said, "first values median "+median(values).String()+", best "+values[0].String())
		}
		t.Logf("%s: %s", c.name, strings.Join(said, "; "))
		if m := median(frames); m > maxFirstFrame {
			t.Errorf("%s: the first frame took %s", c.name, m)
		}
	}
}

func median(ds []time.Duration) time.Duration { return ds[len(ds)/2].Round(100 * time.Microsecond) }
