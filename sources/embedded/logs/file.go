package logs

import (
	"io"
	"os"
)

// file is a segment's file as its writer sees it.
type file interface {
	io.Writer
	io.ReaderAt
	Truncate(size int64) error
	io.Closer
}

// openFile opens a file to append to and to read.
func openFile(name string) (file, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return nil, err
	}
	return f, nil
}
