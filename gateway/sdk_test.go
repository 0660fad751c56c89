package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/internal/memnet"
)

// transport is how clients reach the gateway and the gateway its upstreams.
type transport struct {
	name              string
	secure            bool // clients: TLS and HTTP/2
	upstreamsAreHTTP2 bool
}

var transports = []transport{
	{name: "HTTP1"},
	{name: "TLS with HTTP2", secure: true},
	{name: "HTTP2 all the way", secure: true, upstreamsAreHTTP2: true},
}

// shown is how one call must go, as the design has it.
type shown struct {
	one, two int64 // requests that the upstreams see
	attempts int64 // refused connections included
	broken   bool  // an answer that broke off
	status   int   // of a whole error; 0: there is none
}

// expected is computed by rule: a break after output ends the stream; some
// faults have the same upstream asked once more; all others move on.
func expected(c call, one, two fault) shown {
	var e shown
	ask := func(f fault, last bool) (ok bool) {
		n := int64(1)
		switch {
		case f.repeated():
			n = 2
		case f.waited() && last && !(c.stream && f.midway()):
			n = 4 - e.attempts
		}
		e.attempts += n
		switch {
		case f == refuses:
		case last:
			e.two += n
		default:
			e.one += n
		}
		e.broken = c.stream && f.midway()
		return f == healthy || e.broken
	}
	if ask(one, false) || ask(two, true) {
		return e
	}
	switch e.status = http.StatusBadGateway; {
	case two == limits:
		e.status = http.StatusTooManyRequests
	case two.waited():
		e.status = http.StatusServiceUnavailable
	case two.silent():
		e.status = http.StatusGatewayTimeout
	}
	return e
}

// TestOfficialClients runs every kind of call over every transport with the
// first upstream in every state and the second one healthy. What each upstream
// saw is counted, and what the client sent, so that nobody's hidden retry
// passes.
func TestOfficialClients(t *testing.T) {
	t.Parallel()
	everyCall(t, func(fault) fault { return healthy }, func(t testing.TB, s seen, e shown) {
		from, route := "two", "fallback"
		if e.two == 0 {
			from, route = "one", "primary"
		}
		want := s.call.want(from)
		if e.broken {
			if s.err == nil {
				t.Errorf("the stream broke, and the program was told that this is all: %+v", s.answer)
			}
			// What came is what the upstream sent, and no other's.
			part := answer{text: firstPiece}
			if want.arguments != "" {
				part = answer{arguments: firstArguments}
			}
			if s.answer.text != part.text || s.answer.arguments != part.arguments || s.answer.finish != "" {
				t.Errorf("before the break came %+v, want %+v", s.answer, part)
			}
			if !strings.Contains(errorText(s.err), "stream_interrupted") {
				t.Errorf("the error does not say what happened: %s", errorText(s.err))
			}
		} else if s.err != nil || s.answer != want {
			t.Errorf("got %+v, %v; want %+v", s.answer, s.err, want)
		}
		for name, value := range map[string]string{
			"Failback-Route": route, "Failback-Upstream": s.call.name + "-" + from, "Failback-Substitute": "false",
			"Failback-Attempts": strconv.FormatInt(e.attempts, 10),
		} {
			if got := s.header.Get(name); got != value {
				t.Errorf("%s: %q, want %q", name, got, value)
			}
		}
	})
}

// When everybody fails the client gets one error that says so, and its SDK,
// whose retries are on, does not multiply what the gateway tried.
func TestOfficialClientsWhenEverybodyFails(t *testing.T) {
	t.Parallel()
	everyCall(t, func(f fault) fault { return f }, func(t testing.TB, s seen, e shown) {
		if e.attempts == 1 && (e.broken || s.one == healthy) {
			return // the other test's
		}
		if s.err == nil {
			t.Errorf("no error, but %+v", s.answer)
			return
		}
		status, text := errorStatus(s.err), errorText(s.err)
		if status != e.status || s.header.Get("X-Should-Retry") != "false" {
			t.Errorf("status %d, want %d; x-should-retry %q", status, e.status, s.header.Get("X-Should-Retry"))
		}
		for _, upstream := range []string{"-one", "-two"} {
			if !strings.Contains(text, `{"upstream":"`+s.call.name+upstream+`","class":"`) {
				t.Errorf("no attempt at %s%s in %s", s.call.name, upstream, text)
			}
		}
		for _, secret := range []string{canary, "127.0.0.1", "localhost"} {
			if strings.Contains(text, secret) || strings.Contains(fmt.Sprint(s.header), secret) {
				t.Errorf("the client was told %q: %s %v", secret, text, s.header)
			}
		}
	})
}

