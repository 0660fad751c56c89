//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/gorilla/websocket"

	"failback/gateway/operator/api"
	"failback/sources/gatewaytest"
)

// The cases TUI-01 to TUI-20 with real bytes and real processes. Tests by
// another name that hold parts of them: TUI-02 TestTheGatewayOutlivesItsConsole,
// TestTheGatewayOutlivesItsPty; TUI-05 TestWindowSizes; TUI-08 TestNoTerminal;
// TUI-13 TestConsoleOverTCP; TUI-16 TestStepInARealTerminal; TUI-18
// TestTheGatewayOutlivesItsConsole; SEC-07 TestSEC07, TestWordsFromOutside,
// TestHostileGateway.

// standIn is an operator API with nothing behind it.
func standIn(t *testing.T, change func(s *api.State)) *gatewaytest.Gateway {
	t.Helper()
	g := gatewaytest.New(t)
	began := time.Now()
	now := func(v float64) api.Number {
		return api.Number{State: api.StateValue, Value: v, At: time.Now()}
	}
	up := func(name string, share int) api.Upstream {
		return api.Upstream{
			Name: name, Region: "r", Dialect: "openai", Revision: 2, Share: share, Live: now(0.5), Since: began, PrimaryOf: []string{"m"},
			RPS: now(20), OwnRPS: now(20), ErrorRatio: now(0.004), FirstOutputP95: now(0.8), NextStep: api.NextStep{Share: 100},
			Breakers: []api.Breaker{{Bucket: name + ":text", Capability: "text", State: "closed", Since: began}},
		}
	}
	g.Set(func(s *api.State) {
		*s = api.State{
			APIVersion: api.Version, Version: "v1", Environment: "TEST", Instance: "gw-1", PID: 1, StartedAt: began, Revision: 2, Scope: "this gateway",
			Upstreams: []api.Upstream{up("a", 75), up("b", 100)}, You: api.You{Name: "ana", Role: api.RoleOperator},
			Traffic: api.Traffic{RPS: now(40), FailedRatio: now(0.002), FallbackRatio: now(0.01), FallbackRPS: now(1), FirstOutputP95: now(0.8)},
		}
		if change != nil {
			change(s)
		}
	})
	return g
}

// onStandIn runs a console on g in a terminal.
func onStandIn(t *testing.T, g *gatewaytest.Gateway, binary string, args ...string) (*terminal, int) {
	t.Helper()
	tm := newTerminal(t)
	pid := tm.console(append([]string{binary, "console", "--connect", g.Target()}, args...)...)
	tm.shows("TEST", " > a ", "q leave")
	return tm, pid
}

// mute is a Prometheus without series and a Loki with the lines given, or
// neither while they hang.
type mute struct {
	*httptest.Server
	hangs   atomic.Bool
	waiting atomic.Int64 // questions that hang
	lines   []string
	tailed  func(send func(lines ...string) error) // what is sent to who follows
}

func newMute(t *testing.T, lines ...string) *mute {
	t.Helper()
	q := &mute{lines: lines}
	q.Server = httptest.NewServer(q)
	t.Cleanup(q.Close)
	return q
}

// at is where a gateway says that they are.
func (q *mute) at(s *api.State) {
	s.Sources.Prometheus = api.Source{URL: q.URL, EverySeconds: 1, TimeoutSeconds: 60}
	s.Sources.Loki = api.Source{URL: q.URL, Selector: `{service_name="failback"}`}
}

func values(ago time.Duration, lines []string) (vs [][2]string) {
	now := time.Now().Add(-ago).UnixNano()
	for i, l := range lines {
		vs = append(vs, [2]string{strconv.FormatInt(now+int64(i), 10), l})
	}
	return vs
}

