package ui

import "failback/ui/text"

func (m *model) queueTitle() row {
	return m.placeTitle("QUEUE AND PEOPLE", "what waits, and for whom")
}

// queueBody says that nothing waits, and which tasks ask for it.
func (m *model) queueBody(w int, f *sieve) []row {
	if rows, yes := m.unanswered(); yes {
		return rows
	}
	d, now := m.d()
	s := d.state.Value()
	rows := append(m.stale(w), indented(1, "Nothing waits here. This gateway keeps no queue: a request that nobody may answer ends at once, with 503 and its id.", w, normal)...)
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
