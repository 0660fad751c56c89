package router

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/decision"
	"failback/gateway/health"
	"failback/gateway/internal/memnet"
	"failback/gateway/policy"
	"failback/gateway/traffic"
	"failback/gateway/upstream"
	"failback/gateway/wire"
)

// world is a router with real rooms around it, and upstreams that are real
// HTTP servers on a network in memory, all inside one bubble.
type world struct {
	t        *testing.T
	net      *memnet.Network
	router   *Router
	plan     *Plan
	settings breaker.Settings
	stubs    map[string]*stub
	upstream map[string]*Upstream
	cands    []*Candidate
	memory   *counted
	n        atomic.Int64
	events   eventLog
	alarms   atomic.Int64
	trace    func(*decision.Decision, *Request) // nil: requests are part of none
}

type eventLog struct {
	mu     sync.Mutex // guards everything that follows
	events []decision.Event
}

func (l *eventLog) add(e decision.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// opened returns the reasons for which bucket opened, in order.
func (l *eventLog) opened(upstream string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var reasons []string
	for _, e := range l.events {
		if e.Kind == decision.KindBreakerTransition && e.Provider == upstream && e.To == "open" {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}

// stub is one upstream.
type stub struct {
	w       *world
	handler atomic.Pointer[http.HandlerFunc]
	seen    atomic.Int64
	open    atomic.Int64
	most    atomic.Int64
	gone    atomic.Int64 // requests whose caller left
	mu      sync.Mutex   // guards everything that follows
	times   []time.Time
	bodies  []string
}

func (s *stub) do(h http.HandlerFunc) { s.handler.Store(&h) }

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.seen.Add(1)
	n := s.open.Add(1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	defer s.open.Add(-1)
	s.mu.Lock()
	s.times = append(s.times, time.Now())
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	if strings.Contains(string(body), `"stream":true`) {
		r = r.WithContext(context.WithValue(r.Context(), streamKey{}, true))
	}
	(*s.handler.Load())(w, r)
	if r.Context().Err() != nil {
		s.gone.Add(1)
	}
}

// counted is a Buffers without a limit that knows what is out.
type counted struct{ used atomic.Int64 }

func (c *counted) Grow(n int) bool { c.used.Add(int64(n)); return true }
func (c *counted) Shrink(n int)    { c.used.Add(-int64(n)) }

// candidate describes one for newWorld.
type candidate struct {
	name       string
	weight     float64
	substitute bool
	larger     bool
	keys       []string
	zones      []string
}

func defaults() breaker.Settings {
	return breaker.Settings{
		FailureRate: 0.5, MinSamples: 10, Window: 30 * time.Second, Consecutive: 5,
		SlowOver: 20 * time.Second, SlowRate: 0.8, Cooldown: 15 * time.Second, CooldownMax: 2 * time.Minute,
		Patience: 2 * time.Second, Probes: 1, EnforcePercent: 100,
	}
}

// inWorld runs f in a bubble with upstreams of the given names, A healthy
// OpenAI stub each, and checks at the end that nothing is held any more.
func inWorld(t *testing.T, cs []candidate, f func(*world)) {
	t.Helper()
	inWorldOf(t, cs, func(w *world, c candidate, l net.Listener) (stop func()) {
		s := &stub{w: w}
		s.do(ok("answer of " + c.name))
		w.stubs[c.name] = s
		server := &http.Server{Handler: s}
		var running sync.WaitGroup
		running.Go(func() { _ = server.Serve(l) })
		return func() {
			_ = server.Close()
			running.Wait()
		}
	}, f)
}

// inWorldOf is inWorld with upstreams that serve as given; what serve returns
// ends one and waits for it.
func inWorldOf(t *testing.T, cs []candidate, serve func(*world, candidate, net.Listener) (stop func()), f func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, net: &memnet.Network{}, stubs: map[string]*stub{}, upstream: map[string]*Upstream{}, memory: &counted{}, settings: defaults(),
		}
		ctx, cancel := context.WithCancel(t.Context())
		table, err := traffic.Open(ctx, new(traffic.Memory), w.events.add)
		if err != nil {
			t.Fatal(err)
		}
		w.router = &Router{
			Breakers: breaker.New(w.events.add), Traffic: table, Book: upstream.NewBook(w.events.add),
			Budget: NewRetryBudget(0.2, 10), Bindings: NewBindings(), Faults: health.NewDetector(nil),
			Alarm: func(string) { w.alarms.Add(1) },
		}
		var stops []func()
		var running sync.WaitGroup
		primaryOf := map[string][]string{}
		for _, c := range cs {
			primaryOf[c.name] = nil
			l, err := w.net.Listen(c.name + ".test:80")
			if err != nil {
				t.Fatal(err)
			}
			stops = append(stops, serve(w, c, l))
			w.add(c)
		}
		table.Ensure(primaryOf)
		var members []health.Member
		for _, c := range cs {
			members = append(members, health.Member{Upstream: c.name, Host: c.name})
		}
		w.router.Faults.Configure(members, w.settings.Cooldown, time.Now())
		w.plan = &Plan{
			Models:      map[string]*Model{"m": NewModel("m", w.cands)},
			FirstOutput: time.Minute, Unary: 10 * time.Minute,
			Attempts: 4, MaxSwitches: 2, MaxWait: 30 * time.Second, BudgetRatio: 0.2, BudgetBurst: 10,
			SwitchOnQuota: true, MaxHeldBytes: 4 << 20, UpstreamInflight: 1024,
		}
		running.Go(func() { _ = w.router.Breakers.Run(ctx) })
		f(w)
		synctest.Wait()
		w.nothingHeld()
		cancel()
		for _, u := range w.upstream {
			u.Client.Close()
		}
		for _, stop := range stops {
			stop()
		}
		running.Wait()
	})
}

