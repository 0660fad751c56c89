package dependency

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// names is a resolver of what it holds; every other name does not exist.
type names map[string][]string

func (n names) LookupHost(_ context.Context, host string) ([]string, error) {
	if a, ok := n[host]; ok {
		return a, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// certificate makes a certificate for 127.0.0.1 that ends at notAfter, and
// trusts it.
func certificate(t *testing.T, name string, notAfter time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: notAfter.Add(-90 * 24 * time.Hour), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// accept serves one connection after another until the test ends.
func accept(t *testing.T, l net.Listener, serve func(net.Conn)) string {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// shows is a port that shows a certificate.
func shows(t *testing.T, c tls.Certificate) string {
	t.Helper()
	return accept(t, tls.NewListener(loopback(t), &tls.Config{Certificates: []tls.Certificate{c}}), func(c net.Conn) {
		_ = c.(*tls.Conn).Handshake() // how it ends is the client's to say
	})
}

func check(t *testing.T, o Options, c Check) Result {
	t.Helper()
	if o.Resolver == nil {
		o.Resolver = names{}
	}
	f := newChecker(o).check(t.Context(), c, &stats{})
	return Result{State: Unknown}.after(f, time.Now())
}

func expect(t *testing.T, got Result, state State, detail string) {
	t.Helper()
	if got.State != state || got.Detail != detail {
		t.Errorf("got %s %q, want %s %q", got.State, got.Detail, state, detail)
	}
}

func TestDNS(t *testing.T) {
	o := Options{Resolver: names{"one.example": {"192.0.2.1"}, "two.example": {"192.0.2.1", "2001:db8::1"}, "none.example": nil}}
	expect(t, check(t, o, Check{Kind: DNS, Target: "one.example"}), OK, "1 address")
	expect(t, check(t, o, Check{Kind: DNS, Target: "two.example"}), OK, "2 addresses")
	expect(t, check(t, o, Check{Kind: DNS, Target: "none.example"}), Failed, "the name has no address")
	expect(t, check(t, o, Check{Kind: DNS, Target: "gone.example"}), Failed, "the name does not resolve")
}

func TestTCP(t *testing.T) {
	open := accept(t, loopback(t), func(net.Conn) {})
	shut := loopback(t)
	_ = shut.Close()
	expect(t, check(t, Options{}, Check{Kind: TCP, Target: open}), OK, "it accepts connections")
	expect(t, check(t, Options{}, Check{Kind: TCP, Target: shut.Addr().String()}), Failed, "connection refused")
}

func TestTLS(t *testing.T) {
	const week = 7 * 24 * time.Hour
	margin := func() time.Duration { return week }
	now := time.Now()
	for _, tc := range []struct {
		name, host string
		notAfter   time.Time
		trusted    bool
		state      State
		detail     string
	}{
		{"lasting", "127.0.0.1", now.Add(30 * 24 * time.Hour), true, OK, "its certificate ends on " + day(now.Add(30*24*time.Hour))},
		{"within the margin", "127.0.0.1", now.Add(3*24*time.Hour + time.Hour), true, Failed, "its certificate ends on " + day(now.Add(3*24*time.Hour+time.Hour)) + ", in 3 days"},
		{"expired", "127.0.0.1", now.Add(-24 * time.Hour), true, Failed, "its certificate expired on " + day(now.Add(-24*time.Hour))},
		{"not trusted", "127.0.0.1", now.Add(30 * 24 * time.Hour), false, Failed, "its certificate is signed by an authority that is not trusted"},
		{"for another name", "other.example", now.Add(30 * 24 * time.Hour), true, Failed, "its certificate is for another name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cert, pool := certificate(t, tc.host, tc.notAfter)
			if !tc.trusted {
				pool = x509.NewCertPool()
			}
			got := check(t, Options{Roots: pool, Margin: margin}, Check{Kind: TLS, Target: shows(t, cert)})
			expect(t, got, tc.state, tc.detail)
			if !got.NotAfter.Equal(cert.Leaf.NotAfter) {
				t.Errorf("the end is %v, not %v", got.NotAfter, cert.Leaf.NotAfter)
			}
		})
	}
	mute := accept(t, loopback(t), func(net.Conn) {})
	got := check(t, Options{}, Check{Kind: TLS, Target: mute})
	if got.State != Failed || !got.NotAfter.IsZero() {
		t.Errorf("a port that hangs up: %+v", got)
	}
}

func TestHTTP(t *testing.T) {
	followed := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	t.Cleanup(elsewhere.Close)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/moved":
			http.Redirect(w, q, elsewhere.URL, http.StatusFound)
		case "/denied":
			w.WriteHeader(http.StatusForbidden)
		case "/down":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("s3cret"))
		}
	}))
	t.Cleanup(s.Close)
	expect(t, check(t, Options{}, Check{Kind: HTTP, Target: s.URL}), OK, "it answers 200")
	expect(t, check(t, Options{}, Check{Kind: HTTP, Target: s.URL + "/moved"}), OK, "it answers 302")
	expect(t, check(t, Options{}, Check{Kind: HTTP, Target: s.URL + "/denied"}), OK, "it answers 403")
	expect(t, check(t, Options{}, Check{Kind: HTTP, Target: s.URL + "/down?token=s3cret"}), Failed, "it answers 503")
	if followed {
		t.Error("a redirect was followed")
	}
	s.Close()
	expect(t, check(t, Options{}, Check{Kind: HTTP, Target: s.URL + "/x?token=s3cret"}), Failed, "connection refused")
}

