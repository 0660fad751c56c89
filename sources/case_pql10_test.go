package sources

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// byMethod returns a client of the server at addr that asks by a method.
func byMethod(t *testing.T, addr, method string, env ...string) Metrics {
	t.Helper()
	m, _, err := Connect(nil, api.Sources{
		Prometheus: api.Source{URL: addr, Selector: `job="failback"`, EverySeconds: 15, Method: method},
		Loki:       api.Source{URL: addr},
	}, environment(env...))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A proxy in front refuses POST, or loses its body, or shows its log-in page:
// get and auto get their numbers where GET passes, and what does not pass is
// said in words that name the way out.
func TestPQL10PostRefusedByAProxy(t *testing.T) {
	statusOf := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not allowed here", status) }
	}
	// lost is what a Prometheus answers whose form did not arrive.
	lost := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "bad_data",
			"error": `invalid parameter "query": unknown position: parse error: no expression found in input`})
	}
	// lostAsSuccess is the same from a proxy that turns all into a 200.
	lostAsSuccess := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "bad_data", "error": "parse error: empty time"})
	}
	login := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>please log in</html>"))
	}
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://sso.example/login?next=secret", http.StatusFound)
	}
	const page, goGet = "a log-in page", "sources.prometheus.method: get"
	tests := []struct {
		name      string
		post, get http.HandlerFunc // nil: the Prometheus answers
		// want of each method, empty: the numbers; else a part of the error.
		auto, byGet, byPost string
	}{
		{"403", statusOf(403), nil, "", "", goGet},
		{"405", statusOf(405), nil, "", "", goGet},
		{"501", statusOf(501), nil, "", "", goGet},
		{"the body is lost", lost, nil, "", "", goGet},
		{"the body is lost, 200", lostAsSuccess, nil, "", "", goGet},
		{"302 to a log-in page", redirect, nil, "", "", page},
		{"the log-in page itself", login, nil, "", "", page},
		{"GET is refused", nil, statusOf(405), "", "405", ""},
		{"both are refused", statusOf(403), statusOf(403), "403", "403", "403"},
		{"both redirect", redirect, redirect, page, page, page},
		{"both show a page", login, login, page, page, page},
	}
	long := "x" + strings.Repeat(" ", longestGet) // goes as POST in auto
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := healthyProm()
			f.results["x"] = vector("", "", 7)
			var (
				mu    sync.Mutex
				asked []string // guarded by mu
			)
			addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked = append(asked, r.Method)
				mu.Unlock()
				h := tt.get
				if r.Method == http.MethodPost {
					h = tt.post
				}
				if h == nil {
					h = f.ServeHTTP
				}
				h(w, r)
			})
			for method, want := range map[string]string{"auto": tt.auto, "": tt.auto, "get": tt.byGet, "post": tt.byPost} {
				m := byMethod(t, addr, method)
				asked = nil
				for name, err := range map[string]error{
					"overview": m.Overview(t.Context(), 1).Err, "long": asks(t.Context(), m, long),
				} {
					switch {
					case want == "" && err != nil:
						t.Errorf("method %q, %s: %v", method, name, err)
					case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
						t.Errorf("method %q, %s: %v, want %q", method, name, err, want)
					case err != nil && strings.Contains(err.Error(), "secret"):
						t.Errorf("method %q, %s: %v", method, name, err)
					}
				}
				for _, by := range asked {
					if method == "get" && by != http.MethodGet || method == "post" && by != http.MethodPost {
						t.Errorf("method %q: asked by %s", method, by)
					}
				}
			}
		})
	}
}

// A refusal is asked the other way once, not again and again.
func TestPQL10OnceMore(t *testing.T) {
	asked := ""
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked += r.Method + " "
		http.Error(w, "", http.StatusForbidden)
	})
	m := byMethod(t, addr, "auto")
	refused(t, map[string]error{"Prometheus": asks(t.Context(), m, "x")}, RemoteUnauthorized, "403")
	if asked != "GET POST " {
		t.Errorf("asked by %s", asked)
	}
}

