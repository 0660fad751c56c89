package ui

import (
	"strconv"
	"strings"

	"failback/runbooks"
)

// stop is a place where the cursor can be: a step, or a section without steps.
type stop struct {
	section int // its place among the runbook's
	step    int // its number; 0: the section
	// start and end are its rows, the heading above it and what follows below it
	// included.
	start, end int
}

// stopsOf are the stops of a runbook, without their rows.
func stopsOf(r *runbooks.Runbook) []stop {
	var ss []stop
	for i := range r.Sections {
		n := len(ss)
		for j := range r.Sections[i].Blocks {
			if b := &r.Sections[i].Blocks[j]; b.Kind == runbooks.Step {
				ss = append(ss, stop{section: i, step: b.Number})
			}
		}
		if len(ss) == n {
			ss = append(ss, stop{section: i})
		}
	}
	return ss
}

// runbookText is a runbook wrapped for a width; ticks and cursor come later.
type runbookText struct {
	of    *runbooks.Runbook
	w     int
	ascii bool
	lines []runbookLine
	stops []stop
}

// runbookLine is one row of it. The first row of a stop takes the cursor's
// mark, the first of a step its tick.
type runbookLine struct {
	stop  int
	first bool
	step  int // number of the step it belongs to, 0 if to none
	text  row
}

const (
	markWidth = 3                 // " > "
	tickWidth = markWidth + 4 + 4 // "[x] " "12. "
)

// layoutRunbook wraps the open runbook into w columns.
func (m *model) layoutRunbook(w int) *runbookText {
	rb := &m.runbook
	if t := rb.drawn; t != nil && t.of == rb.open && t.w == w && t.ascii == m.th.ascii {
		return t
	}
	t := &runbookText{of: rb.open, w: w, ascii: m.th.ascii, stops: stopsOf(rb.open)}
	at := -1
	begin := func() {
		at++
		t.stops[at].start = len(t.lines)
	}
	add := func(first bool, step int, rows ...row) {
		for i, r := range rows {
			t.lines = append(t.lines, runbookLine{stop: at, first: first && i == 0, step: step, text: r})
		}
	}
	for i := range rb.open.Sections {
		s := &rb.open.Sections[i]
		if i > 0 {
			t.lines = append(t.lines, runbookLine{stop: -1})
		}
		begin()
		hasSteps := t.stops[at].step != 0
		// A section whose own rows are the stop has the cursor at its heading.
		add(!hasSteps, 0, styled(accent, strings.ToUpper(s.Title)))
		begun := hasSteps // its first step belongs to the stop that began
		for j := range s.Blocks {
			b := &s.Blocks[j]
			switch b.Kind {
			case runbooks.Prose:
				for _, p := range b.Paragraphs {
					add(false, 0, m.markdown(p, w-markWidth, normal)...)
				}
			case runbooks.Bullet:
				for k, p := range b.Paragraphs {
					for l, r := range m.markdown(p, w-markWidth-2, normal) {
						lead := "  "
						if k == 0 && l == 0 {
							lead = "- "
						}
						add(false, 0, row{{lead, normal}}.join(r))
					}
				}
			case runbooks.Step:
				if !begun {
					begin()
				}
				begun = false
				for k, p := range b.Paragraphs {
					add(k == 0, b.Number, m.markdown(p, w-tickWidth, normal)...)
				}
				if b.Query != "" {
					for k, r := range wrap(m.th.outside(queryTitle(b.Query)), max(w-tickWidth-3, 4), dim) {
						lead := row{{"l", accent}, {": ", dim}}
						if k > 0 {
							lead = plain("   ")
						}
						add(false, b.Number, lead.join(r))
					}
				}
			}
		}
	}
	for i := range t.stops {
		end := len(t.lines)
		if i+1 < len(t.stops) {
			end = t.stops[i+1].start
			for end > t.stops[i].start && t.lines[end-1].stop < 0 {
				end--
			}
		}
		t.stops[i].end = end
	}
	rb.drawn = t
	return t
}

