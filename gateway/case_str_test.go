package gateway_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"failback/gateway/decision"
	"failback/gateway/wire"
	"failback/internal/bubble"
)

// STR-01: an upstream that drops a stream midway. The client is told, once.
func TestSTR01(t *testing.T) {
	alongPaths(t, streamed, setting{}, func(w *scene, p path) {
		a := p.reply("A")
		began := a.preamble + strings.Repeat(a.first, 40)
		w.up["A"].plays(func(e *exchange) {
			e.sse()
			e.piece(a.preamble)
			for range 40 {
				e.piece(a.first)
				e.wait(20 * time.Millisecond)
			}
			e.cut()
		})
		w.broken(p, w.ask(p), began)
		if w.asked() != "A1 B0 C0" {
			w.Errorf("asked %s", w.asked())
		}
		d := w.last()
		if d.WorkflowStatus != string(decision.Incomplete) || classes(d) != "A:interrupted" || d.Reason != "interrupted" || d.FailedProvider != "A" {
			w.Errorf("status %s, attempts %s, reason %s, failed %s", d.WorkflowStatus, classes(d), d.Reason, d.FailedProvider)
		}
		if b := w.bucket("A:stream"); b.Failures != 1 {
			w.Errorf("%d failures", b.Failures)
		}
	})
	// A whole answer is held until it is whole.
	alongPaths(t, unstreamed, setting{}, func(w *scene, p path) {
		whole := p.reply("A").whole
		w.up["A"].plays(func(e *exchange) {
			e.raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(whole), whole[:len(whole)/2]))
			e.cut()
		})
		w.answered(p, w.ask(p), "B")
		if d := w.last(); w.asked() != "A1 B1 C0" || classes(d) != "A:bad_response B:ok" || d.WorkflowStatus != string(decision.DegradedCompleted) {
			w.Errorf("asked %s, attempts %s, status %s", w.asked(), classes(d), d.WorkflowStatus)
		}
	})
	// One that is too large for that is relayed as it comes: the client must see
	// that it is cut off.
	for _, secure := range []bool{false, true} {
		t.Run("large/"+protocolOf(secure), func(t *testing.T) {
			inScene(t, setting{secure: secure, more: "max_held_bytes: 1KiB\n"}, func(w *scene) {
				part := `{"object":"chat.completion","choices":[{"message":{"content":"` + strings.Repeat("x", 100<<10)
				w.up["A"].plays(func(e *exchange) {
					e.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
					e.piece(part)
					e.cut()
				})
				g := w.chat()
				if g.status != 200 || g.err == nil || g.body != part {
					w.Errorf("%d, %v, %d bytes", g.status, g.err, len(g.body))
				}
				if d := w.last(); w.asked() != "A1 B0 C0" || d.WorkflowStatus != string(decision.Incomplete) || classes(d) != "A:interrupted" {
					w.Errorf("asked %s, attempts %s, status %s", w.asked(), classes(d), d.WorkflowStatus)
				}
			})
		})
	}
}

// inBand is an error inside an answer that is successful by its status.
type inBand struct {
	kind  string // the error's type, and OpenAI's code
	code  string
	class decision.Class
	asked string
	// of the client's answer where nobody answered, else 200
	status int
}

