//go:build unix

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"failback/gateway/operator/api"
)

// outputs are all places where something could be read that should not.
var outputs = []string{
	"answers", "errors", // what clients got with a status below 400, and with others
	"log", "metrics", "state", "decisions", "events", "audit", "prometheus", "loki",
	"stderr", "disk", "cli", "check", "show", "console",
	"upstream",
}

// May appear in: sets of outputs.
const (
	nowhere = ""
	// inLines are what shows lines of the decision log: once for requests, once
	// for what operators do.
	inLines = "log decisions loki disk cli console"
)

// places are all places where a text from outside enters, and where each may
// come out again. What stands in front of a + must come out there; the rest may.
var places = map[string]string{
	// The configuration.
	"base_url path":         "upstream+ show",
	"base_url host":         "show",
	"api_key literal":       "upstream+",
	"api_key env":           "upstream+",
	"api_key file":          "upstream+",
	"api_key exec":          "upstream+",
	"api_key exec argument": nowhere,
	"webhook":               nowhere,
	"refused: URL query":    nowhere,
	"refused: URL user":     nowhere,
	"refused: key":          nowhere,
	"task, configured":      "log+ decisions+ loki+ disk cli console metrics+ prometheus state+ check+ show+",
	"model, configured":     "log+ decisions+ loki+ disk cli console metrics+ prometheus state+ check+ show+ errors answers",
	"the upstream's model":  "upstream+ log+ decisions+ events loki+ disk cli console state+ check show+",
	// A client's request.
	"client key":                    nowhere,
	"wrong client key":              nowhere,
	"Proxy-Authorization":           nowhere,
	"Api-Key":                       nowhere,
	"Cookie":                        nowhere,
	"query":                         nowhere,
	"path":                          nowhere,
	"method":                        nowhere,
	"Referer":                       nowhere,
	"X-Forwarded-For":               nowhere,
	"organization":                  nowhere,
	"tracestate":                    "upstream+", // W3C trace context goes on
	"User-Agent":                    "upstream+",
	"OpenAI-Beta":                   "upstream+",
	"request id":                    "answers+ errors+ log+ decisions+ loki+ disk cli console",
	"request id, too long":          nowhere,
	"trace id":                      inLines + " upstream+",
	"task, not configured":          nowhere,
	"task, not configured, in body": "upstream+",
	"model, unknown":                nowhere,
	"conversation":                  "log+ decisions+ loki+ disk cli console",
	"turn":                          "log+ decisions+ loki+ disk cli console",
	"state version":                 "log+ decisions+ loki+ disk cli console",
	"idempotency key":               "log+ decisions+ loki+ disk cli console",
	"conversation, in body":         "upstream+ log+ decisions+ loki+ disk cli console",
	"deadline":                      nowhere,
	"unknown control":               "answers+ errors",
	"prompt":                        "upstream+",
	"system prompt":                 "upstream+",
	"tool":                          "upstream+",
	"user":                          "upstream+",
	"prompt_cache_key":              "upstream+",
	"metadata":                      "upstream+",
	"unknown field":                 "upstream+",
	"not JSON":                      nowhere,
	// An upstream's answer.
	"answer":                         "answers+",
	"answer, streamed":               "answers+",
	"answer, broken off":             "answers+",
	"answer, cut before its output":  nowhere,
	"answer, not JSON":               nowhere,
	"answer, not an event":           nowhere,
	"rate limit header":              "answers+",
	"rate limit header of a failure": nowhere,
	"other header":                   nowhere,
	"Set-Cookie":                     nowhere,
	"Location":                       nowhere,
	"status line":                    nowhere,
	"not HTTP":                       nowhere,
	"trailer":                        nowhere,
	"early hint":                     nowhere,
	"Retry-After":                    nowhere,
	"upstream's request id":          "log+ decisions+ loki+ disk cli console",
	"response model":                 "answers+ log+ decisions+ loki+ disk cli console",
	"error message":                  nowhere,
	"error message, of a mistake":    "errors+",
	"error message, in a stream":     nowhere,
	"error message, after output":    nowhere,
	"error type":                     inLines, // for operators
	"error code":                     inLines,
	"error param":                    nowhere,
	"error page":                     nowhere,
	// An operator.
	"operator token":                nowhere,
	"wrong operator token":          nowhere,
	"reason of a command":           "log+ events+ loki+ disk audit+ state cli console",
	"reason of a refused command":   "log events loki disk audit+ state cli console",
	"unknown upstream of a command": "log events loki disk audit cli console",
	"operator query":                nowhere,
}

