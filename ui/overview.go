package ui

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// plan is how many rows each part of the overview gets.
type plan struct {
	who, fallback               bool
	ruleTop, ruleTable, ruleWay bool
	upstreams                   int
	changes, decisions          int // rows under their titles; 0: no panel
	ruleLast                    bool
}

// planOverview divides room rows among the parts, the most needed first: are
// users hurt, what has the gateway done, what can I do, who else is here, why.
// Of n upstreams with a filter, at least one row is shown.
func planOverview(w, room, n int, filtered bool) plan {
	n = max(n, 1)
	p := plan{upstreams: 1}
	room -= 4 // users, table header, one row, way back
	if filtered {
		p.ruleTable = true // says the filter
		room--
	}
	take := func(cost int) bool {
		if room < cost {
			return false
		}
		room -= cost
		return true
	}
	grow := func(to int) {
		add := min(max(min(to, n)-p.upstreams, 0), max(room, 0))
		p.upstreams += add
		room -= add
	}
	p.who = take(1)
	p.fallback = take(1)
	grow(4)
	p.ruleTop = take(1)
	p.ruleTable = p.ruleTable || take(1)
	p.ruleWay = take(1)
	if take(4) { // rule, title, two
		p.changes = 2
	} else if take(3) {
		p.changes = 1
	}
	if p.changes > 0 {
		grow(6)
		for p.changes < 4 && take(1) {
			p.changes++
		}
		grow(8)
		if w >= narrow && take(5) { // rule, title, three
			p.decisions = 3
		}
	}
	p.ruleLast = p.changes > 0 && take(1)
	grow(far)
	for room > 0 && p.changes > 0 {
		if p.decisions > 0 && p.decisions <= p.changes+1 {
			p.decisions++
		} else {
			p.changes++
		}
		room--
	}
	return p
}

// giveRow gives up one row below the table, which stays where it is; false: there is
// none to give.
func (p *plan) giveRow() bool {
	switch {
	case p.decisions > 2:
		p.decisions--
	case p.ruleLast:
		p.ruleLast = false
	case p.changes > 1:
		p.changes--
	case p.ruleWay:
		p.ruleWay = false
	default:
		return false
	}
	return true
}

// budgetRoom is the room of an overview from which on an error budget that burns
// has a row: less has it for upstreams and the way back.
const budgetRoom = 14

// overview is the body of the first screen.
func (m *model) overview(w, room int) []row {
	d, now := m.d()
	us, all := m.upstreams()
	l := &m.lists[overview]
	start := m.start(d, now, w, room)
	if start != nil {
		room--
	}
	var budget row
	if room >= budgetRoom {
		budget = m.budgetRow(d, now, w)
	}
	if budget != nil {
		room--
	}
	p := planOverview(w, room, len(us), l.filter != "")
	way, has := m.wayBack(now, w, wayMost), 1
	for has < len(way) && p.giveRow() {
		has++
	}
	if has < len(way) {
		way = m.wayBack(now, w, has)
	}
	rule := m.rule(w, "")
	var rows []row
	if p.ruleTop {
		rows = append(rows, rule)
	}
	rows = append(rows, m.users(d, now, w))
	if p.fallback {
		rows = append(rows, m.fallback(d, now, w))
	}
	if budget != nil {
		rows = append(rows, budget)
		room++
	}
	if start != nil {
		rows = append(rows, start)
		room++
	}
	if p.ruleTable {
		rows = append(rows, m.rule(w, m.filterWord(l.filter, len(us), all)))
	}
	rows = append(rows, m.table(d, now, us, all, w, p.upstreams)...)
	if p.ruleWay {
		rows = append(rows, rule)
	}
	rows = append(rows, way...)
	if p.who {
		rows = append(rows, m.who(d, now, w))
	}
	if p.changes > 0 {
		rows = append(rows, rule, m.changesTitle(d, now, w))
		rows = append(rows, m.changesPanel(d, now, w, p.changes)...)
	}
	if p.decisions > 0 {
		rows = append(rows, rule, m.decisionsTitle(d, now, w, p.decisions))
		rows = append(rows, m.decisionsPanel(d, now, w, p.decisions)...)
	}
	if p.ruleLast {
		for len(rows) < room-1 {
			rows = append(rows, nil)
		}
		rows = append(rows, rule)
	}
	return rows
}

