package ui

import tea "charm.land/bubbletea/v2"

func (m *model) noSuspend() string {
	if m.sig == nil {
		return "there is no shell to come back from"
	}
	return ""
}

func (m *model) suspend() tea.Cmd { return m.sig.suspend }
