package ui

import (
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// reading judges a number of Prometheus's.
func (d *data) reading(r sources.Reading, now time.Time) sources.Number {
	n := d.metrics.Number(r.Number, now)
	n.Over = r.Over
	return n
}

// ratio is the fallback ratio over five minutes and why it is no value.
func (d *data) ratio(now time.Time) (n sources.Number, why string) {
	v := d.metrics.Value()
	if v == nil {
		return d.metrics.Number(api.Number{}, now), ""
	}
	n = d.reading(v.Ratio, now)
	return n, v.Ratio.WhyOf(n)
}

func asValue(n sources.Number) bool {
	return n.State == sources.Value || n.State == sources.Ageing
}

// fallback says how much is answered by others than the primary, against what
// limit, since when, and how that came about.
func (m *model) fallback(d *data, now time.Time, w int) row {
	label, gaps := " FALLBACK ", []string{"  "}
	if w >= wide {
		label, gaps = " FALLBACK    ", []string{"     ", "   ", "  "}
	}
	head := row{{label, accent}}
	s := d.state.Value()
	var t api.Traffic
	if s != nil {
		t = s.Traffic
	}
	own := d.state.Number(t.FallbackRatio, now)
	rps := d.state.Number(t.FallbackRPS, now)
	var heads, sparks []row
	if m.ask.metrics == nil {
		// Nobody else measures it, or it is not known yet who does.
		heads = []row{append(head.clip(), m.num(own, over("1m"), normal))}
	} else {
		heads = m.ratioHeads(d, now, head, own)
		if ratio, _ := d.ratio(now); ratio.State != sources.Unknown {
			for _, n := range []int{30, 20, 10} {
				if r := m.sparkRow(d, now, n, ratio); r != nil && (len(sparks) == 0 || r.text() != sparks[len(sparks)-1].text()) {
					sparks = append(sparks, r)
				}
			}
		}
	}
	rate := row{m.num(rps, perSecond(" req/s 1m"), normal)}
	budget := m.budget(d, now)
	var flight row
	if s != nil && d.state.Whole(now).State == sources.Value {
		flight = plain("in flight " + strconv.Itoa(t.InFlight))
	}
	var tries []row
	try := func(parts ...row) {
		for _, gap := range gaps {
			tries = append(tries, spaced(gap, parts...))
		}
	}
	for n, h := range heads {
		for i, sp := range sparks {
			try(h, sp, rate, budget, flight)
			try(h, sp, rate, budget)
			try(h, sp, rate)
			if i > 0 || len(sparks) == 1 {
				try(h, sp)
			}
		}
		try(h, rate, budget, flight)
		try(h, rate, budget)
		try(h, rate)
		if n > 0 {
			try(h)
		}
	}
	return first(w, append(tries, heads...)...)
}

// ratioHeads is the ratio with its limit, in fewer and fewer words.
func (m *model) ratioHeads(d *data, now time.Time, head row, own sources.Number) []row {
	n, why := d.ratio(now)
	r := append(head.clip(), m.num(n, over(m.ratioWindow()), normal))
	if !asValue(n) {
		// What the gateway itself counted is another number, over another time.
		gateway := row{{"  (gateway's own, 1m: ", dim}, m.num(own, text.Percent, normal), {")", dim}}
		short := row{{" (1m ", dim}, m.num(own, text.Percent, normal), {")", dim}}
		limit := m.limitText(d, "  ")
		if why != "" {
			why := m.th.outside(why)
			said, bare := r.add(dim, "  "+why), r.add(dim, "  "+strings.SplitN(why, ":", 2)[0])
			return []row{said.join(gateway, limit), said.join(gateway), said.join(short), bare.join(gateway), bare.join(short), r.join(gateway), r.join(short), r}
		}
		return []row{r.join(gateway, limit), r.join(gateway), r.join(short), r}
	}
	limit := d.limit()
	if limit == nil {
		return []row{r.add(dim, "  no limit set"), r}
	}
	of := text.RatioPercent(*limit)
	if n.Value <= *limit {
		return []row{r.add(normal, "  limit "+of), r}
	}
	st := bad
	if n.State != sources.Value {
		st = warn
	}
	r[len(r)-1].style = st
	above := r.add(normal, "  ").add(st, "over limit "+of)
	long, short := m.since(d, now)
	rows := []row{}
	if long != "" {
		rows = append(rows, above.add(normal, " "+long), above.add(normal, " "+short))
	}
	return append(rows, above, r.add(st, " over "+of), r)
}

// over writes a ratio with the time it is over.
func over(window string) func(float64) string {
	return func(v float64) string { return text.Percent(v) + " " + window }
}

// limit is the configured one; nil: there is none.
func (d *data) limit() *float64 {
	if s := d.state.Value(); s != nil && s.Limit != nil {
		return &s.Limit.FallbackRatio
	}
	return nil
}

func (m *model) limitText(d *data, gap string) row {
	if l := d.limit(); l != nil {
		return plain(gap + "limit " + text.RatioPercent(*l))
	}
	return nil
}

// aboutNow is how exactly a moment must be known to be written without about.
const aboutNow = 20 * time.Second

// since says since when it is over the limit, empty if that is not known.
func (m *model) since(d *data, now time.Time) (long, short string) {
	h := d.history.Value()
	if h == nil || d.history.Whole(now).State == sources.Unknown {
		return "", ""
	}
	switch o := h.Over; o.State {
	case sources.OverSince:
		age := text.Age(d.history.Clock().Now(now).Sub(o.Since))
		at := o.Since.UTC().Format("15:04Z")
		switch {
		case d.under.After(o.Since):
			return "", "" // it was shown under the limit since then: the next history knows
		case o.Blind:
			return "since " + at + " or before (" + age + "+)", "(" + age + "+)"
		case o.Within > 2*sources.HistoryEvery:
			return "since " + at + " or up to " + text.Age(o.Within) + " before (" + age + "+)", "(" + age + "+)"
		case o.Within > aboutNow:
			return "since about " + at + " (" + age + ")", "(" + age + ")"
		}
		return "since " + at + " (" + age + ")", "(" + age + ")"
	case sources.OverLonger:
		if d.under.After(o.Since) {
			return "", ""
		}
		age := text.Age(sources.HistoryRange)
		return "for longer than " + age, "(" + age + "+)"
	}
	return "", ""
}

// budget is what is left of the retry budget; nil while nothing is known.
func (m *model) budget(d *data, now time.Time) row {
	s := d.state.Value()
	if s == nil {
		return nil
	}
	b := s.RetryBudget
	st := normal
	if b.Available < 1 {
		st = bad
	}
	left := d.state.Number(api.Number{State: api.StateValue, Value: b.Available, At: b.At}, now)
	return row{{"retry budget ", normal}, m.num(left, whole0, st), {" of " + whole0(b.Size), normal}}
}

// spaced sets parts apart; those that are nil are left out.
func spaced(gap string, parts ...row) row {
	var r row
	for _, p := range parts {
		switch {
		case p == nil:
		case r == nil:
			r = p.clip()
		default:
			r = r.add(normal, gap).join(p)
		}
	}
	return r
}

// clip is r with no room behind it: what is added to it is nobody else's.
func (r row) clip() row { return r[:len(r):len(r)] }

// before is a value of one hour ago, in brackets behind today's; nil if nobody
// keeps such values.
func (m *model) before(d *data, now time.Time, of func(*sources.Overview) sources.Reading, format func(float64) string, word string) row {
	if m.ask.metrics == nil {
		return nil
	}
	n := d.metrics.Number(api.Number{}, now)
	if v := d.metrics.Value(); v != nil {
		n = d.reading(of(v), now)
	}
	st := numberStyle(n, normal)
	if n.Dim {
		st = dim
	}
	n.Dim = false // how old Prometheus's samples are is said once, above
	return row{{" (" + word + " ", dim}, {m.number(n, format), st}, {")", dim}}
}

// upstreamRatio and modelRatio are the ratio of one upstream's own requests,
// and of the requests for one model; why says why it is no value.
func (d *data) upstreamRatio(name string, now time.Time) (sources.Number, string) {
	return d.part(func(v *sources.Overview) []sources.RatioRow { return v.PerUpstream }, name, now)
}

func (d *data) modelRatio(name string, now time.Time) (sources.Number, string) {
	return d.part(func(v *sources.Overview) []sources.RatioRow { return v.PerModel }, name, now)
}

func (d *data) part(of func(*sources.Overview) []sources.RatioRow, name string, now time.Time) (sources.Number, string) {
	v := d.metrics.Value()
	if v == nil {
		return d.metrics.Number(api.Number{}, now), ""
	}
	rows := of(v)
	for i := range rows {
		if rows[i].Name == name {
			return d.reading(rows[i].Reading, now), rows[i].Why
		}
	}
	if rows == nil {
		return d.reading(sources.Reading{Number: api.Number{State: sources.StateUnknown, At: v.Sampled}}, now), "not answered"
	}
	return d.reading(sources.Reading{Number: api.Number{State: api.StateNone, At: v.Sampled}}, now), "no series of it"
}

// ratioWindow is what the rates in Prometheus's numbers are taken over.
func (m *model) ratioWindow() string {
	if m.ask.metrics == nil {
		return text.Age(sources.MinWindow)
	}
	return text.Age(m.ask.metrics.Window())
}
