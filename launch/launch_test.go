//go:build unix

package launch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// The test binary plays the other processes too: roleEnv says which.
const roleEnv = "LAUNCH_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "":
		os.Exit(m.Run())
	case "launcher":
		playLauncher()
	default:
		playGateway(role)
	}
}

// playLauncher starts a gateway, says its pid, and waits to be ended.
func playLauncher() {
	o := Options{Socket: os.Getenv("SOCKET"), Log: os.Getenv("LOG"), Env: append(os.Environ(), roleEnv+"=gateway")}
	p, err := Start(context.Background(), o)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("pid", p.PID)
	select {}
}

// status is what the gateway of these tests tells about itself.
type status struct {
	PID, Session int
	Signals      []string
}

// playGateway answers on the socket, or misbehaves as its role says.
func playGateway(role string) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals)
	fmt.Println("started as", role)
	switch role {
	case "broken":
		fmt.Fprintln(os.Stderr, "failback.yaml:3:5: \x1b[31mno such key")
		os.Exit(3)
	case "silent":
		os.Exit(0)
	case "mute":
		for s := range signals {
			if s == syscall.SIGTERM {
				os.Exit(0)
			}
		}
	}
	ln, err := net.Listen("unix", os.Getenv("SOCKET"))
	if err != nil {
		fmt.Println("listen:", err)
		os.Exit(1)
	}
	var (
		mu   sync.Mutex
		seen []string
	)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if role == "unwell" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		sid, err := unix.Getsid(0)
		if err != nil {
			panic(err)
		}
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(status{PID: os.Getpid(), Session: sid, Signals: seen})
	})
	go func() { _ = http.Serve(ln, mux) }()
	for s := range signals {
		if s == syscall.SIGTERM && role != "stubborn" {
			_ = ln.Close()
			os.Exit(0)
		}
		// The runtime's own signal for preemption is nobody's message.
		if s != syscall.SIGURG {
			mu.Lock()
			seen = append(seen, s.String())
			mu.Unlock()
		}
	}
}

// lacks skips the test for want of what it requires, or fails it where all of that
// must be there.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("missing: " + what)
	}
	t.Skip("requires " + what)
}

// place returns a directory whose path leaves room for a socket's name.
func place(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "launch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func options(t *testing.T, role string) Options {
	dir := place(t)
	socket := filepath.Join(dir, "failback.sock")
	return Options{Socket: socket, Log: filepath.Join(dir, "data", "gateway.log"), Env: append(os.Environ(), roleEnv+"="+role, "SOCKET="+socket)}
}

// start starts a gateway and ends it with the test, whatever it ignores.
func start(t *testing.T, o Options) *Process {
	t.Helper()
	p, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, p) })
	return p
}

func end(t *testing.T, p *Process) {
	if p.Stop(context.Background(), 100*time.Millisecond) != nil {
		if err := p.Kill(context.Background(), 10*time.Second); err != nil {
			t.Error(err)
		}
	}
}

