package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"failback/gateway/decision"
)

// maxBody bounds a request's body, as the gateway's own default does.
const maxBody = 32 << 20

// Latency is how long a Fake takes. Its zero value is a provider on an
// ordinary day.
type Latency struct {
	// FirstMin and FirstMax bound the time to the first token, drawn evenly
	// between them. Both 0: 150 and 600 ms. FirstMax < 0: no wait.
	FirstMin, FirstMax time.Duration
	// Word is the mean time between words; 0: 25 ms, < 0: no wait.
	Word time.Duration
}

func (l Latency) withDefaults() Latency {
	if l.FirstMin == 0 && l.FirstMax == 0 {
		l.FirstMin, l.FirstMax = 150*time.Millisecond, 600*time.Millisecond
	}
	if l.Word == 0 {
		l.Word = 25 * time.Millisecond
	}
	return l
}

// FakeOptions describes a Fake.
type FakeOptions struct {
	// Name is the upstream's name; it is part of answers and of ids.
	Name    string
	Dialect decision.Dialect
	// Key is the only credential it accepts: a bearer token for OpenAI, an
	// x-api-key for Anthropic. Empty: any, also none.
	Key string
	// Models it serves; others are answered with 404. Empty: any.
	Models  []string
	Latency Latency
	// Seed makes latencies, answers and the draws of Fault.Ratio repeatable.
	Seed uint64
}

// Fake is an upstream that answers from canned text: a real HTTP server on
// loopback. Its methods may be called at any time from any goroutine.
type Fake struct {
	opts   FakeOptions
	tag    uint32 // of ids: tells one Fake's ids from another's
	url    string
	server *http.Server
	fault  atomic.Pointer[Fault]
	seen   ledger // of clients' requests
	probes ledger // of the gateway's own
	serial atomic.Uint64
	served sync.WaitGroup // the accept loop
	gone   context.Context
	leave  context.CancelFunc

	mu sync.Mutex // guards everything that follows

	rng      *rand.Rand
	closed   bool
	handlers sync.WaitGroup // Add only while !closed
}

// StartFake listens on a free port of 127.0.0.1 and serves until Close.
func StartFake(o FakeOptions) (*Fake, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fake upstream %s: %w", o.Name, err)
	}
	o.Latency = o.Latency.withDefaults()
	h := fnv.New32a()
	io.WriteString(h, o.Name)
	f := &Fake{
		opts: o,
		tag:  h.Sum32(),
		url:  "http://" + ln.Addr().String(),
		rng:  rand.New(rand.NewPCG(o.Seed, uint64(h.Sum32()))),
	}
	f.gone, f.leave = context.WithCancel(context.Background())
	f.fault.Store(&Fault{})
	f.server = &http.Server{
		Handler:           f.routes(),
		ReadHeaderTimeout: 10 * time.Second,
		// Broken requests are counted, not logged: the console owns the terminal.
		ErrorLog: discard,
	}
	f.served.Go(func() { _ = f.server.Serve(ln) })
	return f, nil
}

// Name returns the upstream's name.
func (f *Fake) Name() string { return f.opts.Name }

// Key returns the credential it accepts.
func (f *Fake) Key() string { return f.opts.Key }

// BaseURL returns the address as an upstream's base_url wants it: with /v1
// for OpenAI, without for Anthropic, as the SDKs have it.
func (f *Fake) BaseURL() string {
	if f.opts.Dialect == decision.OpenAI {
		return f.url + "/v1"
	}
	return f.url
}

// SetFault makes requests that arrive from now on meet ft.
func (f *Fake) SetFault(ft Fault) { f.fault.Store(&ft) }

// Fault returns the fault in force.
func (f *Fake) Fault() Fault { return *f.fault.Load() }

// Counts returns what was seen of clients so far, by endpoint path
// ("/v1/messages").
func (f *Fake) Counts() map[string]Counts { return f.seen.all() }

// Total returns what was seen of clients so far on all endpoints that take a
// model.
func (f *Fake) Total() Counts { return f.seen.total() }

// Probes returns what was seen so far of probes: requests that a gateway sent
// for itself, which neither Counts nor Total has.
func (f *Fake) Probes() Counts { return f.probes.total() }

// probeAgent is how a gateway names itself where it passes on no client's name.
const probeAgent = "failback"

