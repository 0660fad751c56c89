//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// A console on another gateway, over TCP with a token: its numbers and lines
// come the same way. A wrong token is said at once.
func TestConsoleOverTCP(t *testing.T) {
	t.Parallel()
	dir := place(t)
	a, b := newStub(t), newStub(t)
	path := configure(t, dir, a, b, "limit: {fallback_ratio: 0.5}\n")
	token, _, code := cli(t, dir, "token", "--json")
	var made struct{ Token, Hash string }
	if err := json.Unmarshal([]byte(token), &made); err != nil || code != 0 {
		t.Fatalf("failback token: %d %v %s", code, err, token)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, operator, _ := strings.Cut(strings.Split(string(text), "\n")[1], "listen: ")
	operator = strings.TrimSuffix(operator, "}")
	edit(t, path, "data_dir:", "sources: {every: 1s}\ndata_dir:")
	g := start(t, path)
	edit(t, path, "operator: {listen: "+operator+"}", fmt.Sprintf("operator: {listen: %q, tokens: [{name: vic, role: viewer, hash: %q}]}", operator, made.Hash))
	until(t, "the token is in force", func() bool {
		req, _ := http.NewRequest("GET", "http://"+operator+"/operator/v1/state", nil)
		req.Header.Set("Authorization", "Bearer "+made.Token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == 200
	})
	chatAll(t, g.url, users(20))
	a.broken.Store(true)
	chatAll(t, g.url, users(20))

	right, wrong := filepath.Join(dir, "right"), filepath.Join(dir, "wrong")
	if err := os.WriteFile(right, []byte(made.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(wrong, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	tm := newTerminal(t)
	tm.console(program, "console", "--connect", "http://"+operator, "--token-file", right)
	tm.shows("TEST", "READ-ONLY (viewer)", "prom", "loki ok")
	tm.await("the ratio", func(screen string) bool {
		return strings.Contains(screen, "FALLBACK 5") && strings.Contains(screen, "limit 50%") || strings.Contains(screen, "FALLBACK 4")
	})
	tm.press("l")
	tm.shows("first-switch")
	tm.press("Enter")
	tm.shows("first 1 only", "degraded_completed")
	tm.press("q")
	tm.restored(0)

	stdout, stderr, code := cli(t, dir, "query", "by-reason", "--connect", "http://"+operator, "--token-file", right)
	if code != 0 || !strings.Contains(stdout, "server_error") {
		t.Errorf("query: %d %s%s", code, stdout, stderr)
	}
	for _, args := range [][]string{{"status"}, {"query", "by-reason"}} {
		_, stderr, code := cli(t, dir, append(args, "--connect", "http://"+operator, "--token-file", wrong)...)
		if code != 1 || !strings.Contains(stderr, "token") {
			t.Errorf("%v with a wrong token: %d %s", args, code, stderr)
		}
	}
}

// A gateway of another version is served, and said to be one.
func TestVersionMismatchIsSaid(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		now := time.Now()
		switch {
		case strings.HasSuffix(r.URL.Path, "/state"):
			// What this program does not know must not trouble it.
			_ = json.NewEncoder(w).Encode(map[string]any{
				"api_version": api.Version + 1, "version": "v9.9.9", "environment": "NEXT", "instance": "gw", "at": now, "started_at": now,
				"upstreams": []any{map[string]any{"name": "u", "share": 100, "moon": "full"}}, "you": map[string]any{"name": "ana", "role": "operator"}, "phase": []int{1},
			})
		case strings.HasSuffix(r.URL.Path, "/events"):
			_ = json.NewEncoder(w).Encode(api.Events{At: now})
		case strings.HasSuffix(r.URL.Path, "/decisions"):
			_ = json.NewEncoder(w).Encode(api.Decisions{At: now})
		default:
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(api.Error{Code: api.CodeNotFound, Message: "no such path"})
		}
	}))
	defer server.Close()
	tm := newTerminal(t)
	tm.console(program, "console", "--connect", server.URL)
	tm.shows("NEXT", " > u ", fmt.Sprintf("operator API %d", api.Version+1))
	tm.press("q")
	tm.restored(0)
	stdout, _, code := cli(t, t.TempDir(), "status", "--connect", server.URL)
	if code != 0 || !strings.Contains(stdout, fmt.Sprintf("operator API %d", api.Version+1)) {
		t.Errorf("status: %d %s", code, stdout)
	}
}

// Prometheus and Loki accept the connection and say nothing: the console draws
// all the same, says so, and leaves at once.
func TestSilentSourcesHoldNothing(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dir := place(t)
	a, b := newStub(t), newStub(t)
	url := "http://" + silent.Addr().String()
	path := configure(t, dir, a, b, fmt.Sprintf("sources: {every: 1s, prometheus: {url: %q}, loki: {url: %q}}\n", url, url))
	g := start(t, path)
	chatAll(t, g.url, users(20))
	tm := newTerminal(t)
	console := tm.console(program, "console", "--connect", "unix:"+filepath.Join(dir, "failback.sock"))
	tm.shows("TEST", " > a ", "CLOSED")
	tm.await("that neither answers", func(screen string) bool {
		return strings.Contains(screen, "prom NO ANSWER") && strings.Contains(screen, "loki NO ANSWER")
	})
	tm.press("l")
	tm.shows("first-switch")
	tm.press("Enter") // the question hangs
	tm.press("o")
	tm.shows(" > a ")
	tm.press("q")
	began := time.Now()
	until(t, "the console has ended", func() bool { return !alive(console) })
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("leaving took %s", d)
	}
	tm.restored(0)
}
