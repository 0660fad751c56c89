package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// leaving asks what becomes of a gateway that this console started.
type leaving struct{ opened time.Time }

// leave ends the console, after a question if it started the gateway.
func (m *model) leave() tea.Cmd {
	if m.o.Started && !m.o.Demo {
		m.frozen = nil
		m.leaving = &leaving{opened: m.now}
		return nil
	}
	return tea.Quit
}

// leaveNow is ctrl+c: it asks once where there is something to ask, and the
// second leaves the gateway serving.
func (m *model) leaveNow() tea.Cmd {
	if m.leaving != nil {
		return tea.Quit
	}
	m.dialog, m.form, m.typing = nil, nil, false
	return m.leave()
}

func (l *leaving) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	if m.now.Sub(l.opened) < deafFor {
		return nil
	}
	switch k.String() {
	case "l":
		return tea.Quit
	case "s":
		if m.tiny() || m.o.ReadOnly {
			return nil // the question cannot be read, or nothing may be changed from here
		}
		m.stop = true
		return tea.Quit
	case "esc", "n":
		m.leaving = nil
	}
	return nil
}

// box is the question's text.
func (l *leaving) box(m *model) (title string, body []row) {
	rate := "?? req/s"
	if s := m.live.state.Value(); s != nil {
		rate = m.number(m.live.state.Number(s.Traffic.RPS, m.now), rateFormat) + " req/s"
	}
	stop := row{{"s", accent}, {"  stop it: it drains, and clients get nothing from it then", bad}}
	if m.o.ReadOnly {
		stop = styled(dim, "s  is off: this console was started with --read-only")
	}
	return "Leave the console?", []row{
		plain("This console started the gateway, which serves " + rate + " now."),
		plain("It is another process and does not need the console."),
		nil,
		{{"l", accent}, {"  leave it serving; failback console comes back to it", normal}},
		stop,
		{{"esc", accent}, {"  stay          (enter and q do nothing)", normal}},
	}
}
