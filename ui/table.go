package ui

import (
	"strconv"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// cells are what the table says of one upstream.
type cells struct {
	name                                       string
	breaker, since, share, live, rps, err, p95 span
	// health and breakers from long to short: with how long, the word, few letters.
	health   [3]span
	breakers [2]span
}

// cells are read anew for each frame: ages and times to come move.
func (m *model) cells(u *api.Upstream, d *data, now time.Time, short bool) cells {
	f, clock := &d.state, d.clock(now)
	c := cells{name: m.th.outside(u.Name)}
	whole := f.Whole(now)
	fresh := whole.State == sources.Value
	w := text.Worst(u.Breakers)
	switch {
	case whole.State == sources.Unknown:
		c.breaker, c.since = span{"??", warn}, span{"??", warn}
		c.breakers = [2]span{c.breaker, c.breaker}
	case w == nil:
		c.breaker, c.since = span{"none", dim}, span{"none", dim}
		c.breakers = [2]span{c.breaker, c.breaker}
	default:
		st := [...]style{good, warn, warn, bad}[text.Severity(w)]
		if !fresh && st == good {
			st = dim // what is stale is never green
		}
		c.breakers = [2]span{{text.Breaker(w, clock), st}, {text.BreakerShort(w, clock), st}}
		c.breaker = c.breakers[0]
		if short {
			c.breaker = c.breakers[1]
		}
		since, least := text.Since(u, d.changes)
		c.since = span{text.For(since, least, clock), normal}
	}
	st := healthStyle(u, whole)
	for i, f := range []func() string{
		func() string { return text.HealthFor(u, clock) }, func() string { return text.Health(u) }, func() string { return text.HealthShort(u) },
	} {
		c.health[i] = span{f(), st}
		if whole.State == sources.Unknown {
			c.health[i] = span{"??", warn}
		}
	}
	c.share = span{text.Share(u), normal}
	switch {
	case whole.State == sources.Unknown:
		c.share = span{"(" + text.Share(u) + ")", warn}
	case !u.Stated():
		c.share.style = warn
	case u.Unsynced:
		c.share = span{percent(u.Share) + "!", warn}
	case u.Share < 100:
		c.share.style = strong
	}
	live := f.Number(u.Live, now)
	c.live = m.num(live, text.Percent, normal)
	if live.State == sources.None && len(u.PrimaryOf) == 0 {
		c.live = span{"spare", dim}
	}
	if s, ok := m.settling[u.Name]; ok && s.share == u.Share && whole.State != sources.Unknown {
		c.live = span{awaited(c.live.text, text.Age(sources.Elapsed(s.since, now))), accent}
	}
	rps := f.Number(u.RPS, now)
	c.rps = m.num(rps, text.Rate, normal)
	if asValue(live) && live.Value > 0 && !hasTraffic(rps) && c.live.style == normal {
		c.live.style = dim // of a minute of which nothing goes on
	}
	e := f.Number(u.ErrorRatio, now)
	c.err = m.num(e, text.Percent, hurt(e))
	c.p95 = m.p95(u, d, now)
	return c
}

// numberMost is how many columns of the table a number has at most.
const numberMost = 14

// awaited is a LIVE that is waited for, with how long: what it is gives way to
// that where a column has no room for both.
func awaited(live, waited string) string {
	for _, s := range []string{live + " ... " + waited, live + "..." + waited} {
		if width(s) <= numberMost {
			return s
		}
	}
	return "... " + waited
}

// healthStyle is how a health looks; what is stale is never green.
func healthStyle(u *api.Upstream, whole sources.Number) style {
	st := [...]style{good, warn, warn, bad}[text.HealthSeverity(u)]
	switch {
	case u.Health == "":
		return dim
	case st == good && whole.State != sources.Value:
		return dim
	}
	return st
}

// p95 is the first output of an upstream's streams: one that answers, and
// streams nothing, is not idle.
func (m *model) p95(u *api.Upstream, d *data, now time.Time) span {
	n := d.state.Number(u.FirstOutputP95, now)
	if n.State == sources.Idle && hasTraffic(d.state.Number(u.RPS, now)) {
		return span{text.NoStreams, dim}
	}
	return m.num(n, text.Seconds, normal)
}

// column is one of the table: its head, how it is read, and its width.
type column struct {
	head string
	of   func(*cells) span
	w    int
}

// columnsFor are the columns right of BREAKER and those beside it, by the
// width of the window: P95 and FOR go first, then REQ/S, then ERR; UPSTREAM,
// HEALTH, BREAKER, SHARE and LIVE never.
func columnsFor(w int) (since bool, cs []column) {
	share := column{head: "SHARE", of: func(c *cells) span { return c.share }}
	live := column{head: "LIVE", of: func(c *cells) span { return c.live }}
	rps := column{head: "REQ/S", of: func(c *cells) span { return c.rps }}
	err := column{head: "ERR", of: func(c *cells) span { return c.err }}
	p95 := column{head: "P95", of: func(c *cells) span { return c.p95 }}
	if w >= narrow {
		live.head = "LIVE 1m" // REQ/S beside it is of now
	}
	switch {
	case w >= wide:
		return true, []column{share, live, rps, err, p95}
	case w >= narrow:
		return false, []column{share, live, rps, err}
	case w >= 56:
		return false, []column{share, live, err}
	}
	return false, []column{share, live}
}

// table is the upstreams' table: a header and n rows, the one under the cursor
// among them.
func (m *model) table(d *data, now time.Time, us []*api.Upstream, all, w, n int) []row {
	if len(us) == 0 {
		return []row{styled(dim, "   UPSTREAM"), m.noUpstreams(d, now, all)}
	}
	at := m.row(us)
	top := clamp(at-n/2, 0, max(len(us)-n, 0))
	end := min(top+n, len(us))
	short := w < 64
	rows := make([]cells, 0, end-top)
	nameW, breakerW, sinceW := 8, 7, 3
	since, cs := columnsFor(w)
	for i := range cs {
		cs[i].w = max(len(cs[i].head), 5)
	}
	for _, u := range us[top:end] {
		c := m.cells(u, d, now, short)
		rows = append(rows, c)
		nameW, breakerW, sinceW = max(nameW, width(c.name)), max(breakerW, width(c.breaker.text)), max(sinceW, width(c.since.text))
		for i := range cs {
			cs[i].w = max(cs[i].w, width(cs[i].of(&c).text))
		}
	}
	measured := text.Measured(d.state.Value())
	gap := 2
	if w < narrow || measured && w < wide {
		gap = 1
	}
	// What the numbers need is theirs; name and breaker share the rest.
	rest := w - 3 - gap
	if since {
		rest -= sinceW + gap
	}
	for i := range cs {
		cs[i].w = min(cs[i].w, numberMost)
		rest -= cs[i].w + gap
	}
	var healths []span
	healthW := 0
	if measured {
		healths, healthW, breakerW = healthColumn(rows, rest-gap-min(nameW, 20), gap)
		rest -= healthW + gap
	}
	if nameW+breakerW > rest {
		breakerW = min(breakerW, max(rest-min(nameW, 20), rest*2/5, 8))
		nameW = max(rest-breakerW, 5)
	}
	pad := spaces(gap)
	beside, besideW := left("BREAKER", breakerW, m.gl.cut), breakerW
	if measured {
		beside, besideW = left("HEALTH", healthW, m.gl.cut)+pad+beside, healthW+gap+breakerW
	}
	head := "UPSTREAM"
	if n < len(us) {
		head = headOfSome(us, top, end, nameW+gap+besideW)
	}
	h := row{{"   ", normal}, {left(head, nameW, m.gl.cut) + pad + beside, dim}}
	if n < len(us) && width(head) > nameW {
		// Where one is matters more than the heads of the columns beside.
		h = row{{"   ", normal}, {left(head, nameW+gap+besideW, m.gl.cut), dim}}
	}
	if since {
		h = h.add(dim, pad+right("FOR", sinceW, m.gl.cut))
	}
	for _, c := range cs {
		h = h.add(dim, pad+right(c.head, c.w, m.gl.cut))
	}
	// Those that are not shown count too: one that comes into view is another.
	names := make([]string, len(us))
	for i, u := range us {
		names[i] = m.th.outside(u.Name)
	}
	names = cutAlike(names, nameW, m.gl.cut)[top:]
	out := []row{h}
	for i := range rows {
		c := &rows[i]
		mark, st := "   ", normal
		if top+i == at {
			mark, st = " > ", strong
		}
		r := row{{mark, accent}, {left(names[i], nameW, m.gl.cut), st}}
		if measured {
			r = r.add(healths[i].style, pad+left(healths[i].text, healthW, m.gl.cut))
		}
		r = r.add(c.breaker.style, pad+left(c.breaker.text, breakerW, m.gl.cut))
		if since {
			r = r.add(c.since.style, pad+right(c.since.text, sinceW, m.gl.cut))
		}
		for _, col := range cs {
			v := col.of(c)
			r = r.add(v.style, pad+right(v.text, col.w, m.gl.cut))
		}
		out = append(out, r)
	}
	return out
}

// healthColumn chooses how much HEALTH and BREAKER say in n columns with a gap
// between them: the first that fits, else the least. It sets the breaker cells.
func healthColumn(rows []cells, n, gap int) (healths []span, healthW, breakerW int) {
	for _, look := range []struct {
		health int
		whole  bool // breakers are; else those for which there is no room are short
	}{{0, true}, {1, true}, {0, false}, {1, false}, {2, false}} {
		healths, healthW, breakerW = healths[:0], len("HEALTH"), len("BREAKER")
		for i := range rows {
			h := rows[i].health[look.health]
			healths, healthW = append(healths, h), max(healthW, width(h.text))
		}
		for i := range rows {
			c := &rows[i]
			c.breaker = c.breakers[0]
			if !look.whole && healthW+gap+width(c.breaker.text) > n {
				c.breaker = c.breakers[1]
			}
			breakerW = max(breakerW, width(c.breaker.text))
		}
		if healthW+gap+breakerW <= n {
			break
		}
	}
	return healths, min(healthW, 20), breakerW
}

func notClosed(us []*api.Upstream) int {
	n := 0
	for _, u := range us {
		if w := text.Worst(u.Breakers); w != nil && text.Severity(w) > 0 {
			n++
		}
	}
	return n
}

// noUpstreams says why the table is empty.
func (m *model) noUpstreams(d *data, now time.Time, all int) row {
	again := "; this screen waits and asks again"
	if m.refused() != "" {
		again = ""
	}
	switch {
	case all > 0:
		return styled(warn, "   none of "+strconv.Itoa(all)+" matches the filter; esc clears it")
	case d.state.Value() != nil:
		return styled(dim, "   no upstream is configured: name one under upstreams in the configuration")
	case d.state.Failing(now):
		return styled(warn, "   ?? "+m.never()+again)
	}
	return styled(dim, "   ... waiting for the first answer")
}

// headOfSome says which of the upstreams have a row, and how many of the others
// are not closed: as much of it as w columns take, the first thing last.
func headOfSome(us []*api.Upstream, top, end, w int) string {
	where := strconv.Itoa(top+1) + "-" + strconv.Itoa(end) + "/" + strconv.Itoa(len(us))
	tries := []string{"UPSTREAM " + where, where}
	if b := notClosed(us[:top]) + notClosed(us[end:]); b > 0 {
		n := strconv.Itoa(b)
		tries = append([]string{"UPSTREAM " + where + ", " + n + " more not closed", where + ", " + n + " more not closed", where + ", " + n + " not closed"}, tries...)
	}
	for _, s := range tries {
		if width(s) <= w {
			return s
		}
	}
	return where
}
