package ui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

const (
	tinyWidth, tinyHeight = 40, 12
	narrow                = 80
	wide                  = 100
)

// tiny reports whether the window is too small for more than who and how.
func (m *model) tiny() bool { return m.width < tinyWidth || m.height < tinyHeight }

// View draws the frame.
func (m *model) View() tea.View {
	var v tea.View
	v.AltScreen = true
	if m.panicInView {
		panic("test panic in View")
	}
	m.upstreamRows, m.proposed = upstreamRows{}, proposed{}
	rows, cur := m.frame()
	var b strings.Builder
	b.Grow(len(rows) * (m.width + 32))
	for i, r := range rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		m.th.row(&b, r)
	}
	v.Content = b.String()
	if cur != nil {
		v.Cursor = tea.NewCursor(cur.x, cur.y)
	}
	return v
}

// position is a cell of the window.
type position struct{ x, y int }

// frame is the whole window as rows, none wider and not more than it has.
func (m *model) frame() ([]row, *position) {
	w, h := m.width, m.height
	if w <= 0 || h <= 0 {
		return nil, nil
	}
	if m.tiny() {
		return m.clamp(m.tinyRows()), nil
	}
	rows := []row{m.identity(w), m.freshness(w)}
	rows = append(rows, m.banners(w, m.bannerRoom())...)
	room := m.roomBelow(len(rows))
	var body []row
	var cur *position
	if m.screen == overview {
		body = m.overview(w, room)
	} else {
		body = m.bodyWindow(w, room)
	}
	for len(body) < room {
		body = append(body, nil)
	}
	rows = append(rows, body[:room]...)
	last := m.message.row()
	if m.typing {
		var x int
		last, x = m.filterLine(w)
		cur = &position{x, h - 1}
	}
	if m.logs.typing {
		var x int
		last, x = m.logQueryLine(w)
		cur = &position{x, h - 1}
	}
	rows = append(rows, m.helpLine(w), last)
	switch {
	case m.leaving != nil:
		title, body := m.leaving.box(m, min(w, 78)-4)
		rows = m.overlay(rows, m.box(title, body, min(w, 78)))
		cur = nil
	case m.dialog != nil:
		rows, cur = m.dialog.draw(m, rows)
	case m.form != nil:
		rows, cur = m.form.draw(m, rows)
	}
	return m.clamp(rows), cur
}

// roomBelow is how many rows a screen has below n of them: help and message
// have the last two.
func (m *model) roomBelow(n int) int { return m.height - n - 2 }

// bodyRoom is how many rows a screen has.
func (m *model) bodyRoom() int { return m.roomBelow(2 + len(m.banners(m.width, m.bannerRoom()))) }

func (m *model) clamp(rows []row) []row {
	if len(rows) > m.height {
		rows = rows[:m.height]
	}
	for i := range rows {
		rows[i] = rows[i].visible().fit(m.width, m.gl.cut)
	}
	return rows
}

func (s message) row() row {
	if s.text == "" {
		return nil
	}
	return row{{" ", normal}, {s.text, s.style}}
}

// rule is a line across, with a word in it if there is one.
func (m *model) rule(w int, word string) row {
	if word == "" {
		return styled(dim, strings.Repeat(m.gl.rule, w))
	}
	word = cutRight(word, w-6, m.gl.cut)
	return row{{strings.Repeat(m.gl.rule, 2) + " ", dim}, {word, warn}, {" " + strings.Repeat(m.gl.rule, max(w-4-width(word), 0)), dim}}
}

// number writes a number in its state.
func (m *model) number(n sources.Number, format func(float64) string) string {
	s := ""
	switch n.State {
	case sources.Waiting:
		return "..."
	case sources.Unknown:
		return "??"
	case sources.None:
		s = "none"
	case sources.Idle:
		s = "idle"
	default:
		if s = format(n.Value); n.Over {
			s = text.Over(s)
		}
	}
	if n.Dim {
		s += " " + text.Age(n.Age+m.stood())
	}
	return s
}

// numberStyle is how a number in its state looks; st is for a fresh value.
func numberStyle(n sources.Number, st style) style {
	switch {
	case n.State == sources.Unknown:
		return warn
	case n.State == sources.Value:
		return st
	}
	return dim
}

func (m *model) num(n sources.Number, format func(float64) string, st style) span {
	return span{m.number(n, format), numberStyle(n, st)}
}

func rateFormat(v float64) string { return text.Rate(v) }

// hurt is the style of a ratio of which any is too much.
func hurt(n sources.Number) style {
	if n.Value > 0 {
		return bad
	}
	return normal
}

