package sources

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/operator/api"
)

// environment is an Env of a few variables.
func environment(pairs ...string) Env {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// clients returns clients of one server that is both.
func clients(t *testing.T, addr string, env ...string) (Metrics, Logs) {
	t.Helper()
	m, l, err := Connect(nil, api.Sources{
		Prometheus: api.Source{URL: addr, Selector: `job="failback"`, EverySeconds: 15},
		Loki:       api.Source{URL: addr, Selector: DefaultStreams},
	}, environment(env...))
	if err != nil {
		t.Fatal(err)
	}
	return m, l
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// both asks one question of each client.
func both(ctx context.Context, m Metrics, l Logs) map[string]error {
	return map[string]error{
		"Prometheus":          m.Overview(ctx, 1).Err,
		"Prometheus, query":   asks(ctx, m, "up"),
		"Prometheus, history": m.History(ctx, 1, nil).Err,
		"Loki":                l.Query(ctx, 1, LogQuery{Query: DefaultStreams}).Err,
	}
}

// refused checks that every question fails as kind, with a text that holds
// want, and that no text holds a secret.
func refused(t *testing.T, errs map[string]error, kind RemoteKind, want ...string) {
	t.Helper()
	for who, err := range errs {
		e, ok := errors.AsType[*RemoteError](err)
		if !ok {
			t.Errorf("%s: %v is no RemoteError", who, err)
			continue
		}
		text := Why(fmt.Errorf("asked: %w", err))
		if e.Kind != kind {
			t.Errorf("%s: kind %d, want %d: %s", who, e.Kind, kind, text)
		}
		for _, w := range want {
			source, _, _ := strings.Cut(who, ",")
			w = strings.NewReplacer("SOURCE", source, "PREFIX", strings.ToUpper(source)).Replace(w)
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q does not say %q", who, text, w)
			}
		}
		if strings.ContainsAny(text, "\n\r\t\x1b") || len(text) > 600 {
			t.Errorf("%s: no short line: %q", who, text)
		}
		for _, secret := range []string{"hunter2", "Bearer", "Basic", "@"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s: %q holds %q", who, text, secret)
			}
		}
	}
}