// age is how old the newest answer of a feed is, or that there is none, for
// the title of a panel.
func feedAge[T any](m *model, f *sources.Feed[T], now time.Time) span {
	switch {
	case f.Failing(now):
		return span{"NO ANSWER " + text.Age(f.Silence(now)), bad}
	case f.Value() == nil:
		return span{"...", dim}
	}
	n := f.Whole(now)
	age := text.Age(n.Age+m.stood()) + " old"
	if n.State == sources.Value && m.stood() == 0 {
		return span{age, dim}
	}
	return span{age, warn}
}

// users says what clients get, and what they got an hour ago.
func (m *model) users(d *data, now time.Time, w int) row {
	var t api.Traffic
	if s := d.state.Value(); s != nil {
		t = s.Traffic
	}
	f := &d.state
	rps, failed, p95, retries := f.Number(t.RPS, now), f.Number(t.FailedRatio, now), f.Number(t.FirstOutputP95, now), f.Number(t.ClientRetries, now)
	label, gaps, output, ago := " USERS NOW   ", []string{"     ", "   ", "  "}, "first output p95 ", "1h ago"
	if w < wide {
		label, gaps, output, ago = " USERS    ", []string{"  "}, "1st output p95 ", "was"
	}
	head := row{{label, accent}, m.num(rps, perSecond(" req/s"), strong)}
	failedNow := row{{"failed ", normal}, m.num(failed, text.Percent, hurt(failed))}
	p95Now := func(label string) row { return row{{label, normal}, m.num(p95, text.Seconds, normal)} }
	failedThen := m.before(d, now, func(v *sources.Overview) sources.Reading { return v.FailedBefore }, text.Percent, ago)
	p95Then := m.before(d, now, func(v *sources.Overview) sources.Reading { return v.FirstOutputP95Before }, text.Seconds, ago)
	var again row
	if retries.State == sources.Value && retries.Value > 0 {
		again = row{{"client retries ", normal}, m.num(retries, perSecond("/s"), warn)}
	}
	age := row{feedAge(m, f, now)}.add(normal, " ")
	var tries []row
	failedWas, p95Was := said(failedThen), said(p95Then)
	for _, parts := range [][]row{
		{head, failedNow.join(failedThen), p95Now(output).join(p95Then), again},
		{head, failedNow.join(failedWas), p95Now(output).join(p95Was), again},
		{head, failedNow.join(failedWas), p95Now("p95 ").join(p95Was), again},
		{head, failedNow.join(failedWas), p95Now(output).join(p95Was)},
		{head, failedNow.join(failedWas), p95Now("p95 ").join(p95Was)},
		{head, failedNow.join(failedThen), p95Now("p95 ")},
		{head, failedNow, p95Now("p95 ")},
		{head, failedNow},
	} {
		for _, gap := range gaps {
			tries = append(tries, spaced(gap, parts...))
		}
	}
	bare := spaced(" ", append(row{{" USERS ", accent}}, head[1]), failedNow)
	r := first(w-age.width()-2, append(tries, bare)...)
	return r.apart(age, w, r.width() <= w-age.width()-1, m.gl.cut)
}

// said is r if it says a value, nil if only that there is none.
func said(r row) row {
	if len(r) == 3 && strings.Trim(r[1].text, "abcdefghijklmnopqrstuvwxyz.? ") == "" {
		return nil
	}
	return r
}

// perSecond writes a rate with its unit, so that an age comes behind both.
func perSecond(unit string) func(float64) string {
	return func(v float64) string { return text.Rate(v) + unit }
}

