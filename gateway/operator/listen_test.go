package operator

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestSocketModeAndRemoval(t *testing.T) {
	path := filepath.Join(shortDir(t), "failback.sock")
	s, err := listenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	fi, err := os.Lstat(path)
	if err != nil || fi.Mode().Perm() != 0o660 || fi.Mode().Type() != os.ModeSocket {
		t.Fatalf("%v %v", fi.Mode(), err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".fb*"))
	if len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	s.close()
	s.unlock()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}

// stale leaves a socket at path on which nobody listens.
func stale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestStaleSocketIsReplaced(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "failback.sock")
	stale(t, path)
	// A process killed while it made its socket left these behind.
	if err := os.Mkdir(filepath.Join(dir, ".fbnew"), 0o700); err != nil {
		t.Fatal(err)
	}
	stale(t, filepath.Join(dir, ".fbnew", "s"))
	s, err := listenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.unlock()
	defer s.close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestLiveGatewayIsNotReplaced(t *testing.T) {
	path := filepath.Join(shortDir(t), "failback.sock")
	s, err := listenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.unlock()
	defer s.close()
	_, err = listenSocket(path)
	if err == nil || !strings.Contains(err.Error(), "another gateway (process ") || !strings.Contains(err.Error(), path) {
		t.Errorf("with its lock: %v", err)
	}
	// Its socket was removed by hand: it still owns the directory.
	os.Remove(path)
	if _, err = listenSocket(path); err == nil {
		t.Error("replaced a gateway whose socket was removed")
	}
}

// Somebody who answers but holds no lock, such as through a file system
// without locks.
func TestWhoAnswersIsNotReplaced(t *testing.T) {
	path := filepath.Join(shortDir(t), "failback.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err = listenSocket(path); err == nil || !strings.Contains(err.Error(), "already answers") {
		t.Errorf("%v", err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("it was harmed: %v", err)
	}
	c.Close()
}

func TestWhatIsNoSocketIsNotReplaced(t *testing.T) {
	path := filepath.Join(shortDir(t), "failback.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenSocket(path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("%v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Error("it was harmed")
	}
}

func TestSocketPathTooLong(t *testing.T) {
	_, err := listenSocket(filepath.Join(shortDir(t), strings.Repeat("x", 110)))
	if err == nil || !strings.Contains(err.Error(), "choose a shorter data_dir") {
		t.Errorf("%v", err)
	}
}

func TestAnothersSocketIsNotRemoved(t *testing.T) {
	path := filepath.Join(shortDir(t), "failback.sock")
	s, err := listenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.unlock()
	os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s.close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("removed another's socket: %v", err)
	}
}

// Many gateways started at once over a stale socket: one gets it.
func TestOneOfManyStarts(t *testing.T) {
	path := filepath.Join(shortDir(t), "failback.sock")
	stale(t, path)
	var won atomic.Int32
	var all sync.WaitGroup
	var mu sync.Mutex
	var winners []*socket
	for range 20 {
		all.Go(func() {
			if s, err := listenSocket(path); err == nil {
				won.Add(1)
				mu.Lock()
				winners = append(winners, s)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d got it", won.Load())
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for _, s := range winners {
		s.close()
		s.unlock()
	}
}

func TestLimitListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newLimitListener(inner, 1)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	for range 2 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first := <-accepted
	select {
	case <-accepted:
		t.Fatal("accepted a second one")
	default:
	}
	first.Close()
	first.Close() // gives its slot back once
	second := <-accepted
	l.Close() // while Accept waits for a slot
	if _, ok := <-accepted; ok {
		t.Error("accepted after Close")
	}
	second.Close()
}

// A question that is too long for a URL is told so, over TCP too, to a client that
// goes on writing it.
func TestTooLongAQuestionIsAnswered(t *testing.T) {
	ts := start(t, nil)
	for network, address := range map[string]string{"tcp": ts.Addr(), "unix": ts.socketPath()} {
		c, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(c, "GET /operator/v1/state?x="+strings.Repeat("x", 40<<10)+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Errorf("%s: %v", network, err)
		}
		<-time.After(time.Second) // net/http closes half a second after its answer
		answer, err := io.ReadAll(c)
		if err != nil && network == "tcp" || !strings.HasPrefix(string(answer), "HTTP/1.1 431 ") { // a socket ends so after it
			t.Errorf("%s: %q, %v", network, answer, err)
		}
	}
}
