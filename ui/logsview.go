package ui

import (
	"errors"
	"strconv"
	"strings"

	"failback/sources"
	"failback/ui/text"
)

// logsWindow is the log screen: the queries that are offered with what the one
// under the cursor means, or the answer with its query.
func (m *model) logsWindow(w, room int) []row {
	list := &m.lists[logs]
	word := ""
	if s := m.logs.shown; s != nil {
		word = m.filterWord(list.filter, len(m.logRows()), len(s.rows))
	}
	rows := []row{m.rule(w, word)}
	if m.logs.reading && m.logs.asked != nil {
		return append(rows, m.readingRows(w, room-1)...)
	}
	return append(rows, m.pickingRows(w, room-1)...)
}

// pickingRows are the queries, what the one under the cursor means, and the
// beginning of the last answer.
func (m *model) pickingRows(w, room int) []row {
	l := &m.logs
	qs := m.offered()
	l.cursor = clamp(l.cursor, 0, len(qs)-1)
	q := qs[l.cursor]

	title := row{{" LOGS", accent}}
	if m.ask.logs != nil {
		title = title.add(normal, " of "+m.th.outside(sourceName(m.ask.logs.Addr())))
	}
	n := min(len(qs), max(room/2, 1))
	top := clamp(l.cursor-n/2, 0, len(qs)-n)
	var where row
	if n < len(qs) {
		where = plain(strconv.Itoa(top+1) + "-" + strconv.Itoa(top+n) + " of " + strconv.Itoa(len(qs)) + " ")
	}
	rows := []row{title.apart(where, w, true, m.gl.cut)}
	for i := top; i < top+n; i++ {
		mark, st := span{"  ", normal}, normal
		if i == l.cursor {
			mark, st = span{" >", accent}, strong
		}
		what := qs[i].Title
		if qs[i].Name == ownName && l.own != "" {
			what = m.th.outside(l.own)
		}
		rows = append(rows, row{mark, {" " + left(qs[i].Name, 14, ""), st}, {what, normal}})
	}
	rest := room - len(rows)
	about := m.aboutQuery(&q, w)
	if l.asked == nil {
		about = append([]row{first(w,
			styled(dim, " nothing asked yet: enter runs the query, a types your own; neither changes traffic"),
			styled(dim, " nothing asked yet: enter runs the query"),
			styled(dim, " nothing asked yet: enter runs it"),
		)}, about...)
	}
	if len(about) > rest {
		about = about[:max(rest, 0)]
	}
	rows = append(rows, about...)
	if rest -= len(about); rest < 3 || l.asked == nil {
		return rows
	}
	head := row{{" ANSWER", accent}, {" to " + l.asked.Name, normal}, {"  tab goes there", dim}}
	rows = append(rows, m.rule(w, ""), head.apart(m.answerAge().add(normal, " "), w, true, m.gl.cut))
	return append(rows, m.answerRows(w, rest-2, false)...)
}

// logLabel is how wide the labels of the log screen are.
const logLabel = 8

// aboutQuery is what a query asks and what its answer means.
func (m *model) aboutQuery(q *logQuestion, w int) []row {
	var rows []row
	add := func(label, value string, st style) {
		if value != "" {
			rows = append(rows, entryBeside(logLabel, label, value, w, st)...)
		}
	}
	if q.q.Query == "" {
		add("query", "none yet: a types one", dim)
		return rows
	}
	add("query", m.th.outside(q.q.Query), normal)
	rows = append(rows, m.rangeRow(q, w))
	// No answer is there yet, or not of this query: it must not read as one.
	if q.Means != "" {
		add("means", "an answer: "+q.Means, normal)
	}
	if q.None != "" {
		add("", "an empty one would mean: "+q.None, normal)
	}
	add("runbook", q.Runbook, dim)
	return rows
}

// rangeRow is when a question asks about, and how, in one row.
func (m *model) rangeRow(q *logQuestion, w int) row {
	span := text.LogSpan(q.q)
	if m.logs.over == 0 && m.logs.fixedTo.IsZero() && q.Range > 0 {
		span += " (its own)"
	}
	full, short := logTimes(q.q)
	label := row{{" " + left("range", logLabel, ""), dim}}
	return first(w,
		label.add(dim, full+", "+span+", "+text.LogShape(q.q)),
		label.add(dim, short+", "+span+", "+text.LogShape(q.q)),
		label.add(dim, short+", "+text.LogSpan(q.q)),
		row{{" " + short + ", " + text.LogSpan(q.q), dim}},
	)
}

