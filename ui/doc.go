// Package ui owns the console: what an operator sees of a gateway and does to
// it from a terminal. It is a client of the operator API and has no other door.
//
// It never decides about traffic, never keeps a truth of its own, and never
// stops a gateway because it loses its terminal. Its rules:
//
//   - Update and View do no I/O. Whatever blocks is a tea.Cmd; its answer
//     carries the generation of its question and a late one is dropped.
//   - Nothing but the renderer writes to the terminal.
//   - Text from outside goes through text.Visible where it becomes a span.
//   - A number is drawn by number, from a sources.Number, and nowhere else; so
//     none can look younger or surer than it is.
//   - Colours are the 16 of ANSI, never a background, and never the only sign:
//     every state is a word too.
//   - Keys come from one table (keys.go): dispatch, help line, ? and the
//     documentation are renderings of it.
//   - Traffic changes by y in a dialog and by nothing else: not by Enter, not
//     by the key that opened it, not by paste.
//   - Columns are counted with the ansi package; a line is never wider than the
//     window and a frame never higher.
package ui
