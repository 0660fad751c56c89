package ui

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
	"failback/runbooks"
	"failback/sources"
	"failback/ui/text"
)

// The room of an overview from which on the runbooks have a row: that of
// proposed ones, and of none.
const (
	startRoom = 8
	quietRoom = 24
)

// A runbook is called by at least so many columns of its title; one key alone
// says nothing. Where the others are counted beside it, by titleCounted.
const (
	titleLeast   = 6
	titleCounted = 16
)

// wayBackRunbook is the one for an upstream that waits for an operator.
const wayBackRunbook = "manual-failback"

// start is the overview's row of the runbooks to start with; nil where there
// is none and no room to say so.
func (m *model) start(d *data, now time.Time, w, room int) row {
	label := row{{" START WITH  ", accent}}
	if w < wide {
		label = row{{" START    ", accent}}
	}
	ps := m.proposals()
	waits := m.waiting(d, now)
	opens := m.incidentWords(d, now)
	switch {
	case (len(ps) > 0 || len(waits) > 0 || opens[0] != nil) && room >= startRoom:
	case len(ps) == 0 && room >= quietRoom:
		what := label.add(dim, m.quietStart(d, now))
		keys := ". " + m.digits() + " open them"
		switch n := len(m.runbookSet()); {
		case n == 0:
			keys = ""
		case n == 1:
			keys = ". 1 opens the only one"
		case n > 9:
			keys = ". 0 lists all " + strconv.Itoa(n)
		}
		return first(w, what.add(dim, keys), what).fit(w, m.gl.cut)
	default:
		return nil
	}
	st, end := normal, row(nil)
	if whole := d.state.Whole(now); whole.State == sources.Unknown {
		st, end = dim, row{{"  as of " + text.Age(whole.Age+m.stood()) + " ago", warn}}
	}
	if len(waits) > 0 {
		ps = wayBackFirst(ps)
	} else {
		waits = []row{nil}
	}
	runbook := func(i, n int, why string) row {
		title := cutRight(m.th.outside(ps[i].Runbook.Title), n, m.gl.cut)
		title = strings.Replace(title, " "+m.gl.cut, m.gl.cut, 1)
		r := row{{"[" + m.digit(ps[i].Runbook) + "]", accent}, {" " + title, st}}
		if why != "" {
			r = r.add(dim, " (matches "+why+")")
		}
		return r
	}
	counted := func(n int) row {
		if n == 0 {
			return nil
		}
		return row{{"and " + strconv.Itoa(n) + " more", dim}}
	}
	said := func(open, wait row) row { return label.join(spaced("   ", open, wait)) }
	line := func(open, wait row, n int, gap string, why func(i int) string) row {
		parts := []row{spaced("   ", open, wait)}
		for i := range n {
			parts = append(parts, runbook(i, far, why(i)))
		}
		return label.join(spaced(gap, append(parts, counted(len(ps)-n))...), end)
	}
	n := min(len(ps), 9)
	silent := func(int) string { return "" }
	tries := []row{
		line(opens[0], waits[0], n, "    ", func(i int) string { return ps[i].Why }),
		line(opens[0], waits[0], n, "    ", func(i int) string { return ps[i].Short }),
		line(opens[0], waits[0], n, "    ", func(i int) string {
			if i == 0 {
				return ps[0].Short
			}
			return ""
		}),
	}
	// cut is one runbook with as much of its title as has room beside all else;
	// nil where that is less than least.
	cut := func(open, wait, more row, least int) row {
		begin, rest := said(open, wait).add(normal, "  "), end
		if open == nil && wait == nil {
			begin = label
		}
		if more != nil {
			rest = plain("  ").join(more, end)
		}
		room := w - begin.width() - len("[1] ") - rest.width()
		if room < least {
			return nil
		}
		return begin.join(runbook(0, room, ""), rest)
	}
	// Who waits is worth more than what the runbooks are called, and what the
	// first is called more than how many there are.
	for _, wait := range waits {
		for _, open := range opens {
			for n := n; n > 0; n-- {
				tries = append(tries, line(open, wait, n, "   ", silent), line(open, wait, n, "  ", silent))
			}
		}
		if r := row(nil); n > 0 {
			if r = cut(opens[1], wait, counted(len(ps)-1), titleCounted); r != nil {
				tries = append(tries, r)
			}
		}
	}
	last := waits[len(waits)-1]
	if n > 0 {
		if r := cut(opens[1], last, nil, titleLeast); r != nil {
			tries = append(tries, r)
		}
	}
	if n == 0 {
		for _, wait := range waits {
			tries = append(tries, said(opens[0], wait).join(end), said(opens[1], wait).join(end))
		}
	}
	return first(w, append(tries, said(opens[1], last).join(end))...).fit(w, m.gl.cut)
}

