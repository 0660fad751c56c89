package gateway_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/internal/bubble"
)

// callings are the calls by which a case is put to both dialects, whole and as a stream.
var callings = []struct {
	name    string
	dialect decision.Dialect
	path    string
	body    string
	stream  bool
}{
	{"chat", decision.OpenAI, chatPath, chatBody, false},
	{"chat stream", decision.OpenAI, chatPath, chatStreamBody, true},
	{"responses stream", decision.OpenAI, respPath, respStreamBody, true},
	{"messages", decision.Anthropic, messagePath, chatBody, false},
	{"messages stream", decision.Anthropic, messagePath, chatStreamBody, true},
}

// served says who answered: "200 B degraded_completed". A stream must be whole.
func served(g *got) string {
	if g.err != nil {
		return g.err.Error()
	}
	return fmt.Sprintf("%d %s %s", g.status, g.header.Get("Failback-Upstream"), g.header.Get("Failback-Status"))
}

// reconfigure puts the configuration in force with each old text replaced by
// the new one that follows it.
func (w *scene) reconfigure(pairs ...string) {
	w.Helper()
	w.rewrite(pairs...)
	if _, err := w.gw.Reload(w.Context(), "test"); err != nil {
		w.Fatal(err)
	}
}

// rewrite edits what the next reload reads.
func (w *scene) rewrite(pairs ...string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	text := string(w.config)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			w.Fatalf("the configuration has no %q:\n%s", pairs[i], text)
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	w.config = []byte(text)
}

// accepts gives each connection to addr to f and closes it, until the returned
// function is called.
func (w *scene) accepts(addr string, f func(net.Conn)) (end func()) {
	w.Helper()
	l, err := w.net.Listen(addr)
	if err != nil {
		w.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { f(conn); _ = conn.Close() })
		}
	})
	return func() { _ = l.Close(); running.Wait() }
}

// atOnce counts how many requests an upstream had at a time.
type atOnce struct {
	mu        sync.Mutex // guards everything that follows
	now, most int
}

func (a *atOnce) counts(f func(*exchange)) func(*exchange) {
	return func(e *exchange) {
		a.mu.Lock()
		a.now++
		a.most = max(a.most, a.now)
		a.mu.Unlock()
		f(e)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.now--
	}
}

// FOV-01: repeated attempts leave the candidate that fails, within its own bound.
func TestFOV01(t *testing.T) {
	for _, c := range []struct {
		name       string
		status     int
		headers    []string
		candidates map[string]string
		attempts   int
		asked      string
		classes    string
	}{
		{"429", 429, nil, nil, 4, "A1 B1 C0", "A:rate_limited B:ok"},
		{"429 with a wait", 429, []string{"Retry-After: 1"}, nil, 4, "A1 B1 C0", "A:rate_limited B:ok"},
		{"503", 503, nil, nil, 4, "A1 B1 C0", "A:overloaded B:ok"},
		{"503 with a wait", 503, []string{"Retry-After: 1"}, nil, 4, "A1 B1 C0", "A:overloaded B:ok"},
		{"500", 500, nil, nil, 4, "A2 B1 C0", "A:server_error A:server_error B:ok"},
		{"500, asked to retry", 500, []string{"X-Should-Retry: true"}, nil, 4, "A2 B1 C0", "A:server_error A:server_error B:ok"},
		{"500, asked not to", 500, []string{"X-Should-Retry: false"}, nil, 4, "A1 B1 C0", "A:server_error B:ok"},
		// Before the model is changed, a short wait is worth one more attempt.
		{"429 before a substitute", 429, []string{"Retry-After: 1"}, map[string]string{"B": ", substitute: true", "C": ", substitute: true"}, 4, "A3 B1 C0", "A:rate_limited A:rate_limited A:rate_limited B:ok"},
		// The last attempt is the next candidate's.
		{"500 of two attempts", 500, nil, nil, 2, "A1 B1 C0", "A:server_error B:ok"},
		{"500 of three attempts", 500, nil, nil, 3, "A2 B1 C0", "A:server_error A:server_error B:ok"},
	} {
		for _, way := range callings {
			t.Run(c.name+"/"+way.name, func(t *testing.T) {
				s := setting{dialect: way.dialect, candidates: c.candidates, more: fmt.Sprintf("default_task: {fallback: any}\nretry: {attempts: %d}\n", c.attempts)}
				inScene(t, s, func(w *scene) {
					w.up["A"].plays(status(c.status, `{"error":{"message":"no","type":"x"}}`, c.headers...))
					if g := w.call(way.path, way.body); served(g) != "200 B degraded_completed" {
						w.Errorf("%s: %s", served(g), g.body)
					}
					if w.asked() != c.asked || classes(w.last()) != c.classes {
						w.Errorf("asked %s, attempts %s; want %s, %s", w.asked(), classes(w.last()), c.asked, c.classes)
					}
				})
			})
		}
	}
}

