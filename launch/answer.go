package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// probeTimeout bounds one question to a socket on this machine.
const probeTimeout = 2 * time.Second

// Answer is what is known of a gateway that answers on a socket.
type Answer struct {
	// PID is the process that listens, 0 where the platform does not tell.
	PID int
}

// Probe asks the gateway on a unix socket whether it is well. The error says
// why not: nobody listens, or what listens does not answer as a gateway.
func Probe(ctx context.Context, socket string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var a Answer
	t := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, "unix", socket)
			if err == nil {
				a.PID = listenerPID(c)
			}
			return c, err
		},
	}
	defer t.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://gateway/healthz", nil)
	if err != nil {
		return Answer{}, err
	}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return Answer{}, fmt.Errorf("no gateway answers on %s: %w", socket, err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4096))
	if resp.StatusCode != http.StatusOK {
		return Answer{}, fmt.Errorf("what listens on %s is not a healthy gateway: GET /healthz says %s", socket, resp.Status)
	}
	return a, nil
}

// RunningError says that a gateway already answers on the socket. A console
// can connect to it.
type RunningError struct {
	Socket string
	PID    int // 0 if unknown
}

// Error implements error.
func (e *RunningError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("a gateway already answers on %s", e.Socket)
	}
	return fmt.Sprintf("a gateway already answers on %s (pid %d)", e.Socket, e.PID)
}

// IsRunning reports whether err says that a gateway already answers.
func IsRunning(err error) bool {
	_, ok := errors.AsType[*RunningError](err)
	return ok
}