// STR-03: an error inside a 200 is the class that its status would have been,
// and as long as nothing was relayed somebody else answers.
func TestSTR03(t *testing.T) {
	for dialect, errs := range map[decision.Dialect][]inBand{
		decision.Anthropic: {
			{"overloaded_error", "", decision.Overloaded, "A1 B1 C0", 200},
			{"rate_limit_error", "", decision.RateLimited, "A1 B1 C0", 200},
			{"api_error", "", decision.ServerError, "A2 B1 C0", 200},
			{"timeout_error", "", decision.ServerError, "A2 B1 C0", 200},
			{"not_found_error", "", decision.ModelGone, "A1 B1 C0", 200},
			{"billing_error", "", decision.QuotaExhausted, "A1 B1 C0", 200},
			{"authentication_error", "", decision.Credential, "A1 B0 C0", 502},
			{"permission_error", "", decision.Credential, "A1 B0 C0", 502},
			{"invalid_request_error", "", decision.InvalidRequest, "A1 B0 C0", 400},
			{"request_too_large", "", decision.InvalidRequest, "A1 B0 C0", 413},
			{"some_new_error", "", decision.BadResponse, "A1 B1 C0", 200},
		},
		decision.OpenAI: {
			{"service_unavailable_error", "server_is_overloaded", decision.Overloaded, "A1 B1 C0", 200},
			{"rate_limit_error", "rate_limit_exceeded", decision.RateLimited, "A1 B1 C0", 200},
			{"server_error", "server_error", decision.ServerError, "A2 B1 C0", 200},
			{"insufficient_quota", "insufficient_quota", decision.QuotaExhausted, "A1 B1 C0", 200},
			{"invalid_request_error", "model_not_found", decision.ModelGone, "A1 B1 C0", 200},
			{"invalid_request_error", "invalid_api_key", decision.Credential, "A1 B0 C0", 502},
			{"invalid_request_error", "invalid_value", decision.InvalidRequest, "A1 B0 C0", 400},
			{"invalid_request_error", "context_length_exceeded", decision.ContextLength, "A1 B0 C0", 400},
			{"invalid_request_error", "content_policy_violation", decision.ContentFilter, "A1 B0 C0", 400},
			{"some_error", "some_new_code", decision.BadResponse, "A1 B1 C0", 200},
		},
	} {
		for _, e := range errs {
			t.Run(string(dialect)+"/"+e.kind+"/"+e.code, func(t *testing.T) {
				mine := func(p path) bool { return p.ep.Dialect() == dialect }
				alongPaths(t, mine, setting{}, func(w *scene, p path) { testInBand(w, p, e) })
			})
		}
	}
}

func testInBand(w *scene, p path, fault inBand) {
	w.Helper()
	body := fmt.Sprintf(`{"error":{"message":"theirs","type":%q,"param":null,"code":%q}}`, fault.kind, fault.code)
	sent := frame(body)
	if p.ep.Dialect() == decision.Anthropic {
		body = fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"theirs"}}`, fault.kind)
		sent = event(body)
	} else if p.ep == wire.Responses {
		sent = event(fmt.Sprintf(`{"type":"error","sequence_number":1,"code":%q,"message":"theirs","param":null}`, fault.code))
		if p.secure { // the other way in which that API says it
			sent = p.reply("A").preamble + event(fmt.Sprintf(`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":%q,"message":"theirs"}}}`, fault.code))
		}
	}
	w.up["A"].plays(func(e *exchange) {
		if !p.stream {
			e.answer(200, body)
			return
		}
		e.sse()
		e.piece(sent)
		e.end()
	})
	g := w.ask(p)
	d := w.last()
	class := string(fault.class)
	if p.stream && p.ep == wire.Responses && p.secure && fault.class == decision.BadResponse {
		// That a response failed is known, whatever its code means.
		class, fault.asked = string(decision.ServerError), "A2 B1 C0"
	}
	if w.asked() != fault.asked || !strings.HasPrefix(classes(d), "A:"+class) || d.Attempts[0].Status != 200 {
		w.Errorf("asked %s, attempts %s, want %s of %s", w.asked(), classes(d), class, fault.asked)
	}
	if blamed := w.bucket(p.bucket()).Failures > 0; blamed != (decision.Class(class).Blame() == decision.OfBucket) {
		w.Errorf("%s blames the bucket: %t", class, blamed)
	}
	if fault.status == 200 {
		w.answered(p, g, "B")
		if d.Reason != class || d.WorkflowStatus != string(decision.DegradedCompleted) {
			w.Errorf("status %s, reason %s", d.WorkflowStatus, d.Reason)
		}
		return
	}
	w.failed(p, g, fault.status)
	if mine := strings.Contains(g.body, "theirs"); mine != (fault.status < 500) {
		w.Errorf("the upstream's words went back: %t: %s", mine, g.body)
	}
}

