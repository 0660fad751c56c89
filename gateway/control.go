package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/decision"
	"failback/gateway/operator"
	"failback/gateway/operator/api"
	"failback/gateway/router"
	"failback/gateway/traffic"
)

// control is the gateway as its operators command it; see operator.Control.
type control Gateway

func (c *control) SetShare(_ context.Context, who operator.Actor, name string, cmd api.Command) (api.Result, error) {
	g := (*Gateway)(c)
	s := g.setup.Load()
	if s.upstreams[name] == nil {
		return api.Result{}, notFound("upstream", name)
	}
	before, _ := g.traffic.Get(name)
	switch cmd.Action {
	case api.ActionPlan:
		return g.moved(name, before)(g.traffic.Approve(name, who.Name, cmd.Reason, *cmd.Revision))
	case api.ActionManual:
		return g.moved(name, before)(g.traffic.Withdraw(name, who.Name))
	}
	command := traffic.Command{
		Upstream:  name,
		Revision:  cmd.Revision,
		Raise:     cmd.Raises(),
		By:        who.Name,
		Why:       cmd.Reason,
		Override:  cmd.Override,
		Undo:      cmd.Undo,
		BlockedBy: g.view().blockedBy(name),
		Collapse:  len(s.primaryOf(name)) == 0,
	}
	if cmd.Share != nil {
		command.Share = *cmd.Share
	}
	after, err := g.traffic.Set(command)
	res, err := g.moved(name, before)(after, err)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeBlocked && !cmd.Undo && !cmd.Override {
		e.Hint = "--override --reason WHY does it all the same"
	}
	return res, err
}

func (c *control) SetState(ctx context.Context, who operator.Actor, name string, cmd api.Command) (api.Result, error) {
	g := (*Gateway)(c)
	s := g.setup.Load()
	if s.upstreams[name] == nil {
		return api.Result{}, notFound("upstream", name)
	}
	before, _ := g.traffic.Get(name)
	if cmd.State == api.Degraded {
		return g.moved(name, before)(g.traffic.Degrade(traffic.Degradation{Upstream: name, By: who.Name, Why: cmd.Reason}))
	}
	if before.Condition() != traffic.Degraded {
		return api.Result{}, &api.Error{
			Code: api.CodeBlocked, Message: name + " is " + before.Condition().String() + ", not degraded: there is nothing to recover from",
			Hint: "failback step " + name + " SHARE sets its share", Upstream: g.upstreamState(name),
		}
	}
	first, none := s.nextStep(before), 0
	return c.SetShare(ctx, who, name, api.Command{Share: &first, From: &none, Revision: cmd.Revision, Reason: cmd.Reason, Override: cmd.Override})
}

// moved puts what the share table says of a command into the API's words.
func (g *Gateway) moved(name string, before traffic.State) func(traffic.State, error) (api.Result, error) {
	return func(after traffic.State, err error) (api.Result, error) {
		if err != nil {
			return api.Result{}, g.shareError(name, err)
		}
		u := g.upstreamState(name)
		return api.Result{Message: movement(name, before, after, u.PlanTakes(g.setup.Load().cfg.Failback.Advance)), Upstream: u}, nil
	}
}

// movement says for people what became of an upstream, whose plan takes what
// takes says.
func movement(name string, before, after traffic.State, takes string) string {
	message := fmt.Sprintf("%s: share %d%% > %d%%, revision %d", name, before.Share, after.Share, after.Revision)
	switch {
	case before.Revision == after.Revision && before.Share == after.Share:
		message = fmt.Sprintf("%s: share is %d%% already, revision %d", name, after.Share, after.Revision)
		if after.Plan != nil {
			message += fmt.Sprintf(", a plan is approved by %s: %s", after.Plan.By, takes)
		}
	case before.Share == after.Share && after.Plan != nil && before.Plan == nil:
		message = fmt.Sprintf("%s: the plan is approved: %s; revision %d", name, takes, after.Revision)
	case before.Share == after.Share && after.Plan == nil && before.Plan != nil && after.Condition() == traffic.Degraded:
		message = fmt.Sprintf("%s: degraded by %s, the plan of %s is over, revision %d", name, after.StateBy, before.Plan.By, after.Revision)
	case before.Share == after.Share && after.Plan == nil && before.Plan != nil:
		message = fmt.Sprintf("%s: the next step waits for an operator again, revision %d", name, after.Revision)
	case before.Share == after.Share:
		message = fmt.Sprintf("%s: %s by %s, share stays at %d%%, revision %d", name, after.Condition(), after.StateBy, after.Share, after.Revision)
	}
	if after.Unsynced {
		message += ", UNSYNCED: in force here, not yet written down"
	}
	return message
}

// shareError puts a refusal of the share table into the API's words.
func (g *Gateway) shareError(name string, err error) error {
	if e, ok := errors.AsType[*traffic.StaleError](err); ok {
		return &api.Error{
			Code:     api.CodeStaleRevision,
			Message:  e.Error(),
			Hint:     fmt.Sprintf("look again: the revision is %d now", e.Current.Revision),
			Upstream: g.upstreamState(name),
		}
	}
	if e, ok := errors.AsType[*traffic.BlockedError](err); ok {
		return &api.Error{
			Code:     api.CodeBlocked,
			Message:  e.Error(),
			Upstream: g.upstreamState(name),
		}
	}
	if e, ok := errors.AsType[*traffic.InvalidError](err); ok {
		return &api.Error{Code: api.CodeInvalid, Message: e.Error()}
	}
	if e, ok := errors.AsType[*traffic.WriteError](err); ok {
		return &api.Error{
			Code: api.CodeFailed, Message: e.Error(), Hint: "nothing changed; a lowering goes through all the same",
			Upstream: g.upstreamState(name),
		}
	}
	return err
}

