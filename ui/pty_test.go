//go:build linux

package ui

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"failback/gateway/operator/api"
	"failback/sources/gatewaytest"
)

// tty is a terminal with what was written to it.
type tty struct {
	master, slave *os.File
	before        *unix.Termios
	read          sync.WaitGroup

	mu sync.Mutex
	// mu guards everything that follows.
	out bytes.Buffer
}

func newTTY(t *testing.T) *tty {
	t.Helper()
	m, s, err := pty.Open()
	if err != nil {
		t.Fatalf("there is no pty here: %v", err)
	}
	if err := pty.Setsize(m, &pty.Winsize{Cols: 100, Rows: 30}); err != nil {
		t.Fatal(err)
	}
	y := &tty{master: m, slave: s}
	if y.before, err = unix.IoctlGetTermios(int(s.Fd()), unix.TCGETS); err != nil {
		t.Fatal(err)
	}
	y.read.Go(func() {
		var b [4096]byte
		for {
			n, err := m.Read(b[:])
			y.mu.Lock()
			y.out.Write(b[:n])
			y.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		s.Close()
		m.Close()
		y.read.Wait()
	})
	return y
}

func (y *tty) written() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.out.String()
}

// restored checks that the terminal is as it was before.
func (y *tty) restored(t *testing.T) {
	t.Helper()
	now, err := unix.IoctlGetTermios(int(y.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if *now != *y.before {
		t.Error("the terminal's modes are not what they were")
	}
	waitFor(t, func() bool { return strings.Contains(y.written(), "\x1b[?1049l") })
	out := y.written()
	for on, off := range map[string]string{"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h", "\x1b[?2004h": "\x1b[?2004l"} {
		if strings.LastIndex(out, off) < strings.LastIndex(out, on) {
			t.Errorf("%q was switched on and not off", on)
		}
	}
	if strings.Contains(out, "goroutine ") {
		t.Error("a stack trace is on the terminal")
	}
}

func ptyOptions(t *testing.T, y *tty) Options {
	t.Helper()
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) { *s = quietState() })
	return Options{
		Client: g.Client(t), Input: y.slave, Output: y.slave, DataDir: t.TempDir(), Version: "v1.2.3",
		Environ: []string{"TERM=xterm-256color", "LANG=en_US.UTF-8", "FAILBACK_TOKEN=tok-secret-of-the-environment"},
	}
}

// TestRunEnds: every way out restores the terminal and returns in time.
func TestRunEnds(t *testing.T) {
	signal := func(s syscall.Signal) func(*tty, context.CancelFunc) {
		return func(*tty, context.CancelFunc) { _ = syscall.Kill(os.Getpid(), s) }
	}
	for name, end := range map[string]func(*tty, context.CancelFunc){
		"q":       func(y *tty, _ context.CancelFunc) { _, _ = y.master.WriteString("q") },
		"ctrl+c":  func(y *tty, _ context.CancelFunc) { _, _ = y.master.WriteString("\x03") },
		"context": func(_ *tty, end context.CancelFunc) { end() },
		"SIGTERM": signal(syscall.SIGTERM), "SIGINT": signal(syscall.SIGINT), "SIGHUP": signal(syscall.SIGHUP), "SIGQUIT": signal(syscall.SIGQUIT),
	} {
		t.Run(name, func(t *testing.T) {
			y := newTTY(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			o := ptyOptions(t, y)
			go func() { done <- Run(ctx, o) }()
			waitFor(t, func() bool { return strings.Contains(y.written(), "OPEN try in") })
			begun := time.Now()
			end(y, cancel)
			if err := <-done; err != nil {
				t.Errorf("returned %v", err)
			}
			if d := time.Since(begun); d > 2*time.Second {
				t.Errorf("took %s", d)
			}
			y.restored(t)
		})
	}
}

// TestRunUnterminatedPaste: a paste that does not end takes the keyboard from
// nobody. ctrl+c leaves at once, and any key is heard again after a stall.
func TestRunUnterminatedPaste(t *testing.T) {
	for name, tc := range map[string]struct {
		open, key string
		each      time.Duration
	}{
		"ctrl+c":             {"\x1b[200~", "\x03", 100 * time.Millisecond},
		"q":                  {"\x1b[200~some text", "q", pasteStall + 200*time.Millisecond},
		"ctrl+c, hidden end": {"\x1b[200~\x1b]0;title", "\x03", 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			y := newTTY(t)
			done := make(chan error, 1)
			o := ptyOptions(t, y)
			go func() { done <- Run(t.Context(), o) }()
			waitFor(t, func() bool { return strings.Contains(y.written(), "OPEN try in") })
			if _, err := y.master.WriteString(tc.open); err != nil {
				t.Fatal(err)
			}
			// The first may be read together with what it follows.
			again := time.NewTicker(tc.each)
			defer again.Stop()
			for range 4 {
				select {
				case err := <-done:
					t.Fatalf("it ended before a key: %v", err)
				case <-again.C:
				}
				_, _ = y.master.WriteString(tc.key)
				select {
				case err := <-done:
					if err != nil {
						t.Errorf("returned %v", err)
					}
					y.restored(t)
					return
				case <-again.C:
				}
			}
			t.Fatal("no key is heard")
		})
	}
}

