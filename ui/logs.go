package ui

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"failback/sources"
	"failback/ui/text"
)

const (
	// ownRange is how far back an own query looks unless somebody says otherwise.
	ownRange = time.Hour
	// aroundRequest is how far from a decision its log lines are looked for.
	aroundRequest = 10 * time.Minute
	// maxQuery bounds an own query, maxRange a range that is typed; in bytes.
	maxQuery, maxRange = 5000, 80
	// manyPoints is about how many points numbers over a range have.
	manyPoints = 30
	ownName    = "own"
)

// logRanges and logLimits are what the keys choose from; before the first and
// behind the last is what the query itself says.
var (
	logRanges = []time.Duration{15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}
	logLimits = []int{100, 500, 1000, sources.MaxLogsLimit}
)

// logScreen is the state of the log screen.
type logScreen struct {
	typing  bool   // a field has the keys
	ranging bool   // the field is the range's, not the own query's
	wrong   string // with the range that was typed
	field   textinput.Model

	cursor  int  // among the queries that are offered
	reading bool // the keys move in the answer, not among the queries

	own string // the own query, empty until one is typed
	// from and to are the range of the own query where it has one of its own.
	from, to time.Time

	// What was chosen; zero: as the query says. A fixed range gives way to over.
	over               time.Duration
	fixedFrom, fixedTo time.Time
	limit              int
	turned             bool // the other direction than the query's
	spread             bool // numbers over the range, not at its end

	gen     uint64             // of the newest question
	cancel  context.CancelFunc // of the question that is out; nil: none is
	asked   *logQuestion       // the newest; nil: none yet
	askedAt time.Time
	shown   *logShown // the newest answer to asked; nil: none yet
	err     error     // why asked has no answer
	errAt   time.Time

	tail   *logTail // nil: nothing is followed
	beyond bool     // the cursor went beyond the last line

	opened openedLog
}

// logQuestion is a question with what is to be said of it.
type logQuestion struct {
	sources.Canned // of an own query only Name and Title
	q              sources.LogQuery
}

// logsMsg answers a query of the log screen.
type logsMsg struct {
	sources.Answer[sources.LogAnswer]
	shown *logShown // nil on an error
	page  bool      // shown goes on with one more page
}

func logKeys() []binding {
	here := at(logs)
	return []binding{
		bind([]string{"l"}, "l", "logs", "canned and own LogQL over the decision log").at(everywhere &^ at(runbook)).line(10).unless(func(m *model) string { return m.already(logs) }).hidden().does(act(func(m *model) { m.enter(logs) })),
		bind([]string{"enter"}, "enter", "run", "run the query under the cursor, or open the line; no query changes traffic").at(here).line(2).unless((*model).noLogEnter).does((*model).logEnter),
		bind([]string{"a"}, "a", "own query", "type a query of your own; enter runs it").at(here).line(4).does(act((*model).typeQuery)),
		bind([]string{"tab"}, "tab", "answer", "from the queries to the answer and back").at(here).line(6).unless((*model).nothingAsked).does(act((*model).logTab)),
		bind([]string{"["}, "[ ]", "range", "a shorter range: 24h, 6h, 1h, 15m, or the query's own").at(here).line(6).does(func(m *model) tea.Cmd { return m.logRange(-1) }),
		bind([]string{"]"}, "]", "", "a longer range").at(here).does(func(m *model) tea.Cmd { return m.logRange(1) }),
		bind([]string{"T"}, "T", "tail", "follow the lines as they are written, or stop that").at(here).line(5).unless((*model).noTail).does((*model).tailKey),
		bind([]string{"R"}, "R", "", "type the range: from when to when, in this host's zone or with a Z behind").at(here).does(act((*model).typeRange)),
		bind([]string{"t"}, "t", "turn", "the newest lines first, or the oldest").at(here).line(8).does(func(m *model) tea.Cmd { m.logs.turned = !m.logs.turned; return m.logChanged() }),
		bind([]string{"+", "="}, "+", "", "a greater limit: 100, 500, 1000, 5000 lines, or the query's own").at(here).does(func(m *model) tea.Cmd { return m.logLimit(1) }),
		bind([]string{"-"}, "-", "", "a smaller limit").at(here).does(func(m *model) tea.Cmd { return m.logLimit(-1) }),
		bind([]string{"M"}, "M", "", "numbers over the range instead of for all of it, or back").at(here).does(func(m *model) tea.Cmd { m.logs.spread = !m.logs.spread; return m.logChanged() }),
		bind([]string{"r"}, "r", "again", "ask the same again, up to now").at(here).line(7).unless((*model).noAgain).does((*model).logAgain),
		bind([]string{"/"}, "/", "filter", "filter the answer; esc clears").at(here).line(9).unless((*model).noAnswer).does(act(func(m *model) { m.logs.reading = true; m.startFilter() })),
		bind([]string{"x"}, "x", "as logcli", "copy the query as a logcli command").at(here).line(12).unless((*model).noLogQuery).does((*model).copyLogcli),
		bind([]string{"A"}, "A", "", "copy the whole answer, with its query").at(here).unless((*model).noAnswer).does((*model).copyAnswer),
		bind([]string{"L"}, "L", "its lines", "the log lines of this request").at(at(decisions, decision)).line(9).unless((*model).noRequest).does((*model).logsOfRequest),
	}
}

