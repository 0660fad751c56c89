package operator

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// tail takes the connection over, as a websocket does, and holds it until its
// context ends.
func tail(w http.ResponseWriter, r *http.Request) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	rw.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\n")
	rw.Flush()
	<-r.Context().Done()
}

func keepsTail(s *Server) {
	s.o.Kept = func(path string) http.Handler {
		if path == api.LokiPath {
			return http.HandlerFunc(tail)
		}
		return nil
	}
}

// follow asks for the tail and returns what is read from it: the first line is
// there already.
func (ts *testServer) follow(t *testing.T) (first string, rest *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", ts.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "GET /loki/api/v1/tail HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer %s\r\n\r\n", vicToken)
	rest = bufio.NewReader(c)
	if first, err = rest.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(first), rest
}

// Whoever follows the log is let go as soon as the token is gone.
func TestFollowingEndsWithItsToken(t *testing.T) {
	var revoked atomic.Bool
	var asked atomic.Int64
	ts := start(t, func(s *Server) {
		keepsTail(s)
		s.pace.heartbeat = 5 * time.Millisecond
		s.o.Tokens = func() []Token {
			asked.Add(1)
			if revoked.Load() {
				return nil
			}
			return testTokens()
		}
	})
	first, rest := ts.follow(t)
	if !strings.Contains(first, "101") {
		t.Fatal(first)
	}
	waitFor(t, "the token to be looked at again", func() bool { return asked.Load() > 3 })
	if n := ts.openStreams(); n != 1 {
		t.Errorf("%d streams are open while one follows", n)
	}
	revoked.Store(true)
	if _, err := io.Copy(io.Discard, rest); err != nil {
		t.Errorf("the connection was not closed: %v", err)
	}
	waitFor(t, "the place to be free", func() bool { return ts.openStreams() == 0 })
}

func TestFollowingTakesAPlaceAmongTheStreams(t *testing.T) {
	ts := start(t, keepsTail)
	for range maxTCPStreams {
		if !ts.streams.take(true) {
			t.Fatal("no place")
		}
	}
	if first, _ := ts.follow(t); !strings.Contains(first, "503") {
		t.Errorf("one too many: %s", first)
	}
}

func TestFollowingEndsWithTheServer(t *testing.T) {
	ts := start(t, keepsTail)
	_, rest := ts.follow(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := ts.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, rest); err != nil {
		t.Errorf("the connection was not closed: %v", err)
	}
}
