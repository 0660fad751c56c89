//go:build unix

package ui

import (
	"io"
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
				// Caught, it stops nothing by itself.
				send(s.s.suspend())
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
	return tea.Exec(stopped{}, func(error) tea.Msg { return tea.ResumeMsg{} })()
}

// stopped is what runs in the program's place while it is suspended: nothing,
// until somebody continues the job. It stops with SIGSTOP because a Go program
// that was ever notified of SIGTSTP keeps its handler, which stops nothing.
type stopped struct{}

func (stopped) Run() error {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGCONT)
	defer signal.Stop(c)
	if err := syscall.Kill(0, syscall.SIGSTOP); err != nil { // the whole job, as ctrl+z does
		return err
	}
	<-c
	return nil
}

func (stopped) SetStdin(io.Reader)  {}
func (stopped) SetStdout(io.Writer) {}
func (stopped) SetStderr(io.Writer) {}

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
