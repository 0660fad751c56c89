package ui

import (
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
)

// The messages of the console's own. Answers carry the generation of their
// question.
type (
	tickMsg      struct{}
	stateMsg     sources.Answer[api.State]
	eventsMsg    sources.Answer[api.Events]
	decisionsMsg sources.Answer[api.Decisions]
	metricsMsg   struct {
		epoch int // of the source that was asked
		sources.Answer[sources.Overview]
	}
	historyMsg struct {
		epoch int
		sources.Answer[sources.History]
	}
	// lokiMsg answers the probe of Loki.
	lokiMsg struct {
		epoch int
		sources.Answer[sources.LogAnswer]
	}

	// shareMsg answers the command of a dialog.
	shareMsg struct {
		dialog   int
		upstream string
		change   string // what was asked for: "share 5% > 25%"
		settling *settling
		result   *api.Result
		err      error
	}
	// quietMsg comes when no key followed a y for long enough.
	quietMsg struct{ dialog, try int }

	copiedMsg struct {
		what, path string
		err        error
	}
)

const (
	// sayFor is how long a message stays on its line, and badFor that of one that
	// says what was not done.
	sayFor, badFor = 10 * time.Second, 20 * time.Second
	// offFor is that of one that only says that a key did nothing.
	offFor = 5 * time.Second
)

// message is the line at the bottom.
type message struct {
	text  string
	style style
	until time.Time
	// upstream and revision are of the change that it tells of; empty: of none.
	upstream string
	revision uint64
}

// moot ends the message that was there before an Update if what it belongs to
// has gone with that: its screen, or its place to a question. What says that
// something was not done is said to its end.
func (m *model) moot(before message, on screen, asked bool) {
	if m.message != before || before.style == bad {
		return
	}
	if m.screen != on || !asked && m.asks() {
		m.message = message{}
	}
}

// asks reports whether the console asks something.
func (m *model) asks() bool { return m.dialog != nil || m.form != nil || m.leaving != nil }

// tell makes the message one of a change of an upstream: it ends when there is a
// newer one.
func (m *model) tell(upstream string, revision uint64) {
	m.message.upstream, m.message.revision = upstream, revision
}

// overtaken reports whether the change that the message tells of is not the
// newest of its upstream any more.
func (m *model) overtaken() bool {
	s := &m.message
	if s.upstream == "" {
		return false
	}
	u := m.live.upstream(s.upstream)
	return u == nil || u.Revision > s.revision
}
