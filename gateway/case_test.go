package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/internal/memnet"
	"failback/gateway/operator/api"
	"failback/internal/bubble"
)

// The tests named after cases (STR-01, ...) are failures of gateways and
// breakers that were reported in public, with the right answer. They speak to
// upstreams that write exact bytes on a connection of their own, in a bubble in
// which waiting takes no time.

// setting says what a case runs on; its zero value is three OpenAI upstreams A,
// B and C, in that order, on the defaults.
type setting struct {
	dialect decision.Dialect // of all; empty: openai
	names   []string         // nil: A, B, C
	more    string           // YAML added at the top level
	// candidates is added to the candidates of m, by upstream: ", substitute: true".
	candidates map[string]string
	upstreams  map[string]string // likewise to the upstreams
	secure     bool              // clients speak TLS and HTTP/2
	http2      bool              // upstreams do; they play by playsH2
}

// scene is a case that runs.
type scene struct {
	*testing.T
	net   *memnet.Network
	gw    *gateway.Gateway
	hc    *http.Client
	base  string
	up    map[string]*actor
	lines *lines
	texts *lines // what the process would write to its standard error
	yaml  string

	mu     sync.Mutex // guards what follows
	config []byte     // what Load reads
}

// lines are the decision log.
type lines struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// forget makes what comes next the first.
func (l *lines) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

// actor is an upstream that writes bytes.
type actor struct {
	name string
	l    *memnet.Listener

	mu       sync.Mutex // guards everything that follows
	requests []heard
	play     func(*exchange)
	playH2   func(*h2exchange)
	conns    map[*memnet.Conn]bool
	most     int // connections that were open at once
}

// heard is a request as an upstream got it.
type heard struct {
	method, path string
	header       http.Header
	body         string
	at           time.Time
}

// exchange is one request, to be answered on its connection.
type exchange struct {
	*actor
	c    *memnet.Conn
	n    int // of the upstream's requests, 1 first
	req  heard
	gone chan struct{} // closed when the gateway ends the connection
	done bool          // the connection must not be used again
}

// plays sets what the upstream does with each request.
func (a *actor) plays(f func(*exchange)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.play = f
}

// refuses has the upstream refuse connections from now on.
func (a *actor) refuses() { _ = a.l.Close() }

// asked is how many requests it got.
func (a *actor) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

func (a *actor) heard() []heard {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// open is how many connections to it are open.
func (a *actor) open() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.conns)
}

// raw writes bytes as they are.
func (e *exchange) raw(s string) { _, _ = io.WriteString(e.c, s) }

// wait waits, and reports whether the gateway is still there.
func (e *exchange) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-e.gone:
		return false
	}
}

// hang waits until the gateway is gone.
func (e *exchange) hang() { <-e.gone; e.done = true }

// cut closes the connection as a process that ends does; rst resets it.
func (e *exchange) cut() { _ = e.c.Close(); e.done = true }
func (e *exchange) rst() { e.c.Abort(); e.done = true }

// answer writes a whole answer. headers are whole lines.
func (e *exchange) answer(status int, body string, headers ...string) {
	kind := "application/json"
	e.raw(fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n%s",
		status, http.StatusText(status), kind, len(body), join(headers), body))
}

func join(headers []string) string {
	s := ""
	for _, h := range headers {
		s += h + "\r\n"
	}
	return s
}

// sse begins a stream in chunks of its own, ended by end.
func (e *exchange) sse(headers ...string) {
	e.raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n" + join(headers) + "\r\n")
}

// piece writes one chunk.
func (e *exchange) piece(s string) { e.raw(fmt.Sprintf("%x\r\n%s\r\n", len(s), s)) }

// end ends the chunks.
func (e *exchange) end() { e.raw("0\r\n\r\n") }

