package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/internal/memnet"
	"failback/gateway/wire"
)

// stub is an upstream of raw bytes: it answers what a test says, byte by byte,
// and keeps what it was sent.
type stub struct {
	l  net.Listener
	wg sync.WaitGroup

	mu sync.Mutex
	// mu guards everything that follows.
	requests []request
	conns    map[net.Conn]bool // true while open
}

// request is one request as it came.
type request struct {
	line   string
	header textproto.MIMEHeader
	body   string
}

// peer is the stub's end of one connection.
type peer struct {
	net.Conn
	s  *stub
	br *bufio.Reader
	n  int // which connection, from 1
}

// newStub serves each connection to l with script. It is closed, and waited
// for, at the test's end.
func newStub(t testing.TB, l net.Listener, script func(p *peer)) *stub {
	s := &stub{l: l, conns: make(map[net.Conn]bool)}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[c] = true
			p := &peer{Conn: c, s: s, br: bufio.NewReader(c), n: len(s.conns)}
			s.mu.Unlock()
			s.wg.Go(func() {
				defer func() {
					_ = c.Close()
					s.mu.Lock()
					s.conns[c] = false
					s.mu.Unlock()
				}()
				script(p)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *stub) got() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.requests...)
}

// counts returns how many connections there were and are.
func (s *stub) counts() (all, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.conns {
		if o {
			open++
		}
	}
	return len(s.conns), open
}

