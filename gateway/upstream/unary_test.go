package upstream

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/gateway/wire"
	"failback/internal/bubble"
)

func zip(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.String()
}

// chatOf is a good answer of about n bytes.
func chatOf(n int) string {
	return strings.Replace(chatOK, "hello", strings.Repeat("x", max(n-len(chatOK), 0)), 1)
}

func TestUnaryAnswer(t *testing.T) {
	for _, n := range []int{0, 1 << 10, 31 << 10, 33 << 10, 200 << 10, 1 << 20, 3 << 20} {
		body := chatOf(n)
		whole := reply(200, "X-Request-Id: req_1\r\nTrailer: X-T", body)
		chunked := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n" +
			chunk(body[:len(body)/2]) + chunk(body[len(body)/2:]) + "0\r\nX-T: ignored\r\n\r\n"
		for name, answer := range map[string]string{
			"length": whole, "chunked": chunked,
			"gzip": reply(200, "Content-Encoding: gzip", zip(body)), "identity": reply(200, "Content-Encoding: identity", body),
			"until closed": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + body,
		} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				s := loopback(t, func(p *peer) {
					for p.next() {
						p.send(answer)
						if name == "until closed" {
							return
						}
					}
				})
				u := to(t, s, nil)
				mem := &memory{limit: 64 << 20}
				for range 3 {
					o, cl, _ := attempt(t, u, func(c *Call) { c.Buffers = mem })
					wantClass(t, o, decision.OK)
					if cl.body() != body || len(cl.writes) != 1 || cl.outputs != 0 {
						t.Fatalf("%d bytes in %d writes", len(cl.body()), len(cl.writes))
					}
					if h := cl.header; h.Get("Content-Length") != fmt.Sprint(len(body)) || h.Get("Content-Encoding") != "" || h.Get("Trailer") != "" {
						t.Errorf("header %v", h)
					}
					if o.InputTokens != 3 || o.OutputTokens != 2 || o.ResponseModel != "gpt-x" || o.HasFirstOutput {
						t.Errorf("%+v", o)
					}
					if name == "length" && o.UpstreamRequestID != "req_1" {
						t.Errorf("request id %q", o.UpstreamRequestID)
					}
				}
				if all, _ := s.counts(); name != "until closed" && all != 1 {
					t.Errorf("%d connections for 3 attempts", all)
				}
				if mem.used != 0 || (n > 1<<20 && mem.most < n-bufferSize) {
					t.Errorf("memory %+v", mem)
				}
			})
		}
	}
}

// Interim answers are none, and neither are a body's trailers.
func TestInterimAnswersAreIgnored(t *testing.T) {
	interim := "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
	for _, stream := range []bool{false, true} {
		answer := reply(200, "", chatOK)
		if stream {
			answer = strings.TrimSuffix(streams(role, delta("a"), finish, doneMark), "\r\n") + "X-Late: 1\r\n\r\n"
		}
		s := loopback(t, answers(interim+answer))
		u := to(t, s, nil)
		for range 2 {
			o, cl, _ := attempt(t, u, func(c *Call) { c.Stream = stream })
			wantClass(t, o, decision.OK)
			if cl.status != 200 || cl.header.Get("Link") != "" || cl.header.Get("X-Late") != "" {
				t.Errorf("%d %v", cl.status, cl.header)
			}
		}
		if made, _ := s.counts(); made != 1 {
			t.Errorf("%d connections", made)
		}
	}
}

