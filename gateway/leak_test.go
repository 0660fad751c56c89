package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/decision"
)

// crowd is a gateway on real sockets with clients that end in every way there
// is, against upstreams that do too.
type crowd struct {
	*testing.T
	gw       *gateway.Gateway
	upstream *httptest.Server
	hc       *http.Client
	tr       *http.Transport
	base     string
	panics   atomic.Int64

	mu    sync.Mutex // guards what follows
	ended map[string]int
}

const (
	pours   fault = "pours"   // more than the buffers in between hold
	dead    fault = "dead"    // answers 503, and its breaker is in force
	sinks   fault = "sinks"   // hangs, and its breaker is in force
	narrow  fault = "narrow"  // takes one request at a time
	strange fault = "strange" // answers with a status that no rule names
	nowhere fault = "nowhere" // its name does not resolve
	plain   fault = "plain"   // does not speak TLS
)

// crowdStatus are faults that are an answer.
var crowdStatus = map[fault]struct {
	status     int
	kind, code string
}{
	"quota":    {429, "insufficient_quota", "insufficient_quota"},
	"key":      {401, "authentication_error", "invalid_api_key"},
	"retired":  {404, "not_found_error", "model_not_found"},
	"toolong":  {400, "invalid_request_error", "context_length_exceeded"},
	"mistaken": {400, "invalid_request_error", "invalid_value"},
	"filtered": {400, "invalid_request_error", "content_policy_violation"},
}

// crowdFaults are the names of the models, each of which an upstream of the
// same name is the primary of, and a healthy one what is left.
func crowdFaults() []fault {
	l := append(slices.Clone(faults), pours, strange, nowhere, plain)
	for f := range crowdStatus {
		l = append(l, f)
	}
	slices.Sort(l)
	return l
}

// nameOf makes a fault a name.
func nameOf(f fault) string { return strings.ReplaceAll(string(f), " ", "-") }

// pouring is what pours says in all.
const pouring = 512 << 10

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := make([]byte, 1<<10)
	n, _ := io.ReadFull(r.Body, head)
	_, _ = io.Copy(io.Discard, r.Body)
	stream := bytes.Contains(head[:n], []byte(`"stream":true`))
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	f := fault(strings.ReplaceAll(name, "-", " "))
	a := replyOf(path, "one", false)
	if s, ok := crowdStatus[f]; ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.status)
		fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":"no","param":null,"code":%q}}`, s.kind, s.code)
		return
	}
	switch f {
	case pours:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, a.preamble)
		for range pouring / len(a.first) {
			_, _ = io.WriteString(w, a.first)
		}
		_, _ = io.WriteString(w, a.rest)
	case "good":
		behave(w, r, healthy, a, stream)
	case dead:
		behave(w, r, unavailable, a, stream)
	case sinks:
		behave(w, r, hangs, a, stream)
	case narrow:
		after(r, 5*time.Millisecond)
		behave(w, r, healthy, a, stream)
	case strange:
		w.WriteHeader(440 + rand.IntN(50)) // none of which has a meaning
	default:
		behave(w, r, f, a, stream)
	}
}

