package operator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"failback/gateway/operator/api"
)

const (
	heartbeat    = 15 * time.Second
	writeTimeout = 10 * time.Second // of one flush to a stream's reader
	streamBatch  = 256              // events of one flush
	// Decisions come by the clock and not one by one: a stream of them must not
	// cost the requests they tell of anything.
	decisionTick  = 250 * time.Millisecond
	decisionBatch = 100 // decisions of one tick; the rest is counted as dropped
)

// pace is the timing of answers and streams: the constants, but in tests.
type pace struct{ heartbeat, writeTimeout, answerTimeout, decisionTick time.Duration }

// streamCount bounds the streams. The zero value is ready.
type streamCount struct {
	// mu guards everything that follows.
	mu       sync.Mutex
	all, tcp int
}

func (c *streamCount) take(tcp bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == maxStreams || tcp && c.tcp == maxTCPStreams {
		return false
	}
	c.all++
	if tcp {
		c.tcp++
	}
	return true
}

func (c *streamCount) give(tcp bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if tcp {
		c.tcp--
	}
}

// stream serves one event stream until its reader leaves, is too slow, may not
// read any more, or the server stops.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, after uint64, withDecisions bool) {
	give, ok := s.takeStream(w, r, "ask without Accept: text/event-stream, or close a console")
	if !ok {
		return
	}
	defer give()
	woken, end := s.events.follow()
	defer end()

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(w)
	var b bytes.Buffer
	send := func() bool {
		_ = rc.SetWriteDeadline(time.Now().Add(s.pace.writeTimeout))
		if _, err := w.Write(b.Bytes()); err != nil {
			return false
		}
		b.Reset()
		return rc.Flush() == nil
	}

	found, dropped, known := s.events.since(after, streamBatch)
	b.WriteString("retry: 1000\n")
	s.put(&b, api.StreamHello, 0, api.Hello{At: time.Now(), Seq: s.events.newest(), Restarted: !known, MayDrop: []string{api.KindDecision}})
	at := after // of the last event sent
	if !known || after == 0 {
		at = s.events.base
	}
	nth := s.decisions.count() // of the last decision looked at

	beat := time.NewTicker(s.pace.heartbeat)
	defer beat.Stop()
	var tick <-chan time.Time
	if withDecisions {
		t := time.NewTicker(s.pace.decisionTick)
		defer t.Stop()
		tick = t.C
	}
	for {
		for {
			if dropped > 0 {
				s.put(&b, api.StreamDropped, 0, api.Dropped{Kind: "event", Count: dropped})
			}
			for _, e := range found {
				s.put(&b, e.Event, e.Seq, e)
				at = e.Seq
			}
			if b.Len() > 0 && !send() {
				return
			}
			if len(found) < streamBatch {
				break
			}
			found, dropped, _ = s.events.since(at, streamBatch)
		}
		found, dropped = nil, 0
		select {
		case <-woken:
			found, dropped, _ = s.events.since(at, streamBatch)
		case <-tick:
			ds, left, next := s.decisions.since(nth, decisionBatch)
			nth = next
			if left > 0 {
				s.put(&b, api.StreamDropped, 0, api.Dropped{Kind: api.KindDecision, Count: left})
			}
			for i := range ds {
				s.put(&b, api.KindDecision, 0, s.o.Line(&ds[i]))
			}
		case <-beat.C:
			// A token that was taken out of the configuration ends its streams.
			id, refused := s.identify(r)
			if refused != nil {
				return
			}
			s.sessions.seen(r, id.name, s.o.Instance, false, time.Now())
			b.WriteString(": alive\n\n")
		case <-s.closing:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// put appends one SSE message. seq 0: it has no id.
func (s *Server) put(b *bytes.Buffer, name string, seq uint64, v any) {
	j, err := json.Marshal(v)
	if err != nil {
		s.o.Log(fmt.Sprintf("operator API: a %s cannot be encoded: %v", name, err))
		return
	}
	b.WriteString("event: ")
	b.WriteString(name)
	if seq != 0 {
		b.WriteString("\nid: ")
		b.WriteString(strconv.FormatUint(seq, 10))
	}
	b.WriteString("\ndata: ")
	b.Write(api.VisibleJSON(j))
	b.WriteString("\n\n")
}
