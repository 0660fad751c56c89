package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// fakeControl is a gateway with one upstream "a" whose share can be set, and
// hooks for what a test wants to happen instead.
type fakeControl struct {
	onShare func(ctx context.Context, who Actor, c api.Command) (api.Result, error)
	onState func()

	// mu guards everything that follows.
	mu        sync.Mutex
	share     int
	revision  uint64
	by        string
	health    string
	revisedBy string
	revisedAt time.Time
	calls     []string
}

func newFakeControl() *fakeControl {
	return &fakeControl{share: 25, revision: 7, health: api.Healthy}
}

func (f *fakeControl) upstream() api.Upstream {
	return api.Upstream{
		Name: "a", Share: f.share, Revision: f.revision, StateBy: f.by, Health: f.health, RevisedBy: f.revisedBy, RevisedAt: f.revisedAt,
		Breakers: []api.Breaker{{Bucket: "a:text", Capability: "text", State: "closed"}},
	}
}

func (f *fakeControl) State(api.You) api.State {
	if f.onState != nil {
		f.onState()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return api.State{Environment: "TEST", Upstreams: []api.Upstream{f.upstream()}}
}

func (f *fakeControl) called(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fakeControl) made() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

func (f *fakeControl) SetShare(ctx context.Context, who Actor, upstream string, c api.Command) (api.Result, error) {
	f.called("share %s by %s via %s", upstream, who.Name, who.Via)
	if f.onShare != nil {
		return f.onShare(ctx, who, c)
	}
	if upstream != "a" {
		return api.Result{}, &api.Error{Code: api.CodeNotFound, Message: "no such upstream"}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	up := f.upstream()
	switch {
	case c.Undo:
		c.Share = new(100)
	case c.Action != "":
		return api.Result{Message: c.Action, Upstream: &up}, nil
	case *c.Share > f.share && c.Revision == nil:
		return api.Result{}, &api.Error{Code: api.CodeInvalid, Message: "a revision is needed"}
	case *c.Share > f.share && *c.Revision != f.revision:
		return api.Result{}, &api.Error{Code: api.CodeStaleRevision, Message: "somebody was faster", Upstream: &up}
	case *c.Share > 75 && !c.Override:
		return api.Result{}, &api.Error{Code: api.CodeBlocked, Message: "the breaker is open", Upstream: &up}
	}
	f.share, f.by = *c.Share, who.Name
	f.revision++
	up = f.upstream()
	return api.Result{Message: fmt.Sprintf("share %d", f.share), Upstream: &up}, nil
}

func (f *fakeControl) SetState(_ context.Context, who Actor, upstream string, c api.Command) (api.Result, error) {
	f.called("state %s %s by %s", upstream, c.State, who.Name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.State == api.Recovering && !c.Override {
		up := f.upstream()
		return api.Result{}, &api.Error{Code: api.CodeBlocked, Message: "its probes fail", Upstream: &up}
	}
	f.health = c.State
	up := f.upstream()
	return api.Result{Message: c.State, Upstream: &up}, nil
}

func (f *fakeControl) SetBreaker(_ context.Context, who Actor, bucket string, c api.Command) (api.Result, error) {
	f.called("breaker %s %s for %s by %s", bucket, c.Action, c.For, who.Name)
	return api.Result{Message: "done"}, nil
}

func (f *fakeControl) Passthrough(_ context.Context, who Actor, c api.Command) (api.Result, error) {
	f.called("passthrough %s %v for %s by %s", c.Action, c.Order, c.For, who.Name)
	return api.Result{Message: "done"}, nil
}

func (f *fakeControl) Reload(_ context.Context, who Actor) (api.Result, error) {
	f.called("reload by %s", who.Name)
	return api.Result{Message: "done", Report: []api.ReloadItem{{Key: "retry.attempts", Result: "applied"}}}, nil
}

func (f *fakeControl) Incidents() api.Incidents {
	return api.Incidents{Incidents: []api.IncidentHead{{ID: "one", State: api.IncidentOpen}}, At: time.Now()}
}

func (f *fakeControl) Incident(id string) (api.Incident, error) {
	if id != "one" {
		return api.Incident{}, &api.Error{Code: api.CodeNotFound, Message: "no such incident"}
	}
	return api.Incident{IncidentHead: f.Incidents().Incidents[0], At: time.Now()}, nil
}

func (f *fakeControl) ChangeIncident(_ context.Context, who Actor, action, id string, c api.Command) (api.Result, error) {
	f.called("%s %q by %s: %s%s%s %d %s", action, id, who.Name, c.Reason, c.Question, c.Runbook, c.Step, c.Answer)
	if action == ActionIncidentOpen {
		id = "one"
	}
	in, err := f.Incident(id)
	if err != nil {
		return api.Result{}, err
	}
	if action == ActionIncidentClose && !c.Override {
		return api.Result{}, &api.Error{Code: api.CodeBlocked, Message: "unanswered: users"}
	}
	return api.Result{Message: "done", Incident: &in.IncidentHead}, nil
}

const (
	anaToken = "fbk_test_token_of_ana_the_operator_0000000000000"
	vicToken = "fbk_test_token_of_vic_the_viewer_000000000000000"
)

func testTokens() []Token {
	return []Token{
		{Name: "ana", Role: api.RoleOperator, Hash: HashToken(anaToken)},
		{Name: "vic", Role: api.RoleViewer, Hash: HashToken(vicToken)},
	}
}

func testLine(d *decision.Decision) api.Decision {
	return api.Decision{
		Event: string(decision.KindDecision), Time: d.Time, RequestID: d.RequestID, TaskType: d.Task,
		WorkflowStatus: string(d.Status), PrimaryProvider: d.Primary, SelectedProvider: d.Selected,
	}
}

func testEventLine(e decision.Event) api.Event {
	return api.Event{
		Event: string(e.Kind), Time: e.Time, Provider: e.Provider, Capability: string(e.Capability), From: e.From,
		To: e.To, Reason: e.Reason, Detail: e.Detail, By: e.By, Why: e.Why, Action: e.Action, Result: e.Result, Revision: e.Revision,
	}
}

// shortDir is a directory whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// testServer is a running server with all that a test asks of it.
type testServer struct {
	*Server
	control *fakeControl
	dir     string
	log     *testLog
}

type testLog struct {
	// mu guards everything that follows.
	mu    sync.Mutex
	lines []string
}

func (l *testLog) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, s)
}

func (l *testLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// start runs a server on a socket and on TCP; change may change its options.
func start(t *testing.T, change func(*Server)) *testServer {
	t.Helper()
	ts := &testServer{control: newFakeControl(), dir: shortDir(t), log: &testLog{}}
	s, err := New(Options{
		Socket: filepath.Join(ts.dir, "failback.sock"), Listen: "127.0.0.1:0",
		AuditPath: filepath.Join(ts.dir, "audit.jsonl"), Tokens: testTokens, Control: ts.control,
		Line: testLine, EventLine: testEventLine, Instance: "gw-1", Log: ts.log.add,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metric 1\n") }),
	})
	if err != nil {
		t.Fatal(err)
	}
	ts.Server = s
	if change != nil {
		change(s)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return ts
}

func (ts *testServer) socketPath() string { return ts.o.Socket }

// client is a client of target "tcp" or "unix".
func (ts *testServer) client(t *testing.T, over, token, session string) *api.Client {
	t.Helper()
	target := "unix:" + ts.socketPath()
	if over == "tcp" {
		target = "http://" + ts.Addr()
	}
	c, err := api.NewClient(target, api.Options{Token: token, Session: session})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (ts *testServer) ana(t *testing.T) *api.Client { return ts.client(t, "tcp", anaToken, "") }

// raw sends a request over TCP and returns status and body.
func (ts *testServer) raw(t *testing.T, method, path, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+ts.Addr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// auditLines reads the audit file; every line of it must be an entry.
func (ts *testServer) auditLines(t *testing.T) []api.AuditEntry {
	t.Helper()
	return readAudit(t, ts.o.AuditPath)
}

func readAudit(t *testing.T, path string) []api.AuditEntry {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var l []api.AuditEntry
	for line := range strings.Lines(string(b)) {
		var e api.AuditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("audit line %q: %v", line, err)
		}
		l = append(l, e)
	}
	return l
}

func apiError(t *testing.T, err error, status int, code string) *api.Error {
	t.Helper()
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.HTTPStatus != status || e.Code != code {
		t.Fatalf("got %#v (%v), want %d %s", err, err, status, code)
	}
	return e
}

func TestStateOverBothListeners(t *testing.T) {
	ts := start(t, nil)
	for _, over := range []string{"tcp", "unix"} {
		st, err := ts.client(t, over, anaToken, "s1").State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.APIVersion != api.Version || st.You.Name != "ana" || st.You.Role != api.RoleOperator || st.You.ReadOnlyWhy != "" ||
			len(st.Upstreams) != 1 || st.At.IsZero() || len(st.Sessions) != 1 || !st.Sessions[0].You || st.Sessions[0].Instance != "gw-1" {
			t.Errorf("%s: %+v", over, st)
		}
	}
}

func TestStopEndsEverythingAndIsIdempotent(t *testing.T) {
	ts := start(t, nil)
	streamed := make(chan error, 1)
	hello := make(chan struct{})
	go func() {
		streamed <- ts.ana(t).Stream(context.Background(), 0, func(m api.Message) error {
			if m.Hello != nil {
				close(hello)
			}
			return nil
		})
	}()
	<-hello
	for range 2 {
		if err := ts.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := errors.AsType[*api.UnreachableError](<-streamed); !ok {
		t.Error("the stream did not end as unreachable")
	}
	if _, err := os.Lstat(ts.socketPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := net.Dial("tcp", ts.tcp.Addr().String()); err == nil {
		t.Error("TCP still listens")
	}
	ts.Decision(&decision.Decision{}) // must not fail
	ts.Event(decision.Event{})
	if err := ts.Start(); err == nil {
		t.Error("started again")
	}
}

func TestStopBeforeStart(t *testing.T) {
	s, err := New(Options{AuditPath: "x", Control: newFakeControl(), Line: testLine, EventLine: testEventLine})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A start that fails halfway leaves neither socket nor lock behind.
func TestFailedStartLeavesNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := shortDir(t)
	o := Options{
		Socket: filepath.Join(dir, "failback.sock"), Listen: taken.Addr().String(), AuditPath: filepath.Join(dir, "audit.jsonl"),
		Control: newFakeControl(), Line: testLine, EventLine: testEventLine,
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "operator.listen") {
		t.Fatalf("Start: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(o.Socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	o.Listen = ""
	if s, err = New(o); err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatalf("second start: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Who asks for an answer and does not read it holds nothing up for ever.
func TestAnswersAreBounded(t *testing.T) {
	ts := start(t, func(s *Server) { s.pace.answerTimeout = 300 * time.Millisecond })
	large := strings.Repeat("x", 64<<20)
	ts.o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, large) })
	c, err := net.Dial("tcp", ts.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := c.Read(make([]byte, 1)); err != nil { // it is being sent, and nobody reads on
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := ts.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// deadlines notes the write deadlines that are set on it.
type deadlines struct {
	http.ResponseWriter
	set []time.Time
}

func (d *deadlines) Header() http.Header         { return http.Header{} }
func (d *deadlines) WriteHeader(int)             {}
func (d *deadlines) Write(p []byte) (int, error) { return len(p), nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// The limit of one answer does not cut off the next on the same connection.
func TestLimitOfOneAnswer(t *testing.T) {
	ts := start(t, nil)
	for _, path := range []string{"/operator/v1/state", "/metrics"} {
		r, err := http.NewRequest("GET", path, nil)
		if err != nil {
			t.Fatal(err)
		}
		var d deadlines
		ts.ServeHTTP(&d, r)
		if len(d.set) != 2 || !d.set[0].IsZero() || time.Until(d.set[1]) < 20*time.Second {
			t.Errorf("%s: %v", path, d.set)
		}
	}
}

func TestNewRefusesWhatItCannotServe(t *testing.T) {
	good := Options{AuditPath: "x", Control: newFakeControl(), Line: testLine, EventLine: testEventLine}
	for name, spoil := range map[string]func(*Options){
		"Control":   func(o *Options) { o.Control = nil },
		"AuditPath": func(o *Options) { o.AuditPath = "" },
		"Line":      func(o *Options) { o.Line = nil },
		"EventLine": func(o *Options) { o.EventLine = nil },
	} {
		o := good
		spoil(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestHTTPTextsAreLoggedSparingly(t *testing.T) {
	ts := start(t, nil)
	for range 100 {
		fmt.Fprint(logWriter{ts.Server}, "http: TLS handshake error\n")
	}
	if n := strings.Count(ts.log.text(), "handshake"); n != 5 {
		t.Errorf("%d lines", n)
	}
}

func TestLimiter(t *testing.T) {
	l := limiter{burst: 2, every: time.Second}
	now := time.Now()
	for i, want := range []bool{true, true, false, false} {
		if _, ok := l.allow(now); ok != want {
			t.Errorf("%d: %v", i, ok)
		}
	}
	if n, ok := l.allow(now.Add(time.Second)); !ok || n != 2 {
		t.Errorf("after a second: %d %v", n, ok)
	}
}
