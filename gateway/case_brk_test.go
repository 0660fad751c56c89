package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
	"failback/internal/bubble"
)

// capability is the bucket of a way's requests.
func capability(stream bool) string {
	if stream {
		return "stream"
	}
	return "text"
}

// failing is an answer that counts against the bucket.
var failing = status(503, `{"error":{"message":"no"}}`)

// opens lets A fail until its bucket is open, and leaves it as the cooldown
// ends. The bucket's requests may go to B.
func (w *scene) opens(path, body, bucket string) {
	w.Helper()
	w.up["A"].plays(failing)
	for range 5 {
		w.call(path, body)
	}
	if b := w.bucket(bucket); b.State != "open" {
		w.Fatalf("after 5 failures %+v", b)
	}
	bubble.Sleep(time.Until(w.bucket(bucket).NextProbeAt))
	synctest.Wait()
}

// crowd makes n calls at once and tells of each.
func (w *scene) crowd(n int, path, body string, each func(*got)) *sync.WaitGroup {
	var all sync.WaitGroup
	var mu sync.Mutex
	for range n {
		all.Go(func() {
			g := w.call(path, body)
			mu.Lock()
			defer mu.Unlock()
			each(g)
		})
	}
	return &all
}

// BRK-02: a probe gives its permit back however it ends; afterwards a healthy
// upstream is back with the next ones. What a panic gives back is tested where
// one can be had, in the router.
func TestBRK02(t *testing.T) {
	for _, way := range callings {
		t.Run(way.name, func(t *testing.T) {
			s := setting{dialect: way.dialect, more: "breaker: {probes: 3}\n", upstreams: map[string]string{"A": ", limits: {concurrency: 3}"}}
			inScene(t, s, func(w *scene) {
				bucket := "A:" + capability(way.stream)
				w.opens(way.path, way.body, bucket)
				// Each of the three is out at once, and one more is refused.
				w.up["A"].plays((*exchange).hang)
				var out sync.WaitGroup
				leave, cancel := context.WithCancel(w.Context())
				out.Go(func() { w.callIn(leave, way.path, way.body) })
				out.Go(func() { w.call(way.path, way.body, "Failback-Deadline-Ms", "1000") })
				out.Go(func() { w.call(way.path, way.body, "X-Stainless-Timeout", "2") })
				synctest.Wait()
				if b := w.bucket(bucket); b.State != "half_open" || b.ProbesOut != 3 {
					w.Fatalf("%+v", b)
				}
				if g := w.call(way.path, way.body); served(g) != "200 B degraded_completed" {
					w.Errorf("beside three probes: %s", served(g))
				}
				cancel()
				out.Wait()
				synctest.Wait()
				if b := w.bucket(bucket); b.State != "half_open" || b.ProbesOut != 0 {
					w.Fatalf("after a cancel and two deadlines of clients: %+v", b)
				}
				// A caller's mistake is no verdict either.
				w.up["A"].plays(status(400, `{"error":{"message":"bad","type":"invalid_request_error"}}`))
				for range 4 {
					if g := w.call(way.path, way.body); g.status != 400 {
						w.Errorf("%s", served(g))
					}
				}
				w.up["A"].plays(ok)
				asked := w.up["A"].asked()
				for range 60 {
					if g := w.call(way.path, way.body); g.status != 200 {
						w.Errorf("%s", served(g))
					}
					bubble.Sleep(time.Second)
				}
				if b := w.bucket(bucket); b.State != "closed" || w.up["A"].asked()-asked != 60 {
					w.Errorf("%+v, A was asked %d times of 60", b, w.up["A"].asked()-asked)
				}
			})
		})
	}
}

