package sources

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"failback/gateway/operator/api"
)

// recorder is a server that keeps the headers it was shown.
type recorder struct {
	*httptest.Server

	mu   sync.Mutex
	seen []*http.Request // guarded by mu
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen = append(r.seen, req)
		r.mu.Unlock()
		answers(200, "application/json", `{"status":"success","data":{"resultType":"scalar","result":[1796003700,"1"]}}`)(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// last is the newest request; nil if there is none.
func (r *recorder) last() *http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		return nil
	}
	return r.seen[len(r.seen)-1]
}

func (r *recorder) client(t *testing.T, token string) *api.Client {
	c, err := api.NewClient(r.URL, api.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var everything = environment(
	"LOKI_USERNAME", "ana", "LOKI_PASSWORD", "hunter2", "LOKI_ORG_ID", "team", "LOKI_QUERY_TAGS", "source=failback", "LOKI_NO_CACHE", "true",
	"PROMETHEUS_BEARER_TOKEN", "hunter3", "PROMETHEUS_ORG_ID", "team")

func askBoth(t *testing.T, m Metrics, l Logs) {
	t.Helper()
	if err := asks(t.Context(), m, "time()"); err != nil {
		t.Fatalf("Prometheus: %v", err)
	}
	if a := l.Query(t.Context(), 8, LogQuery{Query: "1", Instant: true}); a.Err != nil || a.Gen != 8 {
		t.Fatalf("Loki: %v, generation %d", a.Err, a.Gen)
	}
}

// What the environment holds for a Loki and a Prometheus is not shown to the
// gateway, and the gateway's token not to them.
func TestCredentialsStayWhereTheyBelong(t *testing.T) {
	gateway, prom, loki := newRecorder(t), newRecorder(t), newRecorder(t)
	gw := gateway.client(t, "console-token")

	m, l, err := Connect(gw, api.Sources{}, everything)
	if err != nil {
		t.Fatal(err)
	}
	if m.Addr() != "" || l.Addr() != "" {
		t.Errorf("the gateway's own have the addresses %q and %q", m.Addr(), l.Addr())
	}
	askBoth(t, m, l)
	gateway.mu.Lock()
	paths := []string{}
	for _, r := range gateway.seen {
		paths = append(paths, r.URL.Path)
		if got := r.Header.Get("Authorization"); got != "Bearer console-token" {
			t.Errorf("the gateway was shown %q", got)
		}
		for _, h := range []string{"X-Scope-Orgid", "X-Query-Tags", "Cache-Control"} {
			if r.Header.Get(h) != "" {
				t.Errorf("the gateway was shown %s: %s", h, r.Header.Get(h))
			}
		}
	}
	gateway.seen = nil
	gateway.mu.Unlock()
	// It writes all of its lines itself: which ones cannot be parsed is not asked.
	if a := l.Query(t.Context(), 9, LogQuery{Query: "1", Instant: true, Unparsed: "2"}); a.Err != nil || a.Value.Unparsed != -1 {
		t.Errorf("%+v, %v", a.Value, a.Err)
	}
	gateway.mu.Lock()
	if n := len(gateway.seen); n != 1 {
		t.Errorf("%d questions to the gateway's own log, want 1", n)
	}
	gateway.seen = nil
	gateway.mu.Unlock()
	if got, want := strings.Join(paths, " "), "/prometheus/api/v1/query /prometheus/api/v1/query /loki/api/v1/query"; got != want {
		t.Errorf("asked %s, want %s", got, want)
	}

	m, l, err = Connect(gw, api.Sources{Prometheus: api.Source{URL: prom.URL + "/prom/"}, Loki: api.Source{URL: loki.URL}}, everything)
	if err != nil {
		t.Fatal(err)
	}
	askBoth(t, m, l)
	if gateway.last() != nil {
		t.Error("the gateway was asked, though servers are configured")
	}
	r := prom.last()
	if got := r.Header.Get("Authorization"); got != "Bearer hunter3" || r.URL.Path != "/prom/api/v1/query" || r.Header.Get("X-Scope-Orgid") != "team" {
		t.Errorf("Prometheus was shown %q at %s", got, r.URL.Path)
	}
	r = loki.last()
	user, pass, _ := r.BasicAuth()
	if user != "ana" || pass != "hunter2" || r.Header.Get("X-Scope-Orgid") != "team" || r.Header.Get("X-Query-Tags") != "source=failback" || r.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("Loki was shown %v", r.Header)
	}
	if m.Addr() != prom.URL+"/prom" || l.Addr() != loki.URL {
		t.Errorf("addresses %s and %s", m.Addr(), l.Addr())
	}
}

func TestLokiAddrNamesAnotherLoki(t *testing.T) {
	gateway, configured, named := newRecorder(t), newRecorder(t), newRecorder(t)
	_, l, err := Connect(gateway.client(t, ""), api.Sources{Loki: api.Source{URL: configured.URL}}, environment("LOKI_ADDR", named.URL, "LOKI_BEARER_TOKEN", "hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	if a := l.Query(t.Context(), 1, LogQuery{Query: "1", Instant: true}); a.Err != nil {
		t.Fatal(a.Err)
	}
	if configured.last() != nil || gateway.last() != nil || named.last().Header.Get("Authorization") != "Bearer hunter2" {
		t.Error("LOKI_ADDR was not asked, or not alone")
	}
}

func TestCredentialForms(t *testing.T) {
	s := newRecorder(t)
	token := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	query := LogQuery{Query: "1", Instant: true}
	_, l := clients(t, s.URL, "LOKI_BEARER_TOKEN_FILE", token, "LOKI_AUTH_HEADER", "X-Auth")
	refused(t, map[string]error{"Loki": l.Query(t.Context(), 1, query).Err}, RemoteSetup, "LOKI_BEARER_TOKEN_FILE", "no such file")
	for _, text := range []string{"one\n", "two"} { // rotated
		write(text)
		if a := l.Query(t.Context(), 1, query); a.Err != nil {
			t.Fatal(a.Err)
		}
		if got := s.last().Header.Get("X-Auth"); got != "Bearer "+strings.TrimSpace(text) || s.last().Header.Get("Authorization") != "" {
			t.Errorf("shown %q", got)
		}
	}
	for _, text := range []string{"", "\n", "two words", "a\nb"} {
		write(text)
		refused(t, map[string]error{"Loki": l.Query(t.Context(), 1, query).Err}, RemoteSetup, "holds no token")
	}

	_, l = clients(t, strings.Replace(s.URL, "http://", "http://url-user:url-pass@", 1), "LOKI_BEARER_TOKEN", "env-token")
	if a := l.Query(t.Context(), 1, query); a.Err != nil {
		t.Fatal(a.Err)
	}
	if user, pass, _ := s.last().BasicAuth(); user != "url-user" || pass != "url-pass" {
		t.Error("the URL's own user does not go before the environment's")
	}
}

// What is set wrongly is said once by Connect and again by each question; the
// other server is asked all the same.
func TestWrongSettings(t *testing.T) {
	good := newRecorder(t)
	tests := []struct {
		name string
		url  string
		env  []string
		want string
	}{
		{"no scheme", "loki:3100", nil, "its configured URL: want http://HOST:PORT or https://HOST:PORT"},
		{"no host", "http://", nil, "want http://HOST:PORT"},
		{"another scheme", "ftp://ana:hunter2@loki", nil, "want http://HOST:PORT"},
		{"not a URL", "http://ana:hunter2@[", nil, "want http://HOST:PORT"},
		{"a query", "http://ana:hunter2@loki?x=1", nil, "no query or fragment"},
		{"LOKI_ADDR", "", []string{"LOKI_ADDR", "hunter2"}, "LOKI_ADDR: want http://HOST:PORT"},
		{"two ways", "http://loki", []string{"LOKI_USERNAME", "ana", "LOKI_BEARER_TOKEN", "hunter2"}, "at most one of LOKI_USERNAME with LOKI_PASSWORD, LOKI_BEARER_TOKEN and LOKI_BEARER_TOKEN_FILE"},
		{"half a pair", "http://loki", []string{"LOKI_CLIENT_CERT_PATH", "x"}, "belong together"},
		{"no truth", "http://loki", []string{"LOKI_TLS_SKIP_VERIFY", "perhaps"}, `LOKI_TLS_SKIP_VERIFY="perhaps": want true or false`},
		{"a header that is none", "http://loki", []string{"LOKI_ORG_ID", "a\r\nX-Evil: 1"}, "LOKI_ORG_ID holds characters"},
		{"a proxy that is none", "http://loki", []string{"LOKI_HTTP_PROXY_URL", "hunter2"}, "LOKI_HTTP_PROXY_URL: want"},
		{"no gateway", "", nil, "no gateway"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, l, err := Connect(nil, api.Sources{Prometheus: api.Source{URL: good.URL}, Loki: api.Source{URL: tt.url}}, environment(tt.env...))
			if err == nil || !strings.HasPrefix(err.Error(), "loki: ") || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			refused(t, map[string]error{"Loki": l.Query(t.Context(), 1, LogQuery{Query: "{}"}).Err}, RemoteSetup, tt.want)
			if err := asks(t.Context(), m, "time()"); err != nil {
				t.Errorf("Prometheus is not asked: %v", err)
			}
			if l.Addr() != "" && strings.Contains(l.Addr(), "hunter2") {
				t.Errorf("address %s", l.Addr())
			}
		})
	}
	m, _, err := Connect(nil, api.Sources{Prometheus: api.Source{URL: "nowhere"}, Loki: api.Source{URL: good.URL}}, environment())
	if err == nil || !strings.HasPrefix(err.Error(), "prometheus: ") {
		t.Errorf("error %v", err)
	}
	refused(t, map[string]error{"Prometheus": m.Overview(t.Context(), 1).Err}, RemoteSetup, "want http://HOST:PORT")
}
