package sources

import (
	"context"
	"errors"
	"fmt"
	"time"

	"failback/gateway/operator/api"
)

const (
	// GatewayEvery is how often the gateway is asked.
	GatewayEvery = time.Second
	// GatewayPeriod is how old a sample of the gateway may be in good order: it
	// takes one each second and is asked each second.
	GatewayPeriod = 2 * time.Second
	// GatewayTimeout is how long an answer is waited for.
	GatewayTimeout = 3 * time.Second
	// CommandTimeout is how long the answer to a command is waited for: the
	// gateway writes its audit to disk first.
	CommandTimeout = 15 * time.Second
)

// API is what the console asks of a gateway; an *api.Client is one. What it
// returns without an error has a time (At).
type API interface {
	Target() string
	State(ctx context.Context) (*api.State, error)
	Decisions(ctx context.Context, f api.Filter) (*api.Decisions, error)
	Events(ctx context.Context, after uint64) (*api.Events, error)
	SetShare(ctx context.Context, upstream string, cmd api.Command) (*api.Result, error)
	Plan(ctx context.Context, upstream string, cmd api.Command) (*api.Result, error)
	SetState(ctx context.Context, upstream string, cmd api.Command) (*api.Result, error)
	Incidents(ctx context.Context) (*api.Incidents, error)
	Incident(ctx context.Context, id string) (*api.Incident, error)
	OpenIncident(ctx context.Context, title string) (*api.Result, error)
	IncidentNote(ctx context.Context, id, text string) (*api.Result, error)
	IncidentTick(ctx context.Context, id string, t api.Tick) (*api.Result, error)
	IncidentAnswer(ctx context.Context, id, question, answer string, seen time.Time) (*api.Result, error)
	CloseIncident(ctx context.Context, id string) (*api.Result, error)
	CloseIncidentAnyway(ctx context.Context, id, reason string) (*api.Result, error)
	ReopenIncident(ctx context.Context, id string) (*api.Result, error)
}

// Gateway asks one gateway. It is safe for concurrent use.
type Gateway struct{ API }

// State asks for the state; gen is the question's, from Feed.Ask.
func (g Gateway) State(ctx context.Context, gen uint64) Answer[api.State] {
	return ask(ctx, gen, g.API.State, func(s *api.State) time.Time { return s.At })
}

// Decisions asks for the newest decisions that match f.
func (g Gateway) Decisions(ctx context.Context, gen uint64, f api.Filter) Answer[api.Decisions] {
	return ask(ctx, gen, func(ctx context.Context) (*api.Decisions, error) { return g.API.Decisions(ctx, f) },
		func(d *api.Decisions) time.Time { return d.At })
}

// Events asks for the events after a sequence number.
func (g Gateway) Events(ctx context.Context, gen, after uint64) Answer[api.Events] {
	return ask(ctx, gen, func(ctx context.Context) (*api.Events, error) { return g.API.Events(ctx, after) },
		func(e *api.Events) time.Time { return e.At })
}

// Incidents asks for all incidents, newest first, without their timelines.
func (g Gateway) Incidents(ctx context.Context, gen uint64) Answer[api.Incidents] {
	return ask(ctx, gen, g.API.Incidents, func(v *api.Incidents) time.Time { return v.At })
}

// Incident asks for one whole incident.
func (g Gateway) Incident(ctx context.Context, gen uint64, id string) Answer[api.Incident] {
	return ask(ctx, gen, func(ctx context.Context) (*api.Incident, error) { return g.API.Incident(ctx, id) },
		func(v *api.Incident) time.Time { return v.At })
}

// Give gives the command that f sends, within CommandTimeout.
func (g Gateway) Give(ctx context.Context, f func(context.Context, API) (*api.Result, error)) (*api.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, CommandTimeout)
	defer cancel()
	return f(ctx, g.API)
}

// SetShare gives a command, within CommandTimeout.
func (g Gateway) SetShare(ctx context.Context, upstream string, cmd api.Command) (*api.Result, error) {
	return g.Give(ctx, func(ctx context.Context, a API) (*api.Result, error) { return a.SetShare(ctx, upstream, cmd) })
}

// Plan approves a plan or takes the approval back, within CommandTimeout.
func (g Gateway) Plan(ctx context.Context, upstream string, cmd api.Command) (*api.Result, error) {
	return g.Give(ctx, func(ctx context.Context, a API) (*api.Result, error) { return a.Plan(ctx, upstream, cmd) })
}

// SetState gives a command, within CommandTimeout.
func (g Gateway) SetState(ctx context.Context, upstream string, cmd api.Command) (*api.Result, error) {
	return g.Give(ctx, func(ctx context.Context, a API) (*api.Result, error) { return a.SetState(ctx, upstream, cmd) })
}

func ask[T any](ctx context.Context, gen uint64, question func(context.Context) (*T, error), at func(*T) time.Time) Answer[T] {
	ctx, cancel := context.WithTimeout(ctx, GatewayTimeout)
	defer cancel()
	a := Answer[T]{Gen: gen}
	a.Clock.Sent = time.Now()
	v, err := question(ctx)
	a.Clock.Received = time.Now()
	if err != nil {
		a.Err = err
		return a
	}
	a.Value, a.Clock.At = v, at(v)
	return a
}

// Why writes in a few words why a source does not answer. The whole text is
// err's own.
func Why(err error) string {
	if err == nil {
		return "no answer"
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		if e.HTTPStatus != 0 {
			return fmt.Sprintf("%d %s: %s", e.HTTPStatus, e.Code, e.Message)
		}
		return e.Code + ": " + e.Message
	}
	if e, ok := errors.AsType[*RemoteError](err); ok {
		return e.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within " + GatewayTimeout.String()
	}
	if e, ok := errors.AsType[*api.UnreachableError](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[interface {
		error
		Temporary() bool
		Timeout() bool
		Is(error) bool
	}](err); ok { // a syscall.Errno, on every platform
		return e.Error()
	}
	return err.Error()
}
