package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// How a patient answers.
const (
	well       = int32(iota)
	broken     // 500
	brokenText // 500, but for streams: one breaker opens, and it alone
	silent     // takes the request and says nothing
	away       // 503
	revoked    // 401
	retired    // 404 model_not_found
)

// patient is an upstream that can fall ill and be cured, and that tells clients
// from probes: only clients name a user.
type patient struct {
	url  string
	addr string
	mode atomic.Int32

	mu      sync.Mutex // guards everything that follows
	server  *http.Server
	clients map[string]int // by user
	probes  int
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{addr: freePort(t), clients: map[string]int{}}
	p.url = "http://" + p.addr + "/v1"
	p.listen(t)
	t.Cleanup(p.refuse)
	return p
}

// listen ends refuse.
func (p *patient) listen(t *testing.T) {
	t.Helper()
	var l net.Listener
	until(t, "the address of an upstream is free", func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", p.addr)
		return err == nil
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = &http.Server{Handler: p}
	go func(s *http.Server) { _ = s.Serve(l) }(p.server)
}

// refuse has every connection refused, and ends those there are.
func (p *patient) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		_ = p.server.Close()
		p.server = nil
	}
}

// asked returns how many requests of clients and probes came since the last call.
func (p *patient) asked() (clients, probes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.clients {
		clients += n
	}
	probes = p.probes
	p.clients, p.probes = map[string]int{}, 0
	return clients, probes
}

// members returns which users it was asked by since the last call.
func (p *patient) members() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	who := p.clients
	p.clients = map[string]int{}
	return who
}

func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	body := string(b)
	_, rest, client := strings.Cut(body, `"user":"`)
	p.mu.Lock()
	if client {
		user, _, _ := strings.Cut(rest, `"`)
		p.clients[user]++
	} else {
		p.probes++
	}
	p.mu.Unlock()
	fail := func(status int, code string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"type":"error","code":%q}}`, "this is "+code, code)
	}
	stream := strings.Contains(body, `"stream":true`)
	mode := p.mode.Load()
	if mode == brokenText && stream {
		mode = well
	}
	switch mode {
	case broken, brokenText:
		fail(http.StatusInternalServerError, "server_error")
	case away:
		fail(http.StatusServiceUnavailable, "unavailable")
	case revoked:
		fail(http.StatusUnauthorized, "invalid_api_key")
	case retired:
		fail(http.StatusNotFound, "model_not_found")
	case silent:
		<-r.Context().Done()
	default:
		answerWell(w, stream)
	}
}

func answerWell(w http.ResponseWriter, stream bool) {
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, d := range []string{`"delta":{"content":"x"},"finish_reason":null`, `"delta":{},"finish_reason":"stop"`} {
		_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,%s}]}`+"\n\n", d)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// ward is a gateway whose windows are seconds, over patients. a is primary.
type ward struct {
	*running
	path string
}

