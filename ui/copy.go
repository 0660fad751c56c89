package ui

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/ui/text"
)

func (m *model) noCopy() string {
	switch m.screen {
	case overview, changes, decisions:
		return m.noRow()
	case runbook:
		return m.noOpenRunbook()
	}
	return ""
}

// copy puts s on the clipboard and, since OSC 52 gives no answer, into a file.
func (m *model) copy(what, s string) tea.Cmd {
	dir := m.o.DataDir
	path := filepath.Join(dir, "copies", what+"-"+stamp(m.now)+".txt")
	return tea.Batch(tea.SetClipboard(s), func() tea.Msg {
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(s+"\n"), 0o600)
		}
		return copiedMsg{what, path, err}
	})
}

// copyShown copies what c is about: the row under the cursor, or the text of a
// screen that has none. It bears a time: its own, or that of which it is.
func (m *model) copyShown() tea.Cmd {
	s := m.rowText()
	_, now := m.d()
	switch of := dated(now); {
	case m.screen == overview:
		return m.copy("row", of+"  "+s)
	case lists.has(m.screen), m.screen == logs, m.screen == runbook:
		return m.copy("row", s)
	case m.reported():
		return m.copy("report", s)
	default:
		return m.copy("text", of+"\n"+s)
	}
}

// dated is a time as copies bear it: they are read elsewhere, on another day.
func dated(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// rowText is the row under the cursor, whole; empty if there is none.
func (m *model) rowText() string {
	d, now := m.d()
	switch m.screen {
	case overview:
		us, _ := m.upstreams()
		if len(us) == 0 {
			return ""
		}
		return m.upstreamText(us[m.row(us)], d, now)
	case changes:
		if e := m.openChange(); e != nil {
			return m.th.outside(changeText(e))
		}
		return ""
	case decisions:
		if v := m.openDecision(); v != nil {
			return m.th.outside(decisionText(v))
		}
		return ""
	case runbook:
		return m.runbookRowText()
	case logs:
		return m.logRowText()
	}
	return m.bodyText()
}

// reported says whether what is copied is an incident's report.
func (m *model) reported() bool {
	return m.screen == incidents && m.o.Report != nil && m.shownIncident() != nil
}

// bodyText is the whole text of a screen under its title, wide enough for a
// channel; of an incident, its report.
func (m *model) bodyText() string {
	if m.reported() {
		return m.o.Report(*m.shownIncident())
	}
	was := m.width
	defer func() { m.width = was }()
	m.width = max(was, wide)
	f := m.sieve()
	rows := m.body(m.width, &f)
	head := []row{m.title()}
	if word := m.filterWord(f.filter, f.shown, f.all); word != "" {
		head = append(head, plain(" "+word))
	}
	return joinRows(append(head, rows...))
}

// screenText is the screen as it is drawn, without styles, under the time it
// was copied at and whose it is.
func (m *model) screenText() string {
	s := m.live.state.Value()
	head := dated(m.now) + " failback console on " + m.o.Client.Target()
	if s != nil {
		head += ", " + text.Visible(s.Environment) + " " + text.Visible(s.Instance)
	}
	rows, _ := m.frame()
	return head + "\n" + joinRows(rows)
}

func joinRows(rows []row) string {
	var b strings.Builder
	for i, r := range rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.TrimRight(r.visible().text(), " "))
	}
	return b.String()
}
