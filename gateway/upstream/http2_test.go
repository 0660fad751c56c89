package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"failback/gateway/decision"
)

// h2peer is the stub's end of an HTTP/2 connection, frame by frame.
type h2peer struct {
	*peer
	fr  *http2.Framer
	enc *hpack.Encoder
	buf bytes.Buffer

	bodies  map[uint32]*strings.Builder
	headers map[uint32]textproto.MIMEHeader
}

// http2Stub is an upstream that speaks HTTP/2, and an Upstream for it. The
// windows it opens are so wide that nothing waits for them.
func http2Stub(t *testing.T, script func(p *h2peer)) (*stub, *Upstream) {
	t.Helper()
	cert, roots := certificate(t, "a.test", time.Now().Add(time.Hour))
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
	s := loopback(t, secure(cfg, func(p *peer) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(p.br, preface); err != nil {
			return
		}
		h := &h2peer{
			peer: p, fr: http2.NewFramer(p.Conn, p.br),
			bodies: map[uint32]*strings.Builder{}, headers: map[uint32]textproto.MIMEHeader{},
		}
		h.enc = hpack.NewEncoder(&h.buf)
		h.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		_ = h.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
		_ = h.fr.WriteWindowUpdate(0, 1<<30)
		script(h)
	}))
	return s, to(t, s, overTLS(s, "a.test", roots))
}

// nextStream reads until a request is whole and returns its stream; 0 at the
// connection's end.
func (p *h2peer) nextStream() uint32 {
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			return 0
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = p.fr.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = p.fr.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			h := textproto.MIMEHeader{}
			for _, field := range f.Fields {
				h.Add(field.Name, field.Value)
			}
			p.headers[f.StreamID] = h
			p.bodies[f.StreamID] = &strings.Builder{}
		case *http2.DataFrame:
			p.bodies[f.StreamID].Write(f.Data())
			if !f.StreamEnded() {
				continue
			}
			p.s.mu.Lock()
			p.s.requests = append(p.s.requests, request{p.headers[f.StreamID].Get(":path"), p.headers[f.StreamID], p.bodies[f.StreamID].String()})
			p.s.mu.Unlock()
			return f.StreamID
		}
	}
}

func (p *h2peer) answer(id uint32, contentType string) {
	p.buf.Reset()
	_ = p.enc.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = p.enc.WriteField(hpack.HeaderField{Name: "content-type", Value: contentType})
	_ = p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.buf.Bytes(), EndHeaders: true})
}

func (p *h2peer) events(id uint32, frames ...string) {
	p.answer(id, "text/event-stream")
	for _, f := range frames {
		_ = p.fr.WriteData(id, false, []byte(f))
	}
}

func (p *h2peer) good(id uint32) {
	p.answer(id, "application/json")
	_ = p.fr.WriteData(id, true, []byte(chatOK))
}

func TestHTTP2(t *testing.T) {
	s, u := http2Stub(t, func(p *h2peer) {
		for id := p.nextStream(); id != 0; id = p.nextStream() {
			if p.headers[id].Get("accept") == "text/event-stream" {
				p.events(id, role, delta("a"), finish, doneMark)
				_ = p.fr.WriteData(id, true, nil)
			} else {
				p.good(id)
			}
		}
	})
	for i := range 10 {
		o, cl, _ := attempt(t, u, func(c *Call) { c.Stream = i%2 == 0 })
		wantClass(t, o, decision.OK)
		want := chatOK
		if i%2 == 0 {
			want = role + delta("a") + finish + doneMark
		}
		if cl.body() != want || o.ConnID != 0 {
			t.Errorf("%q, %+v", cl.body(), o)
		}
	}
	if all, _ := s.counts(); all != 1 {
		t.Errorf("%d connections", all)
	}
	r := s.got()[0]
	if r.line != "/v1/chat/completions" || r.body != strings.Replace(chatBody, `"m"`, `"gpt-x"`, 1) || r.header.Get("authorization") != "Bearer SECRET123" {
		t.Errorf("request %+v", r)
	}
}

