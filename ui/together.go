package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// together is how long an answer or a tick waits to be drawn with those that come
// with it. What a second brings is then drawn once.
const together = 50 * time.Millisecond

// drawMsg draws what has waited.
type drawMsg struct{}

// pace is when to draw: at once what somebody did at the terminal, together what
// comes by itself.
type pace struct {
	drawn   tea.View
	stale   bool // there is something newer than drawn
	waiting bool // a drawMsg is on its way
}

// take hears of a message that has been taken, and reports whether a drawMsg is to
// be sent when together has passed.
func (p *pace) take(msg tea.Msg) (send bool) {
	switch msg.(type) {
	case tickMsg, stateMsg, eventsMsg, decisionsMsg, metricsMsg, historyMsg, lokiMsg, incidentsMsg, incidentMsg, tailMsg:
		send = !p.waiting
		p.waiting = true
	case drawMsg:
		p.waiting, p.stale = false, true
	default:
		p.stale = true
	}
	return send
}

// due reports whether the next view is a new one.
func (p *pace) due() bool { return p.stale || p.drawn.Content == "" }

// view is the last view, or that of draw if there is something to draw.
func (p *pace) view(draw func() tea.View) tea.View {
	if p.due() {
		p.drawn, p.stale = draw(), false
	}
	return p.drawn
}