// failed checks that g is one whole error in the dialect of p.
func (w *scene) failed(p path, g *got, status int) {
	w.Helper()
	var r refusal
	if err := json.Unmarshal([]byte(g.body), &r); err != nil || g.err != nil || g.status != status || r.Error.Message == "" {
		w.Errorf("%d, %v, %v: %s", g.status, g.err, err, g.body)
	}
	if want := p.ep.Dialect() == decision.Anthropic; (r.Type == "error") != want {
		w.Errorf("the error is of another dialect: %s", g.body)
	}
	h := g.header
	if h.Get("Content-Type") != "application/json" || h.Get("X-Should-Retry") != "false" || h.Get("Content-Length") != strconv.Itoa(len(g.body)) {
		w.Errorf("%v", h)
	}
}

// STR-06: a failure after output is one error event, whatever the upstream said
// of it and said afterwards.
func TestSTR06(t *testing.T) {
	alongPaths(t, streamed, setting{}, func(w *scene, p path) {
		a := p.reply("A")
		for i, after := range []string{"", a.rest, a.failure, "end"} {
			w.up["A"].plays(func(e *exchange) {
				e.sse()
				e.piece(a.preamble + a.first)
				switch after {
				case "end":
					e.piece(a.failure)
					e.end()
				default:
					e.piece(a.failure + after)
					e.cut()
				}
			})
			w.broken(p, w.ask(p), a.preamble+a.first)
			if d := w.last(); d.WorkflowStatus != string(decision.Incomplete) || classes(d) != "A:overloaded" {
				w.Errorf("%d: status %s, attempts %s", i, d.WorkflowStatus, classes(d))
			}
		}
		if w.asked() != "A4 B0 C0" {
			w.Errorf("asked %s", w.asked())
		}
	})
}

// STR-07: an attempt that is made again leaves nothing of the first behind, also
// where the client waits for a held answer and is kept alive.
func TestSTR07(t *testing.T) {
	for _, begun := range []bool{false, true} {
		for _, held := range []bool{false, true} {
			t.Run(fmt.Sprintf("begun=%t/held=%t", begun, held), func(t *testing.T) {
				more := ""
				if held {
					more = "default_task: {release: complete}\n"
				}
				alongPaths(t, streamed, setting{more: more}, func(w *scene, p path) {
					w.up["A"].plays(func(e *exchange) {
						switch {
						case e.n > 1:
							a := p.reply("A")
							e.sse()
							e.piece(a.preamble + a.first)
							if held {
								e.wait(25 * time.Second)
							}
							e.piece(a.rest)
							e.end()
							return
						case begun:
							e.sse()
							e.piece(p.reply("first").preamble)
						}
						e.rst()
					})
					g := w.ask(p)
					if held {
						alive := strings.Repeat(string(wire.KeepAlive(p.ep)), 2)
						if !strings.HasPrefix(g.body, alive) {
							w.Errorf("%q", g.body)
						}
						g.body = strings.TrimPrefix(g.body, alive)
					}
					w.answered(p, g, "A")
					if d := w.last(); classes(d) != "A:reset A:ok" || w.asked() != "A2 B0 C0" || d.WorkflowStatus != string(decision.Completed) {
						w.Errorf("asked %s, attempts %s, status %s", w.asked(), classes(d), d.WorkflowStatus)
					}
				})
			})
		}
	}
}

