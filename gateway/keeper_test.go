package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/operator/api"
)

// keeper notes what a gateway does with its keeper.
type keeper struct {
	mu    sync.Mutex // guards everything that follows
	lines bytes.Buffer
	done  []string
	hold  chan struct{} // if set, lines are not taken until it is closed
	keep  gateway.Keep
}

func (k *keeper) note(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done = append(k.done, what)
}

func (k *keeper) Write(b []byte) (int, error) {
	if k.hold != nil {
		<-k.hold
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lines.Write(b)
}

func (k *keeper) has(text string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Contains(k.lines.String(), text)
}

func (k *keeper) Lines() io.Writer { return k }

func (k *keeper) Handler(path string) http.Handler {
	if path != api.PrometheusPath {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, r.FormValue("query"))
	})
}

func (k *keeper) Problem(path string) string {
	if path == api.LokiPath {
		return "the disk is full"
	}
	return ""
}

func (k *keeper) Dropped() uint64 { return 3 }

func (k *keeper) Run(ctx context.Context) error {
	k.note("run")
	<-ctx.Done()
	k.note("ended")
	return nil
}

func (k *keeper) Close(context.Context) error {
	k.note("closed")
	return nil
}

// The keeper gets every line although nobody reads the decision log and that is
// thinned, is served
// to who may look, and is closed last.
func TestKeeper(t *testing.T) {
	dir, err := os.MkdirTemp("", "fb") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, plainAnswer)
	}))
	defer provider.Close()
	token, hash := gateway.NewToken()
	full := fmt.Sprintf(`listen: 127.0.0.1:0
operator: {listen: "127.0.0.1:0", tokens: [{name: vic, role: viewer, hash: %q}]}
data_dir: %q
drain_delay: 0s
limit: {fallback_ratio: 0.02}
sources: {every: 5s}
telemetry: {sample: {primary_completed: 0}}
failback: {steps: [{share: 5, observe: 3m}, {share: 100}]}
upstreams: {a: {dialect: openai, base_url: %q, api_key: k}}
models: {m: {candidates: [{upstream: a, weight: 1}]}}
`, hash, dir, provider.URL+"/v1")
	stuck, stop := io.Pipe() // nobody reads
	defer stuck.Close()
	var k keeper
	g := gateway.New(gateway.Options{
		Load: func(ctx context.Context) (*config.Config, error) {
			return config.Load(ctx, config.Source{Data: []byte(full)})
		},
		Stdout: stop,
		Keeper: func(gateway.Keep) gateway.Keeper { return &k },
	})
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopped := sync.OnceFunc(func() {
		_ = stuck.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stopped)

	res, body := post(t, "http://"+g.ClientAddr()+"/v1/chat/completions", `{"model":"m","messages":[]}`, "X-Request-Id", "req-kept")
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	for end := time.Now().Add(10 * time.Second); !k.has(`"request_id":"req-kept"`); {
		if time.Now().After(end) {
			t.Fatal("the keeper has no line of the request")
		}
		runtime.Gosched()
	}

	if k.has(`"sample"`) {
		t.Error("a line says that it stands for others")
	}

	c, err := api.NewClient("unix:"+filepath.Join(dir, "failback.sock"), api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := api.Sources{
		Prometheus: api.Source{Selector: `job="failback"`, EverySeconds: 5},
		Loki:       api.Source{Selector: `{service_name="failback"}`, Error: "the disk is full"},
	}
	if s.Sources != want {
		t.Errorf("sources %+v, want %+v", s.Sources, want)
	}
	if s.Limit == nil || s.Limit.FallbackRatio != 0.02 {
		t.Errorf("limit %+v", s.Limit)
	}
	steps := []api.FailbackStep{{Share: 5, ObserveSeconds: 180}, {Share: 100}}
	if !slices.Equal(s.Failback.Steps, steps) {
		t.Errorf("steps %+v, want %+v", s.Failback.Steps, steps)
	}

	tcp := "http://" + g.OperatorAddr()
	for _, tt := range []struct {
		method, path, token string
		status              int
		body                string
	}{
		{"GET", "/prometheus/api/v1/query?query=up", token, 200, "GET /prometheus/api/v1/query up"},
		{"POST", "/prometheus/api/v1/query?query=up", token, 200, "POST /prometheus/api/v1/query up"},
		{"GET", "/prometheus/api/v1/query?query=up", "", 401, ""},
		{"GET", "/prometheus/api/v1/query?query=up", "wrong", 401, ""},
		{"GET", "/prometheus/", token, 404, ""},
		{"DELETE", "/prometheus/api/v1/query", token, 405, ""},
		{"GET", "/loki/api/v1/query", token, 404, `"code":"not_found"`},
	} {
		req, err := http.NewRequest(tt.method, tcp+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.token != "" {
			req.Header.Set("Authorization", "Bearer "+tt.token)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != tt.status || !strings.Contains(string(b), tt.body) {
			t.Errorf("%s %s with token %t: %d %s", tt.method, tt.path, tt.token != "", res.StatusCode, b)
		}
	}
	stopped()
	if got := k.done; !slices.Equal(got, []string{"run", "ended", "closed"}) {
		t.Errorf("the keeper did %v", got)
	}
}

// Lines that do not get to the keeper, and those that it does not keep, are
// counted, and told to it and at the end.
func TestKeeperThatTakesNoLines(t *testing.T) {
	dir, err := os.MkdirTemp("", "fb") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	full := fmt.Sprintf(`listen: 127.0.0.1:0
data_dir: %q
drain_delay: 0s
telemetry: {decision_log: none}
upstreams: {a: {dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: k}}
models: {m: {candidates: [{upstream: a, weight: 1}]}}
`, dir)
	k := keeper{hold: make(chan struct{})}
	var said lockedText
	g := gateway.New(gateway.Options{
		Load: func(ctx context.Context) (*config.Config, error) {
			return config.Load(ctx, config.Source{Data: []byte(full)})
		},
		Stdout: io.Discard, Log: said.add,
		Keeper: func(keep gateway.Keep) gateway.Keeper { k.keep = keep; return &k },
	})
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.Feed(20_000)
	lost := k.keep.Lost()
	if lost < 5_000 || lost > 20_000 {
		t.Errorf("%d of 20000 lines are lost", lost)
	}
	if got := g.Series()["failback_log_lines_dropped_total{}"]; got < float64(lost+k.Dropped()) {
		t.Errorf("%v lines are counted, %d are lost on the way and %d by the keeper", got, lost, k.Dropped())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = g.Stop(ctx)
	if !said.has("the log that is kept did not get all lines: ") {
		t.Errorf("at the end: %s", said.String())
	}
	close(k.hold)
}

type lockedText struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lockedText) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(s + "\n")
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lockedText) has(s string) bool { return strings.Contains(l.String(), s) }

// What is configured of servers is what consoles are told of them.
func TestConfiguredSources(t *testing.T) {
	dir, err := os.MkdirTemp("", "fb") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	full := fmt.Sprintf(`listen: 127.0.0.1:0
data_dir: %q
drain_delay: 0s
sources:
  prometheus: {url: "https://mimir.example/prometheus", selector: 'job="x"', method: get, timeout: 20s, tenant: team}
  loki: {url: "https://loki.example", timeout: 45s, tenant: crew}
upstreams: {a: {dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: k}}
models: {m: {candidates: [{upstream: a, weight: 1}]}}
`, dir)
	g := gateway.New(gateway.Options{
		Load: func(ctx context.Context) (*config.Config, error) {
			return config.Load(ctx, config.Source{Data: []byte(full)})
		},
		Stdout: io.Discard,
	})
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	c, err := api.NewClient("unix:"+filepath.Join(dir, "failback.sock"), api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := api.Sources{
		Prometheus: api.Source{URL: "https://mimir.example/prometheus", Selector: `job="x"`, EverySeconds: 15, Method: "get", TimeoutSeconds: 20, Tenant: "team"},
		Loki:       api.Source{URL: "https://loki.example", Selector: `{service_name="failback"}`, TimeoutSeconds: 45, Tenant: "crew"},
	}
	if s.Sources != want {
		t.Errorf("sources %+v, want %+v", s.Sources, want)
	}
}
