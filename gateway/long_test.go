package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/internal/memnet"
)

// town is a gateway between clients and two upstreams, all in one bubble.
type town struct {
	*testing.T
	base     string
	hc       *http.Client
	one, two atomic.Int64 // what the upstreams saw
}

// inTown runs f where http://one and http://two are served as given, with both
// the candidates of "m", clients come over TLS and HTTP/2 if secure, and more
// is added to a configuration of defaults.
func inTown(t *testing.T, secure bool, more string, one, two http.HandlerFunc, f func(*town)) {
	t.Helper()
	dir := t.TempDir()
	tr := &http.Transport{}
	scheme := "http://"
	if secure {
		scheme = "https://"
		more += certificate(t, dir, tr)
	}
	synctest.Test(t, func(t *testing.T) {
		n := &memnet.Network{}
		w := &town{T: t, base: scheme + "gateway.test:80", hc: &http.Client{Transport: tr}}
		tr.DialContext = n.DialContext
		var running sync.WaitGroup
		defer running.Wait()
		for name, h := range map[string]struct {
			seen *atomic.Int64
			http.HandlerFunc
		}{"one": {&w.one, one}, "two": {&w.two, two}} {
			l, err := n.Listen(name + ".test:80")
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.seen.Add(1)
				h.ServeHTTP(w, r)
			})}
			defer s.Close()
			running.Go(func() { _ = s.Serve(l) })
		}
		yaml := fmt.Sprintf(`listen: "127.0.0.1:80"
data_dir: %q
drain_delay: 0s
telemetry: {decision_log: none}
upstreams:
  o1: {dialect: openai, base_url: "http://one.test:80/v1", api_key: k}
  o2: {dialect: openai, base_url: "http://two.test:80/v1", api_key: k}
  a1: {dialect: anthropic, base_url: "http://one.test:80", api_key: k}
  a2: {dialect: anthropic, base_url: "http://two.test:80", api_key: k}
models:
  m: {candidates: [{upstream: o1, weight: 9}, {upstream: o2, weight: 8}, {upstream: a1, weight: 7}, {upstream: a2, weight: 6}]}
%s`, dir, more)
		g := gateway.New(gateway.Options{
			DialContext: n.DialContext,
			Listen:      func(string, string) (net.Listener, error) { return n.Listen("gateway.test:80") },
			Load: func(ctx context.Context) (*config.Config, error) {
				return config.Load(ctx, config.Source{Data: []byte(yaml)})
			},
		})
		if err := g.StartAlone(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			tr.CloseIdleConnections()
			if err := g.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		f(w)
	})
}

// after waits for d, or less if the request ends.
func after(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// slowly answers whole requests after a pause, and streams with that pause
// after each of so many repetitions of their first output.
func slowly(pause time.Duration, times int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Stream bool
			Tools  []json.RawMessage
		}
		_ = json.NewDecoder(r.Body).Decode(&q)
		_, _ = io.Copy(io.Discard, r.Body)
		a := replyOf(strings.TrimPrefix(r.URL.Path, "/"), "one", len(q.Tools) > 0)
		if !q.Stream {
			after(r, pause)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, a.whole)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(s string) {
			fmt.Fprint(w, s)
			_ = http.NewResponseController(w).Flush()
			after(r, pause)
		}
		fmt.Fprint(w, a.preamble)
		for range times - 1 {
			send(a.first)
		}
		send(a.first)
		fmt.Fprint(w, a.rest)
	}
}

func unused(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }

func protocolOf(secure bool) string {
	if secure {
		return "HTTP2"
	}
	return "HTTP1"
}

// On default settings, with somebody else to go to, an answer may take 90 s and
// a stream five minutes, whatever the protocol and dialect.
func TestDefaultsBearSlowAnswers(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(protocolOf(secure), func(t *testing.T) {
			inTown(t, secure, "", slowly(90*time.Second, 1), unused, func(w *town) {
				for i, name := range []string{"chat", "responses", "messages"} {
					c := callNamed(name)
					start := time.Now()
					got, err := c.do(w.Context(), w.base, w.hc, "m")
					if err != nil || got != c.want("one") || time.Since(start) != 90*time.Second {
						w.Errorf("%s: %+v, %s after %s", name, got, errorText(err), time.Since(start))
					}
					if n := w.one.Load(); n != int64(i+1) || w.two.Load() != 0 {
						w.Errorf("%s: the upstreams saw %d and %d requests", name, n, w.two.Load())
					}
				}
			})
			const pause, times = 20 * time.Second, 15
			streams := []string{"chat-stream", "completion-stream", "responses-tool-stream"}
			inTown(t, secure, "", slowly(pause, times), unused, func(w *town) {
				for i, name := range streams {
					c := callNamed(name)
					start := time.Now()
					got, err := c.do(w.Context(), w.base, w.hc, "m")
					if name == "responses-tool-stream" {
						// Its last event repeats the answer, which here it cannot.
						if n := strings.Count(got.arguments, firstArguments); n != times || time.Since(start) != pause*times {
							w.Errorf("%s: %d pieces, %s after %s", name, n, errorText(err), time.Since(start))
						}
					} else if want := strings.Repeat(firstPiece, times) + secondPiece("one"); err != nil || got.text != want || got.finish != "stop" || got.out != outputOfOne || time.Since(start) != pause*times {
						w.Errorf("%s: %+v, %s after %s", name, got, errorText(err), time.Since(start))
					}
					if n := w.one.Load(); n != int64(i+1) || w.two.Load() != 0 {
						w.Errorf("%s: the upstreams saw %d and %d requests", name, n, w.two.Load())
					}
				}
			})
		})
	}
}