func (q *mute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	if q.hangs.Load() {
		q.waiting.Add(1)
		<-r.Context().Done()
		q.waiting.Add(-1)
		return
	}
	labels := map[string]string{"service_name": "failback"}
	if strings.HasSuffix(r.URL.Path, "/tail") {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for {
				if _, _, err := c.ReadMessage(); err != nil {
					return
				}
			}
		}()
		if q.tailed != nil {
			q.tailed(func(lines ...string) error {
				return c.WriteJSON(map[string]any{"streams": []any{map[string]any{"stream": labels, "values": values(0, lines)}}})
			})
		}
		<-gone
		return
	}
	w.Header().Set("Content-Type", "application/json")
	kind, result := "vector", []any{}
	switch {
	case r.Form.Get("query") == "time()":
		now := float64(time.Now().UnixMilli()) / 1000
		kind, result = "scalar", []any{now, strconv.FormatFloat(now, 'f', 3, 64)}
	case strings.HasPrefix(r.URL.Path, "/loki/") && strings.HasSuffix(r.URL.Path, "/query_range"):
		kind, result = "streams", append(result, map[string]any{"stream": labels, "values": values(10*time.Second, q.lines)})
	case strings.HasSuffix(r.URL.Path, "/query_range"):
		kind = "matrix"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": kind, "result": result}})
}

// masked is a screen without what moves by itself: digits, the width that ages
// have, and the line of messages.
func masked(screen string) string {
	digits := regexp.MustCompile(`[0-9]+`)
	blanks := regexp.MustCompile(` {2,}`)
	lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(blanks.ReplaceAllString(digits.ReplaceAllString(lines[i], "0"), "  "), " ")
	}
	return strings.Join(lines, "\n")
}

// TUI-01: also a panic beside the program's own loop, as of what asks for
// numbers or follows a log, leaves the terminal usable and says where its
// report is. Those in the loop are TestTheGatewayOutlivesItsConsole's.
func TestTUI01PanicBesideTheLoop(t *testing.T) {
	t.Parallel()
	binary, err := panicky()
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string][]string{"a question of numbers": {"M-g"}, "a log that is followed": {"l", "j", "j", "M-g", "T"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newMute(t)
			g := standIn(t, func(s *api.State) {
				if q.at(s); len(keys) > 1 {
					s.Sources.Prometheus = api.Source{Error: "off"} // else its questions would panic first
				}
			})
			tm, _ := onStandIn(t, g, binary)
			tm.shows("loki ")
			for _, k := range keys {
				tm.press(k)
				if k == "l" {
					tm.shows("first-switch")
				}
			}
			tm.shows("the console crashed: test panic in a goroutine", "serves on")
			tm.restored(1)
			files, _ := filepath.Glob(filepath.Join(tm.home, "failback", "crash-*.txt"))
			if len(files) != 1 {
				t.Fatalf("crash files: %v", files)
			}
			if text := read(t, files[0]); !strings.Contains(text, "(*workers).Go") {
				t.Errorf("the report does not say where:\n%s", text)
			}
		})
	}
}

// TUI-02: every signal that can be caught ends it with the terminal restored.
func TestTUI02Signals(t *testing.T) {
	t.Parallel()
	g := standIn(t, nil)
	tm := newTerminal(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		pid := tm.console(program, "console", "--connect", g.Target())
		tm.shows("TEST", "q leave")
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
		tm.restored(0)
		tm.enter("clear")
		tm.back()
	}
	tm.enter("timeout --foreground 2 " + program + " console --connect " + g.Target())
	tm.shows("TEST", "q leave")
	tm.restored(124)
}

// TUI-02: without its terminal, and with the hang-up ignored, it ends in 2 s.
func TestTUI02LostTerminal(t *testing.T) {
	t.Parallel()
	g := standIn(t, nil)
	took := time.Hour
	for range 3 { // the machine may be busy
		c := onPty(t, []string{"sh", "-c", `trap "" HUP; exec "$@"`, "-"}, program, "console", "--connect", g.Target())
		c.drawn(t, "CLOSED")
		began := time.Now()
		_ = c.master.Close()
		until(t, "it has ended", func() bool { return c.over() })
		if took = min(took, time.Since(began)); took < 2*time.Second {
			return
		}
	}
	t.Errorf("it ended after %s", took)
}

// ptyConsole is a console on a pty with nothing but what reads its bytes.
type ptyConsole struct {
	cmd    *exec.Cmd
	master *os.File
	ended  chan struct{}

	mu  sync.Mutex // guards out
	out bytes.Buffer
}

