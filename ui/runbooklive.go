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

const (
	liveLabel = 11 // columns of a live value's name
	liveMost  = 4  // upstreams or buckets named for one value
)

// live gathers the live values beside a step, in w columns.
type live struct {
	m     *model
	d     *data
	now   time.Time
	w     int
	name  string // of the value that is put
	stack bool   // the parts of a value below each other, where they do not fit beside
	rows  []row
	of    []string // for each row the name of its value; empty: of none
}

// liveRows are the values that the step under the cursor talks about; where it
// names none, all that the runbook does.
func (m *model) liveRows(w int, stack bool) (rows []row, of []string) {
	d, now := m.d()
	l := live{m: m, d: d, now: now, w: w, stack: stack}
	if stops := stopsOf(m.runbook.open); stops[clamp(m.reading().cursor, 0, len(stops)-1)].section == len(runbooks.Titles)-1 {
		l.put("call", styled(strong, m.contact()))
	}
	for _, n := range m.liveNames() {
		l.name = n
		l.value(n)
	}
	return l.rows, l.of
}

func (m *model) liveNames() []string {
	if b := m.runbookStep(); b != nil && len(b.Live) > 0 {
		return b.Live
	}
	return m.runbook.open.Live()
}

// liveHead says how old the live values are, by the source that they come from, in w columns.
func (m *model) liveHead(w int) row {
	d, now := m.d()
	r := row{{"LIVE", accent}}
	gateway, prom := false, false
	for _, n := range m.liveNames() {
		if m.ask.metrics != nil && (n == runbooks.LiveRatio || n == runbooks.LiveViolations) {
			prom = true
		} else {
			gateway = true
		}
	}
	if gateway || !prom {
		r = r.add(normal, "  ")
		if prom {
			r = r.add(dim, "gateway ")
		}
		r = append(r, feedAge(m, &d.state, now))
	}
	if !prom {
		return r
	}
	r = r.add(dim, "  prom ")
	return first(w, append(r.clip(), m.promAge(d, now)), r.add(bad, "??"))
}

// promAge is how old Prometheus's newest sample is.
func (m *model) promAge(d *data, now time.Time) span {
	v := d.metrics.Value()
	if d.metrics.Failing(now) || v == nil {
		return feedAge(m, &d.metrics, now)
	}
	if v.Sampled.IsZero() {
		return span{"no series", warn}
	}
	n := d.sampled(now)
	age := text.Age(n.Age+m.stood()) + " old"
	if n.State == sources.Value && m.stood() == 0 {
		return span{age, dim}
	}
	return span{age, warn}
}

// sampled judges the newest sample of Prometheus's.
func (d *data) sampled(now time.Time) sources.Number {
	v := d.metrics.Value()
	if v == nil {
		return d.metrics.Number(api.Number{}, now)
	}
	return d.metrics.Number(api.Number{State: api.StateValue, At: v.Sampled}, now)
}

// put adds one entry: its parts in one row if they fit.
func (l *live) put(label string, parts ...row) {
	lead := func(s string) row { return row{{left(s, liveLabel, ""), dim}} }
	one := lead(label)
	for i, p := range parts {
		if i > 0 {
			one = one.add(normal, "  ")
		}
		one = one.join(p)
	}
	if !l.stack || one.width() <= l.w {
		l.rows, l.of = append(l.rows, one.fit(l.w, l.m.gl.cut)), append(l.of, l.name)
		return
	}
	for i, p := range parts {
		if i > 0 {
			label = ""
		}
		l.rows, l.of = append(l.rows, lead(label).join(p).fit(l.w, l.m.gl.cut)), append(l.of, l.name)
	}
}

