package ui

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// bodyWindow is the body of a screen other than the overview: a title and what
// of it fits below, with where one is in it.
func (m *model) bodyWindow(w, room int) []row {
	if m.screen == changes || m.screen == decisions {
		return m.listWindow(w, room)
	}
	switch m.screen {
	case logs:
		return m.logsWindow(w, room)
	case runbook:
		return m.runbookWindow(w, room)
	}
	f := m.sieve()
	rows := m.body(m.textWidth(), &f)
	if f.filter != "" && f.shown == 0 && f.all > 0 {
		rows = append([]row{styled(warn, " none of "+text.Count(uint64(f.all))+" matches the filter; esc clears it")}, rows...)
	}
	title := m.title()
	n := max(room-2, 0)
	m.scroll = clamp(m.scroll, 0, max(len(rows)-n, 0))
	end := min(m.scroll+n, len(rows))
	var where row
	if len(rows) > n {
		s := strconv.Itoa(m.scroll+1) + "-" + strconv.Itoa(end) + " of " + strconv.Itoa(len(rows))
		if where = plain("lines " + s + " "); m.screen == failback {
			where = plain(s + m.scrollKey(end < len(rows)) + " ")
		}
	}
	return append([]row{m.rule(w, m.filterWord(f.filter, f.shown, f.all)), title.apart(where, w, true, m.gl.cut)}, rows[m.scroll:end]...)
}

func (m *model) title() row {
	_, now := m.d()
	switch m.screen {
	case detail:
		return row{{" " + m.th.outside(m.selected), strong}}
	case change:
		return row{{" CHANGE", accent}}
	case decision:
		return row{{" DECISION", accent}}
	case failback:
		return m.failbackTitle()
	case logLine:
		if s := m.logs.opened.shown; s != nil && len(s.answer.Rows) == 0 {
			return row{{" NUMBER", accent}, {" of " + s.question.Name, normal}}
		}
		return row{{" LOG LINE", accent}}
	case incidents:
		return m.incidentTitle()
	case faultMap:
		return m.mapTitle()
	case queue:
		return m.queueTitle()
	case money:
		return m.moneyTitle()
	case ownlog:
		r := row{{" THE CONSOLE'S OWN LOG", accent}}
		if m.o.DataDir != "" {
			r = r.add(dim, "  also in "+m.th.outside(m.o.DataDir)+"/"+logFile)
		}
		return r
	case help:
		return row{{" KEYS", accent}, {" at " + text.Clock(now, now), dim}}
	}
	return nil
}

// textWidth is how wide the text of a screen is.
func (m *model) textWidth() int { return max(m.width, 20) }

// body is the whole text of a screen that is text, in w columns, of its tables
// what f lets through.
func (m *model) body(w int, f *sieve) []row {
	switch m.screen {
	case detail:
		return m.detailBody(w)
	case change:
		return m.changeBody(w)
	case decision:
		return m.decisionBody(w)
	case failback:
		return m.failbackBody(w)
	case logLine:
		return m.logLineBody(w)
	case incidents:
		return m.incidentBody(w, f)
	case faultMap:
		return m.mapBody(w, f)
	case queue:
		return m.queueBody(w, f)
	case money:
		return m.moneyBody(w, f)
	case help:
		return m.helpBody(w, f)
	case ownlog:
		var rows []row
		for _, l := range m.log.lines {
			if f.pass(l) {
				rows = append(rows, wrap(m.th.outside(l), w, normal)...)
			}
		}
		return rows
	}
	return nil
}

