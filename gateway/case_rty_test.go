package gateway_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"failback/gateway/decision"
	"failback/gateway/wire"
	"failback/internal/bubble"
)

// counted is what /metrics says of a provider's attempts.
func (w *scene) counted(provider string) int {
	return int(w.gw.Counted("ai_model_attempts_total", map[string]string{"provider": provider}))
}

// gaps are the times between the requests that a got.
func (a *actor) gaps() (ds []time.Duration) {
	hs := a.heard()
	for i := 1; i < len(hs); i++ {
		ds = append(ds, hs[i].at.Sub(hs[i-1].at))
	}
	return ds
}

// RTY-01: each wait is at least what the answer before it asked for.
func TestRTY01(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers []string // of A's answers in turn; then it answers
		gaps    []time.Duration
		status  int
		took    time.Duration // at least; 0: at once
		after   string        // Retry-After of the client's answer
	}{
		{"growing", []string{"Retry-After: 1", "Retry-After: 3", "Retry-After: 5"}, []time.Duration{1 * time.Second, 3 * time.Second, 5 * time.Second}, 200, 9 * time.Second, ""},
		{"shrinking", []string{"Retry-After: 4", "Retry-After: 3", "Retry-After: 1"}, []time.Duration{4 * time.Second, 3 * time.Second, 1 * time.Second}, 200, 8 * time.Second, ""},
		{"milliseconds", []string{"Retry-After-Ms: 1500", "Retry-After-Ms: 2500.5"}, []time.Duration{1500 * time.Millisecond, 2500 * time.Millisecond}, 200, 4 * time.Second, ""},
		{"a date", []string{"Date: Sat, 01 Jan 2000 00:00:00 GMT\r\nRetry-After: Sat, 01 Jan 2000 00:00:03 GMT"}, []time.Duration{3 * time.Second}, 200, 3 * time.Second, ""},
		{"too long", []string{"Retry-After: 30"}, nil, 429, 0, "30"},
		{"too long in sum", []string{"Retry-After: 9", "Retry-After: 12"}, []time.Duration{9 * time.Second}, 429, 9 * time.Second, "12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			more := "deadline: {first_output: 20s, unary: 20s}\n"
			alongPaths(t, anyPath, setting{names: []string{"A"}, more: more}, func(w *scene, p path) {
				for _, code := range []int{429, 503} {
					if code == 503 {
						if c.name == "shrinking" || c.name == "growing" {
							bubble.Sleep(11 * time.Minute) // whatever the 429s left behind is over
						} else {
							break
						}
					}
					before := w.up["A"].asked()
					w.up["A"].plays(func(e *exchange) {
						if i := e.n - before - 1; i < len(c.headers) {
							e.answer(code, `{"error":{"message":"busy"}}`, c.headers[i])
							return
						}
						ok(e)
					})
					g := w.ask(p)
					if c.status == 200 {
						w.answered(p, g, "A")
					} else {
						w.failed(p, g, c.status)
						if g.header.Get("Retry-After") != c.after {
							w.Errorf("Retry-After: %s, not %s", g.header.Get("Retry-After"), c.after)
						}
					}
					gaps := w.up["A"].gaps()[max(before-1, 0):]
					if before > 0 {
						gaps = gaps[1:]
					}
					if len(gaps) != len(c.gaps) {
						w.Fatalf("%d: waits of %v", code, gaps)
					}
					for i, least := range c.gaps {
						if gaps[i] < least || gaps[i] > least+4*time.Second {
							w.Errorf("%d: wait %d was %s, not %s", code, i, gaps[i], least)
						}
					}
					if g.took < c.took || c.took == 0 && g.took > 0 {
						w.Errorf("%d: it took %s", code, g.took)
					}
				}
			})
		})
	}
}