func onPty(t *testing.T, before []string, argv ...string) *ptyConsole {
	t.Helper()
	argv = append(before, argv...)
	c := &ptyConsole{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LANG=C.UTF-8", "XDG_CACHE_HOME="+place(t))
	var err error
	if c.master, err = pty.StartWithSize(c.cmd, &pty.Winsize{Cols: 100, Rows: 30}); err != nil {
		t.Fatalf("there is no pty here: %v", err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		var b [8192]byte
		for {
			n, err := c.master.Read(b[:])
			c.mu.Lock()
			c.out.Write(b[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	go func() { _ = c.cmd.Wait(); close(c.ended) }()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		_ = c.master.Close()
		reader.Wait()
	})
	return c
}

func (c *ptyConsole) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// take returns what was written since.
func (c *ptyConsole) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.out.String()
	c.out.Reset()
	return s
}

func (c *ptyConsole) drawn(t *testing.T, word string) {
	t.Helper()
	all := ""
	until(t, "it has drawn "+word, func() bool { all += c.take(); return strings.Contains(all, word) })
}

// proc is what /proc says of the process: CPU time, and resident bytes.
func (c *ptyConsole) proc(t *testing.T) (cpu time.Duration, rss int64) {
	t.Helper()
	stat := read(t, fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	_, rest, _ := strings.Cut(stat, ") ")
	f := strings.Fields(rest)
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	pages, _ := strconv.ParseInt(f[21], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, pages * int64(os.Getpagesize())
}

// pass waits, which is what is measured.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// TUI-04: forty upstreams and an alarm at 80x24: the first three lines stay.
func TestTUI04TallContent(t *testing.T) {
	t.Parallel()
	g := standIn(t, func(s *api.State) {
		for i := range 40 {
			u := s.Upstreams[0]
			u.Name = fmt.Sprintf("up-%02d", i)
			s.Upstreams = append(s.Upstreams, u)
		}
		s.SharedFault = &api.SharedFault{Reason: "dns", Detail: "corp", Upstreams: []string{"a", "b"}, Since: time.Now()}
	})
	tm, _ := onStandIn(t, g, program)
	for _, k := range []string{"j", "G", "g", "G"} {
		tm.press(k)
		tm.await("the head above all", func(screen string) bool {
			lines := strings.Split(screen, "\n")
			return strings.Contains(lines[0], "TEST") && strings.Contains(lines[1], "gateway") && strings.HasPrefix(lines[2], " SHARED FAULT") && strings.Contains(screen, "/42")
		})
	}
	tm.shows(" > up-39")
	tm.press("q")
	tm.restored(0)
}

// TUI-05: sizes that change fast while what is shown does, and a pane beside
// it: a second later the screen is that of a fresh start.
func TestTUI05Resize(t *testing.T) {
	t.Parallel()
	g := standIn(t, nil)
	var refreshing sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer refreshing.Wait()
	defer stop()
	refreshing.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			g.Set(func(s *api.State) {
				s.Traffic.RPS.Value = 40 + float64(i%10)
				s.Upstreams[0].RPS.Value = 20 + float64(i%7)
			})
		}
	})
	start := func() *terminal {
		tm := newTerminal(t)
		tm.resize(120, 40)
		tm.console(program, "console", "--connect", g.Target())
		tm.shows("TEST", " > a ", "q leave")
		return tm
	}
	tm := start()
	for range 10 {
		tm.resize(60, 15)
		pass(t, 30*time.Millisecond)
		tm.resize(120, 40)
		pass(t, 30*time.Millisecond)
	}
	for _, how := range [][]string{{"-h"}, {"-v"}} {
		tm.run(append([]string{"split-window", "-d", "-t", "s:0.0"}, append(how, "cat")...)...)
		pass(t, 100*time.Millisecond)
		tm.run("kill-pane", "-t", "s:0.1")
	}
	fresh := start()
	pass(t, time.Second)
	var was, is string
	tm.await("the screen of a fresh start", func(screen string) bool {
		was, is = masked(screen), masked(fresh.screen())
		return was == is
	})
	for _, end := range []*terminal{tm, fresh} {
		end.press("q")
		end.restored(0)
	}
}

// TUI-08: where there is no terminal it says so within a second and names the
// command that needs none, however that comes about; in the background it waits
// to be brought forward, as any job does.
func TestTUI08NoTerminal(t *testing.T) {
	t.Parallel()
	g := standIn(t, nil)
	tm := newTerminal(t)
	code, errs := filepath.Join(tm.home, "code"), filepath.Join(tm.home, "errs")
	command := program + " console --connect " + g.Target() + " 2>" + errs
	for _, line := range []string{
		command + " </dev/null; echo $? >" + code,
		command + " | cat; echo ${PIPESTATUS[0]} >" + code,
		"cat <(" + command + "; echo $? >" + code + ")",
		"env -u TERM " + command + "; echo $? >" + code,
		"TERM=dumb " + command + "; echo $? >" + code,
		"setsid -w " + command + " </dev/null >/dev/null; echo $? >" + code,
		"echo | " + command + " >/dev/null; echo $? >" + code,
	} {
		took := time.Hour
		for range 3 { // the machine may be busy
			_ = os.Remove(code)
			began := time.Now()
			tm.enter(line)
			until(t, line+" has ended", func() bool { b, _ := os.ReadFile(code); return len(b) > 0 })
			took = min(took, time.Since(began))
			tm.back()
			if took < time.Second {
				break
			}
		}
		if got := strings.TrimSpace(read(t, code)); got != "2" || !strings.Contains(read(t, errs), "failback status") || took > time.Second {
			t.Errorf("%s: exit %s after %s: %s", line, got, took, read(t, errs))
		}
	}
	tm.enter(program + " console --connect " + g.Target() + " &")
	tm.pressUntil("Enter", "the shell tells of its jobs", func() bool { return strings.Contains(tm.screen(), "Stopped") })
	tm.enter("fg")
	tm.shows("TEST", "q leave")
	tm.press("q")
	tm.restored(0)
}

// TUI-09: while a Prometheus and a question of a log hang, keys work, esc gives
// the question up, and ctrl+c and q leave at once, also after a stop.
func TestTUI09HangingSource(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"C-c", "q"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			took := time.Hour
			for range 3 { // the machine may be busy
				q := newMute(t)
				q.hangs.Store(true)
				g := standIn(t, q.at)
				tm, pid := onStandIn(t, g, program)
				until(t, "a question of numbers hangs", func() bool { return q.waiting.Load() > 0 })
				before := q.waiting.Load()
				tm.press("l")
				tm.shows("first-switch")
				tm.press("Enter")
				until(t, "the question of the log hangs", func() bool { return q.waiting.Load() > before })
				tm.press("Escape")
				tm.shows("given up")
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				tm.shows("Stopped")
				tm.enter("fg")
				tm.hides("Stopped")
				tm.shows("first-switch", "q leave")
				tm.press("o")
				tm.shows(" > a ")
				began := time.Now()
				tm.press(end)
				for alive(pid) && time.Since(began) < 5*time.Second {
					pass(t, 2*time.Millisecond)
				}
				took = min(took, time.Since(began))
				tm.restored(0)
				until(t, "the stub sees that nobody waits", func() bool { return q.waiting.Load() == 0 })
				if took < 200*time.Millisecond {
					return
				}
			}
			t.Errorf("%s left after %s", end, took)
		})
	}
}

