package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// tick comes with each second of the wall clock, so that the clock on the
// screen does not skip one.
func (m *model) tick() tea.Cmd {
	next := m.now.Truncate(time.Second).Add(time.Second)
	return m.later(next.Sub(m.now), tickMsg{})
}

// later sends msg after d, or nothing if the console ends before.
func (m *model) later(d time.Duration, msg tea.Msg) tea.Cmd {
	ctx := m.ctx
	return func() tea.Msg {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return msg
		case <-ctx.Done():
			return nil
		}
	}
}

// askAll asks what is not being asked.
func (m *model) askAll() tea.Cmd {
	return tea.Batch(m.askState(), m.askEvents(), m.askDecisions(), m.askMetrics(), m.askHistory(), m.askLoki(), m.askIncidents())
}

func (m *model) askState() tea.Cmd {
	gen, ok := m.live.state.Ask(m.now)
	if !ok {
		return nil
	}
	ctx, src := m.ctx, m.src
	return func() tea.Msg { return stateMsg(src.State(ctx, gen)) }
}

func (m *model) askEvents() tea.Cmd {
	gen, ok := m.live.events.Ask(m.now)
	if !ok {
		return nil
	}
	ctx, src, after := m.ctx, m.src, m.live.after
	return func() tea.Msg { return eventsMsg(src.Events(ctx, gen, after)) }
}

func (m *model) askDecisions() tea.Cmd {
	gen, ok := m.live.decisions.Ask(m.now)
	if !ok {
		return nil
	}
	f := api.Filter{Limit: fewDecisions}
	if m.screen == decisions || m.screen == decision {
		f.Limit = manyDecisions
	}
	ctx, src := m.ctx, m.src
	return func() tea.Msg { return decisionsMsg(src.Decisions(ctx, gen, f)) }
}

func (m *model) takeState(a sources.Answer[api.State]) {
	if !m.live.state.Take(a) {
		return
	}
	reach := "answers"
	if a.Err != nil {
		reach = "does not answer: " + a.Err.Error()
	}
	if reach != m.reach {
		m.log.add(m.now, "gateway %s", reach)
		m.reach = reach
	}
	if a.Err == nil {
		m.connect(a.Value.Sources)
	}
	if s := m.live.state.Value(); s != nil && m.selected == "" && len(s.Upstreams) > 0 {
		m.selected = s.Upstreams[0].Name
	}
}

func (m *model) takeEvents(a sources.Answer[api.Events]) {
	fresh, first := m.live.takeEvents(a)
	if first {
		return
	}
	// What others did is said, the newest of it.
	s := m.live.state.Value()
	for i := range fresh {
		e := &fresh[i]
		if e.By == "" || e.By == "auto" || s == nil || e.By == s.You.Name || !shown(e) {
			continue
		}
		m.say(warn, text.By(e)+": "+m.th.outside(text.Event(e)))
		return
	}
}

// flushLog writes new lines of the own log to its file.
func (m *model) flushLog() tea.Cmd {
	lines := m.log.take()
	if len(lines) == 0 || m.o.DataDir == "" {
		return nil
	}
	dir := m.o.DataDir
	return func() tea.Msg {
		_ = appendLines(dir, logFile, lines) // the ring has them too, and there is nowhere else to say so
		return nil
	}
}
