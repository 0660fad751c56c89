package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/gateway/internal/memnet"
	"failback/gateway/wire"
	"failback/internal/bubble"
)

func TestStreamIsRelayedByteForByte(t *testing.T) {
	for name, frames := range map[string][]string{
		"plain":         {role, delta("a"), delta("b"), finish, usage, doneMark},
		"crlf":          {strings.ReplaceAll(role+delta("a")+finish+doneMark, "\n", "\r\n")},
		"cr":            {strings.ReplaceAll(role+delta("a")+finish+doneMark, "\n", "\r")},
		"comments":      {": hello\n\n", role, ":\n\n", delta("a"), ": x\n\n", finish, doneMark},
		"split":         {role[:10], role[10:] + delta("a")[:30], delta("a")[30:], finish + doneMark},
		"other fields":  {"id: 1\nretry: 5\n" + role, delta("a"), finish, doneMark},
		"no blank line": {role, delta("a"), finish, "data: [DONE]"},
		"no [DONE]":     {role, delta("a"), finish},
	} {
		t.Run(name, func(t *testing.T) {
			s := loopback(t, answers(streams(frames...)))
			o, cl, _ := attempt(t, to(t, s, nil), asStream)
			wantClass(t, o, decision.OK)
			if got, want := cl.body(), strings.Join(frames, ""); got != want {
				t.Errorf("relayed %q\nwant    %q", got, want)
			}
			if cl.status != 200 || cl.outputs != 1 || !o.HasFirstOutput || o.Status != 200 {
				t.Errorf("status %d, %d outputs, %+v", cl.status, cl.outputs, o)
			}
			if cl.header.Get("Content-Length") != "" || cl.header.Get("Content-Type") == "" {
				t.Errorf("header %v", cl.header)
			}
			if o.ResponseModel != "gpt-x" {
				t.Errorf("model %q", o.ResponseModel)
			}
		})
	}
}

func TestStreamReportsUsage(t *testing.T) {
	s := loopback(t, answers(streams(role, delta("a"), finish, usage, doneMark)))
	o, _, _ := attempt(t, to(t, s, nil), asStream)
	if o.InputTokens != 7 || o.OutputTokens != 5 {
		t.Errorf("usage %d, %d", o.InputTokens, o.OutputTokens)
	}
}

// STR-12: what arrives is written at once, and what arrived together may be
// written together.
func TestFramesAreNotKeptWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := inMemory(t, func(p *peer) {
			p.next()
			p.send(sse + chunk(role))
			for i := range 60 {
				bubble.Sleep(250 * time.Millisecond)
				p.send(chunk(delta(fmt.Sprint(i))))
			}
			p.send(chunk(finish) + chunk(doneMark) + end)
		})
		o, cl, _ := attempt(t, to(t, s, nil), asStream)
		wantClass(t, o, decision.OK)
		if len(cl.writes) != 60 { // the last three frames came together
			t.Fatalf("%d writes", len(cl.writes))
		}
		for i, at := range cl.at {
			if d := at.Sub(began); d != time.Duration(i+1)*250*time.Millisecond {
				t.Fatalf("frame %d came after %v", i, d)
			}
		}
		if !strings.HasPrefix(cl.writes[0], role) || strings.Count(cl.writes[0], "data:") != 2 {
			t.Errorf("first write %q", cl.writes[0])
		}
		if o.FirstOutput != 250*time.Millisecond {
			t.Errorf("first output after %v", o.FirstOutput)
		}
	})
}

// silent is a script that sends s and then nothing more.
func silent(s string) func(p *peer) {
	return func(p *peer) {
		if p.next() {
			p.send(s)
			p.waitGone()
		}
	}
}

