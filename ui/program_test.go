package ui

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"

	"failback/gateway/operator/api"
	"failback/sources/gatewaytest"
)

// terminal is an emulator that a program draws on.
type terminal struct {
	*vt.SafeEmulator
}

func newTerminal(t *testing.T, w, h int) *terminal {
	e := &terminal{SafeEmulator: vt.NewSafeEmulator(w, h)}
	done := make(chan struct{})
	go func() { // what it answers to questions, which nobody asked for here
		defer close(done)
		_, _ = io.Copy(io.Discard, e.SafeEmulator)
	}()
	t.Cleanup(func() {
		// Not Close, which races with Read.
		_ = e.InputPipe().(io.Closer).Close()
		<-done
	})
	return e
}

// Write maps newlines as a tty does.
func (e *terminal) Write(p []byte) (int, error) {
	if _, err := e.SafeEmulator.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// screen is what is seen, clocks and ages masked.
func (e *terminal) screen() string { return ansi.Strip(e.Render()) }

// started is a whole program on an emulator.
type started struct {
	*terminal
	p    *tea.Program
	keys io.Writer
	done chan error
}

func start(t *testing.T, c *api.Client, w, h int) *started {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	m := newModel(ctx, Options{Client: c, Version: "v1", DataDir: t.TempDir()})
	g := &guard{m: m, end: end}
	r, keys := io.Pipe()
	s := &started{terminal: newTerminal(t, w, h), keys: keys, done: make(chan error, 1)}
	s.p = tea.NewProgram(g, tea.WithContext(ctx), tea.WithInput(r), tea.WithOutput(s.terminal), tea.WithWindowSize(w, h),
		tea.WithEnvironment([]string{"TERM=xterm-256color"}), tea.WithColorProfile(colorprofile.ANSI), tea.WithoutSignalHandler(), tea.WithoutCatchPanics())
	go func() {
		_, err := s.p.Run()
		end()
		g.wait()
		s.done <- err
	}()
	t.Cleanup(func() {
		end()
		r.Close()
	})
	return s
}

func (s *started) wait(t *testing.T, want string) {
	t.Helper()
	waitFor(t, func() bool { return strings.Contains(s.screen(), want) })
}

// TestProgram runs the whole program: renderer, resize, keys, leaving.
func TestProgram(t *testing.T) {
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) { *s = quietState() })
	s := start(t, g.Client(t), 100, 30)
	s.wait(t, "OPEN try in")
	if !s.IsAltScreen() {
		t.Error("not on the alternate screen")
	}
	// Small, large, small again: what is seen then is what a fresh start shows.
	for _, size := range []struct{ w, h int }{{60, 15}, {120, 40}, {20, 5}, {120, 40}, {60, 15}, {80, 24}} {
		s.Resize(size.w, size.h)
		s.p.Send(tea.WindowSizeMsg{Width: size.w, Height: size.h})
	}
	s.wait(t, "408.3")
	fresh := start(t, g.Client(t), 80, 24)
	fresh.wait(t, "408.3")
	waitFor(t, func() bool { return mask(s.screen()) == mask(fresh.screen()) })

	for _, step := range []struct{ key, want string }{
		{"j", " > vertex-us-central1"},
		{"d", "ROUTE DECISIONS"},
		{"o", "USERS"},
		{"W", "ARMED 15:00"},
		{"<", "Lower vertex-us-central1 in PROD to 75%?"},
		{"\x1b[200~y\x1b[201~", "pasted text is taken by fields only"},
		{"n", "BACK TO vertex"},
	} {
		if _, err := io.WriteString(s.keys, step.key); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if t.Failed() {
				t.Logf("after %q, waiting for %q:\n%s", step.key, step.want, s.screen())
			}
		}()
		pressed := time.Now()
		waitFor(t, func() bool {
			if step.key == "n" && time.Since(pressed) > 2*deafFor { // the dialog is deaf at first, and to a key that repeats
				pressed = time.Now()
				_, _ = io.WriteString(s.keys, step.key)
			}
			return strings.Contains(s.screen(), step.want)
		})
	}
	if n := len(g.Commands()); n > 0 {
		t.Errorf("%d commands were sent", n)
	}
	for _, p := range []*started{s, fresh} {
		if _, err := io.WriteString(p.keys, "q"); err != nil {
			t.Fatal(err)
		}
		if err := <-p.done; err != nil {
			t.Errorf("q left with %v", err)
		}
		if p.IsAltScreen() || p.CursorHidden() {
			t.Error("the terminal is not as it was")
		}
	}
}

// mask blanks what moves by itself: digits, and the line of messages.
func mask(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return '0'
			}
			return r
		}, lines[i]), " ")
	}
	return strings.Join(lines, "\n")
}