// answerAge is how old the answer is, or what is awaited.
func (m *model) answerAge() row {
	l := &m.logs
	switch {
	case l.tail != nil:
		return row{{"tail: " + string(l.tail.state.Mode), tailStyle(l.tail.state.Mode)}}
	case l.cancel != nil:
		return row{{"asking " + text.Age(sources.Elapsed(l.askedAt, m.now)), warn}}
	case l.err != nil:
		return row{{text.Age(sources.Elapsed(l.errAt, m.now)) + " ago", dim}}
	case l.shown != nil:
		return row{{text.Age(sources.Elapsed(l.shown.at, m.now)) + " old", dim}}
	}
	return nil
}

// readingRows are the answer under its query.
func (m *model) readingRows(w, room int) []row {
	l := &m.logs
	title := row{{" " + l.asked.Name, accent}, {": " + l.asked.Title, normal}}
	query := entryBeside(logLabel, "query", m.th.outside(l.asked.q.Query), w, normal)
	// The answer keeps a half of the room, the query has what it needs.
	if n := max(room/2-2, 1); len(query) > n {
		query = query[:n]
		last := query[n-1].pad(w)
		query[n-1] = last.fit(w-width(m.gl.cut), "").add(warn, m.gl.cut)
	}
	rows := append(query, m.rangeRow(l.asked, w))
	rest := room - 1 - len(rows)
	answer := m.answerRows(w, rest, true)
	where := m.answerAge()
	if idx := m.logRows(); len(idx) > 0 {
		where = where.add(normal, "  "+strconv.Itoa(clamp(m.lists[logs].cursor, 0, len(idx)-1)+1)+" of "+text.Count(uint64(len(idx))))
	}
	where = where.add(normal, " ")
	return append(append([]row{title.apart(where, w, true, m.gl.cut)}, rows...), answer...)
}

// answerRows are an answer in n rows: what must be known of it, then what is in
// it, around the cursor if it is there.
func (m *model) answerRows(w, n int, cursor bool) []row {
	if n <= 0 {
		return nil
	}
	l := &m.logs
	var rows []row
	say := func(st style, s string) {
		for _, r := range wrap(s, max(w-2, 10), st) {
			rows = append(rows, plain(" ").join(r))
		}
	}
	switch {
	case l.tail != nil:
		say(tailStyle(l.tail.state.Mode), m.tailText())
	case l.cancel != nil && l.shown != nil && l.shown.answer.More != nil:
		say(warn, "asking for the next page for "+text.Age(sources.Elapsed(l.askedAt, m.now))+"; esc gives it up")
	case l.cancel != nil:
		say(warn, "asking for "+text.Age(sources.Elapsed(l.askedAt, m.now))+"; esc gives it up")
	case l.err != nil:
		return m.refusedRows(w, n)
	case l.shown == nil:
		say(dim, "given up; r asks again")
	}
	s := l.shown
	if s == nil {
		return cutRows(rows, n)
	}
	a := s.answer
	idx := m.logRows()
	if s.question.Alarm && !a.Empty() {
		say(bad, "MUST BE EMPTY: each of these was answered against policy")
	}
	for i, note := range text.LogNotes(a) {
		if l.tail != nil && a.Empty() {
			note = "no line yet"
		}
		st := warn
		if i == 0 && a.Empty() {
			st = normal
			if s.question.None != "" && l.tail == nil {
				note += ": " + s.question.None
			}
		}
		say(st, m.th.outside(note))
	}
	if !a.Empty() && !a.CutOff && n > 6 {
		total := text.Counted(len(a.Rows), "line")
		if len(a.Rows) == 0 {
			total = text.Counted(len(s.rows), "number")
		}
		if t := l.tail; t != nil && t.passed > 0 {
			total += ", " + text.Count(t.passed) + " older ones have left"
		}
		if a.SearchedBytes >= 0 {
			total += ", searched " + text.Bytes(a.SearchedBytes)
		}
		say(dim, total)
	}
	if len(s.rows) > 0 && len(rows) > max(n/2, 1) {
		rows = cutRows(rows, max(n/2, 1))
	}
	if s.head != "" && n-len(rows) > 1 {
		rows = append(rows, styled(dim, "   "+m.th.outside(s.head)))
	}
	if len(idx) == 0 && len(s.rows) > 0 {
		say(warn, "none of "+text.Count(uint64(len(s.rows)))+" matches the filter; esc clears it")
	}
	if m.hasMore() && cursor && m.lists[logs].cursor >= len(idx)-1 && l.cancel == nil {
		say(dim, "the last line of this page: j asks for the next")
	}
	rows = cutRows(rows, n)
	fits := n - len(rows)
	at := clamp(m.lists[logs].cursor, 0, max(len(idx)-1, 0))
	top := clamp(at-fits/2, 0, max(len(idx)-fits, 0))
	for i := top; i < min(top+fits, len(idx)); i++ {
		mark := span{"   ", normal}
		if cursor && i == at {
			mark = span{" > ", accent}
		}
		rows = append(rows, append(row{mark}, m.logRow(&s.rows[idx[i]], w-3)...))
	}
	return rows
}

