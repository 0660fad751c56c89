//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"failback/gateway/operator/api"
)

// prober asks the gateway every 20 ms. None of it may fail.
type prober struct {
	answered, failed atomic.Int64
	stop             func()

	mu    sync.Mutex // guards first
	first string     // what failed first
}

func newProber(t *testing.T, url string) *prober {
	t.Helper()
	f := &prober{}
	over := make(chan struct{})
	var wg sync.WaitGroup
	f.stop = sync.OnceFunc(func() {
		close(over)
		wg.Wait()
	})
	wg.Go(func() {
		client := &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second}
		defer client.CloseIdleConnections()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			if status, err := chat(client, url, "u"+strconv.Itoa(i%500)); err != nil || status != http.StatusOK {
				f.fail(fmt.Sprintf("status %d, %v", status, err))
			} else {
				f.answered.Add(1)
			}
		}
	})
	t.Cleanup(func() {
		f.stop()
		if n := f.failed.Load(); n > 0 {
			t.Errorf("%d requests failed, %d were answered; the first: %s", n, f.answered.Load(), f.first)
		}
	})
	return f
}

func (f *prober) fail(how string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed.Add(1) == 1 {
		f.first = how
	}
}

// more waits until the gateway answered n more requests.
func (f *prober) more(t *testing.T, n int64) {
	t.Helper()
	from := f.answered.Load()
	until(t, "the gateway answers on", func() bool { return f.answered.Load() >= from+n })
}

// session is a gateway that a console starts, with steady traffic.
type session struct {
	*prober
	client    *api.Client
	a, b      *stub
	dir, path string
	gateway   int // its pid
}

func newSession(t *testing.T) *session {
	t.Helper()
	s := &session{a: newStub(t), b: newStub(t), dir: place(t)}
	s.path = configure(t, s.dir, s.a, s.b, "")
	return s
}

