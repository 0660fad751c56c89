package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Window is how many bytes one direction of a connection holds before a Write
// blocks.
const Window = 64 << 10

// Conn is one end of a connection. All methods may be called at once from
// several goroutines.
type Conn struct {
	in, out       *half // what this end reads, and writes
	local, remote net.Addr
	once          sync.Once
	onClose       func()
}

// Pipe returns the two ends of a new connection.
func Pipe() (client, server *Conn) {
	return pipe(Addr("client"), Addr("server"), nil, nil)
}

func pipe(clientAddr, serverAddr net.Addr, clientClosed, serverClosed func()) (client, server *Conn) {
	up, down := newHalf(), newHalf()
	client = &Conn{in: down, out: up, local: clientAddr, remote: serverAddr, onClose: clientClosed}
	server = &Conn{in: up, out: down, local: serverAddr, remote: clientAddr, onClose: serverClosed}
	return client, server
}

// Read blocks until there are bytes, the peer closed (io.EOF) or reset the
// connection (ECONNRESET), this end was closed, or the deadline passed.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

// Write blocks while the window is full. To a peer that closed it gives EPIPE.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

func (c *Conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if errno, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close ends both directions. What was written before can still be read by the
// peer.
func (c *Conn) Close() error {
	c.in.closeRead(net.ErrClosed, syscall.EPIPE)
	c.out.closeWrite(io.EOF)
	c.gone()
	return nil
}

// CloseWrite ends the direction this end writes: the peer reads io.EOF after
// what was written before.
func (c *Conn) CloseWrite() error {
	c.out.closeWrite(io.EOF)
	return nil
}

// Abort resets the connection: the peer's reads and writes fail with
// ECONNRESET, and bytes not read yet are lost.
func (c *Conn) Abort() {
	c.in.closeRead(net.ErrClosed, syscall.ECONNRESET)
	c.out.reset()
	c.gone()
}

func (c *Conn) gone() {
	c.once.Do(func() {
		if c.onClose != nil {
			c.onClose()
		}
	})
}

// LocalAddr is the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline bounds reads and writes; the zero time lifts the bound.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline bounds reads, also those already waiting.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	return nil
}

// SetWriteDeadline bounds writes, also those already waiting.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

// deadline is one bound of a half; guarded by the half's mu.
type deadline struct {
	passed bool
	timer  *time.Timer
}

// half is one direction of a connection.
type half struct {
	cond sync.Cond

	mu sync.Mutex
	// mu guards everything that follows.
	buf      []byte
	readErr  error // for the reader, once buf is empty; io.EOF after an orderly end
	localErr error // for the reader that closed its own end
	writeErr error // for the writer, at once
	readBy   deadline
	writeBy  deadline
}

func newHalf() *half {
	h := new(half)
	h.cond.L = &h.mu
	return h
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.localErr != nil:
			return 0, h.localErr
		case h.readBy.passed:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case len(h.buf) > 0:
			n := copy(p, h.buf)
			h.buf = h.buf[n:]
			h.cond.Broadcast()
			return n, nil
		case h.readErr != nil:
			return 0, h.readErr
		}
		h.cond.Wait()
	}
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	written := 0
	for {
		switch {
		case h.writeErr != nil:
			return written, h.writeErr
		case h.writeBy.passed:
			return written, os.ErrDeadlineExceeded
		case written == len(p):
			return written, nil
		}
		if room := Window - len(h.buf); room > 0 {
			n := min(room, len(p)-written)
			h.buf = append(h.buf, p[written:written+n]...)
			written += n
			h.cond.Broadcast()
			continue
		}
		h.cond.Wait()
	}
}

// closeRead is the reader leaving: its own reads fail with local, the writer's
// with remote.
func (h *half) closeRead(local, remote error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.localErr == nil {
		h.localErr = local
	}
	if h.writeErr == nil {
		h.writeErr = remote
	}
	h.buf = nil
	h.readBy.stop()
	h.cond.Broadcast()
}

// closeWrite is the writer leaving in order.
func (h *half) closeWrite(remote error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readErr == nil {
		h.readErr = remote
	}
	if h.writeErr == nil {
		h.writeErr = net.ErrClosed
	}
	h.writeBy.stop()
	h.cond.Broadcast()
}

// reset is the writer breaking off.
func (h *half) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf = nil
	h.readErr = syscall.ECONNRESET
	h.writeErr = net.ErrClosed
	h.writeBy.stop()
	h.cond.Broadcast()
}

func (h *half) setDeadline(d *deadline, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.stop()
	d.passed = false
	if !t.IsZero() {
		wait := time.Until(t)
		if wait <= 0 {
			d.passed = true
		} else {
			var timer *time.Timer
			timer = time.AfterFunc(wait, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				if d.timer == timer {
					d.passed = true
					h.cond.Broadcast()
				}
			})
			d.timer = timer
		}
	}
	h.cond.Broadcast()
}

// stop requires the half's mu.
func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
