package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// Options says what to start and how to know that it runs.
type Options struct {
	// Path is the program; empty: this one.
	Path string
	// Args follow the program's name: "serve", "--config", ...
	Args []string
	// Env is the environment; nil: this process's.
	Env []string
	// Socket is the operator socket on which the gateway will answer.
	Socket string
	// Log is the file to which its output is appended. It is created readable
	// by the owner alone, with its directory.
	Log string
	// Stdin is what the gateway reads; nil: nothing. A pipe whose other end
	// this process holds tells a child that is meant to end with it.
	Stdin *os.File
	// Wait bounds the time until it answers; 0: 15 s.
	Wait time.Duration
}

const (
	defaultWait = 15 * time.Second
	// pollEvery is how often a starting gateway is asked.
	pollEvery = 20 * time.Millisecond
	// undoGrace is how long a gateway that never answered has to stop.
	undoGrace = 5 * time.Second
)

// Process is a gateway that Start started. Its methods may be called from any
// goroutine.
type Process struct {
	// PID is its process id.
	PID int
	// Log is the file with its output.
	Log string

	process *os.Process
	ended   chan struct{} // closed once it has been waited for
	err     error         // of Wait; read after ended
	asked   atomic.Bool   // Stop was called
}

// Start starts a gateway in a session of its own and waits until it answers.
//
// If one answers already, nothing is started and the error is a
// *RunningError. If the new process ends before it answers, the error holds
// the end of its output. If ctx or Wait ends first, it is asked to stop, and
// the error names its pid if it does not.
//
// One goroutine waits for the process, as long as that lives, so that it does
// not stay behind as a zombie.
func Start(ctx context.Context, o Options) (*Process, error) {
	if a, err := Probe(ctx, o.Socket); err == nil {
		return nil, &RunningError{Socket: o.Socket, PID: a.PID}
	}
	path := o.Path
	if path == "" {
		var err error
		if path, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find this program, to start it as a gateway: %w", err)
		}
	}
	log, from, err := openLog(o.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(path, o.Args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = o.Env, log, log
	if o.Stdin != nil {
		cmd.Stdin = o.Stdin
	}
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	p := &Process{
		PID: cmd.Process.Pid, Log: o.Log, process: cmd.Process,
		ended: make(chan struct{}),
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p.await(ctx, o, from)
}

// await returns p once it answers.
func (p *Process) await(ctx context.Context, o Options, from int64) (*Process, error) {
	wait := o.Wait
	if wait <= 0 {
		wait = defaultWait
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("no answer on %s within %s", o.Socket, wait))
	defer cancel()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		a, err := Probe(ctx, o.Socket)
		if err == nil && (a.PID == 0 || a.PID == p.PID) && !p.hasEnded() {
			return p, nil
		}
		select {
		case <-p.ended:
			// Another start may have been quicker.
			if a, err := Probe(context.WithoutCancel(ctx), o.Socket); err == nil {
				return nil, &RunningError{Socket: o.Socket, PID: a.PID}
			}
			return nil, p.early(from)
		case <-ctx.Done():
			return nil, p.undo(context.Cause(ctx), from)
		case <-poll.C:
		}
	}
}

// early describes the end of a process that never answered.
func (p *Process) early(from int64) error {
	how := "it ended without an error"
	if p.err != nil {
		how = p.err.Error()
	}
	if t := tail(p.Log, from); t != "" {
		return fmt.Errorf("the gateway ended before it answered (%s); the end of %s:\n%s", how, p.Log, t)
	}
	return fmt.Errorf("the gateway ended before it answered (%s) and wrote nothing to %s", how, p.Log)
}

// undo stops a process that did not answer in time.
func (p *Process) undo(cause error, from int64) error {
	err := fmt.Errorf("the gateway (pid %d) did not start: %w", p.PID, cause)
	if t := tail(p.Log, from); t != "" {
		err = fmt.Errorf("%w; the end of %s:\n%s", err, p.Log, t)
	}
	return errors.Join(err, p.Stop(context.Background(), undoGrace))
}

// Ended is closed once the process is no more.
func (p *Process) Ended() <-chan struct{} { return p.ended }

func (p *Process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}
