package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/operator/api"
	"failback/ui/text"
)

// answerTime bounds a text command's wait for the gateway.
const answerTime = 15 * time.Second

// load reads the configuration with what the command line sets.
func (in *invocation) load(ctx context.Context) (*config.Config, error) {
	flags := make(map[string]string)
	if in.listen != "" {
		flags["listen"] = in.listen
	}
	if in.cooldown != "" {
		flags["breaker.cooldown"] = in.cooldown
	}
	return config.Load(ctx, config.Source{Path: in.config, Env: os.LookupEnv, Flags: flags})
}

// target is the gateway that the command speaks to.
func (in *invocation) target() (string, error) {
	if in.connect != "" {
		return in.connect, nil
	}
	dir, err := config.DataDir(in.config)
	if err != nil {
		return "", err
	}
	return "unix:" + filepath.Join(dir, gateway.SocketName), nil
}

func (in *invocation) client(session string) (*api.Client, error) {
	target, err := in.target()
	if err != nil {
		return nil, err
	}
	o := api.Options{Session: session, ReadOnly: in.readOnly, UserAgent: "failback/" + programVersion()}
	if in.tokenFile != "" {
		token, err := os.ReadFile(in.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		o.Token = strings.TrimSpace(string(token))
	}
	if in.caFile != "" {
		pem, err := os.ReadFile(in.caFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		o.CAs = x509.NewCertPool()
		if !o.CAs.AppendCertsFromPEM(pem) {
			return nil, usagef("--ca-file: %s holds no certificate", in.caFile)
		}
	}
	c, err := api.NewClient(target, o)
	if err != nil {
		return nil, usagef("--connect: %v", err)
	}
	return c, nil
}

// with calls f with a client and prints what it returns.
func (in *invocation) with(f func(context.Context, *api.Client) (value any, plain string, err error)) error {
	c, err := in.client("")
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(in.ctx, answerTime)
	defer cancel()
	value, plain, err := f(ctx, c)
	if err != nil {
		if e, ok := errors.AsType[*api.Error](err); ok && in.json {
			_ = in.print(e, "")
			return errReported
		}
		return err
	}
	return in.print(value, plain)
}

func (in *invocation) print(value any, plain string) error {
	if !in.json {
		if !strings.HasSuffix(plain, "\n") {
			plain += "\n"
		}
		_, err := fmt.Fprint(in.out, plain)
		return err
	}
	b, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = in.out.Write(append(api.VisibleJSON(b), '\n')) // it may be read on a terminal
	return err
}

func (in *invocation) want(n int) error {
	if len(in.args) != n {
		return usagef("%s takes %d arguments, not %d; see --help", in.flags.Name(), n, len(in.args))
	}
	return nil
}

func runStatus(in *invocation) error {
	if err := in.want(0); err != nil {
		return err
	}
	return in.with(func(ctx context.Context, c *api.Client) (any, string, error) {
		s, err := c.State(ctx)
		if err != nil {
			return nil, "", err
		}
		r := &text.StatusReport{State: s, Fallback: fallbackFacts(ctx, c, s)}
		if es, err := c.Events(ctx, 0); err == nil { // without them the times are the least they can be
			slices.Reverse(es.Events)
			r.Changes = es.Events
		}
		return r, r.Status(), nil
	})
}

func runDecisions(in *invocation) error {
	if err := in.want(0); err != nil {
		return err
	}
	return in.with(func(ctx context.Context, c *api.Client) (any, string, error) {
		d, err := c.Decisions(ctx, api.Filter{Limit: in.limit, Task: in.task, Status: in.status, Provider: in.provider})
		if err != nil {
			return nil, "", err
		}
		return d, text.Decisions(d), nil
	})
}

func runStep(in *invocation) error {
	cmd := api.Command{Reason: in.reason, Override: in.override, Undo: in.undo}
	send := (*api.Client).SetShare
	if in.undo {
		if err := in.want(1); err != nil {
			return err
		}
		return in.move(cmd, send)
	}
	if err := in.want(2); err != nil {
		return err
	}
	switch word := in.args[1]; word {
	case api.ActionPlan, api.ActionManual:
		if in.override {
			return usagef("%s is about all steps: it takes no --override", word)
		}
		cmd.Action, send = word, (*api.Client).Plan
	default:
		share, err := strconv.Atoi(strings.TrimSuffix(word, "%"))
		if err != nil {
			return usagef("SHARE: %q is not one of 0, 5, 25, 75, 100, and not plan or manual", word)
		}
		cmd.Share = &share
	}
	return in.move(cmd, send)
}

func runState(in *invocation) error {
	if err := in.want(2); err != nil {
		return err
	}
	cmd := api.Command{State: in.args[1], Reason: in.reason, Override: in.override}
	switch {
	case cmd.State == api.Healthy || cmd.State == api.Suspect:
		return usagef("%s is measured, nobody sets it; degraded and recovering can be set", cmd.State)
	case cmd.State != api.Degraded && cmd.State != api.Recovering:
		return usagef("STATE: %q is not degraded or recovering", cmd.State)
	case cmd.State == api.Degraded && in.override:
		return usagef("nothing objects to degrading: it takes no --override")
	}
	return in.move(cmd, (*api.Client).SetState)
}

// move gives a command about the traffic of the upstream that the first
// argument names. What a refused one waits for is printed too: it says more
// than that it is refused.
func (in *invocation) move(cmd api.Command, send func(*api.Client, context.Context, string, api.Command) (*api.Result, error)) error {
	if in.revision != "" {
		n, err := strconv.ParseUint(in.revision, 10, 64)
		if err != nil {
			return usagef("--revision: %q is not a revision number", in.revision)
		}
		cmd.Revision = &n
	}
	return in.with(func(ctx context.Context, c *api.Client) (any, string, error) {
		if cmd.Revision == nil && !in.undo {
			if u := seenOf(ctx, c, in.args[0]); u != nil {
				cmd.Revision = &u.Revision
				if cmd.Share != nil {
					cmd.From = &u.Share
				}
			}
		}
		r, err := send(c, ctx, in.args[0], cmd)
		if e, ok := errors.AsType[*api.Error](err); ok && !in.json && e.Code == api.CodeBlocked && e.Upstream != nil &&
			(cmd.Share != nil || cmd.State != "" && e.Upstream.Health == api.Degraded) {
			fmt.Fprint(in.err, text.Evidence(e.Upstream, evidenceTime(e.Upstream)))
		}
		if err != nil {
			return nil, "", err
		}
		return r, text.Result(r), nil
	})
}

// seenOf is an upstream as it is, which is what a person sees who names no
// revision; nil if it cannot be had.
func seenOf(ctx context.Context, c *api.Client, upstream string) *api.Upstream {
	s, err := c.State(ctx)
	if err != nil {
		return nil
	}
	for i := range s.Upstreams {
		if s.Upstreams[i].Name == upstream {
			return &s.Upstreams[i]
		}
	}
	return nil
}

// evidenceTime is the gateway's clock as far as an upstream's state tells it.
func evidenceTime(u *api.Upstream) time.Time {
	var at time.Time
	if u.Evidence != nil {
		at = u.Evidence.At
	}
	for i := range u.Probes {
		if p := &u.Probes[i]; p.At.After(at) {
			at = p.At
		}
	}
	return at
}

func runBreaker(in *invocation) error {
	if err := in.want(2); err != nil {
		return err
	}
	return in.with(func(ctx context.Context, c *api.Client) (any, string, error) {
		cmd := api.Command{Action: in.args[1], Reason: in.reason}
		if cmd.Action != "auto" {
			cmd.For = in.lasts
		}
		r, err := c.SetBreaker(ctx, in.args[0], cmd)
		if err != nil {
			return nil, "", err
		}
		return r, text.Result(r), nil
	})
}

func runPassthrough(in *invocation) error {
	if err := in.want(1); err != nil {
		return err
	}
	cmd := api.Command{Action: in.args[0], Reason: in.reason}
	switch {
	case in.args[0] == "on" && len(in.order) == 0:
		return usagef("passthrough on needs --order A,B")
	case in.args[0] == "on":
		cmd.Order, cmd.For = in.order, in.lasts
	case in.args[0] != "off":
		return usagef("passthrough is on or off, not %q", in.args[0])
	}
	return in.with(func(ctx context.Context, c *api.Client) (any, string, error) {
		r, err := c.Passthrough(ctx, cmd)
		if err != nil {
			return nil, "", err
		}
		return r, text.Result(r), nil
	})
}

func runReload(in *invocation) error {
	if err := in.want(0); err != nil {
		return err
	}
	return in.with(func(ctx context.Context, c *api.Client) (any, string, error) {
		r, err := c.Reload(ctx, api.Command{Reason: in.reason})
		if err != nil {
			return nil, "", err
		}
		return r, text.Result(r), nil
	})
}

func runCheck(in *invocation) error {
	if err := in.want(0); err != nil {
		return err
	}
	cfg, err := in.load(in.ctx)
	if err != nil {
		return err
	}
	if in.show {
		_, err := in.out.Write(cfg.Show())
		return err
	}
	r := gateway.Check(cfg)
	return in.print(r, r.String())
}

func runToken(in *invocation) error {
	if err := in.want(0); err != nil {
		return err
	}
	token, hash := gateway.NewToken()
	return in.print(map[string]string{"token": token, "hash": hash},
		fmt.Sprintf("token: %s\nhash:  %s\n\nThe token is shown once. The hash goes into operator.tokens or keys.\n", token, hash))
}

func runVersion(in *invocation) error {
	return in.print(map[string]string{"version": programVersion()}, "failback "+programVersion())
}
