package sources

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"failback/gateway/operator/api"
	"failback/sources/embedded/logs"
)

// tailServer is a lineStore that can be followed as tail says.
type tailServer struct {
	lineStore
	tail http.HandlerFunc
}

func (s *tailServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/loki/api/v1/tail") {
		s.tail(w, r)
		return
	}
	s.lineStore.ServeHTTP(w, r)
}

// upgraded answers with a websocket and gives it to f, reading what comes.
func upgraded(f func(c *websocket.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		up := websocket.Upgrader{}
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		go func() {
			for {
				if _, _, err := c.ReadMessage(); err != nil {
					return
				}
			}
		}()
		f(c)
	}
}

// sent is one message of a tail.
func sent(c *websocket.Conn, rows ...LogRow) {
	var streams []wireStreamOut
	for _, r := range rows {
		streams = append(streams, wireStreamOut{r.Labels, [][2]string{{strconv.FormatInt(r.TS, 10), r.Line}}})
	}
	_ = c.WriteJSON(map[string]any{"streams": streams})
}

// followed is what a tail gave.
type followed struct {
	t    *testing.T
	stop func() error // ends it, waits for it and returns its error

	mu     sync.Mutex
	rows   []LogRow    // guarded by mu
	states []TailState // guarded by mu
}

func followTail(t *testing.T, l Logs, q LogQuery) *followed {
	t.Helper()
	f := &followed{t: t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- l.(Tailer).Tail(ctx, q, func(n TailNews) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.rows = append(f.rows, n.Rows...)
			if len(f.states) == 0 || f.states[len(f.states)-1] != n.State {
				f.states = append(f.states, n.State)
			}
		})
	}()
	f.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(time.Minute):
			return errors.New("the tail does not end")
		}
	})
	t.Cleanup(func() { _ = f.stop() })
	return f
}

// until waits until ok.
func (f *followed) until(what string, ok func(lines []string, s TailState) bool) {
	f.t.Helper()
	end := time.Now().Add(20 * time.Second)
	for {
		f.mu.Lock()
		var lines []string
		for _, r := range f.rows {
			lines = append(lines, r.Line)
		}
		var s TailState
		if n := len(f.states); n > 0 {
			s = f.states[n-1]
		}
		states := fmt.Sprint(f.states)
		f.mu.Unlock()
		if ok(lines, s) {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("%s: after 20 s %q, %s", what, lines, states)
		}
		runtime.Gosched()
		<-time.After(10 * time.Millisecond)
	}
}

// modes are the states that were told, each once in a row.
func (f *followed) modes() (ms []TailMode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.states {
		ms = append(ms, s.Mode)
	}
	return slices.Compact(ms)
}

func TestLQL05TailRefused(t *testing.T) {
	said := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, status) }
	}
	for _, c := range []struct {
		name string
		tail http.HandlerFunc
		why  string
	}{
		{"1011 at once", upgraded(func(c *websocket.Conn) {
			_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1011, "max concurrent tail requests limit exceeded, count > limit (11 > 10)"), time.Now().Add(time.Second))
		}), "1011: max concurrent tail requests limit exceeded, count > limit (11 > 10)"},
		{"400", said(400, "max concurrent tail requests limit exceeded"), "400: max concurrent tail requests limit exceeded"},
		{"404", said(404, "404 page not found"), "404: no Loki under this path"},
		{"405", said(405, ""), "405 method not allowed"},
		{"502 of a proxy", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(502)
			_, _ = w.Write([]byte("<html>Bad Gateway</html>"))
		}, "502 bad gateway (answers text/html: a proxy before it?)"},
		{"200 of a log-in page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html>who are you"))
		}, "answers text/html"},
		{"a stranger's websocket", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Sec-WebSocket-Accept", "something")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}, "websocket"},
	} {
		t.Run("LQL-05 "+c.name, func(t *testing.T) {
			t.Parallel()
			s := &tailServer{tail: c.tail}
			now := time.Now()
			s.add(now.Add(-time.Second).UnixNano(), "before")
			_, l := clients(t, serve(t, s.ServeHTTP))
			f := followTail(t, l, LogQuery{Query: "{}"})
			f.until("polls and says why", func(lines []string, s TailState) bool {
				return slices.Equal(lines, []string{"before"}) && s.Mode == TailPolling && strings.Contains(s.Why, c.why)
			})
			s.add(time.Now().UnixNano(), "after", "after too")
			f.until("a new line comes", func(lines []string, _ TailState) bool {
				return slices.Equal(lines, []string{"before", "after", "after too"})
			})
			if err := f.stop(); !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
			if ms := f.modes(); slices.Contains(ms, TailLive) {
				t.Errorf("told %s", ms)
			}
		})
	}
}

