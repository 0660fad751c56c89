package sources

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// TailEvery is how often lines are asked for where they are not sent.
	TailEvery = 2 * time.Second
	// tailOverlap is how far behind the newest line a tail that goes on begins at
	// least: lines of several streams do not arrive in the order of their times.
	tailOverlap = 10 * time.Second
	// tailLate is how far it begins behind it where that is no more than
	// tailReread lines: a decision is written when its request ends, with the time
	// at which it was accepted.
	tailLate   = 15 * time.Minute
	tailReread = 500
	// tailKept is how much more of what was given is remembered: longer than what
	// was missed takes to be fetched.
	tailKept = time.Minute
	// tailAhead is how far beyond our clock lines are asked for: the server's may
	// be ahead.
	tailAhead = 10 * time.Minute
	// tailAgain is after how long a server that refused to send is asked to
	// again.
	tailAgain = time.Minute
	// tailProven is how long a connection must have lasted for its end to be the
	// first failure again.
	tailProven = 10 * time.Second
	// tailPing is how often a connection is tried, tailSilence how long it may
	// keep silent.
	tailPing    = 15 * time.Second
	tailSilence = 45 * time.Second
	// tailDial is how long the answer to the handshake is waited for.
	tailDial = 15 * time.Second
	// tailSettles is how long a connection must last, silent, to be taken for one
	// that lines will come by.
	tailSettles = 500 * time.Millisecond
	// tailTries is after how many failures in a row lines are asked for instead.
	tailTries = 3
)

// TailMode is how a tail gets its lines.
type TailMode string

const (
	TailConnecting   TailMode = "connecting"   // not yet
	TailLive         TailMode = "live"         // the server sends them
	TailPolling      TailMode = "polling"      // they are asked for every TailEvery
	TailReconnecting TailMode = "reconnecting" // not now; what is missed is fetched
)

// TailState is how a tail fares.
type TailState struct {
	Mode TailMode
	// Why is why it polls or reconnects, or what a live one may lack. It may hold
	// text from outside.
	Why string
	// Dropped counts the lines that the server says it left out because it had too
	// many to send, since the tail began.
	Dropped uint64
}

// TailNews is what a tail has to tell: lines, if any, in the order of time, and
// how it fares now.
type TailNews struct {
	Rows  []LogRow
	State TailState
}

// Tail gives take the newest q.Limit lines from q.Start on, and then each line
// as it is written: sent by a websocket or, where the server or something
// before it refuses that, asked for every TailEvery. After an interruption it
// goes on where it was: no line is given twice, and none is lost but one that
// says it is older than what is asked for again (see tailLate), or where
// TailState.Why says so. q.End and q.Forward say nothing.
//
// It returns when ctx ends, or when the query is refused or cannot be asked at
// all. take is called by nobody else, one call at a time; while it blocks,
// nothing is read.
func (l *lokiClient) Tail(ctx context.Context, q LogQuery, take func(TailNews)) error {
	if AsksNumbers(q.Query) {
		const text = "numbers cannot be followed: only lines can"
		return &RemoteError{Kind: RemoteQuery, Source: l.source, Message: text, text: text}
	}
	q.End, q.From = time.Time{}, nil
	q = q.filled(time.Now()).capped()
	t := &tail{l: l, q: q, take: take, seen: newSeenLines(q.Start.UnixNano())}
	return t.run(ctx)
}

// Tailer is a Logs that can be followed. It is safe for concurrent use.
type Tailer interface {
	// Tail gives take lines as they are written, until ctx ends or the query is
	// refused; see TailNews.
	Tail(ctx context.Context, q LogQuery, take func(TailNews)) error
}

var _ Tailer = (*lokiClient)(nil)

// tail is one Tail under way.
type tail struct {
	l       *lokiClient
	q       LogQuery
	take    func(TailNews)
	seen    *seenLines
	begun   bool // the newest lines were given
	state   TailState
	secrets []string
}

