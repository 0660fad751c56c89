package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"failback/gateway/decision"
	"failback/gateway/internal/panicsite"
	"failback/gateway/operator/api"
)

// The actions of the audit and of operator_command events.
const (
	actionShare       = "share"
	actionState       = "state"
	actionBreaker     = "breaker"
	actionPassthrough = "passthrough"
	actionReload      = "reload"
	actionUnknown     = "unknown"
)

// command serves a POST. What it does, in this order: read the command; refuse
// what is malformed or not the caller's to do; write down that it was asked
// for; do it; write down what came of it; tell everybody. Only what is on the safe
// side does not wait for the audit: see safeSide.
func (s *Server) command(w http.ResponseWriter, r *http.Request, id identity, action string) {
	e := entryOf(r, id, action, targetOf(r))
	c, refused := readCommand(w, r, action, targetOf(r))
	describe(&e, c)
	if id.role != api.RoleOperator {
		refused = forbidden(id)
	}
	if refused != nil {
		s.auditRefused(e, refused)
		s.refuse(w, refused)
		return
	}
	end, ok := s.begin()
	if !ok {
		refused = &api.Error{Code: api.CodeFailed, Message: "nothing was changed: the gateway is stopping", HTTPStatus: http.StatusServiceUnavailable}
		s.auditRefused(e, refused)
		s.refuse(w, refused)
		return
	}
	defer end()
	res, refused := s.perform(r, id, e, c)
	if refused != nil {
		s.refuse(w, refused)
		return
	}
	s.answer(w, http.StatusOK, res)
}

// targetOf is the upstream, bucket or incident in r's path, empty where its route
// has none.
func targetOf(r *http.Request) string {
	return r.PathValue("upstream") + r.PathValue("bucket") + r.PathValue("id")
}

// perform carries out a command that is well-formed and allowed.
func (s *Server) perform(r *http.Request, id identity, e api.AuditEntry, c api.Command) (*api.Result, *api.Error) {
	now := s.current(id, e)
	e.From = now.value
	if !onSafeSide(e.Action, c, now) {
		e.Phase = api.PhaseAsked
		if err := s.audit.append(e, auditWait); err != nil {
			refused := &api.Error{
				Code:       api.CodeFailed,
				Message:    "nothing was changed: the audit cannot be written: " + err.Error(),
				Hint:       safeSideNames + " work without it",
				HTTPStatus: http.StatusServiceUnavailable,
			}
			s.finish(e, nil, refused)
			return nil, refused
		}
	}
	// The command goes on if the connection of whoever gave it does not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), commandTimeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	res, err := s.do(ctx, id.actor(), e, c)
	if err != nil {
		refused := asError(err)
		if refused.Code == api.CodeStaleRevision && refused.LastWrite == nil {
			refused.LastWrite = s.writes.newest(e.Target)
			if u := refused.Upstream; u != nil {
				refused.LastWrite = lastWrite(refused.LastWrite, []api.Upstream{*u}, s.events.revision)
			}
		}
		s.finish(e, nil, refused)
		return nil, refused
	}
	if s.finish(e, &res, nil) != nil {
		res.AuditPending = true
	}
	return &res, nil
}

// do hands the command to the gateway. A panic in there becomes an error, so
// that the audit has its result.
func (s *Server) do(ctx context.Context, who Actor, e api.AuditEntry, c api.Command) (res api.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Log(fmt.Sprintf("operator API: panic in command %s %s: %v at %s", e.Action, e.Target, p, panicsite.Name()))
			err = &api.Error{Code: api.CodeFailed, Message: "internal error: it is not known whether the command took effect", Hint: "the gateway's log says more"}
		}
	}()
	switch e.Action {
	case actionShare:
		res, err = s.o.Control.SetShare(ctx, who, e.Target, c)
	case actionState:
		res, err = s.o.Control.SetState(ctx, who, e.Target, c)
	case actionBreaker:
		res, err = s.o.Control.SetBreaker(ctx, who, e.Target, c)
	case actionPassthrough:
		res, err = s.o.Control.Passthrough(ctx, who, c)
	case actionReload:
		res, err = s.o.Control.Reload(ctx, who)
	case ActionIncidentOpen, ActionIncidentNote, ActionIncidentTick, ActionIncidentAnswer, ActionIncidentClose, ActionIncidentReopen:
		res, err = s.o.Control.ChangeIncident(ctx, who, e.Action, e.Target, c)
	default:
		err = fmt.Errorf("no such action: %s", e.Action)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = &api.Error{Code: api.CodeFailed, Message: fmt.Sprintf("the command did not finish within %v", commandTimeout), Hint: "look at the state before you repeat it"}
	}
	return res, err
}

// finish writes down and tells what came of a command that reached the gateway.
// Its error says that the entry is not on disk yet.
func (s *Server) finish(e api.AuditEntry, res *api.Result, refused *api.Error) error {
	e.Time, e.Phase = time.Now(), api.PhaseDone
	if refused != nil {
		setRefusal(&e, refused)
	} else {
		e.Result, e.Status, e.Message = api.ResultOK, http.StatusOK, res.Message
		if res.Upstream != nil {
			e.NewRevision = res.Upstream.Revision
			switch {
			case e.Action == actionState:
				e.To = res.Upstream.Health
			case e.Action == actionShare && e.To != api.ActionPlan && e.To != api.ActionManual:
				e.To = strconv.Itoa(res.Upstream.Share)
			}
		}
		if res.Incident != nil {
			e.Target = res.Incident.ID // of one that was opened it was not known before
		}
		s.writes.add(e.Action, e.Target, s.o.EventLine(decisionEvent(e)))
	}
	err := s.audit.append(e, lateAuditWait)
	s.o.OnEvent(decisionEvent(e))
	return err
}