// How long an answer is waited for, and whose numbers are asked for, is
// configured; the environment's tenant wins.
func TestPrometheusIsAskedAsConfigured(t *testing.T) {
	prom := newRecorder(t)
	src := api.Sources{Prometheus: api.Source{URL: prom.URL, TimeoutSeconds: 60, Tenant: "team", EverySeconds: 30}}
	client, every, err := Prometheus(nil, src, environment("PROMETHEUS_HEADERS", "X-Key: a,b=c:d\n\nX-Key: e\r\n"))
	if err != nil || every != 30*time.Second {
		t.Fatal(every, err)
	}
	if _, _, _, err := client.Query(t.Context(), "1", time.Now()); err != nil {
		t.Fatal(err)
	}
	h := prom.last().Header
	if h.Get("X-Scope-Orgid") != "team" || strings.Join(h.Values("X-Key"), "|") != "a,b=c:d|e" {
		t.Errorf("shown %v", h)
	}
	client, _, _ = Prometheus(nil, src, environment("PROMETHEUS_ORG_ID", "mine"))
	if _, _, _, err := client.Query(t.Context(), "1", time.Now()); err != nil || prom.last().Header.Get("X-Scope-Orgid") != "mine" {
		t.Errorf("shown %v, %v", prom.last().Header, err)
	}

	src.Prometheus.URL, src.Prometheus.TimeoutSeconds = serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), 0.05
	begun := time.Now()
	client, _, _ = Prometheus(nil, src, environment())
	_, _, _, err = client.Query(t.Context(), "1", time.Now())
	refused(t, map[string]error{"Prometheus": err}, RemoteTimeout, "no answer within")
	m, _, _ := Connect(nil, src, environment())
	refused(t, map[string]error{"Prometheus": m.Overview(t.Context(), 1).Err}, RemoteTimeout, "no answer within")
	if took := time.Since(begun); took < 100*time.Millisecond || took > MetricsTimeout {
		t.Errorf("two questions of 50ms took %s", took)
	}

	// The gateway's own is asked by none of it, and is no stranger's to show headers.
	own := newRecorder(t)
	client, every, err = Prometheus(own.client(t, "console-token"), api.Sources{Prometheus: api.Source{Tenant: "team"}}, environment("PROMETHEUS_HEADERS", "X-Key: hunter2"))
	if err != nil || every != 15*time.Second {
		t.Fatal(every, err)
	}
	if _, _, _, err := client.Query(t.Context(), "1", time.Now()); err != nil {
		t.Fatal(err)
	}
	if h := own.last().Header; h.Get("X-Key") != "" || h.Get("X-Scope-Orgid") != "" || own.last().URL.Path != api.PrometheusPath+"/api/v1/query" {
		t.Errorf("the gateway was shown %v at %s", h, own.last().URL)
	}
	if _, _, err := Prometheus(nil, api.Sources{}, environment()); err == nil {
		t.Error("nobody to ask, and no error")
	}
}

// A header that cannot be sent is refused before anything is asked, and without
// its value.
func TestWrongHeaders(t *testing.T) {
	for text, want := range map[string]string{
		"hunter2":                "line 1: want NAME: VALUE",
		"X-A: 1\nb c: hunter2":   "line 2: want NAME: VALUE",
		": hunter2":              "line 1: want",
		"Host: hunter2":          "Host cannot be set",
		"content-length: 2":      "Content-Length cannot be set",
		"X-A: hunter2\x01":       "X-A holds characters",
		"authorization: hunter2": "sets Authorization, and so do other credentials",
	} {
		_, _, err := Prometheus(nil, api.Sources{Prometheus: api.Source{URL: "http://prom"}}, environment("PROMETHEUS_HEADERS", text, "PROMETHEUS_BEARER_TOKEN", "x"))
		if err == nil || !strings.Contains(err.Error(), "PROMETHEUS_HEADERS") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	// Text that the server repeats is no way out for what it was shown.
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such key: "+r.Header.Get("X-Key"), http.StatusBadRequest)
	})
	m := byMethod(t, addr, "get", "PROMETHEUS_HEADERS", "X-Key: hunter2")
	if err := m.Overview(t.Context(), 1).Err; err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "xxxxx") {
		t.Errorf("error %v", err)
	}
}
