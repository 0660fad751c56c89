package outbound_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"failback/gateway/internal/outbound"
)

const secret = "s3cr3t-path"

// get makes one call as the gateway does and returns its status or cause.
func get(t *testing.T, o outbound.Options, url string, limit time.Duration) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := outbound.NewClient(o).Do(q)
	if err != nil {
		cause := outbound.Cause(err)
		if strings.Contains(cause, secret) || strings.Contains(cause, q.URL.Host) {
			t.Errorf("the cause %q says where the call went", cause)
		}
		return 0, cause
	}
	_ = a.Body.Close()
	return a.StatusCode, ""
}

func TestCausesOfRealFailures(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }))
	t.Cleanup(silent.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	hasty := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(hasty.Close)
	garbled := listen(t, func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 " + secret + "\r\n\r\n")) })
	closed := listen(t, nil)

	for _, tc := range []struct{ name, url, want string }{
		{"silence", silent.URL, "no answer in time"},
		{"unknown authority", secure.URL, "its certificate is signed by an authority that is not trusted"},
		{"no TLS", strings.Replace(plain.URL, "http:", "https:", 1), "it does not speak TLS"},
		{"hung up", hasty.URL, "the connection ends without an answer"},
		{"garbled", "http://" + garbled, "it does not answer as it should"},
		{"refused", "http://" + closed, "connection refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			limit := 30 * time.Second
			if tc.name == "silence" {
				limit = 100 * time.Millisecond
			}
			if _, got := get(t, outbound.Options{}, tc.url+"/"+secret, limit); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// listen serves one connection after another with serve; with nil nobody
// listens any more.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if serve == nil {
		_ = l.Close()
		return l.Addr().String()
	}
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

func TestCauses(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{&net.DNSError{Err: "x", Name: secret, IsNotFound: true}, "the name does not resolve"},
		{&net.DNSError{Err: "x", Name: secret, IsTimeout: true}, "the name server does not answer in time"},
		{&net.DNSError{Err: "x", Name: secret}, "the name server fails"},
		{fmt.Errorf("%s: %w", secret, context.Canceled), "broken off"},
		{fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), "no answer in time"},
		{&net.OpError{Op: "dial", Err: syscall.ENETUNREACH}, "network is unreachable"},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(40)}, "it refuses the TLS handshake"},
		{errors.New(secret), "it does not answer as it should"},
	} {
		if got := outbound.Cause(tc.err); got != tc.want {
			t.Errorf("%v: got %q, want %q", tc.err, got, tc.want)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	called := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	t.Cleanup(elsewhere.Close)
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	t.Cleanup(s.Close)
	if status, cause := get(t, outbound.Options{}, s.URL, 30*time.Second); status != http.StatusFound || cause != "" || called {
		t.Errorf("status %d, cause %q, followed %v", status, cause, called)
	}
}
