package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// leaving asks what becomes of a gateway that this console started. To stop it
// takes what any change of traffic takes: writing armed, a key that chooses it,
// and a y.
type leaving struct {
	lone
	opened   time.Time
	stopping bool // s was pressed: y stops it
}

// leave ends the console, after a question if it started the gateway.
func (m *model) leave() tea.Cmd {
	if m.o.Started && !m.o.Demo {
		m.frozen = nil
		m.dialogs++
		m.leaving = &leaving{lone: lone{id: m.dialogs}, opened: m.now}
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
	last, void := l.heard(m.now)
	if void {
		m.say(warn, otherKeys("y")+"the gateway serves on")
	}
	s := k.String()
	if m.now.Sub(l.opened) < deafFor || s == "q" && m.now.Sub(last) < deafFor { // it is held
		return nil
	}
	switch {
	case s == "l":
		return tea.Quit
	case s == "s" && !m.tiny(): // else the question cannot be read
		if why := m.noWrite(); why != "" {
			m.say(warn, "s is off: "+why)
			return nil
		}
		l.stopping = true
	case s == "y" && l.stopping && !m.tiny():
		if m.now.Sub(last) < quietFor {
			m.say(warn, "the y came with other keys, as pasted text has it: the gateway serves on")
			return nil
		}
		return l.ask(m)
	default:
		m.leaving = nil
		if s != "esc" && s != "n" {
			m.say(warn, m.th.outside(s)+" closed the question; the console stays, the gateway serves on")
		}
	}
	return nil
}

// pasted is of pasted text, which answers nothing.
func (l *leaving) pasted(m *model) {
	l.heard(m.now)
	l.stopping = false
}

// end leaves and has the gateway stopped, if that may still be done from here.
func (l *leaving) end(m *model) tea.Cmd {
	why := m.noWrite()
	if m.tiny() {
		why = "the window is too small to read it"
	}
	if why != "" {
		l.stopping = false
		m.say(warn, "nothing was stopped: "+why)
		return nil
	}
	m.stop = true
	return tea.Quit
}

// box is the question's text, w columns wide.
func (l *leaving) box(m *model, w int) (title string, body []row) {
	rate := "?? req/s"
	if s := m.live.state.Value(); s != nil {
		rate = m.number(m.live.state.Number(s.Traffic.RPS, m.now), rateFormat) + " req/s"
	}
	body = wrap("This console started the gateway, which serves "+rate+" now.", w, normal)
	short := w < 60
	key := func(k string, st style, words, more string) {
		if !short {
			words += more
		}
		body = append(body, row{{k, accent}, {"  " + words, st}})
	}
	if l.stopping {
		body = append(body, wrap("It drains, and clients get nothing from it then.", w, bad)...)
		if !short {
			body = append(body, nil)
		}
		key("y", strong, "stop it", "")
		key("l", normal, "leave it serving", "")
		key("esc", normal, "stay", "          (any other key closes this too)")
		return "Stop the gateway?", body
	}
	if !short {
		body = append(body, plain("It is another process and does not need the console."), nil)
	}
	key("l", normal, "leave it serving", "; failback console comes back to it")
	if why := m.noWrite(); why != "" {
		body = append(body, wrap("s  stop it: off, "+why, w, dim)...)
	} else {
		key("s", bad, "stop it, after a y", ": it drains, and clients get nothing from it then")
	}
	key("esc", normal, "stay", "          (any other key closes this too)")
	return "Leave the console?", body
}
