package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
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

// Lines that are being lost are a problem, in words that stay; afterwards the
// answers that lack them say so, and no others.
func TestLostLinesAreSaid(t *testing.T) {
	o := options(t)
	o.Metrics = false
	for _, where := range []string{"here", "on the way"} {
		synctest.Test(t, func(t *testing.T) {
			lost := uint64(0)
			o := o
			o.Dir = filepath.Join(o.Dir, where)
			o.Lost = func() uint64 { return lost }
			s := Open(o)
			defer func() {
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			write := func(text string) {
				if _, err := s.Lines().Write([]byte(`{"time":"` + time.Now().UTC().Format(time.RFC3339) + `","x":"` + text + "\"}\n")); err != nil {
					t.Fatal(err)
				}
			}
			pass := func(d time.Duration) { <-time.After(d); synctest.Wait() }
			warned := func(from, to time.Duration) bool {
				ns := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(-d).UnixNano(), 10) }
				status, body := get(t, s, api.LokiPath, "/api/v1/query_range?query="+url.QueryEscape(`{service_name="failback"}`)+"&start="+ns(from)+"&end="+ns(to))
				if status != http.StatusOK {
					t.Fatalf("%d %s", status, body)
				}
				return strings.Contains(body, `"warnings":["3 lines are not there, lost between `)
			}
			write("ok")
			pass(2 * time.Second)
			if s.Problem(api.LokiPath) != "" || warned(time.Hour, 0) {
				t.Error("lines are lost before any is")
			}
			var said []string
			for n := range 3 {
				if where == "here" {
					write(strings.Repeat("x", 2<<20)) // too long
				} else {
					lost++
					write("ok")
				}
				said = append(said, s.Problem(api.LokiPath))
				if want := uint64(n + 1); s.Dropped()+lost != want {
					t.Errorf("%d lost, want %d", s.Dropped()+lost, want)
				}
				pass(time.Second)
			}
			if said[0] == "" || said[0] != said[1] || said[1] != said[2] {
				t.Errorf("it says %q", said)
			}
			pass(time.Hour)
			write("ok")
			if p := s.Problem(api.LokiPath); p != "" {
				t.Errorf("an hour later: %q", p)
			}
			if !warned(2*time.Hour, 0) || !warned(time.Hour+10*time.Minute, time.Hour+5*time.Minute) || warned(50*time.Minute, 0) || warned(3*time.Hour, 2*time.Hour) {
				t.Error("not just the answers that lack lines say so")
			}
		})
	}
}

// Lines that the disk has damaged are a problem for as long as they are kept.
func TestDamagedLinesAreAProblem(t *testing.T) {
	o := options(t)
	o.Metrics = false
	synctest.Test(t, func(t *testing.T) {
		s := Open(o)
		defer func() {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		for n := range 3 {
			if _, err := fmt.Fprintf(s.Lines(), `{"time":%q,"n":%d}`+"\n", time.Now().UTC().Format(time.RFC3339), n); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		ask := func() int {
			_, body := get(t, s, api.LokiPath, "/api/v1/query_range?query="+url.QueryEscape(`{service_name="failback"}`)+"&end="+strconv.FormatInt(time.Now().Add(time.Minute).UnixNano(), 10))
			return strings.Count(body, `\"n\":`)
		}
		if n, p := ask(), s.Problem(api.LokiPath); n != 3 || p != "" {
			t.Fatalf("%d lines, %q", n, p)
		}
		files, err := filepath.Glob(filepath.Join(o.Dir, "lines", "*.log"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		b[bytes.Index(b, []byte(`"n":1`))+4] = '7'
		if err := os.WriteFile(files[0], b, 0o640); err != nil {
			t.Fatal(err)
		}
		if n, p := ask(), s.Problem(api.LokiPath); n != 2 || !strings.Contains(p, "damaged on the disk") {
			t.Errorf("%d lines, %q", n, p)
		}
	})
}

func TestGaps(t *testing.T) {
	var g gaps
	at := func(m int) time.Time { return time.Date(2026, 11, 30, 4, m, 0, 0, time.UTC) }
	g.look(0, at(0))
	g.look(2, at(1))
	g.look(5, at(2)) // goes on
	g.look(5, at(10))
	g.look(6, at(11))
	for _, tt := range []struct {
		from, to int
		want     string
	}{
		{0, 30, "6 lines are not there, lost between 2026-11-30T04:00:00Z and 2026-11-30T04:11:00Z: they were not written in time"},
		{3, 30, "1 lines are not there, lost between 2026-11-30T04:10:00Z and 2026-11-30T04:11:00Z: they were not written in time"},
		{12, 30, ""}, {-30, -16, ""}, {-10, -6, "5 lines are not there, lost between 2026-11-30T04:00:00Z and 2026-11-30T04:02:00Z: they were not written in time"},
	} {
		if got := g.between(at(tt.from), at(tt.to)); got != tt.want {
			t.Errorf("%d to %d: %q, want %q", tt.from, tt.to, got, tt.want)
		}
	}
	var near gaps // that somebody looked between two losses does not part them
	for m, lost := range []uint64{0, 1, 1, 3, 3, 3, 4} {
		near.look(lost, at(m))
	}
	if len(near.list) != 2 || near.list[0] != (gap{at(0), at(3), 3}) || near.list[1] != (gap{at(5), at(6), 1}) {
		t.Errorf("%v", near.list)
	}
	if !g.now(at(11)) || g.now(at(12)) {
		t.Error("now")
	}
	for n := range 2 * mostGaps {
		g.look(uint64(7+n), at(20+10*n))
		g.look(uint64(7+n), at(25+10*n))
	}
	if len(g.list) != mostGaps || g.between(at(0), at(12)) != "" || g.between(at(20+20*mostGaps-10), at(20+20*mostGaps)) == "" {
		t.Errorf("%d gaps are remembered", len(g.list))
	}
	before := at(0) // the clock goes back
	g.look(1000, before)
	if g.between(before, before.Add(time.Minute)) == "" {
		t.Error("what is lost after the clock went back is not known")
	}
}