func (c *control) SetBreaker(ctx context.Context, who operator.Actor, bucket string, cmd api.Command) (api.Result, error) {
	g := (*Gateway)(c)
	b, _ := decision.ParseBucket(bucket)
	if g.setup.Load().upstreams[b.Upstream] == nil {
		return api.Result{}, notFound("upstream", b.Upstream)
	}
	lasts := time.Duration(0)
	if cmd.For != "" {
		d, err := time.ParseDuration(cmd.For)
		if err != nil {
			return api.Result{}, &api.Error{Code: api.CodeInvalid, Message: "for: " + err.Error()}
		}
		lasts = d
	}
	if err := g.force(b, cmd.Action, lasts, who.Name); err != nil {
		return api.Result{}, &api.Error{Code: api.CodeInvalid, Message: err.Error()}
	}
	message := fmt.Sprintf("%s: breaker is forced %s for %s at %s", b, cmd.Action, spoken(lasts), scope(g.startedWith))
	if cmd.Action == breaker.ActionAuto {
		message = fmt.Sprintf("%s: breaker decides by itself again at %s", b, scope(g.startedWith))
	}
	var o *override
	if cmd.Action != breaker.ActionAuto {
		o = &override{Action: cmd.Action, Until: time.Now().Add(lasts), By: who.Name, Why: cmd.Reason}
	}
	message = g.keepOverride(ctx, b.String(), o, message)
	return api.Result{Message: message, Upstream: g.upstreamState(b.Upstream)}, nil
}

func (c *control) Passthrough(ctx context.Context, who operator.Actor, cmd api.Command) (api.Result, error) {
	g := (*Gateway)(c)
	if cmd.Action == "off" {
		message := "passthrough is off already at " + scope(g.startedWith)
		if was := g.router.Passthrough(); was != nil {
			g.router.SetPassthrough(nil)
			g.event(decision.Event{Kind: decision.KindPassthrough, From: "on", To: "off", By: who.Name, Why: cmd.Reason})
			message = "passthrough is off at " + scope(g.startedWith) + ": share and breakers decide again"
		}
		return api.Result{Message: g.keepOverride(ctx, passthroughKey, nil, message)}, nil
	}
	known := g.setup.Load().upstreams
	for _, name := range cmd.Order {
		if known[name] == nil {
			return api.Result{}, notFound("upstream", name)
		}
	}
	lasts, err := time.ParseDuration(cmd.For)
	if err != nil || lasts <= 0 {
		return api.Result{}, &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf("for: %q is not a duration above 0, such as 30m", cmd.For)}
	}
	p := &router.Passthrough{Order: cmd.Order, Until: time.Now().Add(lasts), By: who.Name, Why: cmd.Reason}
	g.passthrough(p)
	g.event(decision.Event{
		Kind: decision.KindPassthrough, From: "off", To: "on", By: who.Name, Why: cmd.Reason,
		Detail: fmt.Sprintf("order %v for %s", cmd.Order, spoken(lasts)),
	})
	message := fmt.Sprintf("passthrough is on at %s until %s, order %v: share and breakers are ignored", scope(g.startedWith), p.Until.UTC().Format(time.TimeOnly+"Z"), cmd.Order)
	message = g.keepOverride(ctx, passthroughKey, &override{Action: "passthrough", Order: p.Order, Until: p.Until, By: p.By, Why: p.Why}, message)
	return api.Result{Message: message}, nil
}

// passthrough begins p and tells its end, unless something else ends it first.
func (g *Gateway) passthrough(p *router.Passthrough) {
	g.router.SetPassthrough(p)
	end := time.AfterFunc(time.Until(p.Until), func() {
		if g.router.EndPassthrough(p) {
			g.event(decision.Event{Kind: decision.KindPassthrough, From: "on", To: "off", By: decision.Auto, Detail: "its time is over"})
		}
	})
	if was := g.passthroughEnd.Swap(end); was != nil {
		was.Stop()
	}
}

func (c *control) Reload(ctx context.Context, who operator.Actor) (api.Result, error) {
	report, err := (*Gateway)(c).Reload(ctx, who.Name)
	if err != nil {
		return api.Result{}, &api.Error{
			Code: api.CodeInvalid, Message: err.Error(), Hint: "the configuration in force stays; mend the file and reload again",
		}
	}
	message := "reloaded, nothing changed"
	if len(report) > 0 {
		message = fmt.Sprintf("reloaded; keys changed: %d", len(report))
	}
	return api.Result{Message: message, Report: report}, nil
}

// spoken writes a span without its zeros: 1h, not 1h0m0s.
func spoken(d time.Duration) string {
	s := d.String()
	s, _ = strings.CutSuffix(s, "m0s")
	if s != d.String() {
		s += "m"
	}
	if t, ok := strings.CutSuffix(s, "h0m"); ok {
		s = t + "h"
	}
	return s
}

func notFound(what, name string) error {
	return &api.Error{Code: api.CodeNotFound, Message: fmt.Sprintf("no %s %q", what, name), Hint: "failback status lists them"}
}