// identity says where this is, whether it may write, who asks, and the time.
func (m *model) identity(w int) row {
	s := m.live.state.Value()
	env, instance, you := "waiting", "", ""
	var scope, scopeShort span
	if s != nil {
		env, instance, you = m.th.outside(s.Environment), m.th.outside(s.Instance), m.th.outside(s.You.Name)
		scope, scopeShort = m.gateways(s)
		if env == "" {
			env = "no environment"
		}
	}
	full, short, st := m.mode()
	frozen, frozenShort := "", ""
	if m.frozen != nil {
		a := text.Age(sources.Elapsed(m.frozen.at, m.now))
		frozen, frozenShort = "FROZEN "+a, "FROZEN"
	}
	now := m.live.clock(m.now)
	utc := now.UTC().Format("15:04:05Z")
	local := now.In(m.zone).Format("15:04") + " local"

	build := func(parts ...span) row {
		var r row
		for _, p := range parts {
			if p.text == "" {
				continue
			}
			r = r.add(normal, " ").add(p.style, p.text)
		}
		return r
	}
	envSpan := span{env, reversed}
	who := ""
	if you != "" {
		who = "you: " + you
	}
	// From the richest to the barest: the first that fits.
	tries := []row{
		build(span{"failback", strong}, envSpan, span{instance, normal}, scope, span{" " + full, st}, span{frozen, reversed}, span{" " + who, normal}).apartAlways(row{{utc + " " + local + " ", normal}}, w),
		build(span{"failback", strong}, envSpan, span{instance, normal}, scope, span{" " + full, st}, span{frozen, reversed}, span{" " + you, normal}).apartAlways(row{{utc + " " + local + " ", normal}}, w),
		build(span{"failback", strong}, envSpan, span{instance, normal}, scopeShort, span{" " + full, st}, span{frozen, reversed}, span{" " + who, normal}).apartAlways(row{{utc + " " + local + " ", normal}}, w),
		build(span{"failback", strong}, envSpan, span{instance, normal}, scopeShort, span{" " + short, st}, span{frozen, reversed}, span{" " + you, normal}).apartAlways(row{{utc + " " + local + " ", normal}}, w),
		build(span{"failback", strong}, envSpan, span{instance, normal}, span{" " + full, st}, span{frozen, reversed}, span{" " + who, normal}).apartAlways(row{{utc + " " + local + " ", normal}}, w),
		build(span{"failback", strong}, envSpan, span{instance, normal}, span{" " + short, st}, span{frozen, reversed}, span{" " + you, normal}).apartAlways(row{{utc + " " + local + " ", normal}}, w),
		build(envSpan, span{instance, normal}, span{short, st}, span{frozen, reversed}, span{you, normal}).apartAlways(row{{utc, normal}}, w),
		build(envSpan, span{instance, normal}, span{short, st}, span{frozenShort, reversed}).apartAlways(row{{utc, normal}}, w),
		build(envSpan, span{short, st}, span{frozenShort, reversed}).apartAlways(row{{utc, normal}}, w),
		build(envSpan, span{short, st}, span{frozenShort, reversed}),
		build(envSpan, span{short, st}),
	}
	if m.frozen != nil {
		// FROZEN takes its room from how to arm, not from whom a command reaches.
		bare := build(span{"failback", strong}, envSpan, span{instance, normal}, scope, span{" " + short, st}, span{frozen, reversed}, span{" " + you, normal})
		tries = slices.Insert(tries, 2, bare.apartAlways(row{{utc + " " + local + " ", normal}}, w))
	}
	for _, r := range tries {
		if r.width() <= w {
			return r
		}
	}
	// A long name gives way to the mode.
	return build(span{cutRight(env, max(w-width(short)-2, 1), m.gl.cut), reversed}, span{short, st})
}

// gateways says how many of the gateways that share the store answer, or that a
// command reaches this one alone.
func (m *model) gateways(s *api.State) (full, short span) {
	if len(s.Gateways) == 0 {
		return span{m.th.outside(s.Scope), dim}, span{}
	}
	n := 0
	for i := range s.Gateways {
		if s.Gateways[i].Answers {
			n++
		}
	}
	of := strconv.Itoa(n) + "/" + strconv.Itoa(len(s.Gateways))
	st := normal
	switch whole := m.live.state.Whole(m.now); {
	case whole.State == sources.Unknown:
		of, st = "??/"+strconv.Itoa(len(s.Gateways)), warn
	case n < len(s.Gateways):
		st = bad
	}
	return span{of + " gateways answer", st}, span{of + " gw", st}
}

// apartAlways is apart with both sides, whatever the width.
func (r row) apartAlways(right row, w int) row {
	gap := max(w-r.width()-right.width(), 2)
	return r.add(normal, spaces(gap)).join(right)
}

