package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// bound is how large an answer of a kind may be: no gateway's comes near it.
type bound struct {
	bytes  int64
	values int // in all its lists
}

var (
	smallAnswer     = bound{4 << 20, 32 << 10} // a state of 200 upstreams, all events, an incident
	decisionsAnswer = bound{8 << 20, 64 << 10} // 500 decisions with their candidates and attempts
)

// maxCause is how much of a decoder's words is told, in bytes: they repeat what
// was sent.
const maxCause = 256

// answered is what every answer is asked: what no gateway leaves out, empty if
// it is all there.
type answered interface{ lacks() string }

func noTime(at time.Time) string {
	if at.IsZero() {
		return "time (at)"
	}
	return ""
}

func (s *State) lacks() string      { return noTime(s.At) }
func (d *Decisions) lacks() string  { return noTime(d.At) }
func (e *Events) lacks() string     { return noTime(e.At) }
func (t *AuditTrail) lacks() string { return noTime(t.At) }
func (v *Incidents) lacks() string  { return noTime(v.At) }

func (v *Incident) lacks() string {
	if v.ID == "" {
		return "name (id)"
	}
	return noTime(v.At)
}

func (r *Result) lacks() string {
	if r.Message == "" {
		return "message"
	}
	return ""
}

// decode reads the answer of a request that succeeded.
func decode[T any, P interface {
	*T
	answered
}](c *Client, res *http.Response, most bound) (*T, error) {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		return nil, c.notGateway(res)
	}
	in := &boundedReader{r: res.Body, most: most}
	if res.ContentLength > most.bytes {
		return nil, &UnreachableError{Target: c.target, Err: in.tooLarge()}
	}
	v := P(new(T))
	d := json.NewDecoder(in)
	err := d.Decode(v)
	if err == nil {
		switch _, more := d.Token(); {
		case more == nil:
			err = errors.New("more follows its end")
		case !errors.Is(more, io.EOF):
			err = more
		}
	}
	switch {
	case in.over != nil:
		return nil, &UnreachableError{Target: c.target, Err: in.over}
	case in.err != nil:
		return nil, c.unreachable(res.Request.Context(), fmt.Errorf("the answer broke off: %w", in.err))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("unexpected end of JSON input")
	}
	if err != nil {
		if len(err.Error()) > maxCause {
			err = errors.New(strings.ToValidUTF8(err.Error()[:maxCause], "") + "...")
		}
		return nil, &UnreachableError{Target: c.target, Err: fmt.Errorf("the answer is not understood: %w", err), Hint: "gateway and console may be of different versions"}
	}
	if what := v.lacks(); what != "" {
		return nil, &UnreachableError{Target: c.target, Err: fmt.Errorf("its answer has no %s: is it a gateway of this program?", what)}
	}
	return v, nil
}

// boundedReader passes JSON on as far as it is within a bound. It counts the
// values of lists too: a short one may take much room when it is decoded.
type boundedReader struct {
	r    io.Reader
	most bound

	n      int64
	values int
	text   bool   // inside a string
	escape bool   // behind its backslash
	lists  []bool // by depth: whether it is a list

	over error // the bound that was passed
	err  error // of r, io.EOF excepted
}

func (b *boundedReader) tooLarge() error {
	return fmt.Errorf("the answer is over %d bytes", b.most.bytes)
}

// Read implements io.Reader.
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.over != nil {
		return 0, b.over
	}
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	if b.n += int64(n); b.n > b.most.bytes {
		b.over = b.tooLarge()
	} else if b.count(p[:n]); b.values > b.most.values {
		b.over = fmt.Errorf("the answer has lists of over %d values", b.most.values)
	}
	if b.over != nil {
		return 0, b.over
	}
	return n, err
}

func (b *boundedReader) count(p []byte) {
	for _, c := range p {
		switch {
		case b.escape:
			b.escape = false
		case b.text:
			b.escape, b.text = c == '\\', c != '"'
		case c == '"':
			b.text = true
		case c == '[', c == '{':
			b.lists = append(b.lists, c == '[')
			if c == '[' {
				b.values++
			}
		case len(b.lists) == 0:
		case c == ']', c == '}':
			b.lists = b.lists[:len(b.lists)-1]
		case c == ',' && b.lists[len(b.lists)-1]:
			b.values++
		}
	}
}
