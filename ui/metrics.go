package ui

import (
	"context"
	"errors"
	"strings"
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
	// epoch counts the sources that there were so far: what an earlier one
	// answers is not taken for an answer of this one.
	epoch int
	// overview, history and probe are when they are due again.
	overview, history, probe time.Time
	limit                    *float64 // that history was asked with
	saidMetrics, saidLogs    string   // how they answered last, for the log
}

const (
	// probeEvery is how often Loki is asked for a sign of life, and probeAgain how
	// soon after it did not give one, and probeEmpty how soon after it had no line.
	probeEvery, probeAgain, probeEmpty = 30 * time.Second, 10 * time.Second, 3 * time.Second
	// probeTimeout is how long that is waited for.
	probeTimeout = 10 * time.Second
	// probeRange is in which a line shows that lines arrive.
	probeRange = 5 * time.Minute
)

// connect goes to where the gateway says that its numbers and lines are. What
// another source said is forgotten; one that says how it is is the same.
func (m *model) connect(s api.Sources) {
	if m.o.Connect == nil {
		return
	}
	if m.ask.metrics != nil && placesOf(s) == placesOf(m.ask.from) {
		if s != m.ask.from {
			m.ask.from = s
			m.ask.metrics.Told(s.Prometheus)
			m.ask.logs.Told(s.Loki)
		}
		return
	}
	metrics, lines, err := m.o.Connect(s)
	if err != nil {
		m.log.add(m.now, "sources: %v", err)
	}
	m.leaveTail(s.Loki)
	m.ask = asking{metrics: metrics, logs: lines, from: s, epoch: m.ask.epoch + 1}
	m.log.add(m.now, "numbers of %s, log lines of %s", sourceName(metrics.Addr()), sourceName(lines.Addr()))
	m.live.metrics = sources.Feed[sources.Overview]{Period: metrics.Period()}
	m.live.over, m.live.under = false, time.Time{}
	m.live.history = sources.Feed[sources.History]{Period: 2 * sources.HistoryEvery}
	m.live.loki = sources.Feed[sources.LogAnswer]{Period: probeEvery}
}

// placesOf is s without how it is.
func placesOf(s api.Sources) api.Sources {
	s.Prometheus.Error, s.Loki.Error = "", ""
	return s
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
	ctx, src, epoch := m.ctx, m.ask.metrics, m.ask.epoch
	return func() tea.Msg { return metricsMsg{epoch, src.Overview(ctx, gen)} }
}

// askHistory asks for the last hours, seldom, and at once when the limit
// changed.
func (m *model) askHistory() tea.Cmd {
	s := m.live.state.Value()
	if m.ask.metrics == nil || s == nil {
		return nil
	}
	var limit *float64
	if s.Limit != nil {
		limit = &s.Limit.FallbackRatio
	}
	if m.now.Before(m.ask.history) && sameLimit(limit, m.ask.limit) {
		return nil
	}
	gen, ok := m.live.history.Ask(m.now)
	if !ok {
		return nil
	}
	m.ask.history, m.ask.limit = m.now.Add(sources.HistoryEvery/2), limit
	ctx, src, epoch := m.ctx, m.ask.metrics, m.ask.epoch
	return func() tea.Msg { return historyMsg{epoch, src.History(ctx, gen, limit)} }
}

func sameLimit(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }

// askLoki asks whether Loki answers, and whether it has a line of this gateway
// of the last minutes by the gateway's clock, as the log screen asks: two lines at
// most, which it finds in memory.
func (m *model) askLoki() tea.Cmd {
	if m.ask.logs == nil || m.now.Before(m.ask.probe) {
		return nil
	}
	gen, ok := m.live.loki.Ask(m.now)
	if !ok {
		return nil
	}
	m.ask.probe = m.now.Add(probeEvery)
	q := sources.LogQuery{Query: m.ask.from.Loki.Selector, Start: m.live.clock(m.now).Add(-probeRange), Limit: 1}
	if strings.TrimSpace(q.Query) == "" {
		q.Query = sources.DefaultStreams
	}
	q.End = q.Start.Add(probeRange)
	ctx, src, epoch := m.ctx, m.ask.logs, m.ask.epoch
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		return lokiMsg{epoch, src.Query(ctx, gen, q)}
	}
}

func (m *model) takeMetrics(a metricsMsg) {
	if a.epoch != m.ask.epoch || !m.live.metrics.Take(a.Answer) {
		return
	}
	var warnings []string
	if a.Value != nil {
		warnings = a.Value.Warnings
		m.takeSide(a.Value.Ratio, a.Clock.At)
	}
	m.logReach(&m.ask.saidMetrics, "prometheus", a.Err, warnings)
}

// takeSide notes on which side of the limit the ratio of a moment is. Where that
// changed the history is asked at once: it says since when.
func (m *model) takeSide(ratio sources.Reading, at time.Time) {
	limit := m.live.limit()
	if limit == nil || ratio.State != api.StateValue {
		return
	}
	over := ratio.Value > *limit
	if over != m.live.over {
		m.ask.history = m.now
	}
	if m.live.over = over; !over {
		m.live.under = at
	}
}

func (m *model) takeHistory(a historyMsg) {
	if a.epoch == m.ask.epoch {
		m.live.history.Take(a.Answer)
	}
}

func (m *model) takeLoki(a lokiMsg) {
	if a.epoch != m.ask.epoch || !m.live.loki.Take(a.Answer) {
		return
	}
	var warnings []string
	if a.Err != nil {
		m.ask.probe = m.now.Add(probeAgain)
	} else {
		warnings = a.Value.Warnings
		if a.Value.Empty() {
			m.ask.probe = m.now.Add(probeEmpty)
		}
	}
	m.logReach(&m.ask.saidLogs, "loki", a.Err, warnings)
}

// logReach notes in the own log how a source answers, when that changed: the
// strip has no room for all of it.
func (m *model) logReach(said *string, source string, err error, warnings []string) {
	now := "answers"
	switch {
	case err != nil:
		now = "does not answer: " + err.Error()
	case len(warnings) > 0:
		now = "answers in part: " + strings.Join(warnings, "; ")
	}
	if now != *said {
		m.log.add(m.now, "%s %s", source, now)
		*said = now
	}
}

// heardLoki has Loki probed at once where the answer to another question says
// something else than the last probe did.
func (m *model) heardLoki(err error) {
	failed := err != nil
	if e, ok := errors.AsType[*sources.RemoteError](err); ok {
		switch e.Kind {
		case sources.RemoteQuery, sources.RemoteTooLarge, sources.RemoteGivenUp, sources.RemoteSetup:
			return // of the question, not of Loki
		}
	}
	if failed != m.live.loki.Failing(m.now) {
		m.ask.probe = m.now
	}
}