// An interruption neither loses a line nor gives one twice, whatever is written
// meanwhile, also at the very time of the last line.
func TestTailGoesOnWhereItWas(t *testing.T) {
	base := time.Now().Add(-2 * time.Second).UnixNano()
	s := &tailServer{}
	var conns int
	var mu sync.Mutex
	again := make(chan struct{})
	s.tail = upgraded(func(c *websocket.Conn) {
		mu.Lock()
		conns++
		n := conns
		mu.Unlock()
		row := func(ts int64, line string) LogRow {
			s.add(ts, line)
			return LogRow{TS: ts, Line: line, Labels: map[string]string{"a": "b"}}
		}
		if n == 1 {
			sent(c, row(base+1, "1"), row(base+2, "2"), row(base+2, "2b"))
			sent(c, row(base+3, "3"))
			<-again
			// Cut off without a word; and while nobody listens:
			_ = c.NetConn().Close()
			s.add(base+3, "3 again at the same time")
			s.add(base+3, "3 again at the same time")
			s.add(base+4, "4")
			s.add(base+1, "1, late")
			return
		}
		// What is sent again from the past is known.
		sent(c, LogRow{TS: base + 3, Line: "3", Labels: map[string]string{"a": "b"}}, LogRow{TS: base + 4, Line: "4", Labels: map[string]string{"a": "b"}})
		sent(c, row(base+5, "5"))
		<-again
	})
	defer close(again)
	s.add(base, "0")
	_, l := clients(t, serve(t, s.ServeHTTP))
	f := followTail(t, l, LogQuery{Query: "{}"})
	f.until("live", func(lines []string, s TailState) bool { return len(lines) == 5 && s.Mode == TailLive })
	again <- struct{}{}
	f.until("live again", func(lines []string, s TailState) bool {
		return slices.Contains(lines, "5") && s.Mode == TailLive
	})
	_ = f.stop()
	var got []string
	for _, r := range f.rows {
		got = append(got, r.Line)
	}
	slices.Sort(got)
	if want := []string{"0", "1", "1, late", "2", "2b", "3", "3 again at the same time", "3 again at the same time", "4", "5"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if ms := f.modes(); !slices.Equal(ms, []TailMode{TailConnecting, TailLive, TailReconnecting, TailLive}) {
		t.Errorf("told %s", ms)
	}
}

// A decision is written when its request ends, and has the time at which it was
// accepted: lines that are asked for come minutes late. Those before the newest
// that were wanted at first stay away.
func TestTailFindsLateLines(t *testing.T) {
	s := &tailServer{tail: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusMethodNotAllowed) }}
	now := time.Now()
	at := func(d time.Duration) int64 { return now.Add(d).UnixNano() }
	s.add(at(-4*time.Second), "not wanted")
	s.add(at(-3*time.Second), "first")
	s.add(at(-2*time.Second), "second")
	_, l := clients(t, serve(t, s.ServeHTTP))
	f := followTail(t, l, LogQuery{Query: "{}", Limit: 2})
	f.until("the newest", func(lines []string, _ TailState) bool { return slices.Equal(lines, []string{"first", "second"}) })
	s.add(at(0), "third")
	f.until("no older ones", func(lines []string, _ TailState) bool {
		return slices.Equal(lines, []string{"first", "second", "third"})
	})
	s.add(at(-2500*time.Millisecond), "between them")
	f.until("one that was late among the newest", func(lines []string, _ TailState) bool {
		return slices.Equal(lines, []string{"first", "second", "third", "between them"})
	})
	_ = f.stop()

	f = followTail(t, l, LogQuery{Query: "{}"})
	f.until("all", func(lines []string, _ TailState) bool { return len(lines) == 5 })
	s.add(at(-5*time.Minute), "took five minutes")
	f.until("a late one", func(lines []string, _ TailState) bool { return len(lines) == 6 && lines[5] == "took five minutes" })
	s.add(at(time.Second), "fourth")
	f.until("none twice", func(lines []string, _ TailState) bool { return len(lines) == 7 && lines[6] == "fourth" })
}

