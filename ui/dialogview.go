package ui

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// stranded says which requests a second no other candidate may take at share
// to of u: of its own traffic, the part outside the share.
// Without own traffic nobody knows whom it would strand.
func stranded(u *api.Upstream, own sources.Number, to int, out func(string) string) string {
	outside := 1 - float64(to)/100
	if len(u.PrimaryOf) == 0 {
		return "nothing is its own: nobody is stranded"
	}
	var parts []string
	sum := 0.0
	for _, t := range u.Stranded {
		v := t.RPS * outside
		if v <= 0 {
			continue
		}
		sum += v
		parts = append(parts, out(t.Task)+" "+text.Rate(v)+" ("+out(t.Why)+")")
	}
	if len(parts) == 0 && !hasTraffic(own) {
		return "not known: it has no traffic of its own now"
	}
	if len(parts) == 0 {
		return "0 req/s: others may take every request"
	}
	return text.Rate(sum) + " req/s nobody else may take: " + strings.Join(parts, ", ")
}

// strandedRate is how many requests a second are stranded at share to of u.
func strandedRate(u *api.Upstream, to int) float64 {
	sum := 0.0
	for _, t := range u.Stranded {
		sum += max(t.RPS, 0) * (1 - float64(to)/100)
	}
	return sum
}

func hasTraffic(own sources.Number) bool {
	return (own.State == sources.Value || own.State == sources.Ageing) && own.Value > 0
}

func (d *dialog) title(m *model, a *assessment) string {
	name := m.th.outside(d.upstream)
	in := ""
	if s := m.live.state.Value(); s != nil && s.Environment != "" {
		in = " in " + m.th.outside(s.Environment)
	}
	return d.asks(a, name+in)
}

// passage is a part of a dialog's text that may scroll. Where there is no room for
// all of them the lower weights come first; what is heavy decides, and is read before
// a raise.
type passage struct {
	rows   []row
	weight int
}

// The weights of passages.
const (
	decides = iota // who is stranded
	objects        // what forbids it
	warns          // what speaks against it, or is not known
	informs
)

// parts are the dialog's text: what is always shown, what may scroll, and the
// end with the fields and the answer. inner is their width; tight is without what
// another row says.
func (d *dialog) parts(m *model, a *assessment, inner int, tight bool) (top []row, middle []passage, end []row, cursor *position) {
	out := m.th.outside
	u := a.u
	if u == nil {
		return nil, nil, []row{styled(bad, a.off), nil, {{"esc", accent}, {"  close", normal}}}, nil
	}
	f := &m.live.state
	live := f.Number(u.Live, m.now)
	now := "share " + text.Share(u) + ", live " + m.number(live, text.Percent)
	if live.State == sources.None && len(u.PrimaryOf) == 0 {
		now = "share " + text.Share(u) + ", spare"
	}
	own := f.Number(u.OwnRPS, m.now)
	rest := "rev " + strconv.FormatUint(u.Revision, 10)
	switch {
	case len(u.Elsewhere) > 0:
		rest = "the rest on " + out(strings.Join(u.Elsewhere, ", ")) + "  " + rest
	case hasTraffic(own):
		rest = "nobody else takes the rest  " + rest
	}
	top = append(top, row{{"now     ", dim}, {now, numberStyle(live, normal)}}.apart(plain(rest), inner, false, m.gl.cut))
	top = append(top, row{{"after   ", dim}, {d.after(m, u), strong}})

	put := func(weight int, rows ...row) { middle = append(middle, passage{rows, weight}) }
	add := func(st style, s string) { put(informs, wrap(s, inner, st)...) }
	if d.act == toShare && !d.idle() || d.act == toDegraded && u.Share > 0 {
		gets, lost := d.moves(m, a, own)
		add(gets.style, gets.text)
		put(decides, wrap(lost.text, inner, lost.style)...)
	}
	for _, t := range d.means(m, u) {
		add(normal, t)
	}
	put(informs, nil)
	for _, c := range a.checks {
		st := map[string]style{"ok": good, "WARN": warn, "??": warn, "no": bad}[c.mark]
		weight, ok := map[string]int{"no": objects, "WARN": warns, "??": warns}[c.mark]
		if !ok {
			weight = informs
		}
		var rows []row
		for i, r := range wrap(c.text, max(inner-6, 10), normal) {
			mark := c.mark
			if i > 0 {
				mark = ""
			}
			rows = append(rows, append(row{{left(mark, 6, ""), st}}, r...))
		}
		put(weight, rows...)
	}
	put(informs, nil)
	switch {
	case d.act != toShare:
		add(dim, "it is audited like every other change    tab: why")
	case d.to == u.Share: // nothing to put back
		add(dim, "left right: another step")
	case d.undo || d.restore:
		add(dim, "it is audited like every other change")
	default:
		back := "way back: u puts " + percent(u.Share) + " again"
		if a.raise && u.Health != "" {
			back += ". It retreats by itself if the evidence fails"
		}
		add(dim, back+"    left right: another step    tab: why")
	}

	line := func(label string, f field, value string, at int) {
		st := dim
		if d.focus == f {
			st = accent
			cursor = &position{width(label) + at, len(end)}
		}
		end = append(end, row{{label, st}, {value, normal}})
	}
	label := "why: "
	if a.needWhy {
		label = "why (needed): "
	}
	if !tight || a.needWhy || d.focus == whyField || d.why.Value() != "" {
		v, at := fieldView(d.why, inner-width(label), m.th)
		line(label, whyField, v, at)
	}
	if a.needName {
		label = "its name (typed): "
		v, at := fieldView(d.name, inner-width(label), m.th)
		line(label, nameField, v, at)
	}
	if d.refusal != "" {
		said := wrap(d.refusal, inner, bad)
		if n := max(m.height-13, 1); len(said) > n {
			said = said[:n]
		}
		end = append(end, said...)
	}
	end = append(end, d.answer(m, a, inner))
	return top, middle, end, cursor
}