func answers(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestWrongAnswers(t *testing.T) {
	const jsonType = "application/json"
	const page = "<html><title>Sign in</title></html>"
	tests := []struct {
		name    string
		handler http.HandlerFunc
		kind    RemoteKind
		want    []string
	}{
		{"500 with text", answers(500, "text/plain", "too many outstanding requests\n"), RemoteFailed, []string{"500: too many outstanding requests"}},
		{"503 with JSON", answers(503, jsonType, `{"status":"error","errorType":"unavailable","error":"TSDB not ready"}`), RemoteFailed, []string{"503: TSDB not ready"}},
		{"503 with nothing", answers(503, "", ""), RemoteFailed, []string{"503 service unavailable"}},
		{"502 of a proxy", answers(502, "text/html", page), RemoteFailed, []string{"502 bad gateway", "a proxy before it?"}},
		{"429", answers(429, "text/plain", "too many requests"), RemoteFailed, []string{"429: too many requests"}},
		{"501", answers(501, "text/plain", "not here"), RemoteFailed, []string{"501: not here"}},
		{"400 with text", answers(400, "text/plain", "parse error at line 1, col 25:\nsyntax error"), RemoteQuery, []string{"400: parse error at line 1, col 25: syntax error"}},
		{"422 with JSON", answers(422, jsonType, `{"status":"error","errorType":"execution","error":"query timed out"}`), RemoteQuery, []string{"422: query timed out"}},
		{"405", answers(405, "text/plain", ""), RemoteQuery, []string{"405 method not allowed"}},
		{"404 of a path that is not there", answers(404, "text/plain", "404 page not found\n"), RemoteStranger, []string{"404: no SOURCE under this path: check http://127.0.0.1"}},
		{"404 of a site", answers(404, "text/html", page), RemoteStranger, []string{"404: no SOURCE under this path"}},
		{"404 with a message of its own", answers(404, "text/plain", "no such tenant"), RemoteQuery, []string{"404: no such tenant"}},
		{"401", answers(401, "text/plain", ""), RemoteUnauthorized, []string{"401 unauthorized: wants credentials: set PREFIX_USERNAME"}},
		{"401 of a tenant", answers(401, "text/plain", "no org id\n"), RemoteUnauthorized, []string{"401: no org id: it serves several tenants: set sources.", ".tenant, or PREFIX_ORG_ID"}},
		{"403", answers(403, "text/html", page), RemoteUnauthorized, []string{"403 forbidden: wants credentials"}},
		{"empty", answers(200, jsonType, ""), RemoteStranger, []string{"200 with an empty answer: is this a SOURCE?"}},
		{"204", answers(204, "", ""), RemoteStranger, []string{"204 with an empty answer"}},
		{"HTML", answers(200, "text/html; charset=utf-8", page), RemoteStranger, []string{"answers text/html: is this a SOURCE, or a log-in page before it?"}},
		{"HTML that says it is JSON", answers(200, jsonType, "\n"+page), RemoteStranger, []string{"answers text/html"}},
		{"text", answers(200, "text/plain", "hello\x1b[2J"), RemoteStranger, []string{"answers text/plain that is no JSON"}},
		{"truncated JSON", answers(200, jsonType, `{"status":"success","data":{"resultType":"vec`), RemoteBroken, []string{"ends in the middle of its JSON, after 45 B"}},
		{"a connection that ends", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"status":`)
		}, RemoteBroken, []string{"the answer broke off after 10 B"}},
		{"a connection that is cut before the answer", func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, RemoteBroken, []string{"closed the connection without an answer"}},
		{"no data", answers(200, jsonType, `{}`), RemoteShape, []string{"is this a SOURCE?"}},
		{"null", answers(200, jsonType, `null`), RemoteShape, nil},
		{"a list", answers(200, jsonType, `[]`), RemoteShape, []string{"not understood"}},
		{"an unknown result type", answers(200, jsonType, `{"status":"success","data":{"resultType":"table","result":[]}}`), RemoteShape, []string{"table"}},
		{"a string", answers(200, jsonType, `{"status":"success","data":{"resultType":"string","result":[1,"x"]}}`), RemoteShape, nil},
		{"a value that is no number", answers(200, jsonType, `{"status":"success","data":{"resultType":"scalar","result":[1,"many"]}}`), RemoteShape, []string{"not understood"}},
		{"huge", huge, RemoteTooLarge, []string{"the answer is over 16.8 MB"}},
		{"a huge error", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(500)
			huge(w, r)
		}, RemoteFailed, []string{"500: [["}},
		{"credentials that come back", func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "refused: "+r.Header.Get("Authorization"), 500)
		}, RemoteFailed, []string{"500: refused:"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(tt.handler)
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.Start()
			defer s.Close()
			m, l := clients(t, s.URL)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			refused(t, both(ctx, m, l), tt.kind, tt.want...)
		})
	}
}

// huge writes 20 MiB of what may yet become JSON.
func huge(w http.ResponseWriter, _ *http.Request) {
	chunk := []byte(strings.Repeat("[", 1<<20))
	for range 20 {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// A server that repeats the credentials in its error does not get them onto a
// screen.
func TestSecretsAreTakenOut(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		http.Error(w, fmt.Sprintf("denied: %s %s %s", user, pass, strings.TrimPrefix(r.Header.Get("Authorization"), "Basic ")), http.StatusUnauthorized)
	})
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("ana", "hunter2")
	m, l := clients(t, u.String())
	refused(t, both(t.Context(), m, l), RemoteUnauthorized, "401: denied: ana xxxxx xxxxx", "the credentials are refused: check PREFIX_USERNAME")
	for _, addr := range []string{m.Addr(), l.Addr()} {
		if addr != base {
			t.Errorf("address %s, want %s", addr, base)
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var followed atomic.Int32
	elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) {
		followed.Add(1)
		answers(200, "application/json", `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)(w, r)
	})
	for _, status := range []int{301, 302, 307, 308} {
		base := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, strings.Replace(elsewhere, "http://", "http://ana:hunter2@", 1)+"/login?token=hunter2", status)
		})
		m, l := clients(t, base, "LOKI_BEARER_TOKEN", "hunter2", "PROMETHEUS_BEARER_TOKEN", "hunter2")
		refused(t, both(t.Context(), m, l), RemoteRedirect, fmt.Sprintf("%d redirects to %s, which is not followed", status, elsewhere))
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	m, logs := clients(t, "http://ana:hunter2@"+addr)
	refused(t, both(t.Context(), m, logs), RemoteUnreachable, "connection refused by "+addr)

	m, logs = clients(t, "http://ana:hunter2@prometheus.invalid")
	for who, err := range both(t.Context(), m, logs) {
		if e, ok := errors.AsType[*RemoteError](err); !ok || e.Kind != RemoteUnreachable && e.Kind != RemoteTimeout || strings.Contains(Why(err), "hunter2") {
			t.Errorf("%s: %v", who, err)
		}
	}
}