// offered are the queries that can be chosen: the canned ones, and the own one.
func (m *model) offered() []logQuestion {
	var canned []sources.Canned
	if s := m.live.state.Value(); s != nil {
		canned = sources.CannedQueries(s.Tasks, s.Sources.Loki.Selector)
	} else {
		canned = sources.CannedQueries(nil, "")
	}
	end := m.live.clock(m.now)
	qs := make([]logQuestion, 0, len(canned)+1)
	for _, c := range canned {
		from, to := end.Add(-c.Range), end
		switch l := &m.logs; {
		case l.over > 0:
			from = end.Add(-l.over)
		case !l.fixedTo.IsZero():
			from, to = l.fixedFrom, l.fixedTo
		}
		qs = append(qs, m.chosen(logQuestion{c, c.At(from, to)}))
	}
	return append(qs, m.ownQuestion(end))
}

// ownQuestion is the question of the own query.
func (m *model) ownQuestion(end time.Time) logQuestion {
	l := &m.logs
	q := sources.LogQuery{Query: l.own, Start: end.Add(-ownRange), End: end, Instant: sources.AsksNumbers(l.own)}
	switch {
	case l.over > 0:
		q.Start = end.Add(-l.over)
	case !l.fixedTo.IsZero():
		q.Start, q.End = l.fixedFrom, l.fixedTo
	case !l.to.IsZero():
		q.Start, q.End = l.from, l.to
	}
	return m.chosen(logQuestion{sources.Canned{Name: ownName, Title: "your own LogQL"}, q})
}

// chosen is a question with what was chosen on the screen.
func (m *model) chosen(q logQuestion) logQuestion {
	l := &m.logs
	if l.limit > 0 {
		q.q.Limit = l.limit
	}
	if q.q.Limit == 0 {
		q.q.Limit = sources.LogsLimit
	}
	if l.turned {
		q.q.Forward = !q.q.Forward
	}
	if q.q.Instant && l.spread {
		q.q.Instant = false
		q.q.Step = max((q.q.End.Sub(q.q.Start) / manyPoints).Round(time.Second), time.Second)
	}
	if m.ask.logs != nil {
		q.q.Addr = m.ask.logs.Addr()
	}
	return q
}

// picked is the question under the cursor.
func (m *model) picked() logQuestion {
	qs := m.offered()
	m.logs.cursor = clamp(m.logs.cursor, 0, len(qs)-1)
	return qs[m.logs.cursor]
}

// askLogs asks q and goes to its answer. What is out is given up.
func (m *model) askLogs(q logQuestion) tea.Cmd {
	l := &m.logs
	if why := m.noLogs(); why != "" {
		m.say(warn, why)
		return nil
	}
	m.endTail()
	if l.cancel != nil {
		l.cancel()
	}
	if l.asked == nil || l.asked.Name != q.Name || l.asked.q.Query != q.q.Query {
		list := &m.lists[logs]
		list.cursor, list.filter = 0, ""
		l.shown = nil
	}
	ctx, cancel := context.WithCancel(m.ctx)
	l.gen++
	l.cancel, l.asked, l.askedAt, l.err = cancel, &q, m.now, nil
	l.reading = true
	src, gen := m.ask.logs, l.gen
	return func() tea.Msg {
		defer cancel()
		a := src.Query(ctx, gen, q.q)
		msg := logsMsg{Answer: a}
		if a.Err == nil {
			msg.shown = showLog(&q, a.Value, a.Clock.Received)
		}
		return msg
	}
}

