package api_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator"
	"failback/gateway/operator/api"
)

// serve runs a hand-made server on loopback and returns its address.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	return l.Addr().String()
}

func client(t *testing.T, target string, o api.Options) *api.Client {
	t.Helper()
	c, err := api.NewClient(target, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestTargets(t *testing.T) {
	for _, tc := range []struct {
		target string
		token  string
		says   string // of the error; empty: it is good
	}{
		{"unix:data/failback.sock", "", ""},
		{"unix:/run/failback.sock", "secret", ""},
		{"unix:///run/failback.sock", "secret", ""},
		{"http://127.0.0.1:9095", "secret", ""},
		{"http://localhost:9095/", "secret", ""},
		{"http://[::1]:9095", "secret", ""},
		{"http://gw.example:9095", "", ""},
		{"https://gw.example:9095/gateways/1", "secret", ""},
		{"http://gw.example:9095", "secret", "in clear to another host"},
		{"http://10.0.0.1:9095", "secret", "in clear to another host"},
		{"unix:", "", "names no path"},
		{"", "", "want unix:PATH"},
		{"127.0.0.1:9095", "", "want unix:PATH"},
		{"ftp://x", "", "want unix:PATH"},
		{"http://", "", "no host"},
		{"/run/failback.sock", "", "a socket is written unix:/run/failback.sock"},
		{"data/failback.sock", "", "a socket is written unix:data/failback.sock"},
		{"https://u:SECRET123@gw.example", "", "pass the token apart"},
		{"ftp://u:SECRET123@gw.example", "", "want unix:PATH"},
		{"https://gw.example/?key=SECRET123", "", "no query"},
		{"http://127.0.0.1:9095", "ana: secret", "pass the token itself"},
		{"http://127.0.0.1:9095", "secret\n", "pass the token itself"},
	} {
		_, err := api.NewClient(tc.target, api.Options{Token: tc.token})
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%q with %q: %v", tc.target, tc.token, err)
		}
		// SEC-01
		if err != nil && (strings.Contains(err.Error(), "SECRET123") || tc.token != "" && strings.Contains(err.Error(), tc.token)) {
			t.Errorf("%q: a secret is in %v", tc.target, err)
		}
	}
}

func TestSessionsAreRandom(t *testing.T) {
	if a, b := api.NewSession(), api.NewSession(); a == b || len(a) < 20 {
		t.Errorf("%q %q", a, b)
	}
}

// Who does not answer is named, with why and what to do.
func TestUnreachable(t *testing.T) {
	dir := t.TempDir()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	stale := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	html := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<h1>SECRET123</h1>")
	})
	proxy := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) })
	cut := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, `{"api`)
	})
	nonsense := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"upstreams":5}`)
	})
	for _, tc := range []struct{ target, says string }{
		{"unix:" + filepath.Join(dir, "none"), "there is no such socket"},
		{"unix:" + stale, "nobody listens on the socket"},
		{"http://" + gone.Addr().String(), "nobody listens there"},
		{"https://" + html, "it does not speak TLS"},
		{"http://" + html, `answered 200 as "text/html"`},
		{"http://" + proxy, "answered 502"},
		{"http://" + cut, "broke off"},
		{"http://" + nonsense, "may be of different versions"},
	} {
		_, err := client(t, tc.target, api.Options{Token: "fbk_TOKEN456"}).State(t.Context())
		u, ok := errors.AsType[*api.UnreachableError](err)
		if !ok || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), tc.target) || u.MayHaveHappened {
			t.Errorf("%s: %v", tc.target, err)
		}
		if strings.Contains(fmt.Sprint(err), "TOKEN456") || strings.Contains(fmt.Sprint(err), "SECRET123") || strings.Count(fmt.Sprint(err), tc.target) > 1 {
			t.Errorf("%s: %v", tc.target, err)
		}
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0); err == nil {
			_, err := client(t, "unix:"+stale, api.Options{}).State(t.Context())
			if err == nil || !strings.Contains(err.Error(), "you may not open the socket") {
				t.Errorf("%v", err)
			}
			os.Chmod(dir, 0o700)
		}
	}
}

func TestContextEnds(t *testing.T) {
	asked := make(chan struct{}, 2)
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) { asked <- struct{}{}; <-r.Context().Done() })
	c := client(t, "http://"+addr, api.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.State(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), addr) {
		t.Errorf("%v", err)
	}
	<-asked
	ctx, cancel = context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := c.State(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Of a command whose answer is lost nobody may say that it failed; of one that
// never left, that it may have happened.
func TestLostAnswerOfACommand(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	_, err := client(t, "http://"+addr, api.Options{}).SetShare(t.Context(), "a", api.Command{Share: new(0)})
	if u, ok := errors.AsType[*api.UnreachableError](err); !ok || !u.MayHaveHappened || !strings.Contains(err.Error(), "not known whether") {
		t.Errorf("%v", err)
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	_, err = client(t, "http://"+gone.Addr().String(), api.Options{}).Reload(t.Context(), api.Command{})
	if u, ok := errors.AsType[*api.UnreachableError](err); !ok || u.MayHaveHappened {
		t.Errorf("%v", err)
	}
}

// A redirect would carry the token elsewhere.
func TestRedirectsAreNotFollowed(t *testing.T) {
	followed := make(chan string, 1)
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { followed <- r.Header.Get("Authorization") })
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+other, http.StatusTemporaryRedirect)
	})
	_, err := client(t, "http://"+addr, api.Options{Token: "secret"}).State(t.Context())
	if _, ok := errors.AsType[*api.UnreachableError](err); !ok {
		t.Errorf("%v", err)
	}
	select {
	case auth := <-followed:
		t.Errorf("followed with %q", auth)
	default:
	}
}

func TestWhatIsSent(t *testing.T) {
	var got *http.Request
	var body []byte
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"message":"ok","at":"2026-01-02T03:04:05Z","new_field":1}`)
	})
	c := client(t, "http://"+addr+"/gateways/1/", api.Options{Token: "tok", Session: "s1", UserAgent: "failback/1.2"})
	rev := uint64(0)
	if _, err := c.SetShare(t.Context(), "a/b", api.Command{Share: new(0), Revision: &rev, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	if got.URL.EscapedPath() != "/gateways/1/operator/v1/upstreams/a%2Fb/share" || string(body) != `{"share":0,"revision":0,"reason":"x"}` ||
		got.Header.Get("Authorization") != "Bearer tok" || got.Header.Get(api.SessionHeader) != "s1" || got.UserAgent() != "failback/1.2" || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s %v", got.URL.EscapedPath(), body, got.Header)
	}
	// A gateway of an older version refuses a command with a field that it does not
	// know: a lowering goes to it as it knows them.
	for to, want := range map[int]string{5: `{"share":5}`, 25: `{"share":25}`, 75: `{"share":75,"from":25}`} {
		if _, err := c.SetShare(t.Context(), "a", api.Command{Share: &to, From: new(25)}); err != nil || string(body) != want {
			t.Errorf("25%% > %d%%: %s, %v", to, body, err)
		}
	}
	if v, said := got.Header[api.IdleHeader]; said {
		t.Errorf("idle for %v before anybody said so", v)
	}
	c.Active()
	if err := c.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got.Method != "DELETE" || got.URL.Path != "/gateways/1/operator/v1/session" || got.Header.Get(api.IdleHeader) != "0" {
		t.Errorf("%s %s %v", got.Method, got.URL.Path, got.Header)
	}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	if _, err := c.Decisions(t.Context(), api.Filter{Limit: 5, Task: "a&b", Status: "human", Provider: "p", RequestID: "r", Since: since}); err != nil {
		t.Fatal(err)
	}
	q := got.URL.Query()
	if q.Get("limit") != "5" || q.Get("task") != "a&b" || q.Get("status") != "human" || q.Get("provider") != "p" || q.Get("request_id") != "r" || q.Get("since") != "2026-01-02T03:04:05+01:00" {
		t.Errorf("%v", q)
	}
}