// RTY-04: there is one place that asks again, one number that bounds it, and
// what is counted is what the upstreams saw.
func TestRTY04(t *testing.T) {
	for _, c := range []struct {
		name  string
		names []string
		more  string
		play  func(*exchange)
		asked string
	}{
		{"500, alone", []string{"A"}, "retry: {attempts: 6}\n", status(500, brokenBody), "A2"},
		{"503, alone", []string{"A"}, "retry: {attempts: 6}\n", status(503, overloadBody), "A6"},
		{"503, once", []string{"A"}, "retry: {attempts: 1}\n", status(503, overloadBody), "A1"},
		{"500, everybody", nil, "", status(500, brokenBody), "A2 B1 C1"},
		{"500, everybody, two attempts", nil, "retry: {attempts: 2}\n", status(500, brokenBody), "A1 B1 C0"},
		{"500, everybody, nine attempts", nil, "retry: {attempts: 9}\n", status(500, brokenBody), "A2 B2 C2"},
		{"500, no switch", nil, "retry: {max_switches: 0}\n", status(500, brokenBody), "A2 B0 C0"},
		{"reset", nil, "", (*exchange).rst, "A2 B1 C1"},
		// A connection that was idle breaks when it is used again: net/http
		// would send a request with an idempotency key once more by itself.
		{"reset when used again", []string{"A"}, "", func(e *exchange) {
			if e.n == 1 {
				ok(e)
				return
			}
			e.rst()
		}, "A3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			half := func(p path) bool { return p.secure == (c.names == nil) }
			alongPaths(t, half, setting{names: c.names, more: c.more}, func(w *scene, p path) {
				for _, a := range w.up {
					a.plays(c.play)
				}
				calls := 1
				if c.asked == "A3" {
					calls = 2
				}
				attempts := 0
				for range calls {
					w.ask(p, "Idempotency-Key", "i", "X-Idempotency-Key", "i", "X-Stainless-Retry-Count", "1")
					attempts += len(w.last().Attempts)
				}
				if w.asked() != c.asked {
					w.Errorf("asked %s, not %s", w.asked(), c.asked)
				}
				saw := 0
				for name, a := range w.up {
					saw += a.asked()
					if n := w.counted(name); n != a.asked() {
						w.Errorf("%s saw %d, counted are %d", name, a.asked(), n)
					}
				}
				if saw != attempts || len(w.decisions()) != calls {
					w.Errorf("they saw %d of %d attempts in %d decisions", saw, attempts, len(w.decisions()))
				}
				if n := w.gw.Counted("failback_client_retries_total", nil); n != float64(calls) || w.last().ClientRetry != 1 {
					w.Errorf("%v of the client's own retries are counted", n)
				}
			})
		})
	}
}

