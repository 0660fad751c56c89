package ui

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"failback/ui/text"
)

// span is text of one style. Its text is fit to show: no escapes, no newlines.
type span struct {
	text  string
	style style
}

// row is one line of the screen.
type row []span

// plain makes a row of one span.
func plain(s string) row { return row{{s, normal}} }

func styled(st style, s string) row { return row{{s, st}} }

// add returns r with a span more. It never writes into what r shares with
// another row, so that one beginning can have several ends.
func (r row) add(st style, s string) row { return append(r[:len(r):len(r)], span{s, st}) }

// join returns r with other rows behind it.
func (r row) join(others ...row) row {
	r = r[:len(r):len(r)]
	for _, o := range others {
		r = append(r, o...)
	}
	return r
}

func (r row) width() int {
	n := 0
	for _, s := range r {
		n += width(s.text)
	}
	return n
}

// text is r without styles.
func (r row) text() string {
	if len(r) == 1 {
		return r[0].text
	}
	var b strings.Builder
	for _, s := range r {
		b.WriteString(s.text)
	}
	return b.String()
}

// fit cuts r to n columns; what was cut is marked with mark.
func (r row) fit(n int, mark string) row {
	if n <= 0 {
		return nil
	}
	w := 0
	for i, s := range r {
		sw := width(s.text)
		if w+sw <= n {
			w += sw
			continue
		}
		cut := append(row{}, r[:i]...)
		return append(cut, span{cutRight(s.text, n-w, mark), s.style}).trimTo(n, mark)
	}
	return r
}

// trimTo drops what a cut of no room left behind.
func (r row) trimTo(n int, mark string) row {
	last := len(r) - 1
	if r[last].text != "" {
		return r
	}
	// No column was left for the mark: take one back.
	r = r[:last]
	for i := len(r) - 1; i >= 0; i-- {
		if w := width(r[i].text); w > 0 {
			r[i].text = ansi.Truncate(r[i].text, w-1, "") + mark
			return r
		}
	}
	return r
}

// pad fills r with spaces to n columns.
func (r row) pad(n int) row {
	if w := r.width(); w < n {
		return r.add(normal, spaces(n-w))
	}
	return r
}

// apart puts right at the right end of n columns. Where there is no room for
// both, right wins if keep is set, else it is left out.
func (r row) apart(right row, n int, keep bool, mark string) row {
	rw := right.width()
	switch lw := r.width(); {
	case rw == 0:
		return r
	case lw+2+rw <= n:
		return r.add(normal, spaces(n-lw-rw)).join(right)
	case !keep:
		return r
	}
	return r.fit(max(n-rw-1, 0), mark).pad(max(n-rw, 0)).join(right)
}

// window is the columns [from, to) of r.
func (r row) window(from, to int) row {
	var out row
	at := 0
	for _, s := range r {
		w := width(s.text)
		a, b := max(from-at, 0), min(to-at, w)
		if a < b {
			t := s.text
			if a > 0 || b < w {
				t = ansi.Cut(t, a, b)
			}
			out = append(out, span{t, s.style})
		}
		at += w
	}
	return out
}

func (t theme) row(b *strings.Builder, r row) {
	for _, s := range r {
		b.WriteString(t.paint(s.style, s.text))
	}
}

// width is how many columns s takes.
func width(s string) int {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return ansi.StringWidth(s)
		}
	}
	return len(s)
}

const blanks = "                                                                                                    "

func spaces(n int) string {
	switch {
	case n <= 0:
		return ""
	case n <= len(blanks):
		return blanks[:n]
	}
	return strings.Repeat(" ", n)
}

func cutRight(s string, n int, mark string) string {
	switch {
	case width(s) <= n:
		return s
	case n <= 0:
		return ""
	}
	return ansi.Truncate(s, n, mark)
}

// cutWords cuts a sentence to n columns behind a word, or in one where that would
// leave less than half.
func cutWords(s string, n int, mark string) string {
	if width(s) <= n || n <= 0 {
		return cutRight(s, n, mark)
	}
	short := ansi.Truncate(s, n-width(mark), "")
	if !strings.HasPrefix(s[len(short):], " ") {
		short = short[:max(strings.LastIndexByte(short, ' '), 0)]
	}
	if short = strings.TrimRight(short, " ,;:"); width(short) < n/2 {
		return cutRight(s, n, mark)
	}
	return short + mark
}

// cutLeft cuts what a string begins with.
func cutLeft(s string, n int, mark string) string {
	w := width(s)
	switch {
	case w <= n:
		return s
	case n <= 0:
		return ""
	}
	keep := max(n-width(mark), 0)
	end := ansi.TruncateLeft(s, w-keep, "")
	if width(end) > keep { // a wide character lay on the cut
		end = ansi.TruncateLeft(s, w-keep+1, "")
	}
	return cutRight(mark+end, n, "")
}

// cutAlike cuts names to n columns so that as few as can be become alike: in the
// middle, else at their beginnings, else at their ends.
func cutAlike(names []string, n int, mark string) []string {
	var best []string
	least := -1
	for _, cut := range []func(string, int, string) string{cutMiddle, cutLeft, cutRight} {
		short := make([]string, len(names))
		whose := make(map[string]string, len(names))
		alike := 0
		for i, s := range names {
			short[i] = cut(s, n, mark)
			if other, ok := whose[short[i]]; ok && other != s {
				alike++
			}
			whose[short[i]] = s
		}
		if least < 0 || alike < least {
			best, least = short, alike
		}
		if alike == 0 {
			break
		}
	}
	return best
}

// cutMiddle cuts a name where names differ least: in the middle.
func cutMiddle(s string, n int, mark string) string {
	w := width(s)
	if w <= n {
		return s
	}
	if n <= 4 {
		return cutRight(s, n, mark)
	}
	tail := (n - 1) / 2
	head := n - 1 - tail
	end := ansi.TruncateLeft(s, w-tail, "")
	if width(end) > tail { // a wide character lay on the cut
		end = ansi.TruncateLeft(s, w-tail+1, "")
	}
	return ansi.Truncate(s, head, "") + mark + end
}

// left and right set s into n columns, cutting what is too much.
func left(s string, n int, mark string) string {
	s = cutRight(s, n, mark)
	return s + spaces(n-width(s))
}

func right(s string, n int, mark string) string {
	s = cutRight(s, n, mark)
	return spaces(n-width(s)) + s
}

// visible is r without anything that drives a terminal or hides. Where text
// from outside becomes a span it is made so already, and its columns fit; this
// is for a place that forgot, behind which there is the terminal alone.
func (r row) visible() row {
	for i, s := range r {
		if v := text.Visible(s.text); v != s.text {
			r = slices.Clone(r)
			r[i].text = v
		}
	}
	return r
}