func TestBadAnswers(t *testing.T) {
	html := reply(200, "Content-Type: text/html; charset=utf-8", "<html><body>Bad gateway</body></html>")
	for name, tt := range map[string]struct {
		answer string
		class  decision.Class
	}{
		"web page":          {html, decision.BadResponse},
		"web page as JSON":  {reply(200, "", "<html></html>"), decision.BadResponse},
		"nothing":           {reply(200, "", ""), decision.BadResponse},
		"no content":        {"HTTP/1.1 204 No Content\r\n\r\n", decision.BadResponse},
		"white space":       {reply(200, "", "  \n"), decision.BadResponse},
		"cut JSON":          {reply(200, "", chatOK[:len(chatOK)/2]), decision.BadResponse},
		"no choices":        {reply(200, "", `{"id":"x","object":"chat.completion","choices":[]}`), decision.BadResponse},
		"an error":          {reply(200, "", `{"error":{"message":"secret prose","type":"server_error","code":null}}`), decision.ServerError},
		"no credit":         {reply(200, "", `{"error":{"message":"secret prose","type":"insufficient_quota","code":"insufficient_quota"}}`), decision.QuotaExhausted},
		"unknown encoding":  {reply(200, "Content-Encoding: br", "\x00\x01"), decision.BadResponse},
		"no gzip":           {reply(200, "Content-Encoding: gzip", chatOK), decision.BadResponse},
		"cut gzip":          {reply(200, "Content-Encoding: gzip", zip(chatOK)[:60]), decision.BadResponse},
		"empty gzip":        {reply(200, "Content-Encoding: gzip", ""), decision.BadResponse},
		"damaged gzip":      {reply(200, "Content-Encoding: gzip", zip(chatOK)[:len(zip(chatOK))-8]+"12345678"), decision.BadResponse},
		"redirect":          {reply(302, "Location: http://b.test/?key=SECRET123", ""), decision.Unknown},
		"other protocol":    {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", decision.Unknown},
		"451":               {reply(451, "", "{}"), decision.Unknown},
		"event stream":      {streams(role, delta("x"), finish, doneMark), decision.BadResponse},
		"event stream, 500": {strings.Replace(streams(role), "200", "500", 1), decision.ServerError},
	} {
		t.Run(name, func(t *testing.T) {
			s := loopback(t, answers(tt.answer))
			u := to(t, s, nil)
			for _, stream := range []bool{false, true} {
				if stream && strings.HasPrefix(name, "event") {
					continue
				}
				o, cl, c := attempt(t, u, func(c *Call) { c.Stream = stream })
				wantClass(t, o, tt.class)
				if cl.begins != 0 || c.ErrorAnswer != nil || o.Status == 0 {
					t.Errorf("begun %d, %+v, %+v", cl.begins, c.ErrorAnswer, o)
				}
			}
			if n := len(s.got()); n > 2 {
				t.Errorf("%d requests", n) // redirects are not followed
			}
		})
	}
}

// Each status has its class, an error's words stay here unless they are the
// caller's affair, and the connection is used again.
func TestErrorAnswers(t *testing.T) {
	oneError := func(typ, code string) string {
		return `{"error":{"message":"about org-77","type":"` + typ + `","param":null,"code":"` + code + `"}}`
	}
	tests := []struct {
		status int
		header string
		body   string
		class  decision.Class
	}{
		{400, "", oneError("invalid_request_error", "bad_value"), decision.InvalidRequest},
		{413, "", oneError("invalid_request_error", "too_large"), decision.InvalidRequest},
		{422, "", oneError("invalid_request_error", "bad"), decision.InvalidRequest},
		{400, "", oneError("invalid_request_error", "context_length_exceeded"), decision.ContextLength},
		{400, "", oneError("invalid_request_error", "content_policy_violation"), decision.ContentFilter},
		{401, "", oneError("invalid_request_error", "invalid_api_key"), decision.Credential},
		{403, "", oneError("permission_error", ""), decision.Credential},
		{402, "", oneError("billing_error", ""), decision.QuotaExhausted},
		{429, "", oneError("insufficient_quota", "insufficient_quota"), decision.QuotaExhausted},
		{429, "Retry-After: 7", oneError("tokens", "rate_limit_exceeded"), decision.RateLimited},
		{404, "", oneError("invalid_request_error", "model_not_found"), decision.ModelGone},
		{408, "", "", decision.ServerError},
		{500, "", oneError("server_error", ""), decision.ServerError},
		{500, "", "<html>" + strings.Repeat("x", 64<<10), decision.ServerError}, // RTY-12
		{502, "", "", decision.ServerError},
		{503, "x-should-retry: false", oneError("service_unavailable_error", "server_is_overloaded"), decision.Overloaded},
		{529, "", "", decision.Overloaded},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status, tt.class), func(t *testing.T) {
			for _, zipped := range []bool{false, true} {
				header, body := tt.header, tt.body
				if zipped { // STR-15
					header, body = strings.TrimPrefix(header+"\r\nContent-Encoding: gzip", "\r\n"), zip(body)
				}
				s := loopback(t, answers(reply(tt.status, header, body)))
				u := to(t, s, nil)
				for i := range 4 {
					o, cl, c := attempt(t, u, func(c *Call) { c.Stream = i%2 == 0 })
					wantClass(t, o, tt.class)
					if o.Status != tt.status || cl.begins != 0 {
						t.Errorf("%+v", o)
					}
					if strings.Contains(o.Detail+o.Code, "org-77") {
						t.Errorf("%q %q", o.Detail, o.Code)
					}
					if (c.ErrorAnswer != nil) != isCallers(tt.class) {
						t.Fatalf("answer %+v", c.ErrorAnswer)
					}
					if a := c.ErrorAnswer; a != nil && (a.Status != tt.status || string(a.Body) != tt.body || a.Header.Get("Content-Encoding") != "") {
						t.Errorf("answer %d %v %s", a.Status, a.Header, a.Body)
					}
					if o.HasRetryAfter != (tt.header == "Retry-After: 7") || o.HasRetryAfter && o.RetryAfter != 7*time.Second {
						t.Errorf("retry after %v %v", o.HasRetryAfter, o.RetryAfter)
					}
					if (o.ShouldRetry == decision.No) != strings.HasPrefix(tt.header, "x-should") {
						t.Errorf("should retry %v", o.ShouldRetry)
					}
					if o.Unprocessed != (tt.status == 429 || tt.status == 503 || tt.status == 529) {
						t.Errorf("unprocessed %v", o.Unprocessed)
					}
				}
				if all, _ := s.counts(); all != 1 {
					t.Errorf("%d connections", all)
				}
			}
		})
	}
}

