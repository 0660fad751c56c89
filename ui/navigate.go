package ui

import (
	"strings"

	"failback/gateway/operator/api"
	"failback/ui/text"
)

// enter goes to a screen; esc comes back.
func (m *model) enter(s screen) {
	m.stack = append(m.stack, m.screen)
	m.show(s)
}

func (m *model) show(s screen) {
	m.screen, m.scroll, m.typing, m.logs.typing = s, 0, false, false
	if s == ownlog {
		m.scroll = far // the newest lines are at the end
	}
}

func (m *model) home() {
	m.stack = nil
	m.show(overview)
}

func (m *model) noBack() string {
	if len(m.stack) == 0 && m.lists[m.screen].filter == "" && m.screen == overview {
		return "this is the first screen; q leaves"
	}
	return ""
}

func (m *model) onOverview() string { return m.already(overview) }

// onFirst reports whether the first screen is shown with all of its panels.
func (m *model) onFirst() bool { return m.screen == overview && m.height >= 20 }

// wayBackSays reports whether BACK TO says what a step up takes, or why it is not
// to be taken now.
func (m *model) wayBackSays() bool { return m.screen == overview && m.width >= narrow }

// incidentSaid reports whether START names the key of the open incident, or none
// is open.
func (m *model) incidentSaid() bool { return m.onFirst() || len(m.live.openHeads()) == 0 }

// modeNamesArm reports whether the first row has room to name the key that arms,
// or says that it was pressed.
func (m *model) modeNamesArm() bool {
	full, _, _ := m.mode()
	return m.armed() || strings.HasSuffix(full, ")") && strings.Contains(m.identity(m.width).text(), full)
}

func (m *model) already(s screen) string {
	if m.screen == s {
		return "this is that screen"
	}
	return ""
}

// back goes one level back: a filter first, then the screen.
func (m *model) back() {
	if m.screen == logs && m.logBack() {
		return
	}
	if m.screen == runbook && m.runbookBack() {
		return
	}
	if l := &m.lists[m.screen]; l.filter != "" {
		m.filter.SetValue("")
		m.filtered()
		return
	}
	if n := len(m.stack); n > 0 {
		s := m.stack[n-1]
		m.stack = m.stack[:n-1]
		m.show(s)
		return
	}
	m.show(overview)
}

func (m *model) noRow() string {
	if m.rows() == 0 {
		return "there is no row"
	}
	return ""
}

// open opens the row under the cursor.
func (m *model) open() {
	switch m.screen {
	case overview:
		us, _ := m.upstreams()
		m.selected = us[m.row(us)].Name
		m.enter(detail)
	case changes:
		m.hold(changes)
		m.enter(change)
	case decisions:
		m.hold(decisions)
		m.enter(decision)
	}
}

// hold keeps the list as it is while a row of it is open.
func (m *model) hold(s screen) {
	l := &m.lists[s]
	l.cursor = clamp(l.cursor, 0, m.rows()-1)
	if l.held == nil {
		d, _ := m.d()
		held := *d
		l.held = &held
	}
}

// openChange and openDecision are what the cursor of their list is on; nil if
// nothing is.
func (m *model) openChange() *text.Run {
	rows, _ := m.changeRows()
	if len(rows) == 0 {
		return nil
	}
	return &rows[clamp(m.lists[changes].cursor, 0, len(rows)-1)]
}

func (m *model) openDecision() *api.Decision {
	ds := m.decisionRows()
	if ds.len() == 0 {
		return nil
	}
	return ds.at(clamp(m.lists[decisions].cursor, 0, ds.len()-1))
}