const (
	roleChunk   = `data: {"id":"c","object":"chat.completion.chunk","model":"x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	finishChunk = `data: {"id":"c","object":"chat.completion.chunk","model":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}` + "\n\n"
	doneFrame   = "data: [DONE]\n\n"
)

// ok answers a request to any endpoint whole, as who: three pieces of output,
// as a stream where one is asked for.
func ok(e *exchange) { okAs(e, e.name) }

func okAs(e *exchange, who string) {
	q := question(e.req.body)
	a := replyOf(strings.TrimPrefix(e.req.path, "/"), who, len(q.Tools) > 0)
	if !q.Stream {
		e.answer(200, a.whole)
		return
	}
	e.sse()
	e.piece(a.preamble)
	e.piece(a.first)
	e.piece(a.rest)
	e.end()
}

func question(body string) (q struct {
	Model  string
	Stream bool
	Tools  []json.RawMessage
}) {
	_ = json.Unmarshal([]byte(body), &q)
	return q
}

// status answers every request with a status and a body.
func status(code int, body string, headers ...string) func(*exchange) {
	return func(e *exchange) { e.answer(code, body, headers...) }
}

// inScene runs f in a bubble with a gateway on s. Upstreams play ok until told
// otherwise. Whatever f leaves behind, when it returns nothing may be held: no
// permit, slot, buffer or goroutine.
func inScene(t *testing.T, s setting, f func(*scene)) {
	t.Helper()
	dir := t.TempDir()
	if s.dialect == "" {
		s.dialect = decision.OpenAI
	}
	if s.names == nil {
		s.names = []string{"A", "B", "C"}
	}
	tr := &http.Transport{DisableCompression: true}
	scheme, theirs, o := "http://", "http://", gateway.Options{}
	if s.secure {
		scheme = "https://"
		s.more += certificate(t, dir, tr)
	}
	var server *tls.Config
	if s.http2 {
		theirs = "https://"
		server, o.UpstreamTLS = h2certificate(t)
	}
	yaml := fmt.Sprintf("listen: \"127.0.0.1:80\"\ndata_dir: %q\ndrain_delay: 0s\nupstreams:\n", dir)
	for _, name := range s.names {
		path := ""
		if s.dialect == decision.OpenAI {
			path = "/v1"
		}
		key := ", api_key: key-of-" + name
		if strings.Contains(s.upstreams[name], "api_keys:") {
			key = ""
		}
		yaml += fmt.Sprintf("  %s: {dialect: %s, base_url: \"%s%s.test:80%s\"%s%s}\n", name, s.dialect, theirs, strings.ToLower(name), path, key, s.upstreams[name])
	}
	yaml += "models:\n  m: {candidates: ["
	for i, name := range s.names {
		yaml += fmt.Sprintf("{upstream: %s, model: x, weight: %d%s}, ", name, 100-10*i, s.candidates[name])
	}
	yaml += "]}\n" + s.more
	synctest.Test(t, func(t *testing.T) {
		w := &scene{
			T: t, net: &memnet.Network{}, hc: &http.Client{Transport: tr}, base: scheme + "gateway.test:80",
			up: map[string]*actor{}, lines: &lines{}, texts: &lines{}, yaml: yaml, config: []byte(yaml),
		}
		tr.DialContext = w.net.DialContext
		var running sync.WaitGroup
		defer running.Wait()
		for _, name := range s.names {
			l, err := w.net.Listen(strings.ToLower(name) + ".test:80")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			a := &actor{name: name, l: l, play: ok, playH2: okH2, conns: map[*memnet.Conn]bool{}}
			w.up[name] = a
			running.Go(func() { a.serve(l, server, &running) })
		}
		o.Log = func(text string) { _, _ = fmt.Fprintln(w.texts, text) }
		o.Stdout, o.DialContext = w.lines, w.net.DialContext
		o.Listen = func(string, string) (net.Listener, error) { return w.net.Listen("gateway.test:80") }
		o.Load = func(ctx context.Context) (*config.Config, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return config.Load(ctx, config.Source{Data: w.config, Env: os.LookupEnv})
		}
		w.gw = gateway.New(o)
		if err := w.gw.StartAlone(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			tr.CloseIdleConnections()
			if err := w.gw.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		f(w)
		tr.CloseIdleConnections()
		synctest.Wait()
		w.nothingHeld()
	})
}

// nothingHeld checks that no request is under way anywhere.
func (w *scene) nothingHeld() {
	w.Helper()
	s := w.gw.OperatorState()
	if s.Traffic.InFlight != 0 {
		w.Errorf("%d requests are in flight", s.Traffic.InFlight)
	}
	for _, u := range s.Upstreams {
		if u.InFlight != 0 {
			w.Errorf("%s: %d attempts are in flight", u.Name, u.InFlight)
		}
		for _, b := range u.Breakers {
			if b.InFlight != 0 || b.ProbesOut != 0 {
				w.Errorf("%s: %d permits and %d probes are out", b.Bucket, b.InFlight, b.ProbesOut)
			}
		}
	}
	if n := w.gw.Buffered(); n != 0 {
		w.Errorf("%d bytes are reserved", n)
	}
}

// serve talks on each connection, in HTTP/2 if secured.
func (a *actor) serve(l net.Listener, secured *tls.Config, running *sync.WaitGroup) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		running.Go(func() {
			a.opened(c.(*memnet.Conn), true)
			defer a.opened(c.(*memnet.Conn), false)
			defer c.Close()
			if secured == nil {
				a.talk(c.(*memnet.Conn))
			} else {
				a.talkH2(c.(*memnet.Conn), secured)
			}
		})
	}
}

func (a *actor) opened(c *memnet.Conn, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !is {
		delete(a.conns, c)
		return
	}
	a.conns[c] = true
	a.most = max(a.most, len(a.conns))
}

// talk plays on one connection. A second reader notices when the gateway ends
// it: a request is read whole before it is answered.
func (a *actor) talk(c *memnet.Conn) {
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		e := &exchange{actor: a, c: c, gone: make(chan struct{})}
		e.req = heard{method: r.Method, path: r.URL.Path, header: r.Header, body: string(body), at: time.Now()}
		a.mu.Lock()
		a.requests = append(a.requests, e.req)
		e.n = len(a.requests)
		play := a.play
		a.mu.Unlock()
		watched := make(chan bool)
		go func() {
			_, err := in.Peek(1)
			if err != nil {
				close(e.gone)
			}
			watched <- err == nil
		}()
		play(e)
		if e.done {
			_ = c.Close()
		}
		if more := <-watched; !more || e.done {
			return
		}
	}
}

// got is what a client got.
type got struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
	frames  []string // of a stream, without their terminators
	at      []time.Duration
	err     error // the body broke off
	took    time.Duration
}

// bodies of the calls of the cases.
const (
	chatBody       = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":16}`
	chatStreamBody = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":16,"stream":true}`
	respStreamBody = `{"model":"m","input":"hi","stream":true}`
	chatPath       = "/v1/chat/completions"
	messagePath    = "/v1/messages"
	respPath       = "/v1/responses"
)

