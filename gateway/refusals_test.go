package gateway_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/wire"
)

// refusal is an error of the gateway's own, in either dialect.
type refusal struct {
	Type  string // Anthropic: "error"
	Error struct {
		Type, Message string
		Code          string // OpenAI
		Param         *string
		Details       struct {
			Code string `json:"error_code"`
		} // Anthropic
		Attempts []json.RawMessage
	}
	RequestID string `json:"request_id"`
}

// Whatever is wrong with a request is said in the caller's dialect, at every
// endpoint alike, and no upstream hears of it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	sum := sha256.Sum256([]byte("good"))
	base := serveMirror(t, m, fmt.Sprintf("max_request_bytes: 1MiB\nkeys: [{name: web, hash: \"sha256:%x\", models: [m]}]\n", sum))
	good := []string{"Authorization", "Bearer good"}
	large := `{"model":"m","x":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, c := range []struct {
		what   string
		method string
		body   string
		length int64 // -1: not announced
		header []string
		status int
		code   string
		openAI string // the error's type
		other  string
	}{
		{"no key", "POST", `{"model":"m"}`, 0, nil, 401, "invalid_api_key", "authentication_error", "authentication_error"},
		{"an unknown key", "POST", `{"model":"m"}`, 0, []string{"Authorization", "Bearer bad"}, 401, "invalid_api_key", "authentication_error", "authentication_error"},
		{"an unknown key and model", "POST", `{"model":"nobody"}`, 0, []string{"X-Api-Key", "bad"}, 401, "invalid_api_key", "authentication_error", "authentication_error"},
		{"an unknown key and bad JSON", "POST", `{`, 0, []string{"X-Api-Key", "bad"}, 401, "invalid_api_key", "authentication_error", "authentication_error"},
		{"another's model", "POST", `{"model":"ft:m/x"}`, 0, good, 403, "model_not_allowed", "permission_error", "permission_error"},
		{"an unknown model", "POST", `{"model":"nobody"}`, 0, good, 404, "model_not_found", "invalid_request_error", "not_found_error"},
		{"the upstream's model", "POST", `{"model":"their/name-1"}`, 0, good, 404, "model_not_found", "invalid_request_error", "not_found_error"},
		{"GET", "GET", "", 0, good, 405, "method_not_allowed", "invalid_request_error", "invalid_request_error"},
		{"DELETE", "DELETE", "", 0, good, 405, "method_not_allowed", "invalid_request_error", "invalid_request_error"},
		{"too large", "POST", large, 0, good, 413, "request_too_large", "invalid_request_error", "request_too_large"},
		{"too large, not announced", "POST", large, -1, good, 413, "request_too_large", "invalid_request_error", "request_too_large"},
		{"nothing", "POST", "", 0, good, 400, "invalid_request", "invalid_request_error", "invalid_request_error"},
		{"no object", "POST", `["model"]`, 0, good, 400, "invalid_request", "invalid_request_error", "invalid_request_error"},
		{"no model", "POST", `{"messages":[]}`, 0, good, 400, "invalid_request", "invalid_request_error", "invalid_request_error"},
		{"a model that is no string", "POST", `{"model":null}`, 0, good, 400, "invalid_request", "invalid_request_error", "invalid_request_error"},
		{"model twice", "POST", `{"model":"m","model":"m"}`, 0, good, 400, "invalid_request", "invalid_request_error", "invalid_request_error"},
		{"model twice, escaped", "POST", `{"model":"m","mod\u0065l":"other"}`, 0, good, 400, "invalid_request", "invalid_request_error", "invalid_request_error"},
		{"another key twice", "POST", `{"model":"m","stream":true,"stream":false}`, 0, good, 400, "invalid_request", "invalid_request_error", "invalid_request_error"},
		{"bad JSON", "POST", `{"model":"m",}`, 0, good, 400, "invalid_request", "invalid_request_error", "invalid_request_error"},
		{"bad JSON deep inside", "POST", `{"model":"m","messages":[{"content":"\x"}]}`, 0, good, 400, "invalid_request", "invalid_request_error", "invalid_request_error"},
		{"model twice, in other case", "POST", `{"model":"m","Model":"other"}`, 0, good, 400, "invalid_request", "invalid_request_error", "invalid_request_error"},
		{"more than one value", "POST", `{"model":"m"} {}`, 0, good, 400, "invalid_request", "invalid_request_error", "invalid_request_error"},
	} {
		for _, ep := range wire.Endpoints {
			q, err := http.NewRequestWithContext(t.Context(), c.method, base+ep.ClientPath(), strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.length != 0 {
				q.ContentLength = c.length
			}
			q.Header.Set("X-Request-Id", "r-1")
			for i := 0; i < len(c.header); i += 2 {
				q.Header.Set(c.header[i], c.header[i+1])
			}
			resp, body := roundTrip(t, q)
			kind, code, envelope := c.openAI, "", ""
			var r refusal
			if err := json.Unmarshal([]byte(body), &r); err != nil {
				t.Errorf("%s, %s: %v in %q", ep, c.what, err, body)
			}
			if code = r.Error.Code; ep == wire.Messages || ep == wire.CountTokens {
				kind, code, envelope = c.other, r.Error.Details.Code, "error"
			}
			if resp.StatusCode != c.status || r.Error.Type != kind || code != c.code || r.Type != envelope || r.RequestID != "r-1" || r.Error.Message == "" || len(r.Error.Attempts) != 0 {
				t.Errorf("%s, %s: %d %s", ep, c.what, resp.StatusCode, body)
			}
			h := resp.Header
			if h.Get("X-Should-Retry") != "false" || h.Get("Content-Type") != "application/json" || h.Get("X-Request-Id") != "r-1" {
				t.Errorf("%s, %s: %v", ep, c.what, h)
			}
			if got := h.Get("Failback-Status"); c.status != 405 && got != "rejected" {
				t.Errorf("%s, %s: status %q", ep, c.what, got)
			}
			if got := h.Get("Allow"); c.status == 405 && got != "POST" {
				t.Errorf("%s, %s: Allow: %q", ep, c.what, got)
			}
		}
	}
	if n, _, _, _ := m.saw(); n != 0 {
		t.Errorf("the upstream saw %d of them", n)
	}
	m.answers("application/json", plainAnswer)
	for _, header := range []string{"Authorization", "X-Api-Key"} {
		key := map[string]string{"Authorization": "bearer good", "X-Api-Key": "good"}[header]
		if resp, body := post(t, base+"/v1/chat/completions", `{"model":"m","messages":[]}`, header, key); resp.StatusCode != 200 {
			t.Errorf("a good key in %s: %d %s", header, resp.StatusCode, body)
		}
	}
}

// Nobody can tell an unknown key from a missing one, or what exists behind it.
func TestUnknownKeysAreAllAlike(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("good"))
	base := serveMirror(t, newMirror(t), fmt.Sprintf("keys: [{name: web, hash: \"sha256:%x\"}]\n", sum))
	for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		var first string
		for i, c := range [][]string{
			{`{"model":"m","messages":[]}`}, {`{"model":"m","messages":[]}`, "Authorization", "Bearer bad"}, {`{"model":"nobody"}`, "X-Api-Key", "bad"},
			{`not JSON`, "X-Api-Key", fmt.Sprintf("sha256:%x", sum)}, {`{}`, "Authorization", "Basic Z29vZDpnb29k"}, {`{}`, "Authorization", "good"},
		} {
			resp, body := post(t, base+path, c[0], append([]string{"X-Request-Id", "r"}, c[1:]...)...)
			resp.Header.Del("Date")
			got := fmt.Sprint(resp.Status, resp.Header, body)
			if i == 0 {
				first = got
			}
			if got != first || resp.StatusCode != 401 {
				t.Errorf("%s %v:\n%s\nbut without a key\n%s", path, c[1:], got, first)
			}
		}
	}
}

func TestUnknownEndpoints(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	base := serveMirror(t, m, "")
	for _, path := range []string{"/", "/v1", "/v1/chat/completions/", "/v1/audio/speech", "/metrics", "/operator/v1/state", "//v1/messages", "/v1/../v1/messages"} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		u.Opaque = path // as it is, without cleaning
		q := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"model":"m"}`))}
		resp, body := roundTrip(t, q.WithContext(t.Context()))
		if resp.StatusCode != 404 || !strings.Contains(body, `"not_found"`) || resp.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	if n, _, _, _ := m.saw(); n != 0 {
		t.Errorf("the upstream saw %d of them", n)
	}
}