// TUI-10: sources and the gateway go and come back; the console stays, says
// since when, and every screen is reached meanwhile.
func TestTUI10BackendDown(t *testing.T) {
	t.Parallel()
	q := newMute(t)
	address := q.Listener.Addr().String()
	g := standIn(t, q.at)
	q.Close() // closed when the console starts
	tm := newTerminal(t)
	tm.resize(140, 40)
	tm.console(program, "console", "--connect", g.Target())
	tm.shows("prom NO ANSWER", " > a ", "CLOSED", "gateway 0s ok")
	screens := func() {
		t.Helper()
		for _, s := range [][2]string{{"l", "first-switch"}, {"e", "CHANGES AND TRIPS"}, {"m", " MAP "}, {"w", " QUEUE "}, {"i", " INCIDENT"}, {"o", "USERS"}} {
			tm.leads(s[0], s[1])
		}
	}
	screens()
	listen := func() {
		t.Helper()
		again := httptest.NewUnstartedServer(q)
		_ = again.Listener.Close()
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		again.Listener = l
		again.Start()
		q.Server = again
	}
	listen()
	tm.hides("prom NO ANSWER")
	q.hangs.Store(true)
	q.CloseClientConnections()
	screens()
	q.Close()
	tm.shows("prom NO ANSWER", "last good", " > a ", "CLOSED")
	q.hangs.Store(false)
	listen()
	tm.hides("NO ANSWER")
	g.Stop()
	tm.shows("gateway NO ANSWER", "last good")
	screens()
	g.Start(t)
	tm.shows("gateway 0s ok")
	tm.hides("NO ANSWER")
	tm.press("q")
	tm.restored(0)
	q.Close()
}