// BRK-03: while a probe hangs nobody follows it; the rest is served elsewhere
// at once.
func TestBRK03(t *testing.T) {
	for _, way := range callings {
		for _, probes := range []int{1, 3} {
			if probes > 1 && way.path != chatPath {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", way.name, probes), func(t *testing.T) {
				s := setting{dialect: way.dialect, more: fmt.Sprintf("breaker: {probes: %d}\nunary_attempt: {floor: 10s}\nfirst_output: {ceiling: 10s}\n", probes)}
				inScene(t, s, func(w *scene) {
					w.opens(way.path, way.body, "A:"+capability(way.stream))
					var at atOnce
					w.up["A"].plays(at.counts((*exchange).hang))
					before := w.up["A"].asked()
					var slow atomic.Int64
					var waves []*sync.WaitGroup
					for range 12 { // seconds: a probe hangs for 10
						waves = append(waves, w.crowd(100, way.path, way.body, func(g *got) {
							if served(g) != "200 B degraded_completed" {
								w.Errorf("%s: %s", served(g), g.body)
							}
							if g.took > 0 {
								slow.Add(1)
							}
						}))
						bubble.Sleep(time.Second)
					}
					for _, wave := range waves {
						wave.Wait()
					}
					// The next probe is at least 15 s after it.
					if n := w.up["A"].asked() - before; at.most != probes || n != probes || slow.Load() != int64(probes) {
						w.Errorf("%d at a time, %d probes, %d slow requests", at.most, n, slow.Load())
					}
				})
			})
		}
	}
	// With nobody else the rest is refused at once.
	inScene(t, setting{names: []string{"A"}, more: "deadline: {unary: 10s}\n"}, func(w *scene) {
		w.up["A"].plays((*exchange).hang)
		for range 5 {
			w.chat()
		}
		bubble.Sleep(time.Until(w.bucket("A:text").NextProbeAt) + time.Second)
		var at atOnce
		w.up["A"].plays(at.counts((*exchange).hang))
		refused := 0
		w.crowd(100, chatPath, chatBody, func(g *got) {
			if g.took == 0 && g.status == 503 && g.header.Get("Retry-After") != "" {
				refused++
			}
		}).Wait()
		if at.most != 1 || refused != 99 {
			w.Errorf("%d at a time, %d refused at once", at.most, refused)
		}
	})
}

// BRK-05: a probe that ends with something neutral proves nothing: half-open
// it stays, and the next request probes.
func TestBRK05(t *testing.T) {
	for _, way := range callings {
		for _, c := range []struct {
			name, body string
			status     int
			again      time.Duration // when the next request probes
		}{
			{"mistake", `{"error":{"message":"bad","type":"invalid_request_error"}}`, 400, 0},
			{"too large", `{"error":{"message":"bad","type":"invalid_request_error"}}`, 413, 0},
			{"filtered", `{"error":{"message":"no","code":"content_policy_violation","type":"invalid_request_error"}}`, 400, 0},
			// It cools the model at this upstream for a while, and not the bucket.
			{"model gone", `{"error":{"message":"no such model","code":"model_not_found","type":"invalid_request_error"}}`, 404, time.Hour},
		} {
			t.Run(way.name+"/"+c.name, func(t *testing.T) {
				inScene(t, setting{dialect: way.dialect}, func(w *scene) {
					bucket := "A:" + capability(way.stream)
					w.opens(way.path, way.body, bucket)
					w.up["A"].plays(status(c.status, c.body))
					for i := range 3 {
						before := w.up["A"].asked()
						w.call(way.path, way.body)
						if b := w.bucket(bucket); b.State != "half_open" || b.ProbesOut != 0 || w.up["A"].asked() != before+1 {
							w.Fatalf("call %d: %d requests, %+v", i, w.up["A"].asked()-before, b)
						}
						bubble.Sleep(c.again)
					}
					w.up["A"].plays(ok)
					if g := w.call(way.path, way.body); served(g) != "200 A completed" {
						w.Errorf("%s", served(g))
					}
					if b := w.bucket(bucket); b.State != "ramping" {
						w.Errorf("%+v", b)
					}
				})
			})
		}
	}
}

// transitions are those of a bucket so far: "closed>open:consecutive".
func (w *scene) transitions(bucket string) (ts []string) {
	w.Helper()
	for _, e := range w.events("breaker_transition") {
		if e.Provider+":"+e.Capability == bucket {
			ts = append(ts, e.From+">"+e.To+":"+e.Reason)
		}
	}
	return ts
}

// events are those logged of one kind, oldest first.
func (w *scene) events(kind string) (es []api.Event) {
	w.Helper()
	w.logged()
	for l := range strings.Lines(w.lines.String()) {
		var e api.Event
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			w.Fatalf("a line of the log: %v: %s", err, l)
		}
		if e.Event == kind {
			es = append(es, e)
		}
	}
	return es
}

