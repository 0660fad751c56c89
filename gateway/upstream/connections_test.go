package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/gateway/internal/memnet"
	"failback/internal/bubble"
)

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}

// RTY-12: failed attempts give their connection back, whatever failed, and
// nothing is left when the upstream is closed.
func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("", func(t *testing.T) {
		inBand := `data: {"error":{"message":"x","type":"server_error","param":null,"code":null}}` + "\n\n"
		all := []string{
			reply(500, "", strings.Repeat("x", 64<<10)),
			reply(200, "Content-Type: text/html", "<html>"+strings.Repeat("x", 64<<10)),
			streams(role, inBand),
			streams(role, delta("x"), inBand),
			reply(200, "", chatOK),
			streams(role, delta("a"), finish, doneMark),
		}
		var mu sync.Mutex
		n := 0
		s := loopback(t, func(p *peer) {
			for p.next() {
				mu.Lock()
				n++
				answer := all[n%len(all)]
				mu.Unlock()
				p.send(answer)
			}
		})
		u := to(t, s, nil)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for range 50 {
					u.Attempt(context.Background(), callOf(u, &client{}, asStream))
				}
			})
		}
		wg.Wait()
		made, _ := s.counts()
		if len(s.got()) != 1000 || made > 60 {
			t.Errorf("%d requests over %d connections", len(s.got()), made)
		}
		u.Close()
		eventually(t, "connections closed", func() bool { _, open := s.counts(); return open == 0 })
	})
	eventually(t, "goroutines gone", func() bool { return runtime.NumGoroutine() <= before })
}

// An attempt that was ended closes its connection at once, over and over.
func TestEndedAttemptsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, silent(sse+chunk(role)))
		u := to(t, s, nil)
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				o := u.Attempt(context.Background(), callOf(u, &client{}, func(c *Call) { c.Stream, c.FirstOutput = true, 2*time.Second }))
				wantClass(t, o, decision.FirstOutputTimeout)
			})
		}
		start := time.Now()
		wg.Wait()
		if d := time.Since(start); d != 2*time.Second { // FOV-11
			t.Errorf("after %v", d)
		}
		if open := s.l.(*memnet.Listener).Open(); open != 0 {
			t.Errorf("%d connections open", open)
		}
	})
}

func TestFreshConnection(t *testing.T) {
	s := loopback(t, answers(reply(200, "", chatOK)))
	u := to(t, s, nil)
	for range 3 {
		attempt(t, u, nil)
	}
	if made, _ := s.counts(); made != 1 {
		t.Fatalf("%d connections", made)
	}
	for range 2 {
		o, _, _ := attempt(t, u, func(c *Call) { c.Fresh = true })
		wantClass(t, o, decision.OK)
	}
	eventually(t, "own connections closed", func() bool { made, open := s.counts(); return made == 3 && open == 1 })
}

func TestUpdateKeepsConnectionsThatStillFit(t *testing.T) {
	s, other := loopback(t, answers(reply(200, "", chatOK))), loopback(t, answers(reply(200, "", chatOK)))
	u := to(t, s, nil)
	attempt(t, u, nil)
	set := u.current.Load().s
	set.Keys, set.Region = []string{"k2"}, "r2"
	set.BaseURL = set.BaseURL.JoinPath("more")
	u.Update(set)
	attempt(t, u, nil)
	if made, _ := s.counts(); made != 1 || u.Region() != "r2" || s.got()[1].line != "POST /v1/more/chat/completions HTTP/1.1" {
		t.Errorf("%d connections, region %s, %s", made, u.Region(), s.got()[1].line)
	}
	set.Name = "renamed"
	set.BaseURL = &url.URL{Scheme: "http", Host: other.l.Addr().String()}
	u.Update(set)
	attempt(t, u, nil)
	if len(other.got()) != 1 || u.Name() != "a" {
		t.Errorf("%d requests at the new place, name %s", len(other.got()), u.Name())
	}
	eventually(t, "old connections closed", func() bool { _, open := s.counts(); return open == 0 })
	if made, open := other.counts(); made != 1 || open != 1 {
		t.Errorf("%d connections, %d open", made, open)
	}
}

// What is under way goes on over an Update and a Close, and closes its
// connection then.
func TestUpdateLeavesAttemptsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, func(p *peer) {
			for p.next() {
				p.send(sse + chunk(delta("a")))
				bubble.Sleep(10 * time.Second)
				p.send(chunk(finish) + chunk(doneMark) + end)
			}
		})
		u := to(t, s, nil)
		done := make(chan decision.Outcome)
		for _, change := range []func(){
			func() {
				set := u.current.Load().s
				set.BaseURL, set.TLS = &url.URL{Scheme: "https", Host: "b.test"}, &tls.Config{}
				u.Update(set)
			},
			func() { u.Close() },
		} {
			// Each from the settings it began with.
			u = to(t, s, nil)
			go func() { o, _, _ := attempt(t, u, asStream); done <- o }()
			bubble.Sleep(5 * time.Second)
			change()
			wantClass(t, <-done, decision.OK)
			synctest.Wait()
			if open := s.l.(*memnet.Listener).Open(); open != 0 {
				t.Errorf("%d connections open", open)
			}
		}
	})
}