func (l *live) value(name string) {
	s := l.d.state.Value()
	whole := l.d.state.Whole(l.now)
	switch name { // another source may answer though the gateway does not
	case runbooks.LiveRatio:
		l.ratio(s)
		return
	case runbooks.LiveViolations:
		l.violations()
		return
	}
	if s == nil || whole.State == sources.Unknown {
		why := strings.TrimPrefix(l.m.mute(), "the ")
		if s == nil && !l.d.state.Failing(l.now) {
			why = "no answer yet"
		}
		l.put(name, row{{"??", warn}, {" " + why, dim}})
		return
	}
	f := &l.d.state
	num := func(n api.Number, format func(float64) string, st style) span {
		return l.m.num(f.Number(n, l.now), format, st)
	}
	switch name {
	case runbooks.LiveUsers:
		failed := f.Number(s.Traffic.FailedRatio, l.now)
		l.put(name,
			row{{"failed ", normal}, l.m.num(failed, text.Percent, hurt(failed)), {" of ", normal}, num(s.Traffic.RPS, perSecond(" req/s"), normal)},
			row{{"first output p95 ", normal}, num(s.Traffic.FirstOutputP95, text.Seconds, normal)})
	case runbooks.LiveBreakers:
		l.breakers(s)
	case runbooks.LiveBudget:
		if b := l.m.budget(l.d, l.now); b != nil {
			l.put("budget", b)
		}
	case runbooks.LiveShare:
		l.each(name, "every share is 100%", s, func(u *api.Upstream) bool { return !u.Stated() || u.Share < 100 }, func(u *api.Upstream) []row {
			lv := num(u.Live, text.Percent, normal)
			if u.Live.State == api.StateNone && len(u.PrimaryOf) == 0 {
				lv = span{"none: a spare", dim}
			}
			return []row{{{"share " + text.Share(u), strong}, {" live ", normal}, lv}}
		})
	case runbooks.LiveOwn:
		l.each(name, "no upstream is a primary", s, func(u *api.Upstream) bool { return len(u.PrimaryOf) > 0 }, func(u *api.Upstream) []row {
			return []row{{num(u.OwnRPS, perSecond(" req/s of its own"), normal)}, plain("else on " + list2(u.Elsewhere, "nobody", l.m.th.outside))}
		})
	case runbooks.LiveNext:
		l.each(name, "no share is below 100%", s, func(u *api.Upstream) bool { return !u.Stated() || u.Share < 100 }, func(u *api.Upstream) []row {
			st := good
			if u.NextStep.BlockedBy != "" {
				st = warn
			}
			if whole.State != sources.Value && st == good {
				st = dim
			}
			return []row{{{"next " + text.Next(u, l.d.clock(l.now)), st}}}
		})
	case runbooks.LiveStranded:
		l.each(name, "nobody is stranded", s, func(u *api.Upstream) bool { return len(u.Stranded) > 0 }, func(u *api.Upstream) []row {
			var rows []row
			for _, t := range u.Stranded {
				rows = append(rows, row{{l.m.th.outside(t.Task) + " " + text.Rate(t.RPS) + " req/s", bad}}, plain(l.m.th.outside(t.Why)))
			}
			return rows
		})
	case runbooks.LiveCredential:
		l.each("keys", "no keys cool", s, func(u *api.Upstream) bool { return u.Credential != "" }, func(u *api.Upstream) []row {
			r := row{{l.m.th.outside(u.Credential), bad}}
			if !u.CredentialUntil.IsZero() {
				r = r.add(normal, ", next try in "+text.Age(u.CredentialUntil.Sub(l.d.clock(l.now))))
			}
			return []row{r}
		})
	case runbooks.LiveHealth:
		l.each(name, "not measured", s, func(u *api.Upstream) bool { return u.Health != "" }, func(u *api.Upstream) []row {
			return []row{{{l.m.th.outside(strings.ToUpper(u.Health)), strong}}}
		})
	case runbooks.LiveSignals:
		l.each(name, "none is red", s, func(u *api.Upstream) bool { return len(red(u)) > 0 }, func(u *api.Upstream) (rows []row) {
			for _, g := range red(u) {
				rows = append(rows, row{{g.Name + " red", bad}, {" " + l.m.th.outside(g.Value), dim}})
			}
			return rows
		})
	case runbooks.LiveProbes:
		l.probes(s)
	case runbooks.LiveRate:
		l.each(name, "no rate is bound", s, func(u *api.Upstream) bool { return len(bound(u)) > 0 }, func(u *api.Upstream) (rows []row) {
			for _, b := range bound(u) {
				rows = append(rows, row{{l.m.th.outside(b.Capability) + " admits " + text.Rate(b.AdmittedRPS) + " a second", warn}})
			}
			return rows
		})
	case runbooks.LiveRetries:
		l.put(name, row{num(s.Traffic.ClientRetries, perSecond(" req/s are retries of clients"), normal)})
	case runbooks.LiveSLO:
		l.objectives(s)
	default:
		l.itself(name, s)
	}
}