// STR-09: whatever the upstream sends shows that it lives, and reaches the
// client.
func TestSTR09(t *testing.T) {
	alongPaths(t, streamed, setting{}, func(w *scene, p path) {
		a := p.reply("A")
		signs := map[string]string{"ping": string(wire.KeepAlive(p.ep)), "comment": ": still here\n\n", "a long frame": "", "any event": event(`{"type":"news"}`)}
		if p.ep.Dialect() == decision.OpenAI && p.ep != wire.Responses {
			signs["any event"] = frame(`{"object":"chat.completion.chunk","choices":[]}`)
		}
		for name, sign := range signs {
			w.up["A"].plays(func(e *exchange) {
				e.sse()
				e.piece(a.preamble + a.first)
				for i := range 14 {
					e.wait(5 * time.Second)
					if sign == "" {
						e.piece(a.first[i : i+1])
					} else {
						e.piece(sign)
					}
				}
				if sign == "" {
					e.piece(a.first[14:])
				}
				e.piece(a.rest)
				e.end()
			})
			g := w.ask(p)
			between := strings.Repeat(sign, 14)
			if sign == "" {
				between = a.first
			}
			if want := a.preamble + a.first + between + a.rest; g.body != want || g.err != nil {
				w.Errorf("%s: %v\n%q, not\n%q", name, g.err, g.body, want)
			}
			if d := w.last(); d.WorkflowStatus != string(decision.Completed) || d.DurationMS != 70_000 {
				w.Errorf("%s: status %s after %v ms", name, d.WorkflowStatus, d.DurationMS)
			}
		}
	})
	// Silence ends it all the same.
	alongPaths(t, streamed, setting{}, func(w *scene, p path) {
		a := p.reply("A")
		w.up["A"].plays(func(e *exchange) {
			e.sse()
			e.piece(a.preamble + a.first)
			e.wait(29 * time.Second)
			e.piece(": still here\n\n")
			e.hang()
		})
		g := w.ask(p)
		w.broken(p, g, a.preamble+a.first+": still here\n\n")
		if d := w.last(); classes(d) != "A:idle_timeout" || g.took != 59*time.Second || w.asked() != "A1 B0 C0" {
			w.Errorf("attempts %s after %s, asked %s", classes(d), g.took, w.asked())
		}
	})
}

// STR-10: what is no output does not count as the first output.
func TestSTR10(t *testing.T) {
	alongPaths(t, streamed, setting{more: "first_output: {ceiling: 3s}\n"}, func(w *scene, p path) {
		a := p.reply("A")
		for i, every := range []time.Duration{0, 100 * time.Millisecond} {
			w.up["A"].plays(func(e *exchange) {
				e.sse()
				e.wait(1800 * time.Millisecond)
				e.piece(a.preamble)
				for every > 0 && e.wait(every) {
					e.piece(string(wire.KeepAlive(p.ep)))
				}
				e.hang()
			})
			g := w.ask(p)
			w.answered(p, g, "B")
			if g.took != 3*time.Second {
				w.Errorf("it took %s", g.took)
			}
			if d := w.last(); classes(d) != "A:first_output_timeout B:ok" || d.Reason != "first_output_timeout" || d.Attempts[0].FirstOutputMS != nil {
				w.Errorf("attempts %s, reason %s", classes(d), d.Reason)
			}
			if n := w.up["A"].open(); n != 0 {
				w.Errorf("%d connections to A are open", n)
			}
			if b := w.bucket("A:stream"); b.Failures != i+1 {
				w.Errorf("%d failures", b.Failures)
			}
		}
	})
}

// STR-11: who is last gets all the time that is left, and no more.
func TestSTR11(t *testing.T) {
	more := "first_output: {ceiling: 2s}\ndeadline: {first_output: 30s}\n"
	late := func(e *exchange) {
		e.wait(2500 * time.Millisecond)
		ok(e)
	}
	t.Run("only", func(t *testing.T) {
		alongPaths(t, streamed, setting{names: []string{"A"}, more: more}, func(w *scene, p path) {
			w.up["A"].plays(late)
			g := w.ask(p)
			w.answered(p, g, "A")
			if g.took != 2500*time.Millisecond {
				w.Errorf("it took %s", g.took)
			}
		})
	})
	t.Run("last", func(t *testing.T) {
		alongPaths(t, streamed, setting{names: []string{"A", "B"}, more: more}, func(w *scene, p path) {
			w.up["A"].refuses()
			w.up["B"].plays(late)
			w.answered(p, w.ask(p), "B")
			if d := w.last(); classes(d) != "A:connect A:connect B:ok" {
				w.Errorf("attempts %s", classes(d))
			}
		})
	})
	t.Run("last after a timeout", func(t *testing.T) {
		alongPaths(t, streamed, setting{names: []string{"A", "B"}, more: more}, func(w *scene, p path) {
			w.up["A"].plays((*exchange).hang)
			w.up["B"].plays(late)
			g := w.ask(p)
			w.answered(p, g, "B")
			if g.took != 4500*time.Millisecond {
				w.Errorf("it took %s", g.took)
			}
		})
	})
	t.Run("silent", func(t *testing.T) {
		alongPaths(t, streamed, setting{names: []string{"A"}, more: more}, func(w *scene, p path) {
			w.up["A"].plays((*exchange).hang)
			g := w.ask(p)
			w.failed(p, g, 504)
			if d := w.last(); g.took != 30*time.Second || classes(d) != "A:attempt_timeout" || d.WorkflowStatus != string(decision.Unavailable) {
				w.Errorf("%s after %s, status %s", classes(d), g.took, d.WorkflowStatus)
			}
		})
	})
}

