package wire

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// ErrFrameTooLong is returned for a frame above the reader's limit. What was
// read of it is lost; the stream cannot be continued.
var ErrFrameTooLong = errors.New("event stream frame is longer than the limit")

var errClosed = errors.New("read from a closed event stream")

const (
	smallBuffer = 4 << 10
	largeBuffer = 64 << 10 // given back once the frame that needed it is gone
)

var smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}

// FrameReader splits an event stream into frames without changing a byte: all
// frames in sequence are the stream. To learn of every byte that arrives, also
// of comments and of parts of a frame, wrap the reader it is given: Read
// returns as soon as bytes are there, and Next as soon as a frame is whole.
//
// It is not safe for concurrent use.
type FrameReader struct {
	r   io.Reader
	max int
	err error // of r, once it has failed

	// buf[start:] has been read and not yet returned; lines up to buf[scan:]
	// have been looked at.
	buf         []byte
	small       *[smallBuffer]byte // buf's array, if it comes from the pool
	start, scan int
	line        int  // where the line that scan is in begins
	lone        bool // the last frame ended in \r: a \n that comes next is still part of that line end
	crlf        bool // the last line of this frame ended in \r\n
	begun       bool // the byte order mark, if any, is behind us
	torn        bool // the last frame was ended by the stream's end
}

// NewFrameReader returns a reader of r's frames. A frame longer than max bytes
// is refused with ErrFrameTooLong. Memory grows with the longest frame and is
// given back after it.
func NewFrameReader(r io.Reader, max int) *FrameReader {
	return &FrameReader{r: r, max: max}
}

// Next returns the next frame with the blank line that ends it. The bytes are
// valid until the next call. Lines may end in \n, \r\n or \r; a blank line
// without lines before it is a frame of its own. A frame without a blank line
// before a clean end of the stream is returned too, then io.EOF. On any other
// error the bytes of an unfinished frame are dropped.
func (f *FrameReader) Next() ([]byte, error) {
	for {
		if end := f.find(); end >= 0 {
			frame := f.buf[f.start:end:end]
			f.start, f.scan, f.line, f.crlf = end, end, end, false
			if len(frame) > f.max {
				f.err = ErrFrameTooLong
				return nil, f.err
			}
			return frame, nil
		}
		switch rest := f.buf[f.start:]; {
		case f.err == io.EOF && len(rest) > 0 && len(rest) <= f.max:
			f.start, f.scan, f.line = len(f.buf), len(f.buf), len(f.buf)
			f.torn = true
			return rest, nil
		case f.err != nil && f.err != io.EOF, f.err == io.EOF && len(rest) == 0:
			return nil, f.err
		case len(rest) > f.max:
			f.err = ErrFrameTooLong
			return nil, f.err
		}
		f.fill()
	}
}

// Torn reports whether the last frame was ended by the end of the stream and not
// by a blank line: it may be whole or not.
func (f *FrameReader) Torn() bool { return f.torn }

// find looks at the bytes it has not yet seen for the end of a frame and
// returns where that is, -1 if it has not come yet.
func (f *FrameReader) find() int {
	const mark = "\ufeff"
	if !f.begun {
		head := f.buf[f.start:]
		if len(head) < len(mark) && f.err == nil && bytes.HasPrefix([]byte(mark), head) {
			return -1
		}
		f.begun = true
		if bytes.HasPrefix(head, []byte(mark)) {
			f.line, f.scan = f.start+len(mark), f.start+len(mark)
		}
	}
	if f.lone && f.scan < len(f.buf) {
		f.lone = false
		if f.buf[f.scan] == '\n' {
			f.scan++
			f.line = f.scan
		}
	}
	for f.scan < len(f.buf) {
		n := bytes.IndexByte(f.buf[f.scan:], '\n')
		seen := len(f.buf)
		if n >= 0 {
			seen = f.scan + n
		}
		if r := bytes.IndexByte(f.buf[f.scan:seen], '\r'); r >= 0 {
			seen = f.scan + r
		} else if n < 0 {
			f.scan = seen
			break
		}
		// buf[seen] ends a line, together with a \n after a \r.
		end, whole := seen+1, true
		crlf := false
		if f.buf[seen] == '\r' {
			if whole = end < len(f.buf); whole && f.buf[end] == '\n' {
				end++
				crlf = true
			}
		}
		blank := seen == f.line
		if !whole && f.err == nil && (!blank || f.crlf) {
			// Whether a \n follows is not known yet. A blank line of a stream
			// that ends its lines in \r alone need not wait to find out.
			f.scan = seen
			break
		}
		f.scan, f.line, f.crlf = end, end, crlf
		if blank {
			f.lone = !whole
			return end
		}
	}
	return -1
}

// fill reads once, making room if there is none.
func (f *FrameReader) fill() {
	if f.start > 0 {
		rest := f.buf[f.start:]
		if f.small == nil && cap(f.buf) > largeBuffer && len(rest) <= smallBuffer/2 {
			f.buf = nil // a large frame has passed
			f.grow(rest)
		} else {
			f.buf = f.buf[:copy(f.buf, rest)]
		}
		f.scan -= f.start
		f.line -= f.start
		f.start = 0
	}
	if len(f.buf) == cap(f.buf) {
		f.grow(f.buf)
	}
	// As bufio does, an io.Reader that gives neither bytes nor an error is
	// asked again, but not for ever.
	for range 100 {
		n, err := f.r.Read(f.buf[len(f.buf):cap(f.buf)])
		f.buf = f.buf[:len(f.buf)+n]
		if f.err = err; n > 0 || err != nil {
			return
		}
	}
	f.err = io.ErrNoProgress
}

// grow replaces the buffer by one of twice its size that holds rest.
func (f *FrameReader) grow(rest []byte) {
	if cap(f.buf) == 0 {
		f.small = smallBuffers.Get().(*[smallBuffer]byte)
		f.buf = append(f.small[:0], rest...)
		return
	}
	f.buf = append(make([]byte, 0, 2*cap(f.buf)), rest...)
	f.release()
}

func (f *FrameReader) release() {
	if f.small != nil {
		smallBuffers.Put(f.small)
		f.small = nil
	}
}

// Close gives the buffer back: the last frame is no longer valid, and nothing
// more is read. It does not close the underlying reader.
func (f *FrameReader) Close() {
	f.release()
	f.buf, f.start, f.scan, f.line = nil, 0, 0, 0
	if f.err == nil || f.err == io.EOF {
		f.err = errClosed
	}
}