// STR-10, FOV-11, FOV-12: only output ends the wait for it, and the upstream
// is left when it is over.
func TestFirstOutputWatchdog(t *testing.T) {
	pinging := func(p *peer) {
		p.next()
		p.send(sse)
		for range 100 {
			bubble.Sleep(100 * time.Millisecond)
			p.send(chunk(": ping\n\n"))
		}
	}
	for name, script := range map[string]func(p *peer){
		"hang":               silent(""),
		"header only":        silent(sse),
		"role, then silence": silent(sse + chunk(role)),
		"half a frame":       silent(sse + "ff\r\n" + delta("x")[:40]),
		"comments":           pinging,
		"half a header":      silent("HTTP/1.1 200 OK\r\nContent-"),
		"does not read":      func(p *peer) { bubble.Sleep(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t, script)
				u := to(t, s, nil)
				start := time.Now()
				o, cl, _ := attempt(t, u, func(c *Call) {
					c.Stream, c.FirstOutput = true, 3*time.Second
					c.Body = append(c.Body, strings.Repeat(" ", 1<<20)...)
				})
				wantClass(t, o, decision.FirstOutputTimeout)
				if d := time.Since(start); d != 3*time.Second || o.Duration != d {
					t.Errorf("after %v, %v", d, o.Duration)
				}
				if cl.outputs != 0 || cl.begins != 0 || o.HasFirstOutput {
					t.Errorf("client %+v", cl)
				}
				if o.Unprocessed != (name == "does not read") {
					t.Errorf("unprocessed %v", o.Unprocessed)
				}
				if open := s.l.(*memnet.Listener).Open(); open != 0 {
					t.Errorf("%d connections still open", open)
				}
			})
		})
	}
}

// STR-11: without a watchdog the last one has all the time there is.
func TestNoWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, func(p *peer) {
			p.next()
			p.send(sse)
			bubble.Sleep(20 * time.Minute)
			p.send(chunk(delta("x")) + chunk(finish) + chunk(doneMark) + end)
		})
		u := to(t, s, func(set *Settings) { set.Idle, set.Max = 30*time.Second, 15*time.Minute })
		o, _, _ := attempt(t, u, asStream)
		wantClass(t, o, decision.OK)

		s = inMemory(t, silent(sse))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		o, _, _ = attemptIn(ctx, t, to(t, s, nil), asStream)
		wantClass(t, o, decision.AttemptTimeout)
	})
}

// The ends who runs the attempt may ask for, whether output was seen or not.
func TestCauses(t *testing.T) {
	for _, tt := range []struct {
		cause error
		class decision.Class
	}{
		{nil, decision.ClientGone},
		{ErrClientGone, decision.ClientGone},
		{fmt.Errorf("why: %w", ErrMoved), decision.LocalRefusal},
		{context.DeadlineExceeded, decision.AttemptTimeout},
		{errors.New("anything"), decision.ClientGone},
	} {
		for name, script := range map[string]func(p *peer){
			"hang": silent(""), "header": silent(sse), "output": silent(sse + chunk(delta("x"))),
			"error body": silent("HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\n{"),
		} {
			t.Run(fmt.Sprintf("%v/%s", tt.cause, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := inMemory(t, script)
					u := to(t, s, nil)
					ctx, cancel := context.WithCancelCause(context.Background())
					time.AfterFunc(time.Second, func() { cancel(tt.cause) })
					start := time.Now()
					o, _, _ := attemptIn(ctx, t, u, func(c *Call) { c.Stream = true })
					wantClass(t, o, tt.class)
					if d := time.Since(start); d != time.Second {
						t.Errorf("after %v", d)
					}
					if o.Relayed != (name == "output") {
						t.Errorf("relayed %v", o.Relayed)
					}
					if open := s.l.(*memnet.Listener).Open(); open != 0 { // STR-16
						t.Errorf("%d connections still open", open)
					}
				})
			})
		}
	}
}

// Where several ends come at once, those that are nobody's fault go first.
func TestCausePriority(t *testing.T) {
	for _, own := range []error{errFirstOutput, errWhole, errIdle, errMax} {
		for _, outer := range []error{ErrClientGone, ErrMoved} {
			parent, cancelParent := context.WithCancelCause(context.Background())
			ctx, cancel := context.WithCancelCause(parent)
			x := &exchange{c: &Call{}, parent: parent, ctx: ctx}
			if class, _ := x.ended(); class != "" {
				t.Fatalf("ended as %q before the end", class)
			}
			cancel(own)
			mine, _ := x.ended()
			if mine.Blame() != decision.OfBucket {
				t.Errorf("%v is %q", own, mine)
			}
			cancelParent(outer)
			if class, _ := x.ended(); class.Blame() == decision.OfBucket {
				t.Errorf("%v after %v is %q", outer, own, class)
			}
		}
	}
}

