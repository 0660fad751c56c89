//go:build unix

package ui

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

// signals makes every signal that ends a program end this one in order, and a
// SIGTSTP from outside suspend it in order.
type signals struct {
	c    chan os.Signal
	done chan struct{}
	wg   sync.WaitGroup
	s    suspender
}

func watchSignals(end func(), send func(tea.Msg)) *signals {
	s := &signals{c: make(chan os.Signal, 4), done: make(chan struct{})}
	s.s.c = make(chan os.Signal, 1)
	signal.Notify(s.c, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	s.s.listen()
	s.wg.Go(func() {
		for {
			select {
			case <-s.c:
				end()
			case <-s.s.c:
				// Caught, it would not stop anything: let go of it, then do it in order.
				s.s.letGo()
				send(tea.SuspendMsg{})
			case <-s.done:
				return
			}
		}
	})
	return s
}

func (s *signals) stop() {
	signal.Stop(s.c)
	s.s.letGo()
	close(s.done)
	s.wg.Wait()
}

// suspender gives the terminal back while the program is stopped.
type suspender struct{ c chan os.Signal }

func (s *signals) suspender() *suspender {
	if !jobControl() {
		return nil
	}
	return &s.s
}

func (s *suspender) listen() {
	if jobControl() {
		signal.Notify(s.c, syscall.SIGTSTP)
	}
}

func (s *suspender) letGo() { signal.Stop(s.c) }

// suspend is the command of ctrl+z.
func (s *suspender) suspend() tea.Msg {
	s.letGo()
	return tea.SuspendMsg{}
}

// resumed is the command of a program that goes on.
func (s *suspender) resumed() tea.Cmd {
	if s == nil {
		return nil
	}
	return func() tea.Msg { s.listen(); return nil }
}

// jobControl reports whether somebody could bring the program back. Without a
// shell in the same session, as in a container, the kernel discards SIGTSTP
// and the program would wait for ever to be stopped.
func jobControl() bool {
	self, err := unix.Getsid(0)
	if err != nil || self == os.Getpid() {
		return false
	}
	parent, err := unix.Getsid(os.Getppid())
	return err == nil && parent == self
}
