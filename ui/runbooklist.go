package ui

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"failback/runbooks"
	"failback/sources"
	"failback/ui/text"
)

// runbookList is the list of all runbooks, which takes the place of the open
// one on the same screen.
type runbookList struct {
	shown  bool
	from   bool // the open runbook was opened from it: esc leads back to it
	cursor int
	top    int
}

func (l *runbookList) move(rows, n int) {
	l.cursor = clamp(clamp(l.cursor, 0, rows-1)+n, 0, max(rows-1, 0))
}

// listing reports whether the runbook screen is the list: also where nothing is
// open.
func (m *model) listing() bool { return m.runbook.list.shown || m.runbook.open == nil }

// listRunbooks goes to the list.
func (m *model) listRunbooks() {
	m.runbook.list = runbookList{shown: true}
	m.lists[runbook].filter = ""
	m.toRunbooks()
}

func (m *model) noList() string {
	if m.screen == runbook && m.listing() {
		return "this is that list"
	}
	return ""
}

func (m *model) notListing() string {
	if !m.listing() {
		return "there is nothing to filter: 0 lists all runbooks"
	}
	return ""
}

func (m *model) noListed() string {
	switch {
	case !m.listing():
		return "a runbook is open: 0 lists all"
	case len(m.listed()) == 0:
		return "there is no row"
	}
	return ""
}

func (m *model) openListed() {
	rs := m.listed()
	m.showRunbook(rs[clamp(m.runbook.list.cursor, 0, len(rs)-1)])
	m.runbook.list.from = true
}

// runbookBack goes from a runbook that was opened from the list back to it.
func (m *model) runbookBack() bool {
	l := &m.runbook.list
	if m.listing() || !l.from {
		return false
	}
	l.shown, l.from = true, false
	return true
}

// listed are the runbooks that the filter lets through: those that are proposed
// now before the others, each part in the order of their keys.
func (m *model) listed() []*runbooks.Runbook {
	filter := m.lists[runbook].filter
	var rs []*runbooks.Runbook
	for _, r := range m.numbered() {
		if strings.Contains(strings.ToLower(r.ID+" "+r.Title+" "+strings.Join(r.Alerts, " ")+" "+m.proposedWhy(r)), filter) {
			rs = append(rs, r)
		}
	}
	slices.SortStableFunc(rs, func(a, b *runbooks.Runbook) int {
		return cmp.Compare(m.unproposed(a), m.unproposed(b))
	})
	return rs
}

// unproposed is 0 for a runbook that is proposed now, else 1.
func (m *model) unproposed(r *runbooks.Runbook) int {
	if m.proposedWhy(r) != "" {
		return 0
	}
	return 1
}

// proposedWhy is why r is proposed now, empty if it is not.
func (m *model) proposedWhy(r *runbooks.Runbook) string {
	for _, p := range m.proposals() {
		if p.Runbook == r {
			return "matches " + p.Why
		}
	}
	return ""
}

func (m *model) listedText() string {
	rs := m.listed()
	if len(rs) == 0 {
		return ""
	}
	r := rs[clamp(m.runbook.list.cursor, 0, len(rs)-1)]
	return strings.TrimSpace(m.th.outside(r.ID + ": " + r.Title + "; " + m.proposedWhy(r)))
}

// runbookListWindow is the list, with what was left out of it and why.
func (m *model) runbookListWindow(w, room int) []row {
	rs, all := m.listed(), len(m.runbookSet())
	l := &m.runbook.list
	word := ""
	if f := m.lists[runbook].filter; f != "" {
		word = strconv.Itoa(len(rs)) + " of " + strconv.Itoa(all) + ", filter: " + m.th.outside(f)
	}
	d, now := m.d()
	title := row{{" RUNBOOKS", accent}, {"  " + strconv.Itoa(all) + ", proposed ones first", dim}}
	title = m.asOf(title, d, now)
	var left []row
	for _, err := range m.runbook.errs {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			left = append(left, indented(1, "LEFT OUT "+m.th.outside(line), w, warn)...)
		}
	}
	if len(left) > 0 {
		left = append(left, indented(1, "mend it and start the console again; a built-in one of the same id stays until then", w, dim)...)
	}
	if most := max((room-2)/2, 1); len(left) > most {
		left = append(left[:most-1:most-1], styled(warn, " and "+strconv.Itoa(len(left)-most+1)+" more: ! has all of it"))
	}
	n := max(room-2-len(left), 1)
	l.cursor = clamp(l.cursor, 0, max(len(rs)-1, 0))
	l.top = clamp(l.top, l.cursor-n+1, l.cursor)
	l.top = clamp(l.top, 0, max(len(rs)-n, 0))
	end := min(l.top+n, len(rs))
	var where row
	if len(rs) > n {
		where = plain(strconv.Itoa(l.top+1) + "-" + strconv.Itoa(end) + " of " + strconv.Itoa(len(rs)) + " ")
	}
	rows := []row{m.rule(w, word), title.apart(where, w, true, m.gl.cut)}
	switch {
	case all == 0:
		rows = append(rows, styled(warn, " there is no runbook"))
	case len(rs) == 0:
		rows = append(rows, styled(warn, " none of "+strconv.Itoa(all)+" matches the filter; esc clears it"))
	}
	for i := l.top; i < end; i++ {
		rows = append(rows, m.listedRow(rs[i], i == l.cursor, w))
	}
	return append(rows, left...)
}

func (m *model) listedRow(r *runbooks.Runbook, current bool, w int) row {
	line := row{{"   ", normal}}
	if current {
		line = row{{" > ", accent}}
	}
	key := span{"    ", normal}
	if k := m.digit(r); k != "0" {
		key = span{"[" + k + "] ", accent}
	}
	line = append(line, key).add(normal, m.th.outside(r.Title))
	if why := m.proposedWhy(r); why != "" {
		st := warn
		d, now := m.d()
		if d.state.Whole(now).State == sources.Unknown {
			st = dim
		}
		line = line.add(st, "  "+m.th.outside(why))
	}
	var end row
	if aged := m.aged(r); aged != "" {
		end = styled(warn, aged+" ")
	}
	return line.apart(end, w, false, m.gl.cut)
}

// aged says that nobody has read r against the program for long; empty if
// somebody has.
func (m *model) aged(r *runbooks.Runbook) string {
	d, now := m.d()
	if age := d.clock(now).Sub(r.Reviewed); age > runbooks.AgedAfter*24*time.Hour {
		return "AGED: reviewed " + text.Age(age) + " ago"
	}
	return ""
}