// listWindow is a list with its cursor.
func (m *model) listWindow(w, room int) []row {
	d := m.source(m.screen)
	_, now := m.d()
	if m.lists[m.screen].held != nil && m.frozen == nil {
		now = m.now
	}
	newest, asked := m.d() // a list that is held is older than what there is
	l := &m.lists[m.screen]
	n := max(room-2, 1)
	var shown, all int
	var line func(i int) row
	var title, head, none row
	switch m.screen {
	case changes:
		rs, total := m.changeRows()
		shown, all = len(rs), total
		line = func(i int) row { return m.changeRow(&rs[i], d.clock(now), w-markOfRow) }
		title = m.changesHead(d, w)
		title = append(title, span{"  ", normal}, feedAge(m, &newest.events, asked))
		none = m.empty(&d.events, now, "nothing changed since this gateway started"+earlierChanges+d.sinceStart(now))
	default:
		ds := m.decisionRows()
		shown, all = ds.len(), d.seen.len()
		line = func(i int) row { return m.decisionRow(ds.at(i), d.clock(now), w-markOfRow) }
		title = row{{" ROUTE DECISIONS", accent}}
		if w >= wide {
			title = title.add(normal, ", last ended first")
		}
		if v := d.decisions.Value(); v != nil {
			held := text.Count(uint64(d.seen.len())) + " held"
			if v.Total >= uint64(d.seen.len()) { // else the gateway began to count anew
				held += " of " + text.Count(v.Total)
			}
			title = title.add(normal, ", "+held+", "+d.pace(v))
		}
		if all > 0 {
			head = row{{"  ", normal}}.join(m.decisionHead(w - markOfRow))
			n = max(n-1, 1)
		}
		title = append(title, span{"  ", normal}, feedAge(m, &newest.decisions, asked))
		none = m.empty(&d.decisions, now, "no request yet: decisions appear here as clients ask")
	}
	l.cursor = clamp(l.cursor, 0, max(shown-1, 0))
	if l.held != nil && m.frozen == nil {
		title = title.add(warn, "  held; g follows")
	}
	word := m.filterWord(l.filter, shown, all)
	if left := m.search.left(); m.screen == decisions && l.filter != "" && left > 0 {
		word += ", " + text.Count(uint64(left)) + " not searched yet"
	}
	top := clamp(l.cursor-n/2, 0, max(shown-n, 0))
	end := min(top+n, shown)
	var where row
	if shown > n {
		where = plain(strconv.Itoa(top+1) + "-" + strconv.Itoa(end) + " of " + text.Count(uint64(shown)) + " ")
	}
	rows := []row{m.rule(w, word), title.apart(where, w, true, m.gl.cut)}
	switch {
	case shown == 0 && m.screen == decisions && l.filter != "" && m.search.left() > 0:
		rows = append(rows, styled(dim, " none yet: still searching"))
	case shown == 0 && all > 0:
		rows = append(rows, styled(warn, " none of "+text.Count(uint64(all))+" matches the filter; esc clears it"))
	case shown == 0:
		rows = append(rows, none)
	}
	if head != nil && shown > 0 {
		rows = append(rows, head)
	}
	for i := top; i < end; i++ {
		mark := span{"  ", normal}
		if i == l.cursor {
			mark = span{" >", accent}
		}
		rows = append(rows, append(row{mark}, line(i)...))
	}
	return rows
}

const labelWidth = 17

// entry is a label and its value, wrapped beside it.
func entry(label, value string, w int, st style) []row {
	return entryBeside(labelWidth, label, value, w, st)
}

// entryBeside is entry with a label of n columns.
func entryBeside(n int, label, value string, w int, st style) []row {
	var rows []row
	for i, r := range wrap(value, max(w-n-1, 10), st) {
		l := ""
		if i == 0 {
			l = label
		}
		rows = append(rows, append(row{{" " + left(l, n, ""), dim}}, r...))
	}
	return rows
}

// wrap breaks s, which is fit to show, into rows of w columns.
func wrap(s string, w int, st style) []row {
	if width(s) <= w {
		return []row{styled(st, s)}
	}
	var rows []row
	for l := range strings.SplitSeq(ansi.Wrap(s, w, " "), "\n") {
		rows = append(rows, styled(st, l))
	}
	return rows
}

