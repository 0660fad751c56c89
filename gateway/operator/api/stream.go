package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const maxStreamLine = 4 << 20 // bytes

// errStreamEnded is why a stream returned that the gateway closed in order.
var errStreamEnded = errors.New("the gateway ended the stream")

// Stream calls fn with each event after a sequence number as it happens (0:
// beginning with all in the ring), until ctx ends, fn fails or the connection
// breaks. It never returns nil: an error of fn comes back as it is, others are
// as for every method. To go on, pass the Seq of the last Event.
func (c *Client) Stream(ctx context.Context, after uint64, fn func(Message) error) error {
	return c.stream(ctx, after, false, fn)
}

// StreamAll is Stream with decisions, of which some may be left out: a Dropped
// message counts them.
func (c *Client) StreamAll(ctx context.Context, after uint64, fn func(Message) error) error {
	return c.stream(ctx, after, true, fn)
}

func (c *Client) stream(ctx context.Context, after uint64, decisions bool, fn func(Message) error) error {
	q := url.Values{}
	if after != 0 {
		q.Set("after", strconv.FormatUint(after, 10))
	}
	if decisions {
		q.Set("decisions", "true")
	}
	res, _, err := c.do(ctx, http.MethodGet, "/operator/v1/events", q, nil, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return c.notGateway(res)
	}
	r := bufio.NewReaderSize(res.Body, 32<<10)
	var name string
	var data []byte
	for {
		line, err := readLine(r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errStreamEnded
			}
			return c.unreachable(ctx, err)
		}
		switch {
		case len(line) == 0:
			m, ok, err := message(name, data)
			name, data = "", nil
			if err != nil {
				return &UnreachableError{Target: c.target, Err: err, Hint: "gateway and console may be of different versions"}
			}
			if ok {
				if err := fn(m); err != nil {
					return err
				}
			}
		case line[0] == ':':
			if err := fn(Message{Heartbeat: true}); err != nil {
				return err
			}
		default:
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "event":
				name = string(value)
			case "data":
				data = append(data, value...)
			}
		}
	}
}

// readLine returns a line without its end, valid until the next call.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(long) > maxStreamLine {
				return nil, fmt.Errorf("a line of the stream is over %d bytes", maxStreamLine)
			}
			line, err = r.ReadSlice('\n')
			long = append(long, line...)
		}
		line = long
	}
	if err != nil {
		if errors.Is(err, io.EOF) && len(line) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// message decodes one SSE message. An event name not known here is an Event:
// kinds are added.
func message(name string, data []byte) (m Message, ok bool, err error) {
	if len(data) == 0 {
		return m, false, nil
	}
	var into any
	switch name {
	case StreamHello:
		m.Hello = new(Hello)
		into = m.Hello
	case StreamDropped:
		m.Dropped = new(Dropped)
		into = m.Dropped
	case KindDecision:
		m.Decision = new(Decision)
		into = m.Decision
	default:
		m.Event = new(Event)
		into = m.Event
	}
	if err := json.Unmarshal(data, into); err != nil {
		return m, false, fmt.Errorf("a message of the stream is not understood: %w", err)
	}
	return m, true, nil
}