func roundTrip(t *testing.T, q *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// What the gateway holds is bounded in bytes, over all requests: a body for
// which there is no room is refused, may come again, and finds room once the
// others are done.
func TestHeldBytesAreBounded(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(protocolOf(secure), func(t *testing.T) {
			inTown(t, secure, "max_buffered_bytes: 3MiB\nmax_held_bytes: 1MiB\nmax_request_bytes: 2MiB\n", slowly(time.Minute, 1), unused, func(w *town) {
				body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 2<<20-1000) + `"}]}`
				send := func() (int, http.Header, string) {
					q, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.base+"/v1/chat/completions", strings.NewReader(body))
					if err != nil {
						w.Fatal(err)
					}
					resp, err := w.hc.Do(q)
					if err != nil {
						w.Error(err)
						return 0, nil, ""
					}
					defer resp.Body.Close()
					b, _ := io.ReadAll(resp.Body)
					return resp.StatusCode, resp.Header, string(b)
				}
				first := make(chan int)
				go func() {
					status, _, _ := send()
					first <- status
				}()
				synctest.Wait()
				status, h, text := send()
				if status != 503 || h.Get("Retry-After") != "1" || h.Get("X-Should-Retry") != "" || h.Get("Failback-Status") != "refused" || h.Get("Failback-Reason") != "capacity" || !strings.Contains(text, "over_capacity") {
					w.Errorf("%d %v %s", status, h, text)
				}
				if status := <-first; status != 200 {
					w.Errorf("the first got %d", status)
				}
				if status, _, text := send(); status != 200 {
					w.Errorf("afterwards: %d %s", status, text)
				}
				if n := w.one.Load(); n != 2 {
					w.Errorf("the upstream saw %d requests", n)
				}
			})
		})
	}
}
