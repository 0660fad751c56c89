package gateway_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/decision"
)

// outputs are all that the gateway says to anybody but g's own client: log, metrics,
// state and standard error.
func (w *scene) outputs() map[string]string {
	w.Helper()
	synctest.Wait()
	state, err := json.Marshal(w.gw.OperatorState())
	if err != nil {
		w.Fatal(err)
	}
	return map[string]string{"the log": w.lines.String(), "/metrics": w.gw.Exposed(), "the state": string(state), "standard error": w.texts.String()}
}

// hides checks that none of secrets is in what anybody is told.
func (w *scene) hides(g *got, secrets ...string) {
	w.Helper()
	all := w.outputs()
	if g != nil {
		all["the client"] = fmt.Sprint(g.status, g.header, g.trailer, g.body, g.err)
	}
	for where, text := range all {
		for _, secret := range secrets {
			if i := strings.Index(text, secret); i >= 0 {
				w.Errorf("%s says %q: %s", where, secret, text[max(0, i-80):min(len(text), i+80)])
			}
		}
	}
}

// SEC-01: what stands in a URL is told to nobody, whatever the upstream does,
// and no redirect is followed. Where a credential could stand it is refused.
func TestSEC01(t *testing.T) {
	const secret = "SECRET123"
	untrusted, _ := h2certificate(t)
	for _, c := range []struct {
		name string
		url  string // of A; {p} is the path
		play func(*exchange)
		end  string // who answers
	}{
		{"404", "", status(404, `{"error":{"message":"no `+secret+`"}}`), "200 B degraded_completed"},
		{"401", "", status(401, `{"error":{"message":"key `+secret+` of http://a.test"}}`), "502  unavailable"},
		{"503", "", status(503, `see http://a.test/`+secret), "200 B degraded_completed"},
		{"garbage", "", func(e *exchange) { e.raw("HTTP/1.1 " + secret + "\r\n\r\n"); e.cut() }, "200 B degraded_completed"},
		{"redirect", "", status(302, "", "Location: http://other.test:80/"+secret), "502  unavailable"},
		{"permanent redirect", "", status(308, "", "Location: http://b.test:80/v1/chat/completions?key="+secret), "502  unavailable"},
		{"refused", "http://a.test:81/{p}", nil, "200 B degraded_completed"},
		{"no host", "http://" + secret + ".invalid:80/{p}", nil, "200 B degraded_completed"},
		{"TLS", "https://bad.test:443/{p}", nil, "200 B degraded_completed"},
	} {
		for _, way := range callings {
			t.Run(c.name+"/"+way.name, func(t *testing.T) {
				inScene(t, setting{dialect: way.dialect}, func(w *scene) {
					followed := false
					defer w.accepts("other.test:80", func(net.Conn) { followed = true })()
					defer w.accepts("bad.test:443", func(c net.Conn) { _, _ = io.Copy(io.Discard, tls.Server(c, untrusted)) })()
					url := strings.Replace(c.url, "{p}", secret, 1)
					if url == "" {
						url = "http://a.test:80/" + secret
						w.up["A"].plays(c.play)
					}
					w.reconfigure(`"http://a.test:80`, `"`+url)
					g := w.call(way.path, way.body)
					if served(g) != c.end || followed || g.header.Get("Location") != "" {
						w.Errorf("%s, want %s; followed: %t; %v", served(g), c.end, followed, g.header)
					}
					if w.up["B"].asked() > 1 {
						w.Errorf("asked %s", w.asked())
					}
					w.hides(g, secret, "other.test", "bad.test", "a.test")
				})
			})
		}
	}
	inScene(t, setting{}, func(w *scene) {
		for _, c := range []struct{ where, url string }{
			{"query", "http://a.test:80/v1?key=" + secret},
			{"empty query", "http://a.test:80/" + secret + "?"},
			{"password", "https://u:" + secret + "@a.test/v1"},
			{"user", "https://" + secret + "@a.test/v1"},
			{"fragment", "https://a.test/v1#" + secret},
			{"port", "https://a.test:" + secret + "/v1"},
			{"scheme", secret + "://a.test/v1"},
			{"no URL", "https://a.test/%zz" + secret},
		} {
			good := w.config
			w.rewrite(`"http://a.test:80/v1"`, `"`+c.url+`"`)
			_, err := w.gw.Reload(w.Context(), "test")
			if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "base_url") {
				w.Errorf("%s: %v", c.where, err)
			}
			w.config = good
			w.hides(nil, secret)
		}
	})
}

