package memnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"failback/internal/bubble"
)

func TestConnCarriesBytesAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		big := strings.Repeat("x", 3*Window)
		go func() {
			if n, err := a.Write([]byte(big)); n != len(big) || err != nil {
				t.Errorf("Write = %d, %v", n, err)
			}
			_ = a.CloseWrite()
		}()
		got, err := io.ReadAll(b)
		if err != nil || string(got) != big {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
		// The other direction is still open.
		if _, err := b.Write([]byte("yes")); err != nil {
			t.Fatal(err)
		}
		_ = b.Close()
		if got, err := io.ReadAll(a); string(got) != "yes" || err != nil {
			t.Fatalf("read %q, %v", got, err)
		}
		if _, err := a.Write([]byte("x")); err == nil {
			t.Fatal("write after CloseWrite went through")
		}
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("read of a closed end: %v", err)
		}
	})
}

func TestWriteToClosedPeerAndReset(t *testing.T) {
	a, b := Pipe()
	_ = b.Close()
	if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Fatalf("write: %v", err)
	}
	a, b = Pipe()
	if _, err := a.Write([]byte("lost")); err != nil {
		t.Fatal(err)
	}
	a.Abort()
	if _, err := b.Read(make([]byte, 8)); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read: %v", err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("write: %v", err)
	}
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		start := time.Now()
		_ = a.SetReadDeadline(start.Add(3 * time.Second))
		_, err := a.Read(make([]byte, 1))
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read: %v", err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Fatalf("waited %v", d)
		}
		// Lifting the bound makes the end usable again.
		_ = a.SetReadDeadline(time.Time{})
		go func() { _, _ = b.Write([]byte("x")) }()
		if _, err := a.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		// A write blocks on the full window until its bound.
		_ = b.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := b.Write(make([]byte, Window+1)); n != Window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("write = %d, %v", n, err)
		}
		// A bound in the past wakes who already waits.
		go func() {
			bubble.Sleep(time.Second)
			_ = b.SetReadDeadline(time.Unix(1, 0))
		}()
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read: %v", err)
		}
	})
}

func TestNetworkRefusesAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Network
		ctx := context.Background()
		if _, err := n.DialContext(ctx, "tcp", "a.test:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial: %v", err)
		}
		l, err := n.Listen("a.test:80")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Listen("a.test:80"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatalf("listen twice: %v", err)
		}
		c, err := n.DialContext(ctx, "tcp", "a.test:80")
		if err != nil {
			t.Fatal(err)
		}
		if l.Open() != 1 || l.Dialed() != 1 {
			t.Fatalf("open %d, dialed %d", l.Open(), l.Dialed())
		}
		_ = c.Close()
		_ = c.Close()
		if l.Open() != 0 {
			t.Fatalf("open %d after close", l.Open())
		}
		// Never accepted: closing the listener resets it.
		c, err = n.DialContext(ctx, "tcp", "a.test:80")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		_ = l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("accept: %v", err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("read: %v", err)
		}
		_ = c.Close()
		if _, err := n.DialContext(ctx, "tcp", "a.test:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial after close: %v", err)
		}
		if _, err := n.Listen("a.test:80"); err != nil {
			t.Fatalf("listen again: %v", err)
		}
	})
}

func TestFullBacklogWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen("a.test:80")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for range backlog {
			if _, err := l.DialContext(ctx, "tcp", ""); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.DialContext(ctx, "tcp", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("dial: %v", err)
		}
		_ = l.Close()
	})
}

// The clock of a bubble must move while an HTTP exchange waits on both sides:
// that is what the package is for.
func TestHTTPInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen("a.test:80")
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bubble.Sleep(time.Minute)
			_, _ = w.Write(body)
		})}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(l) }()
		tr := &http.Transport{DialContext: l.DialContext}
		start := time.Now()
		req, _ := http.NewRequest("POST", "http://a.test/", strings.NewReader(strings.Repeat("y", 2*Window)))
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || len(body) != 2*Window {
			t.Fatalf("read %d bytes, %v", len(body), err)
		}
		if d := time.Since(start); d != time.Minute {
			t.Fatalf("took %v", d)
		}
		tr.CloseIdleConnections()
		_ = srv.Close()
		<-done
		synctest.Wait()
		if l.Open() != 0 {
			t.Fatalf("%d connections left", l.Open())
		}
	})
}
