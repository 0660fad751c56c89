package ui

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"failback/sources"
	"failback/ui/text"
)

const (
	// maxShown is how much of a line has a place in a list; opened it is whole.
	maxShown = 2000
	// maxClip is how much is put on the clipboard: more than that over OSC 52
	// keeps a terminal busy. The file has all of it.
	maxClip = 200_000
)

// logShown is an answer made ready to be drawn, by the command that asked.
type logShown struct {
	question *logQuestion
	answer   *sources.LogAnswer
	at       time.Time // when it came
	head     string    // of the columns; empty where there are none
	rows     []logRow
}

// logRow is one row of an answer.
type logRow struct {
	at     time.Time // zero: the text has it, or there is none
	text   string    // fit to show
	weight text.Weight
	// decides says that it is a decision with its way.
	decides bool
	find    string // what the filter looks at, lower case
}

// showLog makes an answer ready. It is not for Update: an answer may be large.
func showLog(q *logQuestion, a *sources.LogAnswer, at time.Time) *logShown {
	s := &logShown{question: q, answer: a, at: at}
	for i := range a.Rows {
		s.rows = append(s.rows, drawn(&a.Rows[i]))
	}
	if len(a.Series) > 0 {
		lines := strings.Split(strings.TrimSuffix(text.Table(text.LogTable(a)), "\n"), "\n")
		s.head = lines[0]
		for _, l := range lines[1:] {
			s.rows = append(s.rows, logRow{text: l, find: strings.ToLower(l)})
		}
	}
	return s
}

// shorten cuts what no list has room for.
func shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	n := maxShown
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// logRows are the rows of the answer that pass the filter, by their places.
func (m *model) logRows() []int {
	s := m.logs.shown
	if s == nil {
		return nil
	}
	l := &m.lists[logs]
	if l.from != any(s) || l.by != l.filter || l.matched == nil {
		l.from, l.by, l.matched = s, l.filter, make([]int, 0, len(s.rows))
		for i := range s.rows {
			if l.filter == "" || strings.Contains(s.rows[i].find, l.filter) {
				l.matched = append(l.matched, i)
			}
		}
	}
	return l.matched
}

// openedLog is a row that is open, whatever becomes of the list.
type openedLog struct {
	shown *logShown
	row   int
}

// logLineBody is one line opened: its time, labels and fields, and as it is.
func (m *model) logLineBody(w int) []row {
	o := m.logs.opened
	if o.shown == nil || o.row >= len(o.shown.rows) {
		return []row{styled(dim, " there is nothing here")}
	}
	out := m.th.outside
	var rows []row
	add := func(label, value string) {
		rows = append(rows, entry(out(label), out(value), w, normal)...)
	}
	add("query", o.shown.question.q.Query)
	if len(o.shown.answer.Rows) == 0 {
		rows = append(rows, nil, styled(dim, " "+out(o.shown.head)))
		for _, r := range wrap(out(o.shown.rows[o.row].text), max(w-1, 10), normal) {
			rows = append(rows, plain(" ").join(r))
		}
		return rows
	}
	r := &o.shown.answer.Rows[o.row]
	add("time", r.Time().Format(time.RFC3339Nano))
	section := func(name string, fs []text.LogField) {
		if len(fs) == 0 {
			return
		}
		rows = append(rows, nil, styled(accent, " "+name))
		for _, f := range fs {
			if n := out(f.Name); width(n) >= labelWidth {
				rows = append(rows, styled(dim, " "+n))
				f.Name = ""
			}
			add(f.Name, f.Value)
		}
	}
	fields := text.LogFields(r.Line)
	section("LABELS", labelsBeside(r.Labels, fields))
	section("FIELDS", fields)
	rows = append(rows, nil, styled(accent, " AS IT IS"))
	for _, l := range wrap(out(r.Line), max(w-1, 10), normal) {
		rows = append(rows, plain(" ").join(l))
	}
	return rows
}

// labelsBeside are the labels that are not fields of the line as well, as `json`
// makes of each, in the order of their names.
func labelsBeside(labels map[string]string, fields []text.LogField) []text.LogField {
	known := make(map[text.LogField]bool, len(fields))
	for _, f := range fields {
		known[f] = true
	}
	var ls []text.LogField
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if f := (text.LogField{Name: name, Value: labels[name]}); f.Value != "" && !known[f] {
			ls = append(ls, f)
		}
	}
	return ls
}

// logRowText is the row under the cursor, whole.
func (m *model) logRowText() string {
	idx := m.logRows()
	if !m.logs.reading || len(idx) == 0 {
		q := m.lookedAt()
		return m.th.outside(q.Name + ": " + q.q.Query)
	}
	s := m.logs.shown
	i := idx[clamp(m.lists[logs].cursor, 0, len(idx)-1)]
	if len(s.answer.Rows) > 0 {
		r := &s.answer.Rows[i]
		return r.Time().Format(time.RFC3339Nano) + " " + m.th.outside(r.Line)
	}
	return m.th.outside(s.rows[i].text)
}

// copyLogcli copies the query that is looked at as a command.
func (m *model) copyLogcli() tea.Cmd { return m.copy("logcli-command", m.lookedAt().q.Logcli()) }

// copyAnswer copies the whole answer under its query. It is written beside: an
// answer may be large.
func (m *model) copyAnswer() tea.Cmd {
	s := m.logs.shown
	if s == nil {
		return nil
	}
	const what = "answer"
	path := filepath.Join(m.o.DataDir, "copies", what+"-"+stamp(m.now)+".txt")
	return func() tea.Msg {
		t := answerText(s)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(t), 0o600)
		}
		done := copiedMsg{what, path, err}
		if len(t) > maxClip {
			if err == nil {
				done.what = "answer, too large for the clipboard,"
			}
			return done
		}
		return tea.BatchMsg{tea.SetClipboard(t), func() tea.Msg { return done }}
	}
}

// answerText is an answer with all that was asked and what is missing.
func answerText(s *logShown) string {
	q := s.answer.Query
	var b strings.Builder
	times, _ := logTimes(q)
	b.WriteString("# " + text.Visible(s.question.Name+": "+q.Query) + "\n# " + times + "\n")
	for _, n := range text.LogNotes(s.answer) {
		b.WriteString("# " + n + "\n")
	}
	for _, r := range s.answer.Rows {
		b.WriteString(r.Time().Format(time.RFC3339Nano) + " " + text.Visible(r.Line) + "\n")
	}
	if s.head != "" {
		b.WriteString(s.head + "\n")
		for i := range s.rows {
			b.WriteString(s.rows[i].text + "\n")
		}
	}
	return b.String()
}

// logTimes is the range of a query in UTC, whole and, where it is within one
// day, without the day.
func logTimes(q sources.LogQuery) (full, short string) {
	const day, clock = "2006-01-02 15:04:05Z", "15:04:05Z"
	from, to := q.Start.UTC(), q.End.UTC()
	if from.YearDay() == to.YearDay() && from.Year() == to.Year() {
		return from.Format(day) + " to " + to.Format(clock) + " UTC", from.Format(clock) + " to " + to.Format(clock)
	}
	return from.Format(day) + " to " + to.Format(day) + " UTC", from.Format("01-02 "+clock) + " to " + to.Format("01-02 "+clock)
}