func TestModelNamedByAnError(t *testing.T) {
	for _, tt := range []struct {
		status int
		text   string
		want   bool
	}{
		{429, "Rate limit reached for gpt-x in organization", true},
		{429, "Rate limit reached", false},
		{503, "gpt-x is overloaded", true},
		{429, "gpt-x-mini is busy", false},
		{500, "gpt-x failed", false},
	} {
		s := loopback(t, answers(reply(tt.status, "", `{"error":{"message":"`+tt.text+`","type":"x","param":null,"code":null}}`)))
		if o, _, _ := attempt(t, to(t, s, nil), nil); o.NamesModel != tt.want {
			t.Errorf("%d %s: names the model: %v", tt.status, tt.text, o.NamesModel)
		}
	}
}

// An error whose body does not come, or does not end, is known by its status.
func TestErrorBodyThatHangs(t *testing.T) {
	for name, answer := range map[string]string{
		"no body":   "HTTP/1.1 503 X\r\nContent-Length: 100\r\n\r\n",
		"some":      "HTTP/1.1 503 X\r\nContent-Length: 100\r\n\r\n{\"error\"",
		"gzip":      "HTTP/1.1 503 X\r\nContent-Encoding: gzip\r\nContent-Length: 100\r\n\r\n" + zip(chatOK)[:20],
		"unlimited": "HTTP/1.1 503 X\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t, silent(answer))
				start := time.Now()
				o, _, _ := attempt(t, to(t, s, nil), func(c *Call) { c.Stream, c.FirstOutput = true, 10*time.Second })
				wantClass(t, o, decision.Overloaded)
				if d := time.Since(start); d != errorBodyFor {
					t.Errorf("after %v", d)
				}
			})
		})
	}
	s := loopback(t, func(p *peer) {
		p.next()
		p.send("HTTP/1.1 500 X\r\n\r\n")
		for range 1 << 20 {
			if _, err := p.Conn.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
		t.Error("all of an endless answer was read")
	})
	o, _, _ := attempt(t, to(t, s, nil), nil)
	wantClass(t, o, decision.ServerError)
	// A mistake of the caller's whose explanation was cut is not passed on.
	s = loopback(t, func(p *peer) {
		p.next()
		p.send("HTTP/1.1 400 X\r\nContent-Length: 900\r\n\r\n" + `{"error":{"message":"x"`)
	})
	o, _, c := attempt(t, to(t, s, nil), nil)
	wantClass(t, o, decision.InvalidRequest)
	if c.ErrorAnswer != nil {
		t.Errorf("answer %s", c.ErrorAnswer.Body)
	}
}