// STR-12: each event reaches the client when it comes.
func TestSTR12(t *testing.T) {
	alongPaths(t, streamed, setting{}, func(w *scene, p path) {
		a := p.reply("A")
		w.up["A"].plays(func(e *exchange) {
			if got := e.req.header.Get("Accept-Encoding"); strings.Contains(got, "gzip") {
				w.Errorf("A may send %s", got)
			}
			e.sse()
			for range 60 {
				e.wait(250 * time.Millisecond)
				e.piece(a.first)
			}
			e.piece(a.rest)
			e.end()
		})
		g := w.ask(p, "Accept-Encoding", "gzip")
		if g.header.Get("Content-Encoding") != "" {
			w.Errorf("%v", g.header)
		}
		each := strings.Count(a.first, "\n\n")
		if len(g.at) < 60*each {
			w.Fatalf("%d frames", len(g.at))
		}
		for i := range 60 * each {
			if want := time.Duration(i/each+1) * 250 * time.Millisecond; g.at[i] != want {
				w.Errorf("frame %d after %s, not %s", i, g.at[i], want)
			}
		}
		if d := w.last(); d.FirstOutputMS == nil || *d.FirstOutputMS != 250 {
			w.Errorf("the first output after %v", d.FirstOutputMS)
		}
	})
}

// STR-13: a stream asks whoever stands before the gateway not to hold it back.
func TestSTR13(t *testing.T) {
	for _, task := range []string{"", "default_task: {release: complete}\n"} {
		alongPaths(t, streamed, setting{more: task}, func(w *scene, p path) {
			a := p.reply("A")
			whole := a.preamble + a.first + a.rest
			for i, play := range []func(*exchange){ok, func(e *exchange) {
				e.wait(15 * time.Second) // a keep-alive is first
				ok(e)
			}, func(e *exchange) {
				e.raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: max-age=9\r\nContent-Length: %d\r\n\r\n%s", len(whole), whole))
			}} {
				w.up["A"].plays(play)
				w.up["B"].plays(play)
				h := w.ask(p).header
				if h.Get("Cache-Control") != "no-cache" || h.Get("X-Accel-Buffering") != "no" || len(h["Content-Length"]) > 0 || !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") {
					w.Errorf("%d: %v", i, h)
				}
			}
		})
	}
}

func zipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, s)
	_ = z.Close()
	return b.String()
}

// readable is what a client that understands gzip reads of g.
func (g *got) readable() (string, error) {
	switch g.header.Get("Content-Encoding") {
	case "":
		return g.body, nil
	case "gzip":
		z, err := gzip.NewReader(strings.NewReader(g.body))
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(z)
		return string(b), err
	}
	return "", fmt.Errorf("Content-Encoding: %s", g.header.Get("Content-Encoding"))
}

// STR-15: what says how an answer is encoded is true on every status, also when
// the upstream breaks its encoding off.
func TestSTR15(t *testing.T) {
	for _, code := range []int{200, 400, 413, 429, 500} {
		for _, cut := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/cut=%t", code, cut), func(t *testing.T) {
				half := func(p path) bool { return p.secure == cut }
				alongPaths(t, half, setting{names: []string{"A"}}, func(w *scene, p path) { testEncoded(w, p, code, cut) })
			})
		}
	}
}