func TestCheckEndsInTime(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }))
	t.Cleanup(s.Close)
	expect(t, check(t, Options{}, Check{Kind: HTTP, Target: s.URL, Every: 100 * time.Millisecond}), Failed, "no answer in time")
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	expect(t, check(t, Options{}, Check{Kind: File, Target: path}), Failed, "no such file or directory")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, check(t, Options{}, Check{Kind: File, Target: path, MaxAge: time.Hour}), OK, "written just now")
	old := time.Now().Add(-3 * time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	expect(t, check(t, Options{}, Check{Kind: File, Target: path, MaxAge: time.Hour}), Failed, "written 3 h ago, at most 60 min are allowed")
	expect(t, check(t, Options{}, Check{Kind: File, Target: path}), OK, "written 3 h ago")
	ahead := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, ahead, ahead); err != nil {
		t.Fatal(err)
	}
	expect(t, check(t, Options{}, Check{Kind: File, Target: path, MaxAge: time.Hour}), OK, "written just now")
}

// A mount that does not answer is asked once and not again.
func TestFileThatHangsIsAskedOnce(t *testing.T) {
	s := &stats{out: make(chan stat, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	out := s.out
	if f := s.check(ctx, "x", 0, time.Now()); f.err == nil || f.err.Error() != "no answer in time" {
		t.Errorf("got %v", f.err)
	}
	if s.out != out {
		t.Error("it is asked a second time while the first call is out")
	}
	out <- stat{err: os.ErrNotExist}
	if f := s.check(t.Context(), "x", 0, time.Now()); f.err == nil || f.err.Error() != "it is not there" {
		t.Errorf("got %v", f.err)
	}
	if s.out != nil {
		t.Error("the call came back and is still waited for")
	}
}

func TestCertificateOf(t *testing.T) {
	for base, want := range map[string]string{
		"https://api.example/v1":       "api.example:443",
		"https://api.example:8443":     "api.example:8443",
		"https://[2001:db8::1]:1/v1":   "[2001:db8::1]:1",
		"http://127.0.0.1:9/v1":        "",
		"https://api.example/v1?x=s3c": "api.example:443",
	} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		c, ok := CertificateOf("up", u)
		if ok != (want != "") || c.Target != want {
			t.Errorf("%s: %v %q", base, ok, c.Target)
		}
		if ok && (c.Name != "up" || c.Kind != TLS || c.Every != 24*time.Hour || strings.Contains(c.Target, "s3c")) {
			t.Errorf("%s: %+v", base, c)
		}
	}
	if _, ok := CertificateOf("up", nil); ok {
		t.Error("no URL has no certificate")
	}
}