// whole0 writes a number without decimals.
func whole0(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

const (
	wayLabel = len(" BACK TO ")
	wayMost  = 3 // rows of it
)

// wayBack says what can be done next for the upstream under the cursor, and why
// not, in at most so many rows: in one where that is whole, else with the reason
// below.
func (m *model) wayBack(now time.Time, w, most int) []row {
	d, _ := m.d()
	us, _ := m.upstreams()
	if len(us) == 0 {
		return []row{styled(dim, " BACK TO  no upstream under the cursor")}
	}
	u := us[m.row(us)]
	name := m.th.outside(u.Name)
	why := m.way(u, d.state.Whole(now), now)
	steps, has := m.stepChoice(d, u, now)
	head := func(n int, choice row) row {
		gap := "  "
		if w < narrow {
			gap = " "
		}
		return row{{" BACK TO ", accent}, {cutMiddle(name, max(n, 8), m.gl.cut) + gap, normal}}.join(choice)
	}
	choice := has
	if w >= narrow {
		choice = steps
	}
	if one := head(w, choice).add(normal, "  ").add(why.style, why.text); one.width() <= w {
		return []row{one}
	}
	if most > 1 {
		rows := []row{first(w, head(w, steps), head(w-40, steps), head(12, has))}
		below := wrap(why.text, max(w-wayLabel, 8), why.style)
		if len(below) > most-1 {
			below = wrap(why.text, w-3, why.style)
		}
		if len(below) > most-1 {
			last := below[most-2].text() + " " + below[most-1].text()
			below = append(below[:most-2], styled(why.style, cutWords(last, w-3, m.gl.cut)))
		}
		lead := wayLabel
		for _, r := range below {
			lead = min(lead, w-r.width())
		}
		for _, r := range below {
			rows = append(rows, plain(spaces(lead)).join(r))
		}
		return rows
	}
	// The cursor's row has the name too: it gives way to the reason.
	short := first(w-2-width(why.text), head(w-40, choice), head(12, choice), head(8, choice), row{{" BACK TO ", accent}}.join(choice)).add(normal, "  ")
	return []row{short.add(why.style, cutWords(why.text, w-short.width(), m.gl.cut))}
}

// stepChoice is the steps of an upstream's share, the one in force marked; has is
// that one alone.
func (m *model) stepChoice(d *data, u *api.Upstream, now time.Time) (steps, has row) {
	share := text.Share(u)
	if d.state.Whole(now).State == sources.Unknown {
		share = "(" + share + ")"
	}
	on := false
	for _, s := range sharesOf(d.state.Value(), u) {
		if s == u.Share && u.Stated() {
			steps = steps.add(strong, "[ "+share+" ] ")
			on = true
		} else {
			steps = steps.add(dim, percent(s)+" ")
		}
	}
	if !on {
		steps = steps.add(strong, "[ "+share+" ] ")
	}
	return steps, row{{share, strong}}
}

// idleAfter is more than twice as long as another gateway's word of its consoles
// may be old: less would be shown and taken back over and over.
const idleAfter = 25 * time.Second

// who says who else acts here, this console first, and what was done last. Names
// that have no room are counted; none is cut.
func (m *model) who(d *data, now time.Time, w int) row {
	s := d.state.Value()
	if s == nil {
		return styled(dim, " WHO ...")
	}
	clock := d.clock(now)
	head := row{{" WHO   ", accent}}
	if age := d.state.Whole(now); age.State == sources.Unknown {
		as := "   as of " + text.Age(age.Age+m.stood()) + " ago"
		return styled(dim, m.people(head, s, clock, w-width(as)).text()+as)
	}
	e := s.LastWrite
	if e == nil {
		none := styled(dim, "no write yet ")
		r := m.people(head, s, clock, w-2-none.width())
		return r.apart(none, w, false, m.gl.cut)
	}
	ago := text.Age(clock.Sub(e.Time)) + " ago"
	rev := ""
	if e.Revision != 0 {
		rev = "rev " + strconv.FormatUint(e.Revision, 10) + " "
	}
	long := plain("last write " + rev + "by " + m.th.outside(text.By(e)) + " " + text.Clock(e.Time, clock) + ", " + ago + " ")
	short := plain("last write " + rev + m.th.outside(text.By(e)) + " " + ago + " ")
	all := m.people(head, s, clock, math.MaxInt)
	if all.width()+2+long.width() <= w {
		return all.apart(long, w, true, m.gl.cut)
	}
	r := m.people(head, s, clock, w-2-short.width())
	if w < 60 || r.width()+1+short.width() > w { // there is room for one of the two
		return m.people(head, s, clock, w).apart(short, w, false, m.gl.cut)
	}
	return r.apart(short, w, true, m.gl.cut)
}

// people adds to r who has a console or a command open, as many as have room in w
// columns, and counts the others. Before one has no room nobody is said to rest. The
// first is always there.
func (m *model) people(r row, s *api.State, clock time.Time, w int) row {
	if len(s.Sessions) == 0 {
		return r.add(dim, "nobody is listed")
	}
	order := slices.Clone(s.Sessions)
	slices.SortStableFunc(order, func(a, b api.Session) int {
		switch {
		case a.You == b.You:
			return 0
		case a.You:
			return -1
		}
		return 1
	})
	all, ok := m.fitting(r, order, s, clock, w, false)
	if !ok {
		all, _ = m.fitting(r, order, s, clock, w, true)
	}
	return all
}

// fitting adds to r those of order that have room, and counts the others; ok says
// that there are none.
func (m *model) fitting(r row, order []api.Session, s *api.State, clock time.Time, w int, brief bool) (all row, ok bool) {
	for i := range order {
		rest := ""
		if left := len(order) - i - 1; left > 0 {
			rest = "  and " + strconv.Itoa(left) + " more"
		}
		next := r
		if i > 0 {
			next = next.add(normal, "  ")
		}
		next = next.join(m.person(&order[i], s, clock, brief))
		if i > 0 && next.width()+width(rest) > w {
			return r.add(dim, "  and "+strconv.Itoa(len(order)-i)+" more"), false
		}
		r = next
	}
	return r, true
}

// person is who has a session, where, and, unless it is brief, whether they rest.
func (m *model) person(v *api.Session, s *api.State, clock time.Time, brief bool) row {
	r := row{{m.th.outside(v.Name), strong}}
	switch {
	case v.You:
		r = r.add(normal, " (you)")
	case v.Instance != "" && v.Instance != s.Instance:
		r = r.add(normal, " on "+m.th.outside(v.Instance))
	}
	active := v.Active
	if active.IsZero() { // that gateway does not say
		active = v.LastSeen
	}
	if idle := clock.Sub(active); idle > idleAfter && !v.You && !brief {
		r = r.add(dim, ", idle "+text.Age(idle))
	}
	return r
}

// changesTitle heads the changes, with what was lost.
func (m *model) changesTitle(d *data, now time.Time, w int) row {
	return m.changesHead(d, w).apart(row{feedAge(m, &d.events, now)}.add(accent, "   e").add(normal, ": all "), w, true, m.gl.cut)
}

func (m *model) changesHead(d *data, w int) row {
	r := row{{" CHANGES AND TRIPS", accent}}
	if w >= 60 {
		r = r.add(normal, ", newest first")
	}
	if d.lost > 0 {
		r = r.add(warn, "  "+text.Counted(d.lost, "change")+" lost before seen")
	}
	return r
}

// changesPanel is the newest n changes. Tries that go on failing have at most
// half of it: what else happened stays in view.
func (m *model) changesPanel(d *data, now time.Time, w, n int) []row {
	var rows []row
	undo, why := m.undoable()
	going, last := 0, 0
	all := m.folded(d)
	// What was written of incidents gives way to what happened.
	spare := n
	for i := 0; i < len(all) && spare > 0; i++ {
		if !triedAgain(&all[i]) && !ofIncident(&all[i]) {
			spare--
		}
	}
	for _, c := range all {
		if triedAgain(&c) {
			continue
		}
		if len(rows) == n {
			break
		}
		if ofIncident(&c) {
			if spare == 0 {
				continue
			}
			spare--
		}
		if c.Folded != nil && c.Going {
			if going++; going > max(n/2, 1) {
				continue
			}
			last = len(rows)
		}
		r := m.changeRow(&c, d.clock(now), w)
		if m.frozen == nil && why == "" && undo.event != nil && undo.event.Seq == c.Seq {
			k, st := accent, normal
			if m.noWrite() != "" {
				k, st = dim, dim
			}
			r = r.apart(row{{"u", k}, {": put back " + percent(undo.share) + " ", st}}, w, true, m.gl.cut)
		}
		rows = append(rows, r)
	}
	if more := going - max(n/2, 1); more > 0 {
		rows[last] = rows[last].apart(row{{"+" + text.Count(uint64(more)) + " more: e ", warn}}, w, true, m.gl.cut)
	}
	if len(rows) == 0 {
		s := "nothing changed since this gateway started"
		rows = append(rows, m.empty(&d.events, now, s+earlierChanges+d.sinceStart(now)))
	}
	return rows
}

// triedAgain reports whether c is that a breaker tries, which is told by how that
// ended.
func triedAgain(c *text.Run) bool {
	return c.Folded == nil && c.Event.Event == api.KindBreaker && c.To == "half_open"
}

// ofIncident reports whether c is a command about an incident: a note, a tick, an
// answer, a closing.
func ofIncident(c *text.Run) bool {
	return c.Folded == nil && c.Event.Event == api.KindCommand && strings.HasPrefix(c.Action, "incident_")
}

// earlierChanges is where those are that a gateway's start forgets.
const earlierChanges = "; earlier ones: l, changes"

// sinceStart is how long the gateway runs, behind a sentence and at its end, since
// it grows; empty if that is not known.
func (d *data) sinceStart(now time.Time) string {
	s := d.state.Value()
	if s == nil || s.StartedAt.IsZero() {
		return ""
	}
	return "; it runs for " + text.Age(max(d.clock(now).Sub(s.StartedAt), 0))
}

// empty says why a list is empty.
func (m *model) empty(f interface{ Failing(time.Time) bool }, now time.Time, nothing string) row {
	answered := false
	switch f := f.(type) {
	case *sources.Feed[api.Events]:
		answered = f.Value() != nil
	case *sources.Feed[api.Decisions]:
		answered = f.Value() != nil
	}
	switch {
	case answered:
		return styled(dim, " "+nothing)
	case f.Failing(now):
		return styled(warn, " ?? "+m.mute())
	}
	return styled(dim, " ...")
}

// changeRow is one change, or several in one. Times are of the gateway.
func (m *model) changeRow(c *text.Run, clock time.Time, w int) row {
	by := m.th.outside(text.By(c.Event))
	st := [...]style{text.Calm: good, text.Notable: normal, text.Grave: bad}[text.EventWeight(c.LastFailed())]
	byStyle := strong
	if by == "auto" {
		byStyle = dim
	}
	name := cutMiddle(c.Provider, 14, "~")
	what := ""
	for _, s := range []string{c.Change(c.Provider, clock, false), c.Change(name, clock, false), c.Change(name, clock, true)} {
		if what = m.th.outside(s); width(what) <= w-20 {
			break
		}
	}
	return row{{" " + text.Clock(c.Time, clock) + "  ", normal}, {left(by, 6, m.gl.cut) + " ", byStyle}, {what, st}}
}

// decisionsTitle heads the decisions. They are in the order of their end, and their
// times are when they were accepted, as in the log: it says so where there is room.
func (m *model) decisionsTitle(d *data, now time.Time, w, n int) row {
	age := row{feedAge(m, &d.decisions, now)}.add(accent, "   d").add(normal, ": all ")
	r := row{{" ROUTE DECISIONS", accent}}
	if v := d.decisions.Value(); v != nil {
		n, of := strconv.Itoa(min(n, len(v.Decisions))), " of "+d.pace(v)
		if len(v.Decisions) == 0 {
			return r.add(normal, ", newest 0"+of).apart(age, w, true, m.gl.cut)
		}
		r = first(w-age.width()-2, r.add(normal, ", the "+n+" that ended last,"+of+"; times: accepted"), r.add(normal, ", the "+n+" that ended last,"+of), r.add(normal, ", newest "+n+of))
	}
	return r.apart(age, w, true, m.gl.cut)
}

// pace is how many decisions there are in a minute or, of a gateway that is
// younger, in how long.
func (d *data) pace(v *api.Decisions) string {
	n := text.Count(uint64(max(v.PerMinute, 0)))
	if s := d.state.Value(); s != nil && !s.StartedAt.IsZero() {
		if age := v.At.Sub(s.StartedAt); age >= 0 && age < time.Minute {
			return n + " in " + text.Age(max(age, time.Second))
		}
	}
	return n + " a minute"
}

func (m *model) decisionsPanel(d *data, now time.Time, w, n int) []row {
	v := d.decisions.Value()
	if v == nil || len(v.Decisions) == 0 {
		return []row{m.empty(&d.decisions, now, "no request yet: decisions appear here as clients ask")}
	}
	var rows []row
	for i := range min(n, len(v.Decisions)) {
		rows = append(rows, m.decisionRow(&v.Decisions[i], d.clock(now), w))
	}
	return rows
}

// decisionEnds are what stands at the end of a decision's row, from all of it to
// the least: HTTP status, how long it took, and what became of it. In a wide window
// it is whole in each row; in a narrow one the time it took gives way to the route,
// and below that the HTTP status, which its status says too.
func (m *model) decisionEnds(v *api.Decision, w int) []row {
	st := weightStyle[text.StatusWeight(v.WorkflowStatus)]
	if v.WorkflowStatus == "completed" {
		st = good
	}
	status, code, took := m.th.outside(v.WorkflowStatus), " "+strconv.Itoa(v.HTTPStatus), text.Seconds(v.DurationMS/1000)
	if w >= wideRow {
		return []row{{{code + " " + right(took, 5, m.gl.cut), normal}, {" " + right(status, 18, m.gl.cut), st}, {" ", normal}}}
	}
	ends := []row{
		{{code + " " + took + " ", normal}, {status, st}, {" ", normal}},
		{{code + " ", normal}, {status, st}, {" ", normal}},
	}
	if w < narrow-markOfRow {
		ends = append(ends, row{{" ", normal}, {status, st}, {" ", normal}})
	}
	return ends
}

const (
	markOfRow = 2 // columns of the cursor's mark where a list has one
	wideRow   = wide - markOfRow
)

// decisionTask is how many columns of a decision's row its task has.
func decisionTask(w int) int {
	if w < wideRow {
		return 14
	}
	return 18
}

// decisionHead says what the columns of decisions are.
func (m *model) decisionHead(w int) row {
	begin := styled(dim, " ACCEPTED   "+left("TASK", decisionTask(w), "")+" WAY")
	end := "STATUS "
	if w >= wideRow {
		end = "HTTP  TOOK " + right(end, 19, "")
	}
	return begin.apart(styled(dim, end), w, false, m.gl.cut)
}

// decisionRow is one decision: when it was accepted, whose task, which way, and what
// came of it.
func (m *model) decisionRow(v *api.Decision, clock time.Time, w int) row {
	taskWidth := decisionTask(w)
	when := text.Clock(v.Time, clock)
	room := w - len(when) - 3 - taskWidth - 1 - 1
	var path string
	var end row
	for _, end = range m.decisionEnds(v, w) {
		var whole bool
		if path, whole = m.path(v, room-end.width()); whole {
			break
		}
	}
	begin := row{{" " + when + "  ", normal}, {left(m.th.outside(v.TaskType), taskWidth, m.gl.cut) + " ", normal}, {path, normal}}
	return begin.apart(end, w, true, m.gl.cut)
}

// path is the way of a request in n columns: as it is, else with names cut more and
// more, without that it was the primary that was skipped first. Where words are cut
// all the same, its last step, which says who answered, is cut last.
func (m *model) path(v *api.Decision, n int) (s string, whole bool) {
	s = m.th.outside(text.Path(v))
	if width(s) <= n {
		return s, true
	}
	for _, short := range []struct {
		name int
		bare bool
	}{{14, false}, {far, true}, {14, true}, {10, true}, {8, true}} {
		if s = m.shortPath(v, short.name, short.bare); width(s) <= n {
			return s, true
		}
	}
	return text.CutWay(s, n, m.gl.cut), false
}

// shortPath is the way of a request with names of at most n columns, but for the
// primary, which is called so. A bare one leaves out that it was the primary that was
// skipped first.
func (m *model) shortPath(v *api.Decision, n int, bare bool) string {
	short := *v
	name := func(s string) string {
		if s == v.PrimaryProvider && s != "" {
			return "primary"
		}
		return cutMiddle(s, n, "~")
	}
	short.Candidates = slices.Clone(v.Candidates)
	for i := range short.Candidates {
		short.Candidates[i].Provider = name(short.Candidates[i].Provider)
	}
	short.Attempts = slices.Clone(v.Attempts)
	for i := range short.Attempts {
		short.Attempts[i].Provider = name(short.Attempts[i].Provider)
	}
	s := m.th.outside(strings.ReplaceAll(text.Path(&short), " skipped: ", ": "))
	if bare { // the primary comes first, and why is worth more
		s = strings.TrimPrefix(s, "primary: ")
	}
	return s
}

// upstreamText is one upstream as text: for filters and copies.
func (m *model) upstreamText(u *api.Upstream, d *data, now time.Time) string {
	c := m.cells(u, d, now, false)
	name := c.name
	if u.Health != "" {
		name += "  " + c.health[0].text
	}
	return strings.Join([]string{
		name, c.breaker.text, "for " + c.since.text, "share " + c.share.text, "live " + c.live.text,
		c.rps.text + " req/s", "err " + c.err.text, "p95 " + c.p95.text, "rev " + strconv.FormatUint(u.Revision, 10),
	}, "  ")
}
