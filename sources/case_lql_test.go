package sources

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// The order is that of time over all streams, to the nanosecond; lines of one
// time of one stream stay as they were written, and backward is the reverse.
func TestLQL07Order(t *testing.T) {
	s := &lineStore{}
	for _, r := range []struct {
		ts     int64
		stream string
		line   string
	}{
		{1691766820435525603, "a", "1"}, {1691766820435525604, "b", "2"}, {1691766820435525605, "c", "3"},
		{1691766820435525606, "a", "4"}, {1691766820435525607, "c", "begin"}, {1691766820435525607, "c", "middle"}, {1691766820435525607, "c", "end"},
		{1691766820435525608, "b", "6"}, {1691766820435525609, "a", "7"},
	} {
		s.lines = append(s.lines, LogRow{TS: r.ts, Line: r.line, Labels: map[string]string{"s": r.stream}})
	}
	_, l := clients(t, serve(t, s.ServeHTTP))
	q := LogQuery{Query: "{}", Start: (LogRow{TS: 1691766820435525603}).Time(), End: (LogRow{TS: 1691766820435525610}).Time()}
	for forward, want := range map[bool]string{true: "1 2 3 4 begin middle end 6 7", false: "7 6 end middle begin 4 3 2 1"} {
		for _, limit := range []int{100, 2} {
			t.Run(fmt.Sprintf("LQL-07 forward=%t by %d", forward, limit), func(t *testing.T) {
				q.Forward, q.Limit = forward, limit
				var got []string
				pages, _ := readPages(t, l, q)
				for _, p := range pages {
					got = append(got, p...)
				}
				if s := strings.Join(got, " "); s != want {
					t.Errorf("got %s, want %s", s, want)
				}
			})
		}
	}
	// Seconds as a float would not tell them apart.
	a := l.Query(t.Context(), 1, LogQuery{Query: "{}", Start: q.Start.Add(1), End: q.Start.Add(2)})
	if a.Err != nil || len(a.Value.Rows) != 1 || a.Value.Rows[0].TS != 1691766820435525604 {
		t.Errorf("%+v, %v", a.Value, a.Err)
	}
}