func (w *world) add(c candidate) {
	keys := c.keys
	if keys == nil {
		keys = []string{"key-" + c.name}
	}
	base, err := url.Parse("http://" + c.name + ".test/v1")
	if err != nil {
		w.t.Fatal(err)
	}
	caps := decision.SetOf(decision.Capabilities...)
	w.router.Breakers.Configure(c.name, "r", caps, w.settings)
	u := &Upstream{
		Name: c.name, Region: "r", Dialect: decision.OpenAI, Zones: c.zones,
		Client: upstream.New(upstream.Settings{
			Name: c.name, Region: "r", Dialect: decision.OpenAI, BaseURL: base, Keys: keys,
			Idle: 30 * time.Second, Max: 15 * time.Minute, DialContext: w.net.DialContext,
		}, w.router.Book),
		Base: 250 * time.Millisecond, Cap: 4 * time.Second, Patience: 2 * time.Second,
		Floor: time.Second, Ceiling: 12 * time.Second, UnaryFloor: 2 * time.Minute, Inflight: new(atomic.Int64), Spare: new(atomic.Bool),
	}
	w.upstream[c.name] = u
	cand := &Candidate{
		Upstream: u, Model: "model-" + c.name, Weight: c.weight, Substitute: c.substitute, LargerContext: c.larger, Capabilities: caps,
	}
	cand.Bind(w.router.Breakers)
	w.cands = append(w.cands, cand)
}

func (w *world) nothingHeld() {
	w.t.Helper()
	for _, b := range w.router.Breakers.Snapshot() {
		if b.InFlight != 0 || b.ProbesOut != 0 {
			w.t.Errorf("%s: %d permits and %d probes are still out", b.Bucket, b.InFlight, b.ProbesOut)
		}
	}
	for name, u := range w.upstream {
		if n := u.Inflight.Load(); n != 0 {
			w.t.Errorf("%s: %d attempts are still counted in flight", name, n)
		}
	}
	if n := w.memory.used.Load(); n != 0 {
		w.t.Errorf("%d buffered bytes were not given back", n)
	}
}

// request is one that a test makes; the zero value is a plain chat request.
type request struct {
	stream       bool
	task         policy.Task
	operation    bool
	conversation string
	deadline     time.Duration
	body         string
	bound        []string
	out          *recorded
	ctx          context.Context
	endpoint     wire.Endpoint
}

var anyTask = policy.Task{Name: "t", Fallback: policy.Any}

// recorded is an Answer that keeps what it was given.
type recorded struct {
	mu      sync.Mutex // guards everything that follows
	status  int
	begun   bool
	body    strings.Builder
	first   time.Time
	fail    error
	panics  bool
	onWrite func()
}

