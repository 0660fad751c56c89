package ui

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// hangup is a terminal's file that tells when the terminal went away. A read
// that ends and a write that fails are all there is to notice it by where
// SIGHUP is ignored; the program would go on for ever without a reader.
type hangup struct {
	*os.File
	gone func()
}

func (h *hangup) Read(p []byte) (int, error) {
	n, err := h.File.Read(p)
	if n == 0 && gone(err) {
		h.gone()
	}
	return n, err
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