// RTY-13: a request that was certainly not processed is refused, counts
// against nobody, is not sent again by anybody but us, and goes through on a
// new connection.
func TestHTTP2Refusals(t *testing.T) {
	for name, refuse := range map[string]func(p *h2peer, id uint32){
		"REFUSED_STREAM": func(p *h2peer, id uint32) { _ = p.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream) },
		"GOAWAY":         func(p *h2peer, id uint32) { _ = p.fr.WriteGoAway(id-2, http2.ErrCodeNo, nil) },
		"GOAWAY, then closed": func(p *h2peer, id uint32) {
			_ = p.fr.WriteGoAway(id-2, http2.ErrCodeNo, nil)
			_ = p.Close()
		},
		"calm down": func(p *h2peer, id uint32) {
			_ = p.fr.WriteGoAway(id-2, http2.ErrCodeEnhanceYourCalm, []byte("SECRET123"))
		},
	} {
		for _, pad := range []int{1 << 10, 20 << 20} {
			if testing.Short() && pad > 1<<20 {
				continue
			}
			t.Run(fmt.Sprint(name, pad), func(t *testing.T) {
				var mu sync.Mutex
				requests := 0
				s, u := http2Stub(t, func(p *h2peer) {
					for id := p.nextStream(); id != 0; id = p.nextStream() {
						mu.Lock()
						requests++
						third := requests%3 == 0
						mu.Unlock()
						if third && id > 1 {
							refuse(p, id)
						} else {
							p.good(id)
						}
					}
				})
				attempts, clients := 0, 30
				if pad > 1<<20 {
					clients = 6
				}
				refused := 0
				for range clients {
					for try := 0; ; try++ {
						o, _, _ := attempt(t, u, func(c *Call) {
							c.Fresh = try > 0
							c.Body = append(c.Body, strings.Repeat(" ", pad)...)
						})
						attempts++
						if o.Class == decision.OK {
							break
						}
						wantClass(t, o, decision.Refused)
						refused++
						if !o.Unprocessed || o.ConnID != 0 || o.Class.Blame() != decision.Nobody || try > 0 {
							t.Fatalf("try %d: %+v", try, o)
						}
					}
				}
				if got := len(s.got()); got != attempts || refused == 0 {
					t.Errorf("%d requests for %d attempts, %d refused", got, attempts, refused)
				}
			})
		}
	}
}