// STR-03: a caller's mistake told inside a success is the answer it would have
// been.
func TestCallersMistakeInsideASuccess(t *testing.T) {
	openai := `{"error":{"message":"bad tool","type":"invalid_request_error","param":"tools","code":"x"}}`
	anthropic := `{"type":"error","error":{"type":"invalid_request_error","message":"bad tool"}}`
	for _, tt := range []struct {
		ep     wire.Endpoint
		answer string
		want   string
	}{
		{wire.ChatCompletions, reply(200, "", openai), openai},
		{wire.ChatCompletions, streams("data: " + openai + "\n\n"), openai},
		{wire.Messages, streams(msgStart, "event: error\r\ndata: "+anthropic+"\r\n\r\n"), anthropic},
		{wire.Responses, streams("event: response.failed\ndata: " + `{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"invalid_prompt","message":"bad tool"}}}` + "\n\n"),
			`{"error":{"code":"invalid_prompt","message":"bad tool","param":null,"type":"invalid_request_error"}}`},
	} {
		s := loopback(t, answers(tt.answer))
		u := to(t, s, func(set *Settings) { set.Dialect = tt.ep.Dialect() })
		o, _, c := attempt(t, u, func(c *Call) { c.Endpoint, c.Stream = tt.ep, true })
		wantClass(t, o, decision.InvalidRequest)
		if c.ErrorAnswer == nil {
			t.Errorf("%s: no answer", tt.ep)
			continue
		}
		if a := c.ErrorAnswer; a.Status != 400 || string(a.Body) != tt.want || a.Header.Get("Content-Type") != "application/json" || a.Header.Get("Content-Length") != "" {
			t.Errorf("%s: %d %v %s", tt.ep, a.Status, a.Header, a.Body)
		}
	}
}

func TestEventData(t *testing.T) {
	for frame, want := range map[string]string{
		"data: {}\n\n": "{}", "data:{}\r\n\r\n": "{}", "event: x\rdata: a\rdata: b\r\r": "a\nb", ": c\n\n": "",
	} {
		if got := string(eventData([]byte(frame))); got != want {
			t.Errorf("%q: %q", frame, got)
		}
	}
}

// What cannot be held is given out as it comes, and judged by its end.
func TestLargeUnaryAnswers(t *testing.T) {
	body := chatOf(5 << 20)
	head := func(n int) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", n)
	}
	chunked := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
	tests := []struct {
		name   string
		answer string
		class  decision.Class
		length bool
	}{
		{"length", head(len(body)) + body, decision.OK, true},
		{"chunked", chunked + chunk(body) + end, decision.OK, false},
		{"gzip", reply(200, "Content-Encoding: gzip", zip(body)), decision.OK, false},
		{"cut", head(len(body)) + body[:len(body)-100], decision.Interrupted, true},
		{"cut chunk", chunked + chunk(body), decision.Interrupted, false},
		{"ends in the middle", chunked + chunk(body[:len(body)-5]) + end, decision.Interrupted, false},
		{"no JSON", chunked + chunk(strings.Repeat("x", 5<<20)) + end, decision.BadResponse, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := loopback(t, func(p *peer) { p.next(); p.send(tt.answer) })
			for _, stream := range []bool{false, true} {
				o, cl, _ := attempt(t, to(t, s, nil), func(c *Call) { c.Stream = stream })
				wantClass(t, o, tt.class)
				if tt.class == decision.OK && cl.body() != body {
					t.Errorf("%d bytes", len(cl.body()))
				}
				if tt.class == decision.BadResponse {
					if cl.begins != 0 {
						t.Error("begun")
					}
					continue
				}
				if (cl.header.Get("Content-Length") != "") != tt.length || cl.outputs != 1 || cl.header.Get("Content-Encoding") != "" {
					t.Errorf("header %v, %d outputs", cl.header, cl.outputs)
				}
			}
		})
	}
	// Exactly what may be held is; without memory even less is released.
	s := loopback(t, answers(chunked+chunk(body)+end))
	o, cl, _ := attempt(t, to(t, s, nil), func(c *Call) { c.MaxHeld = int64(len(body)) })
	wantClass(t, o, decision.OK)
	if len(cl.writes) != 1 {
		t.Errorf("%d writes", len(cl.writes))
	}
	mem := &memory{limit: 256 << 10}
	o, cl, _ = attempt(t, to(t, s, nil), func(c *Call) { c.Buffers = mem })
	wantClass(t, o, decision.OK)
	if len(cl.writes) < 2 || cl.body() != body || mem.used != 0 {
		t.Errorf("%d writes, %d bytes, memory %+v", len(cl.writes), len(cl.body()), mem)
	}
}