// BRK-06: the first failed probe reopens and arms the next one, however many
// succeed besides it and however few samples there are.
func TestBRK06(t *testing.T) {
	for _, way := range callings {
		t.Run(way.name, func(t *testing.T) {
			bucket := "A:" + capability(way.stream)
			inScene(t, setting{dialect: way.dialect, more: "breaker: {min_samples: 10, probes: 4}\n"}, func(w *scene) {
				w.opens(way.path, way.body, bucket)
				n := w.up["A"].asked()
				w.up["A"].plays(func(e *exchange) {
					if e.n == n+1 { // all four are out by then
						e.wait(500 * time.Millisecond)
						failing(e)
						return
					}
					e.wait(time.Second)
					ok(e)
				})
				w.crowd(4, way.path, way.body, func(g *got) {
					if g.status != 200 {
						w.Errorf("%s", served(g))
					}
				}).Wait()
				if asked := w.up["A"].asked() - n; asked != 4 {
					w.Errorf("%d probes, not 4", asked)
				}
				if b := w.bucket(bucket); b.State != "open" || time.Until(b.NextProbeAt) < 14*time.Second || time.Until(b.NextProbeAt) > 16*time.Second {
					w.Errorf("the next in %s: %+v", time.Until(b.NextProbeAt), b)
				}
			})
			inScene(t, setting{dialect: way.dialect}, func(w *scene) {
				w.opens(way.path, way.body, bucket)
				w.call(way.path, way.body)
				if b := w.bucket(bucket); b.State != "open" || time.Until(b.NextProbeAt) < 14*time.Second {
					w.Fatalf("%+v", b)
				}
				bubble.Sleep(time.Until(w.bucket(bucket).NextProbeAt))
				w.up["A"].plays(ok)
				if g := w.call(way.path, way.body); served(g) != "200 A completed" {
					w.Errorf("%s", served(g))
				}
				bubble.Sleep(3 * time.Second)
				want := "closed>open:consecutive open>half_open:cooldown_over half_open>open:probe_failed open>half_open:cooldown_over half_open>ramping:probes_ok ramping>closed:ramp_over"
				if got := strings.Join(w.transitions(bucket), " "); got != want {
					w.Errorf("%s, want %s", got, want)
				}
			})
		})
	}
}

// BRK-09: whatever kind of failure it is, the threshold is the same, for one
// candidate and for several.
func TestBRK09(t *testing.T) {
	late := func(code int, more string) func(*exchange) {
		return func(e *exchange) {
			if q := question(e.req.body); !q.Stream {
				e.answer(code, more)
				return
			}
			e.sse()
			e.piece("event: error\ndata: " + more + "\n\n")
			e.end()
		}
	}
	for _, c := range []struct {
		class string
		play  func(*exchange)
		again int // attempts more than requests: the first failure is tried again
	}{
		{"server_error", status(500, `{"error":{"message":"no"}}`), 1},
		{"server_error", status(502, `<html>`), 1},
		{"overloaded", status(529, `{"type":"error","error":{"type":"overloaded_error","message":"no"}}`), 0},
		{"overloaded", late(529, `{"type":"error","error":{"type":"overloaded_error","message":"no"}}`), 0},
		{"timeout", (*exchange).hang, 0},
		{"reset", (*exchange).cut, 1},
		{"bad_response", func(e *exchange) { e.answer(200, "") }, 0},
		{"bad_response", func(e *exchange) { e.answer(200, "{") }, 0},
	} {
		for _, way := range callings {
			for _, names := range [][]string{{"A"}, {"A", "B"}} {
				t.Run(fmt.Sprintf("%s/%s/%d", c.class, way.name, len(names)), func(t *testing.T) {
					s := setting{dialect: way.dialect, names: names, more: "unary_attempt: {floor: 3s}\nfirst_output: {ceiling: 3s}\ndeadline: {unary: 3s, first_output: 3s}\n"}
					if len(names) > 1 {
						s.more = strings.Replace(s.more, "deadline: {unary: 3s, first_output: 3s}\n", "", 1)
					}
					if c.class == "overloaded" {
						s.more += "retry: {max_wait: 0s}\n" // alone, it would be asked again after a back-off
					}
					inScene(t, s, func(w *scene) {
						w.up["A"].plays(c.play)
						var last *got
						for range 25 {
							last = w.call(way.path, way.body)
						}
						b := w.bucket("A:" + capability(way.stream))
						if b.State != "open" || b.Reason != "consecutive" {
							w.Errorf("%+v", b)
						}
						if n := w.up["A"].asked(); n != 5+c.again {
							w.Errorf("A was asked %d times, want %d", n, 5+c.again)
						}
						if len(names) > 1 {
							if served(last) != "200 B degraded_completed" {
								w.Errorf("%s", served(last))
							}
							return
						}
						seconds, err := strconv.Atoi(last.header.Get("Retry-After"))
						if last.status != 503 || last.header.Get("Failback-Reason") != "breaker_open" || last.took > 0 || err != nil || seconds < 1 || seconds > 15 {
							w.Errorf("%d after %v, %v", last.status, last.took, last.header)
						}
					})
				})
			}
		}
	}
}