// gather starts a crowd. What Log panics over stands for a fault of our own in
// the middle of a request.
func gather(t *testing.T, secure bool) *crowd {
	c := &crowd{T: t, ended: map[string]int{}}
	c.upstream = httptest.NewUnstartedServer(c)
	c.upstream.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	c.upstream.Start()
	t.Cleanup(c.upstream.Close)
	c.tr = &http.Transport{MaxIdleConnsPerHost: 100, MaxConnsPerHost: 0}
	c.hc = &http.Client{Transport: c.tr}
	dir, scheme, more := t.TempDir(), "http://", ""
	if secure {
		scheme, more = "https://", certificate(t, dir, c.tr)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()

	yaml := fmt.Sprintf(`listen: 127.0.0.1:0
data_dir: %q
drain_delay: 0s
%stelemetry: {decision_log: none}
max_buffered_bytes: 256MiB
deadline: {first_output: 60s, unary: 60s}
stream: {idle: 100ms}
first_output: {floor: 50ms, ceiling: 100ms}
unary_attempt: {floor: 100ms}
retry: {base: 5ms, cap: 20ms, budget: {ratio: 1, burst: 10000}}
breaker: {mode: shadow}
tasks: {held: {fallback: any, release: complete}, stays: {fallback: never}}
default_task: {fallback: any}
upstreams:
`, dir, more)
	models := "models:\n"
	for _, dialect := range []string{"openai", "anthropic"} {
		v1 := "/v1"
		if dialect == "anthropic" {
			v1 = ""
		}
		add := func(f fault, base, more string) {
			name := dialect + "-" + nameOf(f)
			yaml += fmt.Sprintf("  %s: {dialect: %s, base_url: \"%s/%s%s\", api_key: key-of-%s%s}\n", name, dialect, base, nameOf(f), v1, name, more)
		}
		add("good", c.upstream.URL, "")
		add(dead, c.upstream.URL, ", breaker: {mode: enforce}")
		add(sinks, c.upstream.URL, ", unary_attempt: {floor: 1s}, breaker: {mode: enforce, cooldown: 500ms, cooldown_max: 500ms}")
		add(narrow, c.upstream.URL, ", limits: {concurrency: 1}")
		for _, f := range crowdFaults() {
			base := c.upstream.URL
			switch f {
			case refuses:
				base = "http://" + closed.Addr().String()
			case nowhere:
				base = "http://nowhere.test"
			case plain:
				base = strings.Replace(base, "http:", "https:", 1)
			}
			add(f, base, "")
		}
	}
	for _, f := range append(crowdFaults(), "good", dead, sinks, narrow) {
		models += fmt.Sprintf("  %s:\n    candidates:\n", nameOf(f))
		for _, dialect := range []string{"openai", "anthropic"} {
			models += fmt.Sprintf("      - {upstream: %s-%s, model: x, weight: 100}\n", dialect, nameOf(f))
			if f != "good" && f != dead && f != narrow {
				models += fmt.Sprintf("      - {upstream: %s-good, model: x, weight: 50}\n", dialect)
			}
		}
	}
	yaml += models
	var dialer net.Dialer
	c.gw = gateway.New(gateway.Options{
		Load: func(ctx context.Context) (*config.Config, error) {
			return config.Load(ctx, config.Source{Data: []byte(yaml)})
		},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasPrefix(addr, "nowhere.test") {
				return nil, &net.DNSError{Err: "no such host", Name: "nowhere.test", IsNotFound: true}
			}
			return dialer.DialContext(ctx, network, addr)
		},
		Log: func(text string) {
			first := strings.HasPrefix(text, "alarm: upstream")
			if second := strings.HasPrefix(text, "alarm: panic while routing"); first || second && c.panics.Load()%2 == 0 {
				c.panics.Add(1)
				panic("told of an alarm")
			}
		},
	})
	if err := c.gw.StartAlone(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.tr.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.gw.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	c.base = scheme + c.gw.ClientAddr()
	return c
}

// asks makes a request; what is left of the arguments are header names and values.
func (c *crowd) asks(ctx context.Context, dialect string, f fault, stream bool, headers ...string) (*http.Response, error) {
	headers = append([]string{"Failback-Deadline-Ms", "2500"}, headers...)
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, nameOf(f), stream)
	return c.sends(ctx, dialect, strings.NewReader(body), int64(len(body)), headers...)
}

func (c *crowd) sends(ctx context.Context, dialect string, body io.Reader, length int64, headers ...string) (*http.Response, error) {
	path := chatPath
	if dialect == "anthropic" {
		path = messagePath
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, body)
	if err != nil {
		return nil, err
	}
	q.ContentLength = length
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	return c.hc.Do(q)
}