// moves says how many requests a second go where, and who is stranded.
func (d *dialog) moves(m *model, a *assessment, own sources.Number) (gets, lost span) {
	u, f, name := a.u, &m.live.state, m.th.outside(a.u.Name)
	if own.State == sources.Value || own.State == sources.Ageing {
		then := own.Value * float64(d.to) / 100
		rate := f.Number(u.RPS, m.now)
		has := "it gets " + m.number(rate, text.Rate) + " now"
		if rate.State == sources.Value || rate.State == sources.Ageing {
			switch {
			case !a.raise && rate.Value <= then:
				gets = span{"that is at most " + text.Rate(then) + " req/s to " + name + "; " + has, normal}
			case !a.raise:
				gets = span{"that moves about " + text.Rate(rate.Value-then) + " req/s away from " + name + "; it keeps " + text.Rate(then), normal}
			}
		}
		if gets.text == "" {
			gets = span{"that is about " + text.Rate(then) + " req/s to " + name + "; " + has, normal}
		}
	} else {
		gets = span{"how many requests a second that is, is not known: its own traffic is " + m.number(own, text.Rate), dim}
	}
	st := normal
	if len(u.Stranded) > 0 && d.to < 100 {
		st = warn
	}
	s := "stranded at " + percent(d.to) + ": " + stranded(u, own, d.to, m.th.outside)
	if lost := strandedRate(u, d.to); lost > 0 && d.to == 0 {
		s += ". They get no answer"
	} else if lost > 0 {
		s += ". It answers them as overflow, while CLOSED"
	}
	if d.to == 100 {
		s = "stranded at 100%: nobody, it gets all of its own traffic"
	}
	if m.whole().State != sources.Value {
		s += " (" + text.Age(m.whole().Age) + " old)"
	}
	return gets, span{s, st}
}

// answer is the last line: what y does now, or why it does nothing.
func (d *dialog) answer(m *model, a *assessment, inner int) row {
	yes := d.yes(a)
	why := d.notReady(a)
	switch {
	case d.sending:
		return row{{"sent, waiting for the gateway " + text.Age(sources.Elapsed(d.sentAt, m.now)), accent}}
	case d.pending:
		return row{{"sending", accent}}
	case d.focus != noField:
		r := row{{"enter or tab", accent}, {" ends typing    ", normal}, {"esc", accent}, {" change nothing", normal}}
		if why == "" {
			r = row{{"enter or tab", accent}, {" ends typing, then y    ", normal}, {"esc", accent}, {" change nothing", normal}}
		}
		return r
	case why != "":
		return row{{"y is off: " + why, dim}, {"    esc", accent}, {" change nothing", normal}}
	}
	r := row{{"y", accent}, {"  " + yes + "      ", strong}, {"n or esc", accent}, {"  change nothing", normal}}
	return r.apart(styled(dim, "(enter does not)"), inner, false, m.gl.cut)
}

// flat are the rows of passages.
func flat(ps []passage) (rows []row) {
	for _, p := range ps {
		rows = append(rows, p.rows...)
	}
	return rows
}

func withoutBlank(rows []row) []row {
	return slices.DeleteFunc(rows, func(r row) bool { return len(r) == 0 })
}

// heavy is how many rows of passages, the heavy ones of which come first, do more
// than inform.
func heavy(ps []passage) (n int) {
	for _, p := range ps {
		if p.weight < informs {
			n += len(p.rows)
		}
	}
	return n
}

// draw lays the dialog over rows and says where the cursor is.
func (d *dialog) draw(m *model, rows []row) ([]row, *position) {
	a := d.assess(m)
	w := min(m.width, 78)
	inner := w - 4
	room := len(rows) - 1 - 2 - 2 // what the first rows, the message and the frame leave
	top, passages, end, cur := d.parts(m, &a, inner, false)
	middle := flat(passages)
	if len(top)+len(middle)+len(end) > room {
		middle = withoutBlank(middle)
	}
	if len(top)+len(middle)+len(end) > room {
		top, passages, end, cur = d.parts(m, &a, inner, true)
		slices.SortStableFunc(passages, func(a, b passage) int { return cmp.Compare(a.weight, b.weight) })
		middle = withoutBlank(flat(passages))
	}
	d.unread = false
	if n := max(room-len(top)-len(end), 1); len(middle) > n {
		d.scroll = clamp(d.scroll, 0, len(middle)-n)
		d.page, d.read = n, max(d.read, d.scroll+n)
		d.unread = heavy(passages) > d.read
		more := strconv.Itoa(d.scroll+1) + "-" + strconv.Itoa(d.scroll+n) + " of " + strconv.Itoa(len(middle)) + ", pgdn"
		middle = middle[d.scroll : d.scroll+n]
		if last := len(top) - 1; last >= 0 {
			top[last] = top[last].apart(styled(dim, more), inner, true, m.gl.cut)
		}
		end[len(end)-1] = d.answer(m, &a, inner) // what is unread was not known before
	}
	body := append(append(append([]row{}, top...), middle...), end...)
	box := m.box(d.title(m, &a), body, w)
	if cur != nil {
		x, y := m.place(len(rows), box)
		cur = &position{x + 2 + cur.x, y + 1 + len(top) + len(middle) + cur.y}
		if cur.y >= m.height || cur.x >= m.width {
			cur = nil
		}
	}
	return m.overlay(rows, box), cur
}