// ledger returns where r is counted.
func (f *Fake) ledger(r *http.Request) *ledger {
	if r.Header.Get("User-Agent") == probeAgent {
		return &f.probes
	}
	return &f.seen
}

// Close ends all connections and waits for everything the Fake started.
func (f *Fake) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.leave()
	err := f.server.Close()
	f.served.Wait()
	f.handlers.Wait()
	return err
}

// enter counts a handler in, unless the Fake is closing.
func (f *Fake) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.handlers.Add(1)
	return true
}

// draws are the random numbers of one request, taken together so that
// concurrent requests do not share a generator.
type draws struct {
	fault float64
	rng   *rand.Rand
}

func (f *Fake) draw() draws {
	f.mu.Lock()
	defer f.mu.Unlock()
	return draws{fault: f.rng.Float64(), rng: rand.New(rand.NewPCG(f.rng.Uint64(), f.rng.Uint64()))}
}

// id returns a new identifier with the given prefix. It carries the Fake's
// tag, so that a Fake knows its own ids again.
func (f *Fake) id(prefix string) string {
	return fmt.Sprintf("%s%08x%016x", prefix, f.tag, f.serial.Add(1))
}

// knows reports whether id came from this Fake.
func (f *Fake) knows(prefix, id string) bool {
	return strings.HasPrefix(id, fmt.Sprintf("%s%08x", prefix, f.tag))
}

func (f *Fake) serves(model string) bool {
	if len(f.opts.Models) == 0 {
		return true
	}
	for _, m := range f.opts.Models {
		if m == model {
			return true
		}
	}
	return false
}

func (f *Fake) routes() http.Handler {
	mux := http.NewServeMux()
	add := func(path string, answer func(*exchange) error) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { f.handle(w, r, path, answer) })
	}
	if f.opts.Dialect == decision.OpenAI {
		add("/v1/chat/completions", chatCompletions)
		add("/v1/completions", completions)
		add("/v1/embeddings", embeddings)
		add("/v1/responses", responses)
	} else {
		add("/v1/messages", messages)
		add("/v1/messages/count_tokens", countTokens)
	}
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{fake: f, w: w, r: r}
		x.headers()
		x.writeJSON(http.StatusOK, f.modelList())
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{fake: f, w: w, r: r}
		x.headers()
		x.writeJSON(http.StatusNotFound, x.errorBody(refusal{kind: "not_found_error", openAI: "invalid_request_error",
			message: "no such endpoint: " + r.Method + " " + r.URL.Path}))
	})
	return mux
}

func (f *Fake) modelList() any {
	data := []map[string]any{}
	for _, m := range f.opts.Models {
		if f.opts.Dialect == decision.OpenAI {
			data = append(data, map[string]any{"id": m, "object": "model", "created": 1700000000, "owned_by": "demo"})
		} else {
			data = append(data, map[string]any{"id": m, "type": "model", "display_name": m, "created_at": "2025-09-29T00:00:00Z"})
		}
	}
	if f.opts.Dialect == decision.OpenAI {
		return map[string]any{"object": "list", "data": data}
	}
	return map[string]any{"data": data, "has_more": false, "first_id": nil, "last_id": nil}
}

// The ends of an exchange other than a complete answer.
var (
	errGone  = errors.New("caller left")
	errFault = errors.New("fault")
)

// handle runs one request from its body to its count.
func (f *Fake) handle(w http.ResponseWriter, r *http.Request, path string, answer func(*exchange) error) {
	if !f.enter() {
		panic(http.ErrAbortHandler)
	}
	defer f.handlers.Done()

	seen := f.ledger(r)
	seen.add(path, Counts{Requests: 1})
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	ft, d := f.Fault(), f.draw()
	x := &exchange{fake: f, w: w, r: r, body: body, slow: ft.slow(), rng: d.rng}
	if ft.hits(d.fault) {
		x.fault = ft
	}
	x.parseStream()
	if x.stream {
		seen.add(path, Counts{Streams: 1})
	}

	if err != nil {
		err = x.readError(err)
	} else if err = x.misbehave(); err == nil {
		if err = x.authorize(); err == nil {
			err = answer(x)
		}
	}

	var no refusal
	switch {
	case err == nil:
		seen.add(path, Counts{Completed: 1})
	case errors.As(err, &no):
		x.refuse(no)
		seen.add(path, Counts{Refused: 1})
	case errors.Is(err, errFault):
		seen.add(path, Counts{Faulted: 1})
		x.end()
	default:
		seen.add(path, Counts{Gone: 1})
		panic(http.ErrAbortHandler)
	}
}

