package ui

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/ui/text"
)

// far is further than any list is long.
const far = 1 << 30

// list is the cursor and the filter of a screen that lists. A list of what
// goes on follows the newest while its cursor is on the first row, and is held
// as it was while it is not: no row moves away under the cursor.
type list struct {
	filter string // lower case
	cursor int
	held   *data // nil: follows the newest

	// The rows that match, as of from and filter.
	matched []int
	from    any // what was filtered, by identity
	by      string
}

// source is the data that the list of screen s shows.
func (m *model) source(s screen) *data {
	if h := m.lists[s].held; h != nil && m.frozen == nil {
		return h
	}
	d, _ := m.d()
	return d
}

// matches returns the indices that a filter lets through; nil and false
// without one.
func (l *list) matches(n int, from any, line func(int) string) ([]int, bool) {
	if l.filter == "" {
		return nil, false
	}
	if l.from != from || l.by != l.filter {
		l.from, l.by, l.matched = from, l.filter, l.matched[:0]
		for i := range n {
			if strings.Contains(strings.ToLower(line(i)), l.filter) {
				l.matched = append(l.matched, i)
			}
		}
	}
	return l.matched, true
}

// upstreamRows are the upstreams that a filter let through, for as long as
// nothing changes: within one Update and within one View.
type upstreamRows struct {
	of     *api.State
	at     time.Time
	filter string
	us     []*api.Upstream
}

// upstreams returns the upstreams that the filter lets through, in the order
// of the file, and how many there are. Nobody changes what it returns.
func (m *model) upstreams() (us []*api.Upstream, all int) {
	d, now := m.d()
	s := d.state.Value()
	if s == nil {
		return nil, 0
	}
	l := &m.lists[overview]
	if r := &m.upstreamRows; r.of == s && r.at.Equal(now) && r.filter == l.filter {
		return r.us, len(s.Upstreams)
	}
	us = make([]*api.Upstream, 0, len(s.Upstreams))
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		if l.filter == "" || strings.Contains(strings.ToLower(m.upstreamText(u, d, now)), l.filter) {
			us = append(us, u)
		}
	}
	m.upstreamRows = upstreamRows{s, now, l.filter, us}
	return us, len(s.Upstreams)
}

// changeRows are the rows of the changes, as of from.
type changeRows struct {
	from *api.Event // the newest of all
	of   int
	rows []text.Run
}

// folded returns the rows of the changes of d that have one, newest first.
// Nobody changes what it returns.
func (m *model) folded(d *data) []text.Run {
	if len(d.changes) == 0 {
		return nil
	}
	if r := &m.lines; r.from != &d.changes[0] || r.of != len(d.changes) {
		rows := text.Fold(d.changes)
		rows = slices.DeleteFunc(rows, func(r text.Run) bool { return !shown(r.Event) })
		*r = changeRows{from: &d.changes[0], of: len(d.changes), rows: rows}
	}
	return m.lines.rows
}

// changeRows returns the changes that have a row and pass the filter, newest
// first, and how many have a row. Nobody changes what it returns.
func (m *model) changeRows() (rows []text.Run, all int) {
	rows = m.folded(m.source(changes))
	all = len(rows)
	if all == 0 {
		return nil, 0
	}
	if idx, ok := m.lists[changes].matches(all, rows[0].Event, func(i int) string { return changeMatch(&rows[i]) }); ok {
		kept := make([]text.Run, len(idx))
		for i, j := range idx {
			kept[i] = rows[j]
		}
		return kept, all
	}
	return rows, all
}

// changeText and decisionText are what is copied, and what a filter looks at.
func changeText(r *text.Run) string {
	return dated(r.Time) + " " + text.By(r.Event) + " " + r.Change(r.Provider, r.Time, false)
}

// changeMatch is what a filter looks at: of a row that stands for several
// changes, each of them too.
func changeMatch(r *text.Run) string {
	if r.Folded == nil {
		return changeText(r)
	}
	var b strings.Builder
	b.WriteString(changeText(r))
	for _, e := range r.Folded {
		b.WriteByte('\n')
		b.WriteString(changeText(&text.Run{Event: e}))
	}
	return b.String()
}

func decisionText(d *api.Decision) string {
	return text.Visible(strings.Join([]string{
		d.Time.UTC().Format("2006-01-02T15:04:05.000Z"), d.RequestID, d.TaskType, d.Model, d.WorkflowStatus, d.Route, d.Reason,
	}, " ")) + " " + text.Path(d)
}

