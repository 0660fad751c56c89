package ui

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/glamour/v2"
	glamouransi "charm.land/glamour/v2/ansi"
	"github.com/charmbracelet/x/ansi"

	"failback/runbooks"
)

// inline is how Glamour marks inline Markdown, so that what it draws can be
// read back: bold for emphasis, colour 6 for code, and nothing else.
func inline() glamouransi.StyleConfig {
	yes, code := true, "6"
	bold := glamouransi.StylePrimitive{Bold: &yes}
	return glamouransi.StyleConfig{
		Strong: bold, Emph: bold,
		Code:        glamouransi.StyleBlock{StylePrimitive: glamouransi.StylePrimitive{Color: &code}},
		Item:        glamouransi.StylePrimitive{BlockPrefix: "- "},
		Enumeration: glamouransi.StylePrimitive{BlockPrefix: ". "},
	}
}

var codeForm = regexp.MustCompile("`([^`]+)`")

// bracketKeys writes keys as the overview does, [1]: a bare letter would be lost
// in the text where there is no colour.
func bracketKeys(s string) string {
	return codeForm.ReplaceAllStringFunc(s, func(c string) string {
		if k := strings.Trim(c, "`"); runbooks.IsKey(k) {
			return "`[" + k + "]`"
		}
		return c
	})
}

// markdown renders a paragraph of inline Markdown into rows of at most w
// columns, in the console's own styles: Glamour reads and wraps it, and of what
// it draws only text and the two marks are taken over.
func (m *model) markdown(s string, w int, st style) []row {
	w = max(w, 4)
	s = m.th.outside(bracketKeys(s))
	r, err := glamour.NewTermRenderer(glamour.WithStyles(inline()), glamour.WithWordWrap(w))
	if err != nil {
		return wrap(s, w, st)
	}
	out, err := r.Render(s)
	if err != nil {
		return wrap(s, w, st)
	}
	var rows []row
	for _, r := range m.unpaint(out, st) {
		r = r.trimSpace()
		if len(r) == 0 {
			continue
		}
		for r.width() > w {
			head := r.window(0, w)
			if head.width() == 0 {
				break
			}
			rows = append(rows, head)
			r = r.window(head.width(), r.width())
		}
		rows = append(rows, r)
	}
	return rows
}

// unpaint reads painted text back into rows.
func (m *model) unpaint(s string, base style) []row {
	var rows []row
	var r row
	var b strings.Builder
	bold, code := false, false
	flush := func() {
		if b.Len() == 0 {
			return
		}
		st := base
		switch {
		case base == dim:
		case code:
			st = accent
		case bold:
			st = strong
		}
		r = append(r, span{m.th.outside(b.String()), st})
		b.Reset()
	}
	p := ansi.NewParser()
	var state byte
	for len(s) > 0 {
		seq, _, n, next := ansi.DecodeSequence(s, state, p)
		switch first, _ := utf8.DecodeRuneInString(seq); {
		case !unicode.IsControl(first):
			b.WriteString(seq) // also of no width: a mark on the letter before
		case seq == "\n":
			flush()
			rows, r = append(rows, r), nil
		case ansi.Cmd(p.Command()).Final() == 'm' && strings.HasPrefix(seq, "\x1b["):
			flush()
			params := p.Params()
			if len(params) == 0 {
				bold, code = false, false
			}
			for _, v := range params {
				switch v.Param(0) {
				case 0:
					bold, code = false, false
				case 1:
					bold = true
				case 36:
					code = true
				}
			}
		}
		s, state = s[n:], next
	}
	flush()
	return append(rows, r)
}

// trimSpace drops spaces at both ends.
func (r row) trimSpace() row {
	r = append(row{}, r...)
	for len(r) > 0 {
		if r[0].text = strings.TrimLeft(r[0].text, " "); r[0].text != "" {
			break
		}
		r = r[1:]
	}
	for len(r) > 0 {
		last := len(r) - 1
		if r[last].text = strings.TrimRight(r[last].text, " "); r[last].text != "" {
			break
		}
		r = r[:last]
	}
	return r
}
