package gateway

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"failback/gateway/decision"
	"failback/gateway/router"
	"failback/gateway/wire"
)

const (
	// keepAliveEvery is how often a client that waits for a held answer gets
	// a sign of life. Proxies in between commonly give up after 30 s.
	keepAliveEvery = 10 * time.Second
	// writeStall is how long one write to a client may take: one that does
	// not read must not hold an upstream for longer.
	writeStall = 60 * time.Second
)

// answer is the client's side of one request: headers that tell which way it
// went, bytes as they come, and keep-alives while a held answer is made.
type answer struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	ep   wire.Endpoint
	id   string
	held bool

	// whenever: a write deadline ends the stream also while nothing is written,
	// as HTTP/2 has it.
	whenever   bool
	deadlineAt time.Time // the write deadline in force

	// mu guards everything that follows: keep-alives come from a timer.
	mu        sync.Mutex
	begun     bool
	alive     bool // only keep-alives went out so far
	closed    bool
	keepAlive *time.Timer
	status    int
}

func newAnswer(w http.ResponseWriter, r *http.Request, ep wire.Endpoint, id string, held bool) *answer {
	a := &answer{w: w, rc: http.NewResponseController(w), ep: ep, id: id, held: held, whenever: r.ProtoMajor > 1}
	if held {
		a.keepAlive = time.AfterFunc(keepAliveEvery, a.beat)
	}
	return a
}

// beat sends a keep-alive, and with the first one the head of the answer.
func (a *answer) beat() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.begun && !a.alive {
		return
	}
	if !a.begun {
		a.begun, a.alive = true, true
		streamHeaders(a.w.Header())
		a.w.Header().Set("Content-Type", "text/event-stream")
		a.head(http.StatusOK)
	}
	if a.put(wire.KeepAlive(a.ep)) == nil {
		a.keepAlive.Reset(keepAliveEvery)
	}
}

// Begin starts the answer; see router.Answer.
func (a *answer) Begin(status int, h http.Header, d *decision.Decision) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.alive {
		// The head is gone; what it could not say goes in trailers.
		a.alive = false
		return nil
	}
	a.begun = true
	wire.ReturnHeaders(a.w.Header(), h, d.Route == decision.RouteFallback)
	if d.Stream {
		streamHeaders(a.w.Header())
	} else if n := h["Content-Length"]; len(n) == 1 {
		// Known before, the end of the answer needs no write of its own.
		a.w.Header()["Content-Length"] = n[:1:1]
	}
	routeHeaders(a.w.Header(), "", d)
	a.head(status)
	return nil
}

// Write gives bytes to the client at once; see router.Answer.
func (a *answer) Write(p []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.put(p)
}

// Begun reports whether anything reached the client.
func (a *answer) Begun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun
}

// Status returns the HTTP status that was sent, 0 if none was.
func (a *answer) Status() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// end stops keep-alives and, where the head could not say it, says in trailers
// what the request came to.
func (a *answer) end(d *decision.Decision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if a.keepAlive != nil {
		a.keepAlive.Stop()
	}
	if a.held && a.begun {
		routeHeaders(a.w.Header(), http.TrailerPrefix, d)
	}
}

// fail answers with f as a whole error, or where the answer was begun as one
// error event. It reports whether the connection must be broken off: not where
// only signs of life went out, since then trailers still say what happened.
func (a *answer) fail(end router.End, f wire.Failure, d *decision.Decision) (abort bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun {
		if d.Stream {
			_ = a.put(wire.ErrorFrame(a.ep, f)) // the connection ends next in any case
		}
		return !a.alive
	}
	a.begun = true
	h := a.w.Header()
	status, body := f.Status, []byte(nil)
	if end.Upstream != nil {
		wire.ReturnHeaders(h, end.Upstream.Header, d.Fallback)
		h.Set("X-Should-Retry", "false")
		status, body = end.Upstream.Status, end.Upstream.Body
	} else {
		body = wire.ErrorBody(a.ep.Dialect(), f)
		h.Set("Content-Type", "application/json")
		shouldRetry(h, end)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	routeHeaders(h, "", d)
	a.head(status)
	_ = a.put(body)
	return false
}

// head requires mu.
func (a *answer) head(status int) {
	a.status = status
	if h := a.w.Header(); h["X-Request-Id"] == nil {
		h.Set("X-Request-Id", a.id) // setting it again would make the header's map grow
	}
	a.w.WriteHeader(status)
}

// put requires mu.
func (a *answer) put(p []byte) error {
	if now := time.Now(); a.deadlineAt.Sub(now) < writeStall/2 {
		a.deadlineAt = now.Add(writeStall)
		// Not every ResponseWriter has deadlines; without one the connection's own limits hold.
		_ = a.rc.SetWriteDeadline(a.deadlineAt)
	}
	if a.whenever {
		defer func() {
			a.deadlineAt = time.Time{}
			_ = a.rc.SetWriteDeadline(a.deadlineAt)
		}()
	}
	if _, err := a.w.Write(p); err != nil {
		return err
	}
	return a.rc.Flush()
}

func streamHeaders(h http.Header) {
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx would hold the stream back
	h.Del("Content-Length")
}

// routeHeaders says which way a request went.
func routeHeaders(h http.Header, prefix string, d *decision.Decision) {
	set := headers{h: h, values: make([]string, 0, 6)}
	set.put(prefix, "Failback-Status", string(d.Status))
	set.put(prefix, "Failback-Route", string(d.Route))
	set.put(prefix, "Failback-Reason", string(d.Reason))
	set.put(prefix, "Failback-Attempts", strconv.Itoa(len(d.Attempts)))
	if d.Selected != "" {
		set.put(prefix, "Failback-Upstream", d.Selected)
		set.put(prefix, "Failback-Substitute", strconv.FormatBool(d.Substitute))
	}
}

// headers puts single values into a header, their memory in one piece.
type headers struct {
	h      http.Header
	values []string
}

// put sets the header prefix+name, which must be in canonical form.
func (s *headers) put(prefix, name, value string) {
	n := len(s.values)
	s.values = append(s.values, value)
	s.h[prefix+name] = s.values[n : n+1 : n+1]
}

// shouldRetry tells the client's SDK what its own retry would be worth: nothing
// where the gateway has tried already or policy refused; where nothing was
// attempted and it is known when somebody may be asked again, the SDK may wait.
func shouldRetry(h http.Header, end router.End) {
	if end.HasRetryAfter {
		seconds := max(int64((end.RetryAfter+time.Second-1)/time.Second), 1)
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
		ms := max(int64((end.RetryAfter+time.Millisecond-1)/time.Millisecond), 1)
		h.Set("Retry-After-Ms", strconv.FormatInt(ms, 10))
	}
	if !end.Ending.Retryable || !end.HasRetryAfter {
		h.Set("X-Should-Retry", "false")
	}
}
