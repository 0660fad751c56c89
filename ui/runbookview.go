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
	runbookHead = 3 // rows above the text

	markWidth = 3                 // " > "
	tickWidth = markWidth + 4 + 4 // "[x] " "12. "
)

// layoutRunbook wraps the open runbook into w columns.
func (m *model) layoutRunbook(w int) *runbookText {
	rb := &m.runbook
	if t := rb.wrapped; t != nil && t.of == rb.open && t.w == w && t.ascii == m.th.ascii {
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
		add(!hasSteps, 0, wrap(strings.ToUpper(s.Title), max(w-markWidth, 4), accent)...)
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
	rb.wrapped = t
	return t
}

// runbookPlan is how the window is divided.
type runbookPlan struct {
	side int   // columns of the live values at the right; 0: they are below
	left int   // columns of the text
	room int   // rows of the text
	live []row // below or beside
	text *runbookText
}

// planRunbook divides w columns and room rows, the two of the head left out.
func (m *model) planRunbook(w, room int) runbookPlan {
	p := runbookPlan{left: w, room: max(room, 1)}
	if w >= wide {
		p.side = clamp(w*2/5, 36, 60)
		p.left = w - p.side - 1
		rows, of := m.liveRows(p.side-2, true)
		if n := len(rows); n > p.room-1 { // below their head
			shown := max(p.room-2, 0)
			rows = append(rows[:shown], m.more(dim, andMore(n-shown), of[shown:]...))
		}
		p.live = append([]row{m.liveHead(p.side-2).fit(p.side-2, m.gl.cut)}, rows...)[:min(p.room, len(rows)+1)]
	} else if most := room/3 - 1; most > 0 { // a rule is above them
		var of []string
		p.live, of = m.liveRows(w-1, false)
		if n := len(p.live); n > most {
			more := m.more(dim, "+"+strconv.Itoa(n-most), of[most:]...).add(dim, " ")
			p.live = p.live[:most]
			p.live[most-1] = p.live[most-1].apart(more, w-1, true, m.gl.cut)
		}
		if len(p.live) > 0 {
			p.room = room - len(p.live) - 1
		}
	}
	// Lines that are too long are not read.
	p.text = m.layoutRunbook(min(p.left-1, 92))
	return p
}

// runbookWindow is the open runbook, with the live values it talks about.
func (m *model) runbookWindow(w, room int) []row {
	if m.listing() {
		return m.runbookListWindow(w, room)
	}
	rows := []row{m.rule(w, "")}
	rb := &m.runbook
	r := m.reading()
	title := row{{" RUNBOOK ", accent}, {m.th.outside(rb.open.Title), strong}}
	if aged := m.aged(rb.open); aged != "" {
		title = first(w-16, title.add(warn, "  "+aged), title.add(warn, "  AGED"), row{{" AGED ", warn}}.join(title))
	}
	rows = append(rows, title.apart(plain(m.ticked()+" "), w, w >= 60, m.gl.cut), m.underTitle(w))
	p := m.planRunbook(w, room-runbookHead)
	m.seeStop(p.text, r, p.room)
	var body []row
	for i := r.top; i < min(r.top+p.room, len(p.text.lines)); i++ {
		body = append(body, m.runbookRow(p.text, r, i))
	}
	if p.side > 0 {
		for len(body) < len(p.live) {
			body = append(body, nil)
		}
		for i, b := range body {
			b = b.fit(p.left, m.gl.cut).pad(p.left).add(dim, m.gl.side)
			if i < len(p.live) {
				b = b.add(normal, " ").join(p.live[i])
			}
			rows = append(rows, b)
		}
		return rows
	}
	if len(p.live) == 0 {
		return append(rows, body...)
	}
	for len(body) < p.room {
		body = append(body, nil)
	}
	head := row{{strings.Repeat(m.gl.rule, 2) + " ", dim}}.join(m.liveHead(w-4)).add(normal, " ")
	rows = append(append(rows, body...), head.add(dim, strings.Repeat(m.gl.rule, max(w-head.width(), 0))).fit(w, m.gl.cut))
	for _, l := range p.live {
		rows = append(rows, row{{" ", normal}}.join(l))
	}
	return rows
}

// underTitle says whether the runbook fits, whom to call, and how old it is.
func (m *model) underTitle(w int) row {
	match := m.matching(w)
	call := plain("call " + m.contact() + " ")
	reviewed := call.add(dim, " reviewed "+m.runbook.open.Reviewed.Format("2006-01-02")+" ")
	if m.aged(m.runbook.open) != "" {
		reviewed = call // the title says so
	}
	if match.width()+2+reviewed.width() <= w {
		return match.apart(reviewed, w, false, m.gl.cut)
	}
	return match.apart(call, w, false, m.gl.cut)
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
			lead = span{"[x] " + right(strconv.Itoa(l.step), 2, "") + ". ", strong}
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