func TestHTTP2Failures(t *testing.T) {
	for _, tt := range []struct {
		name     string
		script   func(p *h2peer, id uint32)
		class    decision.Class
		shared   bool
		unsent   bool
		relayed  bool
		complete bool
	}{
		{name: "reset before the header", script: func(p *h2peer, id uint32) { _ = p.fr.WriteRSTStream(id, http2.ErrCodeInternal) }, class: decision.Reset},
		{name: "reset after the header", script: func(p *h2peer, id uint32) { p.events(id); _ = p.fr.WriteRSTStream(id, http2.ErrCodeInternal) }, class: decision.Reset},
		{name: "refused after the header", script: func(p *h2peer, id uint32) {
			p.events(id, role)
			_ = p.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream)
		}, class: decision.Reset},
		{name: "reset after output", script: func(p *h2peer, id uint32) {
			p.events(id, delta("x"))
			_ = p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
		}, class: decision.Interrupted, relayed: true},
		{name: "closed before the header", script: func(p *h2peer, id uint32) { _ = p.Close() }, class: decision.Reset, shared: true},
		{name: "closed after the header", script: func(p *h2peer, id uint32) { p.events(id, role); _ = p.Close() }, class: decision.Reset, shared: true},
		{name: "closed after output", script: func(p *h2peer, id uint32) { p.events(id, delta("x")); _ = p.Close() }, class: decision.Interrupted, shared: true, relayed: true},
		{name: "closed after the end", script: func(p *h2peer, id uint32) { p.events(id, delta("x"), finish, doneMark); _ = p.Close() }, class: decision.OK, relayed: true},
		{name: "GOAWAY of others, then the answer", script: func(p *h2peer, id uint32) {
			_ = p.fr.WriteGoAway(id, http2.ErrCodeNo, nil)
			p.events(id, delta("x"), finish, doneMark)
			_ = p.fr.WriteData(id, true, nil)
		}, class: decision.OK, relayed: true},
		{name: "GOAWAY of others, then closed", script: func(p *h2peer, id uint32) {
			_ = p.fr.WriteGoAway(id, http2.ErrCodeNo, []byte("SECRET123"))
			p.events(id, delta("x"))
			_ = p.Close()
		}, class: decision.Interrupted, shared: true, relayed: true},
		{name: "GOAWAY with an error on a new connection", script: func(p *h2peer, id uint32) {
			_ = p.fr.WriteGoAway(0, http2.ErrCodeInternal, []byte("SECRET123"))
		}, class: decision.Reset, shared: true, unsent: true},
		{name: "breaks the protocol", script: func(p *h2peer, id uint32) { _ = p.fr.WriteData(id, false, []byte("x")) }, class: decision.BadResponse},
		{name: "breaks the connection's protocol", script: func(p *h2peer, id uint32) {
			_ = p.fr.WriteRawFrame(http2.FrameContinuation, 0, id, nil)
		}, class: decision.Reset, shared: true},
		{name: "speaks HTTP/1", script: func(p *h2peer, id uint32) { p.send(reply(200, "", chatOK)) }, class: decision.BadResponse, shared: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, u := http2Stub(t, func(p *h2peer) {
				if id := p.nextStream(); id != 0 {
					tt.script(p, id)
					p.nextStream()
				}
			})
			o, cl, _ := attempt(t, u, asStream)
			wantClass(t, o, tt.class)
			if (o.ConnID != 0) != tt.shared || o.Unprocessed != tt.unsent || o.Relayed != tt.relayed {
				t.Errorf("%+v", o)
			}
			if tt.relayed && !strings.HasPrefix(cl.body(), delta("x")) {
				t.Errorf("relayed %q", cl.body())
			}
			if n := len(s.got()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// One lost connection is one piece of evidence, however many streams it
// carried; the next one is another.
func TestHTTP2ConnectionLost(t *testing.T) {
	const streams = 20
	_, u := http2Stub(t, func(p *h2peer) {
		for n := 1; ; n++ {
			id := p.nextStream()
			if id == 0 {
				return
			}
			if n%2 == 0 {
				p.events(id, delta("x"))
			}
			if n == streams {
				_ = p.Close()
				return
			}
		}
	})
	seen := map[uint64]int{}
	for range 2 {
		// The first one alone makes the connection that all others share.
		outcomes := make([]decision.Outcome, streams)
		var wg sync.WaitGroup
		for i := range streams {
			wg.Go(func() {
				outcomes[i] = u.Attempt(context.Background(), callOf(u, &client{}, asStream))
			})
		}
		wg.Wait()
		for _, o := range outcomes {
			if o.Class != decision.Reset && o.Class != decision.Interrupted {
				t.Errorf("%+v", o)
			}
			seen[o.ConnID]++
		}
	}
	if seen[0] != 0 || len(seen) != 2 {
		t.Errorf("%d attempts are evidence of these connections: %v", 2*streams, seen)
	}
}

func TestHTTP2HeaderTooLarge(t *testing.T) {
	_, u := http2Stub(t, func(p *h2peer) {
		id := p.nextStream()
		p.buf.Reset()
		_ = p.enc.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
		for i := range 248 {
			_ = p.enc.WriteField(hpack.HeaderField{Name: fmt.Sprint("x-", i), Value: strings.Repeat("~", 1024), Sensitive: true})
		}
		b, first := p.buf.Bytes(), true
		for len(b) > 0 {
			n := min(len(b), 16<<10)
			if first {
				_ = p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b[:n], EndHeaders: n == len(b)})
			} else {
				_ = p.fr.WriteContinuation(id, n == len(b), b[:n])
			}
			b, first = b[n:], false
		}
		p.nextStream()
	})
	o, _, _ := attempt(t, u, nil)
	wantClass(t, o, decision.BadResponse)
	if o.Detail != largeHeader {
		t.Errorf("detail %q", o.Detail)
	}
}
