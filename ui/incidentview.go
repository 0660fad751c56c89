package ui

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

func (m *model) incidentTitle() row {
	d, now := m.d()
	head := row{{" INCIDENT", accent}}
	v := d.incident.Value()
	if v == nil {
		return head.add(normal, "  ").join(row{feedAge(m, &d.incidents, now)})
	}
	clock := d.clock(now)
	head = head.add(strong, " "+m.th.outside(v.ID))
	if v.State == api.IncidentClosed {
		head = head.add(dim, "  CLOSED "+text.Clock(v.ClosedAt, clock)+" by "+m.th.outside(v.ClosedBy))
	} else {
		head = head.add(bad, "  OPEN "+text.Age(clock.Sub(v.OpenedAt)))
	}
	if v.Unsynced {
		head = head.add(warn, "  UNSYNCED")
	}
	return head.add(normal, "  ").join(row{feedAge(m, &d.incident, now)})
}

// incidentBody is the record of an incident: what it is, how far it is, whom it
// hurt, what closing asks, and what happened, the newest first.
func (m *model) incidentBody(w int, f *sieve) []row {
	d, now := m.d()
	out := m.th.outside
	v := d.incident.Value()
	if v == nil {
		return m.noIncident(d, now, w)
	}
	clock := d.clock(now)
	if f.filter != "" { // the timeline is what has a filter
		return m.timeline(v, clock, w, f)
	}
	var rows []row
	if whole := d.incident.Whole(now); whole.State != sources.Value {
		rows = append(rows, entry("as of", text.Clock(v.At, clock)+", "+text.Age(whole.Age+m.stood())+" ago: "+m.mute(), w, warn)...)
	}
	rows = append(rows, entry("what", out(v.Title), w, strong)...)
	if v.State == api.IncidentOpen {
		word, st := m.closingWord(v)
		rows = append(rows, entry("closing asks", word, w, st)...)
	}
	rows = append(rows, entry("opened", text.Clock(v.OpenedAt, clock)+" by "+out(v.OpenedBy)+", "+out(text.IncidentCause(v.Cause))+"; about "+list2(v.Upstreams, "no upstream of its own", out), w, normal)...)
	rows = append(rows, entry("milestones", milestones(&v.Milestones, clock), w, normal)...)
	rq := &v.Requests
	st := normal
	if rq.Forbidden > 0 {
		st = bad
	}
	rows = append(rows, entry("requests", text.Count(rq.Primary)+" by their primary, "+text.Count(rq.Degraded)+" by another candidate, "+text.Count(rq.Failed)+" failed, "+text.Count(rq.Forbidden)+" fell back although not allowed", w, st)...)
	if start := m.proposedWords(); start != "" {
		rows = append(rows, entry("runbooks", start, w, normal)...)
	}
	success := styled(accent, " SUCCESS")
	if rq.Counted != "" {
		success = success.add(dim, "  of all models, counted "+out(rq.Counted)).fit(w, m.gl.cut)
	}
	rows = append(rows, nil, success)
	rows = append(rows, layers(v.Layers, w)...)
	rows = append(rows, nil, styled(accent, " CLOSING ASKS").add(dim, "  "+strconv.Itoa(len(v.Closing)-len(v.Unanswered))+" of "+strconv.Itoa(len(v.Closing))+" answered"))
	for i := range v.Closing {
		rows = append(rows, m.closingRows(&v.Closing[i], clock, w)...)
	}
	return append(append(rows, nil), m.timeline(v, clock, w, f)...)
}

// timeline is what happened, the newest first.
func (m *model) timeline(v *api.Incident, clock time.Time, w int, f *sieve) []row {
	title := styled(accent, " TIMELINE").add(normal, ", newest first, "+text.Counted(v.Entries, "entry"))
	if v.Lost > 0 {
		title = title.add(warn, "; left out for their number: "+text.Count(uint64(v.Lost)))
	}
	rows := []row{title}
	for i := len(v.Timeline) - 1; i >= 0; i-- {
		if e := &v.Timeline[i]; f.pass(e.By, e.Kind, e.Text) {
			rows = append(rows, m.timelineRows(e, clock, w)...)
		}
	}
	return rows
}

