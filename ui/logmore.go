package ui

import (
	"context"
	"slices"

	tea "charm.land/bubbletea/v2"

	"failback/sources"
	"failback/ui/text"
)

// maxPaged bounds the lines that pages are added to.
const maxPaged = 50_000

// hasMore reports whether the answer goes on behind its last line.
func (m *model) hasMore() bool {
	s := m.logs.shown
	return s != nil && m.logs.tail == nil && s.answer.More != nil && len(s.rows) < maxPaged && m.lists[logs].filter == ""
}

// moreLogs asks for the next page, if the cursor went beyond the last line.
func (m *model) moreLogs() tea.Cmd {
	l := &m.logs
	if !l.beyond {
		return nil
	}
	l.beyond = false
	if !m.hasMore() || l.cancel != nil || m.noLogs() != "" {
		return nil
	}
	q := *l.asked
	q.q = l.shown.answer.Query
	q.q.From = l.shown.answer.More
	ctx, cancel := context.WithCancel(m.ctx)
	l.gen++
	l.cancel, l.askedAt = cancel, m.now
	src, gen, before := m.ask.logs, l.gen, l.shown
	return func() tea.Msg {
		defer cancel()
		a := src.Query(ctx, gen, q.q)
		msg := logsMsg{Answer: a, page: true}
		if a.Err == nil {
			msg.shown = grown(before, showLog(before.question, a.Value, a.Clock.Received))
		}
		return msg
	}
}

// grown is an answer with its next page.
func grown(s, page *logShown) *logShown {
	a := *s.answer
	a.Rows = slices.Concat(a.Rows, page.answer.Rows)
	a.CutOff, a.More = page.answer.CutOff, page.answer.More
	for _, w := range page.answer.Warnings {
		if !slices.Contains(a.Warnings, w) {
			a.Warnings = append(slices.Clip(a.Warnings), w)
		}
	}
	if page.answer.SearchedBytes > 0 {
		a.SearchedBytes = max(a.SearchedBytes, 0) + page.answer.SearchedBytes
	}
	return &logShown{question: s.question, answer: &a, at: s.at, rows: slices.Concat(s.rows, page.rows)}
}

// noMore shows why there is no next page; what is there stays.
func (m *model) noMore(err error) {
	m.say(warn, "the next page did not come: "+m.th.outside(text.Visible(sources.Why(err)))+"; j asks again")
}