// seen is what became of one call.
type seen struct {
	call   call
	one    fault
	answer answer
	err    error
	header http.Header // of the gateway's answer
}

// everyCall runs all calls over all transports with the first upstream at each
// fault and the second as given, checks what was sent to whom, and lets check
// look at the rest. It runs over loopback, but where only a watchdog ends a
// silence: there time is the test's own.
func everyCall(t *testing.T, second func(fault) fault, check func(testing.TB, seen, shown)) {
	names := make([]string, 0, len(calls))
	for _, c := range calls {
		names = append(names, c.name)
	}
	for _, way := range transports {
		for _, one := range faults {
			two := second(one)
			// All calls at the same time: most of them only wait.
			all := func(t *testing.T, n *memnet.Network, each func(name string, f func(testing.TB))) {
				f := newFleet(t, n, one, two, way.upstreamsAreHTTP2, names...)
				base, hc := serveFleet(t, f, way.secure)
				var running sync.WaitGroup
				defer running.Wait()
				for _, c := range calls {
					running.Go(func() {
						each(c.name, func(t testing.TB) {
							e := expected(c, one, two)
							client := &recorder{t: t, next: hc.Transport, secure: way.secure}
							got, err := c.do(t.Context(), base, &http.Client{Transport: client}, c.name)
							a, b := f.seen[c.name+"-one"].Load(), f.seen[c.name+"-two"].Load()
							if a != e.one || b != e.two {
								t.Errorf("the upstreams saw %d and %d requests, want %d and %d", a, b, e.one, e.two)
							}
							if n := client.sent.Load(); n != 1 {
								t.Errorf("the client sent its request %d times", n)
							}
							check(t, seen{call: c, one: one, answer: got, err: err, header: client.header()}, e)
						})
					})
				}
			}
			t.Run(way.name+"/"+string(one), func(t *testing.T) {
				t.Parallel()
				if !one.silent() && !two.silent() {
					all(t, nil, func(name string, f func(testing.TB)) {
						t.Run(name, func(t *testing.T) { f(t) })
					})
					return
				}
				synctest.Test(t, func(t *testing.T) {
					all(t, &memnet.Network{}, func(name string, f func(testing.TB)) { f(named{t, name}) })
				})
			})
		}
	}
}

// named says with each error which part of a test it is about.
type named struct {
	testing.TB
	name string
}

func (n named) Errorf(format string, args ...any) {
	n.Helper()
	n.TB.Errorf(n.name+": "+format, args...)
}

// Where nothing was attempted the SDK may wait as long as it is told, and then
// gets its answer.
func TestOfficialClientsWaitForAProbe(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"chat", "messages-stream"} {
		c := callNamed(name)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, &memnet.Network{}, unavailable, unavailable, false, name)
				base, hc := serveFleet(t, f, false)
				total := func() int64 { return f.seen[name+"-one"].Load() + f.seen[name+"-two"].Load() }
				// Until both breakers are open, whose SDKs would then wait.
				for client := (&recorder{t: t, next: hc.Transport}); client.header().Get("Failback-Attempts") != "0"; {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					if _, err := c.do(ctx, base, &http.Client{Transport: client}, name); err == nil {
						t.Fatal("no error")
					}
					cancel()
				}
				before, start := total(), time.Now()
				f.heal()
				client := &recorder{t: t, next: hc.Transport}
				got, err := c.do(t.Context(), base, &http.Client{Transport: client}, name)
				if from := strings.TrimPrefix(client.header().Get("Failback-Upstream"), name+"-"); err != nil || got != c.want(from) {
					t.Errorf("got %+v, %s, of %s", got, errorText(err), from)
				}
				first := client.at(0)
				waited := time.Since(start)
				if first.Get("X-Should-Retry") != "" || first.Get("Retry-After-Ms") != strconv.FormatInt(waited.Milliseconds(), 10) || waited < 13*time.Second {
					t.Errorf("it waited %s; the first answer's header: %v", waited, first)
				}
				if n, m := total()-before, client.sent.Load(); n != 1 || m != 2 {
					t.Errorf("the client sent %d requests and the upstreams saw %d", m, n)
				}
			})
		})
	}
}

