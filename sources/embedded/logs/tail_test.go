package logs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
)

// follow asks a server to follow the log.
func follow(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	c, err := websocket.Dial(strings.Replace(url, "http", "ws", 1), "", "http://localhost/")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// received returns the next n lines, with their times.
func received(t *testing.T, c *websocket.Conn, n int) (got [][2]string) {
	t.Helper()
	for len(got) < n {
		var m struct {
			Streams []struct {
				Stream map[string]string
				Values [][2]string
			}
		}
		if err := websocket.JSON.Receive(c, &m); err != nil {
			t.Fatalf("after %d lines: %v", len(got), err)
		}
		for _, s := range m.Streams {
			if s.Stream["service_name"] != "failback" {
				t.Errorf("stream %v", s.Stream)
			}
			got = append(got, s.Values...)
		}
	}
	return got
}

type wrapped struct{ w http.ResponseWriter }

func (w wrapped) Header() http.Header         { return w.w.Header() }
func (w wrapped) Write(b []byte) (int, error) { return w.w.Write(b) }
func (w wrapped) WriteHeader(status int)      { w.w.WriteHeader(status) }
func (w wrapped) Unwrap() http.ResponseWriter { return w.w }

func TestTail(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir(), MaxBytes: 1 << 20})
	// Behind a wrapper that can only be looked through.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Handler().ServeHTTP(wrapped{w}, r) }))
	defer server.Close()
	now := time.Now().UnixNano()
	want := []string{at(now-3, `"event":"x","n":0`), at(now-2, `"event":"y","n":1`), at(now-1, `"event":"x","n":2`), at(now, `"event":"x","n":3`)}
	store(t, s, want...)

	c := follow(t, server.URL+"/loki/api/v1/tail?limit=2&query="+url.QueryEscape(`{service_name="failback"} |= "\"x\""`))
	defer c.Close()
	got := received(t, c, 2)
	if got[0] != [2]string{strconv.FormatInt(now-1, 10), want[2]} || got[1][1] != want[3] {
		t.Errorf("the newest two are %v", got)
	}
	// Each line that arrives comes once, also one whose time is over, and over
	// the end of a segment.
	var in []string
	for i := range 3000 {
		in = append(in, at(now-int64(time.Hour)*24+int64(i), `"event":"x","n":`+strconv.Itoa(i)))
	}
	store(t, s, append([]string{at(now, `"event":"y"`)}, in...)...)
	if n := segmentsOf(s); len(n) < 2 {
		t.Fatalf("segments %v", n)
	}
	for i, l := range received(t, c, len(in)) {
		if l[1] != in[i] {
			t.Fatalf("line %d is %s", i, l)
		}
	}
	shut(t, s)
	var m json.RawMessage
	if err := websocket.JSON.Receive(c, &m); err == nil {
		t.Errorf("after the end of the store: %s", m)
	}
}

// Who may not follow any more, by the request's context, is let go.
func TestTailEndsWithItsRequest(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir()})
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Handler().ServeHTTP(w, r.WithContext(ctx)) }))
	defer server.Close()
	store(t, s, at(time.Now().UnixNano(), `"n":1`))
	c := follow(t, server.URL+"/loki/api/v1/tail?query="+url.QueryEscape(`{service_name="failback"}`))
	defer c.Close()
	received(t, c, 1)
	cancel()
	var m json.RawMessage
	if err := websocket.JSON.Receive(c, &m); !errors.Is(err, io.EOF) {
		t.Errorf("%s, %v", m, err)
	}
}

// Close waits for those who follow, but not for longer than it may.
func TestCloseWaitsForThoseWhoFollow(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	end, ok := s.follower()
	if !ok {
		t.Fatal("closed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error, 1)
	go func() { closed <- s.Close(ctx) }()
	<-s.done
	select {
	case err := <-closed:
		t.Fatalf("Close did not wait: %v", err)
	default:
	}
	cancel()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	end()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, ok := s.follower(); ok {
		t.Error("a closed store is followed")
	}
}

// What arrives between two looks is not run ahead of: it would come twice.
func TestFewStopsAtTheEnd(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir()})
	store(t, s, at(1, `"n":1`), at(2, `"n":2`), at(3, `"n":3`))
	end := s.end()
	for row := range end.row + 1 {
		at, to := place{end.number, 0}, place{end.number, row}
		if got := s.few(at, to); got != to {
			t.Errorf("from %v on, up to %v: %v", at, to, got)
		}
	}
}

func TestTailOfAnEmptyStore(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir()})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	c := follow(t, server.URL+"/loki/api/v1/tail?query="+url.QueryEscape(`{service_name="failback"}`))
	defer c.Close()
	a, b := at(time.Now().UnixNano(), `"n":1`), at(time.Now().UnixNano()+1, `"n":2`)
	store(t, s, a)
	if got := received(t, c, 1); got[0][1] != a {
		t.Error(got)
	}
	store(t, s, b)
	if got := received(t, c, 1); got[0][1] != b {
		t.Error(got)
	}
}

func TestTailIsRefusedInWords(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir()})
	a := newAPI(s)
	h := a.routes()
	selector := url.Values{"query": {`{service_name="failback"}`}}
	for _, tc := range []struct {
		params url.Values
		text   string
	}{
		{url.Values{}, "parse error"},
		{url.Values{"query": {`count_over_time({a="b"}[1m])`}}, "metric query"},
		{url.Values{"query": selector["query"], "delay_for": {"6"}}, "delay_for can't be greater than 5"},
		{url.Values{"query": selector["query"], "limit": {"5001"}}, "max entries limit"},
		{selector, "wants a websocket"},
	} {
		status, kind, text := ask(t, h, http.MethodGet, "/loki/api/v1/tail", tc.params)
		if status != 400 || !strings.HasPrefix(kind, "text/plain") || !strings.Contains(text, tc.text) {
			t.Errorf("%v: %d %s %s", tc.params, status, kind, text)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/loki/api/v1/tail?"+selector.Encode(), nil)
	r.Header.Set("Upgrade", "websocket")
	w := httptest.NewRecorder() // a connection that cannot be taken over
	if h.ServeHTTP(w, r); w.Code != 400 || !strings.Contains(w.Body.String(), "HTTP/1.1") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for range tails {
		a.tailing <- struct{}{}
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 429 || !strings.Contains(w.Body.String(), "max concurrent tail requests limit exceeded") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
