package ui

import (
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// evidenceOf is the evidence of the step in force; nil if there is none.
func evidenceOf(u *api.Upstream) *api.Evidence {
	if u.Evidence == nil || u.Evidence.Share != u.Share {
		return nil
	}
	return u.Evidence
}

// byItself says what takes an upstream's next step without an operator, empty
// if nothing does.
func byItself(s *api.State, u *api.Upstream) string {
	auto := s != nil && s.Failback.Advance == "auto" && u.Retreats < retreatsMost
	switch {
	case u.Health == api.Recovering && u.Plan != nil:
		return "plan of " + u.Plan.By
	case auto && u.Health == api.Recovering, auto && u.Health == api.Degraded && u.HealthBy == "auto":
		return "advance: auto"
	}
	return ""
}

// standing says how the evidence of an upstream's next step stands, and
// whether it asks for nothing more. Where the gateway measures none, the time
// for which the step was held stands in.
func standing(s *api.State, u *api.Upstream, clock time.Time) (says string, enough bool) {
	if u.Health == api.Degraded {
		verdict, why := text.Recovery(u, clock)
		return why, verdict == api.Pass
	}
	if e := evidenceOf(u); e != nil {
		says := text.Verdict(e)
		if in := text.Enough(e); in != "" {
			says += ", " + in
		}
		return says, e.Verdict == api.Pass
	}
	if asks, held := stepObserve(stepsOf(s, u), u.Share), clock.Sub(u.Since); u.Share > 0 && (u.Since.IsZero() || held < asks) {
		return "held " + text.Age(held) + " of " + text.Age(asks), false
	}
	return "", true
}

// outcome says how the upstream last left the step of a share, other than the
// one in force, in this failback, as far as the changes tell; empty if they do
// not. The gateway takes a step up without an override only if its evidence
// passed.
func outcome(d *data, u *api.Upstream, share int) string {
	if u.Health == "" || share == u.Share {
		return ""
	}
	for i := range d.changes {
		e := &d.changes[i]
		if !e.IsStep() || e.Provider != u.Name {
			continue
		}
		from, _ := strconv.Atoi(e.From)
		to, err := strconv.Atoi(e.To)
		switch {
		case err != nil:
		case from == share && e.Reason == "retreat":
			return api.Fail
		case from == share && to < from:
			return "lowered"
		case from == share && e.Reason == "raised":
			return api.Pass
		case from == share:
			return "overridden"
		}
		if from == 100 {
			break // what is older was of another failback
		}
	}
	return ""
}

// verdictStyle is how a verdict looks; what is stale is never green.
func verdictStyle(verdict string, whole sources.Number) style {
	switch verdict {
	case api.Pass:
		if whole.State != sources.Value {
			return dim
		}
		return good
	case api.Fail:
		return bad
	}
	return warn
}

// measuredCells are REQUESTS to VERDICT of the step in force.
func (m *model) measuredCells(e *api.Evidence, whole sources.Number) []span {
	if whole.State == sources.Unknown {
		q := span{"??", warn}
		return []span{q, q, q, q, q}
	}
	st := normal
	if whole.State != sources.Value {
		st = dim
	}
	output := text.Number(e.FirstOutputP95, text.Seconds)
	if e.BaselineFirstOutputP95 > 0 {
		output += " (base " + text.Seconds(e.BaselineFirstOutputP95) + ")"
	}
	classes := span{"??", warn}
	for i := range e.Rows {
		if r := &e.Rows[i]; r.Name == "classes" {
			switch r.Verdict {
			case api.Pass:
				classes = span{"none", st}
			case api.Fail:
				name, _, _ := strings.Cut(r.Text, " ")
				classes = span{m.th.outside(name), bad}
			}
		}
	}
	return []span{
		{text.Count(uint64(max(e.Requests, 0))), st}, {text.Number(e.Success, text.Percent), st}, {output, st}, classes,
		{m.th.outside(text.Verdict(e)), verdictStyle(e.Verdict, whole)},
	}
}

// judgedNotes are the evidence of the next step, what it is compared with and
// what it fails for, and what goes by itself.
func (m *model) judgedNotes(s *api.State, u *api.Upstream, whole sources.Number, clock time.Time, w int) []row {
	var rows []row
	note := func(label, value string, st style) {
		rows = append(rows, noted(label, styled(st, m.th.outside(value)), w)...)
	}
	line := func(verdict, s string) {
		for i, r := range wrap(m.th.outside(s), max(w-12, 10), normal) {
			if i > 0 {
				verdict = ""
			}
			rows = append(rows, row{{"   " + left(m.th.outside(verdict), 9, m.gl.cut), verdictStyle(verdict, whole)}}.join(r))
		}
	}
	e := evidenceOf(u)
	switch {
	case e != nil:
		note("EVIDENCE", text.EvidenceHead(e, clock), verdictStyle(e.Verdict, whole))
		for i := range e.Rows {
			line(e.Rows[i].Verdict, text.EvidenceName(e.Rows[i].Name)+": "+e.Rows[i].Text)
		}
		note("BASELINE", text.Baseline(e), normal)
		note("RETREAT", "by itself, to the highest lower step that passed, else to degraded, if: "+text.RetreatIf(e, &s.Failback), normal)
	case u.Health == api.Degraded:
		verdict, why := text.Recovery(u, clock)
		note("EVIDENCE", "to leave degraded: "+why, verdictStyle(verdict, whole))
		for i := range u.Probes {
			line(text.ProbeStanding(&u.Probes[i], clock))
		}
	case u.Health == api.Recovering:
		note("EVIDENCE", "none yet of this step", dim)
	}
	if u.FailbackID != "" || u.Plan != nil {
		st := dim
		if u.Plan != nil {
			st = accent
		}
		plan := text.PlanText(u, s.Failback.Advance, clock)
		if by := byItself(s, u); u.Plan == nil && by != "" {
			plan = "none is needed: steps go by themselves (" + by + ")"
		}
		note("PLAN", plan, st)
	}
	if u.Retreats > 0 {
		t := strconv.Itoa(u.Retreats) + " in this failback"
		if u.Retreats >= retreatsMost {
			t += ": nothing goes by itself any more"
		}
		note("RETREATED", t, warn)
	}
	rows = append(rows, noted("HEALTH", styled(healthStyle(u, whole), m.th.outside(text.HealthWhole(u, clock))), w)...)
	return append(rows, m.stepNotes(s, u, w)...)
}

// stepNotes say where the windows of the steps come from.
func (m *model) stepNotes(s *api.State, u *api.Upstream, w int) []row {
	windows := func(steps []api.FailbackStep) string {
		var l []string
		for i := range steps {
			l = append(l, percent(steps[i].Share)+" "+text.Window(&steps[i]))
		}
		return strings.Join(l, ", ")
	}
	var rows []row
	own, configured := windows(stepsOf(s, u)), windows(s.Failback.Steps)
	if own != configured {
		rows = append(rows, noted("STEPS", styled(warn, "those that this failback began with; the configuration has "+configured), w)...)
	}
	if s.Demo != "" {
		rows = append(rows, noted("WINDOWS", styled(warn, "short for the demo: "+own), w)...)
	}
	return rows
}

// signalRows are what health is judged by, each with what it cannot see.
func (m *model) signalRows(u *api.Upstream, whole sources.Number, clock time.Time, w int) []row {
	rows := []row{nil, styled(accent, " SIGNALS")}
	if len(u.Signals) == 0 {
		return append(rows, styled(dim, "   none"))
	}
	out := m.th.outside
	g := [][]span{heads("SIGNAL", "COLOUR", "AGE", "FOR", "VALUE")}
	var below [][]row
	for i := range u.Signals {
		v := &u.Signals[i]
		st := warn
		switch {
		case v.Colour == api.Green && whole.State == sources.Value:
			st = good
		case v.Colour == api.Green:
			st = dim
		case v.Colour == api.Red:
			st = bad
		}
		g = append(g, []span{{out(v.Name), normal}, {out(v.Colour), st}, {sinceOrNone(v.At, clock), normal}, {sinceOrNone(v.Since, clock), normal}, {out(v.Value), normal}})
		blind := ""
		if v.BlindSpot != "" {
			blind = v.Group + "; blind spot: " + v.BlindSpot
		}
		below = append(below, under(out(blind), w))
	}
	return append(rows, weave(grid(g), below)...)
}

// probeRows are the probes of an upstream, by candidate and capability.
func (m *model) probeRows(u *api.Upstream, whole sources.Number, clock time.Time, w int) []row {
	rows := []row{nil, styled(accent, " PROBES")}
	if len(u.Probes) == 0 {
		return append(rows, styled(dim, "   none: nothing of it is probed"))
	}
	out := m.th.outside
	g := [][]span{heads("CAPABILITY", "RESULT", "IN A ROW", "AGE", "NEXT", "TODAY", "MODEL")}
	var below [][]row
	for i := range u.Probes {
		p := &u.Probes[i]
		result, st := span{out(p.Result), bad}, "none"
		switch {
		case p.Result == "":
			result = span{"none yet", warn}
		case p.Result == "ok":
			result.style = verdictStyle(api.Pass, whole)
		}
		switch {
		case p.Failed > 0:
			st = strconv.Itoa(p.Failed) + " failed"
		case p.Passed > 0:
			st = strconv.Itoa(p.Passed) + " passed"
		}
		next := "none"
		switch {
		case p.Held != "":
			next = "held"
		case !p.NextAt.IsZero():
			next = text.Age(p.NextAt.Sub(clock))
		}
		spent := text.Number(p.SpentUSD, func(v float64) string { return "USD " + strconv.FormatFloat(v, 'f', 4, 64) })
		g = append(g, []span{{out(p.Capability), normal}, result, {st, normal}, {sinceOrNone(p.At, clock), normal}, {next, normal}, {spent, normal}, {out(p.Model), normal}})
		var notes []string
		if p.Held != "" {
			notes = append(notes, "held: "+p.Held)
		}
		if p.Detail != "" {
			notes = append(notes, p.Detail)
		}
		below = append(below, under(out(strings.Join(notes, "; ")), w))
	}
	return append(rows, weave(grid(g), below)...)
}

func sinceOrNone(t, clock time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return text.Age(clock.Sub(t))
}
