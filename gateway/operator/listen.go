package operator

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"failback/gateway/internal/filelock"
)

// maxSocketPath is what fits into sun_path on every system we know, with its
// final zero byte (Linux: 108, BSD and macOS: 104).
const maxSocketPath = 103

// socket is the listening unix socket and the lock that says whose it is.
type socket struct {
	net.Listener
	path string
	lock *os.File // nil where the system has no locks
	made os.FileInfo
	once sync.Once
}

// listenSocket listens on path with mode 0660. A socket left behind is
// replaced if nobody answers on it; anything else at path is left alone and an
// error. The socket appears at path with its final mode at once: it is made in
// a directory nobody else may enter, and moved.
func listenSocket(path string) (_ *socket, err error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket %s: the path has %d bytes, the system allows %d: choose a shorter data_dir", path, len(path), maxSocketPath)
	}
	lock, err := filelock.Lock(path + ".lock")
	if held, ok := errors.AsType[*filelock.HeldError](err); ok {
		return nil, fmt.Errorf("socket %s: another gateway (process %s) holds it: stop that one, or choose another data_dir", path, held.PID)
	}
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	s := &socket{path: path, lock: lock}
	defer func() {
		if err != nil {
			s.unlock()
			err = fmt.Errorf("socket %s: %w", path, err)
		}
	}()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	dir := filepath.Join(filepath.Dir(path), ".fbnew")
	made := filepath.Join(dir, "s")
	_ = os.Remove(made) // of a process that was killed just here
	_ = os.Remove(dir)
	if err = os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	defer os.Remove(dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(made, 0o660); err == nil {
		err = os.Rename(made, path)
	}
	if err == nil {
		s.made, err = os.Lstat(path)
	}
	if err != nil {
		_ = l.Close()
		_ = os.Remove(made)
		return nil, err
	}
	s.Listener = l
	return s, nil
}

// removeStale makes sure that nobody answers at path and that nothing but a
// socket would be replaced.
func removeStale(path string) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.Mode().Type() != fs.ModeSocket:
		return errors.New("something that is no socket is in its place: move it away, or choose another data_dir")
	}
	conn, err := net.DialTimeout("unix", path, 2*time.Second)
	switch {
	case err == nil:
		_ = conn.Close()
		return errors.New("a gateway already answers on it: stop that one, or choose another data_dir")
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil // replaced by the move
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("it is not clear whether a gateway answers on it: %w", err)
}

// close stops listening and removes the socket, if it still is this one.
func (s *socket) close() {
	s.once.Do(func() {
		if s.Listener == nil {
			return
		}
		_ = s.Listener.Close()
		if fi, err := os.Lstat(s.path); err == nil && os.SameFile(fi, s.made) {
			_ = os.Remove(s.path)
		}
	})
}

// unlock gives the path free for another gateway. The lock file stays: removing
// it would let two processes lock two files of the same name.
func (s *socket) unlock() {
	if s.lock != nil {
		_ = s.lock.Close()
		s.lock = nil
	}
}

// limitListener accepts no more than a number of connections at a time; others
// wait in the system's backlog.
type limitListener struct {
	net.Listener
	slots chan struct{}
	done  chan struct{}
	once  sync.Once
}

func newLimitListener(l net.Listener, n int) net.Listener {
	return &limitListener{Listener: l, slots: make(chan struct{}, n), done: make(chan struct{})}
}

func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitConn{Conn: c, release: func() { <-l.slots }}, nil
}

func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

type limitConn struct {
	net.Conn
	once    sync.Once
	release func()
}

func (c *limitConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}

// CloseWrite lets a client read an answer to the end that is given before its
// request was read, as one whose headers are too large.
func (c *limitConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