// FOV-02: there is no way around to who was left; each is asked once.
func TestFOV02(t *testing.T) {
	for _, way := range callings {
		t.Run(way.name, func(t *testing.T) {
			inScene(t, setting{dialect: way.dialect, more: "retry: {attempts: 50, max_switches: 50, max_wait: 0s}\n"}, func(w *scene) {
				for i, code := range []int{503, 500} {
					before := w.asked()
					for _, a := range w.up {
						a.plays(status(code, `{"error":{"message":"no"}}`))
					}
					if g := w.call(way.path, way.body); g.status < 500 {
						w.Errorf("%d: %s", g.status, g.body)
					}
					// The 503 before is a failure within 10 s: nobody is asked
					// for the 500 twice.
					if want := fmt.Sprintf("A%[1]d B%[1]d C%[1]d", i+1); w.asked() != want {
						w.Errorf("after %d: asked %s, before %s, want %s", code, w.asked(), before, want)
					}
				}
			})
		})
	}
	// Who is a candidate twice under one model name is the same road twice.
	inScene(t, setting{names: []string{"A", "B"}}, func(w *scene) {
		w.rewrite("{upstream: B, model: x, weight: 90}", "{upstream: A, model: x, weight: 90}")
		if _, err := w.gw.Reload(w.Context(), "test"); err == nil || !strings.Contains(err.Error(), "already") {
			w.Errorf("A as its own fallback: %v", err)
		}
	})
}

// FOV-04: what was learnt of dead upstreams is remembered for the requests that
// follow.
func TestFOV04(t *testing.T) {
	for _, way := range callings {
		t.Run(way.name, func(t *testing.T) {
			s := setting{dialect: way.dialect, more: "unary_attempt: {floor: 2s}\nfirst_output: {floor: 1s, ceiling: 2s}\nretry: {budget: {burst: 100}}\n"}
			inScene(t, s, func(w *scene) {
				var atA, atB atOnce
				w.up["A"].plays(atA.counts((*exchange).hang))
				w.up["B"].plays(atB.counts((*exchange).hang))
				w.up["C"].plays(func(e *exchange) { e.wait(100 * time.Millisecond); ok(e) })
				var took []time.Duration
				for range 20 {
					g := w.call(way.path, way.body)
					if served(g) != "200 C degraded_completed" {
						w.Fatalf("%s: %s", served(g), g.body)
					}
					took = append(took, g.took)
				}
				for i, d := range took {
					if i < 5 && d < 4*time.Second || i >= 5 && d != 100*time.Millisecond {
						w.Errorf("request %d took %v", i+1, d)
					}
				}
				if w.asked() != "A5 B5 C20" {
					w.Errorf("asked %s", w.asked())
				}
				// Probes go on, one at a time and ever more rarely.
				slow := 0
				var all sync.WaitGroup
				var mu sync.Mutex
				for range 600 {
					all.Go(func() {
						g := w.call(way.path, way.body)
						mu.Lock()
						defer mu.Unlock()
						if g.took > 100*time.Millisecond {
							slow++
						}
					})
					bubble.Sleep(100 * time.Millisecond)
				}
				all.Wait()
				probes := w.up["A"].asked() - 5 + w.up["B"].asked() - 5
				if probes < 4 || slow > probes || atA.most != 1 || atB.most != 1 {
					w.Errorf("%d probes, %d slow requests, %d at a time at A, %d at B", probes, slow, atA.most, atB.most)
				}
			})
		})
	}
}

