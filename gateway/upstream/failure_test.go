package upstream

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
)

// certificate is a self-signed one for host, and the pool that trusts it.
func certificate(t testing.TB, host string, until time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true,
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

// secure makes a script of raw bytes one behind a TLS handshake.
func secure(cfg *tls.Config, script func(p *peer)) func(p *peer) {
	return func(p *peer) {
		c := tls.Server(p.Conn, cfg)
		if c.Handshake() != nil {
			return
		}
		defer c.Close()
		inner := *p
		inner.Conn = c
		inner.br.Reset(c)
		script(&inner)
	}
}

// overTLS is what makes Settings for a stub one for TLS to host.
func overTLS(s *stub, host string, roots *x509.CertPool) func(*Settings) {
	return func(set *Settings) {
		set.BaseURL.Scheme, set.BaseURL.Host = "https", host
		set.TLS = &tls.Config{RootCAs: roots}
		set.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, s.l.Addr().String())
		}
	}
}

// FOV-05: what fails before there is an answer has a class that says where.
func TestPathFailures(t *testing.T) {
	good, roots := certificate(t, "a.test", time.Now().Add(24*time.Hour))
	old, oldRoots := certificate(t, "a.test", time.Now().Add(-time.Hour))
	tlsOK := secure(&tls.Config{Certificates: []tls.Certificate{good}}, answers(reply(200, "", chatOK)))

	closed := loopback(t, func(*peer) {})
	_ = closed.l.Close()
	plain := loopback(t, func(p *peer) { p.send("HTTP/1.0 400 Bad Request\r\n\r\n"); p.waitGone() })
	trusted := loopback(t, tlsOK)
	expired := loopback(t, secure(&tls.Config{Certificates: []tls.Certificate{old}}, answers("")))
	oldTLS := loopback(t, secure(&tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}, answers("")))
	silent := loopback(t, func(p *peer) {})

	dialFails := func(err error) func(*Settings) {
		return func(s *Settings) {
			s.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, err }
		}
	}
	tests := []struct {
		name   string
		s      *stub
		change func(*Settings)
		class  decision.Class
		detail string
	}{
		{"refused", closed, nil, decision.Connect, "connection refused"},
		{"no such host", closed, dialFails(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "a.test", IsNotFound: true}}), decision.DNS, "no such host"},
		{"resolver silent", closed, dialFails(&net.DNSError{Err: "i/o timeout", Name: "a.test", IsTimeout: true}), decision.DNS, "name resolution timed out"},
		{"resolver broken", closed, dialFails(&net.DNSError{Err: "server misbehaving", Name: "a.test"}), decision.DNS, "the name could not be resolved"},
		{"own dialer fails", closed, dialFails(errors.New("SECRET123")), decision.Connect, "no connection"},
		{"unknown authority", trusted, overTLS(trusted, "a.test", x509.NewCertPool()), decision.TLS, "the certificate is signed by an unknown authority"},
		{"other host", trusted, overTLS(trusted, "b.test", roots), decision.TLS, "the certificate is for another host name"},
		{"expired", expired, overTLS(expired, "a.test", oldRoots), decision.TLS, "the certificate has expired or is not valid yet"},
		{"old TLS only", oldTLS, overTLS(oldTLS, "a.test", roots), decision.TLS, "TLS alert: protocol version not supported"},
		{"no TLS", plain, overTLS(plain, "a.test", roots), decision.TLS, "the server does not speak TLS"},
		{"closes in the handshake", silent, overTLS(silent, "a.test", roots), decision.TLS, "handshake failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := to(t, tt.s, tt.change)
			for _, stream := range []bool{false, true} {
				o, cl, _ := attempt(t, u, func(c *Call) { c.Stream = stream })
				wantClass(t, o, tt.class)
				if o.Detail != tt.detail {
					t.Errorf("detail %q, want %q", o.Detail, tt.detail)
				}
				if !o.Unprocessed || o.Status != 0 || cl.begins != 0 || !o.Class.Path() {
					t.Errorf("outcome %+v", o)
				}
			}
		})
	}
}

