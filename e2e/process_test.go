package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// program is the built binary.
var program string

func TestMain(m *testing.M) {
	if target := os.Getenv(plainOf); target != "" {
		if err := runPlain(target); err != nil {
			panic(err)
		}
		return
	}
	dir, err := os.MkdirTemp("", "failback-e2e-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "failback")
	if out, err := exec.Command("go", "build", "-o", program, "..").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the program: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// until polls f until it is true, for at most 30 s.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	within(t, 30*time.Second, what, f)
}

// within is until for what may take a slow machine longer than that.
func within(t *testing.T, bound time.Duration, what string, f func() bool) {
	t.Helper()
	deadline := time.After(bound)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if f() {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("timed out waiting until %s", what)
		case <-tick.C:
		}
	}
}

// stub is an upstream that counts by conversation who was answered. Probes get
// an answer and are counted apart.
type stub struct {
	*http.Server
	url    string
	seen   atomic.Int64
	probes atomic.Int64
	delay  time.Duration
	broken atomic.Bool // answers 500

	mu     sync.Mutex // guards everything that follows
	who    map[string]int
	keys   map[string]int
	finish chan struct{} // streams run until it is closed
}

func newStub(t *testing.T) *stub {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stub{url: "http://" + l.Addr().String() + "/v1", who: map[string]int{}, keys: map[string]int{}, finish: make(chan struct{})}
	s.Server = &http.Server{Handler: s}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("User-Agent") == "failback" { // the gateway on its own behalf
		s.probes.Add(1)
		s.answer(w, r, string(body), ended)
		return
	}
	s.seen.Add(1)
	_, rest, _ := strings.Cut(string(body), `"user":"`)
	user, _, _ := strings.Cut(rest, `"`)
	s.mu.Lock()
	s.who[user]++
	s.keys[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]++
	finish := s.finish
	s.mu.Unlock()
	if s.delay > 0 && !s.broken.Load() && !strings.Contains(string(body), `"stream":true`) {
		select {
		case <-time.After(s.delay):
		case <-r.Context().Done():
			return
		}
	}
	s.answer(w, r, string(body), finish)
}

// ended is for streams that end at once.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (s *stub) answer(w http.ResponseWriter, r *http.Request, body string, finish <-chan struct{}) {
	if s.broken.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"error":{"message":"broken","type":"server_error"}}`)
		return
	}
	if strings.Contains(body, `"stream":true`) {
		stream(w, r, finish)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
}

// stream sends a frame every 20 ms until finish is closed, and then ends as it should.
func stream(w http.ResponseWriter, r *http.Request, finish <-chan struct{}) {
	frame := func(delta, reason string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}`+"\n\n", delta, reason)
		_ = http.NewResponseController(w).Flush()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		frame(`"content":"x"`, "null")
		select {
		case <-finish:
			frame("", `"stop"`)
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
			return
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// end lets the streams under way end; later ones run until the next call.
func (s *stub) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.finish)
	s.finish = make(chan struct{})
}

// shown returns how often each credential was seen since the last call.
func (s *stub) shown() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.keys
	s.keys = map[string]int{}
	return keys
}

// members returns who was answered since the last call.
func (s *stub) members() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	who := s.who
	s.who = map[string]int{}
	return who
}

// running is one gateway process.
type running struct {
	*exec.Cmd
	dir, url, metrics string
	client            *api.Client
	stderr            *buffer
	ended             chan error
}

