package demo

import (
	"encoding/json"
	"net/http"
)

// startStream waits for the first token and sends the header of a stream.
// Providers send headers once they accept the request and hold the first token
// back, so the wait comes in two parts.
func (x *exchange) startStream() {
	x.headers()
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	x.w.WriteHeader(http.StatusOK)
}

func (x *exchange) flush() error {
	if err := http.NewResponseController(x.w).Flush(); err != nil {
		return errGone
	}
	return nil
}

// event sends one frame; name is empty for dialects without event names.
func (x *exchange) event(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only values built here are written
	}
	return x.frame(name, b)
}

func (x *exchange) frame(name string, data []byte) error {
	x.out = x.out[:0]
	if name != "" {
		x.out = append(x.out, "event: "...)
		x.out = append(x.out, name...)
		x.out = append(x.out, '\n')
	}
	x.out = append(x.out, "data: "...)
	x.out = append(x.out, data...)
	x.out = append(x.out, "\n\n"...)
	if _, err := x.w.Write(x.out); err != nil {
		return errGone
	}
	return x.flush()
}

// deltas sends pieces of an answer at a model's pace. The first comes after
// the time to a first token, counted from here. Under Break it ends in the
// middle of them.
func (x *exchange) deltas(pieces []string, send func(string) error) error {
	if err := x.waitFirst(0.8); err != nil {
		return err
	}
	for i, p := range pieces {
		if i > 0 {
			if err := x.waitWords(1); err != nil {
				return err
			}
		}
		if x.fault.Kind == Break && i > 0 && i >= len(pieces)/2 {
			x.abort = true
			return errFault
		}
		if err := send(p); err != nil {
			return err
		}
	}
	if x.fault.Kind == Break {
		x.abort = true
		return errFault
	}
	return nil
}
