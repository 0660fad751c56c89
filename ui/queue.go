package ui

import (
	"time"

	"failback/ui/text"
)

func (m *model) queueTitle() row {
	return m.placeTitle("QUEUE AND PEOPLE", "what waits, and for whom")
}

// queueBody is which upstreams wait for an operator, that no request waits, and
// which tasks ask for it.
func (m *model) queueBody(w int, f *sieve) []row {
	if rows, yes := m.unanswered(); yes {
		return rows
	}
	d, now := m.d()
	s := d.state.Value()
	rows := append(m.stale(w), styled(accent, " UPSTREAMS THAT WAIT FOR AN OPERATOR"))
	rows = append(rows, m.waiterRows(d, now, w, f)...)
	rows = append(rows, nil, styled(accent, " REQUESTS THAT WAIT"))
	rows = append(rows, indented(1, "No request waits: this gateway keeps no queue. One that nobody may answer ends at once, with 503 and its id.", w, normal)...)
	rows = append(rows, indented(1, "What would fill this: requests of the tasks below, with an id, while no candidate may answer.", w, dim)...)
	rows = append(rows, nil, styled(accent, " TASKS THAT ASK FOR IT"))
	g := [][]span{heads("TASK", "ON UNAVAILABLE", "REQ/S", "THE USER SEES")}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.OnUnavailable != "queue" && t.OnUnavailable != "human" {
			continue
		}
		sees := m.th.outside(t.UserSees)
		if sees == "" {
			sees = "not said"
		}
		if !f.pass(t.Name, t.OnUnavailable, sees) {
			continue
		}
		g = append(g, []span{{m.th.outside(t.Name), normal}, {m.th.outside(t.OnUnavailable), normal}, m.num(d.state.Number(t.RPS, now), text.Rate, normal), {sees, dim}})
	}
	if len(g) == 1 {
		return append(rows, f.without("none: on_unavailable is queue or human for no task"))
	}
	return append(rows, grid(g)...)
}

// waiterRows are the upstreams that wait for an operator, each with what leads on.
func (m *model) waiterRows(d *data, now time.Time, w int, f *sieve) []row {
	ws, known := m.waiters(d, now)
	switch {
	case !known:
		return []row{styled(warn, " ?? "+m.mute())}
	case len(ws) == 0 && d.passthrough(now):
		return indented(1, "none: steps have no effect during PASSTHROUGH", w, normal)
	case len(ws) == 0:
		return indented(1, "none: one does once it may take its next step and nothing takes it by itself", w, normal)
	}
	var rows []row
	for _, v := range ws {
		name, way := m.th.outside(v.u.Name), m.way(v.u, d.state.Whole(now), now)
		if !f.pass(name, v.how, v.why, way.text) {
			continue
		}
		rows = append(rows, indented(1, name+" "+v.how+": "+v.why, w, strong)...)
		rows = append(rows, indented(3, "o, choose it: "+way.text, w, way.style)...)
	}
	if len(rows) == 0 {
		return []row{f.without("")}
	}
	return rows
}