// typed are all keys that a keyboard has but those that leave or suspend.
func typedKeys() (keys []string) {
	for c := '!'; c <= '~'; c++ {
		if c != 'q' && c != ';' { // tmux reads that as the end of its command
			keys = append(keys, string(c))
		}
	}
	for c := 'a'; c <= 'z'; c++ {
		if c != 'c' && c != 'z' {
			keys = append(keys, "C-"+string(c))
		}
	}
	return append(keys, "Space", "Tab", "BSpace", "DC", "IC", "Up", "Down", "Left", "Right", "PageUp", "PageDown", "Home", "End", "F1", "F5", "F12", "S-F5", "M-x", "C-Left", "BTab", `\;`)
}

// TUI-11 and TUI-13: every key on every list, with all that can be pasted, and
// the operator API sees no command; with --read-only also not if all of it is
// meant.
func TestTUI11And13NoCommand(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"TUI-11": nil, "TUI-13 read-only": {"--read-only"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newMute(t, "a line", "another")
			g := standIn(t, func(s *api.State) {
				q.at(s)
				s.Incidents = []api.IncidentHead{{ID: "20261130-034840", Title: "a is degraded", State: api.IncidentOpen, Upstreams: []string{"a"}, OpenedAt: time.Now()}}
			})
			g.Record(api.Incident{IncidentHead: api.IncidentHead{ID: "20261130-034840", Title: "a is degraded", State: api.IncidentOpen, Upstreams: []string{"a"}, OpenedAt: time.Now()}})
			tm, pid := onStandIn(t, g, program, args...)
			away := func() {
				tm.press("Escape")
				pass(t, 100*time.Millisecond) // else it would begin another key
			}
			for _, screen := range []string{"o", "e", "d", "b", "l", "i", "m", "w", "$", "1", "?", "!"} {
				for _, k := range typedKeys() {
					if args == nil && k == "W" {
						continue
					}
					tm.press(screen, k)
					if strings.Contains("/aR", k) { // opens a field
						away()
					}
				}
				tm.press("/", "x", "Enter", "BSpace", "BSpace", "BSpace", "BSpace", "BSpace", "BSpace", "BSpace", "BSpace")
				away()
				if cs := g.Commands(); len(cs) > 0 {
					t.Fatalf("on %s something sent %+v", screen, cs)
				}
			}
			if args != nil { // what would work if it were armed
				for _, ks := range [][]string{{"W", ">", "y"}, {"W", "<", "y"}, {"W", "u", "y"}, {"W", "D", "y"}, {"i", "n", "x", "Enter"}, {"1", "x"}} {
					away()
					tm.press("o")
					for _, k := range ks {
						tm.press(k)
						pass(t, 350*time.Millisecond) // a dialog would hear it
						tm.run("set-buffer", "y")
						tm.run("paste-buffer", "-p", "-t", "s")
					}
				}
			}
			tm.pressUntil("Escape", "everything is closed, and nothing filtered", func() bool {
				screen := tm.screen()
				return strings.Contains(screen, "READ-ONLY") && strings.Contains(screen, " > ") && strings.Contains(screen, "BACK TO")
			})
			if cs := g.Commands(); len(cs) > 0 || !alive(pid) {
				t.Fatalf("sent %+v, runs %t", cs, alive(pid))
			}
			tm.press("q")
			tm.restored(0)
		})
	}
}