// RTY-05: keys that are dead give way to the next at once and for nothing; when
// all are, it is not the caller's key that is blamed.
func TestRTY05(t *testing.T) {
	keys := map[string]string{"A": ", api_keys: [k1, k2, k3, k4, k5]"}
	key := func(e *exchange) string {
		return strings.TrimPrefix(e.req.header.Get("Authorization")+e.req.header.Get("X-Api-Key"), "Bearer ")
	}
	for _, attempts := range []int{1, 3} {
		for _, credential := range []string{"fail", "switch"} {
			t.Run(fmt.Sprintf("%d attempts/%s", attempts, credential), func(t *testing.T) {
				more := fmt.Sprintf("retry: {attempts: %d}\nerrors: {credential: %s}\n", attempts, credential)
				half := func(p path) bool { return p.secure == (credential == "fail") }
				alongPaths(t, half, setting{names: []string{"A"}, upstreams: keys, more: more}, func(w *scene, p path) {
					budget := w.gw.OperatorState().RetryBudget.Available
					w.up["A"].plays(func(e *exchange) {
						switch key(e) {
						case "k1", "k3":
							e.answer(401, `{}`)
						case "k2":
							e.answer(402, `{}`)
						case "k4":
							e.answer(403, `{}`)
						default:
							ok(e)
						}
					})
					g := w.ask(p)
					w.answered(p, g, "A")
					d := w.last()
					if want := "A:credential A:quota_exhausted A:credential A:credential A:ok"; g.took != 0 || classes(d) != want || d.WorkflowStatus != string(decision.Completed) {
						w.Errorf("%s after %s, status %s", classes(d), g.took, d.WorkflowStatus)
					}
					if now := w.gw.OperatorState().RetryBudget.Available; now < budget {
						w.Errorf("the retry budget went from %v to %v", budget, now)
					}
					if b := w.bucket(p.bucket()); b.Failures != 0 || b.State != "closed" {
						w.Errorf("%d failures, %s", b.Failures, b.State)
					}
					// The dead ones are not tried again.
					w.answered(p, w.ask(p), "A")
					if w.asked() != "A6" {
						w.Errorf("asked %s", w.asked())
					}
				})
				for _, code := range []int{401, 403} {
					alongPaths(t, half, setting{names: []string{"A"}, upstreams: keys, more: more}, func(w *scene, p path) {
						w.up["A"].plays(status(code, `{"error":{"message":"`+canary+`"}}`))
						g := w.ask(p)
						w.failed(p, g, 502)
						seen := map[string]bool{}
						for _, h := range w.up["A"].heard() {
							seen[key(&exchange{req: h})] = true
						}
						if g.took != 0 || w.asked() != "A5" || len(seen) != 5 || strings.Contains(g.body, canary) {
							w.Errorf("asked %s with %v: %s", w.asked(), seen, g.body)
						}
						if d := w.last(); d.Reason != "credential" || d.WorkflowStatus != string(decision.Unavailable) {
							w.Errorf("status %s, reason %s", d.WorkflowStatus, d.Reason)
						}
					})
				}
			})
		}
	}
	// With somebody else there, switch goes on and fail does not.
	for credential, asked := range map[string]string{"fail": "A5 B0 C0", "switch": "A5 B1 C0"} {
		alongPaths(t, anyPath, setting{upstreams: keys, more: "errors: {credential: " + credential + "}\n"}, func(w *scene, p path) {
			w.up["A"].plays(status(401, `{}`))
			if g := w.ask(p); credential == "switch" {
				w.answered(p, g, "B")
			} else {
				w.failed(p, g, 502)
			}
			if w.asked() != asked {
				w.Errorf("%s: asked %s", credential, w.asked())
			}
		})
	}
}

// RTY-07: what is wrong with a request is wrong everywhere; only a longer
// context may be tried where one is configured.
func TestRTY07(t *testing.T) {
	long := `{"error":{"type":"invalid_request_error","message":"This model's maximum context length is 8192 tokens","param":"messages","code":"context_length_exceeded"}}`
	for _, c := range []struct {
		name   string
		larger map[string]string
		asked  string
		who    string
	}{
		{"nobody larger", nil, "A1 B0 C0", ""},
		{"B is", map[string]string{"B": ", larger_context: true"}, "A1 B1 C0", "B"},
		{"C is", map[string]string{"C": ", larger_context: true"}, "A1 B0 C1", "C"},
	} {
		for _, inBand := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/in band=%t", c.name, inBand), func(t *testing.T) {
				alongPaths(t, anyPath, setting{candidates: c.larger}, func(w *scene, p path) {
					theirs := long
					if p.ep.Dialect() == decision.Anthropic {
						theirs = `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 200001 tokens > 200000 maximum"}}`
					}
					w.up["A"].plays(func(e *exchange) {
						switch {
						case !inBand:
							e.answer(400, theirs)
						case !p.stream:
							e.answer(200, theirs)
						case p.ep == wire.Messages:
							e.sse()
							e.piece(event(theirs))
							e.end()
						default:
							e.sse()
							e.piece(frame(theirs))
							e.end()
						}
					})
					g := w.ask(p)
					if w.asked() != c.asked {
						w.Errorf("asked %s", w.asked())
					}
					if c.who != "" {
						w.answered(p, g, c.who)
						return
					}
					w.failed(p, g, 400)
					if d := w.last(); g.body != theirs || d.WorkflowStatus != string(decision.Rejected) || d.Reason != "context_length" {
						w.Errorf("status %s, reason %s: %s", d.WorkflowStatus, d.Reason, g.body)
					}
				})
			})
		}
	}
	// Other mistakes go nowhere, whoever has a longer context.
	for _, code := range []int{400, 409, 413, 422} {
		alongPaths(t, anyPath, setting{candidates: map[string]string{"B": ", larger_context: true"}}, func(w *scene, p path) {
			theirs := `{"error":{"message":"theirs"}}`
			w.up["A"].plays(status(code, theirs))
			if g := w.ask(p); g.status != code || g.body != theirs || w.asked() != "A1 B0 C0" || g.header.Get("X-Should-Retry") != "false" {
				w.Errorf("%d: %d %s, asked %s", code, g.status, g.body, w.asked())
			}
		})
	}
}