// found waits for the gateway, which someone is starting, and gives it traffic.
func (s *session) found(t *testing.T) {
	t.Helper()
	var err error
	if s.client, err = api.NewClient("unix:"+filepath.Join(s.dir, "failback.sock"), api.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	s.gateway = gatewayOf(t, s.client)
	b, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(b), "\n")
	url := "http://" + strings.TrimPrefix(first, "listen: ")
	until(t, "the gateway is ready", func() bool {
		resp, err := http.Get(url + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	s.prober = newProber(t, url)
}

// gatewayOf waits for the gateway's word of its own pid, and ends that process
// with the test.
func gatewayOf(t *testing.T, client *api.Client) int {
	t.Helper()
	var state *api.State
	until(t, "the gateway answers", func() bool {
		var err error
		state, err = client.State(t.Context())
		return err == nil
	})
	p, err := os.FindProcess(state.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		until(t, "the gateway is gone", func() bool { return !alive(state.PID) })
	})
	return state.PID
}

// opened is a session with its console in a terminal.
type opened struct {
	*session
	*terminal
	console int // its pid
}

// open runs plain failback, of the binary, in a terminal of 80x24.
func open(t *testing.T, binary string) *opened {
	t.Helper()
	o := &opened{session: newSession(t), terminal: newTerminal(t)}
	o.console = o.terminal.console(binary, "--config", o.path)
	o.found(t)
	o.shows("TEST", "BREAKER", "SHARE", " > a ", "q leave")
	return o
}

func (s *session) upstream(t *testing.T) api.Upstream {
	t.Helper()
	state, err := s.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state.Upstreams[0]
}

// awake waits until an open dialog hears keys, which is seen by its cursor.
func (o *opened) awake() {
	o.t.Helper()
	o.pressUntil("Tab", "to the field why", func() bool { return strings.Contains(o.screen(), "ends typing") })
	o.pressUntil("Tab", "back", func() bool { return strings.Contains(o.screen(), "(enter does not)") })
}

// still fails the test if anything was changed.
func (o *opened) still(t *testing.T, after string) {
	t.Helper()
	if u := o.upstream(t); u.Share != 100 || u.Revision != 1 {
		t.Fatalf("after %s the share is %d%%, revision %d", after, u.Share, u.Revision)
	}
	trail, err := o.client.Audit(t.Context(), 10)
	if err != nil || len(trail.Entries) > 0 {
		t.Fatalf("after %s the audit has %v, %v", after, trail.Entries, err)
	}
}

// answer says y to the open dialog until done, and why where it asks for it.
func (o *opened) answer(title string, done func() bool) {
	o.t.Helper()
	o.pressesUntil(func() []string {
		switch screen := o.screen(); {
		case strings.Contains(screen, "ends typing"):
			return []string{"o", "k", "Enter"}
		case strings.Contains(screen, "type why first"):
			return []string{"Tab"}
		}
		return []string{"y"}
	}, title, done)
}

// step takes the upstream under the cursor to its next share.
func (o *opened) step(t *testing.T, key string, share int) {
	t.Helper()
	title := fmt.Sprintf("Lower a in TEST to %d%%?", share)
	switch {
	case key != ">":
	case o.upstream(t).Health == api.Degraded:
		title = fmt.Sprintf("Recover a in TEST at %d%%?", share)
	default:
		title = fmt.Sprintf("Send %d%% back to a in TEST?", share)
	}
	o.press(key)
	o.shows(title)
	o.answer(title, func() bool { return o.upstream(t).Share == share })
	o.shows(fmt.Sprintf("[ %d%% ]", share))
	o.hides(title)
	if got, _ := o.row(t); got != share {
		t.Errorf("SHARE is %d%% on the screen and %d%% in truth", got, share)
	}
}

var rowOfA = regexp.MustCompile(`(?m)^ > a +\w.*? (\d+)% +([0-9.]+)%`)

// row reads SHARE and LIVE of the upstream a from the screen.
func (o *opened) row(t *testing.T) (share int, live float64) {
	t.Helper()
	o.await("SHARE and LIVE of a", func(screen string) bool {
		m := rowOfA.FindStringSubmatch(screen)
		if m == nil {
			return false
		}
		share, _ = strconv.Atoi(m[1])
		live, _ = strconv.ParseFloat(m[2], 64)
		return true
	})
	return share, live
}

// The main job at 80x24: the gateway is started, writing armed, a step looked
// at and not taken, then all of them down and up again.
func TestStepInARealTerminal(t *testing.T) {
	t.Parallel()
	o := open(t, program)
	if sid, err := unix.Getsid(o.gateway); err != nil || sid != o.gateway || o.gateway == o.console {
		t.Errorf("the gateway %d is in session %d, its console is %d: %v", o.gateway, sid, o.console, err)
	}
	o.press("<")
	o.shows("read-only: W arms")
	o.press("W")
	o.shows("ARMED")
	o.press("<")
	o.shows("Lower a in TEST to 75%?", "y  lower to 75%")
	o.awake()
	o.press("Enter", "Space", "<", "q")
	o.awake() // keys come in order: all of these were heard
	o.shows("Lower a in TEST to 75%?")
	o.still(t, "other keys than y")
	o.run("set-buffer", "y")
	o.run("paste-buffer", "-p", "-t", "s")
	o.shows("pasted text is taken by fields only")
	o.still(t, "pasting y in brackets")
	o.run("set-buffer", "yay yes y")
	o.run("paste-buffer", "-t", "s")
	o.shows("nothing was sent")
	o.awake()
	o.still(t, "pasting words without brackets")
	o.press("Escape")
	o.hides("Lower a in TEST")
	o.still(t, "closing the dialog")

	for _, share := range []int{75, 25, 5, 0} {
		o.step(t, "<", share)
	}
	o.a.members()
	o.more(t, 50)
	if n := len(o.a.members()); n > 1 { // one was under way
		t.Errorf("a has share 0%% and answered %d", n)
	}
	_, high := o.row(t)
	until(t, "LIVE follows down", func() bool { _, live := o.row(t); return live <= high-3 })
	_, low := o.row(t)
	for _, share := range []int{5, 25, 75, 100} {
		o.step(t, ">", share)
	}
	until(t, "LIVE follows up", func() bool { _, live := o.row(t); return live >= low+3 })
	o.b.members()
	o.more(t, 50)
	if n := len(o.b.members()); n > 1 {
		t.Errorf("a has share 100%% and b answered %d", n)
	}
	o.shows("a share 75% > 100%")
}

// The window becomes too small for anything and large again, a dialog is open:
// who and how are always there, and what cannot be read cannot be answered.
func TestWindowSizes(t *testing.T) {
	t.Parallel()
	o := open(t, program)
	whole := func() {
		t.Helper()
		o.await("the whole first screen", func(screen string) bool {
			lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
			return len(lines) >= 23 && strings.HasPrefix(lines[0], " failback TEST") && strings.HasPrefix(lines[1], " fresh: gateway") &&
				strings.HasPrefix(lines[22], " j/k row") && strings.Contains(screen, " > a ")
		})
	}
	sizes := []struct{ w, h int }{{60, 20}, {40, 12}, {20, 5}, {80, 24}}
	for _, size := range sizes {
		o.resize(size.w, size.h)
		switch size.h {
		case 5:
			o.shows("TEST", "READ-ONLY", "all breakers closed", "q leaves")
		case 24:
			whole()
		default:
			o.shows("TEST", "READ-ONLY", " > a ", "CLOSED", "100%")
		}
	}
	o.press("W")
	o.shows("ARMED")
	o.press("<")
	o.shows("Lower a in TEST to 75%?")
	o.awake()
	for _, size := range sizes {
		o.resize(size.w, size.h)
		o.shows("TEST", "ARMED")
		if size.h == 5 {
			o.shows("enlarge to answer")
			o.press("y")
			continue
		}
		o.shows("Lower a in TEST to 75%?")
		if size.h == 24 {
			o.shows(" failback TEST", "(enter does not)")
		}
	}
	o.awake()
	o.still(t, "y in a window that is too small")
	o.pressUntil("y", "lower", func() bool { return o.upstream(t).Share == 75 })
	o.hides("Lower a in TEST")
	whole()
}

// q asks what becomes of the gateway, and both answers are taken at their word.
func TestLeaveOrStop(t *testing.T) {
	t.Parallel()
	t.Run("leave", func(t *testing.T) {
		t.Parallel()
		o := open(t, program)
		o.press("q")
		o.shows("Leave the console?", "leave it serving", "stop it")
		o.shows("off, read-only: W arms")
		for range 8 { // for longer than it is deaf
			o.press("s", "y", "Enter")
			o.more(t, 5)
		}
		o.hides("Leave the console?")
		o.press("q")
		o.shows("Leave the console?")
		o.pressUntil("l", "leave", func() bool { return o.flag("alternate_on") == "0" })
		o.restored(0)
		o.more(t, 25)
		// The next console is a guest: it stops nothing and asks nothing.
		o.terminal.console(program, "--config", o.path)
		o.shows("TEST", "BREAKER", "q leave")
		o.press("q")
		o.restored(0)
		o.more(t, 25)
		if state, err := o.client.State(t.Context()); err != nil || state.PID != o.gateway {
			t.Errorf("gateway %d became %+v, %v", o.gateway, state, err)
		}
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		o := open(t, program)
		o.more(t, 25)
		o.stop()
		o.press("W")
		o.shows("ARMED")
		o.press("q")
		o.shows("Leave the console?")
		o.pressUntil("s", "choose to stop", func() bool { return strings.Contains(o.screen(), "Stop the gateway?") })
		o.pressUntil("y", "stop", func() bool { return o.flag("alternate_on") == "0" })
		o.restored(0)
		if alive(o.gateway) {
			t.Error("the prompt is back and the gateway still runs")
		}
		if _, err := os.Stat(filepath.Join(o.dir, "failback.sock")); !os.IsNotExist(err) {
			t.Errorf("its socket is left: %v", err)
		}
		if _, stderr, code := cli(t, o.dir, "status"); code != 1 {
			t.Errorf("status: exit %d: %s", code, stderr)
		}
	})
}

// Whatever becomes of the console, the gateway answers and, where there is one
// left, the terminal is restored.
func TestTheGatewayOutlivesItsConsole(t *testing.T) {
	t.Parallel()
	ended := func(t *testing.T, o *opened) {
		t.Helper()
		until(t, "the console has ended", func() bool { return !alive(o.console) })
		o.more(t, 25)
	}
	t.Run("the terminal is closed", func(t *testing.T) {
		t.Parallel()
		o := open(t, program)
		o.run("kill-session", "-t", "s")
		ended(t, o)
	})
	suspended := map[string]func(*opened){
		"ctrl+z":  func(o *opened) { o.press("C-z") },
		"SIGTSTP": func(o *opened) { _ = syscall.Kill(o.console, syscall.SIGTSTP) },
	}
	for name, suspend := range suspended {
		t.Run("it is suspended by "+name, func(t *testing.T) {
			t.Parallel()
			o := open(t, program)
			for range 2 {
				suspend(o)
				o.shows("Stopped")
				o.restored(128 + int(syscall.SIGSTOP))
				o.more(t, 25)
				o.enter("fg")
				o.shows("TEST", "BREAKER", "q leave")
				o.hides("usable-42")
				o.press("e")
				o.shows("esc back")
				o.press("Escape")
				o.hides("esc back")
			}
		})
	}
	t.Run("it is stopped", func(t *testing.T) {
		t.Parallel()
		o := open(t, program)
		if err := syscall.Kill(o.console, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		o.shows("Stopped")
		o.more(t, 25)
		o.enter("fg")
		o.hides("Stopped") // all is drawn anew
		o.shows("TEST", "BREAKER", "q leave")
		o.press("e")
		o.shows("esc back")
		o.press("q")
		o.shows("Leave the console?")
		o.pressUntil("l", "leave", func() bool { return o.flag("alternate_on") == "0" })
		o.restored(0)
	})
	for _, key := range []string{"M-u", "M-v", "M-c"} {
		t.Run("it panics by "+key, func(t *testing.T) {
			t.Parallel()
			binary, err := panicky()
			if err != nil {
				t.Fatal(err)
			}
			o := open(t, binary)
			o.press(key)
			o.shows("the console crashed: test panic in", "serves on")
			o.restored(1)
			ended(t, o)
			files, _ := filepath.Glob(filepath.Join(o.dir, "crash-*.txt"))
			if len(files) != 1 {
				t.Fatalf("crash files: %v", files)
			}
			if i, err := os.Stat(files[0]); err != nil || i.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v", files[0], err)
			}
		})
	}
	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 0, syscall.SIGQUIT: 0} {
		t.Run("it gets "+unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			o := open(t, program)
			if err := syscall.Kill(o.console, sig); err != nil {
				t.Fatal(err)
			}
			o.restored(code)
			ended(t, o)
		})
	}
	t.Run("it is killed", func(t *testing.T) {
		t.Parallel()
		o := open(t, program)
		if err := syscall.Kill(o.console, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		ended(t, o)
	})
}

// The demo ends with its console, whatever ends that, and leaves nothing.
func TestDemoInARealTerminal(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name   string
		end    func(tm *terminal, console int)
		leaves int // directories
	}{
		{"q", func(tm *terminal, _ int) {
			tm.press("q")
			tm.restored(0)
		}, 0},
		{"the terminal is closed", func(tm *terminal, _ int) { tm.run("kill-session", "-t", "s") }, 0},
		{"it is hung up again and again", func(_ *terminal, console int) {
			until(t, "it has ended", func() bool { return syscall.Kill(console, syscall.SIGHUP) != nil || !alive(console) })
		}, 0},
		// Nobody is left who could remove it.
		{"the console is killed", func(_ *terminal, console int) { _ = syscall.Kill(console, syscall.SIGKILL) }, 1},
	} {
		// One after the other: they would listen on the same port.
		t.Run(way.name, func(t *testing.T) {
			tmp := place(t)
			tm := newTerminal(t, "TMPDIR="+tmp)
			console := tm.console(program, "demo")
			tm.shows("DEMO", " > anthropic-us-east-1", "BREAKER", "end demo")
			dirs, _ := filepath.Glob(filepath.Join(tmp, "failback-demo-*"))
			if len(dirs) != 1 {
				t.Fatalf("its directories: %v", dirs)
			}
			client, err := api.NewClient("unix:"+filepath.Join(dirs[0], "failback.sock"), api.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			gateway := gatewayOf(t, client)
			until(t, "its traffic flows", func() bool {
				state, err := client.State(t.Context())
				return err == nil && state.Traffic.RPS.Value > 1
			})
			way.end(tm, console)
			until(t, "the console has ended", func() bool { return !alive(console) })
			if way.leaves == 0 && alive(gateway) {
				t.Error("the console has ended and its gateway runs on")
			}
			until(t, "its gateway has ended", func() bool { return !alive(gateway) })
			if left, _ := os.ReadDir(tmp); len(left) > way.leaves {
				t.Errorf("it left %v", left)
			}
		})
	}
}
