package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/gateway/wire"
	"failback/internal/bubble"
)

// CLS-02: a caller's own hurry, or its leaving, says nothing of the upstream.
func TestCLS02(t *testing.T) {
	slow := func(e *exchange) {
		e.wait(500 * time.Millisecond)
		ok(e)
	}
	for _, names := range [][]string{{"A"}, {"A", "B", "C"}} {
		for _, how := range []string{"Failback-Deadline-Ms", "X-Stainless-Timeout", "X-Stainless-Read-Timeout", "leaving"} {
			t.Run(fmt.Sprintf("%d candidates/%s", len(names), how), func(t *testing.T) {
				half := func(p path) bool { return p.secure == (len(names) == 1) }
				alongPaths(t, half, setting{names: names}, func(w *scene, p path) {
					for _, name := range names {
						w.up[name].plays(slow)
					}
					for range 10 {
						switch how {
						case "leaving":
							ctx, leave := context.WithTimeout(w.Context(), 100*time.Millisecond)
							w.callIn(ctx, p.ep.ClientPath(), p.body())
							leave()
							synctest.Wait()
						default:
							value := "0.1"
							if how == "Failback-Deadline-Ms" {
								value = "100"
							}
							g := w.ask(p, how, value)
							w.failed(p, g, 504)
							if g.took > 100*time.Millisecond {
								w.Errorf("it took %s", g.took)
							}
						}
						d := w.last()
						if d.WorkflowStatus != string(decision.Cancelled) || d.Reason != "caller_deadline" && how != "leaving" {
							w.Errorf("status %s, reason %s, attempts %s", d.WorkflowStatus, d.Reason, classes(d))
						}
					}
					w.answered(p, w.ask(p), "A")
					if b := w.bucket(p.bucket()); b.Failures != 0 || b.State != "closed" {
						w.Errorf("%d failures, %s", b.Failures, b.State)
					}
				})
			})
		}
	}
	// One that waited as long as A usually takes is not in a hurry.
	alongPaths(t, anyPath, setting{names: []string{"A"}}, func(w *scene, p path) {
		w.up["A"].plays(slow)
		for range 20 {
			w.ask(p)
		}
		w.up["A"].plays((*exchange).hang)
		w.ask(p, "Failback-Deadline-Ms", "700")
		if b := w.bucket(p.bucket()); b.Failures != 0 {
			w.Errorf("%d failures after 700 ms", b.Failures)
		}
		w.ask(p, "Failback-Deadline-Ms", "800")
		if b := w.bucket(p.bucket()); b.Failures != 1 {
			w.Errorf("%d failures after 800 ms", b.Failures)
		}
	})
}