// What would not go to the thing that is named is not sent at all.
func TestWhatIsNotSent(t *testing.T) {
	sent := make(chan *http.Request, 10)
	take := func(_ http.ResponseWriter, r *http.Request) { sent <- r }
	addr, other := serve(t, take), serve(t, take)
	none := func(what string) {
		t.Helper()
		select {
		case r := <-sent:
			t.Errorf("%s: %s %s was sent, with %v", what, r.Method, r.URL.EscapedPath(), r.Header)
		default:
		}
	}
	c := client(t, "http://"+addr, api.Options{Token: "tok", Session: "s1"})
	for _, name := range []string{"", ".", ".."} {
		if _, err := c.SetShare(t.Context(), name, api.Command{Share: new(0)}); err == nil {
			t.Errorf("a command to %q", name)
		}
		if _, err := c.Incident(t.Context(), name); err == nil {
			t.Errorf("incident %q", name)
		}
		none(name)
	}
	if _, err := client(t, "http://"+addr, api.Options{ReadOnly: true}).Reload(t.Context(), api.Command{}); err == nil {
		t.Error("a command of a client that is read-only")
	}
	none("read-only")

	// Other APIs of the gateway get its token, and no other server does; nor is
	// asking them a console's presence.
	h := http.Client{Transport: c.Transport()}
	for _, u := range []string{"http://" + other + "/", "https://" + addr + "/"} {
		if res, err := h.Get(u); err == nil {
			res.Body.Close()
			t.Errorf("%s is asked", u)
		}
		none(u)
	}
	res, err := h.Get("http://" + addr + api.PrometheusPath)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if r := <-sent; r.Header.Get("Authorization") != "Bearer tok" || r.Header.Get(api.SessionHeader) != "" {
		t.Errorf("%v", r.Header)
	}
}