// RTY-08: our own limit refuses once, at once, and says when there is room.
func TestRTY08(t *testing.T) {
	for _, c := range []struct {
		limits string
		after  int // seconds; what the client is told
	}{
		{"rps: 0.1", 10}, {"tpm: 40", 60}, {"rps: 0.1, tpm: 1000000", 10},
	} {
		for _, names := range [][]string{{"A"}, {"A", "B"}} {
			t.Run(fmt.Sprintf("%s/%d candidates", c.limits, len(names)), func(t *testing.T) {
				limits := map[string]string{"A": ", limits: {" + c.limits + "}", "B": ", limits: {" + c.limits + "}"}
				// The others use too few tokens to meet such a limit.
				want := func(p path) bool {
					return !strings.HasPrefix(c.limits, "tpm") || p.ep != wire.Embeddings && p.ep != wire.CountTokens
				}
				alongPaths(t, want, setting{names: names, upstreams: limits}, func(w *scene, p path) {
					for _, name := range names {
						w.answered(p, w.ask(p), name)
					}
					g := w.ask(p)
					d := w.last()
					after, err := strconv.Atoi(g.header.Get("Retry-After"))
					if err != nil || after < 1 || after > c.after || g.status != 503 || g.took != 0 || len(g.header["X-Should-Retry"]) > 0 {
						w.Errorf("%d after %s: %v", g.status, g.took, g.header)
					}
					if len(w.decisions()) != len(names)+1 || len(d.Attempts) != 0 || d.Reason != "capacity" {
						w.Errorf("%d decisions, attempts %s, reason %s", len(w.decisions()), classes(d), d.Reason)
					}
					if b := w.bucket(p.bucket()); b.Failures != 0 || b.State != "closed" {
						w.Errorf("%d failures, %s", b.Failures, b.State)
					}
					bubble.Sleep(time.Duration(after) * time.Second)
					w.answered(p, w.ask(p), "A")
				})
			})
		}
	}
}

// RTY-09: when everybody cools down, the client is told when the first is back.
func TestRTY09(t *testing.T) {
	names := []string{"A", "B"}
	alongPaths(t, anyPath, setting{names: names, more: "retry: {max_wait: 10s}\n"}, func(w *scene, p path) {
		w.up["A"].plays(status(429, limitBody, "Retry-After: 60"))
		w.up["B"].plays(status(429, limitBody, "Retry-After: 20"))
		g := w.ask(p)
		w.failed(p, g, 429)
		if g.header.Get("Retry-After") != "20" || w.asked() != "A1 B1" {
			w.Errorf("asked %s, %v", w.asked(), g.header)
		}
		limited := w.up["B"].heard()[0].at
		for _, then := range []struct {
			at    time.Duration
			after string
			ms    string
		}{{100 * time.Millisecond, "20", "19900"}, {500 * time.Millisecond, "20", "19500"}, {20*time.Second - time.Millisecond, "1", "1"}} {
			bubble.Sleep(time.Until(limited.Add(then.at)))
			g := w.ask(p)
			h := g.header
			if g.status != 429 && g.status != 503 || g.took != 0 || h.Get("Retry-After") != then.after || h.Get("Retry-After-Ms") != then.ms || len(h["X-Should-Retry"]) > 0 {
				w.Errorf("%d: %v", g.status, h)
			}
			if d := w.last(); len(d.Attempts) != 0 || d.Reason != "rate_limited" || w.asked() != "A1 B1" {
				w.Errorf("attempts %s, reason %s, asked %s", classes(d), d.Reason, w.asked())
			}
		}
		w.up["B"].plays(ok)
		bubble.Sleep(time.Until(limited.Add(20 * time.Second)))
		w.answered(p, w.ask(p), "B")
	})
	// The same for breakers that failures opened.
	alongPaths(t, anyPath, setting{names: names, upstreams: map[string]string{"A": ", breaker: {cooldown: 60s}", "B": ", breaker: {cooldown: 20s}"}}, func(w *scene, p path) {
		for _, name := range names {
			w.up[name].plays(status(504, `{}`))
		}
		for w.bucket(p.bucket()).State == "closed" || w.bucket(strings.Replace(p.bucket(), "A", "B", 1)).State == "closed" {
			w.failed(p, w.ask(p), 502)
			if w.up["B"].asked() > 100 {
				w.Fatal("no breaker opens")
			}
		}
		if g := w.ask(p); g.status != 503 || g.header.Get("Retry-After") != "20" || len(g.header["X-Should-Retry"]) > 0 {
			w.Errorf("%d: %v", g.status, g.header)
		}
	})
}

