//go:build failback_testkeys

package ui

import (
	tea "charm.land/bubbletea/v2"

	"failback/sources"
)

// testTable has the keys that make the console panic, for tests of what is
// left of the terminal then.
func testTable() []binding {
	return []binding{
		bind([]string{"alt+u"}, "alt+u", "", "panic in Update").does(func(*model) tea.Cmd { panic("test panic in Update") }),
		bind([]string{"alt+v"}, "alt+v", "", "panic in View").does(act(func(m *model) { m.panicInView = true })),
		bind([]string{"alt+g"}, "alt+g", "", "panic in the next goroutine that asks for numbers or lines").does(act(func(*model) { sources.PanicNext() })),
		bind([]string{"alt+c"}, "alt+c", "", "panic in a command").does(func(*model) tea.Cmd {
			return func() tea.Msg { panic("test panic in a command") }
		}),
	}
}
