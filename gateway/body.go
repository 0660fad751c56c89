package gateway

import (
	"errors"
	"io"
	"net/http"
)

var (
	errTooLarge = errors.New("the request body is larger than max_request_bytes")
	errNoMemory = errors.New("the gateway holds as many bytes as it may (max_buffered_bytes)")
)

// firstBlock is what a body of unknown or large size begins with: what a
// client says it will send is not yet a reason to hold memory for it.
const firstBlock = 256 << 10

// readBody reads a request's body whole, at most limit bytes. What it holds is
// taken from m; the caller gives it back by m.Shrink(cap) when done.
func readBody(r *http.Request, limit int64, m *memory) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, errTooLarge
	}
	size := int64(firstBlock)
	if n := r.ContentLength; n >= 0 && n < size {
		size = n
	}
	if !m.Grow(int(size)) {
		return nil, errNoMemory
	}
	buf := make([]byte, 0, size)
	for {
		if int64(len(buf)) == r.ContentLength {
			return buf, nil
		}
		if len(buf) == cap(buf) {
			grown, err := growBody(buf, r.ContentLength, limit, m)
			if err != nil {
				m.Shrink(cap(buf))
				return nil, err
			}
			buf = grown
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF:
			if int64(len(buf)) > limit {
				m.Shrink(cap(buf))
				return nil, errTooLarge
			}
			return buf, nil
		case err != nil:
			m.Shrink(cap(buf))
			return nil, err
		}
	}
}

func growBody(buf []byte, announced, limit int64, m *memory) ([]byte, error) {
	if int64(len(buf)) > limit {
		return nil, errTooLarge
	}
	size := min(2*int64(cap(buf)), limit+1)
	if announced > 0 {
		size = min(size, announced)
	}
	more := int(size) - cap(buf)
	if more <= 0 {
		return nil, errTooLarge
	}
	if !m.Grow(more) {
		return nil, errNoMemory
	}
	grown := make([]byte, len(buf), size)
	copy(grown, buf)
	return grown, nil
}