// next reads the next request of the connection; false at its end.
func (p *peer) next() bool {
	r := textproto.NewReader(p.br)
	line, err := r.ReadLine()
	if err != nil {
		return false
	}
	h, err := r.ReadMIMEHeader()
	if err != nil {
		return false
	}
	n, _ := strconv.Atoi(h.Get("Content-Length"))
	body := make([]byte, n)
	if _, err := io.ReadFull(p.br, body); err != nil {
		return false
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.requests = append(p.s.requests, request{line, h, string(body)})
	return true
}

func (p *peer) send(s string) { _, _ = io.WriteString(p.Conn, s) }

// reset ends the connection with an RST.
func (p *peer) reset() {
	switch c := p.Conn.(type) {
	case *net.TCPConn:
		_ = c.SetLinger(0)
		_ = c.Close()
	case *memnet.Conn:
		c.Abort()
	}
}

// waitGone returns when the other side has closed the connection.
func (p *peer) waitGone() { _, _ = io.Copy(io.Discard, p.br) }

// answers gives the same answer to every request.
func answers(a string) func(p *peer) {
	return func(p *peer) {
		for p.next() {
			p.send(a)
		}
	}
}

// reply is a whole answer; header lines may be empty.
func reply(status int, header, body string) string {
	if header != "" {
		header += "\r\n"
	}
	if !strings.Contains(strings.ToLower(header), "content-type:") {
		header += "Content-Type: application/json\r\n"
	}
	return fmt.Sprintf("HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n%s", status, header, len(body), body)
}

// sse is the head of an event stream.
const sse = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"

// chunk is a piece of a chunked body, end its end.
func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

const end = "0\r\n\r\n"

// streams is a whole chunked event stream, one chunk per frame.
func streams(frames ...string) string {
	var b strings.Builder
	b.WriteString(sse)
	for _, f := range frames {
		b.WriteString(chunk(f))
	}
	b.WriteString(end)
	return b.String()
}

// Frames and bodies of the dialects.
const (
	chatBody = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":16}`
	chatOK   = `{"id":"c1","object":"chat.completion","model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	role     = `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}` + "\n\n"
	finish   = `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usage    = `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-x","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}}` + "\n\n"
	doneMark = "data: [DONE]\n\n"

	msgStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-x\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n"
	msgDelta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n"
	msgPing  = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	msgEnd   = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":4}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

func delta(text string) string {
	return `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-x","choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":null}]}` + "\n\n"
}

// client is who asked: it keeps what it is given.
type client struct {
	status  int
	header  http.Header
	writes  []string
	at      []time.Time // of writes
	begins  int
	outputs int

	onBegin, onWrite func() error
}

func (cl *client) Begin(status int, h http.Header) error {
	cl.begins++
	cl.status, cl.header = status, h.Clone()
	if cl.onBegin != nil {
		return cl.onBegin()
	}
	return nil
}

func (cl *client) Write(p []byte) error {
	cl.writes = append(cl.writes, string(p))
	cl.at = append(cl.at, time.Now())
	if cl.onWrite != nil {
		return cl.onWrite()
	}
	return nil
}

func (cl *client) body() string { return strings.Join(cl.writes, "") }

// to returns an upstream that is s, over loopback or in memory.
func to(t testing.TB, s *stub, change func(*Settings)) *Upstream {
	set := Settings{
		Name: "a", Region: "r1", Dialect: decision.OpenAI, Keys: []string{"SECRET123"},
		BaseURL: &url.URL{Scheme: "http", Host: s.l.Addr().String(), Path: "/v1"},
	}
	if m, ok := s.l.(*memnet.Listener); ok {
		set.DialContext = m.DialContext
	}
	if change != nil {
		change(&set)
	}
	u := New(set, NewBook(nil))
	t.Cleanup(u.Close)
	return u
}

// loopback is a stub on a real socket.
func loopback(t testing.TB, script func(p *peer)) *stub {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newStub(t, l, script)
}

// inMemory is a stub for a bubble.
func inMemory(t testing.TB, script func(p *peer)) *stub {
	return newStub(t, memnet.Listen("a.test:80"), script)
}

// callOf is a chat call of cl with whatever key may be used.
func callOf(u *Upstream, cl *client, change func(*Call)) *Call {
	k, _ := u.PickKey(0)
	start := strings.Index(chatBody, `"m"`)
	c := &Call{
		Endpoint: wire.ChatCompletions, Header: http.Header{}, Body: []byte(chatBody),
		ModelStart: start, ModelEnd: start + 3, Model: "gpt-x", Key: k,
		Begin: cl.Begin, Write: cl.Write, OnOutput: func() { cl.outputs++ },
	}
	if change != nil {
		change(c)
	}
	return c
}

func asStream(c *Call) { c.Stream = true }

// attempt makes one attempt and checks what holds for all of them.
func attempt(t testing.TB, u *Upstream, change func(*Call)) (decision.Outcome, *client, *Call) {
	t.Helper()
	return attemptIn(context.Background(), t, u, change)
}

func attemptIn(ctx context.Context, t testing.TB, u *Upstream, change func(*Call)) (decision.Outcome, *client, *Call) {
	t.Helper()
	cl := &client{}
	c := callOf(u, cl, change)
	o := u.Attempt(ctx, c)
	if cl.begins > 1 {
		t.Errorf("Begin called %d times", cl.begins)
	}
	if o.Begun != (cl.begins > 0) || o.Relayed != (len(cl.writes) > 0) {
		t.Errorf("outcome says begun %v, relayed %v; the client saw %d begins, %d writes", o.Begun, o.Relayed, cl.begins, len(cl.writes))
	}
	if o.Class == "" {
		t.Error("no class")
	}
	if o.Class == decision.OK && !o.Relayed {
		t.Error("ok, and nothing relayed")
	}
	if c.ErrorAnswer != nil && o.Begun {
		t.Error("an answer for the caller, who has one already")
	}
	for _, s := range []string{o.Detail, o.Code, o.UpstreamRequestID} {
		for _, secret := range []string{"SECRET123", "127.0.0.1", "a.test", "://", "hi\""} {
			if strings.Contains(s, secret) {
				t.Errorf("%q in %q", secret, s)
			}
		}
	}
	return o, cl, c
}

// wantClass checks an attempt that gave the client nothing.
func wantClass(t testing.TB, o decision.Outcome, want decision.Class) {
	t.Helper()
	if o.Class != want {
		t.Errorf("class %q (%s, code %q, status %d), want %q", o.Class, o.Detail, o.Code, o.Status, want)
	}
}

// memory counts what is asked for; it grants up to limit.
type memory struct {
	mu          sync.Mutex
	used, limit int
	most        int
}

func (b *memory) Grow(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.limit {
		return false
	}
	b.used += n
	b.most = max(b.most, b.used)
	return true
}

func (b *memory) Shrink(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}