// admit configures a gateway in dir; more is added to the file as it is, and
// replace, in pairs of old and new, changes it.
func admit(t *testing.T, a, b string, more string, replace ...string) string {
	t.Helper()
	dir := t.TempDir()
	yaml := fmt.Sprintf(`listen: %s
operator: {listen: %s}
data_dir: %s
environment: TEST
telemetry: {decision_log: decisions.jsonl}
drain_delay: 0s
upstreams:
  a: {dialect: openai, base_url: %q, api_key: key-a, probe: {every: 1s}, fault_domains: {cloud: a}}
  b: {dialect: openai, base_url: %q, api_key: key-b, probe: {every: 1s}, fault_domains: {cloud: b}}
models:
  m:
    candidates:
      - {upstream: a, weight: 100, capabilities: [text, stream, tools]}
      - {upstream: b, weight: 50, capabilities: [text, stream, tools]}
breaker: {cooldown: 1s, cooldown_max: 2s, window: 5s}
health: {suspect_window: 3s, recovery_window: 4s, min_traffic: 10}
failback:
  advance: manual
  steps: [{share: 5, observe: 3s}, {share: 25, observe: 3s}, {share: 75, observe: 3s}, {share: 100}]
  min_requests: 20
  tolerance: {success: 0.2}
%s`, freePort(t), freePort(t), dir, a, b, more)
	yaml = strings.NewReplacer(replace...).Replace(yaml)
	path := filepath.Join(dir, "failback.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func startWard(t *testing.T, path string) *ward {
	t.Helper()
	return &ward{running: start(t, path), path: path}
}

// status is what `failback status --json` says.
func (w *ward) status(t *testing.T) *api.State {
	t.Helper()
	out, stderr, code := cli(t, w.dir, "status", "--json")
	var s api.State
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != 0 {
		t.Fatalf("status: exit %d, %v: %s", code, err, stderr)
	}
	return &s
}

func of(t *testing.T, s *api.State, name string) api.Upstream {
	t.Helper()
	i := slices.IndexFunc(s.Upstreams, func(u api.Upstream) bool { return u.Name == name })
	if i < 0 {
		t.Fatalf("no upstream %s", name)
	}
	return s.Upstreams[i]
}

// is waits until a is in a state at a share, and checks that metrics, events,
// decision log and `failback status` say the same.
func (w *ward) is(t *testing.T, state string, share int) api.Upstream {
	t.Helper()
	w.reaches(t, state, share)
	u := of(t, w.status(t), "a")
	if u.Health != state || u.Share != share || u.HealthReason == "" {
		t.Errorf("status says %s at %d%% (%q), not %s at %d%%", u.Health, u.Share, u.HealthReason, state, share)
	}
	text := w.scrape(t)
	for _, s := range []string{api.Healthy, api.Suspect, api.Degraded, api.Recovering} {
		want := 0.0
		if s == state {
			want = 1
		}
		if got := sum(text, "failback_upstream_state", `provider="a"`, `state="`+s+`"`); got != want {
			t.Errorf("while %s failback_upstream_state of %s is %g", state, s, got)
		}
	}
	if got := sum(text, "failback_upstream_share_ratio", `provider="a"`); got != float64(share)/100 {
		t.Errorf("at %d%% failback_upstream_share_ratio is %g", share, got)
	}
	return u
}

// reaches waits until a is in a state at a share.
func (w *ward) reaches(t *testing.T, state string, share int) api.Upstream {
	t.Helper()
	var u api.Upstream
	reached := false
	defer func() {
		if !reached {
			w.explain(t, u)
		}
	}()
	until(t, fmt.Sprintf("a is %s at %d%%", state, share), func() bool {
		u = w.upstream(t, "a")
		reached = u.Health == state && u.Share == share
		return reached
	})
	return u
}

// explain logs what is known of u when a test gives up on it.
func (w *ward) explain(t *testing.T, u api.Upstream) {
	t.Helper()
	t.Logf("%s at %d%%: %s\nnext: %+v\nsignals: %+v\nevidence: %+v\nprobes: %+v\nbreakers: %+v\n%s",
		u.Health, u.Share, u.HealthReason, u.NextStep, u.Signals, u.Evidence, u.Probes, u.Breakers, w.stderr)
}

// passes waits until the evidence of the step in force passes and nothing else
// speaks against the next one.
func (w *ward) passes(t *testing.T, share int) {
	t.Helper()
	var u api.Upstream
	reached := false
	defer func() {
		if !reached {
			w.explain(t, u)
		}
	}()
	until(t, fmt.Sprintf("the step to %d%% passed", share), func() bool {
		u = w.upstream(t, "a")
		reached = u.Share == share && u.Evidence != nil && u.Evidence.Verdict == api.Pass && u.NextStep.BlockedBy == ""
		return reached
	})
}

// probed waits until recovery evidence is there.
func (w *ward) probed(t *testing.T) {
	t.Helper()
	until(t, "the probes of a pass", func() bool { return w.upstream(t, "a").NextStep.BlockedBy == "" })
}

// take has the command line take a step, which must be done.
func (w *ward) take(t *testing.T, args ...string) {
	t.Helper()
	if out, stderr, code := cli(t, w.dir, append([]string{"step", "a"}, args...)...); code != 0 {
		t.Fatalf("step a %v: exit %d: %s%s", args, code, out, stderr)
	}
}

// happened are the lines of the decision log of a kind, as "from>to reason by".
func (w *ward) happened(t *testing.T, kind string) []string {
	t.Helper()
	var l []string
	for _, e := range whole[api.Event](t, filepath.Join(w.dir, "decisions.jsonl")) {
		if e.Event == kind && e.Provider == "a" {
			l = append(l, fmt.Sprintf("%s>%s %s %s", e.From, e.To, e.Reason, e.By))
		}
	}
	return l
}

// load is steady traffic of many conversations over two ways of asking. What
// failed is counted, and told by refused.
type load struct {
	sent, failed atomic.Int64
	last         atomic.Pointer[string] // what the last failure was
	end          func()
}

func newLoad(t *testing.T, url string) *load {
	t.Helper()
	return newLoadOf(t, url, 40)
}

// newLoadOf is load of so many requests a second.
func newLoadOf(t *testing.T, url string, rate int) *load {
	t.Helper()
	l := &load{}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 20 * time.Second}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			wg.Go(func() {
				l.sent.Add(1)
				if why := converse(client, url, fmt.Sprintf("c%d", i%1000), i%2 == 0); why != "" {
					l.failed.Add(1)
					l.last.Store(&why)
				}
			})
		}
	})
	l.end = sync.OnceFunc(func() {
		close(done)
		wg.Wait()
		client.CloseIdleConnections()
	})
	t.Cleanup(l.end)
	return l
}

// none checks that no request failed so far.
func (l *load) none(t *testing.T, when string) {
	t.Helper()
	if n := l.failed.Swap(0); n > 0 {
		t.Errorf("%s %d of %d requests failed, the last with %s", when, n, l.sent.Load(), *l.last.Load())
	}
}

// converse sends one request; empty if it succeeded.
func converse(client *http.Client, url, user string, stream bool) string {
	body := fmt.Sprintf(`{"model":"m","stream":%t,"user":"%s","messages":[{"role":"user","content":"hi"}]}`, stream, user)
	resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err.Error()
	case resp.StatusCode != http.StatusOK:
		return fmt.Sprintf("%d %s %s", resp.StatusCode, resp.Header.Get("Failback-Reason"), b)
	case stream && !strings.HasSuffix(string(b), "data: [DONE]\n\n"):
		return fmt.Sprintf("a torn stream: %q", b)
	}
	return ""
}