// TUI-15: brackets in a log's lines are on the screen and in the copied file,
// byte by byte.
func TestTUI15Brackets(t *testing.T) {
	t.Parallel()
	lines := []string{`[2026-01-01][ERROR] match[] a[red]b`, `[::b]bold[-] [[x]] [white:red:u] [] [`, `plain {"a":[1,[2,[]]],"b":["[green]x[-]"]}`}
	q := newMute(t, lines...)
	g := standIn(t, q.at)
	tm := newTerminal(t)
	tm.resize(120, 30)
	tm.console(program, "console", "--connect", g.Target())
	tm.shows("loki ")
	tm.press("l")
	tm.shows("first-switch")
	tm.press("j", "j", "Enter")
	tm.shows(lines...)
	tm.press("A")
	tm.shows("copied the answer")
	files, _ := filepath.Glob(filepath.Join(tm.home, "failback", "copies", "answer-*.txt"))
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	for _, l := range lines {
		if !strings.Contains(read(t, files[0]), " "+l+"\n") {
			t.Errorf("%q was not copied as it is:\n%s", l, read(t, files[0]))
		}
	}
	tm.press("q")
	tm.restored(0)
}

// TUI-16: the same text pasted with and without brackets on a list, in a filter
// and in a dialog.
func TestTUI16Paste(t *testing.T) {
	t.Parallel()
	g := standIn(t, nil)
	tm, pid := onStandIn(t, g, program)
	paste := func(text string, how ...string) {
		tm.run("set-buffer", text)
		tm.run(append(append([]string{"paste-buffer"}, how...), "-t", "s")...)
	}
	const pasted = "d/:y\nuit\n{app=\"x\"}"
	paste(pasted, "-p")
	tm.shows("pasted text is taken by fields only")
	tm.press("e", "/")
	tm.shows("filter: ")
	paste(pasted, "-p")
	tm.shows(`filter: d/:y uit {app="x"}`)
	tm.press("Escape")
	tm.hides("filter: ")
	tm.press("o", "W")
	tm.shows("ARMED")
	for _, p := range []string{pasted, "y", "y\ny\ny\n"} {
		for _, how := range [][]string{{"-p"}, nil} {
			if p == "y" && how == nil {
				continue // one key is a key
			}
			tm.hides("Lower a")
			tm.press("o")
			tm.shows(" > a ")
			tm.press("<")
			tm.shows("Lower a in TEST to ")
			pass(t, 400*time.Millisecond) // it hears now
			paste(p, how...)
			pass(t, 300*time.Millisecond) // a y that would count, does
			if cs := g.Commands(); len(cs) > 0 {
				t.Fatalf("%q pasted with %q sent %+v", p, how, cs)
			}
			tm.pressUntil("Escape", "to close the dialog", func() bool { return !strings.Contains(tm.screen(), "Lower a") })
		}
	}
	if !alive(pid) {
		t.Error("it has left")
	}
	tm.press("C-c")
	tm.restored(0)
}

// TUI-18: the shell is usable meanwhile, the window may change, and what comes
// back is a whole screen at its size, that asks no more than before.
func TestTUI18Suspend(t *testing.T) {
	t.Parallel()
	g := standIn(t, nil)
	tm, _ := onStandIn(t, g, program)
	tm.press("C-z")
	tm.shows("Stopped")
	tm.enter("echo hi-$((1+1))")
	tm.shows("hi-2")
	tm.resize(100, 30)
	before := g.Asked()
	tm.enter("fg")
	tm.shows("TEST", " > a ", "q leave")
	tm.hides("hi-2")
	pass(t, time.Second)
	if n := g.Asked() - before; n > 20 {
		t.Errorf("%d questions within about a second after it was brought back", n)
	}
	fresh := newTerminal(t)
	fresh.resize(100, 30)
	fresh.console(program, "console", "--connect", g.Target())
	fresh.shows("TEST", " > a ", "q leave")
	tm.await("the screen of a fresh start", func(screen string) bool { return masked(screen) == masked(fresh.screen()) })
	for _, end := range []*terminal{tm, fresh} {
		end.press("q")
		end.restored(0)
	}
}

