package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/wire"
)

// ending is how an attempt goes wrong: its class, and whether output was relayed
// before. Everything else follows.
type ending struct {
	class   decision.Class
	relayed bool
}

// blow is something that happens to a request at A, and the ending it is for
// streams and for whole answers. A form that it cannot happen to has no class.
type blow struct {
	name          string
	stream, whole ending
	status        int // A's own, where it goes back to the caller
	play          func(path) func(*exchange)
}

func (b blow) of(p path) ending {
	if p.stream {
		return b.stream
	}
	return b.whole
}

// fate is what becomes of a request.
type fate struct {
	status  int
	a, b    int
	outcome decision.Status
	reason  string
	classes string
	route   decision.Route
	failed  string // failed_provider
	blamed  int    // failures of A's bucket
	took    time.Duration
}

// follows is the fate of a request of which the same model is at A, B and C, on
// the defaults, when A ends it as e. It knows neither endpoint nor form nor
// protocol: that is the point.
func follows(e ending, theirs int) fate {
	f := fate{
		status: 200, a: 1, b: 1, outcome: decision.DegradedCompleted, route: decision.RouteFallback,
		reason: string(e.class), classes: "A:" + string(e.class), failed: "A",
	}
	switch e.class {
	case decision.Connect, decision.Reset, decision.ServerError:
		f.a, f.classes = 2, f.classes+" "+f.classes
	case decision.FirstOutputTimeout:
		f.took = 12 * time.Second
	case decision.AttemptTimeout:
		f.took = 120 * time.Second
	case decision.IdleTimeout:
		f.took = 30 * time.Second
	}
	if e.class.Blame() == decision.OfBucket {
		f.blamed = f.a
	}
	switch {
	case e.class == decision.OK:
		f.outcome, f.route, f.reason, f.failed = decision.Completed, decision.RoutePrimary, string(decision.PrimaryCompleted), ""
	case e.relayed:
		f.outcome, f.route = decision.Incomplete, decision.RoutePrimary
	case e.class == decision.InvalidRequest:
		f.outcome, f.route, f.status = decision.Rejected, decision.RouteNone, theirs
	case e.class == decision.Credential, e.class == decision.Unknown:
		f.outcome, f.route, f.status = decision.Unavailable, decision.RouteNone, 502
	default:
		f.classes += " B:ok"
		return f
	}
	f.b = 0
	return f
}

// says answers with a status and an error in the dialect of p.
func says(code int, kind, theirCode string, headers ...string) func(path) func(*exchange) {
	return func(p path) func(*exchange) { return status(code, errorOf(p, kind, theirCode), headers...) }
}