type buffer struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// configure writes a configuration into dir and returns its path.
func configure(t *testing.T, dir string, a, b *stub, more string) string {
	t.Helper()
	if !strings.Contains(more, "drain_delay") {
		more += "drain_delay: 0s\n"
	}
	yaml := fmt.Sprintf(`listen: %s
operator: {listen: %s}
data_dir: %s
environment: TEST
telemetry: {decision_log: decisions.jsonl}
upstreams:
  a: {dialect: openai, base_url: %q, api_key: key-a}
  b: {dialect: openai, base_url: %q, api_key: key-b}
models:
  m: {candidates: [{upstream: a, weight: 100}, {upstream: b, weight: 50}]}
%s`, freePort(t), freePort(t), dir, a.url, b.url, more)
	path := filepath.Join(dir, "failback.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs failback serve and waits until it is ready.
func start(t *testing.T, path string) *running {
	t.Helper()
	return startAs(t, path, func(*exec.Cmd) {})
}

// startAs is start with a command that prepare may change.
func startAs(t *testing.T, path string, prepare func(*exec.Cmd)) *running {
	t.Helper()
	r := &running{dir: filepath.Dir(path), stderr: &buffer{}, ended: make(chan error, 1)}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	r.url = "http://" + strings.TrimPrefix(lines[0], "listen: ")
	r.metrics = "http://" + strings.TrimSuffix(strings.TrimPrefix(lines[1], "operator: {listen: "), "}") + "/metrics"
	r.Cmd = exec.Command(program, "serve", "--config", path)
	r.Stderr = r.stderr
	prepare(r.Cmd)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.Wait() }()
	t.Cleanup(r.kill)
	r.client, err = api.NewClient("unix:"+filepath.Join(r.dir, "failback.sock"), api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Close)
	ready := http.DefaultClient
	if strings.Contains(string(b), "\ntls:") {
		r.url = strings.Replace(r.url, "http:", "https:", 1)
		ready = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its certificate is the test's own
		defer ready.CloseIdleConnections()
	}
	until(t, "the gateway is ready", func() bool {
		select {
		case err := <-r.ended:
			r.ended <- err
			t.Fatalf("it ended with %v: %s", err, r.stderr)
		default:
		}
		resp, err := ready.Get(r.url + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return r
}

func (r *running) kill() {
	_ = r.Process.Kill()
	select {
	case err := <-r.ended:
		r.ended <- err
	case <-time.After(10 * time.Second):
	}
}

// term asks it to stop and returns how it ended.
func (r *running) term(t *testing.T) error {
	t.Helper()
	if err := r.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-r.ended:
		r.ended <- err
		return err
	case <-time.After(30 * time.Second):
		t.Fatalf("it did not stop: %s", r.stderr)
		return nil
	}
}

func (r *running) hangup(t *testing.T) {
	t.Helper()
	if err := r.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

func (r *running) state(t *testing.T) *api.State {
	t.Helper()
	s, err := r.client.State(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// events returns the events of a kind.
func (r *running) events(t *testing.T, kind string) []api.Event {
	t.Helper()
	all, err := r.client.Events(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all.Events, func(e api.Event) bool { return e.Event != kind })
}

func (r *running) upstream(t *testing.T, name string) api.Upstream {
	t.Helper()
	for _, u := range r.state(t).Upstreams {
		if u.Name == name {
			return u
		}
	}
	t.Fatalf("no upstream %s", name)
	return api.Upstream{}
}

// step sets a share, based on the revision in force. A raise is an override:
// nobody waits for its evidence.
func (r *running) step(t *testing.T, name string, share int) {
	t.Helper()
	u := r.upstream(t, name)
	if _, err := r.client.SetShare(context.Background(), name, api.Command{Share: &share, Revision: &u.Revision, Reason: "test", Override: share > u.Share}); err != nil {
		t.Fatalf("%s to %d%%: %v", name, share, err)
	}
}

// chat sends one request of a user and returns the answer's status.
func chat(client *http.Client, url, user string) (int, error) {
	body := fmt.Sprintf(`{"model":"m","user":"%s","messages":[{"role":"user","content":"hi"}]}`, user)
	resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// streams opens n streams and waits until each of them runs. What it returns
// waits for their ends and checks that each is whole.
func streams(t *testing.T, url string, n int) (wait func()) {
	t.Helper()
	type end struct {
		text string
		err  error
	}
	ends := make(chan end, n)
	for i := range n {
		body := fmt.Sprintf(`{"model":"m","stream":true,"user":"s%d","messages":[{"role":"user","content":"hi"}]}`, i)
		resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("a stream: %s", resp.Status)
		}
		go func() {
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			ends <- end{string(b), err}
		}()
	}
	return func() {
		t.Helper()
		for range n {
			select {
			case e := <-ends:
				if e.err != nil || !strings.HasSuffix(e.text, "data: [DONE]\n\n") || strings.Contains(e.text, "error") {
					t.Errorf("a stream broke after %d bytes: %v", len(e.text), e.err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("a stream does not end")
			}
		}
	}
}

// traffic sends a request every few milliseconds, each of which must succeed,
// until the end of the test or until what it returns is called.
func traffic(t *testing.T, url string, every time.Duration) (stop func() (sent int64)) {
	t.Helper()
	return trafficBy(t, url, every, &http.Transport{MaxIdleConnsPerHost: 64})
}

// trafficBy is traffic over transport.
func trafficBy(t *testing.T, url string, every time.Duration, transport *http.Transport) (stop func() (sent int64)) {
	t.Helper()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	done := make(chan struct{})
	var sent int64
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			sent++
			user := fmt.Sprintf("t%d", sent)
			wg.Go(func() {
				if status, err := chat(client, url, user); err != nil || status != http.StatusOK {
					t.Errorf("%s: %d %v", user, status, err)
				}
			})
		}
	})
	stop = sync.OnceValue(func() int64 {
		close(done)
		wg.Wait()
		client.CloseIdleConnections()
		return sent
	})
	t.Cleanup(func() { stop() })
	return stop
}

// edit replaces text in a file, at once, as a careful editor does.
func edit(t *testing.T, path, old, new string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), old) {
		t.Fatalf("%s has no %q", path, old)
	}
	replace(t, path, strings.Replace(string(b), old, new, 1))
}

func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// chatAll sends one request for each user, a few at a time.
func chatAll(t *testing.T, url string, users []string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	next := make(chan string)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for user := range next {
				if status, err := chat(client, url, user); err != nil || status != 200 {
					t.Errorf("%s: %d %v", user, status, err)
				}
			}
		})
	}
	for _, u := range users {
		next <- u
	}
	close(next)
	wg.Wait()
}