// canary is the text that stands for a place: letters and digits only, so that
// no way of writing it changes it.
func canary(place string) string {
	if _, ok := places[place]; !ok {
		panic("no place " + place)
	}
	sum := sha256.Sum256([]byte(place))
	if place == "trace id" {
		return fmt.Sprintf("%x", sum[:16])
	}
	letters := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}
	return fmt.Sprintf("cn%s%xnc", strings.Map(letters, strings.ToLower(place)), sum[:4])
}

// parrot is an upstream that does what the prompt says and repeats what it was
// taught; it keeps all that it hears.
type parrot struct {
	mu    sync.Mutex // guards heard
	heard bytes.Buffer
}

func (p *parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	fmt.Fprintf(&p.heard, "%s %s %v %s\n", r.Method, r.URL, r.Header, body)
	p.mu.Unlock()
	_, do, _ := strings.Cut(string(body), "do:")
	do, _, _ = strings.Cut(do, `"`)
	if strings.Contains(r.URL.Path, "/safe/") {
		do = "ok"
	}
	complaint := func(message, code string) string {
		return fmt.Sprintf(`{"error":{"message":"%s","type":"%s","code":"%s","param":"%s"}}`, canary(message), canary("error type"), code, canary("error param"))
	}
	answers := func(status int, body string) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", canary("upstream's request id"))
		w.Header().Set("X-Powered-By", canary("other header"))
		w.Header().Set("Openai-Organization", canary("other header"))
		w.Header().Set("Set-Cookie", canary("Set-Cookie"))
		if status > 400 {
			w.Header().Set("X-Ratelimit-Remaining-Requests", canary("rate limit header of a failure"))
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
	completion := func(text string) string {
		return fmt.Sprintf(`{"id":"c","object":"chat.completion","model":"%s","choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}]}`, canary("response model"), text)
	}
	chunk := func(text, finish string) {
		_, _ = fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"finish_reason\":%s}]}\n\n", text, finish)
		_ = http.NewResponseController(w).Flush()
	}
	raw := func(text string) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(c, text)
		_ = c.Close()
	}
	streams := strings.Contains(string(body), `"stream":true`)
	switch do {
	case "401":
		answers(401, complaint("error message", canary("error code")))
	case "402", "403", "404", "500", "503", "429":
		var status int
		_, _ = fmt.Sscan(do, &status)
		w.Header().Set("Retry-After", canary("Retry-After"))
		answers(status, complaint("error message", canary("error code")))
	case "400":
		answers(400, fmt.Sprintf(`{"error":{"message":"%s","type":"invalid_request_error","code":"invalid_value","param":null}}`, canary("error message, of a mistake")))
	case "302":
		w.Header().Set("Location", "http://127.0.0.1:1/"+canary("Location"))
		answers(302, "")
	case "page":
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(502)
		_, _ = io.WriteString(w, "<html>"+canary("error page")+"</html>")
	case "200 page":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>"+canary("error page")+"</html>")
	case "garbage":
		answers(200, canary("answer, not JSON"))
	case "status":
		raw("HTTP/1.1 503 " + canary("status line") + "\r\nContent-Length: 0\r\n\r\n")
	case "not HTTP":
		raw(canary("not HTTP") + "\r\n\r\n")
	case "cut":
		raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{\"id\":\"" + canary("answer, cut before its output"))
	case "stream garbage":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+canary("answer, not an event")+"\n\n")
	case "stream error":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: error\ndata: "+complaint("error message, in a stream", "server_error")+"\n\n")
	case "late error":
		w.Header().Set("Content-Type", "text/event-stream")
		chunk(canary("answer, broken off"), "null")
		_, _ = io.WriteString(w, "data: "+complaint("error message, after output", "server_error")+"\n\n")
	default:
		w.Header().Set("X-Ratelimit-Remaining-Requests", canary("rate limit header"))
		w.Header().Set("Trailer", "X-Trailer")
		w.Header().Set("Link", canary("early hint"))
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		if streams {
			w.Header().Set("Content-Type", "text/event-stream")
			chunk(canary("answer, streamed"), "null")
			chunk("", `"stop"`)
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
		} else {
			answers(200, completion(canary("answer")))
		}
		w.Header().Set("X-Trailer", canary("trailer"))
	}
}