// Where a tail goes on it remembers all that it gave.
func TestTailNeverAsksForWhatItForgot(t *testing.T) {
	s := newSeenLines(0)
	ts := int64(1e18)
	var given []int64
	for i := range 100_000 {
		gap := int64(5 * time.Millisecond) // busy
		if i > 90_000 {
			gap = int64(2 * time.Second) // and then not: the way back is long
		}
		ts += gap
		given = append(given, ts)
		s.add(lineKey{ts, uint64(i)}, ts)
		if i < 10_000 || i%997 != 0 {
			continue
		}
		from := s.from()
		first, _ := slices.BinarySearch(given, from)
		if n := len(s.since(from)); n != len(given)-first {
			t.Fatalf("line %d: %d were given from there on, and it knows %d", i, len(given)-first, n)
		}
		if from > ts-int64(tailOverlap) {
			t.Fatalf("line %d: goes on %s before it", i, time.Duration(ts-from))
		}
	}
	if back := time.Duration(ts - s.from()); back < tailLate-time.Minute {
		t.Errorf("of few lines it goes back %s alone", back)
	}
}

func TestTailCountsWhatTheServerDropped(t *testing.T) {
	s := &tailServer{}
	end := make(chan struct{})
	defer close(end)
	s.tail = upgraded(func(c *websocket.Conn) {
		_ = c.WriteMessage(websocket.TextMessage, []byte(`{"streams":[{"stream":{"a":"b"},"values":[["1","x"]]}],"dropped_entries":[{"timestamp":"2026-01-01T00:00:00Z","labels":"{}"},{"timestamp":"2026-01-01T00:00:00Z"}]}`))
		_ = c.WriteMessage(websocket.TextMessage, []byte(`{"dropped_entries":[{}],"streams":null}`))
		<-end
	})
	_, l := clients(t, serve(t, s.ServeHTTP))
	f := followTail(t, l, LogQuery{Query: "{}"})
	f.until("three", func(lines []string, s TailState) bool {
		return len(lines) == 1 && s.Dropped == 3 && s.Mode == TailLive
	})
}

// A query that is refused ends the tail with the server's words; numbers are
// not followed.
func TestTailOfARefusedQuery(t *testing.T) {
	_, l := clients(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "parse error at line 1, col 2: syntax error", http.StatusBadRequest)
	}))
	err := l.(Tailer).Tail(t.Context(), LogQuery{Query: "{"}, func(TailNews) {})
	if e, _ := errors.AsType[*RemoteError](err); e == nil || e.Kind != RemoteQuery || !strings.Contains(e.Message, "col 2") {
		t.Errorf("%v", err)
	}
	err = l.(Tailer).Tail(t.Context(), LogQuery{Query: "sum(rate({}[1m]))"}, func(TailNews) {})
	if kindOf(err) != RemoteQuery {
		t.Errorf("%v", err)
	}
}

// The websocket goes the way of every other question: TLS with the same
// authority, also beside HTTP/2, the same credentials, tenant and path.
func TestTailIsShownTheSame(t *testing.T) {
	s := &tailServer{}
	end := make(chan struct{})
	defer close(end)
	headers := make(chan http.Header, 10)
	paths := make(chan string, 10)
	live := upgraded(func(*websocket.Conn) { <-end })
	s.tail = func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header.Clone()
		paths <- r.URL.Path
		live(w, r)
	}
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	_, l, err := Connect(nil, api.Sources{Loki: api.Source{URL: server.URL + "/behind", Tenant: "configured"}},
		environment("LOKI_CA_CERT_PATH", ca, "LOKI_USERNAME", "ana", "LOKI_PASSWORD", "hunter2"))
	if err != nil && l == nil {
		t.Fatal(err)
	}
	f := followTail(t, l, LogQuery{Query: "{}"})
	f.until("live", func(_ []string, s TailState) bool { return s.Mode == TailLive })
	h := <-headers
	user, password, _ := (&http.Request{Header: h}).BasicAuth()
	if user != "ana" || password != "hunter2" || h.Get("X-Scope-OrgID") != "configured" || h.Get("User-Agent") != "failback" {
		t.Errorf("shown %v", h)
	}
	if p := <-paths; p != "/behind/loki/api/v1/tail" {
		t.Errorf("asked %s", p)
	}
}

