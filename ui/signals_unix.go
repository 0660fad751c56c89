//go:build unix

package ui

import (
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

// signals makes every signal that ends a program end this one in order, and a
// SIGTSTP from outside suspend it in order. After a SIGSTOP, which gives no
// warning, the terminal is taken back.
type signals struct {
	c    chan os.Signal
	cont chan os.Signal
	done chan struct{}
	wg   sync.WaitGroup
	s    suspender
}

func watchSignals(end func(), send func(tea.Msg)) *signals {
	s := &signals{c: make(chan os.Signal, 4), cont: make(chan os.Signal, 1), done: make(chan struct{})}
	s.s.c = make(chan os.Signal, 1)
	signal.Notify(s.c, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	signal.Notify(s.cont, syscall.SIGCONT)
	s.s.listen()
	s.wg.Go(func() {
		for {
			select {
			case <-s.c:
				end()
			case <-s.s.c:
				// Caught, it stops nothing by itself.
				send(s.s.suspend())
			case <-s.cont:
				// The shell had the terminal: modes and screen are its own.
				if !s.s.asleep.Load() {
					send(tea.Exec(nothing{}, func(error) tea.Msg { return tea.ResumeMsg{} })())
				}
			case <-s.done:
				return
			}
		}
	})
	return s
}

func (s *signals) stop() {
	signal.Stop(s.c)
	signal.Stop(s.cont)
	s.s.letGo()
	close(s.done)
	s.wg.Wait()
}

// suspender gives the terminal back while the program is stopped.
type suspender struct {
	c      chan os.Signal
	asleep atomic.Bool // stopped by itself: it takes the terminal back by itself
}

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
	return tea.Exec(stopped{s: s}, func(error) tea.Msg { return tea.ResumeMsg{} })()
}

// stopped is what runs in the program's place while it is suspended: nothing,
// until somebody continues the job. It stops with SIGSTOP because a Go program
// that was ever notified of SIGTSTP keeps its handler, which stops nothing.
type stopped struct {
	nothing
	s *suspender
}

func (p stopped) Run() error {
	p.s.asleep.Store(true)
	defer p.s.asleep.Store(false)
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGCONT)
	defer signal.Stop(c)
	if err := syscall.Kill(0, syscall.SIGSTOP); err != nil { // the whole job, as ctrl+z does
		return err
	}
	<-c
	return p.nothing.Run()
}

// nothing runs in the program's place for a moment: the terminal is given back
// and taken again, and all is drawn anew.
type nothing struct{}

// Run waits: the drawing that was stopped stops its ticker somewhat later, and
// would stop that of its successor if that were there already.
func (nothing) Run() error {
	<-time.After(50 * time.Millisecond)
	return nil
}

func (nothing) SetStdin(io.Reader)  {}
func (nothing) SetStdout(io.Writer) {}
func (nothing) SetStderr(io.Writer) {}

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