// What the client's side still reads or writes when an attempt is over must
// not touch the Call: its body may be used for something else.
func TestBodyIsFreeAfterwards(t *testing.T) {
	s := loopback(t, func(p *peer) {
		// Answers before it has read the body, which is still being sent.
		_, _ = p.br.ReadString('\n')
		p.send(reply(413, "Connection: close", `{"error":{"message":"x","type":"invalid_request_error","param":null,"code":null}}`))
		p.waitGone()
	})
	u := to(t, s, nil)
	body := []byte(chatBody + strings.Repeat(" ", 8<<20))
	for range 10 {
		attempt(t, u, func(c *Call) { c.Body = body })
		clear(body) // a race, if anybody still reads it
		copy(body, chatBody)
	}
}

func TestSecondLifeOfIdleConnections(t *testing.T) {
	// The upstream closes idle connections; the next attempt must not suffer.
	s := loopback(t, func(p *peer) {
		if p.next() {
			p.send(reply(200, "", chatOK))
		}
	})
	u := to(t, s, nil)
	for i := range 20 {
		eventually(t, "closed by the upstream", func() bool { _, open := s.counts(); return open == 0 })
		o, _, _ := attempt(t, u, nil)
		if o.Class != decision.OK && o.Class != decision.Refused && o.Class != decision.Reset {
			t.Fatalf("attempt %d: %+v", i, o)
		}
		if o.Class == decision.Reset && o.Unprocessed {
			t.Errorf("attempt %d: nothing was sent, and it counts against the upstream: %+v", i, o)
		}
	}
}

// sink is a connection that takes everything.
type sink struct {
	net.Conn
	bytes.Buffer
}

func (s *sink) Read(p []byte) (int, error)  { return 0, io.EOF }
func (s *sink) Write(p []byte) (int, error) { return s.Buffer.Write(p) }

// A header waits for its body, and nothing else waits for anything.
func TestCork(t *testing.T) {
	const header = "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"
	for _, tt := range []struct {
		corked bool
		writes []string
		after  []string // what has arrived after each write
	}{
		{false, []string{header, "{}"}, []string{header, header + "{}"}},
		{true, []string{header, "{}"}, []string{"", header + "{}"}},
		{true, []string{header + "{}\r\n\r\n"}, []string{header + "{}\r\n\r\n"}},
		{true, []string{"POST / ", "x"}, []string{"POST / ", "POST / x"}},
		{true, []string{"x", header}, []string{"x", "x" + header}},
		{true, []string{"abc", "d"}, []string{"abc", "abcd"}},
		{true, []string{"", header}, []string{"", header}},
	} {
		var got sink
		c := &conn{Conn: &got}
		if tt.corked {
			c.cork()
		}
		for i, w := range tt.writes {
			if n, err := c.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%q: %d, %v", w, n, err)
			}
			if got.String() != tt.after[i] {
				t.Errorf("%q: arrived after write %d: %q, want %q", tt.writes, i, got.String(), tt.after[i])
			}
		}
		if int(c.out.Load()) != got.Len() {
			t.Errorf("%d bytes counted, %d arrived", c.out.Load(), got.Len())
		}
	}
	// Another body than ours, and a connection that ends under it.
	here, there := memnet.Pipe()
	c := &conn{Conn: here}
	c.cork()
	_, _ = c.Write([]byte(header))
	if n, err := c.ReadFrom(strings.NewReader("{}")); n != 2 || err != nil {
		t.Error(n, err)
	}
	buf := make([]byte, 1<<10)
	if n, _ := there.Read(buf); string(buf[:n]) != header+"{}" {
		t.Errorf("arrived %q", buf[:n])
	}
	_ = there.Close()
	c.cork()
	_, _ = c.Write([]byte(header))
	if n, err := c.ReadFrom(strings.NewReader("{}")); n != 0 || err == nil {
		t.Error(n, err)
	}
}

func TestProxyFromTheEnvironmentOnlyWithoutOwnDialer(t *testing.T) {
	set := settings("a")
	if newConnections(set).pool.Proxy == nil {
		t.Error("the environment's proxy is not used")
	}
	set.DialContext = memnet.Listen("a.test").DialContext
	if newConnections(set).pool.Proxy != nil {
		t.Error("a proxy in front of an own dialer")
	}
}

func TestTLSIsRaised(t *testing.T) {
	set := settings("a")
	for _, given := range []*tls.Config{nil, {}, {MinVersion: tls.VersionTLS10}, {MinVersion: tls.VersionTLS13}} {
		set.TLS = given
		got := newConnections(set).pool.TLSClientConfig
		want := uint16(tls.VersionTLS12)
		if given != nil && given.MinVersion > want {
			want = given.MinVersion
		}
		if got.MinVersion != want || got == given {
			t.Errorf("%+v became %x", given, got.MinVersion)
		}
	}
}

// Attempts, Update, PickKey and the rest at once: for the race detector.
func TestConcurrentUse(t *testing.T) {
	s := loopback(t, answers(streams(role, delta("a"), finish, doneMark)))
	u := to(t, s, func(set *Settings) { set.Keys = []string{"k1", "k2"}; set.Idle = time.Second })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 30 {
				o := u.Attempt(context.Background(), callOf(u, &client{}, asStream))
				wantClass(t, o, decision.OK)
			}
		})
	}
	wg.Go(func() {
		for i := range 30 {
			set := u.current.Load().s
			set.Keys = []string{"k1", fmt.Sprint("n", i)}
			u.Update(set)
			u.Cooling()
		}
	})
	wg.Wait()
}