// The limits of dialling and of the handshake hold without any other.
func TestConnectingTakesAtMostSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hole := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		s := inMemory(t, func(p *peer) { p.waitGone() })
		u := to(t, s, func(set *Settings) { set.DialContext = hole })
		start := time.Now()
		o, _, _ := attempt(t, u, nil)
		wantClass(t, o, decision.Connect)
		if d := time.Since(start); d != dialTimeout || o.Detail != "timed out" {
			t.Errorf("%v, %q", d, o.Detail)
		}

		u = to(t, s, func(set *Settings) { set.BaseURL.Scheme = "https" })
		start = time.Now()
		o, _, _ = attempt(t, u, nil)
		wantClass(t, o, decision.TLS)
		if d := time.Since(start); d != handshakeTimeout || o.Detail != "handshake timed out" {
			t.Errorf("%v, %q", d, o.Detail)
		}
	})
}

// The connection breaks, or what comes is no HTTP.
func TestBrokenExchanges(t *testing.T) {
	tests := []struct {
		name   string
		script func(p *peer)
		class  decision.Class
		stream decision.Class // empty: the same
		status int
	}{
		{"closes without reading", func(p *peer) {}, decision.Reset, "", 0},
		{"closes after the request", func(p *peer) { p.next() }, decision.Reset, "", 0},
		{"resets after the request", func(p *peer) { p.next(); p.reset() }, decision.Reset, "", 0},
		{"cut in the status line", func(p *peer) { p.next(); p.send("HTTP/1.1 20") }, decision.Reset, "", 0},
		{"cut in the header", func(p *peer) { p.next(); p.send("HTTP/1.1 200 OK\r\nContent-Ty") }, decision.Reset, "", 0},
		{"no HTTP", func(p *peer) { p.next(); p.send("220 smtp ready\r\n\r\n") }, decision.BadResponse, "", 0},
		{"broken header", func(p *peer) { p.next(); p.send("HTTP/1.1 200 OK\r\nbad header\r\n\r\n") }, decision.BadResponse, "", 0},
		{"endless header", func(p *peer) {
			p.next()
			p.send("HTTP/1.1 200 OK\r\n")
			for range 300 {
				p.send("X-Fill: " + strings.Repeat("x", 1024) + "\r\n")
			}
			p.waitGone()
		}, decision.BadResponse, "", 0},
		{"endless interim answers", func(p *peer) {
			p.next()
			for range 3000 {
				p.send("HTTP/1.1 103 Early Hints\r\nLink: " + strings.Repeat("x", 200) + "\r\n\r\n")
			}
			p.waitGone()
		}, decision.BadResponse, "", 0},
		{"cut in the first chunk", func(p *peer) { p.next(); p.send(sse + "ff\r\ndata: {") }, decision.BadResponse, decision.Reset, 200},
		{"chunk sizes that are none", func(p *peer) { p.next(); p.send(sse + "zz\r\n") }, decision.BadResponse, decision.BadResponse, 200},
		{"less than its length", func(p *peer) {
			p.next()
			p.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n" + chatOK)
		}, decision.BadResponse, decision.BadResponse, 200},
		{"only its length", func(p *peer) {
			p.next()
			p.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n")
		}, decision.Reset, decision.Reset, 200},
		{"lengths that differ", func(p *peer) {
			p.next()
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{}x")
		}, decision.BadResponse, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := loopback(t, tt.script)
			u := to(t, s, nil)
			for _, stream := range []bool{false, true} {
				want := tt.class
				if stream && tt.stream != "" {
					want = tt.stream
				}
				o, cl, _ := attempt(t, u, func(c *Call) { c.Stream = stream })
				wantClass(t, o, want)
				if o.Status != tt.status || cl.begins != 0 {
					t.Errorf("status %d, begun %d times", o.Status, cl.begins)
				}
			}
			if got := len(s.got()); tt.name != "closes without reading" && got != 2 {
				t.Errorf("%d requests for 2 attempts", got)
			}
		})
	}
}

// STR-19: a reset after the header, before any output, is what a reset before
// it is.
func TestResetAfterTheHeader(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := inMemory(t, func(p *peer) {
				p.next()
				head := sse
				if !stream {
					head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"
				}
				p.send(head)
				synctest.Wait() // a reset throws away what was not read yet
				p.reset()
			})
			o, cl, _ := attempt(t, to(t, s, nil), func(c *Call) { c.Stream = stream })
			wantClass(t, o, decision.Reset)
			if o.Status != 200 || cl.begins != 0 || o.Unprocessed {
				t.Errorf("%+v", o)
			}
		})
	}
}

