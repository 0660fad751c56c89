package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// lone is a y, or an enter that sends, which is taken only where no other key comes
// right before or behind it, as pasted text without brackets has them.
type lone struct {
	id      int       // of the question
	lastKey time.Time // the newest key or paste
	try     int       // y pressed so far
	pending bool      // the last y waits for quiet
}

// heard notes a key or pasted text. It returns when the one before it came, and
// whether a y that waited is thereby void.
func (y *lone) heard(now time.Time) (before time.Time, void bool) {
	before, void = y.lastKey, y.pending
	y.lastKey, y.pending = now, false
	return before, void
}

// ask begins the wait for quiet.
func (y *lone) ask(m *model) tea.Cmd {
	y.try++
	y.pending = true
	return m.later(quietFor, quietMsg{y.id, y.try})
}

// answers reports whether msg ends the wait for quiet.
func (y *lone) answers(msg quietMsg) bool {
	if y.id != msg.dialog || y.try != msg.try || !y.pending {
		return false
	}
	y.pending = false
	return true
}

// pastedY is said where pasted text follows a y.
const pastedY = "pasted text came with the y: "

// otherKeys is said of a key that was not alone.
func otherKeys(key string) string {
	return "other keys came with the " + key + ", as pasted text has it: "
}
