package ui

import (
	tea "charm.land/bubbletea/v2"

	"failback/sources"
)

// logScreen is the state of the log screen.
type logScreen struct {
	typing bool // a field has the keys
}

// logsMsg answers a query of the log screen.
type logsMsg struct {
	sources.Answer[sources.LogAnswer]
}

func logKeys() []binding {
	return []binding{
		bind([]string{"l"}, "l", "logs", "canned and own LogQL over the decision log").line(10).unless(func(m *model) string { return m.already(logs) }).hidden().does(act(func(m *model) { m.enter(logs) })),
	}
}

func (m *model) takeLogs(logsMsg) {}

func (l *logScreen) key(m *model, k tea.KeyPressMsg) tea.Cmd { return nil }

func (l *logScreen) paste(m *model, p tea.PasteMsg) {}

// logsWindow is the log screen.
func (m *model) logsWindow(w, room int) []row { return nil }

// logLineBody is one line opened.
func (m *model) logLineBody(w int) []row { return nil }