// takeLogs takes an answer, unless something else was asked since or it was
// given up.
func (m *model) takeLogs(a logsMsg) {
	l := &m.logs
	if a.Gen != l.gen || l.cancel == nil {
		return
	}
	l.cancel()
	l.cancel = nil
	if a.Err != nil && a.page {
		m.noMore(a.Err)
		return
	}
	if a.Err != nil {
		l.err, l.errAt, l.shown = a.Err, m.now, nil
		return
	}
	l.shown = a.shown
	list := &m.lists[logs]
	list.cursor = clamp(list.cursor, 0, max(len(a.shown.rows)-1, 0))
}

// giveUp ends the question that is out; false if none is.
func (m *model) giveUp() bool {
	l := &m.logs
	if l.cancel == nil {
		return false
	}
	l.cancel()
	l.cancel = nil
	l.gen++
	l.reading = l.shown != nil // else there is nothing to read
	m.say(normal, "the query was given up after "+text.Age(sources.Elapsed(l.askedAt, m.now)))
	return true
}

// logBack goes one level back within the log screen; false if it is left.
func (m *model) logBack() bool {
	l := &m.logs
	switch {
	case m.giveUp():
		return true
	case m.lists[logs].filter != "":
		return false // cleared as that of any list
	case l.reading:
		l.reading = false
		return true
	}
	return false
}

// noLogs says why nothing can be asked.
func (m *model) noLogs() string {
	switch {
	case m.ask.logs != nil:
		return ""
	case m.o.Connect == nil:
		return "this console has no source of log lines"
	}
	return "where the log lines are is not known yet: " + m.never()
}

func (m *model) noLogQuery() string {
	if q := m.lookedAt(); q.q.Query == "" {
		return "there is no query yet: a types one"
	}
	return ""
}

// lookedAt is the question that is looked at.
func (m *model) lookedAt() logQuestion {
	if l := &m.logs; l.reading && l.asked != nil {
		return *l.asked
	}
	return m.picked()
}

func (m *model) noLogEnter() string {
	l := &m.logs
	if l.reading {
		if len(m.logRows()) == 0 {
			return "there is no line"
		}
		return ""
	}
	if m.picked().q.Query == "" {
		return ""
	}
	return m.noLogs()
}

func (m *model) logEnter() tea.Cmd {
	l := &m.logs
	if l.reading {
		idx := m.logRows()
		l.opened = openedLog{l.shown, idx[clamp(m.lists[logs].cursor, 0, len(idx)-1)]}
		m.enter(logLine)
		return nil
	}
	q := m.picked()
	if q.q.Query == "" {
		m.typeQuery()
		return nil
	}
	return m.askLogs(q)
}

func (m *model) noAnswer() string {
	switch l := &m.logs; {
	case l.shown != nil:
		return ""
	case l.cancel != nil:
		return "the answer is not there yet"
	}
	return "there is no answer"
}

func (m *model) logTab() { m.logs.reading = !m.logs.reading }

func (m *model) nothingAsked() string {
	if m.logs.asked == nil {
		return "nothing was asked yet"
	}
	return ""
}

func (m *model) noAgain() string {
	if why := m.nothingAsked(); why != "" {
		return why
	}
	return m.noLogs()
}

// logAgain asks the newest question again, up to now.
func (m *model) logAgain() tea.Cmd {
	l := &m.logs
	for _, q := range m.offered() {
		if q.Name == l.asked.Name {
			return m.askOrTail(q)
		}
	}
	return m.askOrTail(*l.asked)
}

// askOrTail asks q or, while the log is followed, follows it.
func (m *model) askOrTail(q logQuestion) tea.Cmd {
	if m.logs.tail != nil && !sources.AsksNumbers(q.q.Query) {
		return m.startTail(q)
	}
	return m.askLogs(q)
}

// logChanged asks again what is read, as it was chosen now.
func (m *model) logChanged() tea.Cmd {
	l := &m.logs
	if !l.reading || l.asked == nil || m.noLogs() != "" {
		return nil
	}
	return m.logAgain()
}

// logRange chooses a range, shorter or longer.
func (m *model) logRange(n int) tea.Cmd {
	q := m.lookedAt()
	m.logs.fixedFrom, m.logs.fixedTo = time.Time{}, time.Time{}
	m.logs.over = next(logRanges, m.logs.over, q.q.End.Sub(q.q.Start), n)
	return m.logChanged()
}

