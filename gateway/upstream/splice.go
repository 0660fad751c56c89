package upstream

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
)

var errBodyClosed = errors.New("request body is closed")

// splice is a request body with another model name in it: what stands before
// the name, the name, and what follows, without a copy of any of it. Once
// Close has returned, the bytes are not touched again, whatever net/http's
// goroutines still do.
type splice struct {
	mu sync.Mutex
	// mu guards everything that follows.
	parts  [3][]byte
	left   int64
	closed bool
	name   [64]byte  // where the model's name stands, if it fits
	vector [4][]byte // what sendTo gives away; it stands here to need no memory of its own
}

// set makes s the body with model instead of what is in [start,end). Without
// such a span the body stays as it is.
func (s *splice) set(body []byte, start, end int, model string) (size int64) {
	if start >= end || end > len(body) {
		s.parts[0] = body
	} else {
		s.parts = [3][]byte{body[:start], quote(s.name[:0], model), body[end:]}
	}
	for _, p := range s.parts {
		s.left += int64(len(p))
	}
	return s.left
}

// quote appends name as a JSON string.
func quote(to []byte, name string) []byte {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			q, _ := json.Marshal(name) // a string always has JSON
			return append(to, q...)
		}
	}
	return append(append(append(to, '"'), name...), '"')
}

func (s *splice) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errBodyClosed
	}
	n := 0
	for i := range s.parts {
		if n == len(p) {
			break
		}
		m := copy(p[n:], s.parts[i])
		s.parts[i] = s.parts[i][m:]
		n += m
	}
	s.left -= int64(n)
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// sendTo gives at most limit bytes of what is left to send, all at once behind
// an empty first part that send may fill, and says how many of them went out.
// Close waits until that is over, which closing the connection brings about.
func (s *splice) sendTo(send func(net.Buffers) (int64, error), limit int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errBodyClosed
	}
	parts, room := net.Buffers(s.vector[:1]), limit
	for _, p := range s.parts {
		if p = p[:min(int64(len(p)), room)]; len(p) > 0 {
			parts = append(parts, p)
			room -= int64(len(p))
		}
	}
	n, err := send(parts)
	s.left -= n
	for i, rest := 0, n; i < len(s.parts); i++ {
		m := min(int64(len(s.parts[i])), rest)
		s.parts[i] = s.parts[i][m:]
		rest -= m
	}
	return n, err
}

// Close ends the use of the body. Calling it again does nothing.
func (s *splice) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// handedOver reports whether all of the body was taken to be sent: before
// that, nobody can have acted on it.
func (s *splice) handedOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left == 0
}
