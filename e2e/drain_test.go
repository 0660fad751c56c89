package e2e

import (
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SIGTERM under 200 requests a second, behind clients that go on for 2 s, on
// kept connections and on new ones: no request fails, readiness ends at once,
// streams under way outlive the listener, and the exit code is 0.
func TestSIGTERMFailsNoRequest(t *testing.T) {
	a, b := newStub(t), newStub(t)
	a.delay = 100 * time.Millisecond
	const drain = 3 * time.Second
	g := start(t, configure(t, t.TempDir(), a, b, "drain_delay: 3s\nshutdown_grace: 10s\n"))
	address := strings.TrimPrefix(g.url, "http://")
	whole := streams(t, g.url, 5)
	kept := traffic(t, g.url, 10*time.Millisecond)
	fresh := trafficBy(t, g.url, 10*time.Millisecond, &http.Transport{DisableKeepAlives: true})
	until(t, "traffic flows", func() bool { return a.seen.Load() > 200 })
	// One connection that sits idle when it begins, and is used then.
	idle := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	defer idle.CloseIdleConnections()
	if status, err := chat(idle, g.url, "idle"); err != nil || status != http.StatusOK {
		t.Errorf("%d %v", status, err)
	}

	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- g.term(t) }()
	until(t, "/readyz fails", func() bool {
		resp, err := http.Get(g.url + "/readyz")
		if err != nil {
			t.Fatal(err) // it must say so, not be gone
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode == http.StatusServiceUnavailable && resp.Close
	})
	if d := time.Since(began); d > time.Second {
		t.Errorf("/readyz failed after %v", d)
	}
	if status, err := chat(idle, g.url, "idle"); err != nil || status != http.StatusOK {
		t.Errorf("on an idle connection: %d %v", status, err)
	}
	if resp, err := http.Get(g.url + "/healthz"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("/healthz while draining: %v", err)
	} else {
		_ = resp.Body.Close()
	}
	if s := g.state(t); !s.Draining {
		t.Error("the state does not say that it drains")
	}
	// The clients behind a load balancer that has not noticed yet.
	goOn := time.NewTimer(2*time.Second - time.Since(began))
	<-goOn.C
	if sent := kept() + fresh(); sent < 400 {
		t.Errorf("only %d requests were sent", sent)
	}
	until(t, "nobody listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	if d := time.Since(began); d < drain {
		t.Errorf("the listener closed after %v, drain_delay is %v", d, drain)
	}
	a.end()
	whole()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v: %s", err, g.stderr)
	}
	if n := b.seen.Load(); n > 0 {
		t.Errorf("%d requests went to the fallback", n)
	}
}

// Streams that outlast shutdown_grace are cut off, and that is a failure that
// is said; a second signal does not wait.
func TestSIGTERMEndsInTime(t *testing.T) {
	t.Parallel()
	a := newStub(t)
	for name, more := range map[string]string{
		"the grace is over": "drain_delay: 0s\nshutdown_grace: 1s\n",
		"a second signal":   "drain_delay: 10m\nshutdown_grace: 10m\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, configure(t, t.TempDir(), a, newStub(t), more))
			resp, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if name == "a second signal" {
				if err := g.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				until(t, "it drains", func() bool { return g.state(t).Draining })
			}
			if err := g.term(t); err == nil || g.ProcessState.ExitCode() != 1 {
				t.Errorf("it ended with %v", err)
			}
			if !strings.Contains(g.stderr.String(), "1 requests did not end") {
				t.Errorf("stderr: %s", g.stderr)
			}
			if b, err := io.ReadAll(resp.Body); err == nil || strings.Contains(string(b), "[DONE]") {
				t.Errorf("a stream that was cut off looks whole: %v", err)
			}
		})
	}
}
