package ui

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/internal/bubble"
)

// Text pasted without brackets is keys in a burst: its ends of lines send nothing,
// wherever they are in it, and a person's enter sends.
func TestFormRawPaste(t *testing.T) {
	burst := func(m *model, s string) (cmds []tea.Cmd) {
		for _, k := range s {
			p := press(string(k))
			if k == '\r' {
				p = press("enter")
			}
			_, cmd := m.Update(p)
			cmds = append(cmds, cmd)
		}
		return cmds
	}
	for _, pasted := range []string{"one\rtwo\r", "\rone", "\r\r", "one\r\r\r", "one\r"} {
		inRecord(t, func(t *testing.T, m *model, r *recorder) {
			typed(m, "n", "x")
			bubble.Sleep(time.Second)
			cmds := burst(m, pasted)
			follow(m, cmds...)
			wantRecorded(t, r)
			if m.form == nil {
				t.Fatalf("%q closed the form", pasted)
			}
			if s := screenOf(m); !strings.Contains(strings.Join(strings.Fields(s), " "), "enter again sends") {
				t.Errorf("%q: nothing is said of it:\n%s", pasted, s)
			}
			want := strings.TrimSpace(m.form.field.Value())
			typed(m, "enter")
			wantRecorded(t, r, "note 20261130-034840 "+want)
		})
	}
	// A person's last key and enter are further apart than a paste's.
	inRecord(t, func(t *testing.T, m *model, r *recorder) {
		typed(m, "n")
		bubble.Sleep(time.Second)
		for _, k := range append(word("by hand"), "enter") {
			bubble.Sleep(quietFor)
			_, cmd := m.Update(press(k))
			follow(m, cmd)
		}
		wantRecorded(t, r, "note 20261130-034840 by hand")
	})
	// What closes the form before it is quiet sends nothing.
	inRecord(t, func(t *testing.T, m *model, r *recorder) {
		typed(m, "n", "x")
		bubble.Sleep(time.Second)
		_, cmd := m.Update(press("enter"))
		m.Update(press("esc"))
		follow(m, cmd)
		wantRecorded(t, r)
	})
	// Nor does what is pasted behind it with brackets, and what becomes too small to read.
	inRecord(t, func(t *testing.T, m *model, r *recorder) {
		typed(m, "n", "x")
		bubble.Sleep(time.Second)
		cmds := keys(m, "enter")
		m.Update(tea.PasteMsg{Content: "y"})
		follow(m, cmds...)
		wantRecorded(t, r)
		if s := screenOf(m); !strings.Contains(strings.Join(strings.Fields(s), " "), "pasted text came with the enter: nothing was sent") {
			t.Errorf("nothing is said of it:\n%s", s)
		}
		bubble.Sleep(time.Second)
		cmds = keys(m, "enter")
		m.Update(tea.WindowSizeMsg{Width: 20, Height: 5})
		follow(m, cmds...)
		wantRecorded(t, r)
	})
	// What is under way is not changed.
	inRecord(t, func(t *testing.T, m *model, _ *recorder) {
		typed(m, "n", "x")
		m.form.sending = true
		if m.Update(tea.PasteMsg{Content: "y"}); m.form.field.Value() != "x" {
			t.Errorf("pasted into what is being sent: %q", m.form.field.Value())
		}
	})
}
