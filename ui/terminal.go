package ui

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// hangup is a terminal's file that tells when the terminal went away. A read
// that ends and a write that fails are all there is to notice it by where
// SIGHUP is ignored; the program would go on for ever without a reader.
type hangup struct {
	*os.File
	gone func()

	pastes pastes // of what is read
	rest   []byte // read, and not returned yet
}

// Read implements io.Reader. It may return nothing without an error.
func (h *hangup) Read(p []byte) (int, error) {
	if len(h.rest) > 0 {
		return h.give(p), nil
	}
	// The other half is for what ends a paste: nobody may ask again before a key comes.
	n, err := h.File.Read(p[:(len(p)+1)/2])
	if n == 0 && gone(err) {
		h.gone()
	}
	if n == 0 {
		return 0, err
	}
	h.rest = h.pastes.take(nil, p[:n], time.Now())
	return h.give(p), err
}

func (h *hangup) give(p []byte) int {
	n := copy(p, h.rest)
	h.rest = h.rest[n:]
	return n
}

func (h *hangup) Write(p []byte) (int, error) {
	n, err := h.File.Write(p)
	if gone(err) {
		h.gone()
	}
	return n, err
}

func gone(err error) bool {
	return err != nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, syscall.ENXIO) || errors.Is(err, fs.ErrClosed))
}
