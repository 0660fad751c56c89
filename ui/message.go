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
	// sayFor is how long a message stays on its line.
	sayFor = 20 * time.Second
	// offFor is that of one that only says that a key did nothing.
	offFor = 5 * time.Second
)

// message is the line at the bottom.
type message struct {
	text  string
	style style
	until time.Time
}