func (t *tail) tell(mode TailMode, why string) {
	if t.state.Mode != mode || t.state.Why != why {
		t.state.Mode, t.state.Why = mode, why
		t.take(TailNews{State: t.state})
	}
}

func (t *tail) run(ctx context.Context) error {
	t.tell(TailConnecting, "")
	for failures := 0; ; {
		started := time.Now()
		refused, err := t.live(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case hopeless(err):
			return err
		case !refused && time.Since(started) >= tailProven:
			failures = 0
		}
		failures++
		if refused || failures >= tailTries {
			if err := t.poll(ctx, err); err != nil {
				return err
			}
			continue
		}
		t.tell(TailReconnecting, Why(err))
		if !pause(ctx, t.l.patience.wait(failures, rand.Float64())) {
			return ctx.Err()
		}
	}
}

// hopeless reports whether asking again cannot help: what is asked or set here
// makes no sense.
func hopeless(err error) bool {
	e, ok := errors.AsType[*RemoteError](err)
	return ok && e.Kind == RemoteSetup
}

// poll asks for lines until it is time to try a websocket again; because is
// why there is none. It returns an error when the tail ends.
func (t *tail) poll(ctx context.Context, because error) error {
	until := time.Now().Add(tailAgain + time.Duration(rand.Float64()*float64(tailAgain/4)))
	for failures := 0; ; {
		every := TailEvery
		err := t.fill(ctx)
		e, _ := errors.AsType[*RemoteError](err)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case e != nil && (e.Kind == RemoteQuery || e.Kind == RemoteSetup):
			return err
		case err != nil:
			failures++
			t.tell(TailReconnecting, Why(err))
			every = max(every, t.l.patience.wait(failures, rand.Float64()))
		default:
			failures = 0
			t.tell(TailPolling, Why(because))
		}
		if !time.Now().Before(until) {
			return nil
		}
		if !pause(ctx, every) {
			return ctx.Err()
		}
	}
}

// fill fetches what was missed or, at the beginning, the newest lines.
func (t *tail) fill(ctx context.Context) error {
	q := t.q
	from := t.seen.from()
	q.Start, q.End = time.Unix(0, from), time.Now().Add(tailAhead)
	q.Forward = t.begun
	if t.begun {
		q.Limit = MaxLogsLimit - 1
	}
	before := t.seen.since(from)
	for {
		a, err := t.l.pages(ctx, q)
		if err != nil {
			return err
		}
		if !t.begun {
			slices.Reverse(a.Rows)
			t.begun = true
			if a.CutOff { // the newest were asked for
				t.seen.startAt(a.Rows[0].TS)
				a.CutOff = false
			}
		}
		t.give(a.Rows, before)
		if !a.CutOff || a.More == nil || len(a.Rows) == 0 {
			return nil
		}
		q.From = a.More
	}
}

// give gives the rows that were not given yet: those that are in before were,
// and are taken out of it.
func (t *tail) give(rows []LogRow, before lineCounts) {
	now := time.Now().UnixNano()
	fresh := make([]LogRow, 0, len(rows))
	for i := range rows {
		k := keyOf(&rows[i])
		if before.take(k) {
			continue
		}
		t.seen.add(k, now)
		fresh = append(fresh, rows[i])
	}
	if len(fresh) > 0 {
		t.take(TailNews{Rows: fresh, State: t.state})
	}
}