// FOV-05: what fails before there is an answer fails over, each under a name of
// its own.
func TestFOV05(t *testing.T) {
	untrusted, _ := h2certificate(t)
	untrusted.NextProtos = nil
	for _, c := range []struct {
		name, url, class, detail string
		again                    bool // the first failure of its kind is tried again
	}{
		{"closed port", "http://a.test:81/v1", "connect", "refused", true},
		{"no such host", "http://a.invalid:80/v1", "dns", "no such host", false},
		{"wrong certificate", "https://bad.test:443/v1", "tls", "certificate", false},
		{"not TLS", "https://a.test:80/v1", "tls", "", false},
		{"closes before headers", "", "reset", "closed", true},
		{"resets before headers", "", "reset", "reset", true},
		{"closes at once", "http://closer.test:80/v1", "reset", "", true},
	} {
		for _, way := range callings {
			t.Run(c.name+"/"+way.name, func(t *testing.T) {
				inScene(t, setting{dialect: way.dialect}, func(w *scene) {
					w.up["A"].plays((*exchange).cut)
					if strings.HasPrefix(c.name, "resets") {
						w.up["A"].plays((*exchange).rst)
					}
					defer w.accepts("bad.test:443", func(c net.Conn) { _, _ = io.Copy(io.Discard, tls.Server(c, untrusted)) })()
					defer w.accepts("closer.test:80", func(net.Conn) {})()
					if c.url != "" {
						url := c.url
						if way.dialect == decision.Anthropic {
							url = strings.TrimSuffix(url, "/v1")
							w.reconfigure(`"http://a.test:80"`, `"`+url+`"`)
						} else {
							w.reconfigure(`"http://a.test:80/v1"`, `"`+url+`"`)
						}
					}
					g := w.call(way.path, way.body)
					if served(g) != "200 B degraded_completed" || g.header.Get("Failback-Reason") != c.class {
						w.Errorf("%s, reason %s: %s", served(g), g.header.Get("Failback-Reason"), g.body)
					}
					want := "A:" + c.class + " B:ok"
					if c.again {
						want = "A:" + c.class + " " + want
					}
					d := w.last()
					if classes(d) != want || !strings.Contains(d.Attempts[0].Detail, c.detail) {
						w.Errorf("attempts %s, want %s; detail %q", classes(d), want, d.Attempts[0].Detail)
					}
					if strings.Contains(fmt.Sprint(g.header, g.body, w.lines), ".test") || strings.Contains(fmt.Sprint(g.header, g.body, w.lines), ".invalid") {
						w.Errorf("a host is told: %v %s %s", g.header, g.body, w.lines)
					}
				})
			})
		}
	}
}

// FOV-08: each candidate gets its own path, model and credential, and nothing
// that belongs to another one, or to the client's account elsewhere.
func TestFOV08(t *testing.T) {
	for _, way := range callings {
		t.Run(way.name, func(t *testing.T) {
			s := setting{dialect: way.dialect, upstreams: map[string]string{"A": ", auth: api-key", "B": ", auth: bearer"}}
			inScene(t, s, func(w *scene) {
				w.reconfigure("upstream: A, model: x", "upstream: A, model: m-a", "upstream: B, model: x", "upstream: B, model: m-b", `"http://b.test:80`, `"http://b.test:80/openai`)
				w.up["A"].plays(status(503, `{}`, "Set-Cookie: session=of-A", "OpenAI-Organization: org-of-A"))
				w.up["B"].plays(func(e *exchange) { e.req.path = strings.TrimPrefix(e.req.path, "/openai"); ok(e) })
				g := w.call(way.path, way.body, "OpenAI-Organization", "o1", "OpenAI-Project", "p1", "X-Org", "o1", "Authorization", "Bearer of-client",
					"X-Api-Key", "of-client", "Api-Key", "of-client", "Cookie", "c=of-client", "Anthropic-Organization", "o1", "Forwarded", "for=of-client", "X-Forwarded-For", "of-client")
				if served(g) != "200 B degraded_completed" {
					w.Fatalf("%s: %s", served(g), g.body)
				}
				a, b := w.up["A"].heard()[0], w.up["B"].heard()[0]
				if want := "/openai" + way.path; b.path != want {
					w.Errorf("B was asked at %s, want %s", b.path, want)
				}
				for _, h := range []struct {
					heard
					model, name, key string
				}{{a, "m-a", "Api-Key", "key-of-A"}, {b, "m-b", "Authorization", "Bearer key-of-B"}} {
					if question(h.body).Model != h.model || h.header.Get(h.name) != h.key {
						w.Errorf("model %q, %s: %q", question(h.body).Model, h.name, h.header.Get(h.name))
					}
				}
				for name, values := range b.header {
					for _, foreign := range []string{"key-of-A", "of-client", "of-A", "o1", "p1", "m-a"} {
						if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, foreign) }) {
							w.Errorf("B saw %s: %q", name, values)
						}
					}
				}
				if strings.Contains(b.body, "m-a") || strings.Contains(fmt.Sprint(g.header), "of-A") {
					w.Errorf("B's body %s, the client's headers %v", b.body, g.header)
				}
			})
		})
	}
}

