package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
)

// asking is what the console asks for numbers and log lines, where the gateway
// said that they are.
type asking struct {
	metrics sources.Metrics // nil: not known yet, or there are none
	logs    sources.Logs    // likewise
	from    api.Sources     // what they were made of
	// overview and history are when they are due again.
	overview, history time.Time
}

// connect goes to where the gateway says that its numbers and lines are.
func (m *model) connect(s api.Sources) {
	if m.o.Connect == nil || m.ask.metrics != nil && s == m.ask.from {
		return
	}
	var err error
	was := m.ask.from
	m.ask = asking{from: s}
	m.ask.metrics, m.ask.logs, err = m.o.Connect(s)
	if err != nil {
		m.log.add(m.now, "sources: %v", err)
	}
	if was != s {
		m.log.add(m.now, "numbers of %s, log lines of %s", sourceName(m.ask.metrics.Addr()), sourceName(m.ask.logs.Addr()))
	}
	m.live.metrics.Period = m.ask.metrics.Period()
	m.live.history.Period = 2 * sources.HistoryEvery
}

func sourceName(addr string) string {
	if addr == "" {
		return "the gateway itself"
	}
	return addr
}

// askMetrics asks for the numbers of the overview, three times in a period.
func (m *model) askMetrics() tea.Cmd {
	if m.ask.metrics == nil || m.now.Before(m.ask.overview) {
		return nil
	}
	gen, ok := m.live.metrics.Ask(m.now)
	if !ok {
		return nil
	}
	m.ask.overview = m.now.Add(max(m.live.metrics.Period/3, time.Second))
	ctx, src := m.ctx, m.ask.metrics
	return func() tea.Msg { return metricsMsg(src.Overview(ctx, gen)) }
}

// askHistory asks for the last hours, seldom.
func (m *model) askHistory() tea.Cmd {
	if m.ask.metrics == nil || m.now.Before(m.ask.history) {
		return nil
	}
	gen, ok := m.live.history.Ask(m.now)
	if !ok {
		return nil
	}
	m.ask.history = m.now.Add(sources.HistoryEvery / 2)
	var limit *float64
	if s := m.live.state.Value(); s != nil && s.Limit != nil {
		limit = &s.Limit.FallbackRatio
	}
	ctx, src := m.ctx, m.ask.metrics
	return func() tea.Msg { return historyMsg(src.History(ctx, gen, limit)) }
}