func TestWholeBoundsAUnaryAttempt(t *testing.T) {
	for name, answer := range map[string]string{
		"hang": "", "header": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n",
		"half": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n" + chatOK[:50],
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := to(t, inMemory(t, silent(answer)), nil)
				start := time.Now()
				o, _, _ := attempt(t, u, func(c *Call) {
					c.Whole, c.FirstOutput = 7*time.Second, time.Second // FirstOutput is for streams
				})
				wantClass(t, o, decision.AttemptTimeout)
				if d := time.Since(start); d != 7*time.Second {
					t.Errorf("after %v", d)
				}
			})
		})
	}
	// An answer given out as it comes is not cut off by the limit that was
	// there to try another upstream.
	synctest.Test(t, func(t *testing.T) {
		u := to(t, inMemory(t, func(p *peer) {
			p.next()
			body := chatOf(200 << 10)
			p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:150<<10]))
			bubble.Sleep(time.Minute)
			p.send(body[150<<10:])
		}), nil)
		o, _, _ := attempt(t, u, func(c *Call) { c.Whole, c.MaxHeld = 7*time.Second, 100<<10 })
		wantClass(t, o, decision.OK)
	})
}

// FOV-08, SEC-03: the request is this upstream's in path, model, key and
// headers, and the client's byte for byte in everything else.
func TestRequestAsTheUpstreamSeesIt(t *testing.T) {
	body := "{ \"n\" : 1e2,\t\"model\" :\"m\" , \"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9\\/ \\ud83d\\ude00 \xc3\xa9\"}],\r\n \"x\":-0.0 , \"y\":1.50}  \n"
	for _, pad := range []int{0, 10 << 10, 1 << 20} {
		sent := body + strings.Repeat(" ", pad)
		for _, tt := range []struct {
			name, base, auth, path string
			dialect                decision.Dialect
			ep                     wire.Endpoint
			keyHeader, key         string
		}{
			{"openai", "/openai/v1", "", "/openai/v1/chat/completions", decision.OpenAI, wire.ChatCompletions, "Authorization", "Bearer SECRET123"},
			{"embeddings", "/v1/", "api-key", "/v1/embeddings", decision.OpenAI, wire.Embeddings, "Api-Key", "SECRET123"},
			{"anthropic", "", "", "/v1/messages", decision.Anthropic, wire.Messages, "X-Api-Key", "SECRET123"},
			{"count", "/base%2Fx", "bearer", "/base%2Fx/v1/messages/count_tokens?api-version=1", decision.Anthropic, wire.CountTokens, "Authorization", "Bearer SECRET123"},
		} {
			t.Run(fmt.Sprint(tt.name, pad), func(t *testing.T) {
				s := loopback(t, answers(reply(500, "", "")))
				u := to(t, s, func(set *Settings) {
					query := ""
					if strings.Contains(tt.path, "?") {
						query = "?api-version=1#frag"
					}
					set.BaseURL, _ = url.Parse("http://user:SECRET123@" + s.l.Addr().String() + tt.base + query)
					set.Dialect, set.Auth = tt.dialect, tt.auth
				})
				_, _, _ = attempt(t, u, func(c *Call) {
					c.Endpoint, c.Body = tt.ep, []byte(sent)
					c.ModelStart = strings.Index(sent, `"m" `)
					c.ModelEnd = c.ModelStart + 3
					c.Model = "other/model"
					for name, v := range map[string]string{
						"Anthropic-Beta": "b1", "Content-Type": "application/json; charset=utf-8", "User-Agent": "sdk/1",
						"Authorization": "Bearer VK", "X-Api-Key": "VK", "Api-Key": "VK", "Cookie": "VK", "Proxy-Authorization": "VK",
						"Accept-Encoding": "br", "Connection": "X-Gone", "Te": "trailers", "Expect": "100-continue", "Host": "VK", "Transfer-Encoding": "x",
					} {
						c.Header.Set(name, v)
					}
				})
				got := s.got()
				if len(got) != 1 {
					t.Fatalf("%d requests", len(got))
				}
				r := got[0]
				if r.line != "POST "+tt.path+" HTTP/1.1" {
					t.Errorf("line %q", r.line)
				}
				if want := strings.Replace(sent, `"m" `, `"other/model" `, 1); r.body != want {
					t.Errorf("body %d bytes\n%.300q\nwant %d bytes\n%.300q", len(r.body), r.body, len(want), want)
				}
				want := map[string]string{
					"Host": s.l.Addr().String(), "Content-Length": fmt.Sprint(len(r.body)), "Anthropic-Beta": "b1",
					"Content-Type": "application/json; charset=utf-8", "User-Agent": "sdk/1", "Accept": "application/json",
					"Accept-Encoding": "identity", tt.keyHeader: tt.key,
				}
				for name := range r.header {
					if want[name] == "" {
						t.Errorf("%s: %q was sent", name, r.header[name])
					}
				}
				for name, v := range want {
					if r.header.Get(name) != v {
						t.Errorf("%s: %q, want %q", name, r.header[name], v)
					}
				}
			})
		}
	}
	// An upstream without keys gets none, and nobody else's.
	s := loopback(t, answers(reply(500, "", "")))
	u := to(t, s, func(set *Settings) { set.Keys = nil })
	_, _, _ = attempt(t, u, func(c *Call) { c.Stream = true; c.Header.Set("Authorization", "Bearer VK") })
	if r := s.got()[0]; r.header.Get("Authorization") != "" || r.header.Get("Accept") != "text/event-stream" || r.header.Get("User-Agent") != "failback" {
		t.Errorf("header %v", r.header)
	}
}