// red are the red signals of u, bound the buckets whose rate 429s bind.
func red(u *api.Upstream) (gs []*api.Signal) {
	for i := range u.Signals {
		if g := &u.Signals[i]; g.Colour == api.Red {
			gs = append(gs, g)
		}
	}
	return gs
}

func bound(u *api.Upstream) (bs []*api.Breaker) {
	for i := range u.Breakers {
		if b := &u.Breakers[i]; b.AdmittedRPS > 0 {
			bs = append(bs, b)
		}
	}
	return bs
}

// sure is the style of what is well: good only where all of it is fresh.
func (l *live) sure() style {
	if l.d.state.Whole(l.now).State != sources.Value {
		return dim
	}
	return good
}

// some puts the first of n entries that put puts, and says how many more there
// are, and where.
func (l *live) some(n int, put func(i int)) {
	for i := range min(n, liveMost) {
		put(i)
	}
	if n > liveMost {
		l.put("", l.m.more(dim, andMore(n-liveMost), l.name))
	}
}

// probes are those that did not pass, or will not be made; else how many passed.
func (l *live) probes(s *api.State) {
	type probe struct {
		u *api.Upstream
		p *api.Probe
	}
	var ill []probe
	passed, silent := 0, 0
	for i := range s.Upstreams {
		for j := range s.Upstreams[i].Probes {
			switch p := &s.Upstreams[i].Probes[j]; {
			case p.Held != "", p.Result != "" && p.Result != "ok":
				ill = append(ill, probe{&s.Upstreams[i], p})
			case p.Result == "":
				silent++
			default:
				passed++
			}
		}
	}
	label := "probes"
	l.some(len(ill), func(i int) {
		x := ill[i]
		said := row{{l.m.th.outside(x.p.Result), bad}}
		switch {
		case x.p.Held != "":
			said = row{{"held: " + l.m.th.outside(x.p.Held), warn}}
		case x.p.Failed > 1:
			said = said.add(bad, ", "+strconv.Itoa(x.p.Failed)+" in a row")
		}
		l.put(label, plain(l.called(x.u.Name)), plain(l.m.th.outside(x.p.Model+" "+x.p.Capability)), said)
		label = ""
	})
	switch {
	case len(ill) > 0:
	case passed+silent == 0:
		l.put(label, styled(dim, "nothing is probed"))
	case passed == 0:
		l.put(label, styled(dim, "none was made yet"))
	default:
		l.put(label, styled(l.sure(), strconv.Itoa(passed)+" of "+strconv.Itoa(passed+silent)+" passed last"))
	}
}

// objectives are the error budgets.
func (l *live) objectives(s *api.State) {
	type budget struct {
		m *api.Model
		b *api.Budget
	}
	var all []budget
	for i := range s.Models {
		for j := range s.Models[i].Budgets {
			all = append(all, budget{&s.Models[i], &s.Models[i].Budgets[j]})
		}
	}
	if len(all) == 0 {
		l.put("slo", styled(dim, "no model has an objective"))
		return
	}
	label := "slo"
	l.some(len(all), func(i int) {
		b := all[i].b
		spent, burn := l.d.state.Number(b.Spent, l.now), l.d.state.Number(b.BurnFast, l.now)
		st, fast := normal, normal
		if asValue(spent) && spent.Value >= 1 {
			st = bad
		}
		if asValue(burn) && burn.Value > 1 {
			fast = warn
		}
		l.put(label, plain(l.called(all[i].m.Name)+" "+l.m.th.outside(b.Objective)),
			row{{"spent ", normal}, l.m.num(spent, text.Percent, st)},
			row{{"burns ", normal}, l.m.num(burn, text.Burn, fast), {" in 1h", normal}})
		label = ""
	})
}

