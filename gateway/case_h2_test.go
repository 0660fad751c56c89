package gateway_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"failback/gateway/internal/memnet"
)

// h2exchange is one request on a stream of an HTTP/2 connection.
type h2exchange struct {
	*actor
	c    *h2conn
	id   uint32
	n    int // of the upstream's requests, 1 first
	req  heard
	gone chan struct{} // closed when the gateway gives up the stream or the connection
}

// h2conn is an upstream's end of a connection, frame by frame.
type h2conn struct {
	raw *memnet.Conn
	in  *http2.Framer // of the goroutine that reads alone

	mu  sync.Mutex // guards what follows
	fr  *http2.Framer
	enc *hpack.Encoder
	buf bytes.Buffer
}

// h2certificate is what upstreams serve with, and what the gateway trusts.
func h2certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	dir, tr := t.TempDir(), &http.Transport{}
	certificate(t, dir, tr)
	pair, err := tls.LoadX509KeyPair(dir+"/cert.pem", dir+"/key.pem")
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}, tr.TLSClientConfig
}

// playsH2 sets what the upstream does with each request that comes by HTTP/2,
// each in a goroutine of its own.
func (a *actor) playsH2(f func(*h2exchange)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.playH2 = f
}

func okH2(e *h2exchange) {
	q := question(e.req.body)
	a := replyOf(strings.TrimPrefix(e.req.path, "/"), e.name, len(q.Tools) > 0)
	if q.Stream {
		e.head(200, "text/event-stream")
		e.data(a.preamble)
		e.data(a.first)
		e.data(a.rest)
		e.end()
		return
	}
	e.head(200, "application/json")
	e.data(a.whole)
	e.end()
}

func (e *h2exchange) head(status int, kind string) {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	e.c.buf.Reset()
	_ = e.c.enc.WriteField(hpack.HeaderField{Name: ":status", Value: strconv.Itoa(status)})
	_ = e.c.enc.WriteField(hpack.HeaderField{Name: "content-type", Value: kind})
	_ = e.c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: e.id, BlockFragment: e.c.buf.Bytes(), EndHeaders: true})
}

func (e *h2exchange) data(s string) {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	_ = e.c.fr.WriteData(e.id, false, []byte(s))
}

func (e *h2exchange) end() {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	_ = e.c.fr.WriteData(e.id, true, nil)
}

// reset resets the stream.
func (e *h2exchange) reset(code http2.ErrCode) {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	_ = e.c.fr.WriteRSTStream(e.id, code)
}

// goAway says that no stream above last is processed.
func (e *h2exchange) goAway(last uint32) {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	_ = e.c.fr.WriteGoAway(last, http2.ErrCodeNo, nil)
}

// cut ends the connection with all its streams.
func (e *h2exchange) cut() { _ = e.c.raw.Close() }

// talkH2 plays on one connection.
func (a *actor) talkH2(raw *memnet.Conn, secured *tls.Config) {
	tc := tls.Server(raw, secured)
	defer tc.Close()
	in := bufio.NewReader(tc)
	if _, err := io.ReadFull(in, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	c := &h2conn{raw: raw, in: http2.NewFramer(io.Discard, in), fr: http2.NewFramer(tc, nil)}
	c.enc = hpack.NewEncoder(&c.buf)
	c.in.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.in.SetMaxReadFrameSize(1 << 20)
	write := func(f func()) {
		c.mu.Lock()
		defer c.mu.Unlock()
		f()
	}
	write(func() {
		// Windows so wide that nothing waits for them.
		_ = c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
		_ = c.fr.WriteWindowUpdate(0, 1<<30)
	})
	var running sync.WaitGroup
	defer running.Wait()
	open := map[uint32]*h2exchange{}
	defer func() {
		for _, e := range open {
			close(e.gone)
		}
	}()
	bodies := map[uint32]*strings.Builder{}
	for {
		f, err := c.in.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				write(func() { _ = c.fr.WriteSettingsAck() })
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				write(func() { _ = c.fr.WritePing(true, f.Data) })
			}
		case *http2.RSTStreamFrame:
			if e := open[f.StreamID]; e != nil {
				close(e.gone)
				delete(open, f.StreamID)
			}
		case *http2.MetaHeadersFrame:
			e := &h2exchange{actor: a, c: c, id: f.StreamID, gone: make(chan struct{})}
			e.req = heard{header: http.Header{}, at: time.Now()}
			for _, field := range f.Fields {
				switch field.Name {
				case ":method":
					e.req.method = field.Value
				case ":path":
					e.req.path = field.Value
				default:
					e.req.header.Add(field.Name, field.Value)
				}
			}
			open[f.StreamID], bodies[f.StreamID] = e, &strings.Builder{}
		case *http2.DataFrame:
			e := open[f.StreamID]
			if e == nil {
				break
			}
			bodies[f.StreamID].Write(f.Data())
			if !f.StreamEnded() {
				break
			}
			e.req.body = bodies[f.StreamID].String()
			delete(bodies, f.StreamID)
			a.mu.Lock()
			a.requests = append(a.requests, e.req)
			e.n = len(a.requests)
			play := a.playH2
			a.mu.Unlock()
			running.Go(func() { play(e) })
		}
	}
}