// cells are what is left of bytes without the sequences that move the cursor
// and change the style.
func cells(s string) string {
	return regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|\x1b[M78DE]|\x1b[()][A-Z0-9]|[\r\n\x08]`).ReplaceAllString(s, "")
}

// TUI-20: while nothing happens nothing but clocks and ages is written, and
// hardly any time is spent: below 1% of a core, or where waking up is dear, as on
// a machine that others use too, not much more than asking and drawing cost there.
func TestTUI20Idle(t *testing.T) {
	t.Parallel()
	const watched = 10 * time.Second
	q := newMute(t)
	g := standIn(t, func(s *api.State) { q.at(s); s.Sources.Prometheus.EverySeconds = 15 })
	c := onPty(t, nil, program, "console", "--connect", g.Target())
	c.drawn(t, "CLOSED")
	least := onPty(t, []string{"env", plainOf + "=" + g.Target()}, os.Args[0])
	least.drawn(t, "TEST")
	clocks := func(out string) string { // what is more than clocks and ages
		return regexp.MustCompile(`[0-9:.]+|[smhdZ,]| `).ReplaceAllString(cells(out), "")
	}
	c.take()
	until(t, "the first answers are drawn", func() bool { pass(t, 3*time.Second); return clocks(c.take()) == "" })
	const few = 0.01
	over := 0
	for range 3 {
		before, _ := c.proc(t)
		least0, _ := least.proc(t)
		pass(t, watched)
		after, _ := c.proc(t)
		least1, _ := least.proc(t)
		out := c.take()
		share, floor := (after-before).Seconds()/watched.Seconds(), (least1-least0).Seconds()/watched.Seconds()
		t.Logf("%d bytes/s, %.2f%% of a core, the plainest console %.2f%%", len(out)/int(watched/time.Second), 100*share, 100*floor)
		if len(out) > 200*int(watched/time.Second) {
			t.Errorf("%d bytes in %s", len(out), watched)
		}
		if rest := clocks(out); rest != "" {
			t.Errorf("more than clocks and ages was drawn anew: %q", rest)
		}
		if share < few || share < 2*floor {
			return
		}
		over++
	}
	t.Errorf("above 1%% of a core and above twice the plainest console in each of %d times %s", over, watched)
}

// TUI-20: a log that is followed, 200 lines a second of 2 KB: memory stays where
// it is once what is kept is full.
func TestTUI20Tail(t *testing.T) {
	t.Parallel()
	q := newMute(t)
	var sent atomic.Int64
	q.tailed = func(send func(lines ...string) error) {
		line := strings.Repeat("0123456789abcdef", 128)
		for {
			batch := make([]string, 20)
			for i := range batch {
				batch[i] = fmt.Sprintf("%d %s", sent.Add(1), line)
			}
			if send(batch...) != nil {
				return
			}
			pass(t, 100*time.Millisecond)
		}
	}
	g := standIn(t, q.at)
	c := onPty(t, nil, program, "console", "--connect", g.Target())
	c.drawn(t, "CLOSED")
	_, _ = c.master.WriteString("l")
	c.drawn(t, "first-switch")
	_, _ = c.master.WriteString("jj")
	pass(t, time.Second) // where the lines are is known by now
	_, _ = c.master.WriteString("T")
	var rss [2]int64
	for half := range rss {
		from := sent.Load()
		until(t, "lines come", func() bool {
			_, now := c.proc(t)
			rss[half] = max(rss[half], now)
			return sent.Load() >= from+1500
		})
		if half == 0 {
			c.drawn(t, "9abcdef0123456")
		} else if c.take() == "" {
			t.Error("nothing new is drawn")
		}
	}
	t.Logf("%d lines, at most %d MB in the first half, %d MB in the second", sent.Load(), rss[0]>>20, rss[1]>>20)
	if rss[1] > rss[0]+24<<20 || rss[1] > 250<<20 {
		t.Errorf("memory grows from %d MB to %d MB", rss[0]>>20, rss[1]>>20)
	}
}
