package ui

import (
	"context"
	"slices"
	"strings"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// action is what a dialog asks about.
type action uint8

const (
	toShare    action = iota // another share, or a change put back
	toDegraded               // no share at all, until an operator ends that
	toPlan                   // approve all steps up
	toManual                 // take that back
)

// retreatsMost is how many retreats of a failback end what goes by itself.
const retreatsMost = api.PlanMostRetreats

// stateKeys change what an upstream is, and what goes by itself.
func stateKeys() []binding {
	here := at(overview, detail, failback)
	return []binding{
		bind([]string{"p"}, "p", "plan", "approve the steps up, each when its evidence passes, but for the way out of degraded; or take that back: opens a dialog").at(here).line(20).unless((*model).noPlan).hidden().does(act((*model).plan)),
		bind([]string{"D"}, "D", "degrade", "take all traffic away until an operator gives it back: opens a dialog").at(here).line(21).unless((*model).noDegrade).hidden().does(act(func(m *model) { m.openAction(m.current(), toDegraded, 0) })),
	}
}

func (m *model) plan() {
	u := m.current()
	if u.Plan != nil {
		m.openAction(u, toManual, u.Share)
		return
	}
	m.openAction(u, toPlan, u.Share)
}

func (m *model) noPlan() string {
	u := m.current()
	switch {
	case m.noWrite() != "":
		return m.noWrite()
	case u == nil:
		return "there is no upstream under the cursor"
	case u.Plan != nil:
		return ""
	}
	return m.unplannable(u)
}

// unplannable says why no plan can be approved for u, empty if one can.
func (m *model) unplannable(u *api.Upstream) string {
	name := m.th.outside(u.Name)
	switch {
	case u.Health == "":
		return "this gateway measures no evidence that a plan could go by"
	case u.FailbackID == "":
		return name + " is not on its way back"
	case u.Share >= 100:
		return name + " has no step left"
	case byItself(m.live.state.Value(), u) != "":
		return "its steps go by themselves already (" + m.th.outside(byItself(m.live.state.Value(), u)) + ")"
	case u.Retreats >= retreatsMost:
		return name + " retreated " + text.Counted(u.Retreats, "time") + ": each step is an operator's"
	}
	return ""
}

func (m *model) noDegrade() string {
	u := m.current()
	switch {
	case m.noWrite() != "":
		return m.noWrite()
	case u == nil:
		return "there is no upstream under the cursor"
	}
	return m.undegradable(u)
}

// undegradable says why u cannot be degraded, empty if it can: one that the
// machine degraded can be taken over, and the plan of any be ended by it.
func (m *model) undegradable(u *api.Upstream) string {
	name := m.th.outside(u.Name)
	switch {
	case u.Health == "":
		return "this gateway has no such state: < lowers the share"
	case u.Health == api.Degraded && u.HealthBy != "auto" && u.Plan == nil:
		return name + " is degraded already, by " + m.th.outside(u.HealthBy)
	}
	return ""
}

// raises reports whether the dialog's command is a way forward: that needs the
// revision that was seen, and whatever speaks against it is overridden by name.
func (d *dialog) raises() bool { return d.act == toPlan || d.act == toShare && d.up }

// settled says that what the dialog asks for holds already, empty if not.
func (d *dialog) settled(m *model, u *api.Upstream) string {
	name := m.th.outside(u.Name)
	switch d.act {
	case toDegraded:
		return m.undegradable(u)
	case toPlan:
		if u.Plan != nil {
			return "a plan is approved already, by " + m.th.outside(u.Plan.By)
		}
		return m.unplannable(u)
	case toManual:
		if u.Plan == nil {
			return name + " has no plan any more"
		}
	default:
		if d.to == u.Share {
			return "it has " + percent(d.to) + " already" + d.otherStep(m, u)
		}
	}
	return ""
}

// otherStep says which key chooses another share than that in force, the next
// above first.
func (d *dialog) otherStep(m *model, u *api.Upstream) string {
	s := m.live.state.Value()
	if to := shareAbove(s, u, u.Share); to >= 0 {
		return ": right chooses " + percent(to)
	}
	if to := shareBelow(s, u, u.Share); to >= 0 {
		return ": left chooses " + percent(to)
	}
	return ""
}

// after is what holds afterwards.
func (d *dialog) after(m *model, u *api.Upstream) string {
	switch d.act {
	case toDegraded:
		return "share 0%, degraded until an operator ends it"
	case toPlan:
		var ups []string
		first := "share " + percent(u.Share) + ", then "
		yours := d.wayOut(m, u)
		for _, s := range sharesOf(m.live.state.Value(), u) {
			switch {
			case s <= u.Share:
			case yours != "" && s == u.NextStep.Share:
				first = percent(s) + " is yours, then "
			case yours == "" || s > u.NextStep.Share:
				ups = append(ups, percent(s))
			}
		}
		if len(ups) == 0 {
			return yours
		}
		return first + strings.Join(ups, ", ") + " by itself"
	case toManual:
		return "share " + percent(u.Share) + ", each step by an operator"
	}
	if d.idle() {
		return "the same"
	}
	return "share " + percent(d.to)
}

// wayOut says which step a plan of u would leave to an operator; empty if none.
func (d *dialog) wayOut(m *model, u *api.Upstream) string {
	s := m.live.state.Value()
	if s == nil || d.act != toPlan {
		return ""
	}
	return u.OwnWayOut(s.Failback.Advance)
}

// means says what an action brings with it, beside what it moves.
func (d *dialog) means(m *model, u *api.Upstream) []string {
	switch d.act {
	case toDegraded:
		var l []string
		if u.Plan != nil {
			l = append(l, "it ends the plan of "+m.th.outside(u.Plan.By))
		}
		s := "it gets nothing, not even what nobody else may take; > and y lead back, by evidence of its probes"
		if u.Health == api.Degraded && u.HealthBy == "auto" {
			l = append(l, "the machine degraded it: from now on it is an operator's")
		}
		return append(l, s)
	case toPlan:
		steps := stepsOf(m.live.state.Value(), u)
		var windows []string
		for i := range steps {
			if steps[i].Share >= u.Share && steps[i].ObserveSeconds > 0 {
				windows = append(windows, percent(steps[i].Share)+" "+text.Window(&steps[i]))
			}
		}
		var l []string
		if s := d.wayOut(m, u); s != "" {
			l = append(l, s)
		}
		return append(l,
			"each step goes by itself once the evidence of the one before passes, after "+strings.Join(windows, ", "),
			"if it fails it retreats by itself; < and p are never blocked meanwhile",
		)
	case toManual:
		return []string{"nothing moves; from now on each step is an operator's"}
	}
	return nil
}

// asks is the dialog's title without who and where.
func (d *dialog) asks(a *assessment, who string) string {
	switch {
	case d.act == toDegraded:
		return "Degrade " + who + "?"
	case d.act == toPlan:
		if a.after != "" {
			return "Approve the steps of " + who + " after " + a.after + "?"
		}
		return "Approve all steps of " + who + "?"
	case d.act == toManual:
		return "Take back the plan of " + who + "?"
	case d.idle():
		return "Another share for " + who + "?"
	case d.undo:
		return "Put back " + percent(d.to) + " for " + who + "?"
	case a.raise && d.recovers:
		return "Recover " + who + " at " + percent(d.to) + "?"
	case a.raise:
		return "Send " + percent(d.to) + " back to " + who + "?"
	}
	return "Lower " + who + " to " + percent(d.to) + "?"
}

// yes is what y does.
func (d *dialog) yes(a *assessment) string {
	switch {
	case d.act == toDegraded:
		return "degrade"
	case d.act == toPlan:
		if a.after != "" {
			return "approve the steps after " + a.after
		}
		return "approve all steps"
	case d.act == toManual:
		return "take the plan back"
	case d.undo:
		return "put back " + percent(d.to)
	case a.raise && d.recovers:
		return "recover at " + percent(d.to)
	case a.raise:
		return "send " + percent(d.to)
	}
	return "lower to " + percent(d.to)
}

// command is what y sends, what is to be said of it, and by which way it goes.
func (d *dialog) command(a *assessment) (cmd api.Command, change string, send func(sources.Gateway, context.Context, string, api.Command) (*api.Result, error)) {
	base, to := d.base, d.to
	cmd = api.Command{Revision: &base, Reason: strings.TrimSpace(d.why.Value())}
	override := a.raise && (a.needWhy || a.needName)
	switch d.act {
	case toDegraded:
		cmd.State = api.Degraded
		return cmd, "degraded", sources.Gateway.SetState
	case toPlan:
		cmd.Action, cmd.Override = api.ActionPlan, override
		return cmd, "plan", sources.Gateway.Plan
	case toManual:
		cmd.Action = api.ActionManual
		return cmd, "no plan", sources.Gateway.Plan
	}
	if d.restore {
		cmd.Undo = true
	} else {
		from := d.from
		cmd.Share, cmd.From, cmd.Override = &to, &from, override
	}
	return cmd, "share " + percent(a.u.Share) + " > " + percent(to), sources.Gateway.SetShare
}

// assessEvidence says what the gateway's evidence says of a step up, and
// reports whether it has any: that of the step in force, or of the probes while
// it is degraded. A plan waits for evidence by itself: it only shows it.
func (d *dialog) assessEvidence(m *model, a *assessment) bool {
	now := m.live.clock(m.now)
	note := a.add
	if d.act == toPlan {
		note = a.show
	}
	switch e := evidenceOf(a.u); {
	case a.u.Health == api.Degraded:
		if len(a.u.Probes) == 0 {
			note(markOf(api.NoData), "nothing is probed: nothing says that it is back")
		}
		for i := range a.u.Probes {
			verdict, why := text.ProbeStanding(&a.u.Probes[i], now)
			note(markOf(verdict), "probe "+m.th.outside(why))
		}
		return true
	case e == nil:
		return false
	default:
		enough := text.Enough(e)
		for i := range e.Rows {
			r := &e.Rows[i]
			s := text.EvidenceName(r.Name) + ": " + m.th.outside(r.Text)
			if r.Verdict == api.NoData && enough != "" {
				s, enough = s+"; "+enough, ""
			}
			note(markOf(r.Verdict), s)
		}
		if len(e.Rows) == 0 || e.Verdict == api.Fail && !slices.ContainsFunc(e.Rows, func(r api.EvidenceRow) bool { return r.Verdict == api.Fail }) {
			note(markOf(e.Verdict), "evidence "+m.th.outside(text.EvidenceHead(e, now)))
		}
		if old := now.Sub(e.At); old > staleEvidence {
			note("WARN", "the evidence is "+text.Age(old)+" old")
		}
		return true
	}
}

// staleEvidence is how old a verdict may be: the gateway judges each second.
const staleEvidence = 3 * sources.GatewayPeriod

// markOf is the mark of a verdict in a dialog.
func markOf(verdict string) string {
	switch verdict {
	case api.Pass:
		return "ok"
	case api.Fail:
		return "no"
	}
	return "WARN"
}