func TestTLSFailures(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	ok := answers(200, "application/json", `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)
	s := httptest.NewUnstartedServer(ok)
	s.Config.ErrorLog = quiet
	s.StartTLS()
	defer s.Close()

	m, l := clients(t, s.URL)
	refused(t, both(t.Context(), m, l), RemoteTLS, "TLS: its certificate is signed by nobody known here: set PREFIX_CA_CERT_PATH")

	ca := filepath.Join(t.TempDir(), "ca.pem")
	writePEM(t, ca, s.Certificate().Raw)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	m, l = clients(t, "https://localhost:"+port, "LOKI_CA_CERT_PATH", ca, "PROMETHEUS_CA_CERT_PATH", ca)
	refused(t, both(t.Context(), m, l), RemoteTLS, "TLS: its certificate is for another name than localhost")

	m, _ = clients(t, s.URL, "LOKI_CA_CERT_PATH", ca, "PROMETHEUS_CA_CERT_PATH", ca)
	if err := asks(t.Context(), m, "time()"); err != nil {
		t.Errorf("with the CA's file: %v", err)
	}
	m, l = clients(t, s.URL, "LOKI_TLS_SKIP_VERIFY", "true", "PROMETHEUS_TLS_SKIP_VERIFY", "1")
	if a := l.Query(t.Context(), 1, LogQuery{Query: "1", Instant: true}); a.Err != nil {
		t.Errorf("without verification: %v", a.Err)
	}
	if err := asks(t.Context(), m, "time()"); err != nil {
		t.Errorf("without verification: %v", err)
	}

	missing := filepath.Join(t.TempDir(), "none.pem")
	m, l = clients(t, s.URL, "LOKI_CA_CERT_PATH", missing, "PROMETHEUS_CA_CERT_PATH", missing)
	refused(t, both(t.Context(), m, l), RemoteSetup, "PREFIX_CA_CERT_PATH", "no such file")

	m, l = clients(t, strings.Replace(s.URL, "https:", "http:", 1))
	refused(t, both(t.Context(), m, l), RemoteTLS, "it speaks TLS: write https:// in its URL")

	plain := httptest.NewUnstartedServer(ok)
	plain.Config.ErrorLog = quiet
	plain.Start()
	defer plain.Close()
	m, l = clients(t, strings.Replace(plain.URL, "http:", "https:", 1))
	refused(t, both(t.Context(), m, l), RemoteTLS, "it does not speak TLS: write http:// in its URL")
}

// hanging is a gateway that never answers.
type hanging struct{}

func (hanging) BaseURL() string              { return "http://failback" }
func (hanging) Transport() http.RoundTripper { return hanging{} }

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A server that hangs is waited for as long as the time limit says, or the
// caller's context lasts, and no longer.
func TestTimeLimits(t *testing.T) {
	tests := []struct {
		name  string
		ask   func(context.Context, Metrics, Logs) error
		limit time.Duration
	}{
		{"overview", func(ctx context.Context, m Metrics, _ Logs) error { return m.Overview(ctx, 1).Err }, MetricsTimeout},
		{"history", func(ctx context.Context, m Metrics, _ Logs) error { return m.History(ctx, 1, nil).Err }, MetricsTimeout},
		{"query", func(ctx context.Context, m Metrics, _ Logs) error { return asks(ctx, m, "up") }, MetricsTimeout},
		{"logs", func(ctx context.Context, _ Metrics, l Logs) error {
			return l.Query(ctx, 1, LogQuery{Query: DefaultStreams, Unparsed: "1"}).Err
		}, LogsTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, l, err := Connect(hanging{}, api.Sources{}, environment())
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				asked := tt.ask(t.Context(), m, l)
				if took := time.Since(begun); took != tt.limit {
					t.Errorf("took %s, want %s", took, tt.limit)
				}
				refused(t, map[string]error{"Loki": asked}, RemoteTimeout, "no answer within "+tt.limit.String())

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				refused(t, map[string]error{"Loki": tt.ask(ctx, m, l)}, RemoteTimeout, "no answer within 1s")

				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				refused(t, map[string]error{"Loki": tt.ask(ctx, m, l)}, RemoteGivenUp, "given up")
			})
		})
	}
}

// An answer that begins and then hangs ends with the context too.
func TestAnswerThatStops(t *testing.T) {
	release := make(chan struct{})
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"success",`)
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	m, l := clients(t, base)
	for who, ask := range map[string]func(context.Context) error{
		"Prometheus": func(ctx context.Context) error { return m.Overview(ctx, 1).Err },
		"Loki":       func(ctx context.Context) error { return l.Query(ctx, 1, LogQuery{Query: "{}"}).Err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		refused(t, map[string]error{who: ask(ctx)}, RemoteTimeout, "no answer within")
		cancel()
	}
}

// The gateway's own store that is off is an answer, not a question.
func TestOwnStoreIsOff(t *testing.T) {
	off := api.Source{Error: "data_dir is read-only"}
	m, l, err := Connect(answering{503, `{"status":"error","errorType":"unavailable","error":"no store"}`}, api.Sources{Prometheus: off, Loki: off}, environment())
	if err != nil {
		t.Fatal(err)
	}
	refused(t, both(t.Context(), m, l), RemoteFailed, "the gateway's own is off: data_dir is read-only")
	m.Told(api.Source{})
	l.Told(api.Source{Error: "the index is damaged"})
	refused(t, map[string]error{"Prometheus": m.Overview(t.Context(), 1).Err}, RemoteFailed, "no store")
	refused(t, map[string]error{"Loki": l.Query(t.Context(), 1, LogQuery{Query: "{}"}).Err}, RemoteFailed, "the index is damaged")
}

// A log that lost lines is asked for those that it has.
func TestOwnLogThatLacksLinesAnswers(t *testing.T) {
	lost := api.Source{Error: "12 lines were dropped"}
	_, l, err := Connect(answering{200, `{"status":"success","data":{"resultType":"streams","result":[{"stream":{},"values":[["1","x"]]}]}}`}, api.Sources{Loki: lost}, environment())
	if err != nil {
		t.Fatal(err)
	}
	a := l.Query(t.Context(), 1, LogQuery{Query: DefaultStreams})
	if a.Err != nil || len(a.Value.Rows) != 1 || len(a.Value.Warnings) != 1 || a.Value.Warnings[0] != lost.Error {
		t.Errorf("%+v, %v", a.Value, a.Err)
	}
}

// answering is a gateway that answers everything so.
type answering struct {
	status int
	body   string
}

func (answering) BaseURL() string                { return "http://failback" }
func (a answering) Transport() http.RoundTripper { return a }

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

func writePEM(t *testing.T, path string, der []byte) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := pem.Encode(f, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		t.Fatal(err)
	}
}