// The gateway's own log is followed over its own client.
func TestTailOfTheEmbeddedLog(t *testing.T) {
	store, err := logs.Open(logs.Options{Dir: t.TempDir(), Labels: map[string]string{"service_name": "failback"}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(context.Background())
	line := func(n int) string {
		return fmt.Sprintf(`{"time":%q,"event":"probe","n":%d}`, time.Now().UTC().Format(time.RFC3339Nano), n)
	}
	write := func(n int) {
		if _, err := store.Write([]byte(line(n) + "\n")); err != nil {
			t.Error(err)
		}
	}
	server := httptest.NewServer(store.Handler())
	defer server.Close()
	gw, err := api.NewClient(server.URL, api.Options{Token: "fb_token"})
	if err != nil {
		t.Fatal(err)
	}
	defer gw.Close()
	_, l, err := Connect(gw, api.Sources{}, environment())
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		write(n)
	}
	f := followTail(t, l, LogQuery{Query: DefaultStreams, Limit: 100})
	f.until("live with the past", func(lines []string, s TailState) bool { return len(lines) == 3 && s.Mode == TailLive })
	for n := 3; n < 200; n++ {
		write(n)
	}
	f.until("all", func(lines []string, _ TailState) bool { return len(lines) >= 200 })
	_ = f.stop()
	if len(f.rows) != 200 {
		t.Errorf("%d lines", len(f.rows))
	}
	for i, r := range f.rows {
		var v struct{ N int }
		if err := json.Unmarshal([]byte(r.Line), &v); err != nil || v.N != i {
			t.Fatalf("line %d is %s", i, r.Line)
		}
	}
}

// What a tail remembers is bounded, whatever the times of the lines are.
func TestTailMemoryIsBounded(t *testing.T) {
	for name, at := range map[string]func(i int) int64{
		"one time":         func(int) int64 { return 5e18 },
		"a flood":          func(i int) int64 { return 1e18 + int64(i) },
		"from the past":    func(i int) int64 { return 1e18 - int64(i) },
		"of the future":    func(i int) int64 { return 9e18 + int64(i) },
		"200 a second":     func(i int) int64 { return 1e18 + int64(i)*5e6 },
		"seldom, for ever": func(i int) int64 { return 1e18 + int64(i)*1e9 },
	} {
		s := newSeenLines(0)
		most := 0
		for i := range 60_000 {
			s.add(lineKey{at(i), uint64(i)}, 2e18)
			most = max(most, len(s.counts))
		}
		if most > 2*maxSeen+1000 {
			t.Errorf("%s: %d lines", name, most)
		}
		if n := len(s.since(s.from())); n > 2*maxSeen+1000 {
			t.Errorf("%s: %d lines to compare", name, n)
		}
	}
}

func TestPatience(t *testing.T) {
	p, err := readPatience(environment("LOKI_CLIENT_RETRIES", "3", "LOKI_CLIENT_MIN_BACKOFF", "1", "LOKI_CLIENT_MAX_BACKOFF", "5"))
	if err != nil || p.retries != 3 {
		t.Fatalf("%+v, %v", p, err)
	}
	for n, most := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 5 * time.Second, 1000: 5 * time.Second} {
		if lo, hi := p.wait(n, 0), p.wait(n, 1); hi != most || lo != most/2 {
			t.Errorf("after %d: %s to %s", n, lo, hi)
		}
	}
	if p, err := readPatience(environment("LOKI_CLIENT_MIN_BACKOFF", "60")); err != nil || p.wait(1, 1) != time.Minute {
		t.Errorf("one that is longer than the usual longest: %+v, %v", p, err)
	}
	if _, err := readPatience(environment("LOKI_CLIENT_RETRIES", "many")); err == nil || !strings.Contains(err.Error(), "LOKI_CLIENT_RETRIES") {
		t.Errorf("%v", err)
	}
	// A question that may be answered soon is asked again, one that is refused not.
	for status, want := range map[int]int32{503: 4, 429: 4, 400: 1, 401: 1, 0: 4} {
		var asked atomic.Int32
		_, l, err := Connect(nil, api.Sources{Loki: api.Source{URL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			if status == 0 { // it breaks off
				panic(http.ErrAbortHandler)
			}
			http.Error(w, "no", status)
		})}, Prometheus: api.Source{URL: "http://prom.example"}}, environment("LOKI_CLIENT_RETRIES", "3"))
		if err != nil {
			t.Fatal(err)
		}
		l.(*lokiClient).patience.min, l.(*lokiClient).patience.max = time.Millisecond, time.Millisecond
		if a := l.Query(t.Context(), 1, LogQuery{Query: "{}"}); a.Err == nil || asked.Load() != want {
			t.Errorf("%d: asked %d times, %v", status, asked.Load(), a.Err)
		}
	}
}
