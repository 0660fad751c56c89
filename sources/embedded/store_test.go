package embedded

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"failback/gateway/operator/api"
	"failback/sources/embedded/metrics"
)

func options(t *testing.T) Options {
	t.Helper()
	return Options{Dir: t.TempDir(), Metrics: true, Logs: true, Gatherer: prometheus.NewRegistry(), Every: time.Minute, Instance: "gw-1"}
}

// held is a store whose numbers are opened when release is called.
func held(t *testing.T) (s *Store, began <-chan struct{}, release func()) {
	t.Helper()
	s = Open(options(t))
	begin, let := make(chan struct{}), make(chan struct{})
	open := s.open
	s.open = func(o metrics.Options) (*metrics.Store, error) {
		close(begin)
		<-let
		return open(o)
	}
	return s, begin, func() { close(let) }
}

func get(t *testing.T, s *Store, path, query string) (int, string) {
	t.Helper()
	h := s.Handler(path)
	if h == nil {
		t.Fatalf("nothing is kept under %s", path)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path+query, nil))
	return w.Code, w.Body.String()
}

// run runs s until end, which waits for it.
func run(t *testing.T, s *Store) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

const now = "/api/v1/query?query=1"

// Until the numbers are open they are said to be on their way; the lines are
// there from the start.
func TestNumbersComeWhenTheyAreOpen(t *testing.T) {
	s, began, release := held(t)
	const opening = "the store of numbers is being opened"
	if p := s.Problem(api.PrometheusPath); p != opening {
		t.Errorf("before Run: %q", p)
	}
	end := run(t, s)
	<-began
	status, body := get(t, s, api.PrometheusPath, now)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, opening) || !strings.Contains(body, `"errorType":"unavailable"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get(t, s, api.LokiPath, "/api/v1/labels"); status != http.StatusOK {
		t.Errorf("lines: %d %s", status, body)
	}
	release()
	<-s.opening
	if status, body := get(t, s, api.PrometheusPath, now); status != http.StatusOK || s.Problem(api.PrometheusPath) != "" {
		t.Errorf("%d %s, %q", status, body, s.Problem(api.PrometheusPath))
	}
	end()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Run ends with its context though a journal is still being read, and Close
// waits for that until its own ends; the lines are closed before.
func TestCloseWhileTheNumbersAreOpened(t *testing.T) {
	s, began, release := held(t)
	end := run(t, s)
	<-began
	end()
	if _, err := s.Lines().Write([]byte(`{"time":"2026-11-30T04:12:30Z","event":"x"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error, 1)
	go func() { closed <- s.Close(ctx) }()
	for open := true; open; { // the lines do not wait for the numbers
		_, err := s.Lines().Write([]byte("{}\n"))
		open = !errors.Is(err, os.ErrClosed)
	}
	cancel()
	if err := <-closed; !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	release()
	<-s.opening
	// It closed itself: another may have the directory.
	again, err := metrics.Open(metrics.Options{Dir: filepath.Join(s.o.Dir, "metrics")})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func TestCloseWaitsForTheNumbers(t *testing.T) {
	s, began, release := held(t)
	end := run(t, s)
	<-began
	end()
	closed := make(chan error, 1)
	go func() { closed <- s.Close(t.Context()) }()
	release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Errorf("Run after Close: %v", err)
	}
}

func TestWhatCannotBeOpenedIsSaid(t *testing.T) {
	o := options(t)
	for _, name := range []string{"metrics", "lines"} {
		if err := os.WriteFile(filepath.Join(o.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var said string
	o.Log = func(s string) { said += s + "\n" }
	s := Open(o)
	if s.Lines() != io.Writer(nil) || !strings.Contains(said, "log lines are not kept: ") {
		t.Errorf("lines are taken; %q", said)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "numbers are not kept: ") {
		t.Errorf("Run: %v", err)
	}
	for path, query := range map[string]string{api.PrometheusPath: now, api.LokiPath: "/api/v1/labels"} {
		p := s.Problem(path)
		if status, body := get(t, s, path, query); p == "" || status != http.StatusServiceUnavailable || !strings.Contains(body, o.Dir) {
			t.Errorf("%s: %q, %d %s", path, p, status, body)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotKeptIsNotServed(t *testing.T) {
	o := options(t)
	o.Metrics, o.Logs = false, false
	s := Open(o)
	if err := s.Run(t.Context()); err != nil {
		t.Error(err)
	}
	for _, path := range []string{api.PrometheusPath, api.LokiPath} {
		if s.Handler(path) != nil || s.Problem(path) != "none are kept here" {
			t.Errorf("%s: %q", path, s.Problem(path))
		}
	}
	if s.Handler("/other") != nil || s.Problem("/other") != "" {
		t.Error("something else is kept")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Lines that were dropped are a problem, though all is well with the disk.
func TestDroppedLinesAreSaid(t *testing.T) {
	o := options(t)
	o.Metrics = false
	s := Open(o)
	if _, err := s.Lines().Write([]byte(`{"time":"2026-11-30T04:12:30Z","x":"` + strings.Repeat("x", 2<<20) + "\"}\n")); err != nil {
		t.Fatal(err)
	}
	if p := s.Problem(api.LokiPath); !strings.Contains(p, "1 lines were dropped since the start") {
		t.Errorf("%q", p)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
