package ui

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

const (
	// tailBytes bounds the lines that a tail keeps, beside their number.
	tailBytes = 16 << 20
	// tailRedraws is how long new lines are gathered before they are drawn.
	tailRedraws = 250 * time.Millisecond
)

// logTail is a query that is followed.
type logTail struct {
	gen    uint64
	ctx    context.Context // its own: what waits for its news ends with it
	cancel context.CancelFunc
	buffer *tailBuffer
	since  time.Time
	state  sources.TailState
	// passed counts the lines that came and have left the screen again.
	passed uint64
	// skipped counts those of them that nobody could see: more came at once than
	// are kept.
	skipped uint64
	held    []tailRow // came while the screen was frozen
}

// tailMsg is what a tail has to tell.
type tailMsg struct {
	gen     uint64
	rows    []tailRow // in the order of time
	state   sources.TailState
	skipped uint64
}

// tailEndedMsg ends a tail.
type tailEndedMsg struct {
	gen uint64
	err error
}

// tailRow is a line, and as it is drawn.
type tailRow struct {
	row  sources.LogRow
	draw logRow
}

// tailBuffer holds what a tail gave until it is drawn, the newest of it.
type tailBuffer struct {
	limit int
	news  chan struct{} // holds a token while there is something to tell

	mu      sync.Mutex
	rows    []sources.LogRow  // guarded by mu, as what follows
	bytes   int               // of the rows
	skipped uint64            // rows that had no place
	state   sources.TailState // the newest
}

func newTailBuffer(limit int) *tailBuffer {
	return &tailBuffer{limit: limit, news: make(chan struct{}, 1)}
}

// put never blocks.
func (b *tailBuffer) put(n sources.TailNews) {
	b.mu.Lock()
	b.state = n.State
	b.rows = append(b.rows, n.Rows...)
	for i := range n.Rows {
		b.bytes += len(n.Rows[i].Line)
	}
	first := 0
	for len(b.rows)-first > b.limit || b.bytes > tailBytes && len(b.rows)-first > 1 {
		b.bytes -= len(b.rows[first].Line)
		first++
	}
	b.skipped += uint64(first)
	if first > 0 {
		b.rows = slices.Clone(b.rows[first:]) // the others are let go
	}
	b.mu.Unlock()
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// take returns what was put since.
func (b *tailBuffer) take() (rows []sources.LogRow, state sources.TailState, skipped uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rows, state, skipped = b.rows, b.state, b.skipped
	b.rows, b.bytes, b.skipped = nil, 0, 0
	return rows, state, skipped
}

// noTail says why the query that is looked at cannot be followed.
func (m *model) noTail() string {
	switch q := m.lookedAt(); {
	case m.logs.tail != nil:
		return ""
	case m.noLogs() != "":
		return m.noLogs()
	case q.q.Query == "":
		return "there is no query yet: a types one"
	case sources.AsksNumbers(q.q.Query):
		return "numbers cannot be followed: only lines can"
	case m.logs.refused() && m.logs.asked.q.Query == q.q.Query:
		return "this query was refused: a types another"
	}
	if _, ok := m.ask.logs.(sources.Tailer); !ok {
		return "this source of log lines cannot be followed"
	}
	return ""
}

// tailKey begins to follow the query that is looked at, or ends that.
func (m *model) tailKey() tea.Cmd {
	if m.logs.tail != nil {
		m.endTail()
		m.say(normal, "the log is no longer followed: r asks up to now")
		return nil
	}
	return m.startTail(m.lookedAt())
}

// startTail follows q from now on, its newest lines first. What is out is given
// up.
func (m *model) startTail(q logQuestion) tea.Cmd {
	src, ok := m.ask.logs.(sources.Tailer)
	if !ok {
		m.say(warn, m.noTail())
		return nil
	}
	l := &m.logs
	m.endTail()
	if l.cancel != nil {
		l.cancel()
		l.cancel = nil
	}
	list := &m.lists[logs]
	list.cursor, list.filter = 0, ""
	end := m.live.clock(m.now)
	q.q.Start, q.q.End = end.Add(-q.q.End.Sub(q.q.Start)), end
	ctx, cancel := context.WithCancel(m.ctx)
	l.gen++
	t := &logTail{gen: l.gen, ctx: ctx, cancel: cancel, buffer: newTailBuffer(q.q.Limit), since: m.now, state: sources.TailState{Mode: sources.TailConnecting}}
	l.tail, l.asked, l.askedAt, l.err, l.reading = t, &q, m.now, nil, true
	l.shown = &logShown{question: l.asked, at: m.now, answer: &sources.LogAnswer{Query: q.q, Kind: sources.LogLines, SearchedBytes: -1, Unparsed: -1}}
	run := func() tea.Msg { return tailEndedMsg{t.gen, src.Tail(ctx, q.q, t.buffer.put)} }
	return tea.Batch(run, t.next(0))
}

// next waits for news, which are gathered for a while.
func (t *logTail) next(gather time.Duration) tea.Cmd {
	ctx := t.ctx
	return func() tea.Msg {
		timer := time.NewTimer(gather)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-t.buffer.news:
		case <-ctx.Done():
			return nil
		}
		rows, state, skipped := t.buffer.take()
		msg := tailMsg{gen: t.gen, state: state, skipped: skipped, rows: make([]tailRow, len(rows))}
		for i := range rows {
			msg.rows[i] = tailRow{rows[i], drawn(&rows[i])}
		}
		return msg
	}
}