func TestAlreadyOver(t *testing.T) {
	s := loopback(t, answers(reply(200, "", chatOK)))
	u := to(t, s, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o, _, _ := attemptIn(ctx, t, u, nil)
	wantClass(t, o, decision.ClientGone)
	if all, _ := s.counts(); all != 0 || !o.Unprocessed {
		t.Errorf("%d connections, %+v", all, o)
	}
	// A key is needed; without one nothing is sent, least of all another's.
	o, _, _ = attempt(t, u, func(c *Call) { c.Key = Key{} })
	wantClass(t, o, decision.LocalRefusal)
	o, _, _ = attempt(t, u, func(c *Call) { c.Endpoint = 0 })
	wantClass(t, o, decision.Internal)
	o, _, _ = attempt(t, u, func(c *Call) { c.Endpoint = 99 })
	wantClass(t, o, decision.Internal)
	if all, _ := s.counts(); all != 0 {
		t.Errorf("%d connections", all)
	}
}

// STR-09: any byte shows life, and pings reach the client.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, func(p *peer) {
			p.next()
			p.send(sse + chunk(msgStart) + chunk(msgDelta))
			for range 14 {
				bubble.Sleep(5 * time.Second)
				p.send(chunk(msgPing))
			}
			bubble.Sleep(24 * time.Second)
			for _, c := range []byte(msgDelta) { // a frame that comes byte by byte
				bubble.Sleep(5 * time.Second)
				p.send(chunk(string(c)))
			}
			for _, c := range []byte(chunk(msgDelta)) { // and one in one chunk
				bubble.Sleep(5 * time.Second)
				p.send(string(c))
			}
			p.send(chunk(msgEnd) + end)
		})
		u := to(t, s, func(set *Settings) { set.Idle, set.Dialect = 30*time.Second, decision.Anthropic })
		o, cl, _ := attempt(t, u, func(c *Call) { c.Stream, c.Endpoint = true, wire.Messages })
		wantClass(t, o, decision.OK)
		if n := strings.Count(cl.body(), "event: ping"); n != 14 {
			t.Errorf("%d pings", n)
		}
		if o.InputTokens != 9 || o.OutputTokens != 4 || o.ResponseModel != "claude-x" {
			t.Errorf("%+v", o)
		}
	})
	for _, hold := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := inMemory(t, silent(sse+chunk(role)+chunk(delta("x"))))
			u := to(t, s, func(set *Settings) { set.Idle = 30 * time.Second })
			start := time.Now()
			o, _, _ := attempt(t, u, func(c *Call) { c.Stream, c.Hold, c.FirstOutput = true, hold, 3*time.Second })
			wantClass(t, o, decision.IdleTimeout)
			if d := time.Since(start); d != 30*time.Second || o.Relayed == hold {
				t.Errorf("after %v, relayed %v", d, o.Relayed)
			}
		})
	}
}

func TestLongestStream(t *testing.T) {
	talking := func(p *peer) {
		p.next()
		p.send(sse)
		for {
			if _, err := p.Conn.Write([]byte(chunk(delta("x")))); err != nil {
				return
			}
			bubble.Sleep(10 * time.Second)
		}
	}
	limits := func(set *Settings) { set.Idle, set.Max = 30*time.Second, 15*time.Minute }
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		o, _, _ := attempt(t, to(t, inMemory(t, talking), limits), asStream)
		wantClass(t, o, decision.AttemptTimeout)
		if d := time.Since(start); d != 15*time.Minute || !o.Relayed {
			t.Errorf("after %v", d)
		}
	})
	// A client that does not read makes its upstream neither silent nor slow.
	synctest.Test(t, func(t *testing.T) {
		u := to(t, inMemory(t, talking), limits)
		cl := &client{}
		c := callOf(u, cl, asStream)
		cl.onWrite = func() error {
			if len(cl.writes) == 3 {
				bubble.Sleep(20 * time.Minute)
			}
			return nil
		}
		o := u.Attempt(context.Background(), c)
		wantClass(t, o, decision.ClientGone)
	})
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, func(p *peer) {
			p.next()
			p.send(sse + chunk(delta("x")) + chunk(delta("y")))
			bubble.Sleep(time.Minute)
			p.send(chunk(finish) + chunk(doneMark) + end)
		})
		u := to(t, s, limits)
		cl := &client{}
		c := callOf(u, cl, asStream)
		cl.onWrite = func() error { bubble.Sleep(40 * time.Second); return nil }
		o := u.Attempt(context.Background(), c)
		wantClass(t, o, decision.OK)
	})
}