func testEncoded(w *scene, p path, code int, cut bool) {
	w.Helper()
	kind, body := "application/json", `{"error":{"type":"invalid_request_error","message":"theirs","code":null,"param":null}}`
	switch a := p.reply("A"); {
	case code == 200 && p.stream:
		kind, body = "text/event-stream", a.preamble+a.first+a.rest
	case code == 200:
		body = a.whole
	case p.ep.Dialect() == decision.Anthropic:
		body = `{"type":"error","error":{"type":"invalid_request_error","message":"theirs"}}`
	}
	sent := zipped(body)
	if cut {
		sent = sent[:len(sent)/2]
	}
	w.up["A"].plays(func(e *exchange) {
		e.raw(fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Type: %s\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", code, kind, len(sent), sent))
	})
	g := w.ask(p, "Accept-Encoding", "gzip")
	text, err := g.readable()
	if err != nil {
		w.Fatalf("%v: %q", err, g.body)
	}
	switch {
	case code == 200 && !cut:
		if g.err != nil || g.status != 200 || text != body {
			w.Errorf("%d, %v: %q", g.status, g.err, text)
		}
	case code == 200 && g.status == 200: // it broke off after output
		if !p.stream || g.err == nil || len(g.errorFrames()) != 1 {
			w.Errorf("%v: %q", g.err, text)
		}
	default:
		if g.header.Get("Content-Encoding") == "" {
			w.failed(p, g, map[int]int{200: 502, 400: 400, 413: 413, 429: 429, 500: 502}[code])
		}
		if isTheirs := code/100 == 4 && code != 429; isTheirs && !cut && text != body {
			w.Errorf("%s, not %s", text, body)
		}
	}
	want := decision.Unavailable
	switch {
	case g.status == 200 && !cut:
		want = decision.Completed
	case g.status == 200:
		want = decision.Incomplete
	case code == 400, code == 413:
		want = decision.Rejected
	}
	if d := w.last(); d.WorkflowStatus != string(want) || d.HTTPStatus != g.status {
		w.Errorf("status %s, %d, not %s, %d", d.WorkflowStatus, d.HTTPStatus, want, g.status)
	}
}

// STR-16: when the client leaves, everything that is done for it ends at once.
func TestSTR16(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  func(path) bool
		names []string
		play  func(p path) func(*exchange)
		class string
	}{
		{"streaming", streamed, nil, func(p path) func(*exchange) {
			a := p.reply("A")
			return func(e *exchange) {
				e.sse()
				e.piece(a.preamble)
				for range 120 {
					e.piece(a.first)
					if !e.wait(500 * time.Millisecond) {
						return
					}
				}
			}
		}, "A:client_gone"},
		{"waiting for an answer", anyPath, nil, func(path) func(*exchange) { return (*exchange).hang }, "A:client_gone"},
		{"waiting for output", streamed, nil, func(p path) func(*exchange) {
			return func(e *exchange) {
				e.sse()
				e.piece(p.reply("A").preamble)
				e.hang()
			}
		}, "A:client_gone"},
		{"backing off", anyPath, []string{"A"}, func(path) func(*exchange) {
			return status(429, limitBody, "Retry-After: 4")
		}, "A:rate_limited"},
	} {
		t.Run(c.name, func(t *testing.T) {
			alongPaths(t, c.want, setting{names: c.names}, func(w *scene, p path) {
				w.up["A"].plays(c.play(p))
				ctx, leave := context.WithTimeout(w.Context(), 1100*time.Millisecond)
				defer leave()
				began := time.Now()
				w.callIn(ctx, p.ep.ClientPath(), p.body())
				if took := time.Since(began); took != 1100*time.Millisecond {
					w.Errorf("the client left after %s", took)
				}
				synctest.Wait()
				w.nothingHeld()
				if n := w.up["A"].open(); n != 0 && c.name != "backing off" {
					w.Errorf("%d connections to A are open", n)
				}
				d := w.last()
				if d.WorkflowStatus != string(decision.Cancelled) || classes(d) != c.class || d.DurationMS != 1100 {
					w.Errorf("status %s, attempts %s after %v ms", d.WorkflowStatus, classes(d), d.DurationMS)
				}
				if b := w.bucket(p.bucket()); b.Failures != 0 || b.State != "closed" {
					w.Errorf("%d failures, %s", b.Failures, b.State)
				}
				bubble.Sleep(time.Minute)
				if got := w.asked(); got != "A1 B0 C0" && got != "A1" {
					w.Errorf("asked %s", w.asked())
				}
			})
		})
	}
}

