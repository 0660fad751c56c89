package ui

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// form asks for a line of text, or for a yes, that goes into an incident's
// record. It never changes traffic, so enter may send what was typed; a yes is
// y alone. Either is taken only where no other key comes with it: pasted text
// with lines in it sends nothing.
type form struct {
	lone
	title string
	// about is the incident that it writes into, which stays the one that is
	// shown as long as the form is open; empty: none.
	about string
	// body says what it is about, read anew for each frame.
	body func(m *model, f *form, w int) []row
	// label heads the field; empty: there is none, and y answers.
	label string
	field textinput.Model
	// choices are gone through with up and down; at is the one that is chosen.
	choices []string
	at      int
	// chosen follows a choice; nil: nothing does.
	chosen  func(f *form)
	opened  time.Time
	sending bool
	refusal string
	// send sends what was typed; it is called once at a time.
	send func(m *model, f *form, typed string) tea.Cmd
	// refused says what an error of send means for what is typed, which stays; nil:
	// sources.Why.
	refused func(m *model, err error) string
	// why says why nothing can be sent, empty if it can; nil: noWrite.
	why func(m *model, f *form) string
}

func (m *model) openForm(f *form) {
	m.frozen, m.typing = nil, false // nobody writes about a frozen screen
	m.dialogs++
	f.lone, f.field, f.opened = lone{id: m.dialogs}, newField(), m.now
	m.form = f
}

// choice is what is chosen; empty if there is no choice.
func (f *form) choice() string {
	if len(f.choices) == 0 {
		return ""
	}
	return f.choices[clamp(f.at, 0, len(f.choices)-1)]
}

func (f *form) off(m *model) string {
	switch {
	case f.sending:
		return "it is being sent"
	case f.why != nil:
		return f.why(m, f)
	}
	return m.noWrite()
}

func (f *form) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	s := k.String()
	last, void := f.heard(m.now)
	if void {
		defer func() { f.refusal = otherKeys(f.answer()) + f.again() }()
	}
	// What is typed ahead is text of the field: of a form's beginning only what
	// sends, answers or closes is not heard.
	if m.now.Sub(f.opened) < deafFor && (f.label == "" || k.Text == "") {
		return nil
	}
	if s == "esc" {
		m.form = nil
		return nil
	}
	if m.tiny() || f.sending {
		return nil
	}
	switch {
	case s == "up" || s == "down" || s == "tab" || s == "shift+tab":
		if n := len(f.choices); n > 0 {
			by := 1
			if s == "up" || s == "shift+tab" {
				by = n - 1
			}
			f.at, f.refusal = (f.at+by)%n, ""
			if f.chosen != nil {
				f.chosen(f)
			}
		}
	case f.label == "" && s == "n":
		m.form = nil
	case f.label == "" && s == "y", f.label != "" && s == "enter":
		if f.refusal = f.notReady(m); f.refusal != "" {
			return nil
		}
		if m.now.Sub(last) < quietFor {
			f.refusal = otherKeys(f.answer()) + f.again()
			return nil
		}
		return f.ask(m)
	case f.label != "":
		was := f.field.Value()
		cmd := m.typeInto(&f.field, k, fieldMost)
		if f.field.Value() != was && m.now.Sub(last) >= quietFor {
			f.refusal = ""
		}
		return cmd
	}
	return nil
}

// answer is the key that sends.
func (f *form) answer() string {
	if f.label == "" {
		return "y"
	}
	return "enter"
}

func (f *form) again() string { return "nothing was sent, " + f.answer() + " again sends" }

// notReady says why nothing can be sent now, empty if it can.
func (f *form) notReady(m *model) string {
	why := f.off(m)
	if why == "" && f.label != "" && strings.TrimSpace(f.field.Value()) == "" {
		return "nothing is typed"
	}
	return why
}

// end sends, if no key followed the one that does, and all still holds.
func (f *form) end(m *model) tea.Cmd {
	if m.tiny() {
		return nil // what cannot be read is not sent
	}
	if f.refusal = f.notReady(m); f.refusal != "" {
		return nil
	}
	f.sending = true
	return f.send(m, f, strings.TrimSpace(f.field.Value()))
}

// paste goes into the field; without one it is refused.
func (f *form) paste(m *model, p tea.PasteMsg) bool {
	_, void := f.heard(m.now)
	if void {
		f.refusal = "pasted text came with the " + f.answer() + ": " + f.again()
	}
	if f.label == "" || f.sending {
		return false
	}
	m.typeInto(&f.field, p, fieldMost)
	return true
}

// draw lays the form over rows.
func (f *form) draw(m *model, rows []row) ([]row, *position) {
	w := min(m.width, 78)
	inner := max(w-4, 1)
	body := f.body(m, f, inner)
	room := len(rows) - 2 - 2 - 4 // identity and freshness, the frame, and what follows
	if len(body) > room {
		body = body[:max(room, 0)]
	}
	at := -1
	var x int
	if f.label != "" {
		var shown string
		shown, x = fieldView(f.field, inner-width(f.label)-2, m.th)
		at = len(body)
		body = append(body, row{{f.label + ": ", accent}, {shown, normal}})
		x += width(f.label) + 2
	}
	if f.refusal != "" {
		body = append(body, wrap(m.th.outside(f.refusal), inner, bad)...)
	}
	keys := row{{"y", accent}, {"  yes   ", normal}, {"n or esc", accent}, {"  change nothing", normal}}
	if f.label != "" {
		keys = row{{"enter", accent}, {"  send   ", normal}, {"esc", accent}, {"  close", normal}}
		if len(f.choices) > 1 {
			keys = keys.join(row{{"   up down", accent}, {"  choose", normal}})
		}
	}
	if f.sending {
		keys = styled(dim, "sending ...")
	}
	body = append(body, nil, keys)
	box := m.box(f.title, body, w)
	bx, by := m.place(len(rows), box)
	out := m.overlay(rows, box)
	if at < 0 || f.sending {
		return out, nil
	}
	return out, &position{bx + 2 + x, by + 1 + at}
}
