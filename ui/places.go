package ui

import (
	"failback/sources"
	"failback/ui/text"
)

// placeKeys lead to the screens of what there is beside traffic: faults that are
// shared, what waits, what is spent.
func placeKeys() []binding {
	to := func(k, word, long string, s screen) binding {
		return bind([]string{k}, k, word, long).line(22).unless(func(m *model) string { return m.already(s) }).hidden().does(act(func(m *model) { m.enter(s) }))
	}
	return []binding{
		to("m", "map", "upstreams and what they depend on: one fault of what is shared takes them together", faultMap),
		to("w", "queue", "what waits for an upstream or for a person", queue),
		to("$", "money", "error budgets and what they were spent on, and what answers cost", money),
	}
}

// placeTitle is the title of a screen made of the gateway's state, with its age.
func (m *model) placeTitle(name, about string) row {
	d, now := m.d()
	return row{{" " + name, accent}, {"  " + about + "  ", dim}, feedAge(m, &d.state, now)}
}

// unanswered is the body of such a screen before the gateway answered, and says
// whether that is so.
func (m *model) unanswered() ([]row, bool) {
	d, now := m.d()
	if d.state.Value() != nil {
		return nil, false
	}
	if d.state.Failing(now) {
		return []row{styled(warn, " ?? "+m.mute())}, true
	}
	return []row{styled(dim, " ...")}, true
}

// indented is s, which is fit to show, wrapped n columns from the left.
func indented(n int, s string, w int, st style) []row {
	rows := wrap(s, max(w-n, 10), st)
	for i := range rows {
		rows[i] = row{{spaces(n), normal}}.join(rows[i])
	}
	return rows
}

// stale is the note that the state is not fresh, nil if it is.
func (m *model) stale(w int) []row {
	d, now := m.d()
	if whole := d.state.Whole(now); whole.State != sources.Value {
		return entry("as of", text.Clock(d.state.Clock().At, d.clock(now))+", "+text.Age(whole.Age+m.stood())+" ago: "+m.mute(), w, warn)
	}
	return nil
}
