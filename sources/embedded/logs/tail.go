package logs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/net/websocket"

	"failback/sources/logql"
)

const (
	// tails is how many clients may follow the log at the same time.
	tails = 10
	// tailEvery is how often a tail looks for new lines.
	tailEvery = 250 * time.Millisecond
	// tailWrite is how long a client may take to take them.
	tailWrite = 10 * time.Second
	// tailClose is how long it may take to take the word that it is over.
	tailClose = time.Second
	// tailLines is how many new lines are looked at together.
	tailLines = 2000
	// tailDelay is how much delay a client may ask for, in seconds.
	tailDelay = 5
)

// tail follows the log: over a websocket it sends the newest lines from start
// on, limit at most, and then each line that arrives, as Loki does. A client
// that is too slow is left. It ends with the request's context and with the
// store.
func (a *lokiAPI) tail(w http.ResponseWriter, r *http.Request) {
	t, err := a.tailOf(r)
	if err != nil {
		fail(w, err)
		return
	}
	select {
	case a.tailing <- struct{}{}:
		defer func() { <-a.tailing }()
	default:
		fail(w, &logql.QueryError{Status: http.StatusTooManyRequests,
			Message: fmt.Sprintf("max concurrent tail requests limit exceeded, count > limit (%d > %d)", tails+1, tails)})
		return
	}
	end, ok := a.s.follower() // http.Server waits for no connection that was taken over
	if !ok {
		fail(w, errClosed)
		return
	}
	defer end()
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil { // HTTP/2, for one
		fail(w, badf("following the log wants a websocket over HTTP/1.1: %v", err))
		return
	}
	websocket.Server{
		Handshake: func(*websocket.Config, *http.Request) error { return nil }, // who may ask was decided before
		Handler:   func(c *websocket.Conn) { t.serve(r.Context(), c) },
	}.ServeHTTP(hijacked{w, conn, rw}, r)
}

// hijacked is a connection that was taken over, as the websocket server, which
// looks through no wrapper, wants to take it over.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
	rw   *bufio.ReadWriter
}

// Hijack returns the connection.
func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.conn, h.rw, nil }

// tailing is one client that follows the log.
type tailing struct {
	s     *Store
	query *logql.Query
	start int64
	limit int
	delay time.Duration
}

func (a *lokiAPI) tailOf(r *http.Request) (*tailing, error) {
	q, err := logql.Parse(r.FormValue("query"))
	if err != nil {
		return nil, err
	}
	if q.IsMetric() {
		return nil, badf("a metric query cannot be followed: only lines can")
	}
	t := &tailing{s: a.s, query: q}
	if t.start, _, err = span(r.Form, time.Now(), defaultSince); err != nil {
		return nil, err
	}
	if t.limit, err = limit(r.Form); err != nil {
		return nil, err
	}
	if t.limit > maxLimit {
		return nil, badf("max entries limit per query exceeded, limit > max_entries_limit_per_query (%d > %d)", t.limit, maxLimit)
	}
	if v := r.FormValue("delay_for"); v != "" {
		if t.delay, err = seconds(v); err != nil {
			return nil, err
		}
		if t.delay < 0 || t.delay > tailDelay*time.Second {
			return nil, badf("delay_for can't be greater than %d", tailDelay)
		}
	}
	if r.Header.Get("Upgrade") == "" {
		return nil, badf("following the log wants a websocket")
	}
	if t.s.ended() {
		return nil, errClosed
	}
	return t, nil
}

// serve sends lines until the client leaves or the store ends.
func (t *tailing) serve(ctx context.Context, c *websocket.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { _ = c.Close() }) // also what is being written ends then
	left := make(chan struct{})
	go func() {
		defer close(left)
		defer cancel()
		_, _ = io.Copy(io.Discard, c) // answers pings; ends when the client does
	}()
	if err := t.follow(ctx, c); !errors.Is(err, context.Canceled) {
		_ = c.SetWriteDeadline(time.Now().Add(tailClose))
		_ = c.WriteClose(1011)
	}
	cancel()
	_ = c.Close()
	<-left
}

// follow returns what ended it, never nil.
func (t *tailing) follow(ctx context.Context, c *websocket.Conn) error {
	at := t.s.end()
	if err := t.send(ctx, c, scope{before: at}, t.start, t.limit); err != nil {
		return err
	}
	for {
		next := t.s.end()
		pause := tailEvery
		if next != at {
			pause = t.delay
		}
		if err := t.wait(ctx, pause); err != nil {
			return err
		}
		if next == at {
			continue
		}
		for at != next {
			to := t.s.few(at, next)
			if err := t.send(ctx, c, scope{after: at, before: to}, noTime, tailLines); err != nil {
				return err
			}
			at = to
		}
	}
}

// wait waits for d, or returns what ends the tail.
func (t *tailing) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.s.closing:
		return errClosed
	case <-timer.C:
		return nil
	}
}

// send sends the newest lines of a scope from start on, the oldest first.
func (t *tailing) send(ctx context.Context, c *websocket.Conn, in scope, start int64, limit int) error {
	result, err := t.s.eval(ctx, scoped{t.s, in}, logql.Request{Query: t.query, Start: start, End: math.MaxInt64, Limit: limit})
	if err != nil {
		return err
	}
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	var answer struct {
		Result []struct {
			Stream json.RawMessage   `json:"stream"`
			Values []json.RawMessage `json:"values"`
		} `json:"result"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	if len(answer.Result) == 0 {
		return nil
	}
	for _, r := range answer.Result {
		slices.Reverse(r.Values)
	}
	if err := c.SetWriteDeadline(time.Now().Add(tailWrite)); err != nil {
		return err
	}
	return websocket.JSON.Send(c, map[string]any{"streams": answer.Result})
}

// scoped is a part of a store by order of arrival.
type scoped struct {
	s  *Store
	in scope
}

// Select is Store.Select within the scope.
func (c scoped) Select(ctx context.Context, sel logql.Selection, yield func(logql.Entry) bool) error {
	return c.s.selectWith(ctx, sel, c.in, 1, yield)
}

// Turn is Store.Turn.
func (c scoped) Turn() logql.Turn { return c.s.Turn() }

// end returns the place behind all lines.
func (s *Store) end() place {
	<-s.ready
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segs) == 0 {
		return place{number: 1}
	}
	g := s.segs[len(s.segs)-1]
	return place{g.number, g.lines()}
}

// few returns a place at most tailLines behind at, and not behind end.
func (s *Store) few(at, end place) place {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.segs {
		if g.number < at.number {
			continue
		}
		from := 0
		if g.number == at.number {
			from = at.row
		}
		to := place{g.number, min(from+tailLines, g.lines())}
		if g.number == end.number {
			to.row = min(to.row, end.row)
		}
		if to.row > from {
			return to
		}
	}
	return end
}

// lines returns how many lines the segment has, none if that is unknown.
func (g *segment) lines() int {
	switch {
	case g.live != nil:
		return len(g.live.ts)
	case g.sum != nil:
		return g.sum.rows
	}
	return 0
}