func callNamed(name string) call {
	for _, c := range calls {
		if c.name == name {
			return c
		}
	}
	panic("no call " + name)
}

// How long a stream may be silent is the configuration's to say: nothing on
// the client's side is shorter.
func TestAStreamMayPauseAsLongAsConfigured(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(protocolOf(secure), func(t *testing.T) {
			inTown(t, secure, "stream: {idle: 3m}\n", slowly(150*time.Second, 2), unused, func(w *town) {
				got, err := callNamed("chat-stream").do(w.Context(), w.base, w.hc, "m")
				if want := firstPiece + firstPiece + secondPiece("one"); err != nil || got.text != want {
					w.Errorf("%+v, %s", got, errorText(err))
				}
			})
		})
	}
}

// A client that says when it gives up hears of the failure before, or its SDK
// would send everything once more.
func TestAnErrorComesBeforeTheClientGivesUp(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		after(r, time.Hour)
	}
	for _, header := range []string{"X-Stainless-Timeout", "X-Stainless-Read-Timeout"} {
		for _, stream := range []string{"true", "false"} {
			inTown(t, false, "", silent, silent, func(w *town) {
				ctx, giveUp := context.WithTimeout(w.Context(), 30*time.Second)
				defer giveUp()
				q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[],"stream":`+stream+`}`))
				if err != nil {
					w.Fatal(err)
				}
				q.Header.Set(header, "30")
				start := time.Now()
				resp, err := w.hc.Do(q)
				if err != nil {
					w.Fatalf("%s, stream %s: %v", header, stream, err)
				}
				defer resp.Body.Close()
				if d := time.Since(start); resp.StatusCode != 504 || resp.Header.Get("X-Should-Retry") != "false" || d < 28*time.Second || w.one.Load() != 1 || w.two.Load() != 1 {
					w.Errorf("%s, stream %s: %d after %s, the upstreams saw %d and %d requests", header, stream, resp.StatusCode, d, w.one.Load(), w.two.Load())
				}
			})
		}
	}
}

const held = "tasks: {held: {fallback: any, release: complete}}\n"

// heldCall sends a streamed request of a held task and returns the frames as
// they came, each with its time, up to the end or the error.
func (w *town) heldCall(path string) (resp *http.Response, frames []string, at []time.Duration, err error) {
	w.Helper()
	q, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.base+path, strings.NewReader(`{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		w.Fatal(err)
	}
	q.Header.Set("Failback-Task", "held")
	q.Header.Set("X-Stainless-Read-Timeout", "30") // of silence, of which there is less
	start := time.Now()
	if resp, err = w.hc.Do(q); err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	var now strings.Builder
	for {
		line, err := lines.ReadString('\n')
		now.WriteString(line)
		if line == "\n" || err != nil && now.Len() > 0 {
			frames, at = append(frames, now.String()), append(at, time.Since(start))
			now.Reset()
		}
		if err == io.EOF {
			return resp, frames, at, nil
		}
		if err != nil {
			return resp, frames, at, err
		}
	}
}

// held answers: signs of life while the answer is made, also while another
// upstream makes it anew, then all of it, and in trailers what the head could
// not say.
func TestAHeldAnswerIsWhole(t *testing.T) {
	breaks := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		a := replyOf(strings.TrimPrefix(r.URL.Path, "/"), "one", false)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, a.preamble+a.first)
		_ = http.NewResponseController(w).Flush()
		after(r, 25*time.Second)
		panic(http.ErrAbortHandler)
	}
	answers := func(pause time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			a := replyOf(strings.TrimPrefix(r.URL.Path, "/"), "two", false)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, a.preamble+a.first)
			_ = http.NewResponseController(w).Flush()
			after(r, pause)
			fmt.Fprint(w, a.rest)
		}
	}
	for _, secure := range []bool{false, true} {
		for path, beat := range map[string]string{"/v1/chat/completions": ": keep-alive\n\n", "/v1/messages": "event: ping\ndata: {\"type\": \"ping\"}\n\n"} {
			t.Run(protocolOf(secure)+path, func(t *testing.T) {
				upstream, dialect := "o2", "openai"
				if path == "/v1/messages" {
					upstream, dialect = "a2", "anthropic"
				}
				whole := replyOf(strings.TrimPrefix(path, "/"), "two", false)
				want := whole.preamble + whole.first + whole.rest
				inTown(t, secure, held, breaks, answers(7*time.Second), func(w *town) {
					resp, frames, at, err := w.heldCall(path)
					if err != nil || len(frames) < 4 {
						w.Fatalf("%q, %v", frames, err)
					}
					for i := range 3 {
						if due := time.Duration(i+1) * 10 * time.Second; frames[i] != beat || at[i] != due {
							w.Errorf("frame %d is %q after %s, want a sign of life after %s", i, frames[i], at[i], due)
						}
					}
					if got := strings.Join(frames[3:], ""); got != want || at[3] != 32*time.Second {
						w.Errorf("after %s came\n%s\nwant\n%s", at[3], got, want)
					}
					if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("X-Request-Id") == "" {
						w.Errorf("%d %v", resp.StatusCode, resp.Header)
					}
					for name, want := range map[string]string{
						"Failback-Status": "degraded_completed", "Failback-Route": "fallback", "Failback-Upstream": upstream,
						"Failback-Substitute": "false", "Failback-Reason": "interrupted", "Failback-Attempts": "2",
					} {
						if got := resp.Trailer.Get(name); got != want {
							w.Errorf("trailer %s: %q, want %q", name, got, want)
						}
					}
					if w.one.Load() != 1 || w.two.Load() != 1 {
						w.Errorf("the upstreams saw %d and %d requests", w.one.Load(), w.two.Load())
					}
				})
				// What is whole before the first sign of life says all in its head.
				inTown(t, secure, held, answers(7*time.Second), unused, func(w *town) {
					resp, frames, at, err := w.heldCall(path)
					if got := strings.Join(frames, ""); err != nil || got != want || at[0] != 7*time.Second {
						w.Errorf("%s: %q, %v", dialect, got, err)
					}
					if resp.Header.Get("Failback-Route") != "primary" || resp.Header.Get("Failback-Status") != "completed" {
						w.Errorf("%v", resp.Header)
					}
				})
				// After a sign of life a failure is one error event without the
				// dialect's own end, and trailers that say what happened.
				inTown(t, secure, held, breaks, breaks, func(w *town) {
					resp, frames, _, err := w.heldCall(path)
					if err != nil {
						w.Errorf("the trailers were lost: %v", err)
					}
					if resp.Trailer.Get("Failback-Status") != "unavailable" || resp.Trailer.Get("Failback-Route") != "none" || resp.Trailer.Get("Failback-Reason") != "interrupted" {
						w.Errorf("trailers %v", resp.Trailer)
					}
					if len(frames) != 6 || strings.Join(frames[:5], "") != strings.Repeat(beat, 5) {
						w.Fatalf("%q", frames)
					}
					last := frames[5]
					if !strings.Contains(last, `"error"`) || !strings.HasSuffix(last, "}\n\n") || strings.Contains(last, firstPiece) {
						w.Errorf("the last frame is %q", last)
					}
					for _, attempt := range []string{`{"upstream":"` + dialect[:1] + `1","class":"interrupted"}`, `{"upstream":"` + dialect[:1] + `2","class":"interrupted"}`} {
						if !strings.Contains(last, attempt) {
							w.Errorf("no %s in %q", attempt, last)
						}
					}
					if resp.StatusCode != 200 {
						w.Errorf("status %d", resp.StatusCode)
					}
				})
			})
		}
	}
}

