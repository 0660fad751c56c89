//go:build !unix

package ui

import (
	"os"
	"os/signal"
	"sync"

	tea "charm.land/bubbletea/v2"
)

// signals makes an interrupt end the program in order.
type signals struct {
	c    chan os.Signal
	done chan struct{}
	wg   sync.WaitGroup
}

func watchSignals(end func(), _ func(tea.Msg)) *signals {
	s := &signals{c: make(chan os.Signal, 1), done: make(chan struct{})}
	signal.Notify(s.c, os.Interrupt)
	s.wg.Go(func() {
		select {
		case <-s.c:
			end()
		case <-s.done:
		}
	})
	return s
}

func (s *signals) stop() {
	signal.Stop(s.c)
	close(s.done)
	s.wg.Wait()
}

// suspender does not exist here: there is no job control.
type suspender struct{}

func (s *signals) suspender() *suspender { return nil }

func (s *suspender) suspend() tea.Msg { return nil }