// through is a gateway whose answers a test writes.
type through func(*http.Request) (*http.Response, error)

func (through) BaseURL() string                                     { return "http://failback" }
func (f through) Transport() http.RoundTripper                      { return f }
func (f through) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// endless is a body that counts what is read of it.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '['
	}
	e.read.Add(int64(len(b)))
	return len(b), nil
}

func (e *endless) Close() error { return nil }

// No more of an answer is read than is allowed.
func TestAnswersAreBounded(t *testing.T) {
	for status, limit := range map[int]int64{200: maxRemoteAnswer, 500: maxRemoteError} {
		var body *endless
		m, l, err := Connect(through(func(r *http.Request) (*http.Response, error) {
			body = &endless{}
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
		}), api.Sources{}, environment())
		if err != nil {
			t.Fatal(err)
		}
		for who, err := range map[string]error{"Prometheus": asks(t.Context(), m, "up"), "Loki": l.Query(t.Context(), 1, LogQuery{Query: "{}"}).Err} {
			if err == nil {
				t.Errorf("%s: an endless answer was taken", who)
			}
			if n := body.read.Load(); n > limit+1 {
				t.Errorf("%s: %d bytes of a %d were read, more than %d", who, n, status, limit)
			}
		}
	}
}

// Whoever writes the question: it goes to the one server, or nowhere.
func TestOneServerOnly(t *testing.T) {
	elsewhere := newRecorder(t)
	_, l := clients(t, "http://127.0.0.1:1", "LOKI_BEARER_TOKEN", "hunter2")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, elsewhere.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = l.(*lokiClient).do(req)
	refused(t, map[string]error{"Loki": err}, RemoteSetup, "a question to another host")
	if elsewhere.last() != nil {
		t.Error("another host was asked")
	}
}

// The count of lines that could not be parsed is not waited for when the
// answer itself failed.
func TestFailureDoesNotWaitForTheCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, err := Connect(through(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("query") == "errors" {
				return hanging{}.RoundTrip(r)
			}
			return &http.Response{StatusCode: 500, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("no")), Request: r}, nil
		}), api.Sources{}, environment())
		if err != nil {
			t.Fatal(err)
		}
		l.(*lokiClient).own = false
		begun := time.Now()
		err = l.Query(t.Context(), 1, LogQuery{Query: "{}", Unparsed: "errors"}).Err
		if took := time.Since(begun); took != 0 {
			t.Errorf("took %s", took)
		}
		refused(t, map[string]error{"Loki": err}, RemoteFailed, "500: no")
	})
}