// What refuses to answer is told with what to set; no secret is.
func TestLQL11Hints(t *testing.T) {
	plain := func(status int, typ, body string) http.HandlerFunc { return answers(status, typ, body) }
	secret := []string{"LOKI_USERNAME", "ana", "LOKI_PASSWORD", "hunter2secret"}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		tls     bool
		addr    func(url string) string
		env     []string
		kind    RemoteKind
		want    []string
	}{
		{name: "no org id", handler: plain(401, "text/plain", "no org id\n"), kind: RemoteUnauthorized,
			want: []string{"401: no org id", "several tenants", "sources.loki.tenant", "LOKI_ORG_ID"}},
		{name: "no org id, with credentials", handler: plain(401, "text/plain", "no org id\n"), env: secret, kind: RemoteUnauthorized,
			want: []string{"sources.loki.tenant", "LOKI_ORG_ID"}},
		{name: "401 basic, none sent", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="loki"`)
			w.WriteHeader(401)
		}, kind: RemoteUnauthorized, want: []string{"401 unauthorized", "wants credentials", "LOKI_USERNAME", "LOKI_PASSWORD", "LOKI_BEARER_TOKEN"}},
		{name: "401 basic, refused", handler: func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no: "+r.Header.Get("Authorization")+" hunter2secret", http.StatusUnauthorized)
		}, env: secret, kind: RemoteUnauthorized, want: []string{"the credentials are refused", "LOKI_PASSWORD"}},
		{name: "403", handler: plain(403, "text/plain", "forbidden"), env: secret, kind: RemoteUnauthorized, want: []string{"403: forbidden", "may not read this"}},
		{name: "407", handler: plain(407, "text/plain", ""), kind: RemoteUnauthorized, want: []string{"the proxy before it wants credentials"}},
		{name: "unknown authority", handler: plain(200, "application/json", streamsOf("[]")), tls: true, kind: RemoteTLS, want: []string{"signed by nobody known here", "LOKI_CA_CERT_PATH"}},
		{name: "plain HTTP on a TLS port", handler: plain(200, "application/json", streamsOf("[]")), tls: true,
			addr: func(u string) string { return strings.Replace(u, "https:", "http:", 1) }, kind: RemoteTLS, want: []string{"it speaks TLS", "https://"}},
		{name: "TLS on a plain port", handler: plain(200, "application/json", streamsOf("[]")),
			addr: func(u string) string { return strings.Replace(u, "http:", "https:", 1) }, kind: RemoteTLS, want: []string{"does not speak TLS", "http://"}},
		{name: "200 HTML log-in", handler: plain(200, "text/html; charset=utf-8", "<html>Sign in"), kind: RemoteStranger, want: []string{"answers text/html", "a log-in page before it?"}},
		{name: "302 to a log-in", handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://sso.example/?token=hunter2secret", http.StatusFound)
		}, kind: RemoteRedirect, want: []string{"302 redirects to https://sso.example", "not followed"}},
	} {
		t.Run("LQL-11 "+c.name, func(t *testing.T) {
			var s *httptest.Server
			if c.tls {
				s = httptest.NewTLSServer(c.handler)
			} else {
				s = httptest.NewServer(c.handler)
			}
			defer s.Close()
			addr := s.URL
			if c.addr != nil {
				addr = c.addr(addr)
			}
			_, l := clients(t, addr, c.env...)
			// By a question, and by a tail that is refused the same way.
			errs := map[string]error{"question": l.Query(t.Context(), 1, LogQuery{Query: "{}"}).Err}
			_, _, errs["tail"] = (&tail{l: l.(*lokiClient), q: LogQuery{Query: "{}"}}).dial(t.Context(), 0)
			for who, err := range errs {
				text := Why(err)
				if e, _ := errors.AsType[*RemoteError](err); e == nil || e.Kind != c.kind {
					t.Errorf("%s: %v", who, err)
					continue
				} else if strings.Contains(text+e.Message, "hunter2secret") || strings.Contains(text+e.Message, "Basic YW5h") {
					t.Errorf("%s: a secret is in %q", who, text)
				}
				for _, w := range c.want {
					if !strings.Contains(text, w) {
						t.Errorf("%s: no %q in %q", who, w, text)
					}
				}
			}
		})
	}
}

// A proxy that knows no websocket refuses the tail alone; the questions go
// through it as before.
func TestLQL05ProxyWithoutWebsocket(t *testing.T) {
	s := &lineStore{}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" || r.URL.Path == "/loki/api/v1/tail" {
			http.Error(w, "upgrade is not supported", http.StatusNotImplemented)
			return
		}
		s.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	_, l := clients(t, "http://loki.example:3100", "LOKI_HTTP_PROXY_URL", proxy.URL)
	f := followTail(t, l, LogQuery{Query: "{}"})
	f.until("polls", func(_ []string, s TailState) bool {
		return s.Mode == TailPolling && strings.Contains(s.Why, "501: upgrade is not supported")
	})
}

// A server that is not there is told, tried again, and followed when it is.
func TestTailWaitsForAServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.sock")
	gw, err := api.NewClient("unix:"+path, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer gw.Close()
	_, l, err := Connect(gw, api.Sources{}, environment())
	if err != nil {
		t.Fatal(err)
	}
	f := followTail(t, l, LogQuery{Query: "{}"})
	f.until("reconnecting", func(_ []string, s TailState) bool {
		return s.Mode == TailReconnecting && strings.Contains(s.Why, "the gateway's socket is not there")
	})
	s := &tailServer{tail: answers(404, "text/plain", "404 page not found")}
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(ln) }()
	defer server.Close()
	f.until("there", func(_ []string, s TailState) bool { return s.Mode == TailPolling })
}
