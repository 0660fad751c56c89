package telemetry

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// sink is where lines go.
type sink interface {
	io.Writer
	// fresh makes sure that what is written next lands where readers look for
	// it, and reports whether that is another place than before. force does not
	// trust an earlier look.
	fresh(now time.Time, force bool) (moved bool, err error)
	io.Closer
}

// streamSink is a stream that others own, as stdout.
type streamSink struct{ io.Writer }

func (streamSink) fresh(time.Time, bool) (bool, error) { return false, nil }
func (streamSink) Close() error                        { return nil }

// lookEvery is how often a file is looked for under its path.
const lookEvery = time.Second

// fileSink appends to a file. Where the path names another file, or none, it
// begins there: a log that was rotated or deleted must neither lose lines nor
// keep a full disk full.
type fileSink struct {
	path   string
	file   *os.File
	looked time.Time
}

func openFile(path string) (*fileSink, error) {
	f, err := appendTo(path)
	if err != nil {
		return nil, err
	}
	return &fileSink{path: path, file: f}, nil
}

// appendTo opens path for appending. A line that an earlier process left
// unfinished is ended, so that it spoils no other.
func appendTo(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if info.Mode().IsRegular() && info.Size() > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], info.Size()-1); err == nil && last[0] != '\n' {
			// A disk that is full now says so again at the first line.
			_, _ = f.WriteString("\n")
		}
	}
	return f, nil
}

func (s *fileSink) Write(p []byte) (int, error) { return s.file.Write(p) }
func (s *fileSink) Close() error                { return s.file.Close() }

func (s *fileSink) fresh(now time.Time, force bool) (bool, error) {
	if !force && now.Sub(s.looked) < lookEvery {
		return false, nil
	}
	s.looked = now
	there, err := os.Stat(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, nil // cannot tell: what is open is the better guess
	}
	if err == nil {
		here, err := s.file.Stat()
		if err != nil || os.SameFile(there, here) {
			return false, err
		}
	}
	f, err := appendTo(s.path)
	if err != nil {
		return false, err
	}
	old := s.file
	s.file = f
	return true, old.Close()
}
