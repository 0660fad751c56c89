package ui

import "strings"

// box draws a frame of w columns around body, with a title in its upper edge.
func (m *model) box(title string, body []row, w int) []row {
	g := m.gl
	inner := max(w-4, 1)
	title = cutRight(title, max(w-6, 1), g.cut)
	top := row{{g.topLeft + g.rule + " ", dim}, {title, strong}, {" " + strings.Repeat(g.rule, max(w-width(title)-5, 0)) + g.topRight, dim}}
	rows := []row{top}
	for _, r := range body {
		line := row{{g.side + " ", dim}}.join(r.fit(inner, g.cut).pad(inner)).add(dim, " "+g.side)
		rows = append(rows, line)
	}
	return append(rows, styled(dim, g.downLeft+strings.Repeat(g.rule, max(w-2, 0))+g.downRight))
}

// overlay lays a box over the lower middle of rows; the first two stay free,
// since they say where this is and whether it can be trusted.
func (m *model) overlay(rows, box []row) []row {
	x, y := m.place(len(rows), box)
	out := append([]row{}, rows...)
	for i, b := range box {
		if y+i >= len(out) {
			break
		}
		r := out[y+i]
		w := b.width()
		out[y+i] = r.window(0, x).pad(x).join(b, r.window(x+w, m.width))
	}
	return out
}

// place is where the upper left corner of a box goes.
func (m *model) place(rows int, box []row) (x, y int) {
	if len(box) == 0 {
		return 0, 2
	}
	return max((m.width-box[0].width())/2, 0), max(rows-1-len(box), 2)
}
