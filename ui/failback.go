package ui

import (
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// failbackKeys lead to the step table.
func failbackKeys() []binding {
	return []binding{
		bind([]string{"b"}, "b", "steps", "the step table of the upstream under the cursor; there j and k go to the next upstream, and ctrl+d, ctrl+u, g and G scroll").line(12).unless(func(m *model) string { return m.already(failback) }).hidden().does(act((*model).enterFailback)),
	}
}

// enterFailback opens the table of the upstream that the cursor is on.
func (m *model) enterFailback() {
	if us, _ := m.upstreams(); m.screen == overview && len(us) > 0 {
		m.selected = us[m.row(us)].Name
	}
	m.enter(failback)
}

// neighbour goes n upstreams on, in the order of the file and past any filter.
func (m *model) neighbour(n int) {
	d, _ := m.d()
	s := d.state.Value()
	if s == nil || len(s.Upstreams) == 0 {
		return
	}
	at := 0
	for i := range s.Upstreams {
		if s.Upstreams[i].Name == m.selected {
			at = clamp(i+n, 0, len(s.Upstreams)-1)
		}
	}
	m.selected, m.scroll = s.Upstreams[at].Name, 0
}

// scrollKey names the key that shows more of the step table, which j and k do not
// scroll; down reports whether there is more below.
func (m *model) scrollKey(down bool) string {
	if down {
		return ", ctrl+d"
	}
	return ", ctrl+u"
}

// failbackTitle says whose table it is and what is in force.
func (m *model) failbackTitle() row {
	d, now := m.d()
	w := max(m.width, 20)
	head := row{{" FAILBACK ", accent}}
	u := d.upstream(m.selected)
	if u == nil {
		return head.add(strong, m.th.outside(m.selected))
	}
	c := m.cells(u, d, now, false)
	by := "rev " + strconv.FormatUint(u.Revision, 10) + m.th.outside(byOf(u.RevisedBy))
	var health row
	var healths []row
	if u.Health != "" {
		for _, h := range c.health {
			healths = append(healths, row{{"  ", normal}, h})
		}
		health = healths[0]
	}
	shares := row{{"  SHARE ", normal}, {c.share.text, c.share.style}, {" LIVE ", normal}, c.live}
	named := func(n int) row { return head.add(strong, cutMiddle(c.name, n, m.gl.cut)) }
	full := named(40).join(health, shares).add(normal, "  "+by)
	tries := []row{named(40).join(health, shares).add(normal, "  "+m.revision(u, d.clock(now))), full, named(24).join(health, shares).add(normal, "  "+by), named(24).join(health, shares)}
	for _, h := range healths {
		tries = append(tries, named(max(w-30-h.width()-shares.width(), 10)).join(h, shares))
	}
	tries = append(tries, named(max(w-30-shares.width(), 10)).join(shares))
	if u.StateWhy != "" && u.RevisedAt.Equal(u.Since) {
		tries = append([]row{tries[0].add(normal, ` "`+m.th.outside(u.StateWhy)+`"`)}, tries...)
	}
	// What a long body says of where one is in it wants room too.
	return first(w-20, append(tries, named(max(w-30, 8)).join(shares))...)
}

// revision names the revision of u, and who wrote it when: that is not who set
// the share, where the last change was of health or plan.
func (m *model) revision(u *api.Upstream, clock time.Time) string {
	s := "rev " + strconv.FormatUint(u.Revision, 10) + m.th.outside(byOf(u.RevisedBy))
	if !u.RevisedAt.IsZero() {
		s += " " + text.Clock(u.RevisedAt, clock)
	}
	return s
}

// byOf is " by NAME"; empty of nobody who is known.
func byOf(name string) string {
	if name == "" {
		return ""
	}
	return " by " + name
}

// stepsOf are the steps of the upstream's failback under way, else those that
// are configured.
func stepsOf(s *api.State, u *api.Upstream) []api.FailbackStep {
	if len(u.Steps) > 0 || s == nil {
		return u.Steps
	}
	return s.Failback.Steps
}

// stepRow is one line of the step table.
type stepRow struct {
	number string // "": a share in force that is no step
	share  int
	window string
	mark   bool // in force
	passed bool
	held   bool // known to have been in force
	next   bool
}

// stepRows are the configured steps, and the share in force if it is none of
// them.
func stepRows(s *api.State, u *api.Upstream, held func(share int) string, since string) []stepRow {
	var rows []stepRow
	in := false
	own := stepRow{number: "-", share: u.Share, window: "held " + since, mark: true}
	next := shareAbove(s, u, u.Share)
	steps := stepsOf(s, u)
	for i, s := range steps {
		if s.Share > u.Share && !in {
			rows, in = append(rows, own), true
		}
		r := stepRow{number: strconv.Itoa(i + 1), share: s.Share, window: text.Window(&steps[i]), passed: s.Share < u.Share, next: s.Share == next}
		switch h := held(s.Share); {
		case s.Share == u.Share:
			r.mark, in = true, true
			if e := evidenceOf(u); e != nil {
				r.window = text.WindowLeft(e)
				break
			}
			r.window += " held " + since
		case r.passed && h != "":
			r.held = true
			r.window += " held " + h
		}
		rows = append(rows, r)
	}
	if !in {
		rows = append(rows, own)
	}
	return rows
}

// heldBefore says how long the upstream last had a share that it has no more,
// as far as the changes tell; empty if they do not.
func heldBefore(d *data, upstream string, share int) string {
	var end time.Time // of the step that is looked at: when the one after it began
	for i := range d.changes {
		e := &d.changes[i]
		if !e.IsStep() || e.Provider != upstream {
			continue
		}
		if e.To == strconv.Itoa(share) && !end.IsZero() {
			return text.Age(end.Sub(e.Time))
		}
		end = e.Time
	}
	return ""
}

// failbackBody is the step table of the selected upstream, what its next step
// waits for, and what was done so far.
func (m *model) failbackBody(w int) []row {
	d, now := m.d()
	s, u := d.state.Value(), d.upstream(m.selected)
	switch {
	case s == nil && d.state.Failing(now):
		return []row{styled(warn, " ?? "+m.never()+": the steps of its upstreams appear here")}
	case s == nil:
		return []row{styled(dim, " ... the steps of an upstream appear here")}
	case len(s.Upstreams) == 0:
		return []row{styled(dim, " no upstream is configured: the steps of one would be here")}
	case u == nil:
		return []row{styled(warn, " it is no longer configured; its state is kept by name for 7 days. j goes to the first that is")}
	}
	clock, whole := d.clock(now), d.state.Whole(now)
	var rows []row
	note := func(label, value string, st style) { rows = append(rows, noted(label, styled(st, value), w)...) }
	if whole.State != sources.Value {
		note("AS OF", text.Clock(d.state.Clock().At, clock)+", "+text.Age(whole.Age+m.stood())+" ago: "+m.mute(), warn)
	}
	since := text.Age(clock.Sub(u.Since))
	if whole.State == sources.Unknown {
		since = "??"
	}
	rows = append(rows, m.stepTable(s, u, whole, stepRows(s, u, func(share int) string { return heldBefore(d, u.Name, share) }, since), w)...)
	way := m.way(u, whole, now)
	note("NEXT", strings.TrimPrefix(way.text, "next "), way.style)
	if u.Health != "" {
		rows = append(rows, m.judgedNotes(s, u, whole, clock, w)...)
	}
	rows = append(rows, m.ratioNotes(d, now, u, w)...)
	rows = append(rows, noted("BREAKERS", m.breakerRow(d, now, u), w)...)
	f := &s.Failback
	if u.Health == "" {
		rows = append(rows, m.unmeasuredNotes(w)...)
	}
	note("ASKED FOR", askedFor(f), normal)
	owner := m.th.outside(f.Owner)
	if f.Owner == "" {
		owner = "nobody is named"
	}
	note("OWNER", owner+" (may call traffic fully back; not enforced)", normal)
	if u.Health != "" {
		rows = append(rows, m.signalRows(u, whole, clock, w)...)
		rows = append(rows, m.probeRows(u, whole, clock, w)...)
	}
	rows = append(rows, nil, styled(accent, " STEPS SO FAR, newest first"))
	return append(rows, m.stepHistory(d, now, u, w)...)
}

// unmeasuredNotes say what a gateway without evidence does not have.
func (m *model) unmeasuredNotes(w int) []row {
	var rows []row
	note := func(label, value string, st style) { rows = append(rows, noted(label, styled(st, value), w)...) }
	note("EVIDENCE", "none: this gateway does not measure it, so no step passes or fails by itself; WINDOW is how long the configuration wants it watched", dim)
	note("BASELINE", "none: not measured", dim)
	note("RETREAT", "none by itself: not measured. Breakers guard each share; < lowers it, u puts the last one back", dim)
	return rows
}

// askedFor is what the configuration asks of a step.
func askedFor(f *api.Failback) string {
	advance := map[string]string{"manual": "each step by an operator", "plan": "steps by a plan that an operator approved", "auto": "steps by itself"}[f.Advance]
	if advance == "" {
		advance = "advance " + text.Visible(f.Advance)
	}
	s := advance + "; at least " + text.Counted(max(f.MinRequests, 0), "request") + ", ok at most " + text.Percent(f.SuccessTolerance) + " below the baseline"
	return s + ", first output p95 at most " + strconv.FormatFloat(f.FirstOutputTolerance, 'g', 3, 64) + " times it"
}

// noted is a label and its value, wrapped beside it.
func noted(label string, value row, w int) []row {
	const labelWidth = 11
	var rows []row
	lines := []row{value}
	if value.width() > w-labelWidth-1 {
		lines = nil
		if len(value) == 1 {
			lines = wrap(value[0].text, max(w-labelWidth-1, 10), value[0].style)
		} else {
			lines = flow(value, max(w-labelWidth-1, 10))
		}
	}
	for i, l := range lines {
		head := label
		if i > 0 {
			head = ""
		}
		rows = append(rows, row{{" " + left(head, labelWidth, ""), accent}}.join(l))
	}
	return rows
}

// flow breaks a row between its spans.
func flow(r row, w int) []row {
	var rows []row
	var line row
	for _, s := range r {
		if len(line) > 0 && line.width()+width(strings.TrimRight(s.text, " ")) > w {
			rows, line = append(rows, line), nil
		}
		if len(line) == 0 {
			s.text = strings.TrimLeft(s.text, " ")
		}
		line = append(line, s)
	}
	return append(rows, line)
}

// stepTable is the table itself. Its columns go, where there is no room, from
// the right but one; STEP, SHARE, WINDOW and VERDICT never.
func (m *model) stepTable(s *api.State, u *api.Upstream, whole sources.Number, steps []stepRow, w int) []row {
	d, _ := m.d()
	evidence := span{m.number(sources.Number{State: sources.None}, nil), dim}
	heads := []string{"STEP", "SHARE", "WINDOW", "REQUESTS", "OK", "1ST OUTPUT P95", "NEW CLASSES", "VERDICT"}
	grid := make([][]span, len(steps))
	for i, r := range steps {
		st := normal
		if r.mark {
			st = strong
		}
		share := percent(r.share)
		if r.mark && whole.State == sources.Unknown {
			share = "(" + share + ")"
		}
		cells := []span{{r.number, st}, {share, st}, {r.window, st}, {}, {}, {}, {}, {}}
		switch {
		case r.mark && r.number == "-" && r.share == 0:
			cells[7] = span{text.AtZero(u), dim}
		case r.mark && evidenceOf(u) != nil:
			copy(cells[3:], m.measuredCells(evidenceOf(u), whole))
		case r.mark, r.passed && (r.held || u.Share < 100):
			for j := 3; j < len(cells); j++ {
				cells[j] = evidence
			}
		case r.next:
			cells[7] = m.wayShort(u, whole)
		}
		if o := outcome(d, u, r.share); o == api.Fail || o != "" && r.passed {
			v := span{o, verdictStyle(o, whole)}
			if r.next {
				v.text += ", " + cells[7].text
			}
			cells[7] = v
		}
		grid[i] = cells
	}
	width0 := func(j int) int {
		n := width(heads[j])
		for _, cells := range grid {
			n = max(n, width(cells[j].text))
		}
		return n
	}
	shown := []int{0, 1, 2, 3, 4, 5, 6, 7}
	gap := 2
	total := func() int {
		n := 3
		for _, j := range shown {
			n += width0(j) + gap
		}
		return n - gap
	}
	for len(shown) > 4 && total() > w {
		shown = append(shown[:len(shown)-2:len(shown)-2], 7)
	}
	if total() > w {
		gap = 1
	}
	line := func(mark string, at func(j int) span) row {
		r := row{{mark, accent}}
		for i, j := range shown {
			c := at(j)
			t := c.text
			if i < len(shown)-1 {
				t = left(t, width0(j), m.gl.cut) + spaces(gap)
			}
			r = r.add(c.style, t)
		}
		return r
	}
	rows := []row{line("   ", func(j int) span { return span{heads[j], dim} })}
	for i := range grid {
		mark := "   "
		if steps[i].mark {
			mark = " > "
		}
		rows = append(rows, line(mark, func(j int) span { return grid[i][j] }))
	}
	if len(stepsOf(s, u)) == 0 {
		rows = append(rows, styled(dim, "   no steps are configured"))
	}
	return rows
}

// way says what can be done next for an upstream, or why not.
func (m *model) way(u *api.Upstream, whole sources.Number, now time.Time) span {
	d, _ := m.d()
	set, waits := m.settling[u.Name]
	to := shareAbove(d.state.Value(), u, u.Share)
	next, itself := "next "+percent(to), m.th.outside(byItself(d.state.Value(), u))
	switch {
	case whole.State == sources.Unknown:
		return span{"not known: " + m.mute(), warn}
	case !u.Stated():
		return span{"not known: " + unstated, warn}
	case d.passthrough(now):
		return span{"steps have no effect: PASSTHROUGH for " + text.Age(d.state.Value().Passthrough.Until.Sub(d.clock(now))) + " more", warn}
	case waits && set.share == u.Share && (u.Health == "" || u.NextStep.BlockedBy != ""):
		return span{"given, waiting for LIVE " + text.Age(sources.Elapsed(set.since, now)), accent}
	case text.ForcedOpen(u, d.clock(now)) != "":
		return span{m.th.outside(text.ForcedOpen(u, d.clock(now))), warn}
	case to < 0:
		if b := text.Worst(u.Breakers); b != nil && text.Severity(b) > 0 {
			return span{"its breaker comes back by itself", normal}
		}
		return span{"nothing to give back", dim}
	case u.NextStep.BlockedBy != "" && itself != "":
		return span{next + " by itself (" + itself + "), not yet: " + m.th.outside(u.NextStep.BlockedBy), accent}
	case u.NextStep.BlockedBy != "":
		return span{"not now: " + m.th.outside(u.NextStep.BlockedBy), warn}
	}
	says, enough := standing(d.state.Value(), u, d.clock(now))
	if says != "" {
		says = ", " + m.th.outside(says)
	}
	switch {
	case itself != "":
		return span{next + " by itself (" + itself + ")" + says, accent}
	case m.noWrite() == "" && !enough:
		return span{next + ": > and why, then y" + says, normal}
	case m.noWrite() == "" && whole.State == sources.Value:
		return span{next + ": > then y" + says, good}
	case m.noWrite() == "": // what is stale is never green
		return span{next + ": > then y" + says, normal}
	case m.noArm() == "":
		return span{next + ": W, > then y" + says, normal}
	}
	return span{next + " (read-only here)" + says, normal}
}

// passthrough reports whether a fixed order holds, whatever the shares are.
func (d *data) passthrough(now time.Time) bool {
	s := d.state.Value()
	return s != nil && s.Passthrough != nil && d.clock(now).Before(s.Passthrough.Until)
}

// wayShort is way for the cell of the next step.
func (m *model) wayShort(u *api.Upstream, whole sources.Number) span {
	d, _ := m.d()
	way := m.way(u, whole, m.now) // its times are left out
	set, waits := m.settling[u.Name]
	switch {
	case whole.State == sources.Unknown, !u.Stated():
		way.text = "next: ??"
	case d.passthrough(m.now):
		way.text = "next: no effect"
	case waits && set.share == u.Share && (u.Health == "" || u.NextStep.BlockedBy != ""):
		way.text = "next: waits"
	case u.NextStep.BlockedBy != "":
		way.text = "next: not now"
	case byItself(d.state.Value(), u) != "":
		way.text = "next: by itself"
	case m.noWrite() == "":
		way.text = "next: > then y"
	case m.noArm() == "":
		way.text = "next: W, > y"
	default:
		way.text = "next"
	}
	return way
}

// ratioNotes are the fallback ratio of the upstream's own requests and of the
// models of which it is the primary.
func (m *model) ratioNotes(d *data, now time.Time, u *api.Upstream, w int) []row {
	if m.ask.metrics == nil {
		return noted("FALLBACK", styled(dim, "not known: nobody keeps these numbers"), w)
	}
	if len(u.PrimaryOf) == 0 {
		return noted("FALLBACK", styled(dim, "spare: no request is its own"), w)
	}
	n, why := d.upstreamRatio(u.Name, now)
	rows := noted("FALLBACK", m.ratioRow(n, why, " of its own requests left it, "+m.ratioWindow()), w)
	for i, name := range u.PrimaryOf {
		n, why := d.modelRatio(name, now)
		label := ""
		if i == 0 {
			label = "BY MODEL"
		}
		r := row{{cutMiddle(m.th.outside(name), max(w/3, 8), m.gl.cut) + " ", normal}}
		rows = append(rows, noted(label, r.join(m.ratioRow(n, why, "")), w)...)
	}
	return rows
}

// ratioEntries are the same for the detail screen.
func (m *model) ratioEntries(d *data, now time.Time, u *api.Upstream, w int) []row {
	if m.ask.metrics == nil || len(u.PrimaryOf) == 0 {
		return nil
	}
	line := func(label string, r row) []row {
		return []row{row{{" " + left(label, labelWidth, ""), dim}}.join(r).fit(w, m.gl.cut)}
	}
	n, why := d.upstreamRatio(u.Name, now)
	rows := line("fallback", m.ratioRow(n, why, " of its own requests left it, "+m.ratioWindow()))
	for i, name := range u.PrimaryOf {
		n, why := d.modelRatio(name, now)
		label := ""
		if i == 0 {
			label = "by model"
		}
		rows = append(rows, line(label, row{{m.th.outside(name) + " ", normal}}.join(m.ratioRow(n, why, " of all its requests")))...)
	}
	return rows
}

// ratioRow is a part of the fallback ratio, or why it is no value. The limit is
// the whole one's: a part has none.
func (m *model) ratioRow(n sources.Number, why, what string) row {
	s, st := m.numberIn(n, text.Percent)
	r := styled(st, s)
	switch {
	case asValue(n):
		return r.add(normal, what)
	case why != "":
		return r.add(dim, "  "+m.th.outside(why))
	}
	return r
}

// breakerRow is each bucket in a few words.
func (m *model) breakerRow(d *data, now time.Time, u *api.Upstream) row {
	whole, clock := d.state.Whole(now), d.clock(now)
	switch {
	case whole.State == sources.Unknown:
		return styled(warn, "??")
	case len(u.Breakers) == 0:
		return styled(dim, "none")
	}
	var r row
	for i := range u.Breakers {
		b := &u.Breakers[i]
		st := [...]style{good, warn, warn, bad}[text.Severity(b)]
		if whole.State != sources.Value && st == good {
			st = dim
		}
		end := ""
		if i < len(u.Breakers)-1 {
			end = "  "
		}
		r = r.add(st, m.th.outside(b.Capability)+" "+bucketState(u, b, d, clock)+end)
	}
	return r
}

// bucketState is a bucket's state with since when it is closed or not.
func bucketState(u *api.Upstream, b *api.Breaker, d *data, clock time.Time) string {
	since, least := text.BucketSince(u.Name, b, d.changes)
	return text.Breaker(b, clock) + forLong(b, since, least, clock)
}

func forLong(b *api.Breaker, since time.Time, least bool, clock time.Time) string {
	if text.Severity(b) == 0 {
		return " for " + text.For(since, least, clock)
	}
	return ", not closed for " + text.For(since, least, clock)
}

// stepHistory is what was done to the upstream's share, and what was refused.
func (m *model) stepHistory(d *data, now time.Time, u *api.Upstream, w int) []row {
	var rows []row
	told := u.StateBy == "auto" || u.StateBy == ""
	for i := range d.changes {
		e := &d.changes[i]
		ofShare := e.Event == api.KindStep || e.Event == api.KindHealth || e.Event == api.KindCommand && (e.Action == "share" || e.Action == "state")
		if e.Provider != u.Name || !ofShare || !shown(e) {
			continue
		}
		told = told || e.Revision == u.Revision
		own := *e
		own.Provider = "" // the whole screen is about it
		rows = append(rows, m.changeRow(&text.Run{Event: &own}, d.clock(now), w))
	}
	if !told && u.Stated() {
		// From before the gateway started: its state tells the last step still.
		last := api.Event{Event: api.KindStep, Time: u.Since, To: strconv.Itoa(u.Share), By: u.StateBy, Why: u.StateWhy, Revision: u.Revision}
		rows = append([]row{m.changeRow(&text.Run{Event: &last}, d.clock(now), w)}, rows...)
	}
	if len(rows) == 0 {
		return []row{m.empty(&d.events, now, "none: nobody changed its share since this gateway started")}
	}
	return rows
}