// RTY-10: the upstream's own word decides whether it is asked again, and
// nothing else.
func TestRTY10(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  int
		word  string
		names []string
		asked string
		who   string // then it answers
	}{
		{"503 false", 503, "false", []string{"A"}, "A1", ""},
		{"503 false, somebody else", 503, "false", nil, "A1 B1 C0", "B"},
		{"500 false, somebody else", 500, "false", nil, "A1 B1 C0", "B"},
		{"429 false", 429, "false", []string{"A"}, "A1", ""},
		{"409 true", 409, "true", nil, "A2 B0 C0", "A"},
		{"503 true", 503, "true", nil, "A2 B0 C0", "A"},
		{"400 true", 400, "true", nil, "A2 B0 C0", "A"},
		{"401 true", 401, "true", nil, "A1 B0 C0", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			alongPaths(t, anyPath, setting{names: c.names}, func(w *scene, p path) {
				w.up["A"].plays(func(e *exchange) {
					if e.n == 1 {
						e.answer(c.code, `{"error":{"message":"theirs"}}`, "X-Should-Retry: "+c.word)
						return
					}
					ok(e)
				})
				g := w.ask(p)
				if c.who != "" {
					w.answered(p, g, c.who)
				} else if g.status < 429 || g.header.Get("X-Should-Retry") != "false" {
					w.Errorf("%d: %v", g.status, g.header)
				}
				if w.asked() != c.asked {
					w.Errorf("asked %s", w.asked())
				}
			})
		})
	}
	// Said twice it is obeyed once, and is not what the client is told.
	alongPaths(t, anyPath, setting{}, func(w *scene, p path) {
		w.up["A"].plays(status(409, `{"error":{"message":"theirs"}}`, "X-Should-Retry: true"))
		g := w.ask(p)
		if g.status != 409 || g.header.Get("X-Should-Retry") != "false" || w.asked() != "A2 B0 C0" {
			w.Errorf("%d, asked %s: %v", g.status, w.asked(), g.header)
		}
	})
}