// Attempts take the keys in turn; each is bound to the settings it is of.
func TestAttemptsTakeKeysInTurn(t *testing.T) {
	s := loopback(t, answers(reply(500, "", "")))
	u := to(t, s, func(set *Settings) { set.Keys = []string{"k1", "k2", "k3"} })
	for range 6 {
		mustPick(t, u, 0) // asking does not move on
		attempt(t, u, nil)
	}
	var keys []string
	for _, r := range s.got() {
		keys = append(keys, strings.TrimPrefix(r.header.Get("Authorization"), "Bearer "))
	}
	if got := strings.Join(keys, " "); got != "k1 k2 k3 k1 k2 k3" {
		t.Errorf("keys %s", got)
	}
	// A key picked before a change of host goes where it belongs.
	other := loopback(t, answers(reply(500, "", "")))
	old := mustPick(t, u, 0)
	set := u.current.Load().s
	set.BaseURL = &url.URL{Scheme: "http", Host: other.l.Addr().String()}
	set.Keys = []string{"new"}
	u.Update(set)
	attempt(t, u, func(c *Call) { c.Key = old })
	attempt(t, u, nil)
	if len(s.got()) != 7 || len(other.got()) != 1 || other.got()[0].header.Get("Authorization") != "Bearer new" {
		t.Errorf("%d and %d requests", len(s.got()), len(other.got()))
	}
}

func TestRequestIDIsCleaned(t *testing.T) {
	s := loopback(t, answers(reply(500, "Request-Id: req\t1\x80"+strings.Repeat("x", 300), "")))
	o, _, _ := attempt(t, to(t, s, nil), nil)
	if !strings.HasPrefix(o.UpstreamRequestID, "req1x") || len(o.UpstreamRequestID) > 128 {
		t.Errorf("%q", o.UpstreamRequestID)
	}
}

func TestEnvelope(t *testing.T) {
	if envelope(decision.OpenAI, []byte("no JSON")) != nil || envelope(decision.OpenAI, []byte(`{"x":1}`)) != nil || envelope(decision.Anthropic, []byte(`{"message":"x"}`)) != nil {
		t.Error("something out of nothing")
	}
	got := envelope(decision.OpenAI, []byte(`{"type":"error","code":"c","message":"m","param":"p"}`))
	var e struct{ Error map[string]string }
	if json.Unmarshal(got, &e) != nil || e.Error["message"] != "m" || e.Error["code"] != "c" || e.Error["param"] != "p" {
		t.Errorf("%s", got)
	}
}