// violations are the tasks that fell back although they may not.
func (l *live) violations() {
	const name = runbooks.LiveViolations
	v := l.d.metrics.Value()
	n := l.d.sampled(l.now)
	aged := ""
	if n.State != sources.Value {
		aged = ", " + text.Age(n.Age+l.m.stood()) + " ago"
	}
	switch {
	case l.m.ask.metrics == nil: // only the gateway knows where they are
		l.put(name, row{{"??", warn}, {" " + strings.TrimPrefix(l.m.mute(), "the "), dim}})
	case v == nil || l.d.metrics.Whole(l.now).State == sources.Unknown:
		l.put(name, row{{"??", warn}, {" prometheus does not answer", dim}})
	case len(v.Violations) > 0:
		l.put(name, styled(bad, l.m.th.outside(strings.Join(v.Violations, ", "))), plain("in the last hour"+aged))
	case len(v.Warnings) > 0: // it may be that question
		l.put(name, row{{"??", warn}, {" prometheus answers in part", dim}})
	case v.Sampled.IsZero():
		l.put(name, row{{"??", warn}, {" prometheus has no series of this gateway", dim}})
	case n.State == sources.Unknown:
		l.put(name, row{{"??", warn}, {" newest sample " + text.Age(n.Age+l.m.stood()) + " old", dim}})
	case n.State != sources.Value:
		l.put(name, styled(dim, "none in the last hour"+aged))
	default:
		l.put(name, plain("none in the last hour"))
	}
}

func (l *live) ratio(s *api.State) {
	n, _ := l.d.ratio(l.now)
	over := "of " + l.m.ratioWindow()
	if l.m.ask.metrics == nil && s != nil {
		n, over = l.d.state.Number(s.Traffic.FallbackRatio, l.now), "of 1m"
	}
	r := row{l.m.num(n, text.Percent, strong), {" " + over, dim}}
	switch {
	case s == nil:
		l.put("ratio", r)
	case s.Limit == nil:
		l.put("ratio", r, styled(dim, "no limit is configured"))
	case asValue(n) && n.Value > s.Limit.FallbackRatio:
		l.put("ratio", r, row{{"over limit " + text.Percent(s.Limit.FallbackRatio), bad}})
	default:
		l.put("ratio", r, plain("limit "+text.Percent(s.Limit.FallbackRatio)))
	}
}

// breakers are the buckets that are not closed, the worst first.
func (l *live) breakers(s *api.State) {
	type bucket struct {
		u *api.Upstream
		b *api.Breaker
	}
	var bs []bucket
	for i := range s.Upstreams {
		for j := range s.Upstreams[i].Breakers {
			if b := &s.Upstreams[i].Breakers[j]; text.Severity(b) > 0 {
				bs = append(bs, bucket{&s.Upstreams[i], b})
			}
		}
	}
	slices.SortStableFunc(bs, func(a, b bucket) int { return text.Severity(b.b) - text.Severity(a.b) })
	if len(bs) == 0 {
		st := good
		if l.d.state.Whole(l.now).State != sources.Value {
			st = dim
		}
		l.put("breakers", styled(st, "all CLOSED"))
		return
	}
	label := "breakers"
	for i, x := range bs {
		if i == liveMost {
			l.put("", l.m.more(warn, andMore(len(bs)-i)+" not closed", l.name))
			break
		}
		st := warn
		if text.Severity(x.b) == 3 {
			st = bad
		}
		parts := []row{plain(l.called(x.u.Name + ":" + x.b.Capability)), styled(st, text.Breaker(x.b, l.d.clock(l.now)))}
		if why := strings.TrimSpace(x.b.Reason + " " + x.b.Detail); why != "" {
			parts = append(parts, styled(dim, l.m.th.outside(why)))
		}
		l.put(label, parts...)
		label = ""
	}
}

// each puts what say says of the upstreams that pass, or none.
func (l *live) each(label, none string, s *api.State, pass func(*api.Upstream) bool, say func(*api.Upstream) []row) {
	n := 0
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		if !pass(u) {
			continue
		}
		if n++; n > liveMost {
			continue
		}
		l.put(label, append([]row{plain(l.called(u.Name))}, say(u)...)...)
		label = ""
	}
	switch {
	case n == 0:
		l.put(label, styled(dim, none))
	case n > liveMost:
		l.put("", l.m.more(dim, andMore(n-liveMost), l.name))
	}
}

// called is a name in no more columns than leave room for what is said of it.
func (l *live) called(s string) string {
	room := l.w - liveLabel
	if !l.stack {
		room /= 2
	}
	return cutMiddle(l.m.th.outside(s), max(room, 8), l.m.gl.cut)
}
