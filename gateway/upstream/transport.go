package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
	idleConnTimeout  = 90 * time.Second
	maxIdleConns     = 256
	maxHeaderBytes   = 256 << 10
	// An HTTP/2 connection that is silent for pingAfter is asked whether it
	// lives, and is given up pingTimeout later.
	pingAfter   = 15 * time.Second
	pingTimeout = 10 * time.Second
)

// connections are the connections to one upstream. They never resend, never
// follow a redirect, never decompress and never keep a cookie.
type connections struct {
	pool *http.Transport
	dial atomic.Pointer[dialFunc]
	s    Settings // of the first version that used them

	once  sync.Once
	fresh *http.Transport // one connection per request; made when first needed
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

func newConnections(s Settings) *connections {
	c := &connections{s: s}
	c.redial(s.DialContext)
	c.pool = c.transport()
	return c
}

func (c *connections) transport() *http.Transport {
	cfg := &tls.Config{}
	if c.s.TLS != nil {
		cfg = c.s.TLS.Clone()
	}
	cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	if cfg.ClientSessionCache == nil {
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	t := &http.Transport{
		DialContext:            c.connect,
		TLSClientConfig:        cfg,
		TLSHandshakeTimeout:    handshakeTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    maxIdleConns,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	if c.s.DialContext == nil {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t
}

// fit reports whether c leads where s says, in the way s says.
func (c *connections) fit(s Settings) bool {
	return c.s.TLS == s.TLS && (c.s.DialContext == nil) == (s.DialContext == nil) &&
		c.s.BaseURL.Scheme == s.BaseURL.Scheme && c.s.BaseURL.Host == s.BaseURL.Host
}

func (c *connections) redial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	d := dialFunc(dial)
	if dial == nil {
		d = (&net.Dialer{}).DialContext
	}
	c.dial.Store(&d)
}

// single returns the transport that opens a connection for each request and
// closes it afterwards.
func (c *connections) single() *http.Transport {
	c.once.Do(func() {
		c.fresh = c.transport()
		c.fresh.DisableKeepAlives = true
	})
	return c.fresh
}

// close gives up what is idle. A connection in use is closed when its request
// is done, as no request follows that would reopen the pool.
func (c *connections) close() { c.pool.CloseIdleConnections() }

// connect opens a connection. Whatever it fails with can be told from a
// failure of the exchange: it is a *net.OpError of the operation dial.
func (c *connections) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	inner, err := (*c.dial.Load())(ctx, network, addr)
	if err != nil {
		var op *net.OpError
		if !errors.As(err, &op) {
			err = &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return nil, err
	}
	return &conn{Conn: inner, id: connIDs.Add(1), made: time.Now()}, nil
}

var connIDs atomic.Uint64

// conn is a connection that can be told from others and knows how much went
// out on it, when something last came, and whether it ended while it was read.
type conn struct {
	net.Conn
	id    uint64
	made  time.Time
	last  atomic.Int64 // read with bytes, since made
	out   atomic.Int64
	ended atomic.Bool

	// For the goroutine that writes alone.
	corked bool
	held   []byte // a header, and where the next one will be kept
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.last.Store(int64(time.Since(c.made)))
	}
	if err != nil {
		c.ended.Store(true)
	}
	return n, err
}

func (c *conn) lastRead() time.Time { return c.made.Add(time.Duration(c.last.Load())) }

// cork holds the next write back until more follows. net/http sends a
// request's header by itself when it does not know the body's type; held back,
// it leaves together with the body, in one system call and one packet. It is
// called before net/http's writer gets the request, which must have a body.
func (c *conn) cork() { c.corked = true }

func (c *conn) Write(p []byte) (int, error) {
	if c.corked {
		c.corked = false
		// Only what is a header and nothing else is sure to be followed.
		if _, rest, found := bytes.Cut(p, headerEnd); found && len(rest) == 0 {
			c.held = append(c.held[:0], p...)
			return len(p), nil
		}
	}
	return c.send(p)
}

var headerEnd = []byte("\r\n\r\n")

// send writes what is held back and then p, and says how much of p went out.
func (c *conn) send(p []byte) (int, error) {
	if len(c.held) == 0 {
		n, err := c.Conn.Write(p)
		c.out.Add(int64(n))
		return n, err
	}
	n, err := c.sendAll(net.Buffers{nil, p})
	return int(n), err
}

// sendAll writes parts, of which the first is empty, with what is held back
// before them, and says how much of parts went out.
func (c *conn) sendAll(parts net.Buffers) (int64, error) {
	held := int64(len(c.held))
	if held > 0 {
		parts[0] = c.held
		c.held = c.held[:0]
	} else {
		parts = parts[1:]
	}
	n, err := parts.WriteTo(c.Conn)
	c.out.Add(n)
	return max(n-held, 0), err
}

// ReadFrom sends r. It is what net/http hands a request's body to on a
// connection without TLS: a spliced body is sent from where it is, without a
// copy; anything else goes through a pooled buffer.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if l, ok := r.(*io.LimitedReader); ok {
		if s, ok := l.R.(*splice); ok {
			n, err := s.sendTo(c.sendAll, l.N)
			l.N -= n
			return n, err
		}
	}
	buf := getBuffer(bufferSize)
	defer putBuffer(buf)
	// Hide ReadFrom, else io.CopyBuffer would come back here.
	return io.CopyBuffer(struct{ io.Writer }{c}, r, (*buf)[:cap(*buf)])
}

// under returns the conn below what net/http says it uses, nil if there is none.
func under(nc net.Conn) *conn {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, _ := nc.(*conn)
	return c
}

// multiplexed reports whether nc carries many requests at once.
func multiplexed(nc net.Conn) bool {
	t, ok := nc.(*tls.Conn)
	return ok && t.ConnectionState().NegotiatedProtocol == "h2"
}