// wayBackFirst is ps with the runbook of the way back before the others.
func wayBackFirst(ps []runbooks.Match) []runbooks.Match {
	i := slices.IndexFunc(ps, func(p runbooks.Match) bool { return p.Runbook.ID == wayBackRunbook })
	if i <= 0 {
		return ps
	}
	return slices.Concat(ps[i:i+1], ps[:i], ps[i+1:])
}

// incidentWords say that an incident is open, from long to short; nil where none
// is.
func (m *model) incidentWords(d *data, now time.Time) [2]row {
	long := m.incidentWord(d, now)
	if long == nil {
		return [2]row{}
	}
	short := slices.Clone(long)
	for i := range short {
		short[i].text = strings.Replace(short[i].text, " open ", " ", 1)
	}
	return [2]row{long, short}
}

// waiter is an upstream whose next step only an operator takes.
type waiter struct {
	u   *api.Upstream
	how string // in what state it waits
	why string // what speaks for the step
}

// waiters are the upstreams that wait for an operator alone, as the gateway tells
// them: a degraded one whose probes pass, and one on its way back whose evidence
// passes, where nothing takes the step by itself or forbids it. known is false
// where what the gateway said last is too old to tell.
func (m *model) waiters(d *data, now time.Time) (ws []waiter, known bool) {
	s := d.state.Value()
	if s == nil || d.state.Whole(now).State == sources.Unknown {
		return nil, false
	}
	if d.passthrough(now) {
		return nil, true
	}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		if byItself(s, u) != "" {
			continue
		}
		switch verdict, why := text.Recovery(u, d.clock(now)); {
		case u.Health == api.Degraded && verdict == api.Pass:
			ws = append(ws, waiter{u, "degraded", why})
		case u.Health != api.Recovering || u.NextStep.BlockedBy != "" || evidenceOf(u) == nil || evidenceOf(u).Verdict != api.Pass:
		default:
			if to := shareAbove(s, u, u.Share); to > 0 {
				ws = append(ws, waiter{u, "recovering at " + text.Share(u), "evidence passes, " + percent(to) + " is next"})
			}
		}
	}
	return ws, true
}

// waiting says who waits for an operator alone, from long to short; nil where
// nobody does.
func (m *model) waiting(d *data, now time.Time) []row {
	ws, _ := m.waiters(d, now)
	if len(ws) == 0 {
		return nil
	}
	more := ""
	if n := len(ws); n > 1 {
		more = " (+" + strconv.Itoa(n-1) + ")"
	}
	w := ws[0]
	name := m.th.outside(w.u.Name)
	return []row{
		styled(strong, name+more+" "+w.how+": waits for an operator; "+w.why),
		styled(strong, cutMiddle(name, 19, m.gl.cut)+more+" waits for an operator; "+w.why),
		styled(strong, cutMiddle(name, 14, m.gl.cut)+more+" waits for you; "+w.why),
		styled(strong, cutMiddle(name, 14, m.gl.cut)+more+" waits for you"),
	}
}

// quietStart says why none is proposed, and when one would be.
func (m *model) quietStart(d *data, now time.Time) string {
	s := d.state.Value()
	switch {
	case m.noRunbook() != "":
		return m.noRunbook()
	case s == nil && d.state.Failing(now), s != nil && d.state.Whole(now).State == sources.Unknown:
		return "not known which runbook fits: " + m.mute()
	case s == nil:
		return "not known yet which runbook fits"
	case notClosedIn(s.Upstreams):
		return "no runbook is about what is not CLOSED now"
	}
	return "no runbook fits; one does when a breaker opens or a share is lowered"
}

func notClosedIn(us []api.Upstream) bool {
	return slices.ContainsFunc(us, func(u api.Upstream) bool {
		w := text.Worst(u.Breakers)
		return w != nil && text.Severity(w) > 0
	})
}