// live gives what the server sends until that ends; refused says that it
// refuses to.
func (t *tail) live(ctx context.Context) (refused bool, err error) {
	// What was before is fetched apart.
	from := max(t.seen.from(), time.Now().Add(-tailOverlap).UnixNano())
	c, refused, err := t.dial(ctx, from)
	if err != nil {
		return refused, err
	}
	defer c.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	heard := time.AfterFunc(tailSilence, func() {
		cancel(t.l.fail(RemoteTimeout, nil, "no word from it for "+roughly(tailSilence)))
	})
	defer heard.Stop()
	c.SetReadLimit(maxRemoteAnswer)
	c.SetPongHandler(func(string) error { heard.Reset(tailSilence); return nil })
	answer := c.PingHandler()
	c.SetPingHandler(func(data string) error { heard.Reset(tailSilence); return answer(data) })
	wg := workers{failed: func() { cancel(nil) }}
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() {
		for pause(ctx, tailPing) {
			if c.WriteControl(websocket.PingMessage, nil, time.Now().Add(tailPing)) != nil {
				return // the reader finds out
			}
		}
	})

	heardLines := make(chan tailMessage)
	wg.Go(func() {
		for {
			var m tailMessage
			m.typ, m.text, m.err = c.ReadMessage()
			select {
			case heardLines <- m:
			case <-ctx.Done():
				return
			}
			if m.err != nil {
				return
			}
			heard.Reset(tailSilence)
		}
	})

	// It is connected: what is written from now on is sent, and what was before
	// is fetched.
	why := ""
	if err := t.fill(ctx); err != nil && ctx.Err() == nil {
		if e, _ := errors.AsType[*RemoteError](err); e != nil && (e.Kind == RemoteQuery || e.Kind == RemoteSetup) {
			return true, err // poll asks the same and says so
		}
		why = "lines may be missing: " + Why(err)
	}
	before := t.seen.since(t.seen.from()) // it sends late lines that were fetched, too
	settled := time.NewTimer(tailSettles)
	defer settled.Stop()
	for silent := true; ; {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-settled.C:
			t.tell(TailLive, why)
		case m := <-heardLines:
			if m.err != nil {
				return t.ended(m.err, silent)
			}
			silent = false
			t.tell(TailLive, why)
			if m.typ != websocket.TextMessage {
				continue
			}
			if err := t.read(m.text, before); err != nil {
				return false, t.l.fail(RemoteShape, err, "what it sends is not understood: "+oneLine(t.l.heard(err.Error())))
			}
		}
	}
}

// tailMessage is what came over a websocket, or why nothing more will.
type tailMessage struct {
	typ  int
	text []byte
	err  error
}

// dial asks the server to send lines, from a time on.
func (t *tail) dial(ctx context.Context, from int64) (c *websocket.Conn, refused bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, tailDial)
	defer cancel()
	if t.l.off != nil {
		return nil, false, t.l.off
	}
	req, err := t.l.request(ctx, "/loki/api/v1/tail", url.Values{
		"query": {t.q.Query}, "start": {strconv.FormatInt(from, 10)}, "limit": {strconv.Itoa(min(t.q.Limit, MaxLogsLimit))},
	})
	if err != nil {
		return nil, false, err
	}
	c, t.secrets, refused, err = t.l.upgrade(ctx, req)
	return c, refused, err
}

// ended names the end of a connection. One that the server closed before it
// sent anything it refused.
func (t *tail) ended(err error, silent bool) (refused bool, _ error) {
	e, ok := errors.AsType[*websocket.CloseError](err)
	if !ok || e.Code == websocket.CloseAbnormalClosure {
		return false, t.l.fail(RemoteBroken, err, "the connection broke")
	}
	text := oneLine(redact(e.Text, t.secrets))
	if text == "" {
		text = "it closed the connection"
	}
	return silent, t.l.fail(RemoteFailed, err, strconv.Itoa(e.Code)+": "+text)
}

// wireTail is what a Loki sends.
type wireTail struct {
	Streams json.RawMessage   `json:"streams"`
	Dropped []json.RawMessage `json:"dropped_entries"`
}

func (t *tail) read(message []byte, before lineCounts) error {
	var w wireTail
	if err := json.Unmarshal(message, &w); err != nil {
		return err
	}
	a := LogAnswer{Query: LogQuery{Forward: true, Limit: math.MaxInt}}
	if len(w.Streams) > 0 {
		if err := a.readLines(w.Streams, math.MaxInt); err != nil {
			return err
		}
	}
	if n := len(w.Dropped); n > 0 {
		t.state.Dropped += uint64(n)
		t.take(TailNews{State: t.state})
	}
	t.give(a.Rows, before)
	return nil
}