// certificate makes a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gw"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

type quietControl struct{ operator.Control }

func (quietControl) State(api.You) api.State { return api.State{Environment: "TEST"} }

// TLS with a CA of one's own, HTTP/2, a stream over it, and a stranger's CA.
func TestTLS(t *testing.T) {
	cert, pool := certificate(t)
	token, hash := operator.NewToken()
	s, err := operator.New(operator.Options{
		Listen: "127.0.0.1:0", TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, AuditPath: filepath.Join(t.TempDir(), "audit.jsonl"),
		Tokens:  func() []operator.Token { return []operator.Token{{Name: "ana", Role: api.RoleOperator, Hash: hash}} },
		Control: quietControl{}, Line: func(*decision.Decision) api.Decision { return api.Decision{} },
		EventLine: func(e decision.Event) api.Event { return api.Event{Event: string(e.Kind)} },
	})
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	c := client(t, "https://"+s.Addr(), api.Options{Token: token, CAs: pool})
	st, err := c.State(t.Context())
	if err != nil || st.You.Role != api.RoleOperator || st.Environment != "TEST" {
		t.Fatalf("%+v %v", st, err)
	}
	s.Event(decision.Event{Kind: decision.KindCredential})
	enough := errors.New("enough")
	err = c.Stream(t.Context(), 0, func(m api.Message) error {
		if m.Event != nil && m.Event.Event == string(decision.KindCredential) {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Get("https://" + s.Addr() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.ProtoMajor != 2 {
		t.Errorf("spoke %s", res.Proto)
	}
	_, err = client(t, "https://"+s.Addr(), api.Options{Token: token}).State(t.Context())
	if err == nil || !strings.Contains(err.Error(), "pass the CA's file") {
		t.Errorf("%v", err)
	}
	_, err = client(t, "http://"+s.Addr(), api.Options{Token: token}).State(t.Context())
	if _, ok := errors.AsType[*api.UnreachableError](err); !ok {
		t.Errorf("%v", err)
	}
}

// Frames of any size, line ends of any kind, unknown fields and kinds.
func TestStreamParsing(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, ": hi\n\nretry: 5\nevent: hello\r\ndata: {\"seq\":7}\r\n\r\n")
		io.WriteString(w, "event: something_new\nid: 8\ndata: {\"seq\":8,\ndata: \"detail\":\""+long+"\",\"new\":1}\n\n")
		io.WriteString(w, "event: dropped\ndata:{\"kind\":\"event\",\"count\":3}\n\nevent: empty\n\n")
		io.WriteString(w, "event: model_route_selected\ndata: {\"request_id\":\"r\"}\n\nevent: half\ndata: {}\n")
	})
	var got []string
	err := client(t, "http://"+addr, api.Options{}).Stream(t.Context(), 0, func(m api.Message) error {
		switch {
		case m.Heartbeat:
			got = append(got, "beat")
		case m.Hello != nil:
			got = append(got, fmt.Sprint("hello ", m.Hello.Seq))
		case m.Event != nil:
			got = append(got, fmt.Sprint("event ", m.Event.Seq, len(m.Event.Detail)))
		case m.Dropped != nil:
			got = append(got, fmt.Sprint("dropped ", m.Dropped.Count))
		case m.Decision != nil:
			got = append(got, "decision "+m.Decision.RequestID)
		}
		return nil
	})
	if s := strings.Join(got, ","); s != "beat,hello 7,event 8 300000,dropped 3,decision r" {
		t.Errorf("%s", s)
	}
	if _, ok := errors.AsType[*api.UnreachableError](err); !ok || !strings.Contains(err.Error(), "ended the stream") {
		t.Errorf("%v", err)
	}
}

func TestStreamRefusesNonsense(t *testing.T) {
	for body, says := range map[string]string{
		"event: hello\ndata: nonsense\n\n":        "may be of different versions",
		": " + strings.Repeat("x", 5<<20):         "is over",
		"event: hello\ndata: {\"seq\":\"x\"}\n\n": "not understood",
	} {
		addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, body)
		})
		err := client(t, "http://"+addr, api.Options{}).Stream(t.Context(), 0, func(api.Message) error { return nil })
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v", body, err)
		}
	}
}