// runbookWindow is the open runbook, with the live values it talks about.
func (m *model) runbookWindow(w, room int) []row {
	rows := []row{m.rule(w, "")}
	rb := &m.runbook
	if rb.open == nil {
		return append(rows, row{{" RUNBOOK", accent}}, styled(dim, " none is open: 1-9 open them; "+m.quietStart()))
	}
	r := m.reading()
	title := row{{" RUNBOOK ", accent}, {m.th.outside(rb.open.Title), strong}}
	right := plain(m.ticked() + " ")
	rows = append(rows, title.apart(right, w, w >= 60, m.gl.cut))
	match, _ := m.matching()
	call := row{{"call " + m.contact(), normal}, {"  reviewed " + rb.open.Reviewed.Format("2006-01-02") + " ", dim}}
	rows = append(rows, match.fit(w, m.gl.cut).apart(call, w, false, m.gl.cut))
	room -= len(rows)

	side := 0
	if w >= wide {
		side = clamp(w*2/5, 36, 60)
	}
	left := w
	if side > 0 {
		left = w - side - 1
	}
	// Lines that are too long are not read.
	t := m.layoutRunbook(min(left-1, 92))
	r.cursor = clamp(r.cursor, 0, len(t.stops)-1)
	var live []row
	textRoom := max(room, 1)
	if side > 0 {
		d, now := m.d()
		live = append([]row{{{"LIVE  ", accent}, feedAge(m, &d.state, now)}}, m.liveRows(side-2, true)...)
		if len(live) > room {
			live[room-1] = styled(dim, "and "+strconv.Itoa(len(live)-room+1)+" more rows")
		}
	} else if most := room/3 - 1; most > 0 { // a rule is above them
		live = m.liveRows(w-1, false)
		if n := len(live); n > most {
			more := styled(dim, "+"+strconv.Itoa(n-most)+" ")
			live[most-1] = live[most-1].apart(more, w-1, true, m.gl.cut)
			live = live[:most]
		}
		textRoom = room - len(live) - 1
	}
	rb.room = textRoom
	m.seeStop(t, r, textRoom)
	end := min(r.top+textRoom, len(t.lines))
	var body []row
	for i := r.top; i < end; i++ {
		body = append(body, m.runbookRow(t, r, i))
	}
	if side == 0 {
		if live == nil {
			return append(rows, body...)
		}
		for len(body) < textRoom {
			body = append(body, nil)
		}
		rows = append(append(rows, body...), m.rule(w, ""))
		for _, l := range live {
			rows = append(rows, row{{" ", normal}}.join(l))
		}
		return rows
	}
	for i := range max(len(body), min(len(live), room)) {
		var l, v row
		if i < len(body) {
			l = body[i]
		}
		if i < len(live) && i < room {
			v = live[i]
		}
		rows = append(rows, l.fit(left, m.gl.cut).pad(left).add(dim, m.gl.side).add(normal, " ").join(v))
	}
	return rows
}

// seeStop scrolls so that the stop under the cursor is seen.
func (m *model) seeStop(t *runbookText, r *reading, room int) {
	s := t.stops[r.cursor]
	// From the first rows that show its end and its beginning to each other: all
	// of it where it fits, else some of it.
	a, b := s.start, s.end-room
	r.top = clamp(r.top, min(a, b), max(a, b))
	r.top = clamp(r.top, 0, max(len(t.lines)-room, 0))
}

// runbookRow is row i of the text with what is the cursor's and the ticks'.
func (m *model) runbookRow(t *runbookText, r *reading, i int) row {
	l := &t.lines[i]
	mark := row{{"   ", normal}}
	if l.stop == r.cursor && l.first {
		mark = row{{" > ", accent}}
	}
	if l.stop < 0 {
		return nil
	}
	if l.step == 0 {
		return mark.join(l.text)
	}
	_, ticked := r.ticks[l.step]
	lead := span{"        ", normal}
	if l.first {
		lead = span{"[ ] " + right(strconv.Itoa(l.step), 2, "") + ". ", normal}
		if ticked {
			lead = span{"[x] " + right(strconv.Itoa(l.step), 2, "") + ". ", good}
		}
	}
	text := l.text
	if ticked {
		text = append(row{}, text...)
		for j := range text {
			text[j].style = dim
		}
	}
	return append(mark, lead).join(text)
}