// TestHangUp: the terminal goes away without a signal.
func TestHangUp(t *testing.T) {
	y := newTTY(t)
	done := make(chan error, 1)
	o := ptyOptions(t, y)
	go func() { done <- Run(t.Context(), o) }()
	waitFor(t, func() bool { return strings.Contains(y.written(), "OPEN try in") })
	y.master.Close()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("returned %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it runs on without a terminal")
	}
}

// TestCrash: a panic restores the terminal, says where its report is, and that
// holds no secret.
func TestCrash(t *testing.T) {
	y := newTTY(t)
	o := ptyOptions(t, y)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	m := newModel(ctx, o)
	m.panicInView = true
	err := m.run(end)
	c, ok := errors.AsType[*CrashError](err)
	if !ok || c.File == "" {
		t.Fatalf("returned %v", err)
	}
	if !strings.Contains(err.Error(), "test panic in View") || !strings.Contains(err.Error(), "serves on") {
		t.Errorf("the error does not say what it is: %v", err)
	}
	b, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"crashed in View", "test panic in View", "v1.2.3", "(*model).View"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%q is not in the report:\n%s", want, b)
		}
	}
	if strings.Contains(string(b), "secret-of-the-environment") {
		t.Error("the report has the environment")
	}
	if i, err := os.Stat(c.File); err != nil || i.Mode().Perm() != 0o600 || filepath.Dir(c.File) != o.DataDir {
		t.Errorf("%s: %v, %v", c.File, i.Mode(), err)
	}
	now, err := unix.IoctlGetTermios(int(y.slave.Fd()), unix.TCGETS)
	if err != nil || *now != *y.before {
		t.Error("the terminal's modes are not what they were")
	}
	if out := y.written(); strings.Contains(out, "goroutine ") || strings.Contains(out, "panic") {
		t.Errorf("the panic is on the terminal: %q", out)
	}
}

// TestStop: the gateway is stopped after the console, and only when asked for.
func TestStop(t *testing.T) {
	for name, tt := range map[string]struct {
		started, demo bool
		keys          string // the last again and again
		want          bool
	}{
		"asked":    {started: true, keys: "ssy", want: true},
		"left":     {started: true, keys: "l"},
		"demo":     {started: true, demo: true, want: true},
		"not ours": {},
	} {
		t.Run(name, func(t *testing.T) {
			y := newTTY(t)
			o := ptyOptions(t, y)
			stopped := false
			o.Started, o.Demo = tt.started, tt.demo
			o.Stop = func(context.Context) error { stopped = true; return nil }
			done := make(chan error, 1)
			go func() { done <- Run(t.Context(), o) }()
			waitFor(t, func() bool { return strings.Contains(y.written(), "OPEN try in") })
			if tt.want && !tt.demo {
				_, _ = y.master.WriteString("W")
				waitFor(t, func() bool { return strings.Contains(y.written(), "ARMED") })
			}
			_, _ = y.master.WriteString("q")
			if tt.keys != "" {
				waitFor(t, func() bool { return strings.Contains(y.written(), "Leave the console?") })
			}
			tick := time.NewTicker(deafFor + quietFor)
			defer tick.Stop()
			for i := 0; ; i++ { // it is deaf at first
				select {
				case err := <-done:
					if err != nil || stopped != tt.want {
						t.Errorf("stopped %t, want %t; %v", stopped, tt.want, err)
					}
					y.restored(t)
					return
				case <-tick.C:
					if tt.keys != "" {
						_, _ = y.master.WriteString(tt.keys[min(i, len(tt.keys)-1):][:1])
					}
				}
			}
		})
	}
}

// TestNoTerminal: it says so at once, names the text command, and a demo ends.
func TestNoTerminal(t *testing.T) {
	y := newTTY(t)
	o := ptyOptions(t, y)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for name, change := range map[string]func(*Options){
		"input":  func(o *Options) { o.Input = r },
		"output": func(o *Options) { o.Output = w },
		"dumb":   func(o *Options) { o.Environ = []string{"TERM=dumb"} },
		"unset":  func(o *Options) { o.Environ = []string{} },
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			stopped := false
			o.Demo, o.Stop = true, func(context.Context) error { stopped = true; return nil }
			change(&o)
			err := Run(t.Context(), o)
			if !errors.Is(err, ErrNoTerminal) || !strings.Contains(err.Error(), "failback status") || !stopped {
				t.Errorf("returned %v, stopped %t", err, stopped)
			}
		})
	}
}

// TestNoColour: with NO_COLOR nothing but attributes is written, and bold may stay.
func TestNoColour(t *testing.T) {
	y := newTTY(t)
	o := ptyOptions(t, y)
	o.Environ = append(o.Environ, "NO_COLOR=yes")
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), o) }()
	waitFor(t, func() bool { return strings.Contains(y.written(), "OPEN try in") })
	_, _ = y.master.WriteString("q")
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, p := range sgr.FindAllStringSubmatch(y.written(), -1) {
		for n := range strings.SplitSeq(p[1], ";") {
			if len(n) == 2 && n != "22" && n != "27" {
				t.Fatalf("%q is a colour", p[0])
			}
		}
	}
}