// mode says whether anything can be written from here.
func (m *model) mode() (full, short string, st style) {
	s := m.live.state.Value()
	switch {
	case m.armed():
		s := int64((m.armedUntil.Sub(m.now) + time.Second - time.Nanosecond) / time.Second)
		left := fmt.Sprintf("%d:%02d", s/60, s%60)
		return "ARMED " + left + " (W disarms)", "ARMED " + left, bad
	case s != nil && s.You.Role == api.RoleViewer && !m.o.ReadOnly:
		return "READ-ONLY (viewer)", "READ-ONLY", strong
	case m.noArm() != "":
		return "READ-ONLY", "READ-ONLY", strong
	}
	return "READ-ONLY (W arms)", "READ-ONLY", strong
}

// first is the first row that fits, else the last.
func first(w int, tries ...row) row {
	for _, r := range tries {
		if r.width() <= w {
			return r
		}
	}
	return tries[len(tries)-1]
}

// bannerRoom is how many rows notices may take.
func (m *model) bannerRoom() int {
	switch {
	case m.height >= 28:
		return 3
	case m.height >= 20:
		return 2
	}
	return 1
}

// notices are what is out of the ordinary in the gateway as a whole. Once it does
// not answer they are of its last word and say of when; none of them is then more
// than a warning: it may have ended since.
func (m *model) notices() []text.Notice {
	d, now := m.d()
	s := d.state.Value()
	switch {
	case s == nil:
		return nil
	case d.state.Whole(now).State != sources.Unknown:
		return text.Notices(s, d.clock(now))
	}
	at := d.state.Clock().At
	ns := text.Notices(s, at)
	for i := range ns {
		ns[i].Text, ns[i].Grave = "at "+text.Clock(at, d.clock(now))+": "+ns[i].Text, false
	}
	return ns
}

// banners are the notices of the whole gateway. Where there is no room for
// all, the last row counts the others.
func (m *model) banners(w, room int) []row {
	ns := m.notices()
	var rows []row
	for i, n := range ns {
		st := warn
		if n.Grave {
			st = bad
		}
		r := row{{" " + n.Word + " ", st}, {m.th.outside(n.Text), normal}}
		if i == room-1 && len(ns) > room {
			more := row{{"  +" + text.Count(uint64(len(ns)-room)) + " more: ?", warn}}
			return append(rows, r.apart(more, w, true, m.gl.cut))
		}
		rows = append(rows, r)
	}
	return rows
}

// tinyRows are who, how and the worst, for a window that has no room for more.
func (m *model) tinyRows() []row {
	w := m.width
	rows := []row{m.identity(w), m.freshness(w), m.worstRow(w)}
	switch {
	case m.dialog != nil, m.form != nil:
		rows = append(rows, styled(warn, " enlarge to answer"))
	case m.leaving != nil:
		rows = append(rows, plain(" l leave  esc stay"))
	default:
		rows = append(rows, plain(" q leaves"))
	}
	return append(rows, m.message.row())
}

// worstRow is the worst breaker there is.
func (m *model) worstRow(w int) row {
	d, now := m.d()
	s := d.state.Value()
	whole := d.state.Whole(now)
	if s == nil || whole.State == sources.Unknown {
		return styled(warn, " worst breaker "+m.number(whole, func(float64) string { return "" }))
	}
	name, worst, n := "", -1, 0
	b := ""
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		wb := text.Worst(u.Breakers)
		if wb == nil {
			continue
		}
		sv := text.Severity(wb)
		if sv > 0 {
			n++
		}
		if sv > worst {
			name, worst, b = m.th.outside(u.Name), sv, text.BreakerShort(wb, d.clock(now))
		}
	}
	switch {
	case worst < 0:
		return plain(" no breakers")
	case worst == 0 && whole.State != sources.Value:
		return styled(dim, " all breakers closed") // what is stale is never green
	case worst == 0:
		return styled(good, " all breakers closed")
	}
	return row{{" " + b + " ", bad}, {cutMiddle(name, max(w-width(b)-3, 5), m.gl.cut), normal}}
}

// filterLine is the filter while it is typed, and where its cursor is.
func (m *model) filterLine(w int) (row, int) {
	n := 0
	if f := m.sieve(); sifted.has(m.screen) {
		m.body(m.textWidth(), &f)
		n = f.shown
	} else {
		n = m.rows()
	}
	head := " filter: "
	shown, at := fieldView(m.filter, w-len(head)-14, m.th)
	r := row{{head, accent}, {shown, normal}}
	return r.apart(plain(text.Counted(n, "row")+" "), w, false, m.gl.cut), len(head) + at
}
