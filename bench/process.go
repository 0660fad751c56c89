package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is one server under measurement.
type process struct {
	name, url string
	cmd       *exec.Cmd
	hold      io.Closer // its standard input: closed, it ends
	socket    string    // of failback
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// startSelf runs this program as a server.
func startSelf(name string, args ...string) (*process, error) {
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, url: "http://" + addr, cmd: exec.Command(self, append([]string{name, addr}, args...)...)}
	if p.hold, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.cmd.Stderr = os.Stderr
	return p, p.start(p.url)
}

// startFailback starts the binary program on the stub; nobody listens on refused.
func startFailback(program, dir, stub, refused string) (*process, error) {
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "failback.yaml")
	text := fmt.Sprintf(`listen: %s
data_dir: %q
drain_delay: 0s
telemetry: {decision_log: %q}
upstreams:
  a: {dialect: openai, base_url: "%s/v1", api_key: k}
  b: {dialect: openai, base_url: "%s/v1", api_key: k}
  refused: {dialect: openai, base_url: "http://%s/v1", api_key: k, breaker: {mode: shadow}}
models:
  m: {candidates: [{upstream: a, weight: 100}, {upstream: b, weight: 1}]}
  hold: {candidates: [{upstream: a, weight: 100}, {upstream: b, weight: 1}]}
  failover: {candidates: [{upstream: refused, model: m, weight: 100}, {upstream: b, model: m, weight: 1}]}
retry: {budget: {ratio: 1, burst: 100000}}
`, addr, dir, filepath.Join(dir, "decisions.jsonl"), stub, stub, refused)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p := &process{name: "failback", url: "http://" + addr, socket: filepath.Join(dir, "failback.sock"), cmd: exec.Command(program, "serve", "--config", config)}
	p.cmd.Stderr = os.Stderr
	return p, p.start(p.url + "/readyz")
}

// start starts p and waits until something answers.
func (p *process) start(url string) error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		res, err := http.Get(url)
		if err == nil {
			_ = res.Body.Close()
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not answer: %w", p.name, err)
		}
	}
}

func (p *process) stop() {
	if p.hold != nil {
		_ = p.hold.Close()
	} else {
		_ = p.cmd.Process.Signal(os.Interrupt)
	}
	_ = p.cmd.Wait()
}

// cpu is the processor time that p has used.
func (p *process) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("processor time is read from /proc: %w", err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("/proc/%d/stat is not understood", p.cmd.Process.Pid)
	}
	return time.Duration(user+system) * time.Second / 100, nil // USER_HZ
}

// memory is p's resident memory in bytes.
func (p *process) memory() int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for l := range strings.Lines(string(b)) {
		if kb, ok := strings.CutPrefix(l, "VmRSS:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

// sockets is how many sockets p has open.
func (p *process) sockets() (n int) {
	dir := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	fds, _ := os.ReadDir(dir)
	for _, fd := range fds {
		if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// pprof asks failback's operator API for a profile.
func (p *process) pprof(what string) ([]byte, error) {
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
	}}}
	defer c.CloseIdleConnections()
	res, err := c.Get("http://failback/operator/v1/debug/pprof/" + what)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", what, res.Status, b)
	}
	return b, err
}

// profile writes what failback's processor time goes to in the next seconds.
func (p *process) profile(path string, seconds int) error {
	b, err := p.pprof("profile?seconds=" + strconv.Itoa(seconds))
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// goroutines is how many failback has, from its operator API.
func (p *process) goroutines() int {
	b, err := p.pprof("goroutine?debug=1")
	if err != nil {
		return -1
	}
	var n int
	if _, err := fmt.Sscanf(string(b), "goroutine profile: total %d", &n); err != nil {
		return -1
	}
	return n
}