// noIncident says why none is shown, and what opens one.
func (m *model) noIncident(d *data, now time.Time, w int) []row {
	switch {
	case m.frozen != nil && (d.incidents.Value() == nil || m.incidentID() != ""):
		return indented(1, "It was not asked for when the view froze: f goes on.", w, normal)
	case d.incidents.Failing(now) && d.incidents.Value() == nil, m.incidentID() != "" && d.incident.Failing(now):
		return []row{styled(warn, " ?? "+m.mute())}
	case d.incidents.Value() == nil || m.incidentID() != "":
		return []row{styled(dim, " ...")}
	}
	rows := indented(1, "No incident is open, and none is on record.", w, normal)
	return append(rows, indented(1, "One opens by itself when an upstream is degraded, when a fault is shared by several, or when the fallback ratio stays over its limit. N opens one by hand.", w, dim)...)
}

// milestones are those that were reached, and those that are still to come.
func milestones(v *api.Milestones, clock time.Time) string {
	var parts []string
	for _, s := range []struct {
		name string
		at   time.Time
	}{{"first failure", v.FirstFailure}, {"first switch", v.FirstSwitch}, {"recovered", v.Recovered}, {"traffic back", v.TrafficBack}, {"closed", v.Closed}} {
		when := "not yet"
		if !s.at.IsZero() {
			when = text.Clock(s.at, clock)
		}
		parts = append(parts, s.name+" "+when)
	}
	return strings.Join(parts, " > ")
}

// layers is success as each layer sees it.
func layers(ls []api.Layer, w int) []row {
	g := [][]span{heads("LAYER", "ANOTHER CANDIDATE", "PRIMARY")}
	cell := func(t api.Tally, nothing string) span {
		n := t.Good + t.Bad
		if n == 0 {
			return span{text.Visible(cmp.Or(nothing, "none")), dim}
		}
		st := normal
		if t.Bad > 0 {
			st = warn
		}
		return span{text.Percent(float64(t.Good)/float64(n)) + " of " + text.Count(n), st}
	}
	for _, l := range ls {
		g = append(g, []span{{text.Visible(l.Name), normal}, cell(l.Degraded, l.Nothing), cell(l.Primary, l.Nothing)})
	}
	if len(g) == 1 {
		return []row{styled(dim, "   nothing is known yet")}
	}
	return grid(g)
}

func (m *model) closingRows(q *api.ClosingQuestion, clock time.Time, w int) []row {
	out := m.th.outside
	box, st := "[ ] ", normal
	if q.Answer != "" {
		box, st = "[x] ", dim
	}
	rows := entryBeside(16, " "+box+out(q.ID), out(q.Text), w, st)
	if q.Fact != "" {
		rows = append(rows, entryBeside(16, "", "known here: "+out(q.Fact), w, dim)...)
	}
	if q.Answer != "" {
		rows = append(rows, entryBeside(16, "", out(q.Answer)+" ("+out(q.By)+" "+text.Clock(q.At, clock)+")", w, good)...)
	}
	return rows
}

func (m *model) timelineRows(e *api.IncidentEntry, clock time.Time, w int) []row {
	out := m.th.outside
	st := map[string]style{"note": strong, "milestone": good, "opened": accent, "closed": accent, "reopened": accent, "answer": normal, "tick": normal}[e.Kind]
	if e.Event != nil {
		st = [...]style{text.Calm: good, text.Notable: normal, text.Grave: bad}[text.EventWeight(e.Event)]
	}
	by := out(e.By)
	byStyle := strong
	if text.ByMachine(e.By) {
		byStyle = dim
	}
	head := row{{" " + text.Clock(e.At, clock) + "  ", normal}, {left(by, 6, m.gl.cut) + " ", byStyle}}
	kind := ""
	if e.Kind != "event" {
		kind = e.Kind + ": "
	}
	until := ""
	if !e.Last.IsZero() {
		until = ", until " + text.Clock(e.Last, clock)
	}
	if e.Refused {
		st = warn
	}
	n := head.width()
	var rows []row
	for i, r := range wrap(kind+out(e.Text)+until, max(w-n, 10), st) {
		if i > 0 {
			head = plain(spaces(n))
		}
		rows = append(rows, head.join(r))
	}
	return rows
}

// proposedWords are the runbooks that fit now, with their keys.
func (m *model) proposedWords() string {
	var parts []string
	for i, p := range m.proposals() {
		if i == 4 {
			break
		}
		parts = append(parts, "["+m.digit(p.Runbook)+"] "+p.Runbook.Title)
	}
	return m.th.outside(strings.Join(parts, "  "))
}