// reads reads the answer to its end, whatever that is, and returns its status;
// 0: there was none.
func reads(resp *http.Response, err error) int {
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// leaves closes the answer after n bytes.
func leaves(resp *http.Response, err error, n int64) int {
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, n)
	return resp.StatusCode
}

// way is how a client's request goes, and how often of a hundred. It returns
// the status that the client got, 0 if none.
type way struct {
	name  string
	often int
	does  func(c *crowd, dialect string, stream bool) int
}

var ways = []way{
	{"any fault", 40, func(c *crowd, dialect string, stream bool) int {
		l := crowdFaults()
		f := l[rand.IntN(len(l))]
		var headers []string
		switch rand.IntN(4) {
		case 0:
			headers = []string{"Failback-Task", "stays"}
		case 1:
			headers = []string{"Failback-Task", "held"}
		}
		return reads(c.asks(c.Context(), dialect, f, stream, headers...))
	}},
	{"success", 15, func(c *crowd, dialect string, stream bool) int {
		return reads(c.asks(c.Context(), dialect, "good", stream))
	}},
	{"a breaker's refusal", 5, func(c *crowd, dialect string, stream bool) int {
		return reads(c.asks(c.Context(), dialect, dead, stream))
	}},
	{"no room at the upstream", 5, func(c *crowd, dialect string, stream bool) int {
		return reads(c.asks(c.Context(), dialect, narrow, stream))
	}},
	{"moved away", 5, func(c *crowd, dialect string, _ bool) int {
		return reads(c.asks(c.Context(), dialect, sinks, false))
	}},
	{"a panic", 3, func(c *crowd, dialect string, stream bool) int {
		return reads(c.asks(c.Context(), dialect, strange, stream))
	}},
	{"the caller's deadline", 4, func(c *crowd, dialect string, stream bool) int {
		return reads(c.asks(c.Context(), dialect, hangs, stream, "Failback-Task", "stays", "Failback-Deadline-Ms", "30"))
	}},
	{"gone while it waits", 4, func(c *crowd, dialect string, stream bool) int {
		return reads(c.soon(func(ctx context.Context) (*http.Response, error) {
			return c.asks(ctx, dialect, hangs, stream, "Failback-Task", "stays")
		}))
	}},
	{"gone between attempts", 4, func(c *crowd, dialect string, stream bool) int {
		return reads(c.soon(func(ctx context.Context) (*http.Response, error) {
			return c.asks(ctx, dialect, limits, stream, "Failback-Task", "stays")
		}))
	}},
	{"gone while it is held", 4, func(c *crowd, dialect string, _ bool) int {
		return reads(c.soon(func(ctx context.Context) (*http.Response, error) {
			return c.asks(ctx, dialect, silentLater, true, "Failback-Task", "held")
		}))
	}},
	{"gone after the first output", 4, func(c *crowd, dialect string, _ bool) int {
		resp, err := c.asks(c.Context(), dialect, silentLater, true)
		return leaves(resp, err, 10)
	}},
	{"gone midway", 4, func(c *crowd, dialect string, _ bool) int {
		resp, err := c.asks(c.Context(), dialect, pours, true)
		return leaves(resp, err, 1<<10)
	}},
	{"gone within its body", 4, func(c *crowd, dialect string, _ bool) int {
		body := io.MultiReader(strings.NewReader(`{"model":"good","messages":[`), brokenBodyReader{})
		return reads(c.sends(c.Context(), dialect, body, 1000))
	}},
	{"a slow reader", 3, func(c *crowd, dialect string, _ bool) int {
		resp, err := c.asks(c.Context(), dialect, pours, true)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range 10 {
			<-tick.C
			if _, err := io.CopyN(io.Discard, resp.Body, 4<<10); err != nil {
				return resp.StatusCode
			}
		}
		return reads(resp, nil)
	}},
	{"a mistake", 1, func(c *crowd, dialect string, _ bool) int {
		for _, body := range []string{`{"model":"good"`, `{"model":"nobody"}`} {
			reads(c.sends(c.Context(), dialect, strings.NewReader(body), int64(len(body))))
		}
		return reads(c.sends(c.Context(), dialect, strings.NewReader("{"), 1<<40))
	}},
}