func (m *model) logLimit(n int) tea.Cmd {
	m.logs.limit = next(logLimits, m.logs.limit, m.lookedAt().q.Limit, n)
	return m.logChanged()
}

// next is the value beside in, up or down; chosen is 0 while nothing is chosen
// and now is what holds. Beyond either end it is 0.
func next[T int | time.Duration](values []T, chosen, now T, n int) T {
	if n > 0 {
		for _, v := range values {
			if v > now {
				return v
			}
		}
		if chosen == 0 {
			return values[0]
		}
		return 0
	}
	for _, v := range slices.Backward(values) {
		if v < now {
			return v
		}
	}
	if chosen == 0 {
		return values[len(values)-1]
	}
	return 0
}

// typeQuery gives the keys to the own query, which begins as the one that is
// looked at.
func (m *model) typeQuery() {
	l := &m.logs
	l.field = newField()
	q := m.lookedAt().q.Query
	if q == "" {
		q = m.streams()
	}
	l.field.SetValue(oneLine(q))
	l.field.CursorEnd()
	l.typing, l.ranging = true, false
}

// streams selects the streams of this gateway.
func (m *model) streams() string {
	if s := m.live.state.Value(); s != nil {
		return sources.Streams(s.Sources.Loki.Selector)
	}
	return sources.DefaultStreams
}

// key goes to the field of the own query.
func (l *logScreen) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		l.typing = false
	case "enter":
		if l.ranging {
			cmd, wrong := m.setRange(l.field.Value())
			l.typing, l.wrong = wrong != "", wrong
			return cmd
		}
		own := strings.TrimSpace(l.field.Value())
		l.typing = false
		if own == "" {
			return nil
		}
		l.own, l.from, l.to = own, time.Time{}, time.Time{}
		return m.runOwn()
	default:
		l.wrong = ""
		m.typeInto(&l.field, k, l.most())
	}
	return nil
}

// paste goes to the field too.
func (l *logScreen) paste(m *model, p tea.PasteMsg) { m.typeInto(&l.field, p, l.most()) }

// most is how many bytes its field takes.
func (l *logScreen) most() int {
	if l.ranging {
		return maxRange
	}
	return maxQuery
}

// runOwn runs the own query.
func (m *model) runOwn() tea.Cmd {
	qs := m.offered()
	m.logs.cursor = len(qs) - 1
	return m.askLogs(qs[len(qs)-1])
}

// asChosen leaves everything to the query again.
func (l *logScreen) asChosen() {
	l.over, l.limit, l.turned, l.spread = 0, 0, false, false
	l.fixedFrom, l.fixedTo = time.Time{}, time.Time{}
}

// openCanned goes to the log screen and runs the canned query of that name.
func (m *model) openCanned(name string) tea.Cmd {
	m.enter(logs)
	m.logs.asChosen()
	for i, q := range m.offered() {
		if q.Name == name {
			m.logs.cursor = i
			return m.askLogs(q)
		}
	}
	m.say(warn, "there is no canned query "+m.th.outside(name))
	return nil
}

func (m *model) noRequest() string {
	v := m.openDecision()
	switch {
	case v == nil:
		return "there is no row"
	case v.RequestID == "":
		return "it has no request id"
	}
	return m.noLogs()
}

// logsOfRequest goes to the log screen with the lines that name the request.
func (m *model) logsOfRequest() tea.Cmd {
	v := m.openDecision()
	if m.screen == decisions {
		m.hold(decisions) // esc comes back to this row
	}
	l := &m.logs
	l.asChosen()
	l.own = m.streams() + " |= " + strconv.QuoteToASCII(v.RequestID)
	l.from = v.Time.Add(-aroundRequest)
	l.to = v.Time.Add(time.Duration(v.DurationMS*float64(time.Millisecond)) + aroundRequest)
	m.enter(logs)
	return m.runOwn()
}

// moveLogs moves among the queries, or in the answer.
func (m *model) moveLogs(n int) {
	l := &m.logs
	if !l.reading {
		l.cursor = clamp(l.cursor+n, 0, len(m.offered())-1)
		return
	}
	list := &m.lists[logs]
	l.beyond = n > 0 && list.cursor+n > len(m.logRows())-1
	list.cursor = clamp(min(list.cursor, max(len(m.logRows())-1, 0))+n, 0, max(len(m.logRows())-1, 0))
}