// Never resent, whatever net/http thinks of a connection it has used before.
func TestNothingIsSentTwice(t *testing.T) {
	s := loopback(t, func(p *peer) {
		p.next()
		p.send(reply(200, "", chatOK))
		p.next() // the second request on this connection
	})
	u := to(t, s, nil)
	header := func(c *Call) { c.Header.Set("Idempotency-Key", "x"); c.Header.Set("X-Idempotency-Key", "x") }
	o, _, _ := attempt(t, u, header)
	wantClass(t, o, decision.OK)
	o, _, _ = attempt(t, u, header)
	wantClass(t, o, decision.Reset)
	if o.Unprocessed {
		t.Error("the upstream had all of it")
	}
	if got := s.got(); len(got) != 2 || got[1].header.Get("Idempotency-Key") != "" {
		t.Errorf("%d requests", len(got))
	}
}

// A connection that the upstream had closed when it was taken from the pool,
// so that nothing of the request went out, is nobody's fault.
func TestIdleConnectionClosedMeanwhile(t *testing.T) {
	f := faultOf(io.EOF, true, false)
	if f.class != decision.Reset {
		t.Fatalf("%+v", f)
	}
	for _, tt := range []struct {
		sent   int64
		reused bool
		want   decision.Class
	}{
		{0, true, decision.Refused},
		{31, true, decision.Refused}, // the alert with which TLS says goodbye
		{400, true, decision.Reset},
		{0, false, decision.Reset},
	} {
		here, _ := net.Pipe()
		c := &conn{Conn: here}
		x := &exchange{c: &Call{}, v: &version{s: settings("a")}, parent: context.Background(), ctx: context.Background()}
		x.body.set([]byte("{}"), 0, 0, "")
		_, _ = x.body.Read(make([]byte, 8)) // buffered by net/http, not sent
		x.conn, x.reused = c, tt.reused
		c.out.Store(tt.sent)
		x.noAnswer(io.EOF)
		if x.out.Class != tt.want || x.out.Unprocessed != (tt.want == decision.Refused) {
			t.Errorf("%+v: %q, unprocessed %v", tt, x.out.Class, x.out.Unprocessed)
		}
	}
}

// CLS-04: what cannot be sent at all is our own fault, and nobody is asked.
func TestRequestThatCannotBeBuilt(t *testing.T) {
	s := loopback(t, answers(reply(200, "", chatOK)))
	for name, u := range map[string]*Upstream{
		"header": to(t, s, func(set *Settings) { set.Keys = []string{"SECRET123\n"} }),
		"scheme": to(t, s, func(set *Settings) { set.BaseURL.Scheme = "gopher" }),
		"host":   to(t, s, func(set *Settings) { set.BaseURL.Host = "" }),
	} {
		o, _, _ := attempt(t, u, nil)
		wantClass(t, o, decision.Internal)
		if !o.Unprocessed || o.Class.Blame() != decision.OfUs {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if made, _ := s.counts(); made != 0 {
		t.Errorf("%d connections", made)
	}
}

// SEC-01: no detail is an error's own text, which may hold a URL.
func TestDetailsAreOurWords(t *testing.T) {
	secret := errors.New(`Post "https://u:SECRET123@host/v1?key=SECRET123": boom`)
	for _, err := range []error{secret, &net.OpError{Op: "dial", Err: secret}, &net.OpError{Op: "read", Err: secret},
		&net.DNSError{Err: "SECRET123", Name: "SECRET123", Server: "SECRET123"}, &tls.CertificateVerificationError{Err: secret},
		x509.HostnameError{Host: "SECRET123", Certificate: &x509.Certificate{}},
	} {
		for _, connected := range []bool{false, true} {
			for _, https := range []bool{false, true} {
				if f := faultOf(err, connected, https); strings.Contains(f.detail, "SECRET123") || f.detail == "" {
					t.Errorf("%T: %q", err, f.detail)
				}
			}
		}
	}
}
