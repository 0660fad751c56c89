package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	"failback/gateway/incident"
	"failback/gateway/operator"
	"failback/gateway/operator/api"
	"failback/gateway/traffic"
)

// view is r with what is not written into it yet.
func (i *incidents) view(r incident.Record) incident.Record {
	if r.Open() {
		r.Counts = r.Counts.Plus(i.tallies.Of(r.ID))
	}
	return r
}

// heads are the incidents, newest first; of the open ones alone the oldest first.
func (i *incidents) heads(open bool) (l []api.IncidentHead) {
	for _, r := range i.book.Records() {
		if open && !r.Open() {
			continue
		}
		_, unsynced, _ := i.book.Get(r.ID)
		l = append(l, incident.Head(r, unsynced))
	}
	if open {
		slices.Reverse(l)
	}
	return l
}

func (c *control) Incidents() api.Incidents {
	return api.Incidents{Incidents: c.incidents.heads(false), At: time.Now()}
}

func (c *control) Incident(id string) (api.Incident, error) {
	g := (*Gateway)(c)
	r, unsynced, ok := g.incidents.book.Get(id)
	if !ok {
		return api.Incident{}, noIncident(id)
	}
	r = g.incidents.view(r)
	return incident.View(r, unsynced, g.incidentFacts(r), time.Now()), nil
}

func noIncident(id string) error {
	return &api.Error{Code: api.CodeNotFound, Message: fmt.Sprintf("no incident %q", id), Hint: "failback incident list lists them"}
}

// incidentFacts is what is known of the closing questions of r.
func (g *Gateway) incidentFacts(r incident.Record) map[string]string {
	if len(r.Upstreams) == 0 {
		return incident.Facts(r, nil)
	}
	v := g.view()
	var standings []incident.Standing
	for _, name := range r.Upstreams {
		state, ok := g.traffic.Get(name)
		if !ok || v.setup.watched[name] == nil {
			continue
		}
		standings = append(standings, incident.Standing{
			Upstream: name, State: v.healthOf(name), Share: state.Share, Window: windowOf(v.setup, state),
		})
	}
	return incident.Facts(r, standings)
}

// windowOf says how far the window of the step in force is.
func windowOf(s *setup, state traffic.State) string {
	switch state.Condition() {
	case traffic.Degraded:
		return "none, its share is 0%"
	case traffic.Recovering:
		observe := s.observe(state)
		return fmt.Sprintf("share %d%%, %s of %s served", state.Share, min(state.Served, observe).Round(time.Second), observe)
	}
	if state.Share == traffic.Full {
		return "no failback is under way, share 100% since " + incident.Clock(state.Since)
	}
	return fmt.Sprintf("no failback is under way, share %d%%", state.Share)
}

// ChangeIncident does what an operator asks for of an incident; see
// operator.Control.
func (c *control) ChangeIncident(ctx context.Context, who operator.Actor, action, id string, cmd api.Command) (api.Result, error) {
	g := (*Gateway)(c)
	op, err := incidentOp(time.Now(), who, action, cmd)
	if err != nil {
		return api.Result{}, err
	}
	id, said, err := g.changeIncident(id, op, cmd.Override)
	if err != nil {
		return api.Result{}, err
	}
	return g.incidentResult(ctx, id, op, said)
}

// incidentOp is what is asked for, as a change of a record.
func incidentOp(now time.Time, who operator.Actor, action string, cmd api.Command) (incident.Op, error) {
	op := incident.Op{At: now, By: who.Name, Text: cmd.Reason}
	switch action {
	case operator.ActionIncidentOpen:
		op.Kind, op.Cause, op.Title, op.Text = incident.OpOpen, api.CauseOperator, cmd.Reason, ""
	case operator.ActionIncidentNote:
		op.Kind = incident.OpNote
	case operator.ActionIncidentTick:
		op.Kind, op.Runbook, op.Step, op.Done = incident.OpTick, cmd.Runbook, cmd.Step, *cmd.Done
	case operator.ActionIncidentAnswer:
		op.Kind, op.Question, op.Text, op.Seen = incident.OpAnswer, cmd.Question, cmd.Answer, cmd.Seen
	case operator.ActionIncidentClose:
		op.Kind = incident.OpClose
	case operator.ActionIncidentReopen:
		op.Kind = incident.OpReopen
	default:
		return op, fmt.Errorf("incidents: no such action: %s", action)
	}
	return op, nil
}

// changeIncident has op change the record of id, or open one, and says what was
// done. It waits for nothing.
func (g *Gateway) changeIncident(id string, op incident.Op, anyway bool) (_, said string, err error) {
	i := g.incidents
	i.changing.Lock()
	defer i.changing.Unlock()
	if op.Kind == incident.OpOpen {
		if err := i.room(); err != nil {
			return "", "", err
		}
		id = incident.NewID(op.At, salt())
		i.tell(op.At)
		i.begin(id, op, time.Time{}, false)
		i.follow(op.At)
		return id, "opened", nil
	}
	r, _, ok := i.book.Get(id)
	if !ok {
		return "", "", noIncident(id)
	}
	does, said, err := r.Weigh(op, anyway)
	if err != nil || !does {
		return id, said, err
	}
	switch op.Kind {
	case incident.OpClose:
		i.tell(op.At)
		i.flushCounts(op.At)
		r, _, _ = i.book.Get(id)
		op.Facts = g.incidentFacts(r)
	case incident.OpReopen:
		if err := i.room(); err != nil {
			return "", "", err
		}
	}
	i.book.Do(id, op, false)
	i.follow(op.At)
	return id, said, nil
}

// room refuses to open one more incident where too many are.
func (i *incidents) room() error {
	if n := len(i.heads(true)); n >= incident.MaxOpen {
		return &api.Error{Code: api.CodeFailed, Message: fmt.Sprintf("%d incidents are open already", n), Hint: "close those that are over"}
	}
	return nil
}

// incidentResult writes id down and says what became of op.
func (g *Gateway) incidentResult(ctx context.Context, id string, op incident.Op, said string) (api.Result, error) {
	i := g.incidents
	var err error
	if i.kept != nil {
		if err = i.kept.write(ctx, id); err != nil {
			g.alarm("incident " + id + ": " + err.Error())
		}
	}
	r, unsynced, ok := i.book.Get(id)
	if !ok {
		return api.Result{}, noIncident(id)
	}
	head := incident.Head(r, unsynced)
	said, refused := r.Became(op, said)
	if refused != nil {
		return api.Result{}, refused
	}
	message := fmt.Sprintf("incident %s: %s", r.ID, said)
	if err != nil {
		message += "; not written down yet: it is in memory alone"
	}
	return api.Result{Message: message, Incident: &head}, nil
}