// A client that leaves, and one that stays and does not read, hold no upstream.
func TestAClientThatDoesNotReadHoldsNobody(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(protocolOf(secure), func(t *testing.T) {
			var ended chan time.Duration // gets how long the upstream's request lasted
			pours := func(w http.ResponseWriter, r *http.Request) {
				start := time.Now()
				_, _ = io.Copy(io.Discard, r.Body)
				a := replyOf(strings.TrimPrefix(r.URL.Path, "/"), "one", false)
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, a.preamble)
				for r.Context().Err() == nil {
					fmt.Fprint(w, strings.Repeat(a.first, 1000))
					_ = http.NewResponseController(w).Flush()
					after(r, 100*time.Millisecond)
				}
				ended <- time.Since(start)
			}
			for name, leaves := range map[string]bool{"leaves": true, "does not read": false} {
				inTown(t, secure, "", pours, unused, func(w *town) {
					ended = make(chan time.Duration, 1)
					ctx, leave := context.WithCancel(w.Context())
					defer leave()
					q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,"messages":[]}`))
					if err != nil {
						w.Fatal(err)
					}
					resp, err := w.hc.Do(q)
					if err != nil {
						w.Fatal(err)
					}
					defer resp.Body.Close()
					limit := 2 * time.Minute
					if leaves {
						time.AfterFunc(5*time.Second, leave)
						limit = 6 * time.Second
					}
					select {
					case d := <-ended:
						if d > limit {
							w.Errorf("a client that %s held its upstream for %s", name, d)
						}
					case <-time.After(limit + time.Minute):
						w.Errorf("a client that %s holds its upstream", name)
					}
				})
			}
		})
	}
}