// STR-16: a probe that the client left is given back to the bucket.
func TestSTR16Probe(t *testing.T) {
	alongPaths(t, anyPath, setting{names: []string{"A"}}, func(w *scene, p path) {
		w.up["A"].plays(status(500, brokenBody))
		for range 5 {
			w.ask(p)
		}
		if b := w.bucket(p.bucket()); b.State != "open" {
			w.Fatalf("A is %s", b.State)
		}
		bubble.Sleep(16 * time.Second)
		w.up["A"].plays((*exchange).hang)
		before := w.up["A"].asked()
		ctx, leave := context.WithTimeout(w.Context(), time.Second)
		defer leave()
		w.callIn(ctx, p.ep.ClientPath(), p.body())
		synctest.Wait()
		if b := w.bucket(p.bucket()); b.State != "half_open" || b.ProbesOut != 0 || w.up["A"].asked() != before+1 {
			w.Errorf("%s, %d probes are out, %d requests", b.State, b.ProbesOut, w.up["A"].asked()-before)
		}
		w.up["A"].plays(ok)
		w.answered(p, w.ask(p), "A")
	})
}

// STR-18: an attempt inherits nothing from the one before it.
func TestSTR18(t *testing.T) {
	alongPaths(t, streamed, setting{}, func(w *scene, p path) {
		a := p.reply("A")
		fail := func(e *exchange) {
			e.sse()
			e.piece(a.preamble)
			switch {
			case p.ep == wire.Responses:
				e.piece(event(`{"type":"error","code":"server_error","message":"sorry"}`))
			case p.ep == wire.Messages:
				e.piece(event(brokenBody))
			default:
				e.piece(frame(brokenBody))
			}
			e.end()
		}
		w.up["A"].plays(fail)
		w.answered(p, w.ask(p), "B")
		if d := w.last(); classes(d) != "A:server_error A:server_error B:ok" || w.asked() != "A2 B1 C0" {
			w.Errorf("attempts %s, asked %s", classes(d), w.asked())
		}
		// Now the second attempt on A is good.
		bubble.Sleep(11 * time.Second)
		w.up["A"].plays(func(e *exchange) {
			if e.n == 3 {
				fail(e)
				return
			}
			ok(e)
		})
		w.answered(p, w.ask(p), "A")
		if d := w.last(); classes(d) != "A:server_error A:ok" || d.WorkflowStatus != string(decision.Completed) {
			w.Errorf("attempts %s, status %s", classes(d), d.WorkflowStatus)
		}
	})
}

// STR-19: an answer that cannot be read on is, before output, no worse than a
// connection that was not made.
func TestSTR19(t *testing.T) {
	for _, c := range []struct {
		name    string
		end     func(*exchange)
		classes string
		asked   string
	}{
		{"rst", (*exchange).rst, "A:reset A:reset B:ok", "A2 B1 C0"},
		{"cut", (*exchange).cut, "A:reset A:reset B:ok", "A2 B1 C0"},
		{"silence", (*exchange).hang, "A:first_output_timeout B:ok", "A1 B1 C0"},
		{"an end without a word", (*exchange).end, "A:bad_response B:ok", "A1 B1 C0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			alongPaths(t, streamed, setting{}, func(w *scene, p path) {
				w.up["A"].plays(func(e *exchange) { e.sse(); c.end(e) })
				w.answered(p, w.ask(p), "B")
				if d := w.last(); classes(d) != c.classes || w.asked() != c.asked {
					w.Errorf("attempts %s, asked %s", classes(d), w.asked())
				}
			})
		})
	}
	t.Run("HTTP2 upstream", func(t *testing.T) {
		for code, class := range map[http2.ErrCode]string{http2.ErrCodeInternal: "reset", http2.ErrCodeCancel: "reset", http2.ErrCodeRefusedStream: "refused"} {
			alongPaths(t, streamed, setting{http2: true}, func(w *scene, p path) {
				a := p.reply("A")
				w.up["A"].playsH2(func(e *h2exchange) { e.head(200, "text/event-stream"); e.reset(code) })
				w.answered(p, w.ask(p), "B")
				want := "A:reset A:reset B:ok"
				if d := w.last(); classes(d) != want && class == "reset" || strings.Contains(classes(d), "unknown") || w.asked() != "A2 B1 C0" {
					w.Errorf("%s: attempts %s, asked %s", code, classes(d), w.asked())
				}
				w.up["A"].playsH2(func(e *h2exchange) {
					e.head(200, "text/event-stream")
					e.data(a.preamble + a.first)
					e.reset(code)
				})
				w.broken(p, w.ask(p), a.preamble+a.first)
				if d := w.last(); classes(d) != "A:interrupted" || w.asked() != "A3 B1 C0" {
					w.Errorf("%s after output: attempts %s, asked %s", code, classes(d), w.asked())
				}
			})
		}
	})
}