// SEC-03: an upstream without a credential is no upstream: neither start nor
// reload accept it, and a client's own key goes nowhere.
func TestSEC03(t *testing.T) {
	const client = "VK-of-client"
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("SEC03_EMPTY", "")
	t.Setenv("SEC03_SPACE", "  \t ")
	t.Setenv("SEC03_LINES", "\n\r\n")
	for _, way := range callings {
		t.Run(way.name, func(t *testing.T) {
			inScene(t, setting{dialect: way.dialect}, func(w *scene) {
				for _, source := range []string{
					"env:SEC03_NOT_SET", "env:SEC03_EMPTY", "env:SEC03_SPACE", "env:SEC03_LINES", `""`, `" "`, "null", "$SEC03_EMPTY", `"${SEC03_NOT_SET}"`,
					"file:" + file("empty", ""), "file:" + file("space", " \n\t\n"), "file:" + file("bom", "\ufeff\n"), "file:" + filepath.Join(dir, "none"), "file:" + dir,
				} {
					good := w.config
					w.rewrite("api_key: key-of-A", "api_key: "+source)
					if _, err := w.gw.Reload(w.Context(), "test"); err == nil || !strings.Contains(err.Error(), "upstreams.A.api_key") {
						w.Errorf("%s: %v", source, err)
					}
					w.rewrite("api_key: "+source+"}", "api_keys: [key-of-A, "+source+"]}")
					if _, err := w.gw.Reload(w.Context(), "test"); err == nil || !strings.Contains(err.Error(), "upstreams.A.api_keys") {
						w.Errorf("%s as a second key: %v", source, err)
					}
					w.config = good
				}
				// A key given by every header a client has reaches nobody, also
				// where the upstream's own travels by another.
				for _, auth := range []string{"bearer", "x-api-key", "api-key"} {
					good := w.config
					w.reconfigure("api_key: key-of-A", "auth: "+auth+", api_key: key-of-A")
					g := w.call(way.path+"?key="+client+"&api-key="+client, way.body, "Authorization", "Bearer "+client, "X-Api-Key", client, "Api-Key", client,
						"X-Goog-Api-Key", client, "Proxy-Authorization", "Basic "+client, "Cookie", "k="+client, "Openai-Organization", client, "X-Auth-Token", client)
					if served(g) != "200 A completed" {
						w.Errorf("%s: %s", auth, served(g))
					}
					w.config = good
				}
				for _, r := range w.up["A"].heard() {
					if text := fmt.Sprint(r); strings.Contains(text, client) || keyIn(r.header) != "key-of-A" {
						w.Errorf("A saw %s", text)
					}
				}
				w.hides(nil, client, "key-of-A")
			})
		})
	}
	for _, source := range []string{"env:SEC03_EMPTY", "\"exec:printf ' '\"", "\"exec:exit 3\"", "file:" + filepath.Join(dir, "space")} {
		src := config.Source{Data: []byte(strings.Replace(plainYAML, "api_key: k", "api_key: "+source, 1)), Env: os.LookupEnv}
		g := gateway.New(gateway.Options{Load: func(ctx context.Context) (*config.Config, error) { return config.Load(ctx, src) }})
		if err := g.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "upstreams.a.api_key") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// SEC-04: who gets an error learns nothing of the providers behind: no hosts,
// no keys, no account, and nothing of what providers say about us.
func TestSEC04(t *testing.T) {
	const account = "org-7f3a balance $ZQ0.42"
	body := func(kind, code string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"code":%q,"message":"%s of key-of-A at http://a.test"}}`, kind, code, account)
	}
	inBand := func(kind, code string) func(*exchange) {
		return func(e *exchange) {
			if !question(e.req.body).Stream {
				e.answer(200, body(kind, code), "X-Org: "+account)
				return
			}
			e.sse("X-Org: " + account)
			e.piece("event: error\ndata: " + body(kind, code) + "\n\n")
			e.end()
		}
	}
	for _, c := range []struct {
		name   string
		status int
		play   func(*exchange)
	}{
		{"credential", 502, status(403, body("permission_error", "forbidden"), "OpenAI-Organization: "+account)},
		{"dead key", 502, status(401, body("authentication_error", "invalid_api_key"), "WWW-Authenticate: "+account)},
		{"no credit", 502, status(402, body("billing_error", "insufficient_quota"))},
		{"no credit in a 400", 502, status(400, body("invalid_request_error", "credit_balance_exhausted"))},
		{"no quota", 502, status(429, body("insufficient_quota", "insufficient_quota"))},
		{"rate limit", 429, status(429, body("rate_limit_error", "rate_limit_exceeded"), "X-Ratelimit-Limit-Requests: "+account)},
		{"overloaded", 503, status(529, body("overloaded_error", ""))},
		{"server error", 502, status(500, body("api_error", ""))},
		{"no model", 502, status(404, body("not_found_error", "model_not_found"))},
		{"unknown", 502, status(451, body("", ""))},
		{"HTML", 502, status(502, "<html>"+account+"</html>", "Server: "+account)},
		{"in band, credential", 502, inBand("authentication_error", "invalid_api_key")},
		{"in band, overloaded", 503, inBand("overloaded_error", "")},
		{"in band, unknown", 502, inBand("something", "")},
	} {
		for _, way := range callings {
			t.Run(c.name+"/"+way.name, func(t *testing.T) {
				s := setting{dialect: way.dialect, more: "errors: {credential: switch, quota_exhausted: switch}\nretry: {max_wait: 0s}\n"}
				inScene(t, s, func(w *scene) {
					for _, a := range w.up {
						a.plays(c.play)
					}
					g := w.call(way.path, way.body, "X-Request-Id", "my-request")
					if g.status != c.status || !strings.Contains(g.body, "my-request") && g.header.Get("X-Request-Id") != "my-request" {
						w.Errorf("%d, want %d: %v %s", g.status, c.status, g.header, g.body)
					}
					w.hides(g, "org-7f3a", "ZQ0.42", "key-of", ".test")
					if d := w.last(); len(d.Attempts) == 0 || d.Attempts[0].Status == 0 || d.RequestID != "my-request" {
						w.Errorf("the log does not tell operators: %+v", d)
					}
				})
			})
		}
	}
	for _, way := range callings {
		t.Run(way.name, func(t *testing.T) {
			inScene(t, setting{dialect: way.dialect}, func(w *scene) {
				g := w.call(way.path, strings.Replace(way.body, `"m"`, `"nobody-has-it"`, 1))
				if g.status != 404 || strings.Contains(g.body, `"A"`) || g.header.Get("Failback-Upstream") != "" {
					w.Errorf("%d %s", g.status, g.body)
				}
				w.hides(g, "key-of", ".test", "nobody-has-it")
				// After output, too, an error is in our words.
				w.up["A"].plays(func(e *exchange) {
					a := replyOf(strings.TrimPrefix(way.path, "/"), e.name, false)
					e.sse("X-Org: " + account)
					e.piece(a.preamble + a.first)
					e.piece("event: error\ndata: " + body("overloaded_error", "") + "\n\n")
					e.end()
				})
				if !way.stream {
					return
				}
				g = w.call(way.path, way.body)
				if errs := g.errorFrames(); g.status != 200 || len(errs) != 1 || w.last().WorkflowStatus != string(decision.Incomplete) {
					w.Errorf("%d %q %s", g.status, errs, w.last().WorkflowStatus)
				}
				w.hides(g, "org-7f3a", "ZQ0.42", "key-of", ".test")
			})
		})
	}
}

// SEC-05: all keys that are not known get one answer, and nothing of them is
// kept or told.
func TestSEC05(t *testing.T) {
	sum := sha256.Sum256([]byte("good-key"))
	keys := fmt.Sprintf("keys: [{name: web-team, hash: \"sha256:%x\", models: [m]}]\n", sum)
	for _, secure := range []bool{false, true} {
		for _, way := range callings {
			t.Run(way.name+"/"+protocolOf(secure), func(t *testing.T) {
				inScene(t, setting{dialect: way.dialect, secure: secure, more: keys}, func(w *scene) {
					want := ""
					for i, c := range []struct{ name, value string }{
						{"None", ""},
						{"Authorization", "Bearer sk-ant-REAL-LOOKING-wrong-0123456789abcdef"},
						{"X-Api-Key", "AIza-REAL-LOOKING-wrong"},
						{"Authorization", "Bearer good-key-wrong"},
						{"Authorization", "Bearer good-ke"},
						{"Authorization", "Bearer GOOD-KEY-wrong"},
						{"Authorization", "Bearer "},
						{"Authorization", "good-key"},
						{"Authorization", "Basic Z29vZC1rZXk6d3Jvbmc="},
						{"Authorization", fmt.Sprintf("Bearer %x", sum)},
						{"X-Api-Key", fmt.Sprintf("sha256:%x", sum)},
						{"X-Api-Key", "' OR 1=1 -- <b>wrong</b> ${wrong} %s%n {{wrong}}"},
						{"X-Api-Key", "wrong-\u202e\u009b31m-\xff"},
						{"X-Api-Key", strings.Repeat("wrong", 8000)},
					} {
						g := w.call(way.path, way.body, "X-Request-Id", "r", c.name, c.value)
						g.header.Del("Date")
						got := fmt.Sprint(g.status, g.header, g.body)
						if i == 0 {
							want = got
						}
						if got != want || g.status != 401 {
							w.Errorf("%s: %.60q:\n%s\nwant\n%s", c.name, c.value, got, want)
						}
						if strings.Contains(strings.ToLower(g.body), "failback") || strings.Contains(g.body, "web-team") {
							w.Errorf("it says whose it is: %s", g.body)
						}
						w.hides(g, "wrong", "REAL", "good-ke", "GOOD", "Z29v", fmt.Sprintf("%x", sum), "OR 1=1")
					}
					if envelope := strings.Contains(want, `"authentication_error"`) && strings.Contains(want, `{"type":"error"`); envelope != (way.dialect == decision.Anthropic) {
						w.Errorf("not the dialect's envelope: %s", want)
					}
					// What no header of ours may hold never gets that far, and is
					// not repeated either.
					g := w.call(way.path, way.body, "X-Api-Key", strings.Repeat("wrong", 200_000))
					if g.err == nil && g.status != 431 {
						w.Errorf("a key of 1 MB: %d %s", g.status, g.body)
					}
					w.hides(g, "wrongwrong")
					if w.asked() != "A0 B0 C0" {
						w.Errorf("asked %s", w.asked())
					}
					if g := w.call(way.path, way.body, "X-Api-Key", "good-key"); served(g) != "200 A completed" {
						w.Errorf("a good key: %s", served(g))
					}
					w.hides(nil, "good-key", fmt.Sprintf("%x", sum))
				})
			})
		}
	}
}