// grid sets cells into columns, two spaces apart, cut at the window's edge.
func grid(rows [][]span) []row {
	var w []int
	for _, r := range rows {
		for i, c := range r {
			if i == len(w) {
				w = append(w, 0)
			}
			w[i] = max(w[i], min(width(c.text), 48))
		}
	}
	out := make([]row, len(rows))
	for i, r := range rows {
		o := plain("   ")
		for j, c := range r {
			t := c.text
			if j < len(r)-1 {
				t = left(t, w[j], "~") + "  "
			}
			o = o.add(c.style, t)
		}
		out[i] = o
	}
	return out
}

func heads(ss ...string) []span {
	r := make([]span, len(ss))
	for i, s := range ss {
		r[i] = span{s, dim}
	}
	return r
}

// numberIn is a number for the detail view: one that cannot be believed shows
// the last value with its time.
func (m *model) numberIn(n sources.Number, format func(float64) string) (string, style) {
	s := m.number(n, format)
	if n.State == sources.Unknown && n.Value == n.Value && !n.At.IsZero() {
		s += " (last " + format(n.Value) + " at " + n.At.UTC().Format("15:04:05Z") + ")"
	}
	return s, numberStyle(n, normal)
}

func (m *model) detailBody(w int) []row {
	d, now := m.d()
	u := d.upstream(m.selected)
	if u == nil {
		if d.state.Value() == nil {
			return []row{styled(dim, " ...")}
		}
		return []row{styled(warn, " it is no longer configured; its state is kept by name for 7 days")}
	}
	f, clock, out := &d.state, d.clock(now), m.th.outside
	var rows []row
	add := func(label, value string, st style) { rows = append(rows, entry(label, value, w, st)...) }
	if whole := f.Whole(now); whole.State != sources.Value {
		add("as of", text.Clock(f.Clock().At, clock)+", "+text.Age(whole.Age+m.stood())+" ago: "+m.mute(), warn)
	}
	add("upstream", out(u.Region)+", "+out(u.Dialect)+", primary of "+list2(u.PrimaryOf, "nothing (spare)", out), normal)
	share := text.Share(u) + " for " + text.Age(clock.Sub(u.Since)) + out(byOf(u.StateBy)) + ", " + m.revision(u, clock)
	if !u.Stated() {
		share = "?? (" + unstated + ")"
	}
	if u.StateWhy != "" {
		share += `, "` + out(u.StateWhy) + `"`
	}
	if u.Unsynced {
		share += ", UNSYNCED: in force here and not yet written down"
	}
	add("share", share, strong)
	add("next step", text.Next(u, clock), normal)
	if u.Health != "" {
		add("health", out(text.HealthWhole(u, clock)), healthStyle(u, f.Whole(now)))
	}
	if u.Plan != nil {
		add("plan", out(text.PlanText(u, f.Value().Failback.Advance, clock)), accent)
	}
	if u.Undo != nil {
		add("undo", "u puts "+percent(u.Undo.Share)+" back, for "+out(u.Undo.By)+" and "+text.Age(u.Undo.Until.Sub(clock))+" more", normal)
	}
	live, st := m.numberIn(f.Number(u.Live, now), text.Percent)
	if u.Live.State != "value" && len(u.PrimaryOf) == 0 {
		live, st = "spare: it is primary of nothing", dim
	}
	add("live", live+" of its own traffic, last minute", st)
	for _, v := range []struct {
		label string
		n     sources.Number
		f     func(float64) string
		unit  string
	}{
		{"own traffic", f.Number(u.OwnRPS, now), text.Rate, " requests a second of which it is the primary"},
		{"attempts", f.Number(u.RPS, now), text.Rate, " a second, " + strconv.Itoa(u.InFlight) + " in flight"},
		{"failed", f.Number(u.ErrorRatio, now), text.Percent, " over the breaker's window"},
		{"first output p95", f.Number(u.FirstOutputP95, now), text.Seconds, ", last minute"},
	} {
		s, st := m.numberIn(v.n, v.f)
		if v.label == "first output p95" && v.n.State == sources.Idle {
			p := m.p95(u, d, now)
			s, st = p.text, p.style
		}
		add(v.label, s+v.unit, st)
	}
	rows = append(rows, m.ratioEntries(d, now, u, w)...)
	own := f.Number(u.OwnRPS, now)
	nobody := "nobody"
	if !hasTraffic(own) {
		nobody = "not known: it has no traffic of its own now"
	}
	add("otherwise on", list2(u.Elsewhere, nobody, out), normal)
	add("stranded", stranded(u, own, 0, out), normal)
	if u.Credential != "" {
		s := out(u.Credential)
		if !u.CredentialUntil.IsZero() {
			s += ", next try in " + text.Age(u.CredentialUntil.Sub(clock))
		}
		add("credential", s, bad)
	}
	rows = append(rows, nil, styled(accent, " BUCKETS"))
	if len(u.Breakers) == 0 {
		return append(rows, styled(dim, "   none"))
	}
	g := [][]span{heads("CAPABILITY", "STATE", "FOR", "FAILED", "RUN", "IN FLIGHT", "MODE")}
	var below [][]row
	fresh := f.Whole(now).State == sources.Value
	for i := range u.Breakers {
		b := &u.Breakers[i]
		st := [...]style{good, warn, warn, bad}[text.Severity(b)]
		if !fresh && st == good {
			st = dim
		}
		why := b.Reason
		if b.Detail != "" {
			why += ": " + b.Detail
		}
		since, least := text.BucketSince(u.Name, b, d.changes)
		g = append(g, []span{
			{out(b.Capability), normal}, {text.Breaker(b, clock), st}, {text.For(since, least, clock), normal},
			{strconv.Itoa(b.Failures) + "/" + strconv.Itoa(b.Samples), normal}, {strconv.Itoa(b.Run), normal},
			{strconv.Itoa(b.InFlight), normal}, {out(b.Mode), normal},
		})
		below = append(below, under(out(why), w))
	}
	rows = append(rows, weave(grid(g), below)...)
	for i := range u.Breakers {
		b := &u.Breakers[i]
		if b.Forced != "" {
			add(" "+out(b.Capability), "forced "+out(b.Forced)+" by "+out(b.ForcedBy)+" until "+text.Clock(b.ForcedUntil, clock), warn)
		}
		for _, x := range b.Weights {
			if x.Effective != x.Weight {
				add(" "+out(b.Capability), "weight for "+out(x.Model)+": "+weight(x.Effective)+" of "+weight(x.Weight), normal)
			}
		}
	}
	return rows
}