// What ends a stream decides, not that it ends.
func TestStreamEnds(t *testing.T) {
	inBand := func(typ, code string) string {
		return `data: {"error":{"message":"secret prose","type":"` + typ + `","param":null,"code":"` + code + `"}}` + "\n\n"
	}
	cut := func(frames ...string) string { return strings.TrimSuffix(streams(frames...), end) }
	tests := []struct {
		name    string
		answer  string
		class   decision.Class
		relayed string
	}{
		{"cut after output", cut(role, delta("a"), delta("b")), decision.Interrupted, role + delta("a") + delta("b")}, // STR-01
		{"clean end after output", streams(role, delta("a")), decision.Interrupted, role + delta("a")},
		{"cut before output", cut(role), decision.Reset, ""},
		{"cut after finish_reason", cut(role, delta("a"), finish), decision.OK, role + delta("a") + finish},
		{"cut after [DONE]", cut(role, delta("a"), finish, doneMark), decision.OK, role + delta("a") + finish + doneMark},
		{"half a frame at the cut", cut(role, delta("a"), delta("b")[:50]), decision.Interrupted, role + delta("a")},
		{"nothing at all", streams(), decision.BadResponse, ""},
		{"comments only", streams(": x\n\n", ": y\n\n"), decision.BadResponse, ""},
		{"preamble only", streams(role), decision.Interrupted, ""},
		{"error first", streams(inBand("server_error", "server_error")), decision.ServerError, ""}, // STR-03, STR-18
		{"error after the preamble", streams(role, inBand("rate_limit_error", "rate_limit_exceeded")), decision.RateLimited, ""},
		{"no credit", streams(inBand("insufficient_quota", "insufficient_quota")), decision.QuotaExhausted, ""},
		{"caller's mistake", streams(role, inBand("invalid_request_error", "bad")), decision.InvalidRequest, ""},
		{"error after output", streams(role, delta("a"), inBand("server_error", "server_error"), doneMark), decision.ServerError, role + delta("a")}, // STR-06
		{"error after the end", streams(role, delta("a"), finish, doneMark, inBand("server_error", "x")), decision.OK, role + delta("a") + finish + doneMark + inBand("server_error", "x")},
		{"something after the end", streams(role, delta("a"), finish, doneMark, ": bye\n\n"), decision.OK, role + delta("a") + finish + doneMark + ": bye\n\n"},
		{"a frame that is none", streams(role, "data: {\"cho\n\n"), decision.BadResponse, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := loopback(t, func(p *peer) {
				for p.next() {
					p.send(tt.answer)
					if !strings.HasSuffix(tt.answer, end) {
						return // what has an end leaves the connection usable
					}
				}
			})
			u := to(t, s, nil)
			o, cl, c := attempt(t, u, asStream)
			wantClass(t, o, tt.class)
			if cl.body() != tt.relayed {
				t.Errorf("relayed %q\nwant    %q", cl.body(), tt.relayed)
			}
			if o.Status != 200 {
				t.Errorf("status %d", o.Status)
			}
			if (c.ErrorAnswer != nil) != (tt.class == decision.InvalidRequest) {
				t.Errorf("answer for the caller %+v", c.ErrorAnswer)
			}
			// Held back, the same gives nothing to the client unless it is whole.
			o, cl, _ = attempt(t, u, func(c *Call) { c.Stream, c.Hold = true, true })
			wantClass(t, o, tt.class)
			if tt.class == decision.OK {
				if cl.body() != tt.relayed {
					t.Errorf("held: relayed %q", cl.body())
				}
			} else if len(cl.writes) != 0 || cl.begins != 0 {
				t.Errorf("held: relayed %q", cl.body())
			}
		})
	}
}

func TestHeldStreamComesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, func(p *peer) {
			p.next()
			p.send(sse + chunk(role))
			for range 50 {
				bubble.Sleep(time.Second)
				p.send(chunk(delta(strings.Repeat("x", 3000))))
			}
			p.send(chunk(finish) + chunk(doneMark) + end)
		})
		u := to(t, s, func(set *Settings) { set.Idle = 30 * time.Second })
		mem := &memory{limit: 1 << 20}
		o, cl, _ := attempt(t, u, func(c *Call) { c.Stream, c.Hold, c.Buffers = true, true, mem })
		wantClass(t, o, decision.OK)
		if len(cl.writes) != 1 || cl.outputs != 1 || o.FirstOutput != time.Second || o.Duration != 50*time.Second {
			t.Errorf("%d writes, %+v", len(cl.writes), o)
		}
		if mem.used != 0 || mem.most < 100<<10 {
			t.Errorf("memory %+v", mem)
		}
	})
}

