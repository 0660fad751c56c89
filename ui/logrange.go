package ui

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/sources"
)

// typeRange gives the keys to the range, which begins as that of the query that
// is looked at, by the clocks of this host.
func (m *model) typeRange() {
	l := &m.logs
	l.field = newField()
	q := m.lookedAt().q
	const form = "2006-01-02 15:04"
	l.field.SetValue(q.Start.In(m.zone).Format(form) + " to " + q.End.In(m.zone).Format(form))
	l.field.CursorEnd()
	l.typing, l.ranging, l.wrong = true, true, ""
}

// setRange takes the range that was typed: FROM to TO, or FROM up to now. It
// returns what is wrong with it.
func (m *model) setRange(typed string) (cmd tea.Cmd, wrong string) {
	l := &m.logs
	from, to, _ := strings.Cut(typed, " to ")
	now := m.live.clock(m.now)
	start, err := sources.ParseWhen(from, m.zone)
	if err != nil || !start.Named() {
		return nil, "from when? 2006-01-02 15:04, 15:04Z or -1h, then: to when"
	}
	end, err := sources.ParseWhen(to, m.zone)
	if err != nil {
		return nil, "to when? 2006-01-02 15:04, 15:04Z, -1h or now"
	}
	a, saysA, oddA := start.Time(now)
	b, saysB, oddB := now, "", false
	if end.Named() {
		b, saysB, oddB = end.Time(now)
	}
	if !a.Before(b) {
		return nil, "ends " + b.UTC().Format(time.DateTime+"Z") + ", before it begins"
	}
	l.over, l.fixedFrom, l.fixedTo = 0, a, b
	cmd = m.logChanged()
	switch {
	case oddA && oddB:
		m.say(warn, saysA+"; "+saysB)
	case oddA:
		m.say(warn, saysA)
	case oddB:
		m.say(warn, saysB)
	case saysA != "":
		m.say(normal, "from "+saysA)
	}
	return cmd, ""
}

// rangeLine is the range while it is typed, with the zone that it is read in.
func (m *model) rangeLine(w int) (row, int) {
	head := " RANGE in " + sources.ZoneText(m.zone, m.now) + ", Z for UTC: "
	if w < width(head)+30 {
		head = " " + m.now.In(m.zone).Format("MST") + ": "
	}
	room := w - width(head) - 1
	if m.logs.wrong != "" {
		head, room = " RANGE ", min(width(m.logs.field.Value())+1, w/2)
	}
	shown, at := fieldView(m.logs.field, room, m.th)
	r := row{{head, accent}, {shown, normal}}
	if m.logs.wrong != "" {
		r = row{{head, accent}, {shown + "  ", normal}, {m.th.outside(m.logs.wrong), warn}}
	}
	return r, width(head) + at
}