func weight(v float64) string { return strconv.FormatFloat(math.Round(10*v)/10, 'f', -1, 64) }

func list2(ss []string, none string, out func(string) string) string {
	if len(ss) == 0 {
		return none
	}
	return out(strings.Join(ss, ", "))
}

// changeBody is one change, or what a row of several stands for.
func (m *model) changeBody(w int) []row {
	e := m.openChange()
	if e == nil {
		return []row{styled(dim, " there is nothing here")}
	}
	if e.Folded != nil {
		return m.runBody(e, w)
	}
	var rows []row
	add := func(label, value string) {
		if value != "" {
			rows = append(rows, entry(label, m.th.outside(value), w, normal)...)
		}
	}
	add("time", e.Time.UTC().Format(time.RFC3339Nano))
	add("what", e.Text())
	add("event", api.Words(e.Event.Event))
	add("upstream", e.Provider)
	add("region", e.Region)
	add("capability", e.Capability)
	add("model", e.Model)
	add("by", text.By(e.Event))
	add("action", api.Words(e.Action))
	from, to := e.From, e.To
	if e.Event.Event == api.KindBreaker {
		from, to = api.Words(from), api.Words(to)
	}
	if e.Action == "share" || e.IsStep() {
		from, to = api.Percent(from), api.Percent(to)
	}
	add("from", from)
	add("to", to)
	add("result", e.Result)
	add("reason", e.Reason)
	add("detail", e.Detail)
	add("why", e.Why)
	add("needs", e.Required)
	add("told", e.Notified)
	if e.Revision != 0 {
		add("revision", strconv.FormatUint(e.Revision, 10))
	}
	add("number", strconv.FormatUint(e.Seq, 10))
	return rows
}

