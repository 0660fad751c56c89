package ui

// failbackKeys lead to the step table and work on it.
func failbackKeys() []binding {
	return []binding{
		bind([]string{"b"}, "b", "failback", "the step table of the upstream under the cursor").line(10).unless(func(m *model) string { return m.already(failback) }).hidden().does(act(func(m *model) { m.enter(failback) })),
	}
}

// failbackBody is the step table of the selected upstream.
func (m *model) failbackBody(w int) []row { return nil }

func (m *model) failbackTitle() row { return row{{" FAILBACK " + m.th.outside(m.selected), accent}} }