// BRK-10: when the bucket opens, those that wait move at once; and how many may
// wait can be bounded.
func TestBRK10(t *testing.T) {
	for _, way := range callings {
		t.Run(way.name, func(t *testing.T) {
			// A fails one request after another, the first after 5 s.
			slowly := func(e *exchange) {
				if e.wait(5*time.Second + time.Duration(e.n)*100*time.Millisecond) {
					status(503, `{"error":{"message":"no"}}`)(e)
				}
			}
			inScene(t, setting{dialect: way.dialect}, func(w *scene) {
				w.up["A"].plays(slowly)
				w.crowd(200, way.path, way.body, func(g *got) {
					if served(g) != "200 B degraded_completed" || g.took > 5500*time.Millisecond {
						w.Errorf("%s after %v", served(g), g.took)
					}
				}).Wait()
				if b := w.bucket("A:" + capability(way.stream)); b.State != "open" {
					w.Errorf("%+v", b)
				}
			})
			s := setting{dialect: way.dialect, upstreams: map[string]string{"A": ", limits: {concurrency: 20}"}}
			inScene(t, s, func(w *scene) {
				var at atOnce
				w.up["A"].plays(at.counts(slowly))
				atOnce := 0
				w.crowd(200, way.path, way.body, func(g *got) {
					if served(g) != "200 B degraded_completed" || g.took > 5500*time.Millisecond {
						w.Errorf("%s after %v", served(g), g.took)
					}
					if g.took == 0 && g.header.Get("Failback-Reason") == "capacity" {
						atOnce++
					}
				}).Wait()
				if at.most != 20 || atOnce != 180 {
					w.Errorf("%d at a time at A, %d passed it by", at.most, atOnce)
				}
			})
			// Who may go nowhere else is not moved: A may still answer.
			s = setting{dialect: way.dialect, more: "retry: {max_switches: 0}\n"}
			inScene(t, s, func(w *scene) {
				w.up["A"].plays(func(e *exchange) {
					switch {
					case e.n > 10:
						e.wait(8 * time.Second)
						ok(e)
					case e.wait(5 * time.Second):
						failing(e)
					}
				})
				ends := map[string]int{}
				w.crowd(20, way.path, way.body, func(g *got) { ends[served(g)]++ }).Wait()
				if ends["200 A completed"] != 10 || ends["503  unavailable"] != 10 {
					w.Errorf("%v", ends)
				}
			})
		})
	}
}