// foldedMost is how many changes an opened row lists of those it stands for.
const foldedMost = 500

// runBody is a row of tries that failed: how many, since when, with what, and
// each of them.
func (m *model) runBody(r *text.Run, w int) []row {
	d := m.source(changes)
	_, now := m.d()
	var rows []row
	add := func(label, value string) { rows = append(rows, entry(label, m.th.outside(value), w, normal)...) }
	add("upstream", r.Provider)
	add("capability", r.Capability)
	add("by", text.By(r.Event))
	add("breaker", r.Standing())
	failed := r.Tries() + ", one after the other"
	if r.Least {
		failed += "; what came before is lost or no longer kept"
	}
	add("failed", failed)
	add("first", r.First().Time.UTC().Format(time.RFC3339Nano))
	add("last", r.Time.UTC().Format(time.RFC3339Nano))
	if f := r.LastFailed(); f.Reason != "" {
		add("last reason", f.Reason)
	}
	add("last detail", r.LastFailed().Detail)
	add("numbers", strconv.FormatUint(r.First().Seq, 10)+" to "+strconv.FormatUint(r.Seq, 10))
	rows = append(rows, nil, styled(accent, " THIS ROW STANDS FOR").add(normal, " "+text.Counted(len(r.Folded), "change")+", newest first"))
	for i, e := range r.Folded {
		if i == foldedMost {
			return append(rows, styled(dim, " and "+text.Count(uint64(len(r.Folded)-i))+" more"))
		}
		rows = append(rows, m.changeRow(&text.Run{Event: e}, d.clock(now), w))
	}
	return rows
}

// under is a note below a row of a grid, whole.
func under(s string, w int) []row {
	if s == "" {
		return nil
	}
	var rows []row
	for _, r := range wrap(s, max(w-7, 10), dim) {
		rows = append(rows, row{{"      ", normal}}.join(r))
	}
	return rows
}

// weave puts below[i] under the row i of a grid, its header not counted.
func weave(g []row, below [][]row) []row {
	var rows []row
	for i, r := range g {
		rows = append(rows, r)
		if i > 0 && i <= len(below) {
			rows = append(rows, below[i-1]...)
		}
	}
	return rows
}

// helpBody is every key, and what the states of a number look like.
func (m *model) helpBody(w int, f *sieve) []row {
	var rows []row
	if f.filter == "" {
		for _, n := range m.notices() {
			rows = append(rows, entry(n.Word, m.th.outside(n.Text), w, warn)...)
		}
		if len(rows) > 0 {
			rows = append(rows, nil)
		}
	}
	last := ""
	for _, k := range Keys() {
		if !f.pass(k.Screens, k.Keys, k.Does) {
			continue
		}
		if k.Screens != last {
			rows = append(rows, styled(accent, " "+k.Screens))
			last = k.Screens
		}
		st := normal
		off := ""
		for i := range table {
			if b := &table[i]; b.long == k.Does && b.off != nil && !b.hide && b.on.has(m.covered()) {
				if off = b.off(m); off != "" {
					st, off = dim, " (off: "+off+")"
				}
			}
		}
		if k.Keys == allDigits && m.digits() != "" {
			k.Keys = m.digits()
		}
		rows = append(rows, entry("  "+k.Keys, k.Does+off, w, st)...)
	}
	if f.filter == "" {
		rows = append(rows, m.numberLegend(w)...)
	}
	n := len(rows)
	for _, g := range glossary {
		if f.pass(g.word, g.means) {
			rows = append(rows, entry("  "+g.word, g.means, w, normal)...)
		}
	}
	if len(rows) > n {
		rows = slices.Insert(rows, n, nil, styled(accent, " what the columns and words say"))
	}
	return rows
}