func errorOf(p path, kind, code string) string {
	if p.ep.Dialect() == decision.Anthropic {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"%s"}}`, kind, canary)
	}
	return fmt.Sprintf(`{"error":{"message":"%s","type":%q,"param":null,"code":%q}}`, canary, kind, code)
}

// streams begins an answer in the form of p, gives out before, what comes before
// output, or after, what comes until after it, and then does then.
func streams(after bool, then func(path, *exchange)) func(path) func(*exchange) {
	return func(p path) func(*exchange) {
		return func(e *exchange) {
			a := p.reply("A")
			kind, part := "text/event-stream", a.preamble
			switch {
			case !p.stream && after:
				kind, part = "application/json", a.whole[:len(a.whole)/2]
			case !p.stream:
				kind, part = "application/json", ""
			case after:
				part += a.first
			}
			e.raw("HTTP/1.1 200 OK\r\nContent-Type: " + kind + "\r\nTransfer-Encoding: chunked\r\n\r\n")
			if part != "" {
				e.piece(part)
			}
			then(p, e)
		}
	}
}

// announced answers well, with a length that is too large, or else ends within
// the second output.
func announced(large bool) func(path) func(*exchange) {
	return func(p path) func(*exchange) {
		return func(e *exchange) {
			a := p.reply("A")
			kind, body, length := "application/json", a.whole, len(a.whole)/2
			if p.stream {
				kind, body, length = "text/event-stream", a.preamble+a.first+a.rest, len(a.preamble+a.first)+20
			}
			if large {
				length = len(body) + 100
			}
			e.raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, length, body))
			e.cut()
		}
	}
}

// both is a blow that is the same to streams and to whole answers.
func both(name string, c decision.Class, play func(path) func(*exchange)) blow {
	return blow{name: name, stream: ending{class: c}, whole: ending{class: c}, play: play}
}

func blows() []blow {
	always := func(f func(*exchange)) func(path) func(*exchange) { return func(path) func(*exchange) { return f } }
	plainly := func(kind, body string) func(path) func(*exchange) {
		return always(func(e *exchange) {
			e.raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, len(body), body))
		})
	}
	bad := ending{class: decision.BadResponse}
	mistake := both("400", decision.InvalidRequest, says(400, "invalid_request_error", "invalid_value"))
	mistake.status = 400
	refused := both("refused", decision.Connect, nil)
	relayed := func(c decision.Class) ending { return ending{class: c, relayed: true} }
	return []blow{
		both("none", decision.OK, always(ok)),
		refused,
		both("rst before an answer", decision.Reset, always((*exchange).rst)),
		both("closed before an answer", decision.Reset, always((*exchange).cut)),
		{"hang", ending{class: decision.FirstOutputTimeout}, ending{class: decision.AttemptTimeout}, 0, always((*exchange).hang)},
		both("503", decision.Overloaded, says(503, "overloaded_error", "server_is_overloaded")),
		both("503, not a word", decision.Overloaded, always(status(503, ""))),
		both("529", decision.Overloaded, says(529, "overloaded_error", "server_is_overloaded")),
		both("500", decision.ServerError, says(500, "api_error", "server_error")),
		both("502 with a page", decision.ServerError, always(status(502, "<html>bad gateway</html>"))),
		both("429", decision.RateLimited, says(429, "rate_limit_error", "rate_limit_exceeded")),
		both("429, Retry-After", decision.RateLimited, says(429, "rate_limit_error", "rate_limit_exceeded", "Retry-After: 2")),
		both("429, a long Retry-After", decision.RateLimited, says(429, "rate_limit_error", "rate_limit_exceeded", "Retry-After: 3600")),
		both("401", decision.Credential, says(401, "authentication_error", "invalid_api_key")),
		both("403", decision.Credential, says(403, "permission_error", "access_terminated")),
		both("402", decision.QuotaExhausted, says(402, "billing_error", "insufficient_quota")),
		both("429, insufficient_quota", decision.QuotaExhausted, func(p path) func(*exchange) {
			return status(429, `{"type":"error","error":{"type":"insufficient_quota","message":"x","code":"insufficient_quota","details":{"error_code":"enforced_spend_limit_reached"}}}`)
		}),
		mistake,
		both("404", decision.ModelGone, says(404, "not_found_error", "model_not_found")),
		both("302", decision.Unknown, always(status(302, "", "Location: http://b.test:80/"))),
		both("200 with an error", decision.Overloaded, func(p path) func(*exchange) {
			return status(200, errorOf(p, "overloaded_error", "server_is_overloaded"))
		}),
		both("200 with a page", decision.BadResponse, plainly("text/html", "<html></html>")),
		both("200 with a page that says it is JSON", decision.BadResponse, plainly("application/json", "<html></html>")),
		both("200 with nothing", decision.BadResponse, plainly("application/json", "")),
		both("200 with nothing, chunked", decision.BadResponse, always(func(e *exchange) { e.sse(); e.end() })),
		both("200 with cut JSON", decision.BadResponse, func(p path) func(*exchange) {
			whole := p.reply("A").whole
			return plainly("application/json", whole[:len(whole)-1])(p)
		}),
		both("no HTTP", decision.BadResponse, always(func(e *exchange) { e.raw("SSH-2.0-x\r\n\r\n"); e.hang() })),
		{"in-band error before output", ending{class: decision.Overloaded}, ending{}, 0, streams(false, func(p path, e *exchange) {
			e.piece(p.reply("A").failure)
			e.end()
		})},
		{"in-band error after output", relayed(decision.Overloaded), ending{}, 0, streams(true, func(p path, e *exchange) {
			e.piece(p.reply("A").failure)
			e.end()
		})},
		{"cut before output", ending{class: decision.Reset}, ending{class: decision.Reset}, 0, streams(false, func(_ path, e *exchange) { e.cut() })},
		{"rst before output", ending{class: decision.Reset}, ending{class: decision.Reset}, 0, streams(false, func(_ path, e *exchange) { e.rst() })},
		{"cut after output", relayed(decision.Interrupted), bad, 0, streams(true, func(_ path, e *exchange) { e.cut() })},
		{"rst after output", relayed(decision.Interrupted), bad, 0, streams(true, func(_ path, e *exchange) {
			e.wait(time.Millisecond) // a reset destroys what was not read yet
			e.rst()
		})},
		{"silent before output", ending{class: decision.FirstOutputTimeout}, ending{class: decision.AttemptTimeout}, 0, streams(false, func(_ path, e *exchange) { e.hang() })},
		{"silent after output", relayed(decision.IdleTimeout), ending{class: decision.AttemptTimeout}, 0, streams(true, func(_ path, e *exchange) { e.hang() })},
		{"an end before output", ending{class: decision.Interrupted}, bad, 0, streams(false, func(_ path, e *exchange) { e.end() })},
		{"an end after output", relayed(decision.Interrupted), bad, 0, streams(true, func(_ path, e *exchange) { e.end() })},
		{"an announced length too large", ending{class: decision.OK}, bad, 0, announced(true)},
		{"an announced length too small", relayed(decision.Interrupted), bad, 0, announced(false)},
		{"a malformed frame before output", bad, bad, 0, streams(false, func(_ path, e *exchange) {
			e.piece("data: {\"oops\": nothing}\n\n")
			e.end()
		})},
		{"a malformed frame after output", relayed(decision.BadResponse), bad, 0, streams(true, func(_ path, e *exchange) {
			e.piece("data: {\"oops\": nothing}\n\n")
			e.end()
		})},
	}
}

// What becomes of a request does not depend on the endpoint, the form of its
// answer or the version of HTTP by which it came.
func TestEveryPathAlike(t *testing.T) {
	for i, b := range blows() {
		if testing.Short() && i%4 != 0 {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			possible := func(p path) bool { return b.of(p).class != "" }
			alongPaths(t, possible, setting{}, func(w *scene, p path) {
				want := follows(b.of(p), b.status)
				if b.play == nil {
					w.up["A"].refuses()
					want.a = 0
				} else {
					w.up["A"].plays(b.play(p))
				}
				g := w.ask(p)
				d := w.last()
				got := fate{
					status: g.status, a: w.up["A"].asked(), b: w.up["B"].asked(), outcome: decision.Status(d.WorkflowStatus),
					reason: d.Reason, classes: classes(d), route: decision.Route(d.Route), failed: d.FailedProvider,
					blamed: w.bucket(p.bucket()).Failures, took: g.took.Truncate(time.Second),
				}
				if got != want {
					w.Errorf("\n got %+v\nwant %+v", got, want)
				}
				switch want.outcome {
				case decision.Completed:
					w.answered(p, g, "A")
				case decision.DegradedCompleted:
					w.answered(p, g, "B")
				case decision.Incomplete:
					w.broken(p, g, p.reply("A").preamble+p.reply("A").first)
				default:
					w.failed(p, g, want.status)
				}
				w.recorded(p, g, want)
			})
		})
	}
}

// recorded checks that logs, counters and headers tell of the same.
func (w *scene) recorded(p path, g *got, want fate) {
	w.Helper()
	d := w.last()
	attempts := len(d.Attempts)
	if n := int(w.gw.Counted("ai_model_attempts_total", nil)); n != attempts || w.up["C"].asked() != 0 || len(w.decisions()) != 1 {
		w.Errorf("%d attempts, counted are %d, %d decisions", attempts, n, len(w.decisions()))
	}
	provider := d.SelectedProvider
	if provider == "" {
		provider = decision.NoProvider
	}
	labels := map[string]string{"model": "m", "provider": provider, "route": string(want.route), "outcome": string(want.outcome)}
	if n := w.gw.Counted("ai_model_requests_total", labels); n != 1 {
		w.Errorf("%v requests are counted as %v", n, labels)
	}
	if d.FallbackTriggered != (want.b > 0) || d.HTTPStatus != g.status || d.Endpoint != p.ep.String() || d.Stream != p.stream {
		w.Errorf("fallback %t, status %d, endpoint %s, stream %t", d.FallbackTriggered, d.HTTPStatus, d.Endpoint, d.Stream)
	}
	h := g.header
	if want.outcome != decision.Incomplete && (h.Get("Failback-Status") != string(want.outcome) || h.Get("Failback-Reason") != want.reason) || h.Get("Failback-Upstream") != d.SelectedProvider || h.Get("X-Request-Id") != d.RequestID {
		w.Errorf("%v", h)
	}
	if strings.Contains(g.body+fmt.Sprint(h), canary) != (want.outcome == decision.Rejected) && p.ep != wire.Responses {
		w.Errorf("the upstream's words: %v %s", h, g.body)
	}
	if strings.Contains(g.body, ".test") || strings.Contains(g.body, "key-of") {
		w.Errorf("the client is told of hosts or keys: %s", g.body)
	}
}

// Where the reason for which a model ended has come, its answer is whole,
// whatever becomes of the rest of the stream: the count of its tokens, the
// terminal event, the connection.
func TestFinishedIsWhole(t *testing.T) {
	ends := map[wire.Endpoint]string{
		wire.ChatCompletions: finishChunk,
		wire.Completions:     frame(`{"object":"text_completion","choices":[{"index":0,"text":"","finish_reason":"length"}]}`),
		wire.Messages:        event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`),
	}
	next := map[wire.Endpoint]string{
		wire.ChatCompletions: `data: {"object":"chat.completion.chunk","choices":[],"usa`,
		wire.Completions:     `data: {"object":"text_completion","choices":[],"usa`,
		wire.Messages:        "event: message_stop\ndata: {\"type\":\"mess",
	}
	for name, end := range map[string]func(*exchange){
		"end": (*exchange).end, "cut": (*exchange).cut, "silence": (*exchange).hang,
		"rst": func(e *exchange) { e.wait(time.Millisecond); e.rst() },
	} {
		for _, within := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/within a frame=%t", name, within), func(t *testing.T) {
				alongPaths(t, func(p path) bool { return p.stream && ends[p.ep] != "" }, setting{}, func(w *scene, p path) {
					a := p.reply("A")
					whole := a.preamble + a.first + ends[p.ep]
					w.up["A"].plays(func(e *exchange) {
						e.sse()
						e.piece(whole)
						if within {
							e.piece(next[p.ep])
						}
						end(e)
					})
					g := w.ask(p)
					if !strings.HasPrefix(g.body, whole) || len(g.errorFrames()) > 0 || g.err != nil {
						w.Errorf("%v: %q", g.err, g.body)
					}
					if within && len(g.body) > len(whole) && g.body != whole+next[p.ep] {
						w.Errorf("%q", g.body)
					}
					if d := w.last(); d.WorkflowStatus != string(decision.Completed) || classes(d) != "A:ok" || w.bucket("A:stream").Failures != 0 {
						w.Errorf("status %s, attempts %s", d.WorkflowStatus, classes(d))
					}
				})
			})
		}
	}
}