// BRK-11: what is said of probes, in the reference and on the operator's
// screens, is what happens: so many at once, all of which must succeed, and no
// failure.
func TestBRK11(t *testing.T) {
	reference, err := os.ReadFile("../docs/configuration.md")
	if want := "Requests let through at a time while half-open. So many must succeed; one that fails opens it again."; err != nil || !strings.Contains(string(reference), want) {
		t.Errorf("the reference does not say %q: %v", want, err)
	}
	for _, probes := range []int{1, 3, 10} {
		for _, failed := range []int{0, 1} {
			t.Run(fmt.Sprintf("%d probes, %d fail", probes, failed), func(t *testing.T) {
				inScene(t, setting{more: fmt.Sprintf("breaker: {probes: %d}\n", probes)}, func(w *scene) {
					w.opens(chatPath, chatBody, "A:text")
					n, answer := w.up["A"].asked(), make(chan struct{})
					w.up["A"].plays(func(e *exchange) {
						<-answer
						if e.n == n+probes && failed > 0 {
							failing(e)
							return
						}
						if failed > 0 {
							e.wait(time.Second)
						}
						ok(e)
					})
					all := w.crowd(2*probes, chatPath, chatBody, func(g *got) {
						if g.status != 200 {
							w.Errorf("%s", served(g))
						}
					})
					synctest.Wait()
					if b := w.bucket("A:text"); b.State != "half_open" || b.Probes != probes || b.ProbesOut != probes || b.ProbesOK != 0 {
						w.Errorf("%+v", b)
					}
					close(answer)
					all.Wait()
					b := w.bucket("A:text")
					if want := []string{"ramping", "open"}[failed]; b.State != want {
						w.Errorf("%s, want %s: %+v", b.State, want, b)
					}
					if failed > 0 && !strings.Contains(b.Detail, fmt.Sprintf("1/%d probes failed", probes)) {
						w.Errorf("detail %q", b.Detail)
					}
				})
			})
		}
	}
	// One that succeeds is not yet all of them.
	inScene(t, setting{more: "breaker: {probes: 3}\n"}, func(w *scene) {
		w.opens(chatPath, chatBody, "A:text")
		w.up["A"].plays(ok)
		for i, want := range []string{"half_open", "half_open", "ramping"} {
			w.chat()
			if b := w.bucket("A:text"); b.State != want || b.State == "half_open" && b.ProbesOK != i+1 {
				w.Errorf("after %d: %+v", i+1, b)
			}
		}
	})
}

// BRK-13: with everybody open the answer is immediate, says why and when to
// come back, and so do log, metrics and state. A probe that is due is sent.
func TestBRK13(t *testing.T) {
	for _, way := range callings {
		t.Run(way.name, func(t *testing.T) {
			inScene(t, setting{dialect: way.dialect, names: []string{"A", "B"}}, func(w *scene) {
				for _, a := range w.up {
					a.plays(failing)
				}
				for range 6 {
					w.call(way.path, way.body)
				}
				before := w.asked()
				unserved := map[string]string{"provider": "none", "route": "none", "outcome": "unavailable"}
				blocked := func(name string) float64 {
					return w.gw.Counted("failback_breaker_blocked_total", map[string]string{"provider": name})
				}
				was := map[string]float64{"A": blocked("A"), "B": blocked("B"), "": w.gw.Counted("ai_model_requests_total", unserved)}
				g := w.call(way.path, way.body)
				answered := time.Now() // what is read of it below may take time
				if g.status != 503 || g.took > 0 || g.header.Get("Failback-Reason") != "breaker_open" || g.header.Get("Failback-Status") != "unavailable" ||
					g.header.Get("Failback-Route") != "none" || g.header.Get("Failback-Attempts") != "0" || g.header.Get("Retry-After") == "" || g.header.Get("X-Should-Retry") != "" {
					w.Errorf("%d after %v: %v", g.status, g.took, g.header)
				}
				if w.asked() != before {
					w.Errorf("asked %s, before %s", w.asked(), before)
				}
				d := w.last()
				if d.Reason != "breaker_open" || d.Route != "none" || len(d.Attempts) != 0 || len(d.Candidates) != 2 ||
					slices.ContainsFunc(d.Candidates, func(c api.DecisionCandidate) bool { return c.Skipped != "breaker_open" }) {
					w.Errorf("%+v", d)
				}
				due := math.Inf(1) // seconds to the first probe of either
				for _, name := range []string{"A", "B"} {
					b := w.bucket(name + ":" + capability(way.stream))
					if b.State != "open" || b.NextProbeAt.IsZero() {
						w.Errorf("%+v", b)
					}
					due = min(due, b.NextProbeAt.Sub(answered).Seconds())
					// It is asked first, and as a last resort: that is one request.
					if n := blocked(name) - was[name]; n != 1 {
						w.Errorf("%g blocked at %s", n, name)
					}
				}
				if n := w.gw.Counted("ai_model_requests_total", unserved) - was[""]; n != 1 {
					w.Errorf("%g are counted", n)
				}
				// The promise of Retry-After is kept, and is no later than it must be.
				seconds, err := strconv.Atoi(g.header.Get("Retry-After"))
				if want := int(math.Ceil(due)); err != nil || seconds != want {
					w.Errorf("Retry-After %q, the first probe is due in %d s", g.header.Get("Retry-After"), want)
				}
				bubble.Sleep(time.Until(answered.Add(time.Duration(seconds) * time.Second)))
				for _, a := range w.up { // whichever is due first
					a.plays(ok)
				}
				if g := w.call(way.path, way.body); g.status != 200 {
					w.Errorf("after %d s: %s", seconds, served(g))
				}
			})
		})
	}
}