// tailStyle is how the state of a tail is drawn.
func tailStyle(mode sources.TailMode) style {
	if mode == sources.TailLive {
		return good
	}
	return warn
}

func cutRows(rows []row, n int) []row { return rows[:min(len(rows), n)] }

// logRow is one row of an answer, in w columns if it is a decision: of that the
// end says who answered.
func (m *model) logRow(r *logRow, w int) row {
	st := weightStyle[r.weight]
	if r.at.IsZero() {
		return styled(st, m.th.outside(r.text))
	}
	d, now := m.d()
	clock := d.clock(now).UTC()
	form := "15:04:05.000Z"
	if r.at.YearDay() != clock.YearDay() || r.at.Year() != clock.Year() {
		form = "01-02 15:04:05Z"
	}
	s := m.th.outside(r.text)
	if r.decides {
		s = fitDecision(s, w-len(form)-2, m.gl.cut)
	}
	return row{{r.at.Format(form) + "  ", dim}, {s, st}}
}

// refused reports whether the newest question was answered by a refusal of its
// query, which is none the better for being asked again.
func (l *logScreen) refused() bool {
	e, ok := errors.AsType[*sources.RemoteError](l.err)
	return ok && e.Kind == sources.RemoteQuery
}

// refusedRows say why there is no answer, and where in the query if that is
// known.
func (m *model) refusedRows(w, n int) []row {
	l := &m.logs
	message, head := sources.Why(l.err), "NO ANSWER: "
	if l.refused() {
		head = "REFUSED: " // it answers: the query is what is wrong
		if e, _ := errors.AsType[*sources.RemoteError](l.err); e.Message != "" {
			message = e.Message
		}
	}
	var rows []row
	for i, line := range text.VisibleLines(strings.TrimSpace(head + message)) {
		st := normal
		if i == 0 {
			st = bad
		}
		for _, r := range wrap(m.th.outside(line), max(w-2, 10), st) {
			rows = append(rows, plain(" ").join(r))
		}
	}
	if e, ok := errors.AsType[*sources.RemoteError](l.err); ok && e.Kind != sources.RemoteQuery {
		name, target := l.asked.Name, ""
		if name == ownName {
			name = ""
		}
		if s := m.live.state.Value(); s != nil {
			target = s.Log.Target
		}
		if says, command := text.LogWayOn(name, target); command != "" {
			for _, s := range []string{says, command} {
				for _, r := range wrap(m.th.outside(s), max(w-2, 10), normal) {
					rows = append(rows, plain(" ").join(r))
				}
			}
		}
	}
	if line, before, ok := text.Mark(l.asked.q.Query, message); ok {
		s := m.th.outside(line)
		at := width(m.th.outside(before))
		// What is around the place, if not all of the line fits.
		from := max(at-(w-4)*2/3, 0)
		marked := row{{s, normal}}.window(from, from+w-3)
		rows = append(cutRows(rows, max(n-2, 1)), plain("  ").join(marked), row{{"  " + spaces(at-from), normal}, {"^", bad}})
	}
	return cutRows(rows, n)
}

// logQueryLine is the own query while it is typed, and where its cursor is.
func (m *model) logQueryLine(w int) (row, int) {
	if m.logs.ranging {
		return m.rangeLine(w)
	}
	const head = " LogQL: "
	shown, at := fieldView(m.logs.field, w-len(head)-14, m.th)
	r := row{{head, accent}, {shown, normal}}
	return r.apart(styled(dim, "enter runs "), w, false, m.gl.cut), len(head) + at
}