// STR-01: wherever a stream ends, within a frame or between two, a client gets
// somebody's whole answer, or what came of A's and one error event that it can
// read.
func TestEveryEnd(t *testing.T) {
	more := "retry: {budget: {burst: 100000}}\nbreaker: {mode: shadow}\n"
	alongPaths(t, func(p path) bool { return p.stream && !p.secure }, setting{more: more}, func(w *scene, p path) {
		a := p.reply("A")
		all := a.preamble + a.first + a.rest
		frames := strings.SplitAfter(all, "\n\n")
		said := strings.Index(all, "of A") // the last of what A says
		for n := range len(all) + 1 {
			w.up["A"].plays(func(e *exchange) {
				e.sse()
				if n > 0 {
					e.piece(all[:n])
				}
				e.end()
			})
			g := w.ask(p)
			status := decision.Status(w.last().WorkflowStatus)
			w.lines.forget()
			switch errs := g.errorFrames(); status {
			case decision.DegradedCompleted:
				w.answered(p, g, "B")
				if n > len(a.preamble+a.first) {
					w.Errorf("%d: B answered after output", n)
				}
			case decision.Completed:
				if len(errs) > 0 || g.err != nil || !strings.HasPrefix(all, g.body) || n < said {
					w.Errorf("%d: %v: %q", n, g.err, g.body)
				}
			case decision.Incomplete:
				if len(errs) != 1 || g.err == nil {
					w.Errorf("%d: %v, errors %q in %q", n, g.err, errs, g.body)
					break
				}
				came, ok := strings.CutSuffix(g.body, errs[0]+"\n\n")
				if i := len(strings.SplitAfter(came, "\n\n")) - 1; !ok || strings.TrimRight(came, "\n") != strings.TrimRight(strings.Join(frames[:i], ""), "\n") {
					w.Errorf("%d: %q is not what came whole", n, came)
				}
			default:
				w.Errorf("%d: status %s", n, status)
			}
			if n == len(all) && status != decision.Completed {
				w.Errorf("all of it is %s", status)
			}
		}
	})
}