// numberLegend is what the states of a number look like.
func (m *model) numberLegend(w int) []row {
	rows := []row{nil, styled(accent, " what a number looks like")}
	for _, l := range []struct {
		n    sources.Number
		word string
	}{
		{sources.Number{State: sources.Value, Value: 0.004}, "measured, its sample younger than two periods; a real zero is 0.0%"},
		{sources.Number{State: sources.Ageing, Value: 0.004, Age: 5 * time.Second, Dim: true}, "two to three periods old, or its source does not answer: with its age"},
		{sources.Number{State: sources.Unknown}, "its source does not answer, or it is older than three periods; the last value is in the detail view"},
		{sources.Number{State: sources.None}, "the source answered and has no such number"},
		{sources.Number{State: sources.Idle}, "no requests, so nothing to measure"},
		{sources.Number{State: sources.Waiting}, "the first answer is not there yet"},
	} {
		rows = append(rows, entry("  "+m.number(l.n, text.Percent), l.word, w, numberStyle(l.n, normal))...)
	}
	rows = append(rows, entry("  (100%)", "a share as it was last known", w, warn)...)
	return append(rows, m.sparkLegend(w)...)
}

// glossary is what the screens say in one word.
var glossary = []struct{ word, means string }{
	{"UPSTREAM", "one provider endpoint in one region with one credential"},
	{"HEALTH", "HEALTHY; SUSPECT: signals are red, nobody is kept away yet; DEGRADED: SHARE is 0% until an operator gives it back; RECOVERING: on its way back by steps. For how long; the signals are on the failback screen"},
	{"BREAKER", "the worst of its buckets, which are its capabilities: CLOSED, OPEN, HALF (open for probes), RAMP; now"},
	{"FOR", "how long all its buckets are closed, or how long not all are; + is at least"},
	{"SHARE", "percent of its own traffic that it may get, as it was asked for, without overflow; now"},
	{"LIVE", "the part of its own traffic that it answered, over the last minute. Own traffic: requests of which it is the primary"},
	{"REQ/S", "attempts a second at it, over the last 10 s; in USERS and FALLBACK requests a second, over the last minute"},
	{"ERR", "the part of its attempts that failed, over the breaker's window"},
	{"P95", "95 of 100 of its attempts that streamed gave their first output within it, from when each began, over the last minute; no streams: it answered, and nothing was a stream. In USERS of all requests that streamed, from when each was accepted: attempts that failed before and waits are in it"},
	{"FALLBACK", "the part of all requests for which another than the primary was asked, over the time behind it"},
	{"stranded", "requests of its own traffic that no other candidate may take: outside its share they are overflow, or get no answer"},
	{"evidence", "what speaks for the next step: pass, fail, or no data, which holds; y then needs a reason, and the name where it fails"},
	{"plan", "an operator's approval of the steps: each goes by itself when its evidence passes, but for the first out of degraded, which is yours"},
	{"spare", "an upstream that is primary of nothing: it takes what others leave"},
	{"ramp", "a bucket that came back admits 1, 2, 4 and so on at once: a recovering provider is cold"},
	{"overflow", "a request outside its share that an upstream answers all the same, because nobody else can take it: while RECOVERING, and while DEGRADED by auto once its probes pass; after an operator's 0% never"},
	{"...", "behind LIVE: a share was given and the traffic is settling, for so long"},
}

// covered is the screen that `?` was opened over.
func (m *model) covered() screen {
	if n := len(m.stack); m.screen == help && n > 0 {
		return m.stack[n-1]
	}
	return m.screen
}