func (r *recorded) Begin(status int, _ http.Header, _ *decision.Decision) error {
	if r.panics {
		panic("the client's side is broken")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.begun, r.first = status, true, time.Now()
	return r.fail
}

func (r *recorded) Write(p []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.body.Write(p)
	if r.onWrite != nil {
		r.onWrite()
	}
	return r.fail
}

func (r *recorded) Begun() bool { return r.begun }

type result struct {
	*decision.Decision
	end  End
	out  *recorded
	took time.Duration
}

func (r result) classes() string {
	var s []string
	for _, a := range r.Attempts {
		s = append(s, a.Provider+":"+string(a.Outcome.Class))
	}
	return strings.Join(s, " ")
}

func (w *world) send(q request) result {
	w.t.Helper()
	n := w.n.Add(1)
	if q.body == "" {
		q.body = fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":"hi %d"}],"max_tokens":16}`, q.stream, n)
	}
	if q.endpoint == 0 {
		q.endpoint = wire.ChatCompletions
	}
	if q.task.Name == "" {
		q.task = anyTask
	}
	if q.out == nil {
		q.out = &recorded{}
	}
	if q.ctx == nil {
		q.ctx = w.t.Context()
	}
	facts, err := wire.ScanRequest(q.endpoint, []byte(q.body))
	if err != nil {
		w.t.Fatal(err)
	}
	id := fmt.Sprintf("req-%d", n)
	if q.conversation == "" {
		q.conversation = id
	}
	start := time.Now()
	d := &decision.Decision{Time: start, RequestID: id, Task: q.task.Name, Model: "m", Stream: facts.Stream}
	req := &Request{
		Endpoint: q.endpoint, Facts: facts, Header: http.Header{}, Body: []byte(q.body), Model: w.plan.Models["m"],
		Terms: policy.Terms{
			Task: q.task, OperationID: q.operation, Embeddings: q.endpoint == wire.Embeddings,
			SwitchOnCredential: w.plan.SwitchOnCredential, SwitchOnQuota: w.plan.SwitchOnQuota,
		},
		Needs:        decision.Needed(q.endpoint == wire.Embeddings, facts.Stream, facts.Tools),
		Conversation: q.conversation, ID: id, Accepted: start, Deadline: q.deadline, BoundTo: q.bound, Buffers: w.memory,
	}
	if w.trace != nil {
		w.trace(d, req)
	}
	end := w.router.Route(q.ctx, w.plan, req, d, q.out)
	return result{Decision: d, end: end, out: q.out, took: time.Since(start)}
}

// many sends n requests at once and returns their results.
func (w *world) many(n int, q request) []result {
	results := make([]result, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { results[i] = w.send(q) })
	}
	wg.Wait()
	return results
}

// ok answers any request of the OpenAI dialect, as a stream where asked.
func ok(text string) http.HandlerFunc { return okAfter(0, text) }

func okAfter(d time.Duration, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !pause(r.Context(), d) {
			return
		}
		if strings.HasSuffix(r.URL.Path, "/embeddings") {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"model":"x","usage":{"prompt_tokens":1,"total_tokens":1}}`)
			return
		}
		if streams(r) {
			head(w)
			for word := range strings.FieldsSeq(text) {
				chunk(w, word+" ")
			}
			finish(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c1","object":"chat.completion","model":"x","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`, text)
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

type streamKey struct{}

// streams says whether the request's body asked for a stream.
func streams(r *http.Request) bool { return r.Context().Value(streamKey{}) != nil }

func head(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	fmt.Fprint(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"},\"finish_reason\":null}]}\n\n")
	w.(http.Flusher).Flush()
}

func chunk(w http.ResponseWriter, text string) {
	fmt.Fprintf(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", text)
	w.(http.Flusher).Flush()
}

func finish(w http.ResponseWriter) {
	fmt.Fprint(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

// fails answers with a status and an OpenAI error body.
func fails(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":"stub says %d","type":"stub","param":null,"code":null}}`, status)
	}
}

// errorCode answers 400 with a code.
func errorCode(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":"stub","type":"invalid_request_error","param":null,"code":%q}}`, code)
	}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func reset(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// script plays handlers in turn, the last one for ever.
func script(hs ...http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		i := min(int(n.Add(1)), len(hs)) - 1
		hs[i](w, r)
	}
}

func two() []candidate {
	return []candidate{{name: "a", weight: 100}, {name: "b", weight: 80}}
}

func three() []candidate {
	return append(two(), candidate{name: "c", weight: 10, substitute: true})
}