// STR-20: who may not fall back does not, wherever the failure comes.
func TestSTR20(t *testing.T) {
	more := "tasks: {mine: {fallback: never}}\n"
	alongPaths(t, anyPath, setting{more: more}, func(w *scene, p path) {
		a := p.reply("A")
		w.up["A"].plays(func(e *exchange) {
			if !p.stream {
				e.answer(200, overloadBody)
				return
			}
			e.sse()
			e.piece(a.preamble + a.failure)
			e.end()
		})
		g := w.ask(p, "Failback-Task", "mine")
		w.failed(p, g, 503)
		if d := w.last(); d.WorkflowStatus != string(decision.Unavailable) || d.Reason != "overloaded" || d.FallbackTriggered || w.asked() != "A4 B0 C0" {
			w.Errorf("status %s, reason %s, fallback %t, asked %s", d.WorkflowStatus, d.Reason, d.FallbackTriggered, w.asked())
		}
		if !p.stream {
			return
		}
		w.up["A"].plays(func(e *exchange) {
			e.sse()
			e.piece(a.preamble + a.first + a.failure)
			e.end()
		})
		w.broken(p, w.ask(p, "Failback-Task", "mine"), a.preamble+a.first)
		if d := w.last(); d.WorkflowStatus != string(decision.Incomplete) || d.FallbackTriggered || w.asked() != "A5 B0 C0" {
			w.Errorf("after output: status %s, fallback %t, asked %s", d.WorkflowStatus, d.FallbackTriggered, w.asked())
		}
	})
}

// STR-21: the same faults have the same results on every endpoint. (A dead key
// is passed by where the configuration says so.)
func TestSTR21(t *testing.T) {
	for _, c := range []struct {
		name, classes, asked string
		status               int
		body                 string
	}{
		{"401", "A:credential B:ok", "A1 B1 C0", http.StatusUnauthorized, `{"error":{"type":"authentication_error","message":"bad key"}}`},
		{"429", "A:rate_limited B:ok", "A1 B1 C0", http.StatusTooManyRequests, limitBody},
		{"refused", "A:connect A:connect B:ok", "A0 B1 C0", 0, ""},
		{"in band", "A:overloaded B:ok", "A1 B1 C0", 200, overloadBody},
	} {
		t.Run(c.name, func(t *testing.T) {
			alongPaths(t, anyPath, setting{more: "errors: {credential: switch}\n"}, func(w *scene, p path) {
				switch {
				case c.status == 0:
					w.up["A"].refuses()
				case c.status == 200 && p.stream:
					w.up["A"].plays(func(e *exchange) {
						e.sse()
						e.piece(p.reply("A").failure)
						e.end()
					})
				default:
					w.up["A"].plays(status(c.status, c.body))
				}
				w.answered(p, w.ask(p), "B")
				d := w.last()
				if classes(d) != c.classes || w.asked() != c.asked || d.Route != "fallback" || !d.FallbackTriggered {
					w.Errorf("attempts %s, asked %s, route %s", classes(d), w.asked(), d.Route)
				}
			})
		})
	}
}