// Above what may be held the stream is released, and goes on as one.
func TestHeldStreamTooLarge(t *testing.T) {
	for name, change := range map[string]func(*Call){
		"limit":  func(c *Call) { c.MaxHeld = 100 << 10 },
		"memory": func(c *Call) { c.Buffers = &memory{limit: 64 << 10} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := inMemory(t, func(p *peer) {
					p.next()
					p.send(sse + chunk(role))
					for range 50 {
						bubble.Sleep(time.Second)
						p.send(chunk(delta(strings.Repeat("x", 3<<10))))
					}
					p.send(chunk(finish) + chunk(doneMark) + end)
				})
				u := to(t, s, func(set *Settings) { set.Idle = 30 * time.Second })
				o, cl, _ := attempt(t, u, func(c *Call) {
					c.Stream, c.Hold, c.Whole = true, true, 40*time.Second // lifted by the release
					change(c)
				})
				wantClass(t, o, decision.OK)
				if first := cl.at[0].Sub(began); first < 25*time.Second || first > 35*time.Second || len(cl.writes) < 10 {
					t.Errorf("released after %v, %d writes", first, len(cl.writes))
				}
				if want := role + strings.Repeat(delta(strings.Repeat("x", 3<<10)), 50) + finish + doneMark; cl.body() != want {
					t.Errorf("%d bytes, want %d", len(cl.body()), len(want))
				}
			})
		})
	}
}

// A preamble is held back within bounds: keep-alives beyond them are dropped,
// for they say nothing; anything else is released then.
func TestPreambleIsBounded(t *testing.T) {
	s := loopback(t, answers(streams(strings.Repeat(": wait\n\n", 5000), role, delta("a"), finish, doneMark)))
	o, cl, _ := attempt(t, to(t, s, nil), asStream)
	wantClass(t, o, decision.OK)
	if want := strings.Repeat(": wait\n\n", preambleFrames) + role + delta("a") + finish + doneMark; cl.body() != want {
		t.Errorf("%d bytes, want %d", len(cl.body()), len(want))
	}

	many := strings.Repeat(role, preambleFrames+10)
	s = loopback(t, answers(streams(many, delta("a"), finish, doneMark)))
	o, cl, _ = attempt(t, to(t, s, nil), asStream)
	wantClass(t, o, decision.OK)
	if cl.body() != many+delta("a")+finish+doneMark || cl.outputs != 1 || !o.HasFirstOutput {
		t.Errorf("%d bytes, %d outputs", len(cl.body()), cl.outputs)
	}

	large := strings.Replace(role, `"id":"c1"`, `"id":"`+strings.Repeat("c", preambleBytes)+`"`, 1)
	s = loopback(t, func(p *peer) { p.next(); p.send(strings.TrimSuffix(streams(large, large), end)) })
	o, cl, _ = attempt(t, to(t, s, nil), asStream)
	wantClass(t, o, decision.Reset)
	if !o.Relayed || o.HasFirstOutput || len(cl.body()) != 2*len(large) {
		t.Errorf("%+v, %d bytes", o, len(cl.body()))
	}
	// The Responses API repeats the request in its preamble.
	o, cl, _ = attempt(t, to(t, s, nil), func(c *Call) {
		c.Stream, c.Body = true, append(c.Body, strings.Repeat(" ", 200<<10)...)
	})
	if wantClass(t, o, decision.Reset); o.Begun {
		t.Errorf("released %d bytes", len(cl.body()))
	}
}

func TestLargeFrames(t *testing.T) {
	big := delta(strings.Repeat("x", 20<<20))
	s := loopback(t, answers(streams(role, big, finish, doneMark)))
	u := to(t, s, nil)
	mem := &memory{limit: 40 << 20}
	o, cl, _ := attempt(t, u, func(c *Call) { c.Stream, c.Buffers = true, mem })
	wantClass(t, o, decision.OK)
	if cl.body() != role+big+finish+doneMark {
		t.Errorf("%d bytes", len(cl.body()))
	}
	if mem.used != 0 || mem.most < 19<<20 {
		t.Errorf("memory %+v", mem)
	}
	// Without the memory for it.
	mem.limit = 1 << 20
	o, _, _ = attempt(t, u, func(c *Call) { c.Stream, c.Buffers = true, mem })
	wantClass(t, o, decision.LocalRefusal)
	if o.Begun || mem.used != 0 {
		t.Errorf("%+v, memory %+v", o, mem)
	}
	// Above the limit, before and after output.
	for _, first := range []string{role, delta("a")} {
		s = loopback(t, func(p *peer) {
			p.next()
			p.send(sse + chunk(first))
			p.send(chunk("data: "))
			for range 40 {
				p.send(chunk(strings.Repeat("x", 1<<20)))
			}
			p.waitGone()
		})
		o, _, _ = attempt(t, to(t, s, nil), asStream)
		wantClass(t, o, decision.BadResponse)
		if o.Relayed != (first != role) {
			t.Errorf("relayed %v", o.Relayed)
		}
	}
}