// CLS-04: what a caller wrote and no upstream understands costs one request, or
// none where the gateway cannot read it, and a line of the log.
func TestCLS04(t *testing.T) {
	const most = 1 << 10
	quiet := func(w *scene, calls int) {
		w.Helper()
		for l := range strings.Lines(w.lines.String()) {
			if len(l) > 2*most {
				w.Errorf("a line of %d bytes: %s", len(l), l)
			}
		}
		if n := len(w.decisions()); n != calls {
			w.Errorf("%d decisions for %d calls", n, calls)
		}
	}
	many := func(w *scene, p path, body string) (gs [50]*got) {
		var asking sync.WaitGroup
		for i := range gs {
			asking.Go(func() { gs[i] = w.call(p.ep.ClientPath(), body) })
		}
		began := time.Now()
		res, err := w.hc.Get(w.base + "/healthz")
		if err != nil || res.StatusCode != http.StatusOK || time.Since(began) != 0 {
			w.Errorf("/healthz: %v after %s", err, time.Since(began))
		}
		if err == nil {
			_ = res.Body.Close()
		}
		asking.Wait()
		return gs
	}
	alongPaths(t, anyPath, setting{}, func(w *scene, p path) {
		// Broken arguments are a string as any other: they go through untouched.
		bad := strings.Replace(p.body(), `"model":"m"`, `"model":"m","history":[{"role":"assistant","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"a\":"}}]}]`, 1)
		theirs := `{"error":{"type":"invalid_request_error","message":"bad arguments","code":null,"param":null}}`
		if p.ep.Dialect() == decision.Anthropic {
			theirs = `{"type":"error","error":{"type":"invalid_request_error","message":"bad arguments"}}`
		}
		w.up["A"].plays(status(400, theirs))
		for _, g := range many(w, p, bad) {
			w.failed(p, g, 400)
			if g.body != theirs {
				w.Errorf("%s", g.body)
			}
		}
		if w.asked() != "A50 B0 C0" {
			w.Errorf("asked %s", w.asked())
		}
		for _, h := range w.up["A"].heard() {
			if want := strings.Replace(bad, `"model":"m"`, `"model":"x"`, 1); h.body != want {
				w.Errorf("A got %s, not %s", h.body, want)
			}
		}
		if b := w.bucket(p.bucket()); b.Failures != 0 {
			w.Errorf("%d failures", b.Failures)
		}
		quiet(w, 50)
		// What is no JSON at all reaches nobody.
		for _, g := range many(w, p, bad[:len(bad)-1]) {
			w.failed(p, g, 400)
		}
		if w.asked() != "A50 B0 C0" {
			w.Errorf("asked %s", w.asked())
		}
		quiet(w, 100)
		refused := 0
		for l := range strings.Lines(w.lines.String()) {
			if !strings.Contains(l, `"attempts":[]`) {
				continue
			}
			refused++
			if len(l) > most {
				w.Errorf("a line of %d bytes: %s", len(l), l)
			}
		}
		if refused != 50 {
			w.Errorf("%d lines without an attempt, not 50", refused)
		}
	})
}

// CLS-06: a failure inside a stream is A's failure, and no conversation is kept
// on A for its sake.
func TestCLS06(t *testing.T) {
	alongPaths(t, streamed, setting{}, func(w *scene, p path) {
		a := p.reply("A")
		failure, class := a.failure, "overloaded"
		if p.ep == wire.Responses {
			failure, class = event(`{"type":"response.failed","response":{"id":"resp_A","status":"failed","error":{"code":"server_error","message":"sorry"}}}`), "server_error"
		}
		w.up["A"].plays(func(e *exchange) {
			e.sse()
			e.piece(a.preamble + a.first + a.first + failure)
			e.end()
		})
		for i := range 5 {
			w.broken(p, w.ask(p, "Failback-Conversation", "c"), a.preamble+a.first+a.first)
			d := w.last()
			if d.WorkflowStatus != string(decision.Incomplete) || classes(d) != "A:"+class || d.Reason != class {
				w.Errorf("status %s, reason %s, attempts %s", d.WorkflowStatus, d.Reason, classes(d))
			}
			if n := w.gw.Counted("ai_model_attempts_total", map[string]string{"provider": "A", "class": class}); n != float64(i+1) {
				w.Errorf("%v attempts are counted", n)
			}
			if n := w.gw.Counted("ai_model_requests_total", map[string]string{"provider": "A", "outcome": "incomplete"}); n != float64(i+1) {
				w.Errorf("%v requests are counted", n)
			}
		}
		w.answered(p, w.ask(p, "Failback-Conversation", "c"), "B")
		if d := w.last(); w.asked() != "A5 B1 C0" || d.Reason != "breaker_open" {
			w.Errorf("asked %s, reason %s", w.asked(), d.Reason)
		}
		// What a failed response is called binds nothing to where it failed.
		if p.ep == wire.Responses {
			body := strings.Replace(p.body(), `"model":"m"`, `"model":"m","previous_response_id":"resp_B"`, 1)
			w.answered(p, w.call(p.ep.ClientPath(), body), "B")
		}
	})
}