func askStatus(t *testing.T, socket string) status {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", socket)
	}}}
	resp, err := c.Get("http://gateway/status")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var s status
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStartAndStop(t *testing.T) {
	o := options(t, "gateway")
	if err := os.MkdirAll(filepath.Dir(o.Log), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.Log, []byte("of yesterday\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, o)
	s := askStatus(t, o.Socket)
	if s.PID != p.PID || s.Session != p.PID {
		t.Errorf("started %d; it says pid %d, session %d", p.PID, s.PID, s.Session)
	}
	a, err := Probe(t.Context(), o.Socket)
	if err != nil || (a.PID != 0 && a.PID != p.PID) {
		t.Errorf("Probe: %+v, %v", a, err)
	}
	if b, _ := os.ReadFile(o.Log); string(b) != "of yesterday\nstarted as gateway\n" {
		t.Errorf("log: %q", b)
	}

	if err := p.Stop(t.Context(), 10*time.Second); err != nil {
		t.Error(err)
	}
	select {
	case <-p.Ended():
	default:
		t.Error("stopped and not ended")
	}
	if _, err := Probe(t.Context(), o.Socket); err == nil {
		t.Error("still answers")
	}
	if err := p.Stop(t.Context(), 0); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
	if err := p.Kill(t.Context(), 0); err != nil {
		t.Errorf("killing what has ended: %v", err)
	}
}

func TestLogIsTheOwnersAlone(t *testing.T) {
	o := options(t, "gateway")
	start(t, o)
	for path, want := range map[string]os.FileMode{o.Log: 0o600, filepath.Dir(o.Log): 0o700} {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := st.Mode().Perm(); got != want {
			t.Errorf("%s: mode %o, want %o", path, got, want)
		}
	}
}

func TestLogMustBeAFile(t *testing.T) {
	o := options(t, "gateway")
	o.Log = filepath.Join(place(t), "pipe")
	if err := syscall.Mkfifo(o.Log, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), o.Log) {
		t.Errorf("output to a pipe: %v", err)
	}
}

func TestRunningGatewayIsFound(t *testing.T) {
	o := options(t, "gateway")
	p := start(t, o)
	again, err := Start(t.Context(), o)
	if again != nil || !IsRunning(err) {
		t.Fatalf("started a second: %v, %v", again, err)
	}
	if e, _ := errors.AsType[*RunningError](err); e.PID != 0 && e.PID != p.PID || e.Socket != o.Socket {
		t.Errorf("found %+v, runs as %d", e, p.PID)
	}
}

func TestOfTwoStartsOneWins(t *testing.T) {
	o := options(t, "gateway")
	type result struct {
		p   *Process
		err error
	}
	results := make(chan result)
	for range 2 {
		go func() {
			p, err := Start(context.Background(), o)
			results <- result{p, err}
		}()
	}
	var won *Process
	var lost error
	for range 2 {
		r := <-results
		if r.err != nil {
			lost = r.err
			continue
		}
		if won != nil {
			t.Error("both won")
		}
		won = r.p
		t.Cleanup(func() { end(t, r.p) })
	}
	if won == nil || !IsRunning(lost) {
		t.Fatalf("winner %v, the other's error: %v", won, lost)
	}
	if e, _ := errors.AsType[*RunningError](lost); e.PID != 0 && e.PID != won.PID {
		t.Errorf("the loser names %d, the winner is %d", e.PID, won.PID)
	}
	if s := askStatus(t, o.Socket); s.PID != won.PID {
		t.Errorf("%d answers, %d was said to", s.PID, won.PID)
	}
}

func TestEarlyEndShowsTheLog(t *testing.T) {
	o := options(t, "broken")
	if err := os.MkdirAll(filepath.Dir(o.Log), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.Log, []byte("of yesterday\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err := Start(t.Context(), o)
	if err == nil {
		t.Fatal("started")
	}
	for _, want := range []string{"exit status 3", o.Log, "started as broken", `failback.yaml:3:5: \x1b[31mno such key`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "yesterday") {
		t.Errorf("an older start's output: %v", err)
	}
	if IsRunning(err) || time.Since(began) > defaultWait/2 {
		t.Errorf("after %s: %v", time.Since(began), err)
	}

	o = options(t, "silent")
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "ended before it answered") {
		t.Errorf("ended without an error: %v", err)
	}
}

func TestNoAnswerInTime(t *testing.T) {
	for _, role := range []string{"mute", "unwell"} {
		o := options(t, role)
		var err error
		for o.Wait = 300 * time.Millisecond; o.Wait < time.Minute; o.Wait *= 2 { // a slow machine has hardly started it by then
			var p *Process
			p, err = Start(t.Context(), o)
			if p != nil || err == nil || !strings.Contains(err.Error(), "no answer on "+o.Socket) {
				t.Fatalf("%s: %v", role, err)
			}
			if strings.Contains(err.Error(), "started as "+role) {
				break
			}
		}
		if !strings.Contains(err.Error(), "started as "+role) {
			t.Fatalf("%s: %v", role, err)
		}
		if _, ok := errors.AsType[*StillRunningError](err); ok {
			t.Errorf("%s: %v", role, err)
		}
		if conn, err := net.Dial("unix", o.Socket); err == nil {
			_ = conn.Close()
			t.Errorf("%s: was left running", role)
		}
	}
}

// Another that answers on the socket is not the one that was started.
func TestAnothersAnswerIsNotItsOwn(t *testing.T) {
	o := options(t, "mute")
	o.Wait = time.Minute
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("it was asked often enough")
	var asked atomic.Int32
	answer := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if asked.Add(1) == 3 {
			cancel(enough)
		}
	})
	ln := make(chan net.Listener, 1)
	go func() {
		defer close(ln)
		for ctx.Err() == nil {
			if b, _ := os.ReadFile(o.Log); len(b) > 0 { // after the first question
				if l, err := net.Listen("unix", o.Socket); err == nil {
					ln <- l
					_ = http.Serve(l, answer)
				}
				return
			}
			<-time.After(time.Millisecond)
		}
	}()
	p, err := Start(ctx, o)
	cancel(err)
	l := <-ln
	if l == nil {
		t.Fatalf("nobody listened: %v", err)
	}
	a, probeErr := Probe(t.Context(), o.Socket)
	_ = l.Close()
	<-ln
	if probeErr != nil {
		t.Fatal(probeErr)
	}
	if p != nil {
		end(t, p)
	}
	switch {
	case a.PID == 0:
		lacks(t, "a platform that tells who listens on a socket")
	case a.PID != os.Getpid():
		t.Errorf("the listener is %d, not %d", a.PID, os.Getpid())
	case !errors.Is(err, enough):
		t.Errorf("started %+v, %v", p, err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the operator pressed q")
	o := options(t, "mute")
	go func() {
		for ctx.Err() == nil {
			if b, _ := os.ReadFile(o.Log); len(b) > 0 {
				cancel(cause)
			}
			<-time.After(time.Millisecond)
		}
	}()
	if _, err := Start(ctx, o); !errors.Is(err, cause) {
		t.Errorf("%v, want %v", err, cause)
	}
}

func TestStopNamesWhatStillRuns(t *testing.T) {
	o := options(t, "stubborn")
	p := start(t, o)
	if err := p.Kill(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), "not asked") {
		t.Errorf("killed without being asked to stop: %v", err)
	}
	err := p.Stop(t.Context(), 50*time.Millisecond)
	e, ok := errors.AsType[*StillRunningError](err)
	if !ok || e.PID != p.PID || !strings.Contains(err.Error(), fmt.Sprint(p.PID)) {
		t.Errorf("stubborn: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if _, ok := errors.AsType[*StillRunningError](p.Stop(ctx, time.Hour)); !ok || time.Since(began) > time.Minute {
		t.Errorf("Stop outlived its context by %s", time.Since(began))
	}
	// A signal is delivered in its own time.
	for !slices.Contains(askStatus(t, o.Socket).Signals, "terminated") {
		if time.Since(began) > 10*time.Second {
			t.Fatal("it was never asked to stop")
		}
	}
	if err := p.Kill(t.Context(), 10*time.Second); err != nil {
		t.Error(err)
	}
	<-p.Ended()
}

func TestStdinTellsOfTheParent(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	o := options(t, "")
	o.Path, o.Args = "/bin/sh", []string{"-c", "cat; echo parent is gone; exit 7"}
	o.Stdin = r
	started := make(chan error, 1)
	go func() {
		_, err := Start(t.Context(), o)
		started <- err
	}()
	if _, err := io.WriteString(w, "hello\n"); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if err := <-started; err == nil || !strings.Contains(err.Error(), "hello\nparent is gone") {
		t.Errorf("%v", err)
	}
	_ = r.Close()
}

// The console's terminal is gone, its keys are pressed, or it is killed: the
// gateway does not notice.
func TestGatewayOutlivesItsLauncher(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(launcher *exec.Cmd, terminal *os.File) error
		sig  syscall.Signal
	}{
		{"terminal hangs up", func(_ *exec.Cmd, tty *os.File) error { return tty.Close() }, syscall.SIGHUP},
		{"interrupt key", func(_ *exec.Cmd, tty *os.File) error { _, err := tty.Write([]byte{3}); return err }, syscall.SIGINT},
		{"quit key", func(_ *exec.Cmd, tty *os.File) error { _, err := tty.Write([]byte{28}); return err }, syscall.SIGQUIT},
		{"killed", func(l *exec.Cmd, _ *os.File) error { return l.Process.Kill() }, syscall.SIGKILL},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if signal.Ignored(tc.sig) { // and so would the launcher: what is ignored is inherited
				lacks(t, "a process that does not ignore "+tc.sig.String()+", as nohup makes it")
			}
			o := options(t, "launcher")
			l := exec.Command(os.Args[0])
			l.Env = append(o.Env, "LOG="+o.Log, "GOTRACEBACK=none")
			tty, err := pty.Start(l) // a session of its own, led by the launcher
			if err != nil {
				t.Fatal(err)
			}
			defer tty.Close()
			line, err := bufio.NewReader(tty).ReadString('\n')
			var pid int
			if _, scan := fmt.Sscanf(line, "pid %d", &pid); scan != nil {
				t.Fatalf("launcher says %q, %v", line, err)
			}
			gateway, err := os.FindProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = gateway.Kill() })

			if err := tc.end(l, tty); err != nil {
				t.Fatal(err)
			}
			err = l.Wait()
			ws := l.ProcessState.Sys().(syscall.WaitStatus)
			// The Go runtime turns SIGQUIT into exit status 2.
			if byQuit := tc.sig == syscall.SIGQUIT && ws.ExitStatus() == 2; !byQuit && (!ws.Signaled() || ws.Signal() != tc.sig) {
				t.Fatalf("launcher ended with %v, want %v", err, tc.sig)
			}

			s := askStatus(t, o.Socket)
			if s.PID != pid || s.Session != pid {
				t.Errorf("pid %d, session %d, started as %d", s.PID, s.Session, pid)
			}
			if len(s.Signals) != 0 {
				t.Errorf("signals reached it: %v", s.Signals)
			}
			if _, err := Probe(t.Context(), o.Socket); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestProbeTellsWhatIsThere(t *testing.T) {
	socket := filepath.Join(place(t), "s")
	if _, err := Probe(t.Context(), socket); err == nil || !strings.Contains(err.Error(), socket) {
		t.Errorf("nothing there: %v", err)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = s.Serve(ln) }()
	defer s.Close()
	if _, err := Probe(t.Context(), socket); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("something else there: %v", err)
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain\tü\n":       "plain\tü\n",
		"\x1b[2J\a":        `\x1b[2J\x07`,
		"a\r\nb\rc":        "a\nb\\x0dc",
		"\u202eevil":       `\u202eevil`,
		"bad \xff\xfe":     `bad \xff\xfe`,
		"c1 \u009b31m":     `c1 \u009b31m`,
		"\U000e0001 large": `\U000e0001 large`,
	} {
		if got := visible([]byte(in)); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTailIsShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "line %d of a long log\n", i)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(tail(path, 0), "\n")
	if len(lines) != tailLines || lines[tailLines-1] != "line 999 of a long log" {
		t.Errorf("%d lines, last %q", len(lines), lines[len(lines)-1])
	}
	if got := tail(path, int64(b.Len())); got != "" {
		t.Errorf("nothing was written since: %q", got)
	}
	long := strings.Repeat("x", 2*tailBytes) + "\nthe end\n"
	if err := os.WriteFile(path, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tail(path, 0); got != "the end" {
		t.Errorf("tail begins in the middle of a line: %q", got)
	}
}