// exchange is one request and its answer.
type exchange struct {
	fake   *Fake
	w      http.ResponseWriter
	r      *http.Request
	body   []byte
	stream bool
	fault  Fault // the one that hits this request
	slow   float64
	rng    *rand.Rand
	abort  bool // the connection must not end cleanly
	out    []byte
}

func (x *exchange) parseStream() {
	var q struct {
		Stream bool `json:"stream"`
	}
	// What is not JSON is refused by the endpoint, with its own words.
	_ = json.Unmarshal(x.body, &q)
	x.stream = q.Stream
}

func (x *exchange) readError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return refusal{status: http.StatusRequestEntityTooLarge, kind: "request_too_large",
			openAI: "invalid_request_error", message: "request exceeds the maximum size"}
	}
	return errGone
}

// headers sets what the dialect's provider sends with every answer.
func (x *exchange) headers() {
	h := x.w.Header()
	if x.fake.opts.Dialect == decision.OpenAI {
		h.Set("X-Request-Id", x.fake.id("req_"))
		h.Set("Openai-Version", "2020-10-01")
		h.Set("Openai-Organization", "demo-organization")
		h.Set("Openai-Processing-Ms", "0")
		h.Set("X-Ratelimit-Limit-Requests", "10000")
		h.Set("X-Ratelimit-Remaining-Requests", "9999")
		h.Set("X-Ratelimit-Reset-Requests", "6ms")
		return
	}
	h.Set("Request-Id", x.fake.id("req_"))
	h.Set("Anthropic-Organization-Id", "demo-organization")
	h.Set("Anthropic-Ratelimit-Requests-Limit", "10000")
	h.Set("Anthropic-Ratelimit-Requests-Remaining", "9999")
	h.Set("Anthropic-Ratelimit-Requests-Reset", time.Now().UTC().Add(time.Second).Format(time.RFC3339))
}

// authorize checks the one credential, so that a client's own key that
// reached an upstream would be seen at once.
func (x *exchange) authorize() error {
	key := x.fake.opts.Key
	if key == "" {
		return nil
	}
	if x.fake.opts.Dialect == decision.OpenAI {
		if x.r.Header.Get("Authorization") != "Bearer "+key {
			return refusal{status: http.StatusUnauthorized, kind: "authentication_error", openAI: "invalid_request_error",
				code: "invalid_api_key", message: "Incorrect API key provided."}
		}
		return nil
	}
	if x.r.Header.Get("X-Api-Key") != key {
		return refusal{status: http.StatusUnauthorized, kind: "authentication_error", message: "invalid x-api-key"}
	}
	if x.r.Header.Get("Anthropic-Version") == "" {
		return refusal{status: http.StatusBadRequest, kind: "invalid_request_error", message: "anthropic-version: header is required"}
	}
	return nil
}

// misbehave lets the faults act that end a request before its first output.
func (x *exchange) misbehave() error {
	switch x.fault.Kind {
	case Unavailable:
		x.refuse(refusal{status: http.StatusServiceUnavailable, kind: "overloaded_error", openAI: "service_unavailable_error",
			code: "server_is_overloaded", message: "The server is temporarily unable to handle the request."})
	case Overloaded:
		x.refuse(refusal{status: 529, kind: "overloaded_error", openAI: "service_unavailable_error",
			code: "server_is_overloaded", message: "Overloaded"})
	case RateLimited:
		x.w.Header().Set("Retry-After", fmt.Sprint(x.fault.retryAfter()))
		x.refuse(refusal{status: http.StatusTooManyRequests, kind: "rate_limit_error", openAI: "requests",
			code: "rate_limit_exceeded", message: "Rate limit reached for requests."})
	case Hang:
		select {
		case <-x.r.Context().Done():
		case <-x.fake.gone.Done():
		}
		x.abort = true
	case Reset:
		x.reset()
	default:
		return nil
	}
	return errFault
}

// reset ends the connection with RST, as a crashed peer does.
func (x *exchange) reset() {
	x.abort = true
	c, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// end finishes an exchange that a fault ended.
func (x *exchange) end() {
	if x.abort {
		panic(http.ErrAbortHandler)
	}
}