// FOV-09: when everything failed the status blames the upstreams, and who failed
// how is told by name and class.
func TestFOV09(t *testing.T) {
	for _, way := range callings {
		for _, c := range []struct {
			name, more string
			status     int
			asked      string
			attempts   string
		}{
			{"fail", "", 502, "A1 B0 C0", "A:credential"},
			{"switch", "errors: {credential: switch}\n", 504, "A1 B1 C1", "A:credential B:overloaded C:attempt_timeout"},
		} {
			t.Run(way.name+"/"+c.name, func(t *testing.T) {
				inScene(t, setting{dialect: way.dialect, more: c.more + "deadline: {unary: 5s, first_output: 5s}\n"}, func(w *scene) {
					w.up["A"].plays(status(401, `{"error":{"message":"bad key key-of-A of org-7","type":"authentication_error"}}`, "WWW-Authenticate: Bearer"))
					w.up["B"].plays(status(503, `{"error":{"message":"b.test is full"}}`))
					w.up["C"].plays((*exchange).hang)
					g := w.call(way.path, way.body)
					if g.status != c.status || w.asked() != c.asked || classes(w.last()) != c.attempts {
						w.Errorf("%d, asked %s, attempts %s", g.status, w.asked(), classes(w.last()))
					}
					if g.took > 5*time.Second {
						w.Errorf("it took %v", g.took)
					}
					for a := range strings.FieldsSeq(c.attempts) {
						name, class, _ := strings.Cut(a, ":")
						if !strings.Contains(g.body, name) || !strings.Contains(g.body, class) {
							w.Errorf("the body does not tell of %s: %s", a, g.body)
						}
					}
					if n := g.header.Get("Failback-Attempts"); n != fmt.Sprint(len(strings.Fields(c.attempts))) {
						w.Errorf("Failback-Attempts: %s", n)
					}
					if g.header.Get("X-Should-Retry") != "false" || g.header.Get("WWW-Authenticate") != "" {
						w.Errorf("headers %v", g.header)
					}
					for _, secret := range []string{"key-of", "org-7", ".test", "bad key"} {
						if strings.Contains(fmt.Sprint(g.header, g.body), secret) {
							w.Errorf("the client reads of %s: %v %s", secret, g.header, g.body)
						}
					}
					if envelope := strings.HasPrefix(g.body, `{"type":"error","error":{`); envelope != (way.dialect == decision.Anthropic) {
						w.Errorf("not the dialect's envelope: %s", g.body)
					}
				})
			})
		}
	}
}

// FOV-11: an upstream that takes requests and is silent costs each stream no
// more than the watchdog's limit, and keeps nothing.
func TestFOV11(t *testing.T) {
	for _, way := range callings {
		t.Run(way.name, func(t *testing.T) {
			inScene(t, setting{dialect: way.dialect, more: "unary_attempt: {floor: 2s}\nfirst_output: {floor: 1s, ceiling: 2s}\n"}, func(w *scene) {
				w.up["A"].plays((*exchange).hang)
				var mu sync.Mutex
				var took []time.Duration
				var all sync.WaitGroup
				wave := func() {
					for range 200 {
						all.Go(func() {
							g := w.call(way.path, way.body)
							mu.Lock()
							defer mu.Unlock()
							took = append(took, g.took)
							if served(g) != "200 B degraded_completed" {
								w.Errorf("%s: %s", served(g), g.body)
							}
						})
					}
					all.Wait()
				}
				wave()
				if worst := slices.Max(took); worst > 2100*time.Millisecond {
					w.Errorf("the slowest took %v", worst)
				}
				synctest.Wait()
				if n := w.up["A"].open(); n != 0 {
					w.Errorf("%d connections to A are open", n)
				}
				if w.asked() != "A200 B200 C0" {
					w.Errorf("asked %s", w.asked())
				}
				// The next ones do not wait for A at all.
				took = nil
				wave()
				if worst := slices.Max(took); worst != 0 || w.up["A"].asked() != 200 {
					w.Errorf("the slowest took %v, A was asked %d times", worst, w.up["A"].asked())
				}
			})
		})
	}
}

// FOV-12: a stream that shows nothing but signs of life is left for the next
// candidate, and not tried again.
func TestFOV12(t *testing.T) {
	for _, way := range callings {
		if !way.stream {
			continue
		}
		for name, beat := range map[string]string{
			"comments": ": ping\n\n",
			"pings":    "event: ping\ndata: {\"type\": \"ping\"}\n\n",
			"blank":    "\n",
			"created":  replyOf(strings.TrimPrefix(way.path, "/"), "A", false).preamble,
		} {
			t.Run(way.name+"/"+name, func(t *testing.T) {
				inScene(t, setting{dialect: way.dialect, more: "first_output: {floor: 1s, ceiling: 3s}\n"}, func(w *scene) {
					w.up["A"].plays(func(e *exchange) {
						e.sse()
						for e.wait(500 * time.Millisecond) {
							e.piece(beat)
						}
						e.done = true
					})
					g := w.call(way.path, way.body)
					if served(g) != "200 B degraded_completed" || g.took != 3*time.Second {
						w.Errorf("%s after %v: %s", served(g), g.took, g.body)
					}
					if w.asked() != "A1 B1 C0" || classes(w.last()) != "A:first_output_timeout B:ok" {
						w.Errorf("asked %s, attempts %s", w.asked(), classes(w.last()))
					}
				})
			})
		}
	}
}
