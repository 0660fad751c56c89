package upstream

import (
	"context"
	"errors"

	"failback/gateway/decision"
)

// Causes with which the context of an attempt is cancelled by who runs it.
// Without one a cancelled context means that the client is gone, and a passed
// deadline that our own part of the time ran out.
var (
	ErrClientGone = errors.New("client is gone")
	ErrMoved      = errors.New("bucket opened while the attempt waited")
)

// ended returns the class of an attempt that its context ended: by who runs
// it, else by its own watch. It returns an empty class if neither did. Which
// of several came first does not matter: a client that is gone, and a move,
// are nobody's fault, and so go before limits that passed meanwhile.
func (x *exchange) ended() (decision.Class, string) {
	if x.parent.Err() != nil {
		cause := context.Cause(x.parent)
		switch {
		case errors.Is(cause, ErrMoved):
			return decision.LocalRefusal, "given up: the bucket opened"
		case errors.Is(cause, context.DeadlineExceeded):
			return decision.AttemptTimeout, "the deadline passed"
		}
		return decision.ClientGone, "the client is gone"
	}
	switch cause := context.Cause(x.ctx); cause {
	case errFirstOutput:
		return decision.FirstOutputTimeout, "no output in time"
	case errWhole:
		return decision.AttemptTimeout, "no whole answer in time"
	case errIdle:
		return decision.IdleTimeout, "the stream fell silent"
	case errMax:
		return decision.AttemptTimeout, "the stream took too long"
	case errSlowClient:
		return decision.ClientGone, "the client does not read"
	}
	return "", ""
}