// CLS-07: every failure has a class, whether it came with a status, without
// one, or was found by the gateway itself; what may follow goes by the class.
func TestCLS07(t *testing.T) {
	for _, c := range []struct {
		name    string
		play    func(*exchange) // nil: A refuses connections
		classes string
		asked   string
		fails   bool // where errors.credential is fail
	}{
		{"401", status(401, `{}`), "A:credential B:ok", "A1 B1 C0", true},
		{"403", status(403, `{}`), "A:credential B:ok", "A1 B1 C0", true},
		{"a key that a 400 calls bad", status(400, `{"error":{"message":"API key not valid. Please pass a valid API key."}}`), "A:credential B:ok", "A1 B1 C0", true},
		{"429", status(429, `{}`), "A:rate_limited B:ok", "A1 B1 C0", false},
		{"402", status(402, `{}`), "A:quota_exhausted B:ok", "A1 B1 C0", false},
		{"refused", nil, "A:connect A:connect B:ok", "A0 B1 C0", false},
		{"our own check", func(e *exchange) { e.answer(200, `{"object":"nothing"}`) }, "A:bad_response B:ok", "A1 B1 C0", false},
		{"a page", func(e *exchange) {
			e.raw("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>")
		}, "A:bad_response B:ok", "A1 B1 C0", false},
		{"446", status(446, `{}`), "A:unknown", "A1 B0 C0", true},
	} {
		for _, credential := range []string{"fail", "switch"} {
			t.Run(c.name+"/"+credential, func(t *testing.T) {
				half := func(p path) bool { return p.secure == (credential == "fail") }
				alongPaths(t, half, setting{more: "errors: {credential: " + credential + "}\n"}, func(w *scene, p path) {
					if c.play == nil {
						w.up["A"].refuses()
					} else {
						w.up["A"].plays(c.play)
					}
					g := w.ask(p)
					d := w.last()
					if c.fails && (credential == "fail" || strings.HasSuffix(c.classes, "unknown")) {
						w.failed(p, g, 502)
						if first, _, _ := strings.Cut(c.classes, " "); classes(d) != first || w.asked() != "A1 B0 C0" {
							w.Errorf("attempts %s, asked %s", classes(d), w.asked())
						}
						return
					}
					w.answered(p, g, "B")
					if classes(d) != c.classes || w.asked() != c.asked {
						w.Errorf("attempts %s, asked %s", classes(d), w.asked())
					}
				})
			})
		}
	}
}

// CLS-08: an open breaker is no reason to wait: the refusal comes at once and
// says when to come again.
func TestCLS08(t *testing.T) {
	alongPaths(t, anyPath, setting{names: []string{"A"}, more: "retry: {attempts: 5, base: 200ms}\n"}, func(w *scene, p path) {
		w.up["A"].plays(status(500, brokenBody))
		for range 5 {
			w.failed(p, w.ask(p), 502)
		}
		bubble.Sleep(4300 * time.Millisecond)
		b, asked, logged := w.bucket(p.bucket()), w.asked(), len(w.decisions())
		if b.State != "open" || b.NextProbeAt.IsZero() {
			w.Fatalf("A is %s", b.State)
		}
		g := w.ask(p)
		left := time.Until(b.NextProbeAt)
		seconds := strconv.Itoa(int((left + time.Second - 1) / time.Second))
		h := g.header
		if g.status != 503 || g.took != 0 || h.Get("Retry-After") != seconds || h.Get("Retry-After-Ms") != strconv.Itoa(int((left+time.Millisecond-1)/time.Millisecond)) || len(h["X-Should-Retry"]) > 0 {
			w.Errorf("%d after %s, a probe in %s: %v", g.status, g.took, left, h)
		}
		var r refusal
		if err := json.Unmarshal([]byte(g.body), &r); err != nil || r.Error.Message == "" {
			w.Errorf("%v: %s", err, g.body)
		}
		d := w.last()
		if len(w.decisions()) != logged+1 || w.asked() != asked || len(d.Attempts) != 0 || d.Reason != "breaker_open" || d.Route != "none" {
			w.Errorf("%d decisions more, asked %s, attempts %s, reason %s", len(w.decisions())-logged, w.asked(), classes(d), d.Reason)
		}
		if n := w.bucket(p.bucket()); n.State != "open" || !n.NextProbeAt.Equal(b.NextProbeAt) {
			w.Errorf("the refusal moved the probe to %v", n.NextProbeAt)
		}
	})
}
