package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"failback/gateway/decision"
	"failback/gateway/wire"
)

// Attempt makes one HTTP exchange with u and returns how it ended. It never
// sends the request twice, and returns only when nothing of it runs any more
// that would touch the Call. When ctx ends the attempt ends; its cause says
// what that means (ErrClientGone and so on). Keys and models that failed are
// not booked here: that is for who knows the whole request.
func (u *Upstream) Attempt(ctx context.Context, c *Call) decision.Outcome {
	v := c.Key.version
	if v == nil {
		return decision.Outcome{Class: decision.LocalRefusal, Unprocessed: true, Detail: "no key may be used now"}
	}
	if int(c.Endpoint) >= len(v.urls) || v.urls[c.Endpoint] == nil {
		return decision.Outcome{Class: decision.Internal, Unprocessed: true, Detail: "no such endpoint"}
	}
	if len(v.keys) > 1 {
		u.turn.Add(1)
	}
	for _, e := range c.Key.entries {
		u.book.try(e)
	}
	x := &exchange{c: c, v: v, parent: ctx}
	x.watch.start = time.Now()
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	defer x.end()
	x.watch.begin(x.cancel, c.firstOutput(), c.Whole)
	x.run()
	x.out.Duration = time.Since(x.watch.start)
	return x.out
}

func (c *Call) firstOutput() time.Duration {
	if !c.Stream {
		return 0
	}
	return c.FirstOutput
}

func (c *Call) maxHeld() int {
	if c.MaxHeld <= 0 {
		return DefaultMaxHeld
	}
	return int(min(c.MaxHeld, 1<<40))
}

// exchange is the state of one attempt, and of no other. It is used by the
// goroutine of Attempt alone but for what says otherwise.
type exchange struct {
	c      *Call
	v      *version
	parent context.Context         // of who runs the attempt
	ctx    context.Context         // ended by the watch too
	cancel context.CancelCauseFunc // of ctx
	watch  watch
	body   splice
	trace  httptrace.ClientTrace
	out    decision.Outcome

	conn   net.Conn // what the request was sent on, nil before
	sent   int64    // on conn before the request
	reused bool     // conn was there before

	resp    *http.Response
	plain   io.Reader // the answer's body, decoded
	decoded bool      // plain is not the body itself
	readErr error     // what reading the body ended with

	// What is held of the answer, or collected for the next Write. bound is
	// how much of it Buffers was asked for.
	held  *[]byte
	bound int
	// unframed are bytes read that belong to no whole frame yet; frameBound is
	// what Buffers was asked for them.
	unframed   int
	frameBound int
	framing    bool

	torn   bool // the last frame taken for the client has no end of its own
	output bool // the first output was seen
	told   bool // OnOutput was called
	open   bool // what is held may go out
	// complete says that what is held is the whole answer: no limit that
	// passes now makes it worse.
	complete bool
	begun    bool // Begin was called
	gone     bool // Begin or Write failed
}

func (x *exchange) run() {
	if class, detail := x.ended(); class != "" {
		x.fail(class, detail)
		x.out.Unprocessed = true
		return
	}
	x.trace.GotConn = x.gotConn
	ctx := httptrace.WithClientTrace(x.ctx, &x.trace)
	size := x.body.set(x.c.Body, x.c.ModelStart, x.c.ModelEnd, x.c.Model)
	req := (&http.Request{
		Method:        http.MethodPost,
		URL:           x.v.urls[x.c.Endpoint],
		Header:        x.header(),
		Body:          &x.body, // without GetBody: net/http cannot send it again
		ContentLength: size,
	}).WithContext(ctx)
	transport := x.v.conns.pool
	if x.c.Fresh {
		transport = x.v.conns.single()
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		x.noAnswer(err)
		return
	}
	x.resp, x.plain = resp, x
	x.out.Status = resp.StatusCode
	x.out.UpstreamRequestID = requestID(resp.Header)
	known := x.decode()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		x.refusal(known)
		return
	}
	kind := contentOf(resp.Header)
	switch {
	case !known:
		x.bad("the answer's encoding is unknown")
	case kind == contentHTML:
		x.bad("the answer is a web page")
	case kind == contentEvents && !x.c.Stream:
		x.bad("an event stream answers a request for none")
	case kind == contentEvents, kind == contentOther && x.c.Stream:
		x.stream()
	default:
		x.unary()
	}
}

// end gives back what the attempt used. Whatever was not read of the answer
// costs the connection.
func (x *exchange) end() {
	x.watch.stop()
	if x.resp != nil {
		_ = x.resp.Body.Close()
	}
	x.cancel(errEnough)
	_ = x.body.Close()
	putBuffer(x.held)
	x.held = nil
	if n := x.bound + x.frameBound; n > 0 {
		x.c.Buffers.Shrink(n)
	}
}

func (x *exchange) fail(class decision.Class, detail string) {
	x.out.Class, x.out.Detail = class, detail
}

// bad ends the attempt with an answer that is none.
func (x *exchange) bad(detail string) {
	x.fail(decision.BadResponse, detail)
	x.drain(drainFailed)
}

// gotConn is called by net/http, in the goroutine of RoundTrip.
func (x *exchange) gotConn(info httptrace.GotConnInfo) {
	x.conn, x.reused, x.sent = info.Conn, info.Reused, 0
	if c := under(info.Conn); c != nil {
		x.sent = c.out.Load()
	}
	if c, ok := info.Conn.(*conn); ok && len(x.c.Body) > 0 {
		c.cork()
	}
}

