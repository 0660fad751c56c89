package ui

import (
	"slices"
	"strconv"
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

// start is the overview's row of the runbooks to start with; nil where there
// is none and no room to say so.
func (m *model) start(d *data, now time.Time, w, room int) row {
	head := row{{" START WITH  ", accent}}
	if w < wide {
		head = row{{" START    ", accent}}
	}
	ps := m.proposals()
	waits := m.waiting(d, now)
	open := m.incidentWord(d, now)
	if open != nil {
		head = head.join(open).add(normal, "   ")
	}
	switch {
	case (len(ps) > 0 || len(waits) > 0 || open != nil) && room >= startRoom:
	case len(ps) == 0 && room >= quietRoom:
		what := head.add(dim, m.quietStart(d, now))
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
	item := func(i int, why string) row {
		r := row{{"[" + m.digit(ps[i].Runbook) + "]", accent}, {" " + m.th.outside(ps[i].Runbook.Title), st}}
		if why != "" {
			r = r.add(dim, " (matches "+why+")")
		}
		return r
	}
	line := func(n int, gap string, why func(p *runbooks.Match) string) row {
		r := head
		if len(waits) > 0 {
			r = r.join(waits[0])
			if n > 0 {
				r = r.add(normal, gap)
			}
		}
		for i := range n {
			if i > 0 {
				r = r.add(normal, gap)
			}
			r = r.join(item(i, why(&ps[i])))
		}
		if n < len(ps) {
			r = r.add(dim, gap+"and "+strconv.Itoa(len(ps)-n)+" more")
		}
		return r.join(end)
	}
	n := min(len(ps), 9)
	silent := func(*runbooks.Match) string { return "" }
	tries := []row{
		line(n, "    ", func(p *runbooks.Match) string { return p.Why }),
		line(n, "    ", func(p *runbooks.Match) string { return p.Short }),
		line(n, "    ", func(p *runbooks.Match) string {
			if p == &ps[0] {
				return p.Short
			}
			return ""
		}),
	}
	// Who waits is worth more than what the runbooks are called.
	bare := func(gap string) row {
		r := head.join(waits[0])
		for i := range min(len(ps), 9) {
			r = r.add(normal, gap).add(accent, "["+m.digit(ps[i].Runbook)+"]")
		}
		return r.join(end)
	}
	for i := range max(len(waits), 1) {
		waits = waits[min(i, 1):]
		for n := n; n > 0 && (i == 0 || len(waits) < 2); n-- {
			tries = append(tries, line(n, "   ", silent), line(n, "  ", silent))
		}
		if len(waits) > 0 {
			tries = append(tries, bare("  "))
		}
	}
	return first(w, tries...).fit(w, m.gl.cut)
}

// waiting says who waits for an operator alone, from long to short; nil where
// nobody does: a degraded upstream whose probes pass is not given back by
// itself.
func (m *model) waiting(d *data, now time.Time) []row {
	s := d.state.Value()
	if s == nil || d.passthrough(now) || d.state.Whole(now).State == sources.Unknown {
		return nil
	}
	var first *api.Upstream
	n := 0
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		if verdict, _ := text.Recovery(u, now); u.Health != api.Degraded || verdict != api.Pass || byItself(s, u) != "" {
			continue
		}
		if n++; first == nil {
			first = u
		}
	}
	if first == nil {
		return nil
	}
	more := ""
	if n > 1 {
		more = " (+" + strconv.Itoa(n-1) + ")"
	}
	_, why := text.Recovery(first, now)
	name := m.th.outside(first.Name)
	return []row{
		styled(strong, name+more+" degraded: waits for an operator; "+why),
		styled(strong, cutMiddle(name, 19, m.gl.cut)+more+" waits for an operator; "+why),
		styled(strong, cutMiddle(name, 14, m.gl.cut)+more+" waits for you; "+why),
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
	case s.Passthrough != nil:
		return "no runbook fits while PASSTHROUGH lasts"
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