// The end is told at once, however long the upstream keeps the connection.
func TestNoWaitAfterTheEnd(t *testing.T) {
	for _, hold := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := inMemory(t, silent(sse+chunk(role)+chunk(delta("x"))+chunk(finish)+chunk(doneMark)))
			start := time.Now()
			o, cl, _ := attempt(t, to(t, s, nil), func(c *Call) { c.Stream, c.Hold = true, hold })
			wantClass(t, o, decision.OK)
			if d := time.Since(start); d != drainDone || cl.at[len(cl.at)-1] != start {
				t.Errorf("after %v", d)
			}
		})
	}
	// A finish_reason, and then silence: the answer is whole, and nobody waits
	// long for what may never come.
	for _, hold := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := inMemory(t, silent(sse+chunk(role)+chunk(delta("x"))+chunk(finish)))
			for choices, want := range map[int]time.Duration{0: silenceAfterFinish, 1: silenceAfterFinish, 2: 30 * time.Second} {
				u := to(t, s, func(set *Settings) { set.Idle = 30 * time.Second })
				start := time.Now()
				o, cl, _ := attempt(t, u, func(c *Call) { c.Stream, c.Hold, c.Choices = true, hold, choices })
				wantClass(t, o, decision.OK)
				if d := time.Since(start); cl.body() != role+delta("x")+finish || d != want {
					t.Errorf("%d choices: relayed %q in %s", choices, cl.body(), d)
				}
			}
		})
	}
}

func TestClientThatCannotBeWrittenTo(t *testing.T) {
	s := loopback(t, answers(streams(role, delta("a"), delta("b"), finish, doneMark)))
	u := to(t, s, nil)
	broken := func() error { return errors.New("broken pipe") }
	for _, stream := range []bool{true, false} {
		for name, cl := range map[string]*client{"begin": {onBegin: broken}, "write": {onWrite: broken}} {
			if !stream {
				s = loopback(t, answers(reply(200, "", chatOK)))
				u = to(t, s, nil)
			}
			o := u.Attempt(context.Background(), callOf(u, cl, func(c *Call) { c.Stream = stream }))
			wantClass(t, o, decision.ClientGone)
			if !o.Begun || o.Relayed != (name == "write") || len(cl.writes) > 1 {
				t.Errorf("%s: %+v, %d writes", name, o, len(cl.writes))
			}
		}
	}
}

// A bucket that opens just as output is seen still moves the attempt: nothing
// went out.
func TestMovedAtTheFirstOutput(t *testing.T) {
	s := loopback(t, answers(streams(role, delta("a"), finish, doneMark)))
	u := to(t, s, nil)
	ctx, cancel := context.WithCancelCause(context.Background())
	o, _, _ := attemptIn(ctx, t, u, func(c *Call) {
		c.Stream, c.OnOutput = true, func() { cancel(ErrMoved) }
	})
	wantClass(t, o, decision.LocalRefusal)
	if o.Begun {
		t.Error("begun")
	}
}

// A stream asked for may come as one JSON answer, or as an error in one.
func TestStreamAnsweredAsJSON(t *testing.T) {
	s := loopback(t, answers(reply(200, "", chatOK)))
	o, cl, _ := attempt(t, to(t, s, nil), asStream)
	wantClass(t, o, decision.OK)
	if cl.body() != chatOK || cl.outputs != 1 || !o.HasFirstOutput || cl.header.Get("Content-Type") != "application/json" {
		t.Errorf("%q, %d outputs", cl.body(), cl.outputs)
	}
	s = loopback(t, answers(reply(200, "", `{"error":{"message":"x","type":"server_error","param":null,"code":null}}`)))
	o, _, _ = attempt(t, to(t, s, nil), asStream)
	wantClass(t, o, decision.ServerError)
	// No type at all: what it is shows in the frames.
	s = loopback(t, answers(strings.Replace(streams(role, delta("a"), finish, doneMark), "Content-Type: text/event-stream; charset=utf-8\r\n", "", 1)))
	o, _, _ = attempt(t, to(t, s, nil), asStream)
	wantClass(t, o, decision.OK)
	s = loopback(t, answers(streams(role, delta("a"), finish, doneMark)))
	o, _, _ = attempt(t, to(t, s, nil), nil)
	wantClass(t, o, decision.BadResponse)
}