// drawn is a line made ready to be drawn.
func drawn(r *sources.LogRow) logRow {
	line, weight := text.LogLine(r.Line)
	return logRow{r.Time(), shorten(line), weight, strings.Contains(r.Line, `"model_route_selected"`), strings.ToLower(line + "\n" + r.Line)}
}

// endTail ends the tail, if there is one.
func (m *model) endTail() {
	if t := m.logs.tail; t != nil {
		t.cancel()
		m.logs.tail = nil
		m.logs.gen++
	}
}

// leaveTail ends a tail before log lines are asked for at next, unless that is
// where they come from already.
func (m *model) leaveTail(next api.Source) {
	now := m.ask.from.Loki
	next.Error, now.Error = "", ""
	if m.logs.tail == nil || next == now {
		return
	}
	m.endTail()
	m.say(warn, "the gateway names another source of log lines: the log is no longer followed, T follows it there")
}

// takeTail shows what a tail tells. A frozen screen keeps it for its end.
func (m *model) takeTail(a tailMsg) tea.Cmd {
	l := &m.logs
	t := l.tail
	if t == nil || t.gen != a.gen {
		return nil
	}
	t.state = a.state
	t.skipped += a.skipped
	t.passed += a.skipped
	if m.frozen != nil {
		t.held = append(t.held, a.rows...)
		if n := len(t.held) - l.asked.q.Limit; n > 0 {
			t.held = slices.Clone(t.held[n:])
			t.skipped += uint64(n)
			t.passed += uint64(n)
		}
	} else {
		m.growTail(append(t.held, a.rows...))
		t.held = nil
	}
	return t.next(tailRedraws)
}

// thawTail shows what came while the screen was frozen.
func (m *model) thawTail() {
	if t := m.logs.tail; t != nil && m.frozen == nil && len(t.held) > 0 {
		m.growTail(t.held)
		t.held = nil
	}
}

// growTail adds rows to what is shown. The cursor stays on its line, or with
// the newest.
func (m *model) growTail(rows []tailRow) {
	l := &m.logs
	s := l.shown
	list := &m.lists[logs]
	idx := m.logRows()
	newest := list.cursor == 0
	if l.asked.q.Forward {
		newest = list.cursor >= len(idx)-1
	}
	var on *sources.LogRow
	if !newest && len(idx) > 0 {
		on = &s.answer.Rows[idx[clamp(list.cursor, 0, len(idx)-1)]]
	}
	all := make([]tailRow, 0, len(s.rows)+len(rows))
	for i := range s.rows {
		all = append(all, tailRow{s.answer.Rows[i], s.rows[i]})
	}
	if !l.asked.q.Forward {
		slices.Reverse(all)
	}
	all = append(all, rows...)
	slices.SortStableFunc(all, func(x, y tailRow) int { return cmp.Compare(x.row.TS, y.row.TS) })
	size, first := 0, len(all)
	for first > 0 && len(all)-first < l.asked.q.Limit {
		if size += len(all[first-1].row.Line); size > tailBytes {
			break
		}
		first--
	}
	l.tail.passed += uint64(first)
	all = all[first:]
	if !l.asked.q.Forward {
		slices.Reverse(all)
	}
	a := *s.answer
	a.Query.End = m.live.clock(m.now)
	a.Rows = make([]sources.LogRow, len(all))
	fresh := &logShown{question: l.asked, answer: &a, at: m.now, rows: make([]logRow, len(all))}
	for i := range all {
		a.Rows[i], fresh.rows[i] = all[i].row, all[i].draw
	}
	l.shown = fresh
	idx = m.logRows()
	switch {
	case newest && l.asked.q.Forward:
		list.cursor = max(len(idx)-1, 0)
	case newest:
		list.cursor = 0
	case on != nil:
		at := slices.IndexFunc(idx, func(i int) bool {
			r := &a.Rows[i]
			return r.TS == on.TS && r.Line == on.Line
		})
		if at < 0 { // it has left: the oldest is nearest
			at = len(idx) - 1
			if l.asked.q.Forward {
				at = 0
			}
		}
		list.cursor = max(at, 0)
	}
}

// takeTailEnd shows why a tail has ended.
func (m *model) takeTailEnd(a tailEndedMsg) {
	l := &m.logs
	if l.tail == nil || l.tail.gen != a.gen {
		return
	}
	m.endTail()
	if a.err != nil {
		l.err, l.errAt, l.shown = a.err, m.now, nil
	}
}

// tailText says how a tail fares, and what of it is not there.
func (m *model) tailText() string {
	t := m.logs.tail
	s := "tail: " + string(t.state.Mode)
	if t.state.Mode == sources.TailPolling {
		s += " every " + text.Span(sources.TailEvery)
	}
	if t.state.Why != "" {
		s += ": " + m.th.outside(text.Visible(t.state.Why))
	}
	if n := t.state.Dropped; n > 0 {
		s += "; the server left out " + text.Counted(n, "line")
	}
	if n := t.skipped; n > 0 {
		s += "; " + text.Count(n) + " came too fast to be shown"
	}
	return s
}
