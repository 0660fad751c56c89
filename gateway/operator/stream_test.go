package operator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// reader runs a stream and hands its messages over. It ends with the test.
func reader(t *testing.T, c *api.Client, after uint64, all bool) <-chan api.Message {
	t.Helper()
	messages := make(chan api.Message, 100_000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(messages)
		fn := func(m api.Message) error { messages <- m; return nil }
		if all {
			c.StreamAll(ctx, after, fn)
		} else {
			c.Stream(ctx, after, fn)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return messages
}

// next is the next message that is no heartbeat.
func next(t *testing.T, messages <-chan api.Message) api.Message {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				t.Fatal("the stream ended")
			}
			if !m.Heartbeat {
				return m
			}
		case <-deadline:
			t.Fatal("no message")
		}
	}
}

func step(to int) decision.Event {
	return decision.Event{Kind: decision.KindTrafficStep, Provider: "a", To: fmt.Sprint(to)}
}

func TestStreamReplaysAndFollows(t *testing.T) {
	for _, over := range []string{"tcp", "unix"} {
		ts := start(t, nil)
		ts.Event(step(0))
		ts.Event(step(1))
		messages := reader(t, ts.client(t, over, vicToken, ""), 0, false)
		hello := next(t, messages).Hello
		if hello == nil || hello.Seq != ts.events.newest() || hello.Restarted || hello.At.IsZero() || len(hello.MayDrop) != 1 || hello.MayDrop[0] != api.KindDecision {
			t.Fatalf("hello %+v", hello)
		}
		for i := range 2 {
			if m := next(t, messages); m.Event == nil || m.Event.To != fmt.Sprint(i) {
				t.Fatalf("%+v", m)
			}
		}
		ts.Event(step(2))
		if m := next(t, messages); m.Event == nil || m.Event.To != "2" || m.Event.Seq != ts.events.newest() {
			t.Fatalf("%+v", m)
		}
		// Going on where one was: nothing twice, nothing left out.
		again := reader(t, ts.client(t, over, vicToken, ""), ts.events.newest()-1, false)
		if hello := next(t, again).Hello; hello == nil || hello.Restarted {
			t.Errorf("hello %+v", hello)
		}
		if m := next(t, again); m.Event == nil || m.Event.To != "2" {
			t.Fatalf("%+v", m)
		}
	}
}

func TestStreamOfAnEarlierProcess(t *testing.T) {
	ts := start(t, nil)
	ts.Event(step(0))
	messages := reader(t, ts.ana(t), 12345, false)
	if hello := next(t, messages).Hello; hello == nil || !hello.Restarted {
		t.Errorf("hello %+v", hello)
	}
	if m := next(t, messages); m.Event == nil || m.Event.To != "0" {
		t.Errorf("%+v", m)
	}
}

