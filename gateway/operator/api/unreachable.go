package api

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// UnreachableError says that a gateway does not answer, or that what answers
// is no gateway. Its text names the target and what to do.
type UnreachableError struct {
	Target string
	Hint   string
	Err    error
	// MayHaveHappened says that a command went out and its answer did not come
	// back.
	MayHaveHappened bool
}

func (e *UnreachableError) Error() string {
	s := "no answer from " + e.Target + ": " + e.Err.Error()
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// unreachable names the cause of a failed exchange. Where the caller's own
// context ended, that is the cause.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // its text repeats the whole URL
	}
	e := &UnreachableError{Target: c.target, Err: err}
	unix := strings.HasPrefix(c.target, "unix:")
	_, dns := errors.AsType[*net.DNSError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, hostname := errors.AsType[x509.HostnameError](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e.Err = context.Canceled
	case ctx.Err() != nil:
		e.Err = context.DeadlineExceeded
		e.Hint = "the gateway may be stopped or overloaded, or the way to it is blocked"
	case unix && errors.Is(err, fs.ErrNotExist):
		e.Hint = "there is no such socket: is the gateway running, and is this its data_dir?"
	case unix && errors.Is(err, fs.ErrPermission):
		e.Hint = "you may not open the socket: be a member of its group, or use sudo"
	case unix && errors.Is(err, syscall.ECONNREFUSED):
		e.Hint = "nobody listens on the socket: start the gateway with failback serve"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Hint = "nobody listens there: is the gateway running, and is this its operator.listen?"
	case dns:
		e.Hint = "the name does not resolve"
	case authority:
		e.Hint = "its certificate is signed by nobody known here: pass the CA's file"
	case hostname:
		e.Hint = "its certificate is for another name"
	case errors.Is(err, http.ErrSchemeMismatch):
		e.Hint = "it does not speak TLS: use http:// on loopback, or set operator.tls"
	}
	return e
}