// auditRefused writes down and tells a command that never reached the gateway.
// The refusal stands whether or not it can be written.
func (s *Server) auditRefused(e api.AuditEntry, refused *api.Error) {
	e.Phase = api.PhaseRefused
	setRefusal(&e, refused)
	_ = s.audit.append(e, lateAuditWait)
	s.o.OnEvent(decisionEvent(e))
}

// auditAnonymous is auditRefused for a caller that was not let in. Such callers
// may be many and mean harm: only a few of them are written, the rest is
// counted, and nothing of what they sent is kept but the path.
func (s *Server) auditAnonymous(r *http.Request, rt route, refused *api.Error) {
	skipped, ok := s.anonymous.allow(time.Now())
	if !ok {
		return
	}
	action, target := rt.action, targetOf(r)
	if action == "" {
		action, target = actionUnknown, r.URL.Path
	}
	e := entryOf(r, nobody, action, target)
	e.Session = ""
	e.Suppressed = skipped
	s.auditRefused(e, refused)
}

// current is what a command is about to change.
type current struct {
	value string // for the audit
	share int
	known bool
}

// current reads the target's state. Failing to is no reason to refuse a
// command.
func (s *Server) current(id identity, e api.AuditEntry) (c current) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Log(fmt.Sprintf("operator API: panic in State: %v at %s", p, panicsite.Name()))
			c = current{}
		}
	}()
	if strings.HasPrefix(e.Action, incidentAction) {
		return c // the answer tells it, and a timeline what was before
	}
	st := s.o.Control.State(id.you())
	switch e.Action {
	case actionShare:
		for i := range st.Upstreams {
			if u := &st.Upstreams[i]; u.Name == e.Target {
				return current{value: strconv.Itoa(u.Share), share: u.Share, known: true}
			}
		}
	case actionState:
		for i := range st.Upstreams {
			if u := &st.Upstreams[i]; u.Name == e.Target {
				return current{value: u.Health}
			}
		}
	case actionBreaker:
		for i := range st.Upstreams {
			for _, b := range st.Upstreams[i].Breakers {
				if b.Bucket != e.Target {
					continue
				}
				if b.Forced != "" {
					return current{value: "forced " + b.Forced}
				}
				return current{value: b.State}
			}
		}
	case actionPassthrough:
		c.value = "off"
		if st.Passthrough != nil {
			c.value = "on"
		}
	case actionReload:
		c.value = st.Config.Hash
	}
	return c
}

// entryOf begins the audit entry of r.
func entryOf(r *http.Request, id identity, action, target string) api.AuditEntry {
	e := api.AuditEntry{
		Time:   time.Now(),
		ID:     newCommandID(),
		By:     id.name,
		Role:   id.role,
		Via:    id.via,
		Action: action,
		Target: cutText(target, maxNameLength),
	}
	if id := r.Header.Get(api.SessionHeader); validSession(id) {
		e.Session = id
	}
	return e
}

// describe adds what c asks for. It holds for a malformed command too: what was
// not read is not there.
func describe(e *api.AuditEntry, c api.Command) {
	e.Why = audited(c.Reason, maxReasonLength)
	e.Revision, e.Override, e.Undo = c.Revision, c.Override || c.Undo, c.Undo // an undo asks for no evidence either
	e.For = audited(c.For, maxNameLength)
	for _, name := range c.Order[:min(len(c.Order), maxOrder)] {
		e.Order = append(e.Order, audited(name, maxNameLength))
	}
	switch {
	case c.Undo:
		e.To = "undo"
	case c.Share != nil:
		e.To = strconv.Itoa(*c.Share)
	case e.Action == ActionIncidentAnswer:
		e.To = audited(c.Question, maxNameLength)
		e.Why = audited(c.Answer, maxReasonLength)
	case e.Action == ActionIncidentTick:
		e.To = tickAsked(c)
	case c.State != "":
		e.To = audited(c.State, maxNameLength)
	default:
		e.To = audited(c.Action, maxNameLength)
	}
}

// tickAsked is as much as c says of a tick: runbook, step, and whether it is done.
func tickAsked(c api.Command) string {
	var parts []string
	if c.Runbook != "" {
		parts = append(parts, audited(c.Runbook, maxNameLength))
	}
	if c.Step != 0 {
		parts = append(parts, fmt.Sprintf("step %d", c.Step))
	}
	switch {
	case c.Done == nil:
	case *c.Done:
		parts = append(parts, "done")
	default:
		parts = append(parts, "not done")
	}
	return strings.Join(parts, " ")
}

func setRefusal(e *api.AuditEntry, refused *api.Error) {
	e.Code, e.Message, e.Status = refused.Code, refused.Message, refused.HTTPStatus
	if e.Status == 0 {
		e.Status = statusOf(refused.Code)
	}
	switch refused.Code {
	case api.CodeStaleRevision:
		e.Result = api.ResultStale
	case api.CodeFailed:
		e.Result = api.ResultFailed
	default:
		e.Result = api.ResultRefused
	}
}

// decisionEvent is e as the gateway's event.
func decisionEvent(e api.AuditEntry) decision.Event {
	provider, capability := splitTarget(e.Action, visible(e.Target))
	return decision.Event{
		Kind:       decision.KindOperatorCommand,
		Time:       e.Time,
		Provider:   provider,
		Capability: decision.Capability(capability),
		From:       e.From,
		To:         e.To,
		Reason:     e.Code,
		Detail:     e.Message,
		By:         e.By,
		Why:        e.Why,
		Action:     e.Action,
		Result:     e.Result,
		Revision:   e.NewRevision,
	}
}