// soon does f and gives it up a moment later.
func (c *crowd) soon(f func(context.Context) (*http.Response, error)) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(c.Context(), time.Duration(1+rand.IntN(30))*time.Millisecond)
	resp, err := f(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = closing{resp.Body, cancel}
	return resp, nil
}

// closing ends its context when it is closed.
type closing struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c closing) Close() error { defer c.cancel(); return c.ReadCloser.Close() }

type brokenBodyReader struct{}

func (brokenBodyReader) Read([]byte) (int, error) { return 0, errors.New("the client breaks off") }

// holdings is everything that a request may hold.
type holdings struct {
	goroutines, sockets                 int
	inFlight, attempts, permits, probes int
	buffered                            int64
}

// holds takes stock when nothing is idle in between.
func (c *crowd) holds() (h holdings) {
	c.tr.CloseIdleConnections()
	c.upstream.CloseClientConnections()
	s := c.gw.OperatorState()
	h.inFlight = s.Traffic.InFlight
	for _, u := range s.Upstreams {
		h.attempts += u.InFlight
		for _, b := range u.Breakers {
			h.permits += b.InFlight
			h.probes += b.ProbesOut
		}
	}
	h.buffered = c.gw.Buffered()
	h.goroutines, h.sockets = runtime.NumGoroutine(), sockets()
	return h
}