// sent is what clients got.
type sent struct{ answers, errors bytes.Buffer }

// send sends a request as it is and keeps what comes back.
func (s *sent) send(t *testing.T, address, request string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(c, request) }()
	answer, err := io.ReadAll(c)
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 ")) {
		t.Errorf("%v: %.200q\nto %.300q", err, answer, request)
	}
	if bytes.HasPrefix(answer, []byte("HTTP/1.1 2")) {
		s.answers.Write(answer)
	} else {
		s.errors.Write(answer)
	}
}

// post is a request with its headers, as lines.
func post(path, body string, headers ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		path, len(body), strings.Join(append(headers, ""), "\r\n"), body)
}

// Every text that comes from outside carries a mark of its own. Each may be
// found only where the table above says so: of all that the gateway writes,
// answers or shows, in every form.
func TestSECCanaries(t *testing.T) {
	t.Parallel()
	for place := range places {
		for other := range places {
			if place != other && strings.Contains(canary(place), canary(other)) {
				t.Fatalf("%q and %q cannot be told apart", place, other)
			}
		}
	}
	taught := &parrot{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	upstreams := &http.Server{Handler: taught}
	go func() { _ = upstreams.Serve(l) }()
	t.Cleanup(func() { _ = upstreams.Close() })

	dir, outside := place(t), t.TempDir()
	keyFile := filepath.Join(outside, "key")
	if err := os.WriteFile(keyFile, []byte(canary("api_key file")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token := canary("operator token")
	hash := func(s string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(s))) }
	listen, operator := freePort(t), freePort(t)
	base := "http://" + l.Addr().String() + "/" + canary("base_url path")
	text := fmt.Sprintf(`listen: %s
operator: {listen: %s, tokens: [{name: ana, role: operator, hash: %q}]}
data_dir: %s
environment: TEST
drain_delay: 0s
telemetry: {decision_log: decisions.jsonl}
keys: [{name: web, hash: %q}]
notify: {webhook: "https://hooks.example/%s"}
sources: {every: 1s}
errors: {credential: switch, quota_exhausted: switch}
retry: {max_wait: 100ms, budget: {burst: 1000}}
breaker: {consecutive: 1000, min_samples: 1000}
tasks: {%s: {fallback: any}}
upstreams:
  literal: {dialect: openai, base_url: "%s/literal/v1", api_key: %s}
  env: {dialect: openai, base_url: "%s/env/v1", api_key: env:CANARY_KEY}
  file: {dialect: openai, base_url: "%s/file/v1", api_key: file:%s, auth: api-key}
  exec: {dialect: openai, base_url: "%s/exec/v1", api_key: "exec:printf %%s %s; : %s"}
  host: {dialect: openai, base_url: "http://%s.invalid/v1", api_key: k1}
  closed: {dialect: openai, base_url: "http://127.0.0.1:1/%s/v1", api_key: k2}
  tls: {dialect: openai, base_url: "https://%s/%s/v1", api_key: k3}
  safe: {dialect: openai, base_url: "%s/safe/v1", api_key: k4}
models:
`, listen, operator, hash(token), dir, hash(canary("client key")), canary("webhook"), canary("task, configured"),
		base, canary("api_key literal"), base, base, keyFile, base, canary("api_key exec"), canary("api_key exec argument"),
		canary("base_url host"), canary("base_url path"), l.Addr(), canary("base_url path"), base)
	names := []string{"literal", "env", "file", "exec", "host", "closed", "tls"}
	for _, name := range names {
		text += fmt.Sprintf("  m-%s: {candidates: [{upstream: %s, model: %s, weight: 100}, {upstream: safe, weight: 50}]}\n", name, name, canary("the upstream's model"))
	}
	text += fmt.Sprintf("  %s: {candidates: [{upstream: literal, model: m}]}\n", canary("model, configured"))
	path := filepath.Join(dir, "failback.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var environment []string
	g := startAs(t, path, func(cmd *exec.Cmd) {
		environment = append(os.Environ(), "CANARY_KEY="+canary("api_key env"))
		cmd.Env = environment
	})

	// Requests, in all forms that can go wrong.
	var clients sent
	send := func(request string) { t.Helper(); clients.send(t, listen, request) }
	key := "Authorization: Bearer " + canary("client key")
	usual := []string{
		key, "Proxy-Authorization: Basic " + canary("Proxy-Authorization"), "Api-Key: " + canary("Api-Key"), "Cookie: a=" + canary("Cookie"),
		"Referer: http://x/" + canary("Referer"), "X-Forwarded-For: " + canary("X-Forwarded-For"), "OpenAI-Organization: " + canary("organization"),
		"Traceparent: 00-" + canary("trace id") + "-00f067aa0ba902b7-01", "Tracestate: a=" + canary("tracestate"), "User-Agent: " + canary("User-Agent"),
		"OpenAI-Beta: " + canary("OpenAI-Beta"), "X-Request-Id: " + canary("request id"), "Failback-Conversation: " + canary("conversation"),
		"Failback-Turn: " + canary("turn"), "Failback-State-Version: " + canary("state version"), "Idempotency-Key: " + canary("idempotency key"),
		"Failback-Deadline-Ms: " + canary("deadline"), "Failback-" + canary("unknown control") + ": 1",
	}
	request := func(model, do, more string) string {
		return fmt.Sprintf(`{"model":"%s","messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s do:%s"}],"user":"%s","prompt_cache_key":"%s","unknown_%s":"x",`+
			`"metadata":{"note":"%s"},"tools":[{"type":"function","function":{"name":"%s","parameters":{}}}]%s}`,
			model, canary("system prompt"), canary("prompt"), do, canary("user"), canary("prompt_cache_key"), canary("unknown field"), canary("metadata"), canary("tool"), more)
	}
	// fresh has the gateway forget which keys and models failed.
	fresh := func() {
		t.Helper()
		if _, err := g.client.Reload(t.Context(), api.Command{Reason: "fresh"}); err != nil {
			t.Fatal(err)
		}
	}
	const chat = "/v1/chat/completions"
	task := "Failback-Task: " + canary("task, configured")
	for _, name := range names {
		send(post(chat+"?key="+canary("query"), request("m-"+name, "ok", ""), append(usual, task)...))
		send(post(chat, request("m-"+name, "ok", `,"stream":true`), append(usual, task)...))
	}
	for _, do := range []string{
		"400", "401", "402", "403", "404", "429", "500", "503", "302", "page", "200 page", "garbage", "status", "not HTTP", "cut",
		"stream garbage", "stream error", "late error",
	} {
		for _, stream := range []string{"", `,"stream":true`} {
			fresh()
			send(post(chat, request("m-env", do, stream), append(usual, task)...))
			send(post(chat, request(canary("model, configured"), do, stream), append(usual, task)...)) // with nobody to go to
		}
	}
	fresh()
	send(post(chat, request("m-literal", "ok", ""), append(usual, "Failback-Task: "+canary("task, not configured"))...))
	send(post(chat, strings.Replace(request("m-literal", "ok", ""), `"note"`, `"failback-task":"`+canary("task, not configured, in body")+`","failback-conversation":"`+canary("conversation, in body")+`","note"`, 1), key))
	send(post(chat, request(canary("model, unknown"), "ok", ""), usual...))
	send(post(chat, request("m-literal", "ok", ""), "Authorization: Bearer "+canary("wrong client key")))
	send(post(chat, request("m-literal", "ok", ""), "X-Api-Key: "+canary("wrong client key")))
	send(post(chat, `{"model":"m-literal",`+canary("not JSON"), usual...))
	send(post(chat, `{"model":"m-literal","model":"`+canary("not JSON")+`"}`, usual...))
	send(post("/v1/"+canary("path"), "{}", usual...))
	send(strings.Replace(post(chat, "{}", usual...), "POST", canary("method"), 1))
	send(post(chat, request("m-literal", "ok", ""), key, "X-Request-Id: "+strings.Repeat(canary("request id, too long"), 20)))
	send("GET /v1/models HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n" + key + "\r\n\r\n")

	// Operators, right and wrong.
	share, revision := 75, g.upstream(t, "literal").Revision
	if _, err := g.client.SetShare(t.Context(), "literal", api.Command{Share: &share, Revision: &revision, Reason: canary("reason of a command")}); err != nil {
		t.Fatal(err)
	}
	full, stale := 100, revision
	if _, err := g.client.SetShare(t.Context(), "literal", api.Command{Share: &full, Revision: &stale, Reason: canary("reason of a refused command")}); err == nil {
		t.Error("a stale revision was taken")
	}
	if _, err := g.client.SetShare(t.Context(), canary("unknown upstream of a command"), api.Command{Share: &share, Revision: &revision, Reason: "x"}); err == nil {
		t.Error("an unknown upstream was taken")
	}
	ask := func(method, path, bearer string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+operator+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+bearer)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(resp.StatusCode, resp.Header, string(body))
	}
	refused := ask("GET", "/operator/v1/state", canary("wrong operator token")) +
		ask("POST", "/operator/v1/upstreams/literal/share", canary("wrong operator token")) +
		ask("GET", "/operator/v1/decisions?limit=1&key="+canary("operator query"), token) +
		ask("GET", "/operator/v1/"+canary("operator query"), token)

	// Configurations that are refused, with what they hold.
	for _, c := range [][2]string{
		{base + "/literal/v1", base + "/literal/v1?key=" + canary("refused: URL query")},
		{"http://" + l.Addr().String(), "http://u:" + canary("refused: URL user") + "@" + l.Addr().String()},
		{"api_key: " + canary("api_key literal"), `api_key: "` + canary("refused: key") + ` x"`},
		{"api_key: env:CANARY_KEY", "api_key: env:" + canary("refused: key") + "-x"},
		{"environment: TEST", "environment: TEST\n" + canary("refused: key") + "0123: x"},
	} {
		replace(t, path, strings.ReplaceAll(text, c[0], c[1]))
		if _, err := g.client.Reload(t.Context(), api.Command{Reason: "bad"}); err == nil {
			t.Errorf("%q was taken", c[1])
		}
		out, stderr, _ := cli(t, dir, "check")
		refused += out + stderr
		out, stderr, _ = cli(t, dir, "reload")
		refused += out + stderr
	}
	replace(t, path, text)

	// Everything that can be read of it.
	seen := map[string]string{"answers": clients.answers.String(), "errors": clients.errors.String()}
	for _, c := range []struct{ name, path string }{
		{"state", "/operator/v1/state"}, {"decisions", "/operator/v1/decisions?limit=1000"}, {"events", "/operator/v1/events"}, {"audit", "/operator/v1/audit"},
	} {
		seen[c.name] += ask("GET", c.path, token)
	}
	until(t, "the embedded log has the last line", func() bool {
		return strings.Contains(ask("GET", "/loki/api/v1/query_range?limit=5000&query="+url.QueryEscape(`{service_name="failback"}`), token), canary("reason of a command"))
	})
	for _, q := range []string{
		"/loki/api/v1/query_range?limit=5000&query=" + url.QueryEscape(`{service_name="failback"}`),
		"/loki/api/v1/query_range?limit=5000&query=" + url.QueryEscape(`{service_name="failback"} | json`), "/loki/api/v1/labels",
		"/loki/api/v1/label/event/values", "/loki/api/v1/query?query=" + url.QueryEscape(canary("operator query")),
	} {
		seen["loki"] += ask("GET", q, token)
	}
	until(t, "the embedded numbers have the requests", func() bool {
		return strings.Contains(ask("GET", "/prometheus/api/v1/query?query=ai_model_requests_total", token), "m-literal")
	})
	for _, q := range []string{
		"/prometheus/api/v1/series?match[]=" + url.QueryEscape(`{__name__=~".+"}`), "/prometheus/api/v1/labels",
		"/prometheus/api/v1/query?query=" + url.QueryEscape(`{__name__=~"ai_.+|failback_.+"}`), "/prometheus/api/v1/status/config", "/prometheus/api/v1/targets",
	} {
		seen["prometheus"] += ask("GET", q, token)
	}
	seen["metrics"] = ask("GET", "/metrics", "")
	for _, args := range [][]string{
		{"status"}, {"status", "--json"}, {"decisions", "--limit", "1000"}, {"decisions", "--limit", "1000", "--json"}, {"query"}, {"query", "first-switch"},
		{"query", "--logql", `{service_name="failback"}`}, {"query", "--logql", `{service_name="failback"} | json`, "--json"},
	} {
		out, stderr, code := cli(t, dir, args...)
		if code != 0 {
			t.Errorf("failback %s: %d %s", strings.Join(args, " "), code, stderr)
		}
		seen["cli"] += out + stderr
	}
	for _, args := range [][]string{{"check"}, {"check", "--json"}, {"check", "--show"}} {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = dir, environment
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("failback %s: %v %s", strings.Join(args, " "), err, out)
		}
		name := "check"
		if len(args) > 1 && args[1] == "--show" {
			name = "show"
		}
		seen[name] += string(out)
	}
	tm := newTerminal(t)
	tm.run("resize-window", "-t", "s", "-x", "200", "-y", "60")
	tm.console(program, "console", "--config", path)
	tm.shows("TEST", "q leave")
	tm.look("ATTEMPTS", func(screen string) { seen["console"] += screen })
	tm.press("q")
	tm.back()
	seen["console"] += files(t, tm.home)
	if err := g.term(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
	seen["stderr"] = g.stderr.String()
	seen["log"] = read(t, filepath.Join(dir, "decisions.jsonl"))
	seen["disk"] = files(t, dir, "failback.yaml", "decisions.jsonl")
	taught.mu.Lock()
	seen["upstream"] = taught.heard.String()
	taught.mu.Unlock()
	// Whoever was refused learnt nothing.
	for place := range places {
		if strings.HasPrefix(place, "refused") || strings.Contains(place, "token") || strings.HasPrefix(place, "api_key") || strings.Contains(place, "operator query") {
			if i := strings.Index(refused, canary(place)); i >= 0 {
				t.Errorf("a refusal repeats %q: …%s…", place, around(refused, i))
			}
		}
	}
	for _, place := range slices.Sorted(maps.Keys(places)) {
		may := map[string]bool{}
		for o := range strings.FieldsSeq(places[place]) {
			name, must := strings.CutSuffix(o, "+")
			may[name] = true
			if !slices.Contains(outputs, name) {
				t.Fatalf("there is no output %q", name)
			}
			if must && !strings.Contains(strings.ToLower(seen[name]), canary(place)) {
				t.Errorf("%q is not in %s", place, name)
			}
		}
		for _, name := range outputs {
			if i := strings.Index(strings.ToLower(seen[name]), canary(place)); i >= 0 && !may[name] {
				t.Errorf("%q is in %s: …%s…", place, name, around(seen[name], i))
			}
		}
	}
	for _, name := range outputs {
		if name != "stderr" && seen[name] == "" {
			t.Errorf("nothing was seen of %s", name)
		}
	}
}

// files is what all files below dir hold, but for those of the given names.
func files(t *testing.T, dir string, but ...string) string {
	t.Helper()
	var all strings.Builder
	if err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || slices.Contains(but, d.Name()) {
			return err
		}
		all.WriteString(read(t, file))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func around(s string, i int) string { return fmt.Sprintf("%q", s[max(0, i-100):min(len(s), i+120)]) }

// hostile are the ways of SEC-07 in which a text drives a terminal or hides.
// Each ends in what must still be readable.
var hostile = []string{
	"\x1b]52;c;c3RvbGVu\x07clip", "\x1b]0;stolen\x07title", "\x1b]8;;http://evil.example\x1b\\link", "\x1b[2Jcleared", "\x1b[?1049lleft",
	"\x1bPq#0stolen\x1b\\dcs", "\u009b2Jc1", "\u009d0;stolen\u009cc1title", "over\rwritten", "\a\b\b\bbell", "\u202edaer\u2066bidi", "\x7fdel", "\x1bcreset", "\u200b\u00adzero", "two\nlines",
}

// SEC-07: what clients, upstreams and files say is text on a terminal, in every
// command that prints it, as text and as JSON; and where a name could drive
// one, it is refused.
func TestSEC07(t *testing.T) {
	t.Parallel()
	all := strings.Join(hostile, " ")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	upstream := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "id\u009b2J\u202e\x9b2J")
		if bytes.Contains(body, []byte("fail")) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprintf(w, `{"error":{"message":%s,"type":%s,"code":%s}}`, quoted, quoted, quoted)
			return
		}
		// The model's name as the upstream tells it is logged, cut.
		for _, h := range hostile {
			if bytes.Contains(body, fmt.Appendf(nil, `say %x.`, h)) {
				quoted, _ = json.Marshal(h)
			}
		}
		_, _ = fmt.Fprintf(w, `{"id":%s,"object":"chat.completion","model":%s,"choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}]}`, quoted, quoted, quoted)
	})}
	go func() { _ = upstream.Serve(l) }()
	t.Cleanup(func() { _ = upstream.Close() })
	path := configure(t, place(t), &stub{url: "http://" + l.Addr().String() + "/v1"}, newStub(t), "")
	g := start(t, path)
	for _, h := range hostile {
		meta, _ := json.Marshal(map[string]string{"failback-task": h, "failback-conversation": h, "failback-turn": h})
		for _, what := range []string{fmt.Sprintf("say %x.", h), "fail"} {
			resp, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(fmt.Sprintf(`{"model":"m","metadata":%s,"messages":[{"role":"user","content":"%s"}]}`, meta, what)))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
		share, up := 75, g.upstream(t, "a")
		if up.Share == 75 {
			share = 25
		}
		// What an operator gives as a reason is text too.
		_, _ = g.client.SetShare(t.Context(), "a", api.Command{Share: &share, Revision: &up.Revision, Reason: h})
		_, _ = g.client.SetBreaker(t.Context(), h+":text", api.Command{Action: "open", Reason: h})
	}
	// So are the words of an incident, of which none has a control character.
	if _, err := g.client.OpenIncident(t.Context(), all[:150]); err == nil || !strings.Contains(err.Error(), "control character") {
		t.Errorf("opened with control characters: %v", err)
	}
	drop := func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}
	if _, err := g.client.OpenIncident(t.Context(), strings.ToValidUTF8(strings.Map(drop, all[:150]), "")); err != nil {
		t.Fatal(err)
	}
	incidents, err := g.client.Incidents(t.Context())
	if err != nil || len(incidents.Incidents) == 0 {
		t.Fatalf("no incident: %v", err)
	}
	incident := incidents.Incidents[0].ID
	for _, h := range hostile {
		h = strings.Map(drop, h)
		_, _ = g.client.IncidentNote(t.Context(), incident, h)
		_, _ = g.client.IncidentAnswer(t.Context(), incident, "users", h, time.Time{})
		_, _ = g.client.IncidentTick(t.Context(), incident, api.Tick{Runbook: h, Step: 1, Done: true, Words: h})
	}
	until(t, "the embedded log has it all", func() bool {
		out, _, _ := cli(t, g.dir, "query", "--config", path, "--logql", `{service_name="failback"} |= "bell"`)
		return strings.Contains(out, "bell")
	})
	commands := [][]string{
		{"status"}, {"decisions", "--limit", "100"}, {"query", "--logql", `{service_name="failback"}`}, {"query", "first-switch"}, {"query", "operator-commands"},
		{"incident", "list"}, {"incident", "show", incident}, {"incident", "report", incident}, {"incident", "note", incident, "'\x1b]0;stolen\a\u202e'"}, {"incident", "show", "'\u009b2J'"},
		{"step", "'\x1b]0;stolen\a\u202e'", "5"}, {"breaker", "'\u009b2J:text'", "open"},
		{"query", "--logql", "'{a=\"\x1b]0;stolen\a\u009b2J'"}, {"query", "'\x1b]0;stolen\a'"}, {"check", "--config", "'\x1b]0;stolen\a\u202e.yaml'"}, {"'\x1b]0;stolen\a'"},
	}
	for _, args := range commands {
		var bare []string
		for _, a := range args {
			bare = append(bare, strings.Trim(a, "'"))
		}
		if !slices.Contains(bare, "--config") && len(bare) > 1 {
			bare = append(bare, "--config", path)
		}
		for _, form := range [][]string{nil, {"--json"}} {
			if form != nil && (bare[0] == "check" || len(args) == 1 && args[0] != "status") {
				continue
			}
			out, stderr, _ := cli(t, g.dir, append(slices.Clone(bare), form...)...)
			for i, r := range out + stderr {
				if r != '\n' && (r < ' ' || api.Hidden(r)) {
					t.Errorf("failback %q writes %U: %s", append(bare, form...), r, around(out+stderr, i))
					break
				}
			}
		}
	}
	// A file that is read on a terminal.
	text := read(t, filepath.Join(g.dir, "decisions.jsonl"))
	for i, r := range text {
		if r != '\n' && (r < ' ' || api.Hidden(r)) {
			t.Errorf("the decision log has %U: %s", r, around(text, i))
			break
		}
	}
	// A name that could drive a terminal is no name.
	good := read(t, path)
	for _, h := range hostile {
		name, _ := json.Marshal(h)
		for _, edit := range [][2]string{{"  a: {", "  " + string(name) + ": {"}, {"environment: TEST", "environment: " + string(name)}, {"environment: TEST", "tasks: {t: {user_sees: " + string(name) + "}}"}, {"  m: {", "  " + string(name) + ": {"}} {
			replace(t, path, strings.Replace(good, edit[0], edit[1], 1))
			out, stderr, code := cli(t, g.dir, "check", "--config", path)
			// Words that are only shown may hold what some scripts need; they
			// are shown with all of it visible.
			if code != 2 && (edit[0] != "environment: TEST" || strings.ContainsFunc(h, unicode.IsControl)) {
				t.Errorf("%q is taken for %s: %d %s", h, edit[0], code, out)
			}
			for i, r := range out + stderr {
				if r != '\n' && (r < ' ' || api.Hidden(r)) {
					t.Errorf("check writes %U: %s", r, around(out+stderr, i))
					break
				}
			}
		}
	}
	replace(t, path, good)

	// On a real terminal: nothing of it has an effect.
	tm := newTerminal(t)
	tm.run("set-option", "-g", "set-clipboard", "on")
	tm.run("set-buffer", "mine")
	title := tm.flag("pane_title")
	raw := tm.record()
	tm.enter("echo still here")
	for _, command := range []string{
		"status --config " + path, "decisions --config " + path, "query --config " + path + ` --logql '{service_name="failback"}' --limit 5`,
	} {
		tm.enter(program + " " + command + " | tail -5; echo ran")
		tm.shows("ran")
		tm.enter("clear")
		tm.back()
		if got := tm.flag("pane_title"); got != title {
			t.Errorf("%s: the title is %q, was %q", command, got, title)
		}
		if got := strings.TrimSpace(tm.run("show-buffer")); got != "mine" {
			t.Errorf("%s: the clipboard has %q", command, got)
		}
	}
	tm.console(program, "console", "--config", path)
	tm.shows("TEST", "q leave")
	tm.look("WHY", func(screen string) {
		if !strings.Contains(screen, "TEST") {
			t.Errorf("a screen without its head:\n%s", screen)
		}
	})
	tm.press("q")
	tm.restored(0)
	if got := tm.flag("pane_title"); got != title || strings.TrimSpace(tm.run("show-buffer")) != "mine" {
		t.Errorf("the title is %q, the clipboard %q", got, tm.run("show-buffer"))
	}
	harmless(t, raw)
}
