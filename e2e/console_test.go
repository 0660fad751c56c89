package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// terminal is a real one: a tmux server of its own.
type terminal struct {
	t      *testing.T
	socket string
}

func newTerminal(t *testing.T, dir, command string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("tmux is missing")
		}
		t.Skip("missing tool: tmux")
	}
	tm := &terminal{t: t, socket: filepath.Join(t.TempDir(), "tmux")}
	tm.run("-f", "/dev/null", "new-session", "-d", "-s", "s", "-x", "80", "-y", "24", "-c", dir, "env", "LANG=C.UTF-8", "PS1=prompt-here ", "bash", "--norc")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", tm.socket, "kill-server").Run() })
	tm.typed(command, "Enter")
	return tm
}

func (tm *terminal) run(args ...string) string {
	tm.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", tm.socket}, args...)...).CombinedOutput()
	if err != nil {
		tm.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (tm *terminal) typed(keys ...string) {
	tm.run(append([]string{"send-keys", "-t", "s"}, keys...)...)
}

func (tm *terminal) screen() string { return tm.run("capture-pane", "-p", "-t", "s") }

// shows waits until the screen has all of the words.
func (tm *terminal) shows(words ...string) string {
	tm.t.Helper()
	var screen string
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		screen = tm.screen()
		all := true
		for _, w := range words {
			all = all && strings.Contains(screen, w)
		}
		if all {
			return screen
		}
		select {
		case <-deadline:
			tm.t.Fatalf("the screen never showed %q:\n%s", words, screen)
		case <-tick.C:
		}
	}
}

// settle waits until a dialog takes keys: it ignores the first 300 ms.
func settle() { <-time.After(400 * time.Millisecond) }

// session is a gateway that its console started, with steady traffic.
type session struct {
	*terminal
	client   *api.Client
	url      string
	failed   atomic.Int64
	answered atomic.Int64
}

// open starts plain failback in a terminal, and traffic that must never fail.
func open(t *testing.T, command string) *session {
	t.Helper()
	dir := t.TempDir()
	path := configure(t, dir, newStub(t), newStub(t), "")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{url: "http://" + strings.TrimPrefix(strings.Split(string(b), "\n")[0], "listen: ")}
	s.terminal = newTerminal(t, dir, fmt.Sprintf(command, program, path))
	s.client, err = api.NewClient("unix:"+filepath.Join(dir, "failback.sock"), api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	until(t, "the gateway answers", func() bool { return s.client.Healthz(t.Context()) == nil })
	state, err := s.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p, err := os.FindProcess(state.PID); err == nil {
			_ = p.Kill() // started by the console under test, known by its own word
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		client := &http.Client{Timeout: 5 * time.Second}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if status, err := chat(client, s.url, "u"+strconv.Itoa(i%500)); err != nil || status != 200 {
				s.failed.Add(1)
			} else {
				s.answered.Add(1)
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		if n := s.failed.Load(); n > 0 {
			t.Errorf("%d requests failed, %d were answered", n, s.answered.Load())
		}
	})
	s.shows("TEST", "BREAKER", "SHARE", " a ")
	return s
}

func (s *session) share(t *testing.T) int {
	t.Helper()
	state, err := s.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state.Upstreams[0].Share
}

// more waits until the gateway answered n more requests.
func (s *session) more(t *testing.T, n int64) {
	t.Helper()
	from := s.answered.Load()
	until(t, "the gateway answers on", func() bool { return s.answered.Load() >= from+n })
}

// The main job at 80x24: arm, look, step down, and back up to 100.
func TestStepInARealTerminal(t *testing.T) {
	s := open(t, "%s --config %s")
	s.typed("<")
	if s.share(t) != 100 {
		t.Error("a key changed traffic before arming")
	}
	s.typed("W")
	s.shows("ARMED")
	s.typed("<")
	s.shows("75%", "y ")
	settle()
	s.typed("Enter")
	settle()
	if got := s.share(t); got != 100 {
		t.Errorf("Enter gave %d%%", got)
	}
	s.run("set-buffer", "y")
	s.run("paste-buffer", "-p", "-t", "s")
	settle()
	if got := s.share(t); got != 100 {
		t.Errorf("a pasted y gave %d%%", got)
	}
	s.typed("Escape")
	settle()
	for _, want := range []int{75, 25, 5, 0} {
		s.typed("<")
		s.shows(fmt.Sprintf("%d%%", want), "y ")
		settle()
		s.typed("y")
		until(t, fmt.Sprintf("the share is %d%%", want), func() bool { return s.share(t) == want })
		s.shows(fmt.Sprintf("[ %d%% ]", want))
	}
	for _, want := range []int{5, 25, 75, 100} {
		s.typed(">")
		s.shows(fmt.Sprintf("%d%%", want), "y ")
		settle()
		s.typed("y")
		until(t, fmt.Sprintf("the share is %d%%", want), func() bool { return s.share(t) == want })
		s.shows(fmt.Sprintf("[ %d%% ]", want))
	}
	s.run("resize-window", "-t", "s", "-x", "20", "-y", "5")
	settle()
	s.run("resize-window", "-t", "s", "-x", "80", "-y", "24")
	s.shows("TEST", "BREAKER", "[ 100% ]")
	s.typed("q")
	settle()
	s.shows("leave") // it started the gateway: it asks
}

func TestTheGatewayOutlivesItsConsole(t *testing.T) {
	t.Run("the terminal is closed", func(t *testing.T) {
		s := open(t, "%s --config %s")
		s.run("kill-server")
		s.more(t, 50)
	})
	t.Run("the console is suspended", func(t *testing.T) {
		s := open(t, "%s --config %s")
		s.typed("C-z")
		s.shows("Stopped")
		s.more(t, 50)
		s.typed("fg", "Enter")
		s.shows("TEST", "BREAKER")
		s.more(t, 10)
	})
	t.Run("the console panics", func(t *testing.T) {
		s := open(t, "%s --config %s")
		s.typed("M-v")
		s.shows("crashed", "prompt-here")
		s.more(t, 50)
		s.typed("echo still-$((40+2))-usable", "Enter")
		s.shows("still-42-usable")
	})
	t.Run("its pipe is cut", func(t *testing.T) {
		// script gives the console a terminal whose other end then dies.
		s := open(t, "script -qfc '%s --config %s' /dev/null")
		out, err := exec.Command("pgrep", "-f", "script -qfc "+program).Output()
		if err != nil {
			t.Skip("missing tool: script or pgrep")
		}
		for pid := range strings.FieldsSeq(string(out)) {
			_ = exec.Command("kill", "-9", pid).Run()
		}
		s.more(t, 50)
	})
}

// The demo ends with its console and leaves nothing.
func TestDemoInARealTerminal(t *testing.T) {
	tm := newTerminal(t, t.TempDir(), program+" demo")
	tm.shows("DEMO", "anthropic-us-east-1", "BREAKER")
	until(t, "traffic flows", func() bool { return !strings.Contains(tm.screen(), "waiting") })
	tm.typed("q")
	settle()
	if !strings.Contains(tm.screen(), "prompt-here") {
		tm.typed("y")
	}
	tm.shows("prompt-here")
	until(t, "nothing of it runs any more", func() bool {
		return exec.Command("pgrep", "-f", program+" demo --headless").Run() != nil
	})
}
