package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// StillRunningError says that a process was asked to stop and has not.
type StillRunningError struct {
	PID    int
	Waited time.Duration
}

// Error implements error.
func (e *StillRunningError) Error() string {
	return fmt.Sprintf("the gateway (pid %d) was asked to stop and still runs after %s: it may be finishing streams", e.PID, e.Waited.Round(time.Millisecond))
}

// Stop asks the process to stop (SIGTERM) and waits up to grace, or ctx's end,
// for it to be gone. If it is not, the error is a *StillRunningError and the
// process goes on stopping by itself. Stopping what has ended is no error.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	if p.hasEnded() {
		return nil
	}
	p.asked.Store(true)
	if err := terminate(p.process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ask the gateway (pid %d) to stop: %w", p.PID, err)
	}
	return p.gone(ctx, grace)
}

// Kill ends the process at once and waits up to grace for it to be gone. It
// refuses unless Stop was called before. It is for a gateway that serves
// nobody, such as the demo's; a gateway with clients is given its time.
func (p *Process) Kill(ctx context.Context, grace time.Duration) error {
	if p.hasEnded() {
		return nil
	}
	if !p.asked.Load() {
		return fmt.Errorf("the gateway (pid %d) was not asked to stop: it is not killed", p.PID)
	}
	if err := p.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the gateway (pid %d): %w", p.PID, err)
	}
	return p.gone(ctx, grace)
}

// gone waits until the process has ended.
func (p *Process) gone(ctx context.Context, grace time.Duration) error {
	began := time.Now()
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.ended:
		return nil
	case <-t.C:
	case <-ctx.Done():
	}
	if p.hasEnded() {
		return nil
	}
	return &StillRunningError{PID: p.PID, Waited: time.Since(began)}
}