// RTY-12: what an attempt that failed leaves of its answer holds no connection.
func TestRTY12(t *testing.T) {
	large := `{"error":{"message":"` + strings.Repeat("x", 64<<10) + `"}}`
	more := "retry: {budget: {burst: 100000}}\nbreaker: {mode: shadow}\n"
	for _, c := range []struct {
		name string
		most int // connections to A ever
		play func(path) func(*exchange)
	}{
		{"500", 40, func(path) func(*exchange) { return status(500, large) }},
		{"500 without an end", 3000, func(path) func(*exchange) {
			return func(e *exchange) {
				e.raw("HTTP/1.1 500 x\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n" + large)
				e.hang()
			}
		}},
		{"an error in the answer", 40, func(p path) func(*exchange) {
			return func(e *exchange) {
				if !p.stream {
					e.answer(200, strings.Replace(large, "error", "errors", 1))
					return
				}
				e.sse()
				e.piece(p.reply("A").failure)
				e.end()
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			some := func(p path) bool {
				return p.ep == wire.ChatCompletions && !p.secure || p.ep == wire.Messages && p.secure
			}
			alongPaths(t, some, setting{more: more}, func(w *scene, p path) {
				w.up["A"].plays(c.play(p))
				times := 5
				if p == (path{ep: wire.ChatCompletions}) {
					times = 50
				}
				var asking sync.WaitGroup
				for range 20 {
					asking.Go(func() {
						for range times {
							w.answered(p, w.ask(p), "B")
						}
					})
				}
				asking.Wait()
				synctest.Wait()
				a := w.up["A"]
				// net/http dials for a request that waits, and may find a
				// connection for it that became idle meanwhile.
				if a.most > 2*20 || a.l.Dialed() > c.most || a.open() > 2*20 || w.up["B"].asked() != 20*times {
					w.Errorf("A: %d connections at most, %d in all, %d are open; B: %d requests", a.most, a.l.Dialed(), a.open(), w.up["B"].asked())
				}
			})
		})
	}
}

// RTY-13: an upstream that speaks HTTP/2 and is going away loses no request,
// and none is sent but by the gateway itself.
func TestRTY13(t *testing.T) {
	for name, refuse := range map[string]func(*h2exchange){
		"REFUSED_STREAM":      func(e *h2exchange) { e.reset(http2.ErrCodeRefusedStream) },
		"GOAWAY":              func(e *h2exchange) { e.goAway(e.id - 2) },
		"GOAWAY, then closed": func(e *h2exchange) { e.goAway(e.id - 2); e.cut() },
	} {
		for _, size := range []int{1 << 10, 20 << 20} {
			want, calls := func(p path) bool { return p.secure == (name == "GOAWAY") }, 30
			if size > 1<<20 {
				want, calls = func(p path) bool { return p == path{ep: wire.ChatCompletions, stream: name == "GOAWAY"} }, 3
			}
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				alongPaths(t, want, setting{http2: true}, func(w *scene, p path) {
					w.up["A"].playsH2(func(e *h2exchange) {
						if e.n%3 == 0 {
							refuse(e)
							return
						}
						okH2(e)
					})
					body := strings.Replace(p.body(), `"model":"m"`, `"model":"m","x":"`+strings.Repeat("x", size)+`"`, 1)
					attempts := 0
					for range calls {
						w.answered(p, w.call(p.ep.ClientPath(), body, "Idempotency-Key", "i"), "A")
						d := w.last()
						attempts += len(d.Attempts)
						if c := classes(d); c != "A:ok" && c != "A:refused A:ok" {
							w.Errorf("attempts %s", c)
						}
						if n := w.gw.Buffered(); n != 0 {
							w.Errorf("%d bytes are held", n)
						}
					}
					if n := w.up["A"].asked(); n != attempts || n != w.counted("A") || n != calls+n/3 {
						w.Errorf("A saw %d, made were %d, counted are %d", n, attempts, w.counted("A"))
					}
					if b := w.bucket(p.bucket()); b.Failures != 0 || w.up["B"].asked() != 0 {
						w.Errorf("%d failures, asked %s", b.Failures, w.asked())
					}
				})
			})
		}
	}
	// Who refuses twice is left, still without blame.
	alongPaths(t, anyPath, setting{http2: true}, func(w *scene, p path) {
		w.up["A"].playsH2(func(e *h2exchange) { e.reset(http2.ErrCodeRefusedStream) })
		w.answered(p, w.ask(p), "B")
		if d := w.last(); classes(d) != "A:refused A:refused B:ok" || w.bucket(p.bucket()).Failures != 0 {
			w.Errorf("attempts %s, %d failures", classes(d), w.bucket(p.bucket()).Failures)
		}
	})
	// Above what is kept for resending, the client is told before anybody is asked.
	alongPaths(t, anyPath, setting{http2: true, more: "max_request_bytes: 1MiB\n"}, func(w *scene, p path) {
		body := strings.Replace(p.body(), `"model":"m"`, `"model":"m","x":"`+strings.Repeat("x", 1<<20)+`"`, 1)
		if g := w.call(p.ep.ClientPath(), body); g.status != http.StatusRequestEntityTooLarge || w.asked() != "A0 B0 C0" {
			w.Errorf("%d, asked %s", g.status, w.asked())
		}
	})
}