func TestOfficialClientsListModels(t *testing.T) {
	t.Parallel()
	for _, way := range transports[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			base, hc := serveFleet(t, newFleet(t, nil, healthy, healthy, false, "chat", "embedding", "messages", "count-tokens"), way.secure)
			client := &recorder{t: t, next: hc.Transport, secure: way.secure}
			o := openAI(base, &http.Client{Transport: client})
			var names []string
			models := o.Models.ListAutoPaging(t.Context())
			for models.Next() {
				names = append(names, models.Current().ID)
			}
			if got := fmt.Sprint(names); models.Err() != nil || got != "[chat embedding]" {
				t.Errorf("OpenAI: %s, %v", got, models.Err())
			}
			a := anthropicClient(base, &http.Client{Transport: client})
			names = nil
			infos := a.Models.ListAutoPaging(t.Context(), anthropic.ModelListParams{})
			for infos.Next() {
				names = append(names, infos.Current().ID)
			}
			if got := fmt.Sprint(names); infos.Err() != nil || got != "[messages count-tokens]" {
				t.Errorf("Anthropic: %s, %v", got, infos.Err())
			}
			if n := client.sent.Load(); n != 2 {
				t.Errorf("the clients sent %d requests", n)
			}
		})
	}
}

// errorStatus is the status an SDK's error has, 0 if it has none.
func errorStatus(err error) int {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e.StatusCode
	}
	if e, ok := errors.AsType[*anthropic.Error](err); ok {
		return e.StatusCode
	}
	return 0
}

// errorText is all that an SDK's error tells a program of the answer.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e.RawJSON()
	}
	if e, ok := errors.AsType[*anthropic.Error](err); ok {
		return e.RawJSON()
	}
	return err.Error()
}

// recorder counts what a client sends and keeps the headers of the answers.
type recorder struct {
	t      testing.TB
	next   http.RoundTripper
	secure bool
	sent   atomic.Int64

	mu      sync.Mutex // guards everything that follows
	headers []http.Header
}

func (r *recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	r.sent.Add(1)
	resp, err := r.next.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	if want := map[bool]int{false: 1, true: 2}[r.secure]; resp.ProtoMajor != want {
		r.t.Errorf("answered over %s", resp.Proto)
	}
	if resp.Header.Get("X-Request-Id") == "" {
		r.t.Error("the answer has no X-Request-Id")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.headers = append(r.headers, resp.Header)
	return resp, nil
}

func (r *recorder) at(i int) http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.headers) == 0 {
		return http.Header{}
	}
	return r.headers[(i+len(r.headers))%len(r.headers)]
}

func (r *recorder) header() http.Header { return r.at(-1) }

// serveFleet starts a gateway on the fleet, with a model of its own name for
// each pair, and returns where it is and a client for it.
func serveFleet(t *testing.T, f *fleet, secure bool) (string, *http.Client) {
	t.Helper()
	dir := t.TempDir()
	tr := &http.Transport{}
	scheme, more := "http://", ""
	if secure {
		scheme = "https://"
		more = certificate(t, dir, tr)
	}
	var upstreams, models strings.Builder
	for _, c := range calls {
		if f.seen[c.name+"-one"] == nil {
			continue
		}
		for _, who := range []string{"-one", "-two"} {
			fmt.Fprintf(&upstreams, "  %s: {dialect: %s, base_url: %q, api_key: %q}\n", c.name+who, c.dialect, f.baseURL(c.name+who, c.dialect), upstreamSecret)
		}
		fmt.Fprintf(&models, "  %[1]s: {candidates: [{upstream: %[1]s-one, model: %[2]s, weight: 100}, {upstream: %[1]s-two, model: %[2]s, weight: 50}]}\n", c.name, theirModel)
	}
	yaml := fmt.Sprintf(`listen: 127.0.0.1:0
data_dir: %q
drain_delay: 0s
telemetry: {decision_log: none}
retry: {base: 1ms, cap: 2ms, budget: {ratio: 0.2, burst: 1000}}
upstreams:
%smodels:
%s%s`, dir, &upstreams, &models, more)
	o := gateway.Options{UpstreamTLS: f.trust(), Load: func(ctx context.Context) (*config.Config, error) {
		return config.Load(ctx, config.Source{Data: []byte(yaml)})
	}}
	start := (*gateway.Gateway).Start
	if n := f.net; n != nil {
		o.Listen = func(string, string) (net.Listener, error) { return n.Listen("127.0.0.1:80") }
		o.DialContext, tr.DialContext = n.DialContext, n.DialContext
		start = (*gateway.Gateway).StartAlone
	}
	g := gateway.New(o)
	if err := start(g, t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return scheme + g.ClientAddr(), &http.Client{Transport: tr}
}

// certificate puts a certificate into dir, has tr trust it, and returns the
// configuration that uses it.
func certificate(t *testing.T, dir string, tr *http.Transport) string {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	pair := s.TLS.Certificates[0]
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	s.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(t, cert, "CERTIFICATE", pair.Certificate[0])
	writePEM(t, keyFile, "PRIVATE KEY", key)
	tr.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "example.com"}
	tr.ForceAttemptHTTP2 = true
	return fmt.Sprintf("tls: {cert: %q, key: %q}\n", cert, keyFile)
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