func (w *scene) chat(headers ...string) *got { return w.call(chatPath, chatBody, headers...) }

// call asks and reads the whole answer. headers are names and values.
func (w *scene) call(path, body string, headers ...string) *got {
	w.Helper()
	return w.callIn(w.Context(), path, body, headers...)
}

func (w *scene) callIn(ctx context.Context, path, body string, headers ...string) *got {
	w.Helper()
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := w.hc.Do(req)
	if err != nil {
		return &got{err: err, took: time.Since(began)}
	}
	defer res.Body.Close()
	g := &got{status: res.StatusCode, header: res.Header}
	in := bufio.NewReader(res.Body)
	var frame strings.Builder
	for {
		line, err := in.ReadString('\n')
		g.body += line
		if t := strings.TrimRight(line, "\r\n"); t != "" {
			frame.WriteString(t + "\n")
		} else if frame.Len() > 0 {
			g.frames = append(g.frames, strings.TrimSuffix(frame.String(), "\n"))
			g.at = append(g.at, time.Since(began))
			frame.Reset()
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				g.err = err
			}
			break
		}
	}
	g.trailer, g.took = res.Trailer, time.Since(began)
	return g
}

// errorFrames are the frames of a stream that are errors.
func (g *got) errorFrames() (fs []string) {
	for _, f := range g.frames {
		_, data, _ := strings.Cut(f, "data: ")
		var v map[string]json.RawMessage
		if json.Unmarshal([]byte(data), &v) != nil {
			continue
		}
		if e, ok := v["error"]; ok && string(e) != "null" || strings.HasPrefix(f, "event: error") {
			fs = append(fs, f)
		}
	}
	return fs
}

// logged waits until all that was said so far is in the log: lines that come
// fast are written together, so that it may take 10 ms until they are there.
func (w *scene) logged() {
	for synctest.Wait(); w.gw.Unlogged() > 0; synctest.Wait() {
		bubble.Sleep(time.Millisecond)
	}
}

// decisions are those logged, oldest first.
func (w *scene) decisions() (ds []api.Decision) {
	w.Helper()
	w.logged()
	for l := range strings.Lines(w.lines.String()) {
		var d api.Decision
		if err := json.Unmarshal([]byte(l), &d); err != nil {
			w.Fatalf("a line of the decision log: %v: %s", err, l)
		}
		if d.Event == "model_route_selected" {
			ds = append(ds, d)
		}
	}
	return ds
}

// last is the newest decision.
func (w *scene) last() api.Decision {
	w.Helper()
	ds := w.decisions()
	if len(ds) == 0 {
		w.Fatal("no decision was logged")
	}
	return ds[len(ds)-1]
}

// classes are those of d's attempts: "A:reset B:ok".
func classes(d api.Decision) string {
	var s []string
	for _, a := range d.Attempts {
		s = append(s, a.Provider+":"+a.Class)
	}
	return strings.Join(s, " ")
}

// asked says how many requests each upstream got: "A1 B0 C2".
func (w *scene) asked() string {
	var s []string
	for _, name := range []string{"A", "B", "C"} {
		if a := w.up[name]; a != nil {
			s = append(s, name+strconv.Itoa(a.asked()))
		}
	}
	return strings.Join(s, " ")
}

// bucket is a breaker's state once everybody waits: an answer reaches its client
// before the bucket hears of it.
func (w *scene) bucket(name string) api.Breaker {
	w.Helper()
	synctest.Wait()
	for _, u := range w.gw.OperatorState().Upstreams {
		for _, b := range u.Breakers {
			if b.Bucket == name {
				return b
			}
		}
	}
	w.Fatalf("no bucket %s", name)
	return api.Breaker{}
}