// move moves the cursor or scrolls by n rows.
func (m *model) move(n int) {
	switch m.screen {
	case overview:
		us, _ := m.upstreams()
		if len(us) == 0 {
			return
		}
		m.selected = us[clamp(m.row(us)+n, 0, len(us)-1)].Name
	case changes, decisions:
		l := &m.lists[m.screen]
		rows := m.rows()
		if rows == 0 {
			return
		}
		before := l.cursor
		l.cursor = clamp(min(l.cursor, rows-1)+n, 0, rows-1)
		switch {
		case l.cursor == 0:
			l.held = nil
		case before == 0 && l.held == nil:
			d, _ := m.d()
			held := *d
			l.held = &held
		}
	case failback:
		if n == far || n == -far {
			m.scroll = clamp(m.scroll+n, 0, far) // j and k go to the next upstream there
			return
		}
		m.neighbour(n)
	case logs:
		m.moveLogs(n)
	case runbook:
		m.moveRunbook(n)
	default:
		m.scroll = clamp(m.scroll+n, 0, far)
	}
}

// page moves by half a page, down or up: rows, or lines where rows are not what
// one scrolls through.
func (m *model) page(way int) {
	if m.screen == failback {
		m.scroll = clamp(m.scroll+way*m.half(), 0, far)
		return
	}
	m.move(way * m.half())
}

// rows is how many rows the list of this screen has.
func (m *model) rows() int {
	switch m.screen {
	case changes:
		es, _ := m.changeRows()
		return len(es)
	case decisions:
		ds := m.decisionRows()
		return ds.len()
	case logs:
		return len(m.logRows())
	}
	us, _ := m.upstreams()
	return len(us)
}

// row is where the selected upstream is in us: 0 if it is not there.
func (m *model) row(us []*api.Upstream) int {
	for i, u := range us {
		if u.Name == m.selected {
			return i
		}
	}
	return 0
}

// current is the upstream that keys act on: of the detail screen, or under the
// cursor. It is the live one, whatever is frozen; nil if there is none.
func (m *model) current() *api.Upstream {
	if m.screen == detail || m.screen == failback {
		return m.live.upstream(m.selected)
	}
	us, _ := m.upstreams()
	if len(us) == 0 {
		return nil
	}
	return m.live.upstream(us[m.row(us)].Name)
}

func (m *model) half() int { return max(m.height/2-2, 1) }

func clamp(v, low, high int) int { return max(low, min(v, high)) }

// startFilter gives the keys to the filter of this list.
func (m *model) startFilter() {
	m.typing = true
	m.filter.SetValue(m.lists[m.screen].filter)
	m.filter.CursorEnd()
	m.filter.Focus()
}

func (m *model) filterKey(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.filter.SetValue("")
		m.filtered()
		m.typing = false
	case "enter", "tab":
		m.typing = false
	case "up", "down":
		m.typing = false
		return m.press(k)
	default:
		m.typeInto(&m.filter, k, fieldMost)
		m.filtered()
	}
	return nil
}

// filtered takes the filter over from its field. The upstream under the cursor
// stays under it as long as it is there.
func (m *model) filtered() {
	l := &m.lists[m.screen]
	f := strings.ToLower(strings.TrimSpace(m.filter.Value()))
	if f == l.filter {
		return
	}
	l.filter, l.cursor, l.held, m.scroll = f, 0, nil, 0
}

// newField returns a field for one line of text. It is drawn by the console
// itself (field.go) and never reads a clipboard.
func newField() textinput.Model {
	f := textinput.New()
	f.Prompt = ""
	f.CharLimit = 0 // typeInto has one, and says so
	f.SetVirtualCursor(false)
	f.KeyMap.Paste = key.NewBinding(key.WithDisabled())
	f.KeyMap.AcceptSuggestion = key.NewBinding(key.WithDisabled())
	f.KeyMap.NextSuggestion = key.NewBinding(key.WithDisabled())
	f.KeyMap.PrevSuggestion = key.NewBinding(key.WithDisabled())
	f.Focus()
	return f
}

// fieldMost is how many bytes a field takes: as many as the gateway takes of a
// note, an answer or a reason.
const fieldMost = 1000

// typeInto has f take a key or pasted text. What would make it longer than most
// bytes is not taken at all, and that is said.
func (m *model) typeInto(f *textinput.Model, msg tea.Msg, most int) (cmd tea.Cmd) {
	was, at := f.Value(), f.Position()
	if *f, cmd = f.Update(msg); len(f.Value()) <= max(most, len(was)) {
		return cmd
	}
	over := len(f.Value()) - most
	f.SetValue(was)
	f.SetCursor(at)
	m.say(warn, "not taken: the field has room for "+strconv.Itoa(most)+" bytes, this is "+strconv.Itoa(over)+" more")
	return nil
}

// oneLine makes pasted text fit for a field: lines become spaces, what would be
// invisible is left out.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case !unicode.Is(unicode.M, r) && text.Visible(string(r)) != string(r):
			return -1
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}