// ownConn is the connection if no other request is on it, else nil.
func (x *exchange) ownConn() *conn {
	if x.resp.ProtoMajor > 1 {
		return nil
	}
	return under(x.conn)
}

// leastRequest is less than any request has bytes, and more than what TLS
// sends by itself when it ends a connection.
const leastRequest = 64

// noAnswer ends the attempt with the error that came instead of an answer.
func (x *exchange) noAnswer(err error) {
	if class, detail := x.ended(); class != "" {
		x.fail(class, detail)
		x.out.Unprocessed = !x.body.handedOver()
		return
	}
	f := faultOf(err, x.conn != nil, x.v.s.BaseURL.Scheme == "https")
	if c := under(x.conn); f.detail == notHTTP && c != nil && c.ended.Load() {
		// net/http takes a line that was cut for a malformed one.
		f = fault{class: decision.Reset, detail: "the connection was closed", shared: true}
	}
	x.fail(f.class, f.detail)
	x.out.Unprocessed = f.unsent || !x.body.handedOver()
	c := under(x.conn)
	switch {
	case c == nil:
	case multiplexed(x.conn):
		if f.shared {
			x.out.ConnID = c.id
		}
	case f.class == decision.Reset && x.reused && c.out.Load()-x.sent < leastRequest:
		// The upstream ended an idle connection just when it was taken for
		// this request, of which nothing went out: nobody's fault, as if it
		// had said so over HTTP/2.
		x.fail(decision.Refused, "the idle connection had been closed")
		x.out.Unprocessed = true
	}
}

// broken classifies a body that could not be read to its end. partial is the
// class if something of an answer was there before.
func (x *exchange) broken(err error, partial decision.Class) {
	if class, detail := x.ended(); class != "" {
		x.fail(class, detail)
		return
	}
	f := faultOf(err, true, false)
	switch f.class {
	case decision.Reset, decision.Refused, decision.TLS:
		x.fail(partial, f.detail)
	default:
		x.fail(decision.BadResponse, f.detail)
	}
	if c := under(x.conn); f.shared && c != nil && multiplexed(x.conn) {
		x.out.ConnID = c.id
	}
}

// judged makes v the outcome.
func (x *exchange) judged(v wire.Verdict) {
	o := &x.out
	o.Class, o.Code, o.Detail = v.Class, v.Code, v.Detail
	o.RetryAfter, o.HasRetryAfter, o.ShouldRetry = v.RetryAfter, v.HasRetryAfter, v.ShouldRetry
	o.NamesModel = v.NamesModel
	x.seen(v)
}

// seen takes over what v knows of the answer, whatever the outcome is.
func (x *exchange) seen(v wire.Verdict) {
	o := &x.out
	o.ResponseModel, o.ResponseID = v.ResponseModel, v.ResponseID
	o.InputTokens, o.OutputTokens = v.InputTokens, v.OutputTokens
}

// firstOutput marks the first output. It reports false if the attempt was
// ended before.
func (x *exchange) firstOutput() bool {
	x.output = true
	x.out.FirstOutput, x.out.HasFirstOutput = time.Since(x.watch.start), true
	running := x.watch.output(x.v.s.Idle, x.v.s.Max, x.ownConn())
	x.tell()
	return running && x.ctx.Err() == nil
}

// release lets out what is held and all that follows: nothing can replace the
// answer from here. What is not whole yet goes out within a stream's limits,
// whatever was asked for. Nothing goes out yet.
func (x *exchange) release() {
	x.open = true
	x.watch.release()
	if (x.framing || !x.complete) && !x.output {
		x.watch.output(x.v.s.Idle, x.v.s.Max, x.ownConn())
	}
	if !x.complete {
		x.tell()
	}
}

// tell says once that the attempt may no longer be given up for another.
func (x *exchange) tell() {
	if !x.told && x.c.OnOutput != nil {
		x.c.OnOutput()
	}
	x.told = true
}

// begin starts the client's answer; false if the attempt ended before, or the
// client is gone.
func (x *exchange) begin() bool {
	if x.begun {
		return !x.gone
	}
	if x.ctx.Err() != nil {
		if class, _ := x.ended(); !x.complete || class == decision.ClientGone {
			return false
		}
	}
	x.begun, x.out.Begun = true, true
	x.gone = x.c.Begin(x.resp.StatusCode, x.resp.Header) != nil
	return !x.gone
}

// write gives p to the client.
func (x *exchange) write(p []byte) bool {
	if len(p) == 0 {
		return !x.gone
	}
	if !x.begin() {
		return false
	}
	x.out.Relayed = true
	x.gone = x.c.Write(p) != nil
	return !x.gone
}

// stopped ends the attempt that could not be written on: the client is gone,
// or the context ended before anything went out.
func (x *exchange) stopped() {
	if class, detail := x.ended(); class != "" && !x.gone {
		x.fail(class, detail)
		return
	}
	x.fail(decision.ClientGone, "the client is gone")
}

// requestID is the upstream's own name for the exchange, for operators: what
// is visible of it, cut to 128 characters.
func requestID(h http.Header) string {
	for _, name := range [...]string{"X-Request-Id", "Request-Id"} {
		v := h[name]
		if len(v) == 0 || v[0] == "" {
			continue
		}
		return visible(v[0], 128)
	}
	return ""
}

// visible returns s without what is no visible ASCII, cut to most characters.
func visible(s string, most int) string {
	clean := func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}
	if len(s) > most {
		s = s[:most]
	}
	return strings.Map(clean, s)
}
