package text

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// maxCell bounds a cell of a table in columns, unless it is the last: a hostile
// name does not push the others off the page.
const maxCell = 120

// Table writes rows under a header in aligned columns, two spaces apart. Cells
// go through Visible. A column whose header begins with > is set to the right.
// The last column is not padded and never cut.
func Table(header []string, rows [][]string) string {
	right := make([]bool, len(header))
	width := make([]int, len(header))
	all := make([][]string, 0, len(rows)+1)
	h := make([]string, len(header))
	for i, s := range header {
		h[i], right[i] = strings.CutPrefix(s, ">")
	}
	all = append(all, h)
	for _, r := range rows {
		v := make([]string, len(header))
		for i := range v {
			if i < len(r) {
				v[i] = Visible(r[i])
				if i < len(header)-1 {
					v[i] = ansi.Truncate(v[i], maxCell, "~")
				}
			}
			if v[i] == "" {
				v[i] = "-"
			}
		}
		all = append(all, v)
	}
	for _, r := range all {
		for i, s := range r {
			width[i] = max(width[i], ansi.StringWidth(s))
		}
	}
	var b strings.Builder
	for _, r := range all {
		for i, s := range r {
			if i > 0 {
				b.WriteString("  ")
			}
			pad := strings.Repeat(" ", width[i]-ansi.StringWidth(s))
			switch {
			case right[i]:
				b.WriteString(pad + s)
			case i == len(r)-1:
				b.WriteString(s)
			default:
				b.WriteString(s + pad)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
