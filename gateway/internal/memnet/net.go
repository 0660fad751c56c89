package memnet

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
)

// Addr is the address of a listener or a connection's end.
type Addr string

// Network is "tcp": what is tested treats it as such.
func (Addr) Network() string { return "tcp" }

// String is the address itself.
func (a Addr) String() string { return string(a) }

// backlog is how many connections wait for Accept before a dial waits too.
const backlog = 128

// Listener accepts connections that are dialled in this process.
type Listener struct {
	addr   Addr
	queue  chan *Conn
	closed chan struct{}
	leave  func()

	mu sync.Mutex
	// mu guards everything that follows.
	done   bool
	dialed int
	open   int
}

// Listen returns a listener that belongs to no Network; its own DialContext
// reaches it.
func Listen(addr string) *Listener {
	return &Listener{addr: Addr(addr), queue: make(chan *Conn, backlog), closed: make(chan struct{})}
}

// Accept returns the next connection, a *Conn, or net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
}

// Close ends Accept and refuses further dials. Accepted connections live on;
// those not accepted yet are reset.
func (l *Listener) Close() error {
	l.mu.Lock()
	done := l.done
	l.done = true
	l.mu.Unlock()
	if done {
		return nil
	}
	close(l.closed)
	if l.leave != nil {
		l.leave()
	}
	for {
		select {
		case c := <-l.queue:
			c.Abort()
		default:
			return nil
		}
	}
}

// Addr is the address given to Listen.
func (l *Listener) Addr() net.Addr { return l.addr }

// Dialed is how many connections were made so far.
func (l *Listener) Dialed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialed
}

// Open is how many connections the dialling side has not closed yet.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// DialContext connects to l whatever the address says. It waits while the
// backlog is full; a closed listener gives ECONNREFUSED.
func (l *Listener) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	if l.done {
		l.mu.Unlock()
		return nil, refused(addr)
	}
	l.dialed++
	l.open++
	from := Addr(fmt.Sprintf("client-%d", l.dialed))
	l.mu.Unlock()
	client, server := pipe(from, l.addr, l.left, nil)
	select {
	case l.queue <- server:
		// A Close that emptied the queue just before would have missed it.
		select {
		case <-l.closed:
			server.Abort()
		default:
		}
		return client, nil
	case <-l.closed:
		_ = client.Close()
		return nil, refused(addr)
	case <-ctx.Done():
		_ = client.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: Addr(addr), Err: ctx.Err()}
	}
}

func (l *Listener) left() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

func refused(addr string) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: Addr(addr), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// Network is a set of listeners by address. The zero value is ready.
type Network struct {
	mu sync.Mutex
	// mu guards everything that follows.
	listeners map[string]*Listener
}

// Listen opens addr ("a.test:80") on n. A listener that was closed frees its
// address.
func (n *Network) Listen(addr string) (*Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: Addr(addr), Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	l := Listen(addr)
	l.leave = func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.listeners[addr] == l {
			delete(n.listeners, addr)
		}
	}
	if n.listeners == nil {
		n.listeners = make(map[string]*Listener)
	}
	n.listeners[addr] = l
	return l, nil
}

// DialContext connects to the listener at addr; without one it gives
// ECONNREFUSED. Names below .invalid cannot be resolved.
func (n *Network) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if host, _, _ := net.SplitHostPort(addr); strings.HasSuffix(host, ".invalid") {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
	}
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, refused(addr)
	}
	return l.DialContext(ctx, network, addr)
}
