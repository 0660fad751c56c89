package api

import "time"

// Hello is the first message of every event stream.
type Hello struct {
	At  time.Time `json:"at"`
	Seq uint64    `json:"seq"` // of the newest event
	// Restarted says that the sequence number to go on from is not of this
	// gateway process: everything in the ring follows, and what happened in
	// between is unknown.
	Restarted bool `json:"restarted,omitempty"`
	// MayDrop names the kinds that a stream may leave out when there are too
	// many or the reader is slow. All others are kept until the ring is full.
	MayDrop []string `json:"may_drop"`
}

// Dropped says in the stream that something was left out of it.
type Dropped struct {
	// Kind is model_route_selected, or "event" for events that had left the
	// ring before they could be sent.
	Kind  string `json:"kind"`
	Count uint64 `json:"count"` // since the last message of this kind
}

// Message is one message of an event stream. Exactly one field is set.
type Message struct {
	Hello     *Hello
	Event     *Event
	Decision  *Decision
	Dropped   *Dropped
	Heartbeat bool // nothing happened; the gateway is there
}

// The SSE event names that are not kinds of events.
const (
	StreamHello   = "hello"
	StreamDropped = "dropped"
)

// KindDecision is the Event field of a Decision and its SSE event name.
const KindDecision = "model_route_selected"