// BRK-14: each round of an upstream that never succeeds costs the same.
func TestBRK14(t *testing.T) {
	for _, way := range callings {
		for _, code := range []int{503, 504} {
			t.Run(fmt.Sprintf("%s/%d", way.name, code), func(t *testing.T) {
				s := setting{dialect: way.dialect, more: "breaker: {consecutive: 3, cooldown: 5s, cooldown_max: 5s}\n"}
				inScene(t, s, func(w *scene) {
					bucket := "A:" + capability(way.stream)
					w.up["A"].plays(status(code, `{"error":{"message":"no"}}`))
					var rounds []int
					before := 0
					for range 90 {
						w.call(way.path, way.body)
						if n := w.up["A"].asked(); w.bucket(bucket).State == "open" && n > before {
							rounds = append(rounds, n-before)
							before = n
						}
						bubble.Sleep(time.Second / 3)
					}
					first := 3
					if code == 504 {
						first++ // the first failure of a kind is tried again
					}
					if rounds[0] != first || len(rounds) < 5 || slices.ContainsFunc(rounds[1:], func(n int) bool { return n != 1 }) {
						w.Errorf("%v", rounds)
					}
				})
			})
		}
	}
}

// BRK-15: answers that are good and too slow open the bucket, under the name of
// slow.
func TestBRK15(t *testing.T) {
	for _, way := range callings {
		t.Run(way.name, func(t *testing.T) {
			s := setting{dialect: way.dialect, more: "first_output: {mode: off}\nunary_attempt: {floor: 60s}\ndeadline: {first_output: 10m}\n"}
			inScene(t, s, func(w *scene) {
				after := func(d time.Duration) func(*exchange) {
					return func(e *exchange) {
						if e.wait(d) {
							ok(e)
						}
					}
				}
				w.up["A"].plays(after(time.Second))
				w.up["B"].plays(after(time.Second))
				var mu sync.Mutex
				var all sync.WaitGroup
				var took []time.Duration
				send := func(d time.Duration) {
					for range d / (200 * time.Millisecond) {
						all.Go(func() {
							g := w.call(way.path, way.body)
							mu.Lock()
							defer mu.Unlock()
							if g.status != 200 {
								w.Errorf("%s", served(g))
							}
							took = append(took, g.took)
						})
						bubble.Sleep(200 * time.Millisecond)
					}
				}
				send(30 * time.Second)
				w.up["A"].plays(after(25 * time.Second))
				send(25 * time.Second)
				all.Wait()
				b := w.bucket("A:" + capability(way.stream))
				if b.State == "closed" || b.Reason != "slow" {
					w.Errorf("%+v", b)
				}
				took = nil
				send(60 * time.Second)
				all.Wait()
				slices.Sort(took)
				if p50 := took[len(took)/2]; p50 != time.Second {
					w.Errorf("p50 %v", p50)
				}
				w.call(way.path, way.body)
				d := w.last()
				if d.Reason != string(decision.Slow) || d.SelectedProvider != "B" || !d.FallbackTriggered {
					w.Errorf("reason %s, %s", d.Reason, d.SelectedProvider)
				}
				if got := w.transitions("A:" + capability(way.stream)); len(got) == 0 || got[0] != "closed>open:slow" || slices.ContainsFunc(got, func(t string) bool { return strings.Contains(t, "failure") || strings.Contains(t, "consecutive") }) {
					w.Errorf("%v", got)
				}
			})
		})
	}
}