// The bytes are SSE as a browser or curl reads it.
func TestStreamOnTheWire(t *testing.T) {
	ts := start(t, func(s *Server) { s.pace.heartbeat = 10 * time.Millisecond })
	ts.Event(step(0))
	ts.Event(step(1))
	c, err := net.Dial("tcp", ts.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// The header of a reconnect wins over the address, which stays the same.
	fmt.Fprintf(c, "GET /operator/v1/events?after=%d HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\nLast-Event-ID: %d\r\n\r\n",
		ts.events.base, vicToken, ts.events.base+1)
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	var all strings.Builder
	for sc := bufio.NewScanner(c); sc.Scan(); {
		all.WriteString(sc.Text() + "\n")
		if sc.Text() == ": alive" {
			break
		}
	}
	got := all.String()
	for _, want := range []string{
		"Content-Type: text/event-stream\n", "Cache-Control: no-store\n", "X-Accel-Buffering: no\n",
		"retry: 1000\nevent: hello\ndata: {", fmt.Sprintf("event: traffic_step\nid: %d\ndata: {", ts.events.base+2),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Count(got, "event: traffic_step") != 1 {
		t.Errorf("replayed too much:\n%s", got)
	}
}

func TestStreamSaysWhatWasDropped(t *testing.T) {
	ts := start(t, nil)
	for i := range keptEvents + 7 {
		ts.Event(step(i))
	}
	messages := reader(t, ts.ana(t), ts.events.base+3, false)
	next(t, messages)
	if m := next(t, messages); m.Dropped == nil || m.Dropped.Kind != "event" || m.Dropped.Count != 4 {
		t.Fatalf("%+v", m)
	}
	for i := range keptEvents {
		if m := next(t, messages); m.Event == nil || m.Event.To != fmt.Sprint(i+7) {
			t.Fatalf("%d: %+v", i, m)
		}
	}
}

func TestStreamOfDecisions(t *testing.T) {
	ts := start(t, func(s *Server) { s.pace.decisionTick = time.Millisecond })
	ts.Decision(&decision.Decision{RequestID: "before"})
	all, events := reader(t, ts.ana(t), 0, true), reader(t, ts.ana(t), 0, false)
	next(t, all)
	next(t, events)
	var dropped, seen int
	sent := 0
	for seen == 0 || dropped == 0 {
		for range 3 * decisionBatch {
			ts.Decision(&decision.Decision{RequestID: fmt.Sprint(sent)})
			sent++
		}
		for seen+dropped < sent {
			switch m := next(t, all); {
			case m.Dropped != nil && m.Dropped.Kind == api.KindDecision:
				dropped += int(m.Dropped.Count)
			case m.Decision != nil:
				if m.Decision.RequestID != fmt.Sprint(seen+dropped) {
					t.Fatalf("%s after %d seen and %d dropped", m.Decision.RequestID, seen, dropped)
				}
				seen++
			default:
				t.Fatalf("%+v", m)
			}
		}
	}
	ts.Event(step(1))
	if m := next(t, all); m.Event == nil {
		t.Errorf("%+v", m)
	}
	if m := next(t, events); m.Event == nil {
		t.Errorf("a stream of events got %+v", m)
	}
}

// A subscriber that reads nothing holds up neither the gateway nor the others,
// and loses its connection.
func TestSlowSubscriber(t *testing.T) {
	ts := start(t, func(s *Server) { s.pace.writeTimeout = 2 * time.Second })
	slow, err := net.Dial("tcp", ts.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "GET /operator/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", vicToken)
	fast := reader(t, ts.ana(t), 0, false)
	next(t, fast)
	waitFor(t, "both streams", func() bool { return ts.openStreams() == 2 })

	long := strings.Repeat("x", 1000)
	var slowest time.Duration
	n := 0
	for ts.openStreams() == 2 { // until the slow one is thrown out: its buffers hold some
		for range 1000 {
			begun := time.Now()
			ts.Event(decision.Event{Kind: decision.KindTrafficStep, To: fmt.Sprint(n), Detail: long})
			slowest = max(slowest, time.Since(begun))
			n++
		}
		for i := n - 1000; i < n; i++ {
			if m := next(t, fast); m.Event == nil || m.Event.To != fmt.Sprint(i) {
				t.Fatalf("%d: %+v", i, m)
			}
		}
		if n > 1_000_000 {
			t.Fatal("the slow one is never thrown out")
		}
	}
	if slowest > time.Second { // one that the slow one holds up waits for all of writeTimeout
		t.Errorf("an event waited %v", slowest)
	}
}

func (ts *testServer) openStreams() int {
	ts.streams.mu.Lock()
	defer ts.streams.mu.Unlock()
	return ts.streams.all
}

// waitFor waits for a condition that others bring about.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TCP cannot use up the streams: the socket still gets one.
func TestStreamsAreBounded(t *testing.T) {
	ts := start(t, nil)
	tcp, unix := ts.ana(t), ts.client(t, "unix", anaToken, "")
	open := func(c *api.Client) <-chan api.Message { m := reader(t, c, 0, false); next(t, m); return m }
	for range maxTCPStreams {
		open(tcp)
	}
	err := tcp.Stream(t.Context(), 0, func(api.Message) error { return nil })
	apiError(t, err, 503, api.CodeFailed)
	for range maxStreams - maxTCPStreams {
		open(unix)
	}
	err = unix.Stream(t.Context(), 0, func(api.Message) error { return nil })
	apiError(t, err, 503, api.CodeFailed)
	if _, err := unix.Events(t.Context(), 0); err != nil { // without a stream it works
		t.Error(err)
	}
}

func TestStreamSlotsComeBack(t *testing.T) {
	ts := start(t, nil)
	stop := errors.New("enough")
	for range 2 * maxStreams {
		err := ts.ana(t).Stream(t.Context(), 0, func(api.Message) error { return stop })
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
		waitFor(t, "the stream to end", func() bool { return ts.openStreams() == 0 })
	}
}

// A token taken out of the configuration ends the streams it opened.
func TestStreamEndsWithItsToken(t *testing.T) {
	var revoked atomic.Bool
	ts := start(t, func(s *Server) {
		s.pace.heartbeat = 5 * time.Millisecond
		s.o.Tokens = func() []Token {
			if revoked.Load() {
				return nil
			}
			return testTokens()
		}
	})
	beats := 0
	err := ts.client(t, "tcp", anaToken, "s").Stream(t.Context(), 0, func(m api.Message) error {
		if m.Heartbeat {
			if beats++; beats == 3 {
				revoked.Store(true)
			}
		}
		return nil
	})
	if _, ok := errors.AsType[*api.UnreachableError](err); !ok || beats < 3 {
		t.Errorf("after %d heartbeats: %v", beats, err)
	}
}