// sockets is how many this process has; 0 where the system does not tell.
func sockets() (n int) {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	for _, name := range names {
		if to, err := os.Readlink("/proc/self/fd/" + name.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// settles waits until it holds no more than before, and returns what it holds.
func (c *crowd) settles(before holdings, within time.Duration) holdings {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		h := c.holds()
		if h == (holdings{goroutines: h.goroutines, sockets: h.sockets}) && h.goroutines <= before.goroutines && h.sockets <= before.sockets {
			return h
		}
		select {
		case <-deadline.C:
			return h
		case <-tick.C:
		}
	}
}

// rests waits until the numbers stand still.
func (c *crowd) rests() holdings {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for last, same := c.holds(), 0; ; {
		<-tick.C
		h := c.holds()
		if same++; h != last {
			last, same = h, 0
		}
		if same == 5 {
			return h
		}
	}
}

// large is a request of 32 MiB that costs its client nothing.
func large() (io.Reader, int64) {
	const size = 32 << 20
	const before, behind = `{"model":"good","max_tokens":9,"messages":[{"role":"user","content":"`, `"}]}`
	fill := int64(size - len(before) - len(behind))
	return io.MultiReader(strings.NewReader(before), io.LimitReader(letters{}, fill), strings.NewReader(behind)), size
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// leakedAtMost is what the heap may have more: a large request is as large.
const leakedAtMost = 32 << 20

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// However a request ends, nothing of it stays: 5,000 that end in every way,
// and then a hundred large ones at once.
func TestNothingLeaks(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(protocolOf(secure), func(t *testing.T) {
			c := gather(t, secure)
			for _, dialect := range []string{"openai", "anthropic"} {
				if got := reads(c.asks(t.Context(), dialect, "good", true)); got != 200 {
					t.Fatalf("the first answer: %d", got)
				}
			}
			before, heapBefore := c.rests(), heap()

			const atOnce = 100
			requests := int64(5000)
			if testing.Short() {
				requests = 500
			}
			start := time.Now()
			var next atomic.Int64
			var running sync.WaitGroup
			for range atOnce {
				running.Go(func() {
					for next.Add(1) <= requests {
						c.some()
					}
				})
			}
			running.Wait()
			after := c.settles(before, 20*time.Second)
			c.report(fmt.Sprintf("%d requests in %s", requests, time.Since(start)), before, after, heapBefore)
			if testing.Short() {
				return
			}
			c.endedInEveryWay()

			start = time.Now()
			c.crush()
			after = c.settles(before, 20*time.Second)
			c.report(fmt.Sprintf("100 large ones in %s", time.Since(start)), before, after, heapBefore)
			if got := reads(c.asks(t.Context(), "openai", "good", false)); got != 200 {
				t.Errorf("afterwards: %d", got)
			}
		})
	}
}

// some makes one request in some way.
func (c *crowd) some() {
	of := 0
	for _, w := range ways {
		of += w.often
	}
	n := rand.IntN(of)
	for _, w := range ways {
		if n -= w.often; n >= 0 {
			continue
		}
		dialect := []string{"openai", "anthropic"}[rand.IntN(2)]
		status := w.does(c, dialect, rand.IntN(2) == 0)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended[w.name+": "+strconv.Itoa(status)]++
		return
	}
}

// crush sends a hundred requests of 32 MiB at once: more than may be held.
func (c *crowd) crush() {
	c.Helper()
	var answered, refused atomic.Int64
	var running sync.WaitGroup
	for range 100 {
		running.Go(func() {
			body, size := large()
			switch status := reads(c.sends(c.Context(), "openai", body, size)); status {
			case http.StatusOK:
				answered.Add(1)
			case http.StatusServiceUnavailable, 0:
				refused.Add(1) // 0: the refusal was lost with the connection, on which the body was still coming
			default:
				c.Errorf("a large request: %d", status)
			}
		})
	}
	running.Wait()
	c.Logf("of 100 large requests %d were answered and %d refused", answered.Load(), refused.Load())
	if answered.Load() == 0 || refused.Load() == 0 {
		c.Error("they were to be more than may be held, and not all of them")
	}
}

func (c *crowd) report(what string, before, after holdings, heapBefore uint64) {
	c.Helper()
	grown := int64(heap()) - int64(heapBefore)
	for deadline := time.Now().Add(10 * time.Second); grown > leakedAtMost && time.Now().Before(deadline); {
		<-time.After(100 * time.Millisecond) // what a connection of a client still reads into goes with it
		grown = int64(heap()) - int64(heapBefore)
	}
	c.Logf("%s: %+v before, %+v after, %d KiB of heap more", what, before, after, grown>>10)
	if after.goroutines > before.goroutines {
		stacks := make([]byte, 1<<20)
		c.Errorf("%s: %d goroutines, %d before\n%s", what, after.goroutines, before.goroutines, stacks[:runtime.Stack(stacks, true)])
	}
	if after.sockets > before.sockets {
		c.Errorf("%s: %d sockets, %d before", what, after.sockets, before.sockets)
	}
	if held := (holdings{goroutines: after.goroutines, sockets: after.sockets}); after != held {
		c.Errorf("%s: still held: %+v", what, after)
	}
	if grown > leakedAtMost {
		c.Errorf("%s: %d MiB of heap more", what, grown>>20)
	}
}

// endedInEveryWay checks that the crowd met all that it was meant to.
func (c *crowd) endedInEveryWay() {
	c.Helper()
	for _, class := range decision.Classes {
		n := c.gw.Counted("ai_model_attempts_total", map[string]string{"class": string(class)})
		switch class {
		case decision.Refused, decision.Internal: // of HTTP/2, and of nothing that can be provoked from outside
			continue
		}
		if n == 0 {
			c.Errorf("no attempt ended as %s", class)
		}
	}
	for _, status := range []decision.Status{decision.Completed, decision.DegradedCompleted, decision.Unavailable, decision.Incomplete, decision.Cancelled, decision.Rejected} {
		if c.gw.Counted("ai_model_requests_total", map[string]string{"outcome": string(status)}) == 0 {
			c.Errorf("no request came to %s", status)
		}
	}
	if c.panics.Load() < 20 {
		c.Errorf("%d panics", c.panics.Load())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var l []string
	for what, n := range c.ended {
		l = append(l, fmt.Sprintf("%s x%d", what, n))
	}
	slices.Sort(l)
	c.Log(strings.Join(l, "\n"))
}
